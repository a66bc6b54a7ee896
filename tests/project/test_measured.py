"""The pages of measured models are what the files of facts make."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks import measured
from scipy import stats


def test_pages_are_what_the_facts_make() -> None:
    for page, text in measured.pages().items():
        assert page.read_text("utf-8") == text, "run `python -m benchmarks.measured`"


@pytest.mark.parametrize("file", sorted(measured.FACTS.glob("*.json")), ids=lambda file: file.stem)
def test_facts_name_versions_and_machine_and_no_place(file: Path) -> None:
    facts = json.loads(file.read_text("utf-8"))
    assert facts["machine"]
    assert {"fairspan", "torch", "transformers"} <= facts["versions"].keys()
    assert not re.search(r'[" ](/|\w:\\)', json.dumps(facts))


def test_tables_follow_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [name, *_] = measured.CURVES
    facts = json.loads((measured.FACTS / f"{name}.json").read_text("utf-8"))
    for task in facts["tasks"].values():
        task["means"][measured.FAIR] = [[0.7654] * 3] * 2
        task["parts"]["fair, 1"] = 0.7654
    facts["note"] = ""
    (tmp_path / "model.json").write_text(json.dumps(facts), "utf-8")
    monkeypatch.setattr(measured, "FACTS", tmp_path)
    makers = (measured.gain_table, measured.mixed_table, measured.vectors_table)
    for made in (*(make() for make in makers), measured.which_table(), measured.search_table()):
        head, _, *rows = made.splitlines()
        assert any(".765" in row for row in rows)
        assert {row.count("|") for row in rows} == {head.count("|")}
    assert "**tiles of 64, every text" in measured.choice_table()
    text = "a\n\n<!-- x -->\n\n| old |\n\nb\n"
    assert measured.with_tables(text, {"x": "| new |\n"}) == text.replace("old", "new")


def test_readme_says_of_fifths_what_was_measured() -> None:
    """Of the essays, the first and the last fifth of two models."""
    text = measured.README.read_text("utf-8")
    for name in ("nomic-embed-text-v1.5", "all-mpnet-base-v2"):
        facts = json.loads((measured.FACTS / f"{name}.json").read_text("utf-8"))
        fifths = facts["tasks"]["essays"]["fifths"]
        for figures in (fifths["plain"], fifths["fair"]):
            assert all(measured.short(figures[end]) in text for end in (0, 4))


def test_an_interval_by_hand() -> None:
    """One query per cluster: the t interval of a mean, by scipy. Whole clusters, in a loop."""
    rng = np.random.default_rng(0)
    after, before = rng.normal(0.1, 1, (2, 30))
    mean, low, high = measured.change(after, before, np.arange(30))
    by_scipy = stats.ttest_1samp(after - before, 0).confidence_interval()
    assert (mean, low, high) == pytest.approx(((after - before).mean(), *by_scipy), abs=1e-4)
    cluster = rng.integers(0, 6, 30)
    left_out = np.array([(after - before)[cluster != number].mean() for number in range(6)])
    error = np.sqrt(5 / 6 * ((left_out - left_out.mean()) ** 2).sum())
    mean, low, high = measured.change(after, before, cluster)
    assert (high - low) / 2 == pytest.approx(stats.t.ppf(0.975, 5) * error, abs=1e-4)
