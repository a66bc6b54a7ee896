"""The command line: results on stdout, progress on stderr, errors in one line, exit code 2 for a user's mistake."""

import sys
import warnings
from collections.abc import Sequence

import typer

from fairspan import __version__
from fairspan.cli import corpus
from fairspan.cli.audit import audit
from fairspan.cli.calibrate import calibrate
from fairspan.cli.collapse import collapse
from fairspan.cli.compare import compare
from fairspan.cli.embed import embed
from fairspan.cli.evaluate import evaluate
from fairspan.cli.export import export
from fairspan.cli.inspect import inspect
from fairspan.cli.plain import write_plainly
from fairspan.cli.report import report
from fairspan.cli.serve import serve
from fairspan.cli.tune import tune
from fairspan.errors import DesignError, FairspanError

# No prompt in place of the model's own, and no title.
_MAY_BE_EMPTY = ("--prompt", "--query-prompt", "--title", "--temperatures")

app = typer.Typer(
    name="fairspan",
    help="Measure and repair how fairly one vector represents every part of a long text.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for verb in (
    audit,
    calibrate,
    evaluate,
    tune,
    collapse,
    compare,
    inspect,
    embed,
    serve,
    export,
    report,
):
    app.command()(verb)
app.add_typer(corpus.app, name="corpus")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fairspan {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


def _refuse_empty(typed: Sequence[str]) -> None:
    """An empty word is usually a variable of a script that is not set, and would pass for the working folder."""
    for before, word in zip(["", *typed], typed, strict=False):
        option, given, value = word.partition("=") if word.startswith("--") else (before, "=", word)
        if given and not value.strip() and option not in _MAY_BE_EMPTY:
            raise DesignError(
                f"{option} is empty: give it a value, or omit it."
                if option.startswith("--")
                else "there is an empty word in the command: remove it, or put a name in its place."
            )


def main() -> None:
    """The `fairspan` command."""
    write_plainly()
    # The dtype was asked for, or weights are saved as they are.
    warnings.filterwarnings("ignore", "the model is in b?float16")
    try:
        _refuse_empty(sys.argv[1:])
        app()
    except FairspanError as error:
        typer.echo(f"fairspan: {error}", err=True)
        sys.exit(2)
