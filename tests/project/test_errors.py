"""Errors and the checks that several rooms share; messages name an option by its keyword in
Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairspan.errors import require_list, require_whole
from tests.builders.saying import said_by

SOURCE = Path(__file__).parents[2] / "src" / "fairspan"


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "3", None])
def test_a_whole_number(value: object) -> None:
    said = said_by(require_whole, "batch_tokens", value)
    assert said.startswith("batch_tokens must be a whole number of at least 1, got")
    require_whole("batch_tokens", 1)


@pytest.mark.parametrize("value", ["en", 5, None])
def test_a_list(value: object) -> None:
    said = said_by(require_list, "languages", value, "['en']")
    assert said.startswith("languages must be a list, such as ['en'], got")
    require_list("languages", ("en",), "['en']")


def test_no_message_of_the_library_names_an_option_of_the_command_line() -> None:
    """In backticks it is a command that a study advises. What a server says is for its clients, and
    names the options that it was started with."""
    option = re.compile(r"(?<![\w`-])--[a-z]{3}|in Python,")
    lines = [
        f"{file.name}: {line.strip()}"
        for file in SOURCE.rglob("*.py")
        if file.relative_to(SOURCE).parts[0] not in ("cli", "serving", "errors.py")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    assert not list(filter(option.search, lines))
