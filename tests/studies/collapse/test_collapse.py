"""A study of length, recomputed by hand from its model; its log; and what it finds again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.design.cuts import Cuts
from fairspan.errors import DesignError, FairspanError, UnsupportedModel
from fairspan.model.build import copy_sharing_weights
from fairspan.runs.identity import run_name
from fairspan.runs.log import RunLog
from fairspan.runs.progress import as_progress
from fairspan.studies.collapse.entries import SCHEMA
from fairspan.studies.collapse.options import CollapseOptions
from fairspan.studies.collapse.run import STUDY, collapse
from fairspan.studies.collapse.texts import CollapseTexts
from tests.builders.commands import forbid_encoding
from tests.builders.length_studies import PLAIN
from tests.builders.saying import said_by
from tests.builders.tiny import tiny_model
from tests.builders.verbs import article
from tests.corpus.test_corpus import write_folder
from tests.stats.test_geometry import pairs_mean
from tests.studies.audit.test_audit import cosine

Make = Callable[..., SentenceTransformer]
Study = Callable[..., RunLog]

# As in an audit: padded batches in place of each text alone, float32 through four layers.
BY_PADDING = 1e-5

LENGTHS = [10, 20, 40]
DOCUMENTS = 8
STRONG = "tempscale+temperature=0.5"


def write_corpus(folder: Path, sizes: Sequence[int], language: str = "en") -> str:
    """A document for each number of sentences."""
    texts = {f"d{number:02}": article(number, count) for number, count in enumerate(sizes)}
    return str(write_folder(folder, {language: texts}))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten documents of 70 to 80 tokens."""
    return write_corpus(
        tmp_path_factory.mktemp("corpus") / "made", [14 + number % 3 for number in range(10)]
    )


@pytest.fixture
def study(corpus: str, tmp_path: Path) -> Study:
    """The least that is a study, with everything it writes in tmp_path."""

    def measure(model: Any, **options: Any) -> RunLog:
        settings = {"lengths": [10, 20], "treatments": [PLAIN], "documents": 5}
        folders = {"corpus": corpus, "store": tmp_path / "s.sqlite", "out": tmp_path / "run"}
        return collapse(model, **{**settings, **folders, **options})

    return measure


def prepared(model: Any, **options: Any) -> CollapseTexts:
    """A study with its texts cut and nothing embedded."""
    return STUDY.read(CollapseOptions(model, **options), as_progress(False))


def chosen(
    log: RunLog, measure: str, treatment: str = PLAIN, length: int | None = None
) -> pl.DataFrame:
    rows = log.rows.filter(measure=measure, treatment=treatment)
    return rows if length is None else rows.filter(length=length)


def geometry(log: RunLog) -> dict[tuple[str, str, int | None], dict[str, Any]]:
    rows = log.frame("geometry").to_dicts()
    return {(row["treatment"], row["measure"], row["length"]): row for row in rows}


# --- numbers


@dataclass(frozen=True)
class Done:
    """A finished study, the model it asked and the texts it cut."""

    log: RunLog
    models: dict[str, SentenceTransformer]
    cuts: Cuts
    prompt: str

    def vectors(self, treatment: str, length: int) -> list[np.ndarray]:
        """Each text alone."""
        texts = self.cuts.at(length)
        return [self.models[treatment].encode(text.text, prompt=self.prompt) for text in texts]


