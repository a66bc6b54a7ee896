"""How many vectors a document needs: sizes by hand, and which number is shown to be enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairspan.runs.log import RunLog
from tests.builders.searches import log_of, rows_of
from tests.report.example import printed

NUMBERS = (1, 2, 4, "all")
PER_DOCUMENT = {"whole": 1.0, "parts-2": 1.75, "parts-4": 3.0, "parts-all": 4.5}


def logged(folder: Path, levels: dict[str, float], spread: float = 0.0, **spec: Any) -> RunLog:
    """Values of plain by index, with ups and downs of documents that indexes do not share."""
    places = {index: place for place, index in enumerate(PER_DOCUMENT)}

    def value(arm: str, metric: str, position: int, cluster: int) -> float:
        index = arm.partition("/")[2] or "whole"
        noise = spread * (1 if cluster >> places[index] & 1 else -1)
        return levels[index] + 0.1 * np.sin(cluster) + noise

    rows = rows_of(
        value,
        ("plain",),
        clusters=48,
        positions=(1,),
        indexes=[("plain", i) for i in levels if i != "whole"],
    )
    cost = {"treatment": "plain", "documents": 40, "tokens": 9000, "seconds": None}
    costs = [
        {**cost, "index": index, "vectors": int(40 * each), "bytes": int(40 * each) * 384 * 4}
        for index, each in PER_DOCUMENT.items()
        if index in levels
    ]
    return log_of(folder, rows, spec={"vectors": NUMBERS[: len(levels)], **spec}, costs=costs)


CURVE = {"whole": 0.5, "parts-2": 0.6, "parts-4": 0.695, "parts-all": 0.7}


def test_sizes_and_changes_from_the_best(tmp_path: Path) -> None:
    frame = logged(tmp_path, CURVE).frame("vectors")
    assert frame["index"].to_list() == list(CURVE)
    assert frame["vectors_per_document"].to_list() == list(PER_DOCUMENT.values())
    sizes = [10_000 * each * 384 * 4 / 1e6 for each in PER_DOCUMENT.values()]
    assert frame["mb_float32"].to_list() == pytest.approx(sizes)
    assert frame["mb_int8"].to_list() == pytest.approx([size / 4 for size in sizes])
    changes = frame["change_estimate"].to_list()
    assert changes[:3] == pytest.approx([-0.2, -0.1, -0.005])
    assert changes[3] is None, "the best"


@pytest.mark.parametrize(
    ("levels", "spread", "margin", "enough"),
    [
        # A loss of .005 without noise, within the margin or beyond it.
        (CURVE, 0.0, 0.01, "parts-4"),
        (CURVE, 0.0, 0.001, "parts-all"),
        # One vector is enough where nothing is lost, and the fewest of several that are.
        (dict.fromkeys(CURVE, 0.5) | {"parts-2": 0.501}, 0.0, 0.01, "whole"),
        # ±.2 of 48 documents: intervals reach beyond the margin on both sides.
        (CURVE, 0.2, 0.01, None),
        # The best is the smallest.
        ({"whole": 0.7, "parts-2": 0.6}, 0.05, 0.01, "whole"),
    ],
    ids=["shown", "best", "fewest", "unknown", "smallest"],
)
def test_enough_is_only_what_is_shown_to_be(
    tmp_path: Path, levels: dict[str, float], spread: float, margin: float, enough: str | None
) -> None:
    log = logged(tmp_path, levels, spread, margin=margin)
    frame = log.frame("vectors")
    assert frame.filter("enough")["index"].to_list() == ([] if enough is None else [enough])
    (words,) = log.view.remarks
    if enough is None:
        assert words.startswith("plain: these documents cannot tell how many are enough")
    else:
        spoken = {"whole": "1", "parts-4": "4", "parts-all": "one per chunk"}[enough]
        size = 10_000 * PER_DOCUMENT[enough] * 384 * 4 / 1e6
        assert words.startswith(f"plain: {spoken} is enough ({size:,.1f} MB), the smallest")
    assert words in " ".join(printed(log.view, 400).split())


def test_the_view(tmp_path: Path) -> None:
    """The curve, on a logarithmic axis, and costs; no cards of references."""
    view = logged(tmp_path, CURVE).view
    chart = view.chart("vectors")
    assert (chart.kind, chart.x, chart.scale) == ("lines", "vectors_per_document", "log")
    assert chart.frame["vectors_per_document"].to_list() == [1, 1.75, 3, 4.5]
    assert chart.frame["asked"].to_list() == ["1", "2", "4", "one per chunk"]
    assert chart.frame["estimate"].equals(view.frame("vectors")["estimate"])
    assert chart.edge == (3.0, "4 is enough (plain)")
    assert [section.title for section in view.sections] == [
        "How many vectors",
        "Indexes and their costs",
    ]
    assert [card.name for card in view.cards] == ["plain"]
