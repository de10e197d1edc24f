"""The options of the pytest plugin: `pytest --tinyref-device pkg.mod:Class`.

`pytest --tinyref-subject torch` tests a library instead.

Every pytest of an environment with tinyref loads this file. So it imports only pytest until one of
the options is used.
"""

from __future__ import annotations

import pytest

# Options that name the library of `--tinyref-subject`, as for `tinyref conform`.
_OF_SUBJECTS = {
    "subject": "test a library instead of a device, as `tinyref conform --subject` does",
    "on": "with --tinyref-subject: its device by its own name",
    "import": "with --tinyref-subject: packages that register the device, separated by commas",
}
_OPTIONS = {
    "second": "the second device of rows that take two",
    "profile": "the profile: quick (default) or full",
    "query": "run only these cases: ids, prefixes or globs, separated by commas",
    "expectations": "a TOML file of known failures, which xfail, and of skips",
    "timeout": "stop a case after this time, such as 90s or 5m (default: 30s)",
}
_DEFAULTS = {"profile": "quick", "query": "*", "timeout": "30s"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; their names begin with `--tinyref-`."""
    group = parser.getgroup("tinyref", "tinyref: the conformance suite, one test for each case")
    group.addoption(
        "--tinyref-device",
        metavar="DEVICE",
        help="the device: a name of `tinyref devices`, or package.module:ClassName",
    )
    for name, text in {**_OF_SUBJECTS, **_OPTIONS}.items():
        group.addoption(f"--tinyref-{name}", default=_DEFAULTS.get(name, ""), help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Register the cases if a device or a library is named."""
    device = config.getoption("tinyref_device")
    library, target, packages = (config.getoption(f"tinyref_{name}") for name in _OF_SUBJECTS)
    if device and library:
        raise pytest.UsageError(
            "tinyref: --tinyref-device and --tinyref-subject exclude each other"
        )
    if device or library:
        from tinyref_conformance.pytest_cases import Cases, Options, declare_marks, name_of_subject

        device = device or name_of_subject(library, target, packages)
        values = {name: config.getoption(f"tinyref_{name}") for name in _OPTIONS}
        config.pluginmanager.register(Cases(Options.parse(device, **values)), "tinyref-cases")
        declare_marks(config)
