"""What may be asked of a tuning, and what is asked of its evaluations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.treatment import Treatment
from fairspan.studies.tune.options import CANDIDATES, TuneOptions
from tests.builders.saying import said_by
from tests.builders.searches import write_beir
from tests.builders.verbs import article
from tests.corpus.test_corpus import write_folder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"candidates": []}, "name at least one treatment"),
        ({"candidates": "tiles-64"}, "candidates must be a list"),
        (
            {"candidates": ["fair", "plain"]},
            "'plain' is what candidates are compared with: omit it",
        ),
        ({"candidates": [Treatment("plain", PRESETS["fair"])]}, "'plain' is what candidates are"),
        ({"candidates": ["tiles-64", "tiles-64"]}, "is named twice"),
        (
            {"candidates": ["fair", Treatment("mine", PRESETS["fair"])]},
            "'fair' and 'mine' are the same: omit one of them",
        ),
        ({"candidates": ["chunk-mean"]}, "cannot be written to calibration.json: compare it with"),
        ({"candidates": ["tiles-64+tiles=segments"]}, "cannot be written to calibration.json"),
        ({"task": ""}, "a task is 'passages', the folder of a collection"),
        ({"task": "beir:a", "corpus": "b"}, "corpus is for passages: omit it for beir:a"),
        ({"guards": "passages"}, "passages is named twice: guards need documents of their own"),
        ({"guards": ["beir:a", "beir:a"]}, "beir:a is named twice"),
        ({"metrics": []}, "metrics must name at least one"),
        ({"margin": 1}, "margin must be from 0 to below 1, got 1"),
    ],
)
def test_a_mistake_is_one_line(changes: dict[str, Any], said: str) -> None:
    assert said in said_by(TuneOptions, **changes)


TILES = Calibration(tile_size=48)


def test_candidates_are_compared_with_the_plain_model() -> None:
    given: list[Any] = ["tiles-8", PRESETS["paper"], Treatment("mine", TILES)]
    names = [item.name for item in TuneOptions(candidates=given).all_treatments]
    assert names == ["plain", "tiles-8", "paper", "mine"]
    assert [item.name for item in TuneOptions().all_treatments] == ["plain", *CANDIDATES]


def test_guards_are_evaluated_alike_but_for_what_is_drawn() -> None:
    options = TuneOptions(
        "model",
        corpus="mine",
        languages=["de"],
        sets=40,
        query_words=20,
        seed=3,
        guards=["beir:a", Path("b")],
        metrics=["mrr"],
        margin=0.02,
        prompt="w1 ",
    )
    main, *guards = options.evaluations
    assert [item.task for item in options.evaluations] == ["passages", "beir:a", "b"]
    assert (main.corpus, main.sets, main.query_words, main.seed) == ("mine", 40, 20, 3)
    for item in options.evaluations:
        assert (item.metrics, item.margin, item.prompt) == (["mrr"], 0.02, "w1 ")
        assert item.all_treatments == options.all_treatments
        assert item.indexes_of(item.all_treatments[0]) == ("whole",), "without one per chunk"
    assert [item.languages for item in guards] == [None, None]


def collection(folder: Path, documents: Sequence[int]) -> str:
    """A question about each of these articles."""
    texts = [{"id": f"d{number}", "text": article(number)} for number in documents]
    asked = [{"id": f"q{n}", "text": f"w{n % 90}", "document": f"d{n}"} for n in documents]
    return write_beir(folder, texts, asked)


def test_what_cannot_be_tuned_on_is_refused_without_a_model(tmp_path: Path) -> None:
    """Fewer than 20 documents that are asked about, on the task or a guard; shared documents."""
    enough = collection(tmp_path / "enough", range(20))
    few = collection(tmp_path / "few", range(100, 119))
    shares = collection(tmp_path / "shares", range(17, 40))
    other = collection(tmp_path / "other", range(40, 60))
    TuneOptions(task=enough, guards=[other]).check()
    needed = "few-test asks about 19 documents, and tune needs at least 20: add documents"
    assert needed in said_by(TuneOptions(task=few).check)
    assert needed in said_by(TuneOptions(task=enough, guards=[few]).check)
    said = said_by(TuneOptions(task=enough, guards=[other, shares]).check)
    assert "shares-test shares 3 documents with another task, so that it cannot guard it" in said


def test_documents_without_passages_do_not_count(tmp_path: Path) -> None:
    texts = {f"a{number:02}": article(number, 1 if number < 2 else 14) for number in range(21)}
    write_folder(tmp_path, {"en": texts})
    said = said_by(TuneOptions(corpus=str(tmp_path)).check)
    assert "asks about 19 documents, and tune needs at least 20" in said
    lines = (tmp_path / "en.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == len([json.loads(line) for line in lines]) == 21, "the premise"
