"""The scripts of papers/ as modules, and what they run on: mteb, a model in a folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.builders.commands import Said
from tests.builders.mteb_tasks import mteb, search  # noqa: F401

PAPERS = Path(__file__).parents[2] / "papers"
sys.path.insert(0, str(PAPERS))

Script = Callable[..., Said]


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Script:
    """Runs a script in this process."""
    from scripting import run

    def call(module: ModuleType, *typed: str | Path) -> Said:
        monkeypatch.setattr(sys, "argv", [f"papers/{module.__name__}.py"])
        capsys.readouterr()
        code = 0
        try:
            run(module.app, list(map(str, typed)))
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Said(code, *capsys.readouterr())

    return call


@pytest.fixture
def model(save_tiny: Callable[..., Path]) -> Path:
    """A tiny model in a folder."""
    return save_tiny("bert", "mean")


def refused(said: Said, reason: str) -> None:
    """A mistake: exit code 2 and one line, after what may be progress."""
    assert (said.code, said.out) == (2, ""), said.err
    assert re.match(r"\w+\.py: ", said.last)
    assert reason in said.last
    assert len(re.findall(r"^\w+\.py: ", said.err, re.MULTILINE)) == 1
