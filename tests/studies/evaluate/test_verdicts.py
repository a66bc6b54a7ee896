"""Verdicts of simulated evaluations: the word for all, short and long documents, and what would
decide."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from fairspan.report.frames import to_records
from fairspan.report.text import number, with_ends
from fairspan.report.view import Card
from fairspan.runs.log import RunLog
from fairspan.stats.distributions import holm
from fairspan.stats.estimates import t_estimates
from fairspan.stats.gains import clusters_to_decide
from fairspan.studies.logs import changes
from tests.builders.commands import Run
from tests.builders.searches import is_long, log_of, rows_of

Gains = Mapping[str, tuple[float, float]]
"""What arms gain over plain on short and on long documents."""


def wave(cluster: int, spread: float) -> float:
    """Ups and downs of documents, as many of short as of long ones, with a mean of 0."""
    return spread * (1 if cluster // 2 % 2 else -1)


def searched(
    folder: Path,
    gains: Gains,
    spread: float = 0.005,
    *,
    clusters: int = 40,
    positions: tuple[int, ...] = (1, 2),
    fused: Gains | None = None,
    **changes: Any,
) -> RunLog:
    """Values around .4; where a treatment gains, it gains more and less by turns."""
    arms = {"plain": (0.0, 0.0), **gains}
    arms |= {f"{name}/fused": gain for name, gain in (fused or {}).items()}

    def value(arm: str, metric: str, position: int, cluster: int) -> float:
        gain = arms[arm][is_long(cluster)]
        varied = wave(cluster, spread) if arm not in ("plain", "plain/fused") else 0.0
        return 0.4 + 0.1 * np.sin(cluster) + gain + varied

    rows = rows_of(
        value,
        ("plain", *gains),
        clusters=clusters,
        positions=positions,
        indexes=[(name, "fused") for name in fused or {}],
    )
    return log_of(folder, rows, **changes)


def verdict_of(log: RunLog) -> dict[str, Any]:
    (row,) = log.verdicts.to_dicts()
    return row


LOSS = {"fair": (-0.1, 0.2)}
WORDS = "better for long, worse for short documents"


def test_what_short_documents_lose_is_said_everywhere(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """.2 gained by long documents and .1 lost by short ones are a gain on average."""
    log = searched(tmp_path / "run", LOSS)
    row = verdict_of(log)
    change = log.frame("quality").filter(treatment="fair")["change_estimate"][0]
    assert change == pytest.approx(0.05)
    assert (row["verdict"], row["short"], row["long"]) == (WORDS, "worse", "better")
    told = json.loads(json.dumps(log.to_dict()))
    assert told["verdicts"][0]["verdict"] == WORDS
    (only,) = changes(log)
    assert only.kind == WORDS
    again = log_of(tmp_path / "again", log.rows, run="m-87654321")
    plain_to_fair = changes(log, again, ["plain", "fair"])
    assert [one.kind for one in plain_to_fair] == [WORDS]
    (card,) = [card for card in log.view.cards if card.name == "fair"]
    assert (card.badge, card.tone) == (WORDS, "bad")
    monkeypatch.setattr("fairspan.cli.run_study._outcome", lambda *_: log)
    asked = ("evaluate", "--treatments", "plain,fair", "--fail-if")
    assert run(*asked, "worse").code == run(*asked, "fair:worse").code == 1
    assert run(*asked, "inconclusive").code == 0


@pytest.mark.parametrize(
    ("gain", "spread", "verdict", "short", "long"),
    [
        ((0.1, 0.1), 0.02, "better", "better", "better"),
        ((0.0, 0.1), 0.005, "better", "not worse", "better"),
        ((-0.1, -0.1), 0.02, "worse", "worse", "worse"),
        ((-0.005, 0.1), 0.001, "better", "slightly worse", "better"),
        ((-0.005, -0.005), 0.001, "slightly worse", "slightly worse", "slightly worse"),
        ((0.0, 0.0), 0.005, "not worse", "not worse", "not worse"),
        ((0.0, -0.1), 0.02, "worse for long documents", "not worse", "worse"),
        ((0.0, 0.0), 0.2, "inconclusive", "inconclusive", "inconclusive"),
        ((0.0, 0.0), 0.0, "the same", "the same", "the same"),
    ],
)
def test_the_words(
    tmp_path: Path,
    gain: tuple[float, float],
    spread: float,
    verdict: str,
    short: str,
    long: str,
) -> None:
    row = verdict_of(searched(tmp_path, {"fair": gain}, spread))
    assert (row["verdict"], row["short"], row["long"]) == (verdict, short, long)
    assert row["documents"] == 40


def test_the_margin_decides(tmp_path: Path) -> None:
    """A loss of .02 on average, give or take .003."""
    gains = {"fair": (-0.02, -0.02)}
    strict = searched(tmp_path / "strict", gains, 0.01)
    mild = searched(tmp_path / "mild", gains, 0.01, spec={"margin": 0.05})
    assert verdict_of(strict)["verdict"] == "worse"
    assert verdict_of(mild)["verdict"] == "slightly worse"
    assert [one.kind for one in changes(strict, margin=0.05)] == ["slightly worse"]


def test_sentences_have_the_numbers_of_the_frames(tmp_path: Path) -> None:
    """One line for all documents, one for each length, in this order."""
    log = searched(tmp_path, LOSS)
    (card,) = [card for card in log.view.cards if card.name == "fair"]
    assert card == Card("fair", WORDS, "bad", card.sentences, len(card.sentences))
    assert verdict_of(log)["sentence"] == " ".join(card.sentences)

    def numbers(frame: str, **arm: str) -> str:
        before, after = (
            log.frame(frame).filter(metric="ndcg@10", treatment=name, **arm).row(0, named=True)
            for name in ("plain", "fair")
        )
        means = f"{number(before['estimate'])} → {number(after['estimate'])}"
        change = (after[f"change_{end}"] for end in ("estimate", "low", "high"))
        return f"{means} ({with_ends(*change, form='+.3f')})"

    short = numbers("lengths", length="short documents")
    long = numbers("lengths", length="long documents")
    assert card.sentences[:3] == (
        f"ndcg@10 {numbers('quality')}.",
        f"short documents (at most 512 tokens; 20 documents): {short}, worse.",
        f"long documents (more than 512 tokens; 20 documents): {long}, better.",
    )


def test_documents_of_one_length_have_one_line(tmp_path: Path) -> None:
    """Also if the window is not known."""
    gains = {"fair": (0.1, 0.1)}
    for name, changed in (
        ("long", {"window": 100}),
        ("short", {"window": 9000}),
        ("unknown", {"window": None}),
    ):
        log = searched(tmp_path / name, gains, **changed)
        row = verdict_of(log)
        assert (row["verdict"], row["short"], row["long"]) == ("better", None, None)
        assert "documents (" not in row["sentence"]
        assert ("lengths" in log.view.frames) == (name != "unknown")


# What would decide.


def test_how_many_documents_would_decide(tmp_path: Path) -> None:
    """By the formula on the interval that is shown; asked for as `--sets` if there are more."""
    gains = {"fair": (0.0, 0.0)}
    log = searched(tmp_path / "all", gains, 0.05)
    quality = log.frame("quality").filter(treatment="fair").row(0, named=True)
    half = quality["change_high"] - quality["change_estimate"]
    change = t_estimates([quality["change_estimate"]], [half / stats.t.ppf(0.975, 39)], [39])
    needed = clusters_to_decide(change[0], 40, 0.01)
    row = verdict_of(log)
    assert row["documents_needed"] == needed
    assert needed is not None
    assert 40 < needed < 1000
    assert row["sentence"].endswith(f"40 documents; about {needed} documents would decide it.")
    for there, more in ((5000, ""), (50, " (there are 50)")):
        drawn = searched(tmp_path / str(there), gains, 0.05, drawn_from=there)
        advice = f"40 documents; `--sets {needed}`{more} would decide it."
        assert verdict_of(drawn)["sentence"].endswith(advice)
    # Half of the documents are only in the index, and two languages count as one.
    header = log.header.to_json()
    task = {**header["task"], "documents": 160}
    partly = searched(tmp_path / "partly", gains, 0.05, drawn_from=5000, drawn=80, task=task)
    assert f"`--sets {2 * needed}` would decide it" in verdict_of(partly)["sentence"]


def test_what_needs_no_documents_or_more_than_there_could_be(tmp_path: Path) -> None:
    for name, gain, spread in (("better", 0.1, 0.02), ("worse", -0.1, 0.02), ("not", 0.0, 0.005)):
        row = verdict_of(searched(tmp_path / name, {"fair": (gain, gain)}, spread))
        assert row["documents_needed"] is None
        assert "decide" not in row["sentence"]
    row = verdict_of(
        searched(tmp_path / "never", {"fair": (0.0, 0.0)}, 0.3, spec={"margin": 0.001})
    )
    assert (row["verdict"], row["documents_needed"]) == ("inconclusive", None)
    assert "No realistic number of documents would decide it." in row["sentence"]


def test_queries_of_ones_own_are_counted_in_clusters(tmp_path: Path) -> None:
    gains = {"fair": (0.0, 0.0)}
    log = searched(tmp_path, gains, 0.05, clusters=20, kind="questions")
    row = verdict_of(log)
    assert ", from 20 clusters of queries only." in row["sentence"]
    needed = row["documents_needed"]
    assert f"20 clusters of queries; about {needed} clusters of queries would" in row["sentence"]


def test_few_documents_are_warned_of(tmp_path: Path) -> None:
    for clusters, words in ((28, ", from 28 documents only."), (30, "")):
        log = searched(tmp_path / str(clusters), {"fair": (0.1, 0.1)}, clusters=clusters)
        assert verdict_of(log)["sentence"].count("only.") == bool(words)
        assert words in verdict_of(log)["sentence"]


# Several treatments.


def test_several_treatments_are_corrected_by_holm(tmp_path: Path) -> None:
    """Three gains with p between .02 and .04 alone: each is "better" beside plain only, and none
    beside the others. The verdicts on short and long documents are not corrected."""
    spreads = {"tiles-16": 0.028, "tiles-32": 0.029, "tiles-64": 0.03}

    def value(arm: str, metric: str, position: int, cluster: int) -> float:
        return 0.4 + (0.01 + wave(cluster, spreads[arm]) if arm in spreads else 0.0)

    rows = rows_of(value, ("plain", *spreads), positions=(1,))
    together = log_of(tmp_path / "all", rows)
    alone = {}
    for name in spreads:
        log = log_of(tmp_path / name, rows.filter(rows["treatment"].is_in(["plain", name])))
        assert verdict_of(log)["verdict"] == "better"
        alone[name] = log.frame("quality").filter(treatment=name)["change_p"][0]
    assert all(0.02 < p < 0.05 for p in alone.values()), "the premise"
    others = together.frame("quality").filter(pl.col("treatment") != "plain")
    p_values = others["change_p"].to_list()
    assert p_values == pytest.approx(holm([*alone.values()]).tolist())
    assert together.verdicts["verdict"].to_list() == ["not worse"] * 3
    assert [one.kind for one in changes(together)] == ["not worse"] * 3


# References.


@pytest.mark.parametrize(
    ("gain", "said"),
    [(0.15, "."), (0.05, ", less than half of the gain is left."), (0.0, ", no gain is shown.")],
)
def test_beside_keywords(tmp_path: Path, gain: float, said: str) -> None:
    """Both fused with keywords, where vectors alone gain .2."""
    fused = {"plain": (0.1, 0.1), "fair": (0.1 + gain, 0.1 + gain)}
    log = searched(tmp_path, {"fair": (0.2, 0.2)}, 0.02, fused=fused)
    (words,) = [one for one in log.view.cards[1].sentences if one.startswith("Beside keywords: ")]
    assert words.endswith(f"){said}")
    # References are no part of the verdict, nor of the correction.
    assert log.verdicts["treatment"].to_list() == ["fair"]
    by_index = {
        row["index"]: row for row in log.frame("quality").filter(treatment="fair").to_dicts()
    }
    assert by_index["fused"]["change_p"] is None
    assert by_index["fused"]["change_estimate"] == pytest.approx(gain)
    assert by_index["whole"]["change_p"] is not None


def test_without_a_gain_of_vectors_nothing_is_said_of_what_is_left(tmp_path: Path) -> None:
    fused = {"plain": (0.1, 0.1), "fair": (0.1, 0.1)}
    log = searched(tmp_path, {"fair": (0.0, 0.0)}, 0.02, fused=fused)
    (words,) = [one for one in log.view.cards[1].sentences if one.startswith("Beside keywords: ")]
    assert words.endswith("]).")


@pytest.mark.parametrize(
    ("changed", "gain", "said"),
    [
        (0, 0.0, "No document has another vector, so nothing can change."),
        (0, 0.1, "No document has another vector, only queries differ."),
        (7, 0.1, "7 of 40 documents have another vector."),
        (40, 0.1, ""),
        (None, 0.1, ""),
    ],
)
def test_how_many_documents_can_change(
    tmp_path: Path, changed: int | None, gain: float, said: str
) -> None:
    fair, spread = {"fair": (gain, gain)}, 0.005 * bool(gain)
    log = searched(tmp_path / "one", fair, spread)
    costs = [
        {**cost, "changed": changed if cost["treatment"] == "fair" else None}
        for cost in log.header.to_json()["study"]["costs"]
    ]
    row = verdict_of(searched(tmp_path / "two", fair, spread, costs=costs))
    assert ("another vector" in row["sentence"]) == bool(said)
    assert row["sentence"].endswith(said)


def test_one_treatment_has_no_verdict(tmp_path: Path) -> None:
    log = searched(tmp_path, {})
    assert log.verdicts.is_empty()
    assert to_records(log.verdicts) == []
