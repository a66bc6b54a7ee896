"""A study of length, recomputed by hand from its model; its log; and what it finds again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

import fairspan
from fairspan.design.cuts import Cuts
from fairspan.encoding.spectra import spectra
from fairspan.errors import DesignError, FairspanError, UnsupportedModel
from fairspan.model.build import copy_sharing_weights
from fairspan.runs.forecast import on_trial
from fairspan.runs.identity import Identity
from fairspan.runs.log import RunLog
from fairspan.runs.progress import as_progress
from fairspan.runs.rows import SCHEMA
from fairspan.stats.geometry import MEASURES
from fairspan.studies.collapse import prepare as collapse_prepared
from fairspan.studies.collapse import run as collapse_run
from fairspan.studies.collapse.measures import repeated_pairs
from fairspan.studies.collapse.options import WORDS, CollapseOptions, temperature_of
from fairspan.studies.collapse.prepare import PreparedCollapse
from fairspan.studies.collapse.run import STUDY, collapse
from tests.commands import forbid_encoding
from tests.length_studies import PLAIN
from tests.saying import said_by
from tests.test_audit import cosine
from tests.test_corpus import write_folder
from tests.test_geometry import distance_by_hand, pairs_mean, unit
from tests.tiny import tiny_model, tiny_tokenizer
from tests.verbs import article

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
        settings = {"lengths": [10, 20], "temperatures": [1.0], "documents": 5, "spectra": 0}
        settings["treatments"] = []
        folders = {"corpus": corpus, "store": tmp_path / "s.sqlite", "out": tmp_path / "run"}
        return collapse(model, **{**settings, **folders, **options})

    return measure


def prepared(model: Any, **options: Any) -> PreparedCollapse:
    """A study with its texts cut and nothing embedded."""
    return STUDY.ready(CollapseOptions(model, **options), as_progress(False))


def chosen(
    log: RunLog, measure: str, treatment: str = PLAIN, length: int | None = None
) -> pl.DataFrame:
    rows = log.rows.filter(measure=measure, treatment=treatment)
    return rows if length is None else rows.filter(part=str(length))


def geometry(log: RunLog) -> dict[tuple[str, str, int | None, str | None], dict[str, Any]]:
    rows = log.frame("geometry").to_dicts()
    return {(row["treatment"], row["measure"], row["length"], row["against"]): row for row in rows}


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
    options |= {"temperatures": [1.0, 0.5], "treatments": [], "spectra": 2, "layers": "last_half"}
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        # The tiny vocabulary has neither dogs nor cats.
        patch.setattr(
            collapse_prepared, "repeated_pairs", partial(repeated_pairs, words=("w3", "w5"))
        )
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
    assert done.log.header.to_json()["paired"] is True
    for length, one in zip(LENGTHS, done.log.header.to_json()["lengths"], strict=True):
        mean = np.mean([text.tokens for text in done.cuts.at(length)])
        assert one == {"length": length, "texts": DOCUMENTS, "tokens": pytest.approx(mean)}


def test_geometry_is_that_of_texts_embedded_one_by_one(done: Done) -> None:
    """N² cosines, with and without temperature; roots make the errors of distances larger."""
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
            for measure, function in {"cosine": pairs_mean, "distance": distance_by_hand}.items():
                by_hand = pytest.approx(function(vectors), abs=10 * BY_PADDING)
                assert found[treatment, measure, length, None]["estimate"] == by_hand
        units = {length: unit(np.stack(done.vectors(treatment, length))) for length in LENGTHS}
        origin = np.mean([rows.mean(0) for rows in units.values()], axis=0)
        for length, rows in units.items():
            by_hand = pytest.approx(np.linalg.norm(rows - origin, axis=1).mean(), abs=1e-5)
            assert found[treatment, "origin", length, None]["estimate"] == by_hand
    changes = [abs(found[STRONG, "cosine", length, PLAIN]["estimate"]) for length in LENGTHS]
    assert max(changes) > 1e-3, "the temperature can be told from none"


def test_differences_are_of_the_estimates(done: Done) -> None:
    values = geometry(done.log)
    assert len(values) == len(done.log.frame("geometry")), "no entry is there twice"
    tokens = [
        2 ** np.log2([text.tokens for text in done.cuts.at(length)]).mean() for length in LENGTHS
    ]
    expected = {}
    for measure, name in product(MEASURES, (PLAIN, STRONG, WORDS)):
        if (measure, name) != ("share", WORDS):
            own = [values[name, measure, length, None]["estimate"] for length in LENGTHS]
            first = values[PLAIN, measure, LENGTHS[0], None]["estimate"]
            for number, length in enumerate(LENGTHS):
                by_hand = {None: own[number]}
                if number:
                    by_hand["shortest"] = own[number] - own[0]
                if name != WORDS:
                    by_hand["short_baseline"] = own[number] - first
                if name == STRONG:
                    by_hand[PLAIN] = own[number] - values[PLAIN, measure, length, None]["estimate"]
                expected |= {
                    (name, measure, length, against): value for against, value in by_hand.items()
                }
            expected[name, measure, None, "doubling"] = np.polyfit(np.log2(tokens), own, 1)[0]
    assert {key: one["estimate"] for key, one in values.items()} == pytest.approx(
        expected, abs=1e-12
    )
    for key, one in values.items():
        assert one["low"] <= one["estimate"] <= one["high"], key
        assert (one["low"] < one["high"]) is not (
            key[0] == PLAIN and key[2:] == (LENGTHS[0], "short_baseline")
        )


def test_word_control_by_hand(done: Done) -> None:
    """Rows of the embedding matrix, averaged: no position, no special token, no prompt."""
    embeddings = done.models[PLAIN].transformers_model.get_input_embeddings()
    table = embeddings.weight.detach().double().numpy()
    ids = tiny_tokenizer().convert_tokens_to_ids
    for length in LENGTHS:
        means = [table[ids(text.text.split())].mean(axis=0) for text in done.cuts.at(length)]
        rows = chosen(done.log, "cosine", WORDS, length)
        assert rows["value"].mean() == pytest.approx(pairs_mean(means), abs=1e-9)


def test_spectra_are_those_of_the_function(done: Done) -> None:
    """The first two documents of every length, here those of one length under the temperature."""
    texts = done.cuts.at(20)[:2]
    asked = [text.text for text in texts]
    found = spectra(done.models[STRONG], asked, prompt=done.prompt, layers="last_half")
    for text, one in zip(texts, found, strict=True):
        quantities = ("ratio", "filter_rate", "sigma_a", "sigma_s", "theorem_2", "theorem_3")
        for quantity in quantities:
            values = getattr(one, quantity)
            measure = "hc_dc" if quantity == "ratio" else quantity
            rows = chosen(done.log, measure, STRONG, 20).filter(pl.col("document") == text.document)
            known = np.flatnonzero(np.isfinite(values))
            assert len(known), measure
            assert rows["layer"].to_list() == known.tolist()
            # Batches differ, so the model's float32 does; σ_a is found to a relative 1e-6 or so.
            assert rows["value"].to_numpy() == pytest.approx(values[known], rel=1e-3, abs=1e-5)
            assert set(rows["tokens"]) == {text.tokens + 2 + len(done.prompt.split())}
    for length in LENGTHS:
        assert chosen(done.log, "sigma_a", length=length)["document"].n_unique() == 2
    assert set(chosen(done.log, "sigma_a")["layer"]) == {2, 3}
    assert set(chosen(done.log, "hc_dc")["layer"]) == {0, 1, 2, 3, 4}


def test_repeated_words_by_hand(done: Done) -> None:
    """1, 2, 4, … as often as fits into the 512 tokens of the window."""
    rows = chosen(done.log, "repeated", STRONG)
    assert [int(part) for part in rows["part"]] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    for times, value, name in rows.select("part", "value", "document").rows()[:6]:
        texts = [" ".join([word] * int(times)) for word in ("w3", "w5")]
        pair = [done.models[STRONG].encode(text, prompt=done.prompt) for text in texts]
        assert value == pytest.approx(cosine(*pair), abs=BY_PADDING)
        assert name == "w3 / w5"
    assert rows["value"].std() > 1e-3, "repetitions change something"


# --- lengths


def test_natural_lengths(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    """Bins of 100 tokens: 4 documents of 50 to 65 tokens, 5 of 100 to 120; two of 200 are too few.

    A treatment of queries changes no vector, so that its change, which is paired, has no width.
    """
    sizes = [10, 11, 12, 13, 20, 21, 22, 23, 24, 40, 40, 110]
    natural = write_corpus(tmp_path / "natural", sizes)
    model, same = make_tiny("bert", "mean"), f"{STRONG}+sides=query"
    log = study(model, corpus=natural, natural=True, lengths=None, treatments=[same], spectra=1)
    assert [(one["length"], one["texts"]) for one in log.header.to_json()["lengths"]] == [
        (0, 4),
        (100, 5),
    ]
    assert log.header.to_json()["paired"] is False
    assert any("1 of 12 documents are longer than the model's 512" in note for note in log.notes)
    assert "lengths with fewer than 3 documents were omitted: 200" in log.notes
    for begin, numbers in ((0, range(4)), (100, range(4, 9))):
        vectors = [model.encode(article(number, sizes[number])) for number in numbers]
        rows = chosen(log, "cosine", length=begin)
        assert rows["document"].to_list() == [f"d{number:02}" for number in numbers]
        assert rows["tokens"].to_list() == [5 * sizes[number] for number in numbers]
        assert rows["value"].mean() == pytest.approx(pairs_mean(vectors), abs=BY_PADDING)
    found = geometry(log)
    change = found[PLAIN, "cosine", 100, "shortest"]
    assert change["low"] < change["estimate"] < change["high"]
    none = found[same, "cosine", 100, PLAIN]
    assert [none["estimate"], none["low"], none["high"]] == pytest.approx([0] * 3)


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
        ready(treatments=["tiles-64"])
    found = ready(temperatures=[], treatments=["tiles-64+temperature=1", "tiles-64"])
    assert list(found.cuts.lengths) == [25, 50, 100]


def test_three_documents_decide_nothing(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    """The least that is allowed: the interval has two degrees of freedom and holds both signs."""
    uneven = write_corpus(tmp_path / "uneven", [3] * 4 + [14] * 3)
    log = study(make_tiny("bert", "mean"), corpus=uneven, lengths=[10, 40])
    change = geometry(log)[PLAIN, "cosine", None, "doubling"]
    assert change["low"] < 0 < change["high"], "the premise"
    assert log.verdicts["verdict"].to_list() == ["inconclusive"]
    border = "have no sentence border within 20% of every length"
    assert f"4 of 7 documents {border} and were not used" in log.notes
    assert any(note.startswith("3 documents instead of 5") for note in log.notes)
    # No spectra.
    spreads = {"cosine", "share", "distance", "distance_without", "origin"}
    assert set(log.rows["measure"]) == {*spreads, "repeated"}


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
    log = study(model, temperatures=[1.0, 0.5], treatments=names, spectra=1, layers="all")
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
    # Theorem 3 is about one softmax, so calibrated layers (2 and 3) have no such bound.
    assert set(chosen(log, "theorem_3", names[0])["layer"]) == {0, 1}
    assert set(chosen(log, "sigma_a", names[0])["layer"]) == {0, 1, 2, 3}


def test_temperatures_are_treatments() -> None:
    names = [
        one.name
        for one in CollapseOptions(
            temperatures=[1, 0.87654321], treatments=["tiles-64"]
        ).all_treatments
    ]
    assert names == [PLAIN, "tempscale+temperature=0.87654321", "tiles-64"]
    measured = CollapseOptions(
        treatments=["tempscale", "tiles-64"], temperatures=[1.0]
    ).all_treatments
    assert [temperature_of(one) for one in measured] == [1.0, 0.8, None]


# --- what a model does not offer


def test_a_model_without_word_embeddings_or_value_weights_is_noted(
    make_tiny: Make, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_tiny("bert", "mean")

    def missing(self: Any) -> Any:
        raise NotImplementedError

    monkeypatch.setattr(type(model.transformers_model), "get_input_embeddings", missing)
    monkeypatch.setattr(
        "fairspan.encoding.spectra.find_value_weights", lambda model: "values are hidden"
    )
    log = study(model, temperatures=[1.0, 0.5], spectra=1)
    assert WORDS not in set(log.rows["treatment"])
    assert "Theorem 2's bound is not known: values are hidden" in log.notes
    assert any(
        note.startswith("the mean of raw word embeddings was not measured: BertModel")
        for note in log.notes
    )
    assert "theorem_2" not in set(log.rows["measure"])
    assert set(log.frame("bounds")["bound"]) == {"theorem_3"}


def test_a_model_without_attention_is_measured_without_spectra(study: Study, corpus: str) -> None:
    torch.manual_seed(3)
    tokenizer = tiny_tokenizer().backend_tokenizer
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu"
    )
    log = study(model, spectra=2)
    asked = {"corpus": corpus, "lengths": [10, 20], "documents": 5, "treatments": []}
    texts = prepared(model, **asked).cuts.at(20)
    by_hand = pairs_mean([model.encode(text.text) for text in texts])
    mean = chosen(log, "cosine", length=20)["value"].mean()
    assert mean == pytest.approx(by_hand, abs=BY_PADDING)
    assert any("raw word embeddings was not measured" in note for note in log.notes)
    assert any(note.startswith("spectra were not measured") for note in log.notes)
    asked = CollapseOptions(
        model, corpus=corpus, lengths=[10, 20], temperatures=[1.0], treatments=[], progress=False
    )
    assert STUDY.forecast(asked).seconds


def test_only_a_sentence_transformer(corpus: str) -> None:
    class Encodes:
        def encode(self, texts: list[str]) -> Any:
            return np.ones((len(texts), 2))

    with pytest.raises(
        UnsupportedModel, match="a study of length needs a SentenceTransformer, got Encodes"
    ):
        prepared(Encodes(), corpus=corpus, temperatures=[1.0])


def test_spectra_that_do_not_fit_into_memory_are_one_line(
    make_tiny: Make, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB")
        yield

    monkeypatch.setattr(collapse_run, "spectra_of", exhausted)
    line = said_by(study, make_tiny("bert", "mean"), spectra=1)
    assert "spectra of texts of up to 20 tokens do not fit into memory" in line
    assert "spectra=0" in line


# --- what the same call finds again


def test_the_name_of_a_run_is_made_of_what_decides_the_result(
    make_tiny: Make, corpus: str, tmp_path: Path
) -> None:
    """test_key has every option."""

    def name(**changes: Any) -> str:
        asked = {"corpus": corpus, "lengths": [10, 20], "temperatures": [1.0]}
        return Identity.of(prepared(make_tiny("bert", "mean"), **{**asked, **changes})).run_name

    assert name() == name(lengths=[20, 10, 10])
    other = write_corpus(tmp_path / "other", [15] * 10)
    assert len({name(), name(corpus=other), name(start="beginning")}) == 3


@pytest.mark.slow
def test_a_forecast_counts_what_a_run_embeds(make_tiny: Make, corpus: str) -> None:
    """Tokens whose spectra are computed are read once more; averaged chunks have none."""
    asked: dict[str, Any] = {"corpus": corpus, "lengths": [10, 20], "documents": 5, "spectra": 2}
    asked |= {"temperatures": [1.0], "treatments": ["chunk-mean"], "progress": False}
    model = make_tiny("bert", "mean")
    found = STUDY.forecast(CollapseOptions(model, **asked))
    ready = prepared(model, **asked)
    texts = ready.cuts.texts
    # Unknown words are one token: 1, 2, 4, … 256 of them, twice, beside two special ones.
    repeated = [2**times for times in range(9)] * 2
    counts = [*(text.tokens for text in texts), *repeated]
    analysed = sum(text.tokens for text in ready.analysed)
    assert found.tokens == 2 * sum(count + 2 for count in counts) + analysed > 0
    longest = max(text.tokens for text in texts)
    assert found.scope == f"28 texts of up to {longest} tokens × 2 treatments"
    work = ready.work(lambda treatment: on_trial(ready.subject, treatment))
    assert work[0].seconds() > 0 == work[1].seconds()


# --- what is asked


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lengths": [0, 10]}, "lengths must be a whole number of at least 1, got 0"),
        ({"lengths": "10,20"}, "lengths must be a list"),
        ({"lengths": 50}, "lengths must be a list"),
        ({"lengths": [10], "natural": True}, "natural lengths are the documents' own"),
        ({"start": "middle"}, "start must be one of beginning, random, got 'middle'"),
        ({"layers": "first"}, "layers must be one of last, last_half, all, got 'first'"),
        ({"documents": 2}, "documents must be a whole number of at least 3, got 2"),
        ({"spectra": True}, "spectra must be a whole number of at least 0, got True"),
        ({"margin": 0}, "margin must be between 0 and 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"temperatures": [1.0], "treatments": ["none"]}, f"'{PLAIN}' is named twice"),
        ({"temperatures": [], "treatments": []}, "name at least one treatment"),
        ({"temperatures": "0.9"}, "temperatures must be a list, such as [1.0, 0.8], got '0.9'"),
        ({"temperatures": [1.1]}, "temperature must be a number above 0 and at most 1, got 1.1"),
        (
            {"treatments": ["paper+baskets=segments"]},
            "makes segments baskets, and these texts have none",
        ),
        (
            {"treatments": [{"name": WORDS, "preset": "tempscale"}]},
            "'words' is the name of the word-embedding control",
        ),
        ({"natural": True, "tolerance": 0.5}, "so tolerance would do nothing"),
        ({"labelled_documents": 9}, "so labelled_documents would do nothing"),
        ({"labelled": "x.jsonl", "labelled_documents": 3}, "of at least 4, got 3"),
        ({"spectra": 0, "layers": "all"}, "so layers would do nothing"),
        ({"treatments": ["last2avg"]}, "the treatment 'last2avg' was removed"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_mistake_is_one_line(options: dict[str, Any], said: str) -> None:
    assert said in said_by(CollapseOptions, **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lengths": []}, "lengths are numbers of tokens from 1, got none"),
        ({"tolerance": 1.0}, "tolerance is a share of the length from 0 to below 1"),
        ({"labelled": "nowhere.jsonl"}, "nowhere.jsonl cannot be read"),
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
