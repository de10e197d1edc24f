"""Run one command; each way to end has an exit code and at most one clear line."""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tinyref import __version__, config
from tinyref.cli.options import fill_values
from tinyref.cli.terminal import discard_output, plain_streams
from tinyref.errors import TinyrefError, UserError, VerifyError, vendors_error
from tinyref.sources import docstring

# Set by the script that `tinyref --install-completion` gives to a shell.
COMPLETION = "_TINYREF_COMPLETE"
EXIT_FAILURES = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 70  # EX_SOFTWARE of sysexits.h
EXIT_INTERRUPTED = 130  # 128 + SIGINT
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE
# No space, no quota, a limit of sizes, a disk or a terminal that is gone: not of our making.
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
# What the machine has no more of for this process, and what to do.
SHORTAGES = {
    errno.EMFILE: "raise its limit, as by ulimit -n 1024",
    errno.ENFILE: "close other programs: the system has no more files to open",
    errno.EAGAIN: "raise the limit of processes, as by ulimit -u, or ask for fewer --jobs",
    errno.ENOMEM: "close other programs, or ask for fewer --jobs",
}
# A file or folder that somebody removed, or that this user may not touch, in the meantime.
PATH_ERRORS = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ESTALE,
)


def run(arguments: Sequence[str], began: float | None = None) -> int:
    """Run the command and return its exit code. A traceback is printed only on request.

    began: the start of the command by `time.monotonic`, from which a budget counts (default: now).
    """
    if began is None:
        began = time.monotonic()
    with plain_streams():
        return _run_command(arguments, began)


def _run_command(arguments: Sequence[str], began: float) -> int:
    return answered(lambda: _run(arguments, began), arguments)


