"""Errors of users and of fairspan itself: one line each, and with --debug the traceback."""

from __future__ import annotations

from typing import Any

import pytest

from fairspan.errors import DesignError
from tests.builders.commands import Run

FAULT = (
    "fairspan: this is a fault of fairspan (KeyError: 'x'): run again with --debug and report it."
)


@pytest.fixture(params=[KeyError("x"), DesignError("margin is wrong."), OSError(28, "disk full")])
def error(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Exception:
    """What every study ends with."""

    def fail(*args: Any, **options: Any) -> None:
        raise request.param

    monkeypatch.setattr("fairspan.cli.run_study.run_study", fail)
    return request.param


def line_of(error: Exception) -> tuple[int, str]:
    """The exit code and the line of an error."""
    if isinstance(error, KeyError):
        return 1, FAULT
    return (2 if isinstance(error, DesignError) else 1), f"fairspan: {error}"


def test_an_error_is_one_line(run: Run, error: Exception) -> None:
    done = run("audit")
    assert (done.code, done.err.rstrip()) == line_of(error)


@pytest.mark.parametrize("variable", [False, True])
def test_any_error_has_a_traceback_for_who_asks(
    run: Run, error: Exception, monkeypatch: pytest.MonkeyPatch, variable: bool
) -> None:
    """By the option, which may stand anywhere, or by the variable."""
    if variable:
        monkeypatch.setenv("FAIRSPAN_DEBUG", "1")
    done = run(*(["audit"] if variable else ["--debug", "audit"]))
    assert done.err.startswith("Traceback (most recent call last)")
    assert "in fail" in done.err
    assert (done.code, done.last) == line_of(error)
