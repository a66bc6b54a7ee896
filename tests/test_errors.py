"""Messages that name an option once and are read in Python and on the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
    files = [file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts[0] not in ("cli", "published")]
    found = [
        f"{file.name}: {line.strip()}"
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if file.name != "errors.py" and option.search(line)
    ]
    assert not found
