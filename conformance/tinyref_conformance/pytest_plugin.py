"""The options of the pytest plugin: `pytest --tinyref-device pkg.mod:Class`.

`pytest --tinyref-subject torch` judges a library instead.

It is loaded by every pytest of an environment where tinyref is installed, so nothing but pytest is
imported here until the option is given.
"""

from __future__ import annotations

import pytest

# What names the library of `--tinyref-subject`, as options of `tinyref conform` do.
_OF_SUBJECTS = {
    "subject": "a library instead of a device, as `tinyref conform --subject` takes it",
    "on": "with --tinyref-subject: its device by its own name",
    "import": "with --tinyref-subject: packages that register the device; commas join",
}
_OPTIONS = {
    "second": "the other device of rows that take two",
    "profile": "how much: quick (if not given) or full",
    "query": "only these cases: ids, prefixes or globs of them; commas join",
    "expectations": "a TOML file of known failures: they xfail, and its skips are skipped",
    "timeout": "stop a case after this time, such as 90s, 5m (30s if not given)",
}
_DEFAULTS = {"profile": "quick", "query": "*", "timeout": "30s"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, all of which begin with `--tinyref-`."""
    group = parser.getgroup("tinyref", "tinyref: the conformance suite on a device, a test a case")
    group.addoption(
        "--tinyref-device",
        metavar="DEVICE",
        help="the device: a name of `tinyref devices`, or package.module:ClassName",
    )
    for name, text in {**_OF_SUBJECTS, **_OPTIONS}.items():
        group.addoption(f"--tinyref-{name}", default=_DEFAULTS.get(name, ""), help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Brings the cases in, where a device or a library is named."""
    device = config.getoption("tinyref_device")
    library, place, packages = (config.getoption(f"tinyref_{name}") for name in _OF_SUBJECTS)
    if device and library:
        raise pytest.UsageError(
            "tinyref: --tinyref-device and --tinyref-subject exclude each other"
        )
    if device or library:
        from tinyref_conformance.pytest_cases import Cases, Options, declare_marks, name_of_subject

        device = device or name_of_subject(library, place, packages)
        values = {name: config.getoption(f"tinyref_{name}") for name in _OPTIONS}
        config.pluginmanager.register(Cases(Options.parse(device, **values)), "tinyref-cases")
        declare_marks(config)