@pytest.fixture(
    scope="module",
    params=[("bert", "cls", "right", None), ("qwen3", "mean", "left", "w7 w8 ")],
    ids=lambda kind: kind[0],
)
def done(
    request: pytest.FixtureRequest,
    make_tiny: Make,
    corpus: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Done:
    """Two temperatures and three lengths."""
    architecture, pooling, side, prompt = request.param
    model = make_tiny(architecture, pooling, padding_side=side)
    options = {"corpus": corpus, "lengths": LENGTHS, "documents": DOCUMENTS, "prompt": prompt}
    options |= {"treatments": [PLAIN, STRONG]}
    folder = tmp_path_factory.mktemp("study")
    log = collapse(model, **options, out=folder / "run", store=folder / "s.sqlite")
    models = {PLAIN: model, STRONG: fairspan.calibrate(model, "tempscale", temperature=0.5)}
    return Done(log, models, prepared(model, **options).cuts, prompt or "")


def test_texts_are_whole_sentences_of_the_same_documents(done: Done) -> None:
    """The premise of all that follows: texts of a document begin alike."""
    assert done.cuts.lengths == tuple(LENGTHS)
    for length in LENGTHS:
        rows = chosen(done.log, "cosine", length=length)
        assert rows["document"].to_list() == [text.document for text in done.cuts.at(length)]
        assert rows["tokens"].to_list() == [len(text.text.split()) for text in done.cuts.at(length)]
        for text, longest in zip(done.cuts.at(length), done.cuts.at(LENGTHS[-1]), strict=True):
            assert longest.text.startswith(text.text)
            assert text.text.endswith(".")
    assert done.log.header.to_json()["study"]["paired"] is True
    for length, one in zip(LENGTHS, done.log.header.to_json()["study"]["lengths"], strict=True):
        mean = np.mean([text.tokens for text in done.cuts.at(length)])
        assert one == {"length": length, "texts": DOCUMENTS, "tokens": pytest.approx(mean)}


def test_geometry_is_that_of_texts_embedded_one_by_one(done: Done) -> None:
    """N² cosines, with and without temperature."""
    assert dict(done.log.rows.schema) == SCHEMA
    found = geometry(done.log)
    for treatment in (PLAIN, STRONG):
        for length in LENGTHS:
            rows = chosen(done.log, "cosine", treatment, length)
            vectors = done.vectors(treatment, length)
            for number, value in enumerate(rows["value"]):
                others = [vector for k, vector in enumerate(vectors) if k != number]
                mean = np.mean([cosine(vectors[number], other) for other in others])
                assert value == pytest.approx(mean, abs=BY_PADDING)
            by_hand = pytest.approx(pairs_mean(vectors), abs=10 * BY_PADDING)
            assert found[treatment, "cosine", length]["estimate"] == by_hand
    means = [
        [found[name, "cosine", length]["estimate"] for length in LENGTHS]
        for name in (PLAIN, STRONG)
    ]
    assert np.abs(np.subtract(*means)).max() > 1e-3, "the temperature can be told from none"


def test_slopes_are_of_the_estimates(done: Done) -> None:
    """By numpy's least squares, of the share also times that of plain short texts."""
    values = geometry(done.log)
    assert len(values) == len(done.log.frame("geometry")), "no entry is there twice"
    tokens = [
        2 ** np.log2([text.tokens for text in done.cuts.at(length)]).mean() for length in LENGTHS
    ]
    of_queries = values[PLAIN, "share", LENGTHS[0]]["estimate"]
    for name in (PLAIN, STRONG):
        for measure in ("cosine", "share"):
            means = [values[name, measure, length]["estimate"] for length in LENGTHS]
            slope = np.polyfit(np.log2(tokens), means, 1)[0]
            assert values[name, measure, None]["estimate"] == pytest.approx(slope, abs=1e-12)
        in_scores = values[name, "score", None]["estimate"]
        assert in_scores == pytest.approx(of_queries * slope, abs=1e-12)
    assert all(one["low"] < one["estimate"] < one["high"] for one in values.values())


# --- lengths


def test_natural_lengths(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    """Bins of 100 tokens: 4 documents of 50 to 65 tokens, 5 of 100 to 120; two of 200 are too few.

    A treatment of queries changes no vector.
    """
    sizes = [10, 11, 12, 13, 20, 21, 22, 23, 24, 40, 40, 110]
    natural = write_corpus(tmp_path / "natural", sizes)
    model, same = make_tiny("bert", "mean"), f"{STRONG}+sides=query"
    log = study(model, corpus=natural, natural=True, lengths=None, treatments=[PLAIN, same])
    assert [(one["length"], one["texts"]) for one in log.header.to_json()["study"]["lengths"]] == [
        (0, 4),
        (100, 5),
    ]
    assert log.header.to_json()["study"]["paired"] is False
    assert any("1 of 12 documents are longer than the model's 512" in note for note in log.notes)
    assert "lengths with fewer than 3 documents were omitted: 200" in log.notes
    for begin, numbers in ((0, range(4)), (100, range(4, 9))):
        vectors = [model.encode(article(number, sizes[number])) for number in numbers]
        rows = chosen(log, "cosine", length=begin)
        assert rows["document"].to_list() == [f"d{number:02}" for number in numbers]
        assert rows["tokens"].to_list() == [5 * sizes[number] for number in numbers]
        assert rows["value"].mean() == pytest.approx(pairs_mean(vectors), abs=BY_PADDING)
    found = geometry(log)
    for length in (0, 100):
        before, after = (found[name, "cosine", length]["estimate"] for name in (PLAIN, same))
        assert after == pytest.approx(before)


@pytest.mark.parametrize(
    ("sizes", "window", "lengths"),
    [
        # Half of the documents have 1.1 · 50 = 55 tokens, and less than half 110.
        ([5] * 4 + [12] * 4, 512, [25, 50]),
        ([5] * 4 + [23] * 4, 512, [25, 50, 100]),
        ([11] * 8, 512, [25, 50]),
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
    corpus = write_corpus(tmp_path / "c", sizes)
    if isinstance(lengths, str):
        with pytest.raises(DesignError, match=lengths):
            prepared(model, corpus=corpus)
    else:
        assert list(prepared(model, corpus=corpus).cuts.lengths) == lengths


def test_beyond_the_positions_every_treatment_has_to_be_in_tiles(tmp_path: Path) -> None:
    """A model of 80 positions reads texts of 100 tokens in tiles only."""
    model = str(tmp_path / "model")
    short = tiny_model(tmp_path / "raw", "bert", "mean", max_position_embeddings=80)
    short.save_pretrained(model)
    ready = partial(
        prepared, model, corpus=write_corpus(tmp_path / "c", [23] * 8), max_seq_length=200
    )
    with pytest.raises(DesignError, match=f"200 is more than the 80 tokens that {PLAIN} can read"):
        ready(treatments=[PLAIN, "tiles-64"])
    found = ready(treatments=["tiles-64+temperature=1", "tiles-64"])
    assert list(found.cuts.lengths) == [25, 50, 100]


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
    assert set(log.rows["measure"]) == {"cosine", "share"}


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


# --- treatments


def test_baskets_and_one_sided_treatments(make_tiny: Make, study: Study, corpus: str) -> None:
    """Texts are documents: a treatment of queries leaves them as they are."""
    model = make_tiny("bert", "cls")
    names = ["paper+basket_size=4", "paper+basket_size=4+sides=query"]
    log = study(model, treatments=[PLAIN, *names])
    fair = fairspan.calibrate(model, basket_size=4)
    texts = prepared(model, corpus=corpus, lengths=[10, 20], documents=5).cuts.at(20)
    by_hand = pairs_mean([fair.encode_document(text.text) for text in texts])
    values = {
        (name, length): chosen(log, "cosine", name, length)["value"].to_numpy()
        for name in (PLAIN, *names)
        for length in (10, 20)
    }
    assert values[names[0], 20].mean() == pytest.approx(by_hand, abs=BY_PADDING)
    assert abs(by_hand - values[PLAIN, 20].mean()) > 1e-4, "the premise"
    assert values[names[1], 20] == pytest.approx(values[PLAIN, 20], abs=BY_PADDING)


# --- what a model does not offer


def test_only_a_sentence_transformer(corpus: str) -> None:
    class Encodes:
        def encode(self, texts: list[str]) -> Any:
            return np.ones((len(texts), 2))

    with pytest.raises(
        UnsupportedModel, match="a study of length needs a SentenceTransformer, got Encodes"
    ):
        prepared(Encodes(), corpus=corpus)


# --- what the same call finds again


def test_the_name_of_a_run_is_made_of_what_decides_the_result(
    make_tiny: Make, corpus: str, tmp_path: Path
) -> None:
    """test_found_again has every option."""

    def name(**changes: Any) -> str:
        asked = {"corpus": corpus, "lengths": [10, 20]}
        return run_name(prepared(make_tiny("bert", "mean"), **{**asked, **changes}))

    assert name() == name(lengths=[20, 10, 10])
    other = write_corpus(tmp_path / "other", [15] * 10)
    assert len({name(), name(corpus=other), name(tolerance=0.3)}) == 3


@pytest.mark.slow
def test_a_forecast_counts_what_a_run_embeds(make_tiny: Make, corpus: str) -> None:
    asked: dict[str, Any] = {"corpus": corpus, "lengths": [10, 20], "documents": 5}
    asked |= {"treatments": [PLAIN, "chunk-mean"], "progress": False}
    model = make_tiny("bert", "mean")
    found = STUDY.forecast(CollapseOptions(model, **asked))
    texts = prepared(model, **asked).cuts.texts
    assert found.tokens == 2 * sum(text.tokens + 2 for text in texts)
    assert [stage.texts for stage in found.stages] == [10, 10]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lengths": []}, "lengths are numbers of tokens from 1, got none"),
        ({"tolerance": 1.0}, "tolerance is a share of the length from 0 to below 1"),
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
