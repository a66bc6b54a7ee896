"""The command line: results on stdout, progress on stderr, errors in one line with exit code 2."""

import os
import sys
import warnings
from io import TextIOWrapper
from typing import Any

from cyclopts import App, ArgumentCollection, CycloptsError, Parameter

from fairspan import __version__
from fairspan.calibration.calibration import LEAVE_PLAIN
from fairspan.errors import DesignError, FairspanError
from fairspan.report.text import printable

# Modules and their commands, in the order of `--help`.
_COMMANDS = (
    "audit:audit models:calibrate studies:evaluate studies:tune studies:collapse runs:compare "
    "inspect:inspect embed:embed serve:serve models:export runs:report completion:completion"
)
# Options that may be empty: no prompt instead of the model's own, and no title.
_MAY_BE_EMPTY = ("--prompt", "--query-prompt", "--title")
_DEBUG = "FAIRSPAN_DEBUG"


def refuse_empty(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Raise on an empty argument, usually an unset variable of a script.

    As a path, it would mean the working folder.
    """
    for argument in arguments:
        is_empty = any(not token.value.strip() for token in argument.tokens)
        if is_empty and not argument.is_flag() and argument.name not in _MAY_BE_EMPTY:
            raise DesignError(f"{argument.name} is empty: give it a value, or omit it.")


app = App(
    name="fairspan",
    help="Measure and repair how fairly one vector represents every part of a long text.",
    help_flags="--help",
    help_format="plaintext",
    help_epilogue="With --debug, any error is shown with its traceback.",
    version=f"fairspan {__version__}",
    version_flags="--version",
    config=refuse_empty,
    # The last one counts, so that a script can add to a command.
    default_parameter=Parameter(
        allow_repeating=True, negative=(), show_choices=False, json_list=False, json_dict=False
    ),
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
)
for flag in ("--help", "--version"):
    app[flag].group = "Options"
for place, path in enumerate(_COMMANDS.split()):
    # A command is imported when it is used.
    app.command(f"fairspan.cli.{path}", name=path.partition(":")[2], sort_key=place)


def write_utf8() -> None:
    """Let stdout and stderr take any text, as Python 3.15 does: results have −, … and █."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")


def main() -> None:
    """The `fairspan` command."""
    write_utf8()
    # Asked for, or only saved.
    warnings.filterwarnings("ignore", "the model is in b?float16")
    words = [word for word in sys.argv[1:] if word != "--debug"]
    if words in ([], ["--help"]):
        app.resolved_commands()  # the list of commands has the first line of each
    try:
        app(words)
    except Exception as error:
        if "--debug" in sys.argv or os.environ.get(_DEBUG):
            import traceback

            traceback.print_exc()
        sys.exit(_report(error))


def _report(error: Exception) -> int:
    """Print an error in one line on stderr, and return the exit code."""
    # A value that fairspan refused while it was read.
    reason: Any = error.__cause__ if isinstance(error.__cause__, FairspanError) else error
    is_mistake = isinstance(reason, FairspanError | CycloptsError)
    line = str(reason).replace("\n", " ").replace(LEAVE_PLAIN, "--preset plain")
    if not isinstance(reason, FairspanError | CycloptsError | OSError):
        line = f"{type(error).__name__}: {line}"
        line = f"this is a fault of fairspan ({line}): run again with --debug and report it."
    print("fairspan:", printable(line), file=sys.stderr)
    return 2 if is_mistake else 1
