"""The pages of measured models are what the files of facts make."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import measured
from scipy import stats
from sentence_transformers import SentenceTransformer

import fairspan


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
    makers = (
        measured.mixed_table,
        measured.vectors_table,
        measured.which_table,
        measured.search_table,
    )
    for made in (make() for make in makers):
        head, _, *rows = made.splitlines()
        assert any(".765" in row for row in rows)
        assert {row.count("|") for row in rows} == {head.count("|")}
    assert "**tiles of 64, every text" in measured.choice_table()
    text = "a\n\n<!-- x -->\n\n| old |\n\nb\n"
    assert measured.with_tables(text, {"x": "| new |\n"}) == text.replace("old", "new")


def test_an_audit_replaces_that_of_the_same_design(
    make_tiny: Callable[..., SentenceTransformer], tmp_path: Path
) -> None:
    log = fairspan.audit(
        make_tiny("bert", "mean"), sizes=[2], sets=4, out=tmp_path / "model", progress=False
    )
    other = {"paragraphs": 5, "tokens": 40.0}
    facts = measured.facts_of_run(tmp_path / "model", {"audits": [other]})
    audit, kept = facts["audits"]
    assert kept == other
    for row in log.frame("families").iter_rows(named=True):
        assert audit["spread"][row["treatment"]][0] == round(row["spread_estimate"], 4)
    assert measured.facts_of_run(tmp_path / "model", facts) == facts


def facts_of(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((measured.FACTS / f"{name}.json").read_text("utf-8"))
    return facts


def readme_figures() -> list[tuple[str, list[float]]]:
    """A pattern for each passage of README that has figures, and what its groups must be."""
    minilm = facts_of("all-MiniLM-L6-v2")
    recall = minilm["demo"]["recall@10"]
    fifths = {
        name: facts_of(name)["tasks"]["essays"]["fifths"]
        for name in ("nomic-embed-text-v1.5", "all-mpnet-base-v2")
    }
    first = [of[name][0] for of in fifths.values() for name in ("fair", "plain")]
    last = [of[name][4] for name in ("fair", "plain") for of in fifths.values()]
    abstracts = [
        facts_of(name)["tasks"]["scifact"]["changes"][measured.FAIR]["all"][0]
        for name in ("gte-small", "nomic-embed-text-v1.5")
    ]
    spreads = [
        facts["audits"][0]["spread"]
        for facts in measured.models()
        if not facts["note"] and facts["model"] != minilm["model"]
    ]
    ends = [end([of[name][0] for of in spreads]) for name in BOTH for end in (min, max)]
    of_five = next(audit for audit in minilm["audits"] if audit["paragraphs"] == 5)["spread"]

    def mean(searched: str, key: str) -> float:
        return float(measured.compared(searched, key))

    keywords = mean("keywords", "long")
    return [
        ("(.) of all passages instead of (.)", [recall["fair"], recall["plain"]]),
        ("every chunk finds (.)", [recall[measured.EACH]]),
        (r"BM25\) find (.);", [recall["keywords"]]),
        ("model finds (.) and fairspan (.)", [recall[f"{name} and keywords"] for name in BOTH]),
        ("nomic finds (.) instead of (.), mpnet (.) instead of (.)", first),
        ("fifth: (.) and (.) instead of (.) and (.)", last),
        ("lose up to (.) with gte-small and nomic", [-min(abstracts)]),
        ("as much .(.) and (.).", [mean(name, "long") for name in ("fair", measured.EACH)]),
        ("more .(.) and (.).", [mean(name, "unrelated") for name in (measured.EACH, "fair")]),
        ("Here abstracts lose (.)", [mean("plain", "abstracts") - mean("fair", "abstracts")]),
        ("`fair` adds (.) on", [mean("fair and keywords", "long") - keywords]),
        ("takes (.) away", [keywords - mean("plain and keywords", "long")]),
        ("spread of (.) instead of (.)", [of_five["fair"][0], of_five["plain"][0]]),
        ("nomic are (.) to (.), and (.) to (.) with", ends),
    ]


BOTH = ("plain", "fair")
FIGURE = r"(?<![\w.])\d*\.\d+(?!\w|\.\d)"


def test_figures_in_readme_are_those_that_were_measured() -> None:
    """All of its prose: tables are made of the files, and Install names versions."""
    prose = measured.README.read_text("utf-8").split("## Install")[0]
    prose = re.sub(r"```.*?```|^\|.*?$|\]\(.*?\)", "", prose, flags=re.DOTALL | re.MULTILINE)
    prose = " ".join(prose.split())
    checked = []
    for pattern, values in readme_figures():
        (shown,) = re.finditer(pattern.replace("(.)", rf"({FIGURE})"), prose)
        for text, value in zip(shown.groups(), values, strict=True):
            decimals = len(text.partition(".")[2])
            assert float(text) == pytest.approx(value, abs=0.5001 * 10**-decimals), pattern
        checked += shown.groups()
    assert sorted(checked) == sorted(re.findall(FIGURE, prose))


def test_readme_names_the_models_of_its_table() -> None:
    means = re.search(r"means over (.*?)\.\s", measured.README.read_text("utf-8"), re.DOTALL)
    assert means
    named = re.split(r",\s*|\s+and\s+", means[1])
    assert sorted(named) == sorted(facts["model"] for facts in measured.with_keywords())


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
