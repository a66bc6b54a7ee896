"""The reference of the command line is what the command line says of itself."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest
import typer.main
from typer.cli import get_docs_for_click

from fairspan.cli import app

ROOT = Path(__file__).parents[1]


def pinned(package: str) -> str:
    found = re.search(rf"^{package}==(.+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_reference_is_current() -> None:
    """`make docs` writes it. Other versions of typer word it otherwise."""
    if version("typer") != pinned("typer"):
        pytest.skip(f"the reference is written by typer {pinned('typer')}, and {version('typer')} is installed")
    command = typer.main.get_command(app)
    made = get_docs_for_click(obj=command, ctx=typer.Context(command), name="fairspan")
    written = (ROOT / "docs" / "cli.md").read_text("utf-8")
    assert written.strip() == made.strip(), "docs/cli.md is not what the commands say now: run `make docs`"


def test_every_command_has_examples() -> None:
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    commands = re.split(r"^#{2,3} `fairspan ", text, flags=re.MULTILINE)[1:]
    names = {part.split("`")[0] for part in commands}
    verbs = {"audit", "calibrate", "evaluate", "tune", "collapse", "compare", "inspect", "report", "corpus check"}
    verbs |= {"embed", "serve", "export", "corpus build"}
    assert verbs <= names
    for part in commands:
        name = part.split("`")[0]
        if name != "corpus":
            assert f"    fairspan {name}" in part, name
