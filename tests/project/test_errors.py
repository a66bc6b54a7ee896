"""Errors and the checks that several rooms share; messages name an option by its keyword in
Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairspan.errors import DesignError, FairspanError, require_list, require_whole

SOURCE = Path(__file__).parents[2] / "src" / "fairspan"


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "3", None])
def test_a_whole_number(value: object) -> None:
    with pytest.raises(DesignError, match="batch_tokens must be a whole number of at least 1, got"):
        require_whole("batch_tokens", value)
    require_whole("batch_tokens", 1)


@pytest.mark.parametrize("value", ["en", 5, None])
def test_a_list(value: object) -> None:
    with pytest.raises(FairspanError, match=r"languages must be a list, such as \['en'\], got"):
        require_list("languages", value, "['en']")
    require_list("languages", ("en",), "['en']")


def test_no_message_of_the_library_names_an_option_of_the_command_line() -> None:
    # In backticks it is a command that a study advises.
    option = re.compile(r"(?<![\w`-])--[a-z]{3}|in Python,")
    # What a server says is for its clients, and names the options that it was started with.
    rooms = ("cli", "published", "serving")
    found = [
        f"{file.name}: {line.strip()}"
        for file in SOURCE.rglob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if file.relative_to(SOURCE).parts[0] not in rooms
        and file.name != "errors.py"
        and option.search(line)
    ]
    assert not found
