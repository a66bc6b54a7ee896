"""A study of length, recomputed by hand from its model; its log; and what it finds again."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

import fairspan
from fairspan.errors import DesignError, FairspanError
from fairspan.model import level
from fairspan.model.build import copy_sharing_weights
from fairspan.runs.log import RunLog
from fairspan.runs.progress import as_progress
from fairspan.stats.geometry import common_shares
from fairspan.studies.collapse.entries import SCHEMA
from fairspan.studies.collapse.options import CollapseOptions
from fairspan.studies.collapse.run import STUDY, collapse
from fairspan.studies.collapse.texts import CollapseTexts
from tests.builders.commands import forbid_encoding
from tests.builders.length_studies import PLAIN
from tests.builders.saying import said_by
from tests.builders.tiny import tiny_model, tiny_tokenizer
from tests.builders.verbs import article
from tests.corpus.test_corpus import write_folder
from tests.model.test_level import ROUNDING, TEXTS
from tests.stats.test_geometry import pairs_mean
from tests.studies.audit.test_audit import cosine

Make = Callable[..., SentenceTransformer]
Study = Callable[..., RunLog]

# As in an audit: padded batches in place of each text alone, float32 through four layers.
BY_PADDING = 1e-5

LENGTHS = [10, 20, 40]
STRONG = "tempscale+temperature=0.5"
TILES = "tiles-16"
LEVEL = "tiles-16+level=true"
COMMON = "share of the common direction"


def write_corpus(folder: Path, sizes: Sequence[int], language: str = "en") -> str:
    """A document for each number of sentences."""
    texts = {f"d{number:02}": article(number, count) for number, count in enumerate(sizes)}
    return str(write_folder(folder, {language: texts}))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten documents of 70 to 80 tokens."""
    folder = tmp_path_factory.mktemp("corpus") / "made"
    return write_corpus(folder, [14 + number % 3 for number in range(10)])


@pytest.fixture
def study(corpus: str, tmp_path: Path) -> Study:
    """The least that is a study, with everything it writes in tmp_path."""
    settings = {"lengths": [10, 20], "treatments": [PLAIN], "documents": 5, "progress": False}
    settings |= {"corpus": corpus, "store": tmp_path / "s.sqlite", "out": tmp_path / "run"}
    return lambda model, **options: collapse(model, **{**settings, **options})


def prepared(model: Any, **options: Any) -> CollapseTexts:
    """A study with its texts cut and nothing embedded."""
    return STUDY.read(CollapseOptions(model, **options), as_progress(False))


Cell = tuple[str, str, int | None]


def geometry(log: RunLog) -> dict[Cell, dict[str, Any]]:
    rows = log.frame("geometry").to_dicts()
    return {(row["treatment"], row["measure"], row["length"]): row for row in rows}


# Numbers


@dataclass(frozen=True)
class Done:
    """A finished study, the model it asked and the texts it cut."""

    log: RunLog
    models: dict[str, SentenceTransformer]
    texts: CollapseTexts

    def encode(self, treatment: str, texts: Sequence[str]) -> np.ndarray:
        """[texts, d] in float64: each text embedded alone."""
        model = self.models[treatment]
        vectors = [model.encode_document(text, prompt="w7 w8 ") for text in texts]
        return np.stack(vectors).astype(np.float64)

    def vectors(self, treatment: str, length: int) -> np.ndarray:
        return self.encode(treatment, [text.text for text in self.texts.cuts.at(length)])

    def values(self, treatment: str, measure: str, length: int) -> np.ndarray:
        rows = self.log.rows.filter(treatment=treatment, measure=measure, length=length)
        names = [text.document for text in self.texts.cuts.at(length)]
        assert rows["document"].to_list() == names
        return rows["value"].to_numpy()

    @cached_property
    def direction(self) -> np.ndarray:
        """[d]: the mean of vectors of length 1 of general texts, at length 1, by numpy."""
        vectors = self.encode(PLAIN, TEXTS)
        mean = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))

    def shares(self, vectors: np.ndarray) -> np.ndarray:
        """Cosines with the common direction."""
        return vectors @ self.direction / np.linalg.norm(vectors, axis=1)


