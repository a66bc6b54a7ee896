"""Verdicts of simulated evaluations: the word for all, short and long documents, and what would
decide."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from fairspan.report.text import number, with_ends
from fairspan.report.view import Card
from fairspan.runs.log import RunLog
from fairspan.stats.distributions import holm
from fairspan.stats.estimates import t_estimates
from fairspan.stats.gains import clusters_to_decide
from fairspan.studies.logs import changes
from tests.builders.searches import is_long, log_of, rows_of
from tests.builders.simulated import with_study

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
    fused: Gains | None = None,
    **changes: Any,
) -> RunLog:
    """Values around .4; where a treatment gains, it gains more and less by turns."""
    arms = {"plain": (0.0, 0.0), **gains}
    arms |= {f"{name}/fused": gain for name, gain in (fused or {}).items()}

    def value(arm: str, metric: str, position: int, cluster: int) -> float:
        varied = wave(cluster, spread) if arm not in ("plain", "plain/fused") else 0.0
        return 0.4 + 0.1 * np.sin(cluster) + arms[arm][is_long(cluster)] + varied

    indexes = [(name, "fused") for name in fused or {}]
    rows = rows_of(value, ("plain", *gains), clusters=clusters, positions=(1, 2), indexes=indexes)
    return log_of(folder, rows, **changes)


def verdict_of(
    folder: Path, gain: float | tuple[float, float] = 0.0, spread: float = 0.005, **changes: Any
) -> dict[str, Any]:
    """The verdict on fair."""
    gains = gain if isinstance(gain, tuple) else (gain, gain)
    (row,) = searched(folder, {"fair": gains}, spread, **changes).verdicts.to_dicts()
    return row


WORDS = "better for long, worse for short documents"


def test_what_short_documents_lose_is_said_everywhere(tmp_path: Path) -> None:
    """.2 gained by long documents and .1 lost by short ones are a gain on average. One line for all
    documents, one for each length, in this order, with the numbers of the frames."""
    log = searched(tmp_path / "run", {"fair": (-0.1, 0.2)})
    change = log.frame("quality").filter(treatment="fair")["change_estimate"][0]
    assert change == pytest.approx(0.05)
    (row,) = log.to_dict()["verdicts"]
    assert (row["verdict"], row["short"], row["long"]) == (WORDS, "worse", "better")
    again = log_of(tmp_path / "again", log.rows, run="m-87654321")
    for comparison in (changes(log), changes(log, again, ["plain", "fair"])):
        assert [one.kind for one in comparison] == [WORDS]
    (card,) = [card for card in log.view.cards if card.name == "fair"]
    assert card == Card("fair", WORDS, "bad", card.sentences, len(card.sentences))
    assert row["sentence"] == " ".join(card.sentences)

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


@pytest.mark.parametrize(
    ("gain", "spread", "verdict", "short", "long", "tone"),
    [
        ((0.0, 0.1), 0.005, "better", "not worse", "better", "good"),
        ((-0.1, -0.1), 0.02, "worse", "worse", "worse", "bad"),
        ((-0.005, 0.1), 0.001, "better", "slightly worse", "better", "good"),
        ((-0.005, -0.005), 0.001, "slightly worse", "slightly worse", "slightly worse", "plain"),
        ((0.0, -0.1), 0.02, "worse for long documents", "not worse", "worse", "bad"),
        ((0.0, 0.0), 0.2, "inconclusive", "inconclusive", "inconclusive", "open"),
        ((0.0, 0.0), 0.0, "the same", "the same", "the same", "plain"),
    ],
)
def test_the_words(
    tmp_path: Path,
    gain: tuple[float, float],
    spread: float,
    verdict: str,
    short: str,
    long: str,
    tone: str,
) -> None:
    log = searched(tmp_path, {"fair": gain}, spread)
    (row,) = log.verdicts.to_dicts()
    assert log.view.cards[1].tone == tone
    assert (row["verdict"], row["short"], row["long"]) == (verdict, short, long)
    assert row["documents"] == 40
    is_open = verdict == "inconclusive"
    assert (row["documents_needed"] is not None) == is_open == ("decide" in row["sentence"])


def test_the_margin_decides(tmp_path: Path) -> None:
    """A loss of .02 on average, give or take .003."""
    log = searched(tmp_path, {"fair": (-0.02, -0.02)}, 0.01)
    assert log.verdicts["verdict"].to_list() == ["worse"]
    for margin, word in ((0.01, "worse"), (0.05, "slightly worse")):
        assert [change.kind for change in changes(log, margin=margin)] == [word]


@pytest.mark.parametrize("window", [100, 9000, None])
def test_documents_of_one_length_have_one_line(tmp_path: Path, window: int | None) -> None:
    """Also if the window is not known."""
    log = searched(tmp_path, {"fair": (0.1, 0.1)}, window=window)
    (row,) = log.verdicts.to_dicts()
    assert (row["verdict"], row["short"], row["long"]) == ("better", None, None)
    assert "documents (" not in row["sentence"]
    assert ("lengths" in log.view.frames) == (window is not None)


def test_how_many_documents_would_decide(tmp_path: Path) -> None:
    """By the formula on the interval that is shown; asked for as `--sets` if there are more."""
    log = searched(tmp_path / "all", {"fair": (0.0, 0.0)}, 0.05)
    quality = log.frame("quality").filter(treatment="fair").row(0, named=True)
    half = quality["change_high"] - quality["change_estimate"]
    change = t_estimates([quality["change_estimate"]], [half / stats.t.ppf(0.975, 39)], [39])
    needed = clusters_to_decide(change[0], 40, 0.01)
    (row,) = log.verdicts.to_dicts()
    assert row["documents_needed"] == needed
    assert needed is not None
    assert 40 < needed < 1000
    assert row["sentence"].endswith(f"40 documents; about {needed} documents would decide it.")
    # Half of the documents are only in the index, and two languages count as one.
    task = {**log.header.to_json()["task"], "documents": 160}
    for name, drawn, advice in (
        ("more", {"drawn_from": 5000}, f"`--sets {needed}` would"),
        ("few", {"drawn_from": 50}, f"`--sets {needed}` (there are 50) would"),
        ("part", {"drawn_from": 5000, "drawn": 80, "task": task}, f"`--sets {2 * needed}` would"),
    ):
        row = verdict_of(tmp_path / name, 0.0, 0.05, **drawn)
        assert row["sentence"].endswith(f"40 documents; {advice} decide it.")


def test_more_documents_than_there_could_be(tmp_path: Path) -> None:
    row = verdict_of(tmp_path, 0.0, 0.3, spec={"margin": 0.001})
    assert (row["verdict"], row["documents_needed"]) == ("inconclusive", None)
    assert "No realistic number of documents would decide it." in row["sentence"]


def test_queries_of_ones_own_are_counted_in_clusters(tmp_path: Path) -> None:
    row = verdict_of(tmp_path, 0.0, 0.05, clusters=20, kind="questions")
    assert ", from 20 clusters of queries only." in row["sentence"]
    needed = row["documents_needed"]
    assert f"20 clusters of queries; about {needed} clusters of queries would" in row["sentence"]


def test_few_documents_are_warned_of(tmp_path: Path) -> None:
    few, enough = (verdict_of(tmp_path / str(n), 0.1, clusters=n)["sentence"] for n in (28, 30))
    assert ", from 28 documents only." in few
    assert "only." not in enough


def test_several_treatments_are_corrected_by_holm(tmp_path: Path) -> None:
    """Three gains of .01 ± the spread of 40 documents, with p between .02 and .05 alone."""
    spreads = {"tiles-16": 0.028, "tiles-32": 0.029, "tiles-64": 0.03}

    def value(arm: str, metric: str, position: int, cluster: int) -> float:
        return 0.4 + (0.01 + wave(cluster, spreads[arm]) if arm in spreads else 0.0)

    log = log_of(tmp_path, rows_of(value, ("plain", *spreads), positions=(1,)))
    alone = [2 * stats.t.sf(0.01 * 39**0.5 / spread, 39) for spread in spreads.values()]
    assert all(0.02 < p < 0.05 for p in alone), "the premise"
    others = log.frame("quality").filter(pl.col("treatment") != "plain")
    assert others["change_p"].to_list() == pytest.approx(holm(alone).tolist())
    assert log.verdicts["verdict"].to_list() == ["not worse"] * 3
    assert [one.kind for one in changes(log)] == ["not worse"] * 3


@pytest.mark.parametrize(
    ("alone", "gain", "said"),
    [
        (0.2, 0.15, "])."),
        (0.2, 0.05, "]), less than half of the gain is left."),
        (0.2, 0.0, "]), no gain is shown."),
        (0.0, 0.0, "])."),
    ],
)
def test_beside_keywords(tmp_path: Path, alone: float, gain: float, said: str) -> None:
    """What vectors gain alone, and both fused with keywords."""
    fused = {"plain": (0.1, 0.1), "fair": (0.1 + gain, 0.1 + gain)}
    log = searched(tmp_path, {"fair": (alone, alone)}, 0.02, fused=fused)
    (words,) = [one for one in log.view.cards[1].sentences if one.startswith("Beside keywords: ")]
    assert words.endswith(said)
    # References are no part of the verdict, nor of the correction.
    assert log.verdicts["treatment"].to_list() == ["fair"]
    rows = log.frame("quality").filter(treatment="fair")
    assert rows["index"].to_list() == ["whole", "fused"]
    assert rows["change_p"].is_null().to_list() == [False, True]
    assert rows["change_estimate"].to_list() == pytest.approx([alone, gain])


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
    log = searched(tmp_path, {"fair": (gain, gain)}, 0.005 * bool(gain))
    plain, fair = log.header.to_json()["study"]["costs"]
    (row,) = with_study(log, costs=[plain, {**fair, "changed": changed}]).verdicts.to_dicts()
    assert ("another vector" in row["sentence"]) == bool(said)
    assert row["sentence"].endswith(said)


def test_one_treatment_has_no_verdict(tmp_path: Path) -> None:
    assert searched(tmp_path, {}).verdicts.is_empty()
