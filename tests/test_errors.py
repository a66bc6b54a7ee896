"""Messages that name an option once and are read in Python and on the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from fairspan.cli import app
from fairspan.errors import CorpusError, DesignError, FairspanError, require_list, require_whole

SOURCE = Path(__file__).parents[1] / "src" / "fairspan"


@pytest.mark.parametrize(
    ("message", "in_python", "typed"),
    [
        ("choose another with [[out=]].", "choose another with out=.", "choose another with --out."),
        ("[[chunk_tokens]] must be", "chunk_tokens must be", "--chunk-tokens must be"),
        ("try [[too_long=shorten]]", 'try too_long="shorten"', "try --too-long shorten"),
        ("name [[languages=en,]]", 'name languages=["en"]', "name --languages en"),
        ("name [[languages=en,de]]", 'name languages=["en", "de"]', "name --languages en,de"),
        ("take [[partial=True]].", "take partial=True.", "take --partial."),
        ("use [[parts=2]] or [[margin=0.5]]", "use parts=2 or margin=0.5", "use --parts 2 or --margin 0.5"),
        # Neither a schedule of temperatures nor a table of TOML is an option.
        ("such as [[400, 0.9]], got [[ run ]]", "such as [[400, 0.9]], got [[ run ]]", None),
    ],
)
def test_an_option_is_named_as_its_reader_writes_it(message: str, in_python: str, typed: str | None) -> None:
    error = CorpusError(message)
    assert str(error) == in_python
    assert error.for_command_line == (message if typed is None else typed)


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "3", None])
def test_a_whole_number(value: object) -> None:
    with pytest.raises(DesignError, match="batch_tokens must be a whole number of at least 1, got") as caught:
        require_whole("batch_tokens", value)
    assert caught.value.for_command_line.startswith("--batch-tokens must be")
    require_whole("batch_tokens", 1)


@pytest.mark.parametrize("value", ["en", 5, None])
def test_a_list(value: object) -> None:
    with pytest.raises(FairspanError, match=r"languages must be a list, such as \['en'\], got"):
        require_list("languages", value, "['en']")
    require_list("languages", ("en",), "['en']")


def test_no_message_of_the_library_names_an_option_of_the_command_line() -> None:
    option = re.compile(r"(?<![\w-])--[a-z]{3}|in Python,")
    # What a server says is for its clients, and names the options that it was started with.
    rooms = ("cli", "published", "serving")
    files = [file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts[0] not in rooms]
    found = [
        f"{file.name}: {line.strip()}"
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if file.name != "errors.py" and option.search(line)
    ]
    assert not found


def raised() -> Iterator[tuple[str, str]]:
    """Where each message of an error is raised, and the message without what is filled in and without options.

    What is filled in stands as §, and an option in double brackets is gone.
    """
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                continue
            for text in [*node.exc.args, *(keyword.value for keyword in node.exc.keywords)]:
                parts = [one for one in ast.walk(text) if isinstance(one, ast.JoinedStr)] or [text]
                whole = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "§"
                    for one in parts[:1]
                    for part in (one.values if isinstance(one, ast.JoinedStr) else [one])
                )
                yield f"{file.relative_to(SOURCE)}:{node.lineno}", re.sub(r"\[\[[^\[\]]*\]\]", "", whole)


# Rooms whose messages the options of a study can cause.
ROOMS = ("corpus", "design", "retrieval", "runs", "studies")
# Neither an option nor Python: the size of a document, a treatment's field, a key of a file.
ALLOWED = re.compile(r"\bn=|\w\+\w+=|tile_size=")


def options() -> set[str]:
    """Every option of every study's command, as Python writes it."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return {one.name for verb in ("audit", "collapse", "evaluate", "inspect") for one in commands[verb].params}


def test_errors_do_not_speak_python() -> None:
    """On the command line nobody knows keywords, lists of Python or the functions behind a command."""
    known = options()
    assert {"too_long", "opening", "languages"} <= known, "the premise"
    # What some commands call otherwise, and what only a file of audits can say.
    names = "|".join(sorted(known - {"sizes", "documents"}))
    python = re.compile(
        rf"\b\w+=[§\w'\"\[…]"  # too_long=cut
        r"|\[['\"]"  # ['en']
        r"|\bread_\w+"  # read_beir
        rf"|\b(?:{'|'.join(sorted(one for one in known if '_' in one))})\b"  # max_tokens
        rf"|^(?:{names}) (?:must|is|names|needs|takes)\b"  # margin must be
    )
    found = [
        f"{place}: {message}"
        for place, message in raised()
        if place.startswith(ROOMS) and python.search(ALLOWED.sub("", message))
    ]
    assert found == []


def test_an_error_that_quotes_another_keeps_its_options() -> None:
    """`str(error)` has them as Python writes them, so that the command line would."""
    own = re.compile(r"\b[A-Z]\w*Error\b")
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ExceptHandler) or node.type is None or node.name is None:
                continue
            kinds = set(own.findall(ast.unparse(node.type))) & {
                kind.__name__ for kind in FairspanError.__subclasses__()
            }
            for inner in ast.walk(node) if kinds else ():
                said = ast.unparse(inner) if isinstance(inner, ast.Raise) and inner.exc else ""
                if f"str({node.name})" in said or f"{{{node.name}}}" in said:
                    found.append(f"{file.relative_to(SOURCE)}:{inner.lineno}")
    assert found == []
    quoted = CorpusError(f"here: {CorpusError('use [[too_long=cut]]').message}")
    assert quoted.for_command_line == "here: use --too-long cut"
