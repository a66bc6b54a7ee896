"""What can be asked of each study, and what is measured then."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fairspan
from fairspan import Endpoint
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.treatment import Treatment
from fairspan.errors import UnsupportedModel
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.collapse.options import CollapseOptions
from fairspan.studies.evaluate.options import METRICS, EvaluateOptions
from fairspan.studies.tune.options import CANDIDATES, TuneOptions
from tests.builders.letters import Letters
from tests.builders.saying import said_by
from tests.builders.searches import write_articles_task
from tests.builders.verbs import article
from tests.corpus.test_corpus import write_folder

MISTAKES: dict[Callable[..., object], list[tuple[dict[str, Any], str]]] = {
    AuditOptions: [
        ({"measures": []}, "measures must name at least one of representation, retention, att"),
        ({"measures": ["beauty"]}, "representation, retention, attention, fidelity, got 'beauty'"),
        ({"measures": ["fidelity"], "treatments": ["paper"]}, "treatments with paper: name one"),
        ({"inference": "cr1"}, "inference must be among auto, z, got 'cr1'"),
        ({"treatments": []}, "at least one treatment, for example plain"),
        ({"treatments": ["plain", "paper", "plain"]}, "the treatment 'plain' is named twice"),
        ({"margin": 1}, "margin must be between 0 and 1, got 1"),
        ({"margin": float("nan")}, "got nan"),
        ({"languages": "en"}, r"languages must be a list, such as \['en'\], got 'en'"),
        ({"attention_documents": 0}, "attention_documents must be a whole number of at least 1"),
        ({"mixed": [5]}, "mixed must be text such as 'en' and 'de:en', got 5"),
        ({"corpus": 3}, "corpus must be a name or a path, got 3"),
    ],
    CollapseOptions: [
        ({"lengths": [0, 10]}, "lengths must be a whole number of at least 1, got 0"),
        ({"lengths": [10], "natural": True}, "natural lengths are the documents' own"),
        ({"documents": 2}, "documents must be a whole number of at least 3, got 2"),
        ({"margin": 0}, "margin must be between 0 and 1, got 0"),
        ({"treatments": ["tiles-8+tiles=segments"]}, "makes segments tiles, and these texts have"),
        ({"natural": True, "tolerance": 0.5}, "so tolerance would do nothing"),
    ],
    EvaluateOptions: [
        ({"task": " "}, "a task is 'passages', the folder of a collection"),
        ({"metrics": ["ndcg"]}, "there is no metric 'ndcg': choose from ndcg@k"),
        ({"metrics": []}, "metrics must name at least one, such as ndcg@10"),
        ({"metrics": ["mrr", "mrr"]}, "metrics names 'mrr' twice"),
        ({"margin": 1}, "margin must be from 0 to below 1, got 1"),
        ({"task": "beir:a", "corpus": "b"}, "corpus is for passages: omit it for beir:a"),
        ({"vectors": [2, "2"]}, "vectors must name different numbers, got 2, 2"),
        ({"vectors": [0]}, "vectors must be whole numbers from 1 on, or all, got 0"),
        ({"vectors": "all"}, r"vectors must be a list, such as \[1, 4, 'all'\], got 'all'"),
    ],
    TuneOptions: [
        ({"candidates": ["fair", "plain"]}, "'plain' is what candidates are compared with: omit"),
        (
            {"candidates": ["fair", Treatment("mine", PRESETS["fair"])]},
            "'fair' and 'mine' are the same: omit one of them",
        ),
        ({"candidates": ["chunk-mean"]}, "cannot be written to calibration.json: compare it with"),
        ({"candidates": ["tiles-64+tiles=segments"]}, "cannot be written to calibration.json"),
        (
            {"guards": ["beir:a", "beir:a"]},
            "beir:a is named twice: guards need docum",
        ),
    ],
}


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [(kind, *mistake) for kind, mistakes in MISTAKES.items() for mistake in mistakes],
    ids=str,
)
def test_a_mistake_is_one_line(
    kind: Callable[..., object], options: dict[str, Any], said: str
) -> None:
    assert re.search(said, said_by(kind, **options))


@pytest.mark.parametrize(
    ("measure", "options", "said"),
    [
        (
            fairspan.audit,
            {"treatments": ["tempscale"], "measures": ["attention"]},
            "Letters is not a SentenceTransformer.*omit tempscale, attention.$",
        ),
        (fairspan.evaluate, {"treatments": ["tempscale"]}, "not a Sent.*omit tempscale"),
        (fairspan.inspect, {"document": ["1", "2"], "treatments": ["tiles-64"]}, "omit tiles"),
        (fairspan.collapse, {}, "a study of length needs a SentenceTransformer, got Letters"),
        (fairspan.tune, {}, "tune needs a SentenceTransformer, got Letters"),
    ],
)
def test_what_only_a_sentence_transformer_has(
    tmp_path: Path, measure: Callable[..., object], options: dict[str, Any], said: str
) -> None:
    """Nothing is embedded before it is refused; what does not encode has no vectors at all."""
    if measure is not fairspan.inspect:
        options = {**options, "out": tmp_path / "run"}
    model = Letters()
    with pytest.raises(UnsupportedModel, match=said):
        measure(model, **options, progress=False)
    assert model.asked == []
    with pytest.raises(UnsupportedModel, match=r"dict has no encode\(list\[str\]\)"):
        measure({}, **options, progress=False)


def test_all_mixtures_may_be_a_text_or_a_list() -> None:
    assert AuditOptions(mixed=["all"]).mixed == AuditOptions(mixed="all").mixed == "all"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Passages under plain and fair, with one vector per chunk of plain as a reference.
        ({}, {"plain": ("whole", "parts-all"), "fair": ("whole",)}),
        (
            {"treatments": ["tiles-64", "plain"]},
            {"tiles-64": ("whole", "parts-all"), "plain": ("whole",)},
        ),
        # The first treatment has no single pass.
        (
            {"treatments": ["chunk-mean", "plain"]},
            {"chunk-mean": ("whole",), "plain": ("whole",)},
        ),
        (
            {"vectors": [1, 2, "all"]},
            dict.fromkeys(("plain", "fair"), ("whole", "parts-2", "parts-all")),
        ),
        ({"vectors": [1]}, dict.fromkeys(("plain", "fair"), ("whole",))),
    ],
)
def test_which_indexes_an_evaluation_has(
    options: dict[str, Any], expected: dict[str, tuple[str, ...]]
) -> None:
    asked = EvaluateOptions(**options)
    assert {item.name: asked.indexes_of(item) for item in asked.all_treatments} == expected
    assert (asked.task, tuple(asked.metrics)) == ("passages", METRICS)
    assert asked.compares_vectors == (len(options.get("vectors", [])) > 1)


def test_an_endpoint_has_no_reference_that_was_not_asked_for() -> None:
    """What it embeds may cost money. It can be asked for."""
    pytest.importorskip("openai", reason="needs the extra endpoint")
    model = Endpoint("http://127.0.0.1:9/v1", "m")
    asked = EvaluateOptions(model)
    assert [item.name for item in asked.all_treatments] == ["plain", "chunk-mean"]
    assert asked.indexes_of(asked.all_treatments[0]) == ("whole",)
    both = EvaluateOptions(model, vectors=[1, "all"])
    assert both.indexes_of(both.all_treatments[0]) == ("whole", "parts-all")


def test_candidates_are_compared_with_the_plain_model() -> None:
    mine = Treatment("mine", Calibration(tile_size=48))
    options = TuneOptions(candidates=["tiles-8", PRESETS["paper"], mine])
    names = [item.name for item in options.all_treatments]
    assert names == ["plain", "tiles-8", "paper", "mine"]
    assert [item.name for item in TuneOptions().all_treatments] == ["plain", *CANDIDATES]


def test_guards_are_evaluated_alike_but_for_what_is_drawn() -> None:
    drawn = {"corpus": "mine", "sets": 40, "query_words": 20, "seed": 3, "languages": ("de",)}
    shared = {"metrics": ["mrr"], "margin": 0.02, "prompt": "w1 "}
    options = TuneOptions("model", **drawn, **shared, guards=["beir:a", Path("b")])
    main, *guards = options.evaluations
    assert [item.task for item in options.evaluations] == ["passages", "beir:a", "b"]
    assert {name: getattr(main, name) for name in drawn} == drawn
    assert [item.languages for item in guards] == [None, None]
    for item in options.evaluations:
        assert {name: getattr(item, name) for name in shared} == shared
        assert item.all_treatments == options.all_treatments
        assert item.indexes_of(item.all_treatments[0]) == ("whole",), "without one per chunk"


def test_what_cannot_be_tuned_on_is_refused_without_a_model(tmp_path: Path) -> None:
    """Fewer than 20 documents that are asked about, on the task or a guard; shared documents."""
    enough, few, shares, other = (
        write_articles_task(tmp_path / name, numbers)
        for name, numbers in (
            ("enough", range(20)),
            ("few", range(100, 119)),
            ("shares", range(17, 40)),
            ("other", range(40, 60)),
        )
    )
    TuneOptions(task=enough, guards=[other]).check()
    needed = "few-test asks about 19 documents, and tune needs at least 20: add documents"
    assert needed in said_by(TuneOptions(task=few).check)
    assert needed in said_by(TuneOptions(task=enough, guards=[few]).check)
    said = said_by(TuneOptions(task=enough, guards=[other, shares]).check)
    assert "shares-test shares 3 documents with another task, so that it cannot guard it" in said


def test_documents_without_passages_do_not_count(tmp_path: Path) -> None:
    """Two of 21 are too short to be asked about."""
    texts = {f"a{number:02}": article(number, 1 if number < 2 else 14) for number in range(21)}
    write_folder(tmp_path, {"en": texts})
    said = said_by(TuneOptions(corpus=str(tmp_path)).check)
    assert "asks about 19 documents, and tune needs at least 20" in said