@pytest.fixture(scope="module")
def done(make_tiny: Make, corpus: str, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Padded on the left and with a prompt: natural lengths have neither. The tiny vocabulary has
    no words of the embedded sample, so other texts stand for it."""
    model = make_tiny("qwen3", "mean", padding_side="left")
    options = {"corpus": corpus, "lengths": LENGTHS, "documents": 8, "prompt": "w7 w8 "}
    options |= {"treatments": [PLAIN, STRONG, TILES, LEVEL], "progress": False}
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(level, "general_texts", lambda: TEXTS)
        log = collapse(model, **options, out=folder / "run", store=folder / "s.sqlite")
    models = {PLAIN: model, TILES: fairspan.calibrate(model, TILES)}
    models[STRONG] = fairspan.calibrate(model, "tempscale", temperature=0.5)
    return Done(log, models, prepared(model, **options))


def test_the_log_has_the_texts_of_every_length(done: Done) -> None:
    """Of the same documents, which test_cuts shows to be cut at sentences."""
    cuts = done.texts.cuts
    assert cuts.lengths == tuple(LENGTHS)
    of_study = done.log.header.to_json()["study"]
    assert of_study["paired"] is True
    for length, entry in zip(LENGTHS, of_study["lengths"], strict=True):
        rows = done.log.rows.filter(treatment=PLAIN, measure="cosine", length=length)
        assert rows["tokens"].to_list() == [len(text.text.split()) for text in cuts.at(length)]
        mean = np.mean([text.tokens for text in cuts.at(length)])
        assert entry == {"length": length, "texts": 8, "tokens": pytest.approx(mean)}


def test_geometry_is_that_of_texts_embedded_one_by_one(done: Done) -> None:
    """N² cosines, with and without temperature."""
    assert dict(done.log.rows.schema) == SCHEMA
    rows = geometry(done.log)
    for treatment in (PLAIN, STRONG):
        for length in LENGTHS:
            vectors = done.vectors(treatment, length)
            for number, value in enumerate(done.values(treatment, "cosine", length)):
                others = np.delete(vectors, number, axis=0)
                mean = np.mean([cosine(vectors[number], other) for other in others])
                assert value == pytest.approx(mean, abs=BY_PADDING)
            by_hand = pytest.approx(pairs_mean(vectors), abs=10 * BY_PADDING)
            assert rows[treatment, "cosine", length]["estimate"] == by_hand
    changes = [
        rows[PLAIN, "cosine", length]["estimate"] - rows[STRONG, "cosine", length]["estimate"]
        for length in LENGTHS
    ]
    assert np.abs(changes).max() > 1e-3, "the temperature can be told from none"


def test_a_share_is_the_cosine_with_one_direction_for_all_treatments(done: Done) -> None:
    """That of the plain model with its prompt. Intervals are those of scipy: leaving out one of n
    values of a mean gives the standard error of the mean."""
    rows = geometry(done.log)
    for treatment in (PLAIN, TILES):
        for length in LENGTHS:
            values = done.values(treatment, "share", length)
            by_hand = done.shares(done.vectors(treatment, length))
            assert values == pytest.approx(by_hand, abs=BY_PADDING)
            row = rows[treatment, "share", length]
            ends = stats.ttest_1samp(values, 0).confidence_interval(0.95)
            expected = (values.mean(), ends.low, ends.high)
            assert (row["estimate"], row["low"], row["high"]) == pytest.approx(expected, abs=1e-12)
    own = done.encode(TILES, TEXTS).mean(axis=0)
    assert cosine(own, done.direction) < 0.999, "the premise: that of tiles is another"


def test_level_vectors_have_the_same_share_at_every_length(done: Done) -> None:
    values = np.concatenate([done.values(LEVEL, "share", length) for length in LENGTHS])
    share = done.shares(done.encode(PLAIN, TEXTS)).mean()
    assert np.abs(values - share).max() < ROUNDING
    sentence = done.log.verdicts.filter(treatment=LEVEL)["sentence"].item()
    assert "score for every query 0.0000 [" in sentence
    assert f"({COMMON} {share:.3f} at 10 tokens, {share:.3f} at 40)" in sentence


def test_truncated_vectors_and_a_truncated_direction() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(5, 12)).astype(np.float32)
    direction = rng.normal(size=12)
    by_hand = [cosine(vector[:8], direction[:8]) for vector in vectors]
    assert common_shares(vectors[:, :8], direction) == pytest.approx(by_hand, abs=1e-12)


# Lengths


def test_natural_lengths(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    """Bins of 100 tokens: 4 documents of 50 to 65 tokens, 5 of 100 to 120; two of 200 are too few.

    A treatment of queries changes no vector.
    """
    sizes = [10, 11, 12, 13, 20, 21, 22, 23, 24, 40, 40, 110]
    natural = write_corpus(tmp_path / "natural", sizes)
    model, same = make_tiny("bert", "mean"), f"{STRONG}+sides=query"
    log = study(model, corpus=natural, natural=True, lengths=None, treatments=[PLAIN, same])
    of_study = log.header.to_json()["study"]
    bins = [(entry["length"], entry["texts"]) for entry in of_study["lengths"]]
    assert (bins, of_study["paired"]) == ([(0, 4), (100, 5)], False)
    assert any("1 of 12 documents are longer than the model's 512" in note for note in log.notes)
    assert "lengths with fewer than 3 documents were omitted: 200" in log.notes
    values = geometry(log)
    for begin, numbers in ((0, range(4)), (100, range(4, 9))):
        vectors = [model.encode(article(number, sizes[number])) for number in numbers]
        rows = log.rows.filter(measure="cosine", treatment=PLAIN, length=begin)
        assert rows["document"].to_list() == [f"d{number:02}" for number in numbers]
        assert rows["tokens"].to_list() == [5 * sizes[number] for number in numbers]
        assert rows["value"].mean() == pytest.approx(pairs_mean(vectors), abs=BY_PADDING)
        before, after = (values[name, "cosine", begin]["estimate"] for name in (PLAIN, same))
        assert after == pytest.approx(before)


@pytest.mark.parametrize(
    ("sizes", "window", "lengths"),
    [
        # Half of the documents have 1.1 · 50 = 55 tokens, and less than half 110.
        ([5] * 4 + [12] * 4, 512, [25, 50]),
        ([5] * 4 + [23] * 4, 512, [25, 50, 100]),
        ([5] * 5 + [23] * 4, 512, "half of the 9 documents have fewer than 55 tokens"),
        ([23] * 8, 102, [25, 50, 100]),
        ([23] * 8, 101, [25, 50]),
        ([23] * 8, 40, "the model reads 40 tokens, too few"),
    ],
)
def test_default_lengths(
    make_tiny: Make, tmp_path: Path, sizes: list[int], window: int, lengths: list[int] | str
) -> None:
    """As far as the model reads, two special tokens aside, and half of the documents reach."""
    model = copy_sharing_weights(make_tiny("bert", "mean"))
    model.max_seq_length = window
    ready = partial(prepared, model, corpus=write_corpus(tmp_path / "c", sizes))
    if isinstance(lengths, str):
        assert lengths in said_by(ready, kind=DesignError)
    else:
        assert list(ready().cuts.lengths) == lengths


def test_beyond_the_positions_every_treatment_has_to_be_in_tiles(tmp_path: Path) -> None:
    """A model of 80 positions reads texts of 100 tokens in tiles only."""
    model = str(tmp_path / "model")
    short = tiny_model(tmp_path / "raw", "bert", "mean", max_position_embeddings=80)
    short.save_pretrained(model)
    corpus = write_corpus(tmp_path / "c", [23] * 8)
    ready = partial(prepared, model, corpus=corpus, max_seq_length=200)
    with pytest.raises(DesignError, match=f"200 is more than the 80 tokens that {PLAIN} can read"):
        ready(treatments=[PLAIN, "tiles-64"])
    texts = ready(treatments=["tiles-64+temperature=1", "tiles-64"])
    assert list(texts.cuts.lengths) == [25, 50, 100]


def test_three_documents_decide_nothing(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    """The least that is allowed: the interval has two degrees of freedom and holds both signs."""
    uneven = write_corpus(tmp_path / "uneven", [3] * 4 + [14] * 3)
    log = study(make_tiny("bert", "mean"), corpus=uneven, lengths=[10, 40])
    change = geometry(log)[PLAIN, "cosine", None]
    assert change["low"] < 0 < change["high"], "the premise"
    assert log.verdicts["verdict"].to_list() == ["inconclusive"]
    border = "have no sentence border within 20% of every length"
    assert f"4 of 7 documents {border} and were not used" in log.notes
    assert any(note.startswith("3 documents instead of 5") for note in log.notes)


def test_the_language_that_is_named(make_tiny: Make, tmp_path: Path) -> None:
    """English if there is one; only its texts are measured, whatever the others hold."""
    folder = tmp_path / "two"
    write_corpus(folder, [14] * 6, "it")
    write_corpus(folder, [15] * 8, "en")
    ready = partial(prepared, make_tiny("bert", "mean"), corpus=str(folder), lengths=[10, 20])
    assert {text.language for text in ready().cuts.texts} == {"en"}
    assert ready(language="it").corpus.languages == ("it",)
    with pytest.raises(FairspanError, match="no language 'fr'"):
        ready(language="fr")


# Models and treatments


@pytest.mark.parametrize("reason", ["no direction", "exported"])
def test_a_model_without_a_direction_is_noted(
    make_tiny: Make, study: Study, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    model = copy.deepcopy(make_tiny("bert", "mean"))
    said = "the 48 vectors have no direction in common."

    def find(*_: Any) -> Any:
        raise DesignError(said)

    if reason == "exported":
        model[0].backend = "onnx"
        said = "the onnx backend runs"
    else:
        monkeypatch.setattr("fairspan.model.build.find_direction", find)
    log = study(model)
    line = f"the share of a common direction was not measured: {said.removesuffix('.')}"
    assert any(line in note for note in log.notes)
    assert "share" not in {*log.rows["measure"], *log.frame("geometry")["measure"]}
    assert len(log.view.chart().panels()) == 1
    assert COMMON not in log.verdicts["sentence"][0]


def test_texts_that_gave_the_direction_are_noted(
    make_tiny: Make, study: Study, tmp_path: Path
) -> None:
    """A text is closer to a mean that it is part of."""
    model = make_tiny("bert", "mean")
    line = "the common direction was found from some of these texts"
    of_sample = {"corpus": "sample", "tolerance": 0.9, "documents": 3, "out": tmp_path / "sample"}
    for options, noted in ((of_sample, True), ({}, False)):
        log = study(model, **options)
        assert any(note.startswith(line) for note in log.notes) is noted
        assert "share" in set(log.rows["measure"])


def test_a_model_without_attention_has_a_direction(
    study: Study, corpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(level, "general_texts", lambda: TEXTS)
    torch.manual_seed(3)
    embedding = StaticEmbedding(tiny_tokenizer().backend_tokenizer, embedding_dim=16)
    model = SentenceTransformer(modules=[embedding], device="cpu")
    log = study(model, natural=True, lengths=None, documents=10)
    common = fairspan.fit_level(model.encode(TEXTS).astype(np.float64))
    texts = prepared(model, corpus=corpus, natural=True, treatments=[PLAIN]).cuts.texts
    by_hand = common_shares(model.encode([text.text for text in texts]), common.direction)
    values = log.rows.filter(measure="share")["value"].to_numpy()
    assert values == pytest.approx(by_hand, abs=BY_PADDING)


def test_a_model_that_is_level_keeps_its_direction(make_tiny: Make, study: Study) -> None:
    """The plain treatment is measured along the direction that the model came with."""
    fair = fairspan.calibrate(make_tiny("bert", "mean"), "plain", level=TEXTS)
    log = study(fair, treatments=["plain+level=true"])
    values = log.rows.filter(measure="share")["value"].to_numpy()
    assert np.abs(values - level.level_of(fair).share).max() < ROUNDING


# What the same call finds again


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"corpus": [14] * 2}, "2 documents can be used, and 3 are needed"),
        (
            {"lengths": [10, 200]},
            r"none of 10 documents in 'en' has a sentence border within 20%.*10: 10, 200: 0",
        ),
    ],
)
def test_a_mistake_is_seen_before_work(
    make_tiny: Make,
    study: Study,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    said: str,
) -> None:
    forbid_encoding(monkeypatch)
    if "corpus" in options:
        options = {"corpus": write_corpus(tmp_path / "few", options["corpus"])}
    assert re.search(said, said_by(study, make_tiny("bert", "mean"), **options))
    assert not (tmp_path / "run").exists()
