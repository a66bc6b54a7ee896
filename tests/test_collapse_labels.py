"""A study of length that also classifies, under temperatures and averaged chunks."""

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
from fairspan.errors import DesignError
from fairspan.runs.identity import Identity
from fairspan.runs.log import RunLog
from fairspan.studies.collapse.prepare import PreparedCollapse
from fairspan.studies.collapse.run import collapse
from tests.length_studies import PLAIN
from tests.test_collapse import STRONG, prepared
from tests.tiny import WORDS, tiny_model

pytest.importorskip("sklearn")

LENGTHS = [10, 40]
# Other padding means a few float32 roundings, which may move a classifier's weights a little, but
# no label of a text that does not lie on its border.
CLOSE = 0.011


def sentences(rng: np.random.Generator, count: int, own: Sequence[str]) -> str:
    """Sentences of five tokens, full stop included, mostly of some words."""
    drawn = [
        [str(rng.choice(own if rng.random() < 0.3 else WORDS)) for _ in range(4)]
        for _ in range(count)
    ]
    return " ".join(" ".join(sentence) + " ." for sentence in drawn)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Ten articles to cut, and 120 labelled texts of two classes."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(5)
    rows: dict[str, list[dict[str, Any]]] = {
        "articles": [
            {"id": f"a{n}", "text": sentences(rng, 16, WORDS), "language": "en"} for n in range(10)
        ]
    }
    words = (WORDS[50:70], WORDS[:20])
    rows["labelled"] = [
        {"id": f"t{n}", "label": n % 2, "text": sentences(rng, 12, words[n % 2])}
        for n in range(120)
    ]
    files = {name: folder / f"{name}.jsonl" for name in rows}
    for name, file in files.items():
        file.write_text("\n".join(map(json.dumps, rows[name])), encoding="utf-8")
    return {name: str(file) for name, file in files.items()}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    return tiny_model(tmp_path_factory.mktemp("checkpoint"), "bert", "mean")


def options(files: dict[str, str], **changes: Any) -> dict[str, Any]:
    plain = {"corpus": files["articles"], "labelled": files["labelled"], "lengths": LENGTHS}
    return {**plain, "temperatures": [1.0, 0.5], "treatments": [], "spectra": 0, **changes}


