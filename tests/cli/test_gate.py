"""`--fail-if`: verdicts on changes, and the exit code that a pipeline sees."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from fairspan.runs.log import RunLog
from fairspan.stats.gains import is_worse
from fairspan.studies.logs import changes
from tests.builders import searches
from tests.builders.commands import Run
from tests.builders.simulated import audit_log, simulated_log, simulated_rows


def audited(
    folder: Path, slopes: dict[str, float], plans: Sequence[tuple[str, str]] = (("en", "en"),)
) -> RunLog:
    """Twenty sets of three segments; each position loses a treatment's slope, a tenth more or less
    by set."""
    tables = [
        simulated_rows(
            lambda p, s, b=b: 0.7 - b * p * (1 + 0.1 * (-1) ** s),
            sets=20,
            plan=plan,
            treatment=name,
            noise=0.002,
        )  # type: ignore[misc]
        for name, b in slopes.items()
        for plan in plans
    ]
    return simulated_log(folder, tables, tuple(slopes), run=folder.name)


def searched(folder: Path, gains: dict[str, float | tuple[float, float]]) -> RunLog:
    """Forty documents; a treatment gains over .5, on short and on long ones, by turns more and
    less."""

    def value(name: str, metric: str, position: int, cluster: int) -> float:
        gain = gains[name]
        gain = gain[searches.is_long(cluster)] if isinstance(gain, tuple) else gain
        return 0.5 + gain + (-1) ** (cluster // 2) * 0.02 * (gain != 0)

    rows = searches.rows_of(value, tuple(gains))
    return searches.log_of(folder, rows, run=folder.name)


ExitCode = Callable[[RunLog, str], int]


@pytest.fixture
def exit_code(run: Run, monkeypatch: pytest.MonkeyPatch) -> ExitCode:
    """That of a verb which made this log, with a condition to fail on."""

    def code(log: RunLog, condition: str) -> int:
        monkeypatch.setattr("fairspan.cli.run_study._outcome", lambda *_: log)
        return run(log.verb, "--treatments", "plain,tiles-64,paper", "--fail-if", condition).code

    return code


def test_compare_ends_with_exit_code_one(run: Run, tmp_path: Path) -> None:
    old = searched(tmp_path / "v1", {"plain": 0.1})
    new = searched(tmp_path / "v2", {"plain": 0.0})
    typed = ("compare", old.folder, new.folder, "--fail-if")
    failed = run(*typed, "worse")
    assert failed.code == 1
    assert failed.err.splitlines() == [
        f"fairspan: failed on v1: plain → v2: plain: {changes(old, new)[0].sentence}"
    ]
    assert "v1: plain → v2: plain: worse" in failed.out, "the result is shown as without the option"
    assert run("compare", new.folder, old.folder, "--fail-if", "worse,inconclusive").code == 0
    assert run(*typed, "inconclusive").code == 0
    told = json.loads(run(*typed, "worse", "--json").out)
    assert [verdict["verdict"] for verdict in told["verdicts"]] == ["worse"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("compare v1 v2 --fail-if biased", "fail_if takes worse, inconclusive here, got biased"),
        ("compare v1 v2 --fail-if ,", "fail_if takes worse, inconclusive here, got nothing"),
        ("compare v1 '' --fail-if worse", "OTHER is empty: give it a value, or omit it"),
        ("audit --fail-if bised", "fail_if takes biased, inconclusive, language-biased, "),
        ("audit --fail-if worse", "language-inconclusive here, got worse"),
        (
            "audit --treatments plain --fail-if tiles-64:biased",
            "'tiles-64', which is not one of plain",
        ),
        ("evaluate --treatments plain --fail-if worse", "compares treatments with the first"),
        ("evaluate --fail-if plain:worse", "plain:worse can never be met, since plain is what"),
        (
            "evaluate --treatments paper,fair --fail-if paper:inconclusive",
            "can never be met, since paper is what others are compared with: name another",
        ),
    ],
)
def test_mistakes_are_one_line_before_anything_is_loaded(run: Run, words: str, said: str) -> None:
    done = run(*shlex.split(words))
    done.is_one_line(said)
    assert "loading" not in done.err


def test_the_treatment_that_is_named_decides(tmp_path: Path, exit_code: ExitCode) -> None:
    """One that was not measured is a mistake."""
    log = audited(tmp_path / "pair", {"plain": 0.06, "tiles-64": 0.001})
    named = {"plain": 1, "tiles-64": 0, "paper": 2}
    assert {name: exit_code(log, f"{name}:biased") for name in named} == named


def test_a_run_without_verdicts_does_not_pass(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention has none: that no bias was looked for must not look like that there is none."""
    log = audit_log(tmp_path / "one", treatments=("plain",), measures=["attention"])
    monkeypatch.setattr("fairspan.cli.run_study._outcome", lambda *_: log)
    done = run("audit", "--fail-if", "biased")
    assert done.code == 2
    assert "has no verdicts, which fail_if needs" in done.last


@pytest.mark.parametrize("seed", range(2))
def test_a_search_fails_where_the_printed_verdict_says_so(
    tmp_path: Path, exit_code: ExitCode, seed: int
) -> None:
    """Gains and losses around the margin, other ones for short and for long documents."""
    rng = np.random.default_rng(seed)
    names = ("paper", "tiles-64")
    gains = {name: rng.normal(0, 0.03, 2) for name in names}
    noise = {name: rng.normal(0, rng.choice([0.005, 0.05]), 40) for name in names}

    def value(name: str, metric: str, position: int, cluster: int) -> float:
        return 0.5 + (gains[name][cluster % 2] + noise[name][cluster] if name in gains else 0.0)

    log = searches.log_of(tmp_path, searches.rows_of(value, ("plain", *names)))
    printed = dict(log.verdicts.select("treatment", "verdict").rows())
    assert list(printed) == [*names]
    assert {change.second.treatment: change.kind for change in changes(log)} == printed
    for kind, meets in (("worse", is_worse), ("inconclusive", "inconclusive".__eq__)):
        met = {name: bool(meets(printed[name])) for name in names}
        assert exit_code(log, kind) == any(met.values())
        assert {name: exit_code(log, f"{name}:{kind}") for name in names} == met


def test_what_short_documents_lose_fails_whatever_long_ones_gain(
    tmp_path: Path, exit_code: ExitCode
) -> None:
    log = searched(tmp_path, {"plain": 0.0, "tiles-64": (-0.05, 0.2), "paper": 0.1})
    words = "better for long, worse for short documents"
    assert [one.kind for one in changes(log)] == [words, "better"]
    assert exit_code(log, "worse") == exit_code(log, "tiles-64:worse") == 1
    assert exit_code(log, "paper:worse") == exit_code(log, "inconclusive") == 0


@pytest.mark.parametrize("seed", range(2))
def test_an_audit_fails_where_the_printed_verdicts_say_so(
    tmp_path: Path, exit_code: ExitCode, seed: int
) -> None:
    """Its verdict on each treatment."""
    rng = np.random.default_rng(seed)
    slopes = dict(zip(("plain", "paper", "tiles-64"), rng.uniform(0, 0.03, 3), strict=True))
    log = audited(tmp_path, slopes, [("en", "en"), ("de", "de")])
    printed = dict(log.verdicts.select("treatment", "verdict").rows())
    for kind in ("biased", "inconclusive"):
        assert exit_code(log, kind) == int(kind in printed.values())
        for name, verdict in printed.items():
            assert exit_code(log, f"{name}:{kind}") == int(verdict == kind)