def answered(command: Callable[[], int], arguments: Sequence[str]) -> int:
    """Return the exit code of a command; what it raises becomes a code and a line."""
    try:
        return command()
    except BrokenPipeError:
        # The reader has had enough. Nothing more may be written, not even at exit.
        discard_output(1)
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        print("tinyref: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except VerifyError as error:
        return _report_bug(error, arguments)
    except TinyrefError as error:
        if vendors_error(error) is None:
            return _report_error(error)
        # All of it: the vendor is to see where in the backend it was.
        print(f"tinyref: error: {error}", file=sys.stderr)
        return EXIT_FAILURES
    except OSError as error:
        words = _words_of_system(error)
        if words is None:
            return _report_bug(error, arguments)
        if error.errno in DISK_ERRORS:
            discard_output(1)
        return _report_error(UserError(words))
    except Exception as error:  # anything not raised on purpose is a bug, and says so
        return _report_bug(error, arguments)


def _words_of_system(error: OSError) -> str | None:
    """Return what the system refused, and what to do; None for an error that is a bug of ours."""
    if error.errno in DISK_ERRORS:
        where = error.filename or "what the command prints"
        return f"cannot write {where}: {error.strerror}"
    if error.errno in SHORTAGES:
        return f"{os.strerror(error.errno)}: {SHORTAGES[error.errno]}"
    if "usable temporary directory" in str(error.strerror):
        return f"{error.strerror}: name one that can be written by TMPDIR"
    ours = Path(__file__).resolve().parents[2]
    if error.errno not in PATH_ERRORS or error.filename is None:
        return None
    path = Path(os.fsdecode(error.filename)).absolute()
    return None if path.is_relative_to(ours) else f"{path}: {error.strerror}"


def _run(arguments: Sequence[str], began: float) -> int:
    import typer

    from tinyref.cli.app import app

    config.check_environment()
    find_backends_here()
    command = typer.main.get_command(app)
    _refuse_repeats(command)
    if sys.flags.optimize > 1:
        _restore_help(command)
    usage_errors = _usage_errors()
    try:
        code = command.main(list(arguments), prog_name="tinyref", standalone_mode=False, obj=began)
    except SystemExit as error:
        # Not standalone, typer leaves so where it completes for a shell, and else for one reason:
        # nobody reads the output any more.
        if error.code and COMPLETION not in os.environ:
            raise BrokenPipeError from error
        code = error.code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.Exit as error:
        code = error.exit_code
    except usage_errors as error:
        error.show()  # type: ignore[attr-defined]  # the class is found at run time
        code = EXIT_USAGE
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def _refuse_repeats(command: Any) -> None:
    """Refuse an option that is given twice; otherwise only the last one would count.

    Options without their optional value get it here. `command` is of typer's own copy of click or
    of click; all commands below it are treated too.
    """
    for below in getattr(command, "commands", {}).values():
        _refuse_repeats(below)
    make_parser = command.make_parser

    def strict_parser(context: Any) -> Any:
        parser = make_parser(context)
        parse_args = parser.parse_args

        def parse(args: list[str]) -> Any:
            parsed = parse_args(args=fill_values(args))
            if context.resilient_parsing:
                return parsed  # a shell asks how the line may go on
            for parameter, times in Counter(parsed[-1]).items():
                is_value = parameter.param_type_name == "option" and not parameter.is_flag
                if is_value and not parameter.multiple and times > 1:
                    name = max(parameter.opts, key=len)
                    context.fail(f"{name} is given {times} times: accepted is once")
            return parsed

        parser.parse_args = parse
        return parser

    command.make_parser = strict_parser


def _restore_help(command: Any) -> None:
    """Give commands the help texts that `python -OO` drops with the docstrings."""
    for below in getattr(command, "commands", {}).values():
        _restore_help(below)
    if command.help is None and command.callback is not None:
        command.help = docstring(command.callback)


def find_backends_here() -> None:
    """Add the working folder to the path: a backend there need not be installed."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        return  # The folder was removed.
    if folder not in sys.path:
        sys.path.append(folder)


def _usage_errors() -> type[Exception]:
    """Return the base of all errors of usage: of click, or of typer's own copy of click."""
    import typer

    bases = typer.BadParameter.__mro__
    return next(base for base in bases if base.__name__ == "ClickException")


def _report_error(error: TinyrefError) -> int:
    if _wants_traceback():
        traceback.print_exception(error)
        return EXIT_USAGE
    words = str(error).strip()
    first, _, rest = words.partition("\n")
    print(f"tinyref: error: {first or f'{type(error).__name__} without words'}", file=sys.stderr)
    if rest or not words:
        print("tinyref: TINYREF_TRACEBACK=1 shows all of it", file=sys.stderr)
    return EXIT_USAGE


def _wants_traceback() -> bool:
    try:
        return config.integer("TRACEBACK") != 0
    except TinyrefError:
        return False


def _report_bug(error: Exception, arguments: Sequence[str]) -> int:
    if _wants_traceback():
        traceback.print_exception(error)
    saved = _save_case(error, arguments)
    first = (str(error).strip() or "no message").partition("\n")[0]
    print(
        f"tinyref: this is a bug in tinyref, not in what you asked: {type(error).__name__}: "
        f"{first}. The case is saved at {saved}; please attach that file to a report. "
        "TINYREF_TRACEBACK=1 shows where it happened.",
        file=sys.stderr,
    )
    return EXIT_INTERNAL


def _save_case(error: Exception, arguments: Sequence[str]) -> str:
    """Write the facts that reproduce the bug, and return the path of the file."""
    import platformdirs

    case = {
        "schema": "tinyref.bug",
        "version": 1,
        "arguments": list(arguments),
        "flags": {k: v for k, v in os.environ.items() if k.startswith("TINYREF_")},
        "traceback": traceback.format_exception(error),
        "tinyref": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    for folder in (Path(platformdirs.user_log_dir("tinyref")), Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(".json", "bug-", folder)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(case, file, indent=1)
        except OSError:
            continue
        return name
    return "(no folder could be written)"
