"""A study of length that also classifies: accuracy by length, a fitted schedule, baselines; and idle options."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan import LengthSchedule
from fairspan.calibration.treatment import as_treatment
from fairspan.errors import CorpusError, DesignError
from fairspan.model.last_two import last_two
from fairspan.runs.log import RunLog
from fairspan.runs.rows import SCHEMA
from fairspan.runs.subject import open_subject
from fairspan.studies.collapse.advice import labels, schedule, suggestion
from fairspan.studies.collapse.classification import training_part
from fairspan.studies.collapse.results import fitted
from fairspan.studies.collapse.run import collapse, prepare_collapse
from fairspan.studies.collapse.schedules import split
from fairspan.studies.collapse.spec import CollapseSpec, make_collapse
from fairspan.studies.collapse.summary import summarize_length
from tests.length_studies import LENGTHS as LONG
from tests.length_studies import MILD, PLAIN, STRONG, above, study_of
from tests.tiny import WORDS, tiny_model

pytest.importorskip("sklearn")

LENGTHS = [10, 20, 40]
TREATMENTS = ["none", "tempscale+temperature=0.5"]
# One text alone against the same in a padded batch: a few float32 roundings, which may move a classifier's weights a
# little, but no label of a text that does not lie on its border.
CLOSE = 0.011


def sentences(rng: np.random.Generator, count: int, own: Sequence[str]) -> str:
    """Sentences of five tokens, full stop included, mostly of some words."""
    drawn = [[str(rng.choice(own if rng.random() < 0.3 else WORDS)) for _ in range(4)] for _ in range(count)]
    return " ".join(" ".join(sentence) + " ." for sentence in drawn)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Ten articles to cut, 120 labelled texts of two classes, and 90 other articles to fit on."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(5)
    articles = [{"id": f"a{n}", "text": sentences(rng, 16, WORDS), "language": "en"} for n in range(10)]
    others = [{"id": f"o{n}", "text": sentences(rng, 16, WORDS), "language": "en"} for n in range(90)]
    labelled = [
        {"id": f"t{n}", "label": n % 2, "text": sentences(rng, 12, WORDS[:20] if n % 2 else WORDS[50:70])}
        for n in range(120)
    ]
    found = {}
    for name, rows in (("articles", articles), ("others", others), ("labelled", labelled)):
        file = folder / f"{name}.jsonl"
        file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        found[name] = str(file)
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    return tiny_model(tmp_path_factory.mktemp("checkpoint"), "bert", "mean")


def options(files: dict[str, str], **changes: Any) -> dict[str, Any]:
    plain = {"corpus": files["articles"], "lengths": LENGTHS, "temperatures": [1.0, 0.5], "spectra": 0}
    return {**plain, "probe": False, "labelled": files["labelled"], **changes}


@pytest.fixture(scope="module")
def log(model: SentenceTransformer, files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    folder = tmp_path_factory.mktemp("study")
    return collapse(model, **options(files), out=folder / "run", store=folder / "s.sqlite")


# Classification.


def told(
    encode: Callable[..., Any], model: SentenceTransformer, files: dict[str, str]
) -> dict[int, tuple[float, float]]:
    """Accuracy and mean entropy by length, from scikit-learn itself and each text embedded alone."""
    from sklearn.linear_model import LogisticRegression

    prepared = prepare_collapse(open_subject(model), make_collapse(**options(files)))
    assert prepared.labelled is not None
    texts = prepared.labelled.cuts.texts
    labels = {
        row["id"]: str(row["label"]) for row in map(json.loads, Path(files["labelled"]).read_text().splitlines())
    }
    train = training_part([text.document for text in texts], seed=0)
    vectors = np.stack([encode(text.text) for text in texts]).astype(np.float64)
    wanted = np.array([labels[text.document] for text in texts])
    lengths = np.array([text.length for text in texts])
    fit = LogisticRegression(max_iter=100).fit(vectors[train], wanted[train])
    found = {}
    for length in LENGTHS:
        own = ~train & (lengths == length)
        p = fit.predict_proba(vectors[own])
        entropy = -(p * np.log(p)).sum(1).mean()
        found[length] = (float((fit.predict(vectors[own]) == wanted[own]).mean()), float(entropy))
    return found


@pytest.mark.slow
def test_accuracy_and_entropy_by_hand(log: RunLog, model: SentenceTransformer, files: dict[str, str]) -> None:
    summary = summarize_length(log)
    models = {"none": model, TREATMENTS[1]: fairspan.calibrate(model, "tempscale", temperature=0.5)}
    values = []
    for name, one in models.items():
        by_hand = told(one.encode_document, model, files)
        for length, (accuracy, entropy) in by_hand.items():
            correct, unsure = (summary.value(name, what, length) for what in ("correct", "entropy"))
            assert correct is not None
            assert unsure is not None
            assert correct.estimate == pytest.approx(accuracy, abs=CLOSE)
            assert unsure.estimate == pytest.approx(entropy, abs=1e-3)
            assert correct.low <= correct.estimate <= correct.high
            values.append(accuracy)
    assert max(values) > 0.6, "the premise: something can be learnt"
    change = summary.value(TREATMENTS[1], "correct", 40, "none")
    first, second = (summary.value(name, "correct", 40) for name in TREATMENTS)
    assert change is not None
    assert first is not None
    assert second is not None
    assert change.estimate == pytest.approx(second.estimate - first.estimate, abs=1e-12)


def test_no_document_is_trained_on_and_tested(log: RunLog, files: dict[str, str]) -> None:
    """The rows are of tested documents alone, the same under both temperatures."""
    rows = log.rows.filter(pl.col("measure") == "correct")
    tested = {name: set(rows.filter(pl.col("treatment") == name)["document"]) for name in TREATMENTS}
    assert tested["none"] == tested[TREATMENTS[1]]
    names = [f"t{n}" for n in range(120)]
    trained = {name for name, taken in zip(names, training_part(names, seed=0), strict=True) if taken}
    assert tested["none"]
    assert not tested["none"] & trained


def test_a_study_that_classifies_is_found_again(
    model: SentenceTransformer, files: dict[str, str], log: RunLog
) -> None:
    again = collapse(model, **options(files), out=log.folder, store=log.folder.parent / "s.sqlite")
    assert again.header["finished"] == log.header["finished"]
    assert again.frame("fitted").equals(log.frame("fitted"))


# The fitted schedule.


def label_table(correct: dict[str, Callable[[str, int], float]], documents: Sequence[str]) -> pl.DataFrame:
    rows = [
        {
            "treatment": name,
            "measure": "correct",
            "document": document,
            "part": str(length),
            "value": told(document, length),
        }
        for name, told in correct.items()
        for document in documents
        for length in LENGTHS
    ]
    common = {"run": "r", "model": "m", "language": "en", "tokens": 9}
    return pl.DataFrame([{**dict.fromkeys(SCHEMA), **common, **row} for row in rows], schema=SCHEMA)


def test_a_fitted_schedule_counts_special_tokens(tmp_path: Path) -> None:
    """0.5 tells what 1 does not, of most texts of 40 tokens; with 3 tokens added to each, the step lies at 43."""
    documents = [f"t{n}" for n in range(120)]
    helped = {name for number, name in enumerate(documents) if number % 4}
    correct = {
        TREATMENTS[0]: lambda name, length: float(length < 40),
        TREATMENTS[1]: lambda name, length: float(length < 40 or name in helped),
    }
    found = fitted(
        label_table(correct, documents), [as_treatment(name) for name in TREATMENTS], LENGTHS, added=3, seed=0
    )
    assert found is not None
    assert [one.temperature for one in found.bins] == [1, 1, 0.5]
    assert found.schedule == ((43, 0.5),)
    in_fit = split(documents, seed=0).in_fit(documents)
    tested = [name for name, taken in zip(documents, in_fit, strict=True) if not taken]
    assert (found.fitted_documents, found.tested_documents) == (int(in_fit.sum()), len(tested))
    by_hand = np.mean([name in helped and length == 40 for name in tested for length in LENGTHS])
    assert found.change.estimate == pytest.approx(by_hand)


def test_the_end_of_a_study(log: RunLog, files: dict[str, str]) -> None:
    """Fitted on half of the tested documents; two special tokens a text; the sentence says what was found."""
    assert log.header["added_tokens"] == 2
    found = summarize_length(log).fitted
    assert found is not None
    tested = set(log.rows.filter(pl.col("measure") == "correct")["document"])
    assert found.fitted_documents + found.tested_documents == len(tested)
    assert found.fitted_documents == int(split(sorted(tested), seed=0).in_fit(sorted(tested)).sum())
    sentence = labels(summarize_length(log))
    assert sentence is not None
    assert f"fitted on {found.fitted_documents} classified documents" in sentence


def test_one_temperature_is_not_fitted(model: SentenceTransformer, files: dict[str, str], tmp_path: Path) -> None:
    given = options(files, temperatures=[1.0], lengths=[10, 20])
    log = collapse(model, **given, out=tmp_path / "run", store=tmp_path / "s.sqlite")
    assert summarize_length(log).fitted is None
    assert len(log.frame("classification"))


# The suggestion.


def test_the_schedule_gives_texts_of_each_length_what_was_suggested(tmp_path: Path) -> None:
    """A schedule counts the tokens that a model adds to a text, and lengths do not."""
    curves = {PLAIN: above(0, 0, 0.1, 0.2), MILD: above(0, 0, 0, 0.1), STRONG: above(0, 0, 0, 0)}
    summary = study_of(tmp_path, curves, added_tokens=2)
    assert [one.temperature for one in suggestion(summary)] == [1, 1, 0.9, 0.8], "the premise"
    assert schedule(summary) == [(202, 0.9), (402, 0.8)]
    steps = LengthSchedule(schedule(summary))
    assert [steps.at(length + 2) for length in LONG] == [1, 1, 0.9, 0.8]
    assert steps.at(200 + 2 - 1) == 1, "one token less"
    assert summary.log.frame("schedule").rows() == [("geometry", 202, 0.9), ("geometry", 402, 0.8)]


def test_the_schedule_of_a_calibrated_model(model: SentenceTransformer) -> None:
    """A text of 40 words has 42 tokens to the model: at that step it gets the temperature, at 43 it does not."""
    text = sentences(np.random.default_rng(1), 8, WORDS)
    cold = fairspan.calibrate(model, "tempscale", temperature=0.5).encode(text)
    for step, wanted in ((42, cold), (43, model.encode(text))):
        scheduled = fairspan.calibrate(model, "none", temperature=[(step, 0.5)])
        assert np.abs(scheduled.encode(text) - wanted).max() < 1e-6
    assert np.abs(cold - model.encode(text)).max() > 1e-3, "the premise"


def test_nothing_is_scheduled_where_nothing_is_suggested(tmp_path: Path) -> None:
    summary = study_of(tmp_path, {PLAIN: above(0, 0, 0, 0), MILD: above(0, 0, 0, 0)}, added_tokens=2)
    assert schedule(summary) == []


# Baselines.


@pytest.mark.slow
def test_last2avg_in_a_study(model: SentenceTransformer, files: dict[str, str], tmp_path: Path) -> None:
    """Its numbers are those of the model that averages two layers; of its attention nothing new is said."""
    given = options(files, temperatures=[1.0], treatments=["last2avg"], spectra=1)
    log = collapse(model, **given, out=tmp_path / "run", store=tmp_path / "s.sqlite")
    by_hand = told(last_two(model).encode_document, model, files)
    summary = summarize_length(log)
    for length, (accuracy, entropy) in by_hand.items():
        correct, unsure = (summary.value("last2avg", what, length) for what in ("correct", "entropy"))
        assert correct is not None
        assert unsure is not None
        assert correct.estimate == pytest.approx(accuracy, abs=CLOSE)
        assert unsure.estimate == pytest.approx(entropy, abs=1e-3)
    cosines = [summary.value(name, "cosine", 20) for name in ("none", "last2avg")]
    assert cosines[0] != cosines[1]
    assert summary.spectra.filter(measure="sigma_a", treatment="last2avg").is_empty()
    assert not summary.spectra.filter(measure="sigma_a", treatment="none").is_empty()
    assert any(note.startswith("last2avg: its attention") for note in log.notes)


def test_a_whitening_is_fitted_on_what_is_not_measured(
    model: SentenceTransformer, files: dict[str, str], tmp_path: Path
) -> None:
    given = options(files, temperatures=[1.0], treatments=["whitening"], fit_corpus=files["others"])
    prepared = prepare_collapse(open_subject(model), make_collapse(**given))
    assert prepared.labelled is not None
    measured = {text.text for text in (*prepared.cuts.texts, *prepared.labelled.cuts.texts)}
    assert len(prepared.fit.texts) >= 2 * 32
    assert not measured & {text.text for text in prepared.fit.texts}
    log = collapse(model, **given, out=tmp_path / "run", store=tmp_path / "s.sqlite")
    summary = summarize_length(log)
    values = [summary.value(name, "cosine", 20) for name in ("none", "whitening")]
    assert abs(values[1].estimate) < abs(values[0].estimate) / 2  # type: ignore[union-attr, arg-type]
    assert any("fitted on" in note for note in log.notes)


def test_a_whitening_without_texts_to_spare(model: SentenceTransformer, files: dict[str, str]) -> None:
    """All ten articles are measured."""
    with pytest.raises(CorpusError, match="fit_corpus="):
        prepare_collapse(open_subject(model), make_collapse(**options(files, treatments=["whitening"])))


# Options that would do nothing.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"natural": True, "start": "beginning"}, "start"),
        ({"natural": True, "tolerance": 0.5}, "tolerance"),
        ({"natural": True, "labelled": "x.jsonl"}, "labelled"),
        ({"natural": True, "lengths": [10]}, "lengths"),
        ({"labelled_documents": 10}, "labelled_documents"),
        ({"spectra": 0, "layers": "all"}, "layers"),
        ({"fit_corpus": "x.jsonl"}, "fit_corpus"),
        ({"treatments": ["last2avg"], "fit_corpus": "x.jsonl"}, "fit_corpus"),
    ],
)
def test_idle_options_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(DesignError, match=said) as caught:
        make_collapse(**given)
    assert "\n" not in str(caught.value)


def test_options_that_act_are_not() -> None:
    make_collapse(natural=True, documents=5)
    make_collapse(labelled="x.jsonl", labelled_documents=10, start="beginning", tolerance=0.5)
    make_collapse(treatments=["whitening"], fit_corpus="x.jsonl", layers="all")
    assert CollapseSpec(treatments=(as_treatment("none"),), spectra=0).layers == "last"
