"""The command line: results on stdout, progress on stderr, errors in one line with exit code 2."""

import sys
import warnings
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from fairspan import __version__
from fairspan.calibration.calibration import LEAVE_PLAIN
from fairspan.cli.plain import write_plainly
from fairspan.errors import DesignError, FairspanError
from fairspan.report.text import printable

# Modules and their commands, in the order of `--help`.
_COMMANDS = (
    "audit:audit models:calibrate studies:evaluate studies:tune studies:collapse runs:compare "
    "inspect:inspect embed:embed serve:serve models:export runs:report completion:completion"
)
# No prompt in place of the model's own, and no title.
_MAY_BE_EMPTY = ("--prompt", "--query-prompt", "--title")

app = App(
    name="fairspan",
    help="Measure and repair how fairly one vector represents every part of a long text.",
    help_flags="--help",
    help_format="plaintext",
    version=f"fairspan {__version__}",
    version_flags="--version",
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
)
for flag in ("--help", "--version"):
    app[flag].group = "Options"
for place, path in enumerate(_COMMANDS.split()):
    # A command is imported when it is used.
    app.command(f"fairspan.cli.{path}", name=path.partition(":")[2], sort_key=place)


def refuse_empty(typed: Sequence[str]) -> None:
    """Raise on an empty word: usually a variable of a script that is not set.

    It would pass for the working folder.
    """
    for before, word in zip(["", *typed], typed, strict=False):
        option = before
        is_empty = not word.strip()
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            is_empty = bool(equals) and not value.strip()
        if not is_empty or option in _MAY_BE_EMPTY:
            continue
        if option.startswith("--"):
            raise DesignError(f"{option} is empty: give it a value, or omit it.")
        raise DesignError(
            "there is an empty word in the command: remove it, or put a name in its place."
        )


def main() -> None:
    """The `fairspan` command."""
    write_plainly()
    # The dtype was asked for, or weights are saved as they are.
    warnings.filterwarnings("ignore", "the model is in b?float16")
    typed = sys.argv[1:]
    try:
        refuse_empty(typed)
        if typed in ([], ["--help"]):
            app.resolved_commands()  # the list of commands has the first line of each
        if len(typed) == 2 and typed[0] in app and typed[1] == "--help":
            app.help_print(typed[:1])  # without parsing the command, which takes as long
        else:
            app(typed)
    except (FairspanError, CycloptsError) as error:
        # A value that fairspan refused while it was read.
        reason = error.__cause__ if isinstance(error.__cause__, FairspanError) else error
        line = str(reason).replace("\n", " ").replace(LEAVE_PLAIN, "--preset plain")
        print("fairspan:", printable(line), file=sys.stderr)
        sys.exit(2)