@pytest.fixture(scope="module")
def log(
    model: SentenceTransformer, files: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> RunLog:
    """Two temperatures and averaged chunks, with spectra."""
    folder = tmp_path_factory.mktemp("study")
    given = options(files, treatments=["chunk-mean-8"], spectra=1)
    return collapse(model, **given, out=folder / "run", store=folder / "s.sqlite")


def told(encode: Callable[..., Any], ready: PreparedCollapse) -> dict[int, tuple[float, float]]:
    """Accuracy and mean entropy by length, from scikit-learn itself and other batches."""
    from sklearn.linear_model import LogisticRegression

    assert ready.labelled is not None
    texts, train, wanted = ready.labelled.cuts.texts, ready.labelled.train, ready.labelled.labels
    vectors = encode([text.text for text in texts], batch_size=7).astype(np.float64)
    lengths = np.array([text.length for text in texts])
    fit = LogisticRegression(max_iter=100).fit(vectors[train], wanted[train])
    found = {}
    for length in ready.labelled.cuts.lengths:
        own = ~train & (lengths == length)
        p = fit.predict_proba(vectors[own])
        entropy = -(p * np.log(p)).sum(1).mean()
        found[length] = (float((fit.predict(vectors[own]) == wanted[own]).mean()), float(entropy))
    return found


def test_accuracy_and_entropy_by_hand(
    log: RunLog, model: SentenceTransformer, files: dict[str, str]
) -> None:
    ready = prepared(model, **options(files))
    rows = log.frame("classification").to_dicts()
    found = {(one["treatment"], one["measure"], one["length"], one["against"]): one for one in rows}
    strong = fairspan.calibrate(model, "tempscale", temperature=0.5)
    for length, (accuracy, entropy) in told(strong.encode_document, ready).items():
        correct = found[STRONG, "correct", length, None]
        change = found[STRONG, "correct", length, PLAIN]
        unsure = found[STRONG, "entropy", length, None]["estimate"]
        assert correct["estimate"] == pytest.approx(accuracy, abs=CLOSE)
        assert unsure == pytest.approx(entropy, abs=1e-3)
        assert correct["low"] <= correct["estimate"] <= correct["high"]
        plain = found[PLAIN, "correct", length, None]["estimate"]
        assert change["estimate"] == pytest.approx(correct["estimate"] - plain, abs=1e-12)
    # Something can be learnt.
    assert max(one["estimate"] for key, one in found.items() if key[1] == "correct") > 0.6


def test_labelled_texts_by_their_own_length(
    model: SentenceTransformer, files: dict[str, str], tmp_path: Path
) -> None:
    """Bins of 60 and 150 tokens, also those that no article has; two texts are too few for one."""
    rng = np.random.default_rng(6)
    sizes = [12] * 60 + [30] * 60 + [50] * 2
    words = (WORDS[50:70], WORDS[:20])
    rows = [{"label": n % 2, "text": sentences(rng, k, words[n % 2])} for n, k in enumerate(sizes)]
    file = tmp_path / "labelled.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    asked = options(files, labelled=str(file), lengths=None, natural=True, temperatures=[1.0])
    ready = prepared(model, **asked, labelled_documents=40)
    assert ready.labelled is not None
    cuts = ready.labelled.cuts
    assert [(n, len(cuts.at(n))) for n in cuts.lengths] == [(0, 40), (100, 40)]
    assert "labelled: lengths with fewer than 3 documents were omitted: 200" in ready.notes
    log = collapse(model, **asked, labelled_documents=40, out=tmp_path / "run", store=":memory:")
    frame = log.frame("classification").filter(measure="correct")
    by_hand = told(model.encode_document, ready)
    accuracies = {length: accuracy for length, (accuracy, _) in by_hand.items()}
    assert dict(frame.select("length", "estimate").rows()) == pytest.approx(accuracies, abs=CLOSE)
    columns = {table.name: [one.name for one in table.columns] for table in log.view.tables()}
    assert columns == {"geometry": ["0–99"], "classification": ["0–99", "100–199"]}


def test_no_document_is_trained_on_and_tested(
    log: RunLog, model: SentenceTransformer, files: dict[str, str]
) -> None:
    """Rows are of tested documents alone, the same under all treatments, with their own labels."""
    labelled = prepared(model, **options(files)).labelled
    assert labelled is not None
    documents = np.array([text.document for text in labelled.cuts.texts])
    trained = set(documents[labelled.train])
    assert labelled.labels.tolist() == [str(int(name[1:]) % 2) for name in documents]
    rows = log.rows.filter(pl.col("measure") == "correct")
    tested = [set(own["document"]) for own in rows.partition_by("treatment")]
    assert len(tested) == 3
    assert all(own == tested[0] for own in tested)
    assert tested[0] == {f"t{n}" for n in range(120)} - trained


def test_averaged_chunks_have_no_spectra(log: RunLog) -> None:
    rows = log.frame("geometry").filter(measure="cosine", length=40).to_dicts()
    means = {one["treatment"]: one["estimate"] for one in rows if one["against"] is None}
    assert means["chunk-mean-8"] != means[PLAIN]
    assert set(log.frame("spectra")["treatment"]) == {PLAIN, STRONG}
    assert any(note.startswith("chunk-mean-8: its attention") for note in log.notes)


def test_labels_belong_to_the_name_of_a_run(
    model: SentenceTransformer, files: dict[str, str], tmp_path: Path
) -> None:
    lines = Path(files["labelled"]).read_text(encoding="utf-8").splitlines()
    labels = {json.loads(line)["label"] for line in lines}
    first = json.loads(lines[0])
    (other, *_) = labels - {first["label"]}
    (tmp_path / "labelled.jsonl").write_text("\n".join(lines), "utf-8")
    asked = options(files, labelled=str(tmp_path / "labelled.jsonl"))
    before = Identity.of(prepared(model, **asked)).run_name
    changed = [json.dumps({**first, "label": other}), *lines[1:]]
    (tmp_path / "labelled.jsonl").write_text("\n".join(changed), "utf-8")
    assert Identity.of(prepared(model, **asked)).run_name != before


def test_too_few_labelled_texts_are_refused_before_work(
    model: SentenceTransformer, files: dict[str, str], tmp_path: Path
) -> None:
    lines = Path(files["labelled"]).read_text(encoding="utf-8").splitlines()
    (tmp_path / "few.jsonl").write_text("\n".join(lines[:2]), encoding="utf-8")
    with pytest.raises(DesignError, match="both parts need at least 2"):
        prepared(model, **options(files, labelled=str(tmp_path / "few.jsonl")))
