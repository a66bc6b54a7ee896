"""Errors of users and of fairspan itself: one line each, and with --debug the traceback."""

from __future__ import annotations

from typing import Any

import pytest

from fairspan.errors import DesignError
from tests.builders.commands import Run

FAULT = "this is a fault of fairspan (KeyError: 'x'): run again with --debug and report it."


ERRORS: list[tuple[Exception, int, str]] = [
    (KeyError("x"), 1, FAULT),
    (DesignError("margin is wrong."), 2, "margin is wrong."),
    (OSError(28, "disk full"), 1, "[Errno 28] disk full"),
]


@pytest.mark.parametrize(("error", "code", "line"), ERRORS)
@pytest.mark.parametrize("asked", ["", "option", "variable"])
def test_an_error_is_one_line_and_has_a_traceback_for_who_asks(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, line: str, asked: str
) -> None:
    """By the option, which may stand anywhere, or by the variable."""

    def fail(*args: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr("fairspan.cli.run_study.run_study", fail)
    if asked == "variable":
        monkeypatch.setenv("FAIRSPAN_DEBUG", "1")
    done = run(*(["--debug", "audit"] if asked == "option" else ["audit"]))
    assert (done.code, done.last) == (code, f"fairspan: {line}")
    if asked:
        assert done.err.startswith("Traceback (most recent call last)")
        assert "in fail" in done.err
    else:
        assert done.err.rstrip() == done.last
