"""The share of the common direction by length: by hand, from a log alone, and in words."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

import fairspan
from fairspan.errors import DesignError
from fairspan.model import level
from fairspan.runs.log import RunLog
from fairspan.stats.geometry import common_shares
from fairspan.studies.collapse.run import collapse
from fairspan.studies.collapse.texts import CollapseTexts
from fairspan.studies.logs import read_log
from tests.builders.commands import forbid_encoding
from tests.builders.length_studies import PLAIN
from tests.builders.tiny import tiny_tokenizer
from tests.model.test_level import ROUNDING, TEXTS
from tests.studies.collapse.test_collapse import BY_PADDING, geometry, prepared, write_corpus
from tests.studies.collapse.test_collapse import LENGTHS as CUT_LENGTHS

Make = Callable[..., SentenceTransformer]

TILES = "tiles-16"
LEVEL = "tiles-16+level=true"
PROMPT = "w7 w8 "
COMMON = "share of the common direction"


@dataclass(frozen=True)
class Done:
    """A finished study, the models of its treatments, and its texts."""

    log: RunLog
    models: dict[str, SentenceTransformer]
    ready: CollapseTexts

    def vectors(self, treatment: str, length: int) -> np.ndarray:
        """[texts, d] in float64: each text embedded alone."""
        texts = self.ready.cuts.at(length)
        model = self.models[treatment]
        vectors = [model.encode_document(text.text, prompt=PROMPT) for text in texts]
        return np.stack(vectors).astype(np.float64)

    def values(self, treatment: str, length: int) -> np.ndarray:
        rows = self.log.rows.filter(measure="share", treatment=treatment, length=length)
        names = [text.document for text in self.ready.cuts.at(length)]
        assert rows["document"].to_list() == names
        return rows["value"].to_numpy()


@pytest.fixture(scope="module")
def done(make_tiny: Make, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The tiny vocabulary has no words of the embedded sample, so other texts stand for it."""
    folder = tmp_path_factory.mktemp("share")
    corpus = write_corpus(folder / "made", [14 + number % 3 for number in range(10)])
    model = make_tiny("bert", "mean")
    options: dict[str, Any] = {"corpus": corpus, "lengths": CUT_LENGTHS, "prompt": PROMPT}
    options |= {"treatments": [PLAIN, TILES, LEVEL]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(level, "general_texts", lambda: TEXTS)
        log = collapse(
            model, **options, progress=False, out=folder / "run", store=folder / "s.sqlite"
        )
    models = {PLAIN: model, TILES: fairspan.calibrate(model, TILES)}
    return Done(log, models, prepared(model, **options))


def direction_of(model: SentenceTransformer) -> np.ndarray:
    """[d]: the mean of vectors of length 1 of general texts, at length 1, by numpy."""
    vectors = model.encode_document(TEXTS, prompt=PROMPT).astype(np.float64)
    mean = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


# Numbers


def test_it_is_the_cosine_with_one_direction_for_all_treatments(done: Done) -> None:
    """That of the plain model with its prompt."""
    plain = direction_of(done.models[PLAIN])
    assert np.linalg.norm(direction_of(done.models[TILES]) - plain) > 1e-3, "the premise"
    found = geometry(done.log)
    for treatment in (PLAIN, TILES):
        for length in CUT_LENGTHS:
            vectors = done.vectors(treatment, length)
            by_hand = vectors @ plain / np.linalg.norm(vectors, axis=1)
            assert done.values(treatment, length) == pytest.approx(by_hand, abs=BY_PADDING)
            mean = found[treatment, "share", length]["estimate"]
            assert mean == pytest.approx(by_hand.mean(), abs=BY_PADDING)
    spread = [found[PLAIN, "share", length]["estimate"] for length in CUT_LENGTHS]
    assert np.ptp(spread) > 100 * BY_PADDING, "the lengths differ"


def test_level_vectors_have_the_same_share_at_every_length(done: Done) -> None:
    values = np.concatenate([done.values(LEVEL, length) for length in CUT_LENGTHS])
    vectors = done.models[PLAIN].encode_document(TEXTS, prompt=PROMPT).astype(np.float64)
    share = (vectors @ direction_of(done.models[PLAIN]) / np.linalg.norm(vectors, axis=1)).mean()
    assert np.abs(values - share).max() < ROUNDING
    sentence = done.log.verdicts.filter(treatment=LEVEL)["sentence"].item()
    short, *_, long = CUT_LENGTHS
    same = f"({COMMON} {share:.3f} at {short} tokens, {share:.3f} at {long})"
    assert "score for every query 0.0000 [" in sentence
    assert same in sentence


def test_intervals_are_those_of_a_paired_t_test(done: Done) -> None:
    """By scipy: leaving out one of n values of a mean gives the standard error of the mean."""
    found = geometry(done.log)
    for treatment in (PLAIN, TILES):
        for length in CUT_LENGTHS:
            values = done.values(treatment, length)
            row = found[treatment, "share", length]
            ends = stats.ttest_1samp(values, 0).confidence_interval(0.95)
            expected = (values.mean(), ends.low, ends.high)
            assert (row["estimate"], row["low"], row["high"]) == pytest.approx(expected, abs=1e-12)


def test_a_report_needs_no_model(done: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_encoding(monkeypatch)
    monkeypatch.setattr(level, "find_direction", None)
    read = read_log(done.log.folder)
    assert read.frame("geometry").equals(done.log.frame("geometry"))
    assert read.verdicts.equals(done.log.verdicts)


def test_truncated_vectors_and_a_truncated_direction() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(5, 12)).astype(np.float32)
    direction = rng.normal(size=12)
    by_hand = [
        float(vector @ direction[:8] / np.linalg.norm(vector) / np.linalg.norm(direction[:8]))
        for vector in vectors[:, :8].astype(np.float64)
    ]
    assert common_shares(vectors[:, :8], direction) == pytest.approx(by_hand, abs=1e-12)


# Models


def measured(model: Any, folder: Path, **options: Any) -> RunLog:
    """The least that is a study."""
    corpus = write_corpus(folder / "made", [14] * 6)
    settings = {"lengths": [10, 20], "treatments": [PLAIN], "progress": False}
    places = {"corpus": corpus, "out": folder / "run", "store": folder / "s.sqlite"}
    return collapse(model, **{**settings, **places, **options})


def test_a_model_without_a_direction_is_noted(
    make_tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(*_: Any) -> Any:
        raise DesignError("the 48 vectors have no direction in common.")

    monkeypatch.setattr("fairspan.model.build.find_direction", find)
    log = measured(make_tiny("bert", "mean"), tmp_path)
    line = f"{PLAIN}: the share of a common direction was not measured: the 48 vectors have no "
    assert any(note.startswith(line) for note in log.notes)
    assert "share" not in set(log.frame("geometry")["measure"])
    assert len(log.view.chart().panels()) == 1
    assert COMMON not in log.verdicts["sentence"][0]


def test_texts_that_gave_the_direction_are_noted(make_tiny: Make, tmp_path: Path) -> None:
    """A text is closer to a mean that it is part of."""
    line = "the common direction was found from some of these texts"
    model = make_tiny("bert", "mean")
    of_sample = measured(model, tmp_path / "sample", corpus="sample", tolerance=0.9, documents=3)
    others = measured(model, tmp_path / "others")
    for log, noted in ((of_sample, True), (others, False)):
        assert any(note.startswith(line) for note in log.notes) is noted
        assert "share" in set(log.rows["measure"])


def test_a_model_without_attention_has_a_direction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(level, "general_texts", lambda: TEXTS)
    torch.manual_seed(3)
    tokenizer = tiny_tokenizer().backend_tokenizer
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu"
    )
    log = measured(model, tmp_path, natural=True, lengths=None)
    vectors = model.encode(TEXTS).astype(np.float64)
    common = fairspan.fit_level(vectors)
    ready = prepared(model, corpus=str(tmp_path / "made"), natural=True, treatments=[PLAIN])
    texts = ready.cuts.texts
    by_hand = common_shares(model.encode([text.text for text in texts]), common.direction)
    values = log.rows.filter(measure="share")["value"].to_numpy()
    assert values == pytest.approx(by_hand, abs=BY_PADDING)


def test_a_model_that_is_level_keeps_its_direction(make_tiny: Make, tmp_path: Path) -> None:
    """The plain treatment is measured along the direction that the model came with."""
    fair = fairspan.calibrate(make_tiny("bert", "mean"), "plain", level=TEXTS)
    log = measured(fair, tmp_path, treatments=["plain+level=true"])
    values = log.rows.filter(measure="share")["value"].to_numpy()
    assert np.abs(values - level.level_of(fair).share).max() < ROUNDING


def test_an_exported_graph_has_none(make_tiny: Make, tmp_path: Path) -> None:
    model = copy.deepcopy(make_tiny("bert", "mean"))
    model[0].backend = "onnx"
    log = measured(model, tmp_path)
    assert any("was not measured: the onnx backend runs" in note for note in log.notes)
    assert "share" not in set(log.rows["measure"])
