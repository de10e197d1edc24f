"""The device table: a row for each conformance run of a pipeline, read strictly from TOML.

ci/devices.toml is one, and explains each key. nox runs a row of it, and `tinyref ci` writes a job
for it. CI reads it before anything is installed, so this file imports only the standard library.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROFILES = ("quick", "full")
# The cases about two devices; all other cases run in a row for each device.
TWO_DEVICES = "system.transfer,system.shard"
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+\-\[\]=<>!~,]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ID = re.compile(r"[a-z0-9][a-z0-9.-]*")


class DeviceTableError(ValueError):
    """An invalid device table: names the row, the key, the value and what is accepted."""


@dataclass(frozen=True)
class DeviceRow:
    """One conformance run. required: without the device, a pipeline fails instead of skipping it.

    second: the second device of a row for two, which runs only the cases about two devices.
    profile, options: of the default lane. thorough: the profile of the thorough lane.
    budget: seconds that the default lane may take on two cores. driver: system libraries;
    one must load before anything is installed. pip, apt: packages that it installs.
    setup: commands that run before it, in `environment` too.
    """

    id: str
    device: str
    profile: str
    budget: int
    needs: str
    required: bool
    second: str = ""
    options: tuple[str, ...] = ()
    thorough: str = "full"
    driver: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    setup: tuple[str, ...] = ()

    @property
    def default_options(self) -> list[str]:
        """Return the options of `tinyref conform` in the default lane; the row's own win."""
        ours = {"--profile": self.profile, **self._query}
        defaults = ((name, value) for name, value in ours.items() if not self._sets(name))
        return [*itertools.chain.from_iterable(defaults), *self.options]

    @property
    def thorough_options(self) -> list[str]:
        """Return the options in the thorough lane, which runs all of a profile."""
        # The longest case takes a minute on two cores with a compiler that does not optimise, as
        # tcc. So does a case of the quick profile on a simulator if the machine is busy.
        options = {"--profile": self.thorough, **self._query, "--timeout": "4m"}
        return list(itertools.chain.from_iterable(options.items()))

    @property
    def devices(self) -> list[str]:
        """Return the names of the devices, one or two."""
        return [self.device, *filter(None, [self.second])]

    @property
    def _query(self) -> dict[str, str]:
        return {"--query": TWO_DEVICES} if self.second else {}

    def _sets(self, option: str) -> bool:
        return any(word == option or word.startswith(f"{option}=") for word in self.options)


def read(path: Path) -> list[DeviceRow]:
    """Return the rows of a device table. Raises `DeviceTableError`."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeviceTableError(f"{path.name} is not TOML: {error}") from error
    except RecursionError:
        raise DeviceTableError(f"{path.name} is not TOML: nested too deeply") from None
    _check_keys(data, ("device",), path.name)
    raw = data.get("device")
    if not isinstance(raw, list) or not raw:
        raise DeviceTableError(f"{path.name}: write rows as [[device]], at least one")
    rows = [_row(table, f"{path.name}: row {number}") for number, table in enumerate(raw, 1)]
    ids = [row.id for row in rows]
    for name in ids:
        if ids.count(name) > 1:
            raise DeviceTableError(f"{path.name}: id {name!r} is there twice")
    return rows


def _row(raw: dict[str, Any], where: str) -> DeviceRow:
    if isinstance(raw.get("id"), str):
        where = f"{where} ({raw['id']})"
    known = ("id", "device", "profile", "budget", "needs", "required")
    optional = ("devices", "options", "thorough", "driver", "install", "environment", "setup")
    _check_keys(raw, (*known, *optional), where)
    first, second = _devices(raw, where)
    install = _table(raw, "install", where)
    _check_keys(install, ("pip", "apt"), f"{where}: install")
    environment = _table(raw, "environment", where)
    for name, value in environment.items():
        is_right = _VARIABLE.fullmatch(name) and isinstance(value, str)
        _check(is_right, f"{where}: environment {name} =", value, "are names with texts")
    budget, required = raw.get("budget"), raw.get("required")
    is_right = type(budget) is int and budget >= 1
    _check(is_right, f"{where}: budget", budget, "are whole seconds, at least 1")
    _check(isinstance(required, bool), f"{where}: required", required, "are true, false")
    return DeviceRow(
        id=_named(_text(raw, "id", where), _ID, f"{where}: id"),
        device=first,
        second=second,
        profile=_profile(_text(raw, "profile", where), f"{where}: profile"),
        budget=raw["budget"],
        needs=_text(raw, "needs", where),
        required=raw["required"],
        options=_texts(raw, "options", where),
        thorough=_profile(raw.get("thorough", "full"), f"{where}: thorough"),
        driver=_texts(raw, "driver", where),
        pip=_packages(install, "pip", where),
        apt=_packages(install, "apt", where),
        environment=tuple(environment.items()),
        setup=_texts(raw, "setup", where),
    )


def _devices(raw: dict[str, Any], where: str) -> tuple[str, str]:
    """Return the device of a row, and the second device of a row for two."""
    if "devices" not in raw:
        return _text(raw, "device", where), ""
    names = _texts(raw, "devices", where)
    is_right = "device" not in raw and len(names) == 2
    _check(is_right, f"{where}: devices", list(names), "are two, and no device")
    return names[0], names[1]


def _check(is_right: object, where: str, value: Any, accepted: str) -> None:
    if not is_right:
        raise DeviceTableError(f"{where} {value!r}: accepted {accepted}")


def _check_keys(table: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    if not isinstance(table, dict):
        raise DeviceTableError(f"{where}: got {table!r}, accepted is a table")
    for key in sorted(set(table) - set(known)):
        _check(False, f"{where}: unknown key", key, f"are {', '.join(known)}")


def _table(raw: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    table: dict[str, Any] = raw.get(key, {})
    _check(isinstance(table, dict), f"{where}: {key}", table, "is a table")
    return table


def _text(raw: dict[str, Any], key: str, where: str) -> str:
    value = raw.get(key)
    is_right = isinstance(value, str) and value.strip()
    _check(is_right, f"{where}: {key}", value, "is a text, and it is mandatory")
    return str(value)


def _texts(raw: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    texts = raw.get(key, [])
    is_right = isinstance(texts, list) and all(isinstance(text, str) and text for text in texts)
    _check(is_right, f"{where}: {key}", texts, "is a list of texts")
    return tuple(texts)


def _profile(name: Any, where: str) -> str:
    _check(name in PROFILES, where, name, f"are {', '.join(PROFILES)}")
    return str(name)


def _packages(install: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    names = _texts(install, key, f"{where}: install")
    return tuple(_named(name, _PACKAGE, f"{where}: install: {key}") for name in names)


def _named(text: str, pattern: re.Pattern[str], where: str) -> str:
    _check(pattern.fullmatch(text), where, text, f"is {pattern.pattern}")
    return text
