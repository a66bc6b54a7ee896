"""A study of length, recomputed by hand from its model; its log; and what the same call finds again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

import fairspan
from fairspan.calibration.treatment import as_treatment
from fairspan.design.cuts import Cuts
from fairspan.encoding.spectra import spectra
from fairspan.errors import DesignError, EncodingError, FairspanError, UnsupportedModel
from fairspan.model.build import copy_sharing_weights
from fairspan.model.loading import Loading
from fairspan.runs.log import RunLog
from fairspan.runs.rows import SCHEMA
from fairspan.runs.subject import open_subject
from fairspan.studies.audit.run import audit
from fairspan.studies.collapse import prepare as collapse_prepared
from fairspan.studies.collapse import run as collapse_run
from fairspan.studies.collapse.advice import advice
from fairspan.studies.collapse.run import WORDS, collapse, prepare_collapse
from fairspan.studies.collapse.spec import at_temperature, make_collapse, temperature_of
from fairspan.studies.collapse.summary import summarize_length
from fairspan.studies.collapse.words import repeated_pairs
from fairspan.studies.logs import read_log
from tests.commands import forbid_encoding, header_of
from tests.test_geometry import distance_by_hand, pairs_mean, rank_by_svd
from tests.tiny import tiny_model, tiny_tokenizer, words
from tests.verbs import Recorder

Make = Callable[..., SentenceTransformer]
Study = Callable[..., RunLog]

# As in an audit: padded batches in place of each text alone, float32 through four layers.
BY_PADDING = 1e-5

SENTENCE = 5
LENGTHS = [10, 20, 40]
DOCUMENTS = 8
STRONG = "tempscale+temperature=0.5"


def document(number: int, sentences: int) -> str:
    """Sentences of five words, one token a word."""
    return " ".join(words(SENTENCE, 1000 * number + place) + "." for place in range(sentences))


def write_corpus(folder: Path, sizes: Sequence[int], language: str = "en") -> str:
    """A document for each number of sentences."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": f"d{number:02}", "text": document(number, n)}) for number, n in enumerate(sizes)]
    (folder / f"{language}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return str(folder)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten documents of 70 to 80 tokens."""
    return write_corpus(tmp_path_factory.mktemp("corpus") / "made", [14 + number % 3 for number in range(10)])


@pytest.fixture
def study(corpus: str, tmp_path: Path) -> Study:
    """The least that is a study, with everything it writes in tmp_path."""

    def measure(model: Any, **options: Any) -> RunLog:
        settings = {
            "corpus": corpus,
            "lengths": [10, 20],
            "temperatures": [1.0],
            "documents": 5,
            "spectra": 0,
            "probe": False,
            "store": tmp_path / "s.sqlite",
            "out": tmp_path / "run",
        }
        return collapse(model, **{**settings, **options})

    return measure


def chosen(log: RunLog, measure: str, treatment: str = "none", length: int | None = None) -> pl.DataFrame:
    rows = log.rows.filter((pl.col("measure") == measure) & (pl.col("treatment") == treatment))
    return rows if length is None else rows.filter(pl.col("part") == str(length))


def cosine(one: Any, other: Any) -> float:
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


def pairwise_mean(vectors: Sequence[Any]) -> float:
    """Every ordered pair of different texts, one by one."""
    return float(np.mean([cosine(a, b) for a, b in permutations(vectors, 2)]))


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


KINDS = [
    ("bert", "cls", "right", None),
    pytest.param(("roberta", "mean", "right", ""), marks=pytest.mark.slow),
    ("qwen3", "mean", "left", "w7 w8 "),
]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind[0])
def done(
    request: pytest.FixtureRequest, make_tiny: Make, corpus: str, tmp_path_factory: pytest.TempPathFactory
) -> Done:
    """Two temperatures and three lengths."""
    architecture, pooling, side, prompt = request.param
    model = make_tiny(architecture, pooling, padding_side=side)
    options = {
        "corpus": corpus,
        "lengths": LENGTHS,
        "temperatures": [1.0, 0.5],
        "documents": DOCUMENTS,
        "spectra": 2,
        "layers": "last_half",
        "prompt": prompt,
    }
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        # The tiny vocabulary has neither dogs nor cats.
        patch.setattr(collapse_prepared, "repeated_pairs", partial(repeated_pairs, words=("w3", "w5")))
        log = collapse(model, **options, out=folder / "run", store=folder / "s.sqlite")
    cuts = prepare_collapse(open_subject(model), make_collapse(**options)).cuts
    models = {"none": model, STRONG: fairspan.calibrate(model, "tempscale", temperature=0.5)}
    return Done(log, models, cuts, prompt or "")


def test_texts_are_whole_sentences_of_the_same_documents(done: Done, corpus: str) -> None:
    """The premise of all that follows: every length has the same documents, a longer text holds the shorter one."""
    whole = {
        line["id"]: line["text"] for line in map(json.loads, (Path(corpus) / "en.jsonl").read_text().splitlines())
    }
    assert done.cuts.lengths == tuple(LENGTHS)
    for length in LENGTHS:
        rows = chosen(done.log, "cosine", length=length)
        assert rows["document"].to_list() == [text.document for text in done.cuts.at(length)]
        assert rows["tokens"].to_list() == [len(text.text.split()) for text in done.cuts.at(length)]
        assert all(abs(tokens - length) <= 0.2 * length for tokens in rows["tokens"])
        for text, longest in zip(done.cuts.at(length), done.cuts.at(LENGTHS[-1]), strict=True):
            assert text.text in whole[text.document]
            assert longest.text.startswith(text.text)
            assert text.text.endswith(".")
    assert done.log.header["paired"] is True
    for length, one in zip(LENGTHS, done.log.header["lengths"], strict=True):
        mean = np.mean([text.tokens for text in done.cuts.at(length)])
        assert one == {"length": length, "texts": DOCUMENTS, "tokens": pytest.approx(mean)}


def test_rows_are_mean_cosines_with_all_others(done: Done) -> None:
    """N² cosines of texts embedded one by one, under the plain model and under the temperature."""
    assert dict(done.log.rows.schema) == SCHEMA
    means = {}
    for treatment in ("none", STRONG):
        for length in LENGTHS:
            rows = chosen(done.log, "cosine", treatment, length)
            vectors = done.vectors(treatment, length)
            assert len(rows) == DOCUMENTS
            for number, value in enumerate(rows["value"]):
                others = [cosine(vectors[number], other) for k, other in enumerate(vectors) if k != number]
                assert value == pytest.approx(np.mean(others), abs=BY_PADDING)
            means[treatment, length] = rows["value"].mean()
            assert means[treatment, length] == pytest.approx(pairwise_mean(vectors), abs=BY_PADDING)
    differences = [abs(means["none", length] - means[STRONG, length]) for length in LENGTHS]
    assert max(differences) > 1e-3, "the temperature can be told from none"


def test_geometry_is_that_of_the_same_vectors(done: Done) -> None:
    """Ranks are of order 5 and their singular values are smaller than the vectors: ten times the tolerance."""
    summary = summarize_length(done.log)
    functions = {"cosine": pairs_mean, "distance": distance_by_hand, "rank": rank_by_svd}
    assert summary.measures == list(functions)
    for measure, function in functions.items():
        for treatment in ("none", STRONG):
            for length in LENGTHS:
                found = summary.value(treatment, measure, length)
                by_hand = function(np.stack(done.vectors(treatment, length)))
                assert found is not None
                assert found.estimate == pytest.approx(by_hand, abs=10 * BY_PADDING)


def test_differences_are_of_the_estimates(done: Done) -> None:
    entries, tokens = done.log.frame("geometry").to_dicts(), summarize_length(done.log).tokens
    values = {(e["treatment"], e["measure"], e["length"], e["against"]): e for e in entries}
    assert len(values) == len(entries), "no entry is there twice"
    expected = set()
    for measure in ("cosine", "distance", "rank"):
        for name in ("none", STRONG, WORDS):
            own = [values[name, measure, length, None]["estimate"] for length in LENGTHS]
            first = values["none", measure, LENGTHS[0], None]["estimate"]
            for number, length in enumerate(LENGTHS):
                by_hand = {None: own[number]}
                if number:
                    by_hand["shortest"] = own[number] - own[0]
                if name != WORDS:
                    by_hand["short_baseline"] = own[number] - first
                if name == STRONG:
                    by_hand["none"] = own[number] - values["none", measure, length, None]["estimate"]
                for against, value in by_hand.items():
                    assert values[name, measure, length, against]["estimate"] == pytest.approx(value, abs=1e-12)
                    expected.add((name, measure, length, against))
            slope = np.polyfit(np.log2([tokens[length] for length in LENGTHS]), own, 1)[0]
            assert values[name, measure, None, "doubling"]["estimate"] == pytest.approx(slope, abs=1e-12)
            expected.add((name, measure, None, "doubling"))
    assert set(values) == expected


def test_intervals_hold_their_estimates(done: Done) -> None:
    for entry in done.log.frame("geometry").to_dicts():
        assert entry["low"] <= entry["estimate"] <= entry["high"], entry
        itself = (
            entry["against"] == "short_baseline" and entry["length"] == LENGTHS[0] and entry["treatment"] == "none"
        )
        assert (entry["low"] < entry["high"]) is not itself, entry


def test_word_control_by_hand(done: Done) -> None:
    """Rows of the embedding matrix, averaged: no position, no special token, no prompt."""
    model = done.models["none"]
    table = model.transformers_model.get_input_embeddings().weight.detach().double().numpy()
    tokenizer = tiny_tokenizer()
    for length in LENGTHS:
        means = [table[tokenizer.convert_tokens_to_ids(t.text.split())].mean(axis=0) for t in done.cuts.at(length)]
        rows = chosen(done.log, "cosine", WORDS, length)
        assert rows["value"].mean() == pytest.approx(pairwise_mean(means), abs=1e-9)
        assert summarize_length(done.log).value(WORDS, "rank", length).estimate == pytest.approx(  # type: ignore[union-attr]
            rank_by_svd(np.stack(means)), abs=1e-9
        )


@pytest.mark.slow
def test_spectra_are_those_of_the_function(done: Done) -> None:
    """The first two documents of every length, under the plain model and under the temperature."""
    quantities = ("filter_rate", "sigma_a", "sigma_s", "theorem_2", "theorem_3")
    for treatment, model in done.models.items():
        for length in LENGTHS:
            texts = done.cuts.at(length)[:2]
            found = list(spectra(model, [t.text for t in texts], prompt=done.prompt, layers="last_half"))
            for text, one in zip(texts, found, strict=True):
                for measure, values in {"hc_dc": one.ratio, **{q: getattr(one, q) for q in quantities}}.items():
                    rows = chosen(done.log, measure, treatment, length).filter(pl.col("document") == text.document)
                    known = np.flatnonzero(np.isfinite(values))
                    assert len(known), measure
                    assert rows["layer"].to_list() == known.tolist()
                    # Batches differ, so the model's own float32 does; σ_a is found to a relative 1e-6 or so.
                    assert rows["value"].to_numpy() == pytest.approx(values[known], rel=1e-3, abs=1e-5)
                    assert set(rows["tokens"]) == {text.tokens + 2 + len(done.prompt.split())}
    assert set(chosen(done.log, "sigma_a")["layer"]) == {2, 3}
    assert set(chosen(done.log, "hc_dc")["layer"]) == {0, 1, 2, 3, 4}


def test_repeated_words_by_hand(done: Done) -> None:
    """1, 2, 4, … as often as fits into the 512 tokens of the window."""
    for treatment, model in done.models.items():
        rows = chosen(done.log, "repeated", treatment)
        assert [int(part) for part in rows["part"]] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
        for times, value, tokens, name in rows.select("part", "value", "tokens", "document").rows():
            pair = [model.encode(" ".join([word] * int(times)), prompt=done.prompt) for word in ("w3", "w5")]
            assert value == pytest.approx(cosine(*pair), abs=BY_PADDING)
            assert (tokens, name) == (int(times), "w3 / w5")
        assert rows["value"].std() > 1e-3, "repetitions change something"


def test_layers_choose_where_sigma_a_is_computed(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    for layers, wanted in (("last", {3}), ("all", {0, 1, 2, 3})):
        log = study(make_tiny("bert", "mean"), spectra=1, layers=layers, out=tmp_path / layers)
        assert set(chosen(log, "sigma_a")["layer"]) == wanted
        assert set(chosen(log, "theorem_2")["layer"]) == wanted
        assert set(chosen(log, "filter_rate")["layer"]) == {0, 1, 2, 3}


def test_a_model_that_comes_calibrated_is_measured_as_it_is(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    """In the same store as the plain one, whose vectors it must not be given."""
    plain = make_tiny("bert", "mean")
    before = study(plain, temperatures=[1.0, 0.5])
    log = study(fairspan.calibrate(plain, "tempscale", temperature=0.5), out=tmp_path / "fair")
    assert log.run != before.run
    found, expected = chosen(log, "cosine")["value"], chosen(before, "cosine", STRONG)["value"]
    assert found.to_numpy() == pytest.approx(expected.to_numpy(), abs=BY_PADDING)
    assert not np.allclose(found, chosen(before, "cosine")["value"], atol=1e-3)


def test_the_models_own_prompt_is_used(make_tiny: Make, study: Study) -> None:
    model = copy_sharing_weights(make_tiny("bert", "mean"))
    model.prompts = {"document": "w7 w8 "}
    log = study(model)
    assert log.header["model"]["prompts"]["document"] == "w7 w8 "
    texts = prepare_collapse(open_subject(model), make_collapse(**_asked(log))).cuts.at(10)
    vectors = [model.encode("w7 w8 " + text.text) for text in texts]
    assert chosen(log, "cosine", length=10)["value"].mean() == pytest.approx(pairwise_mean(vectors), abs=BY_PADDING)


def _asked(log: RunLog) -> dict[str, Any]:
    """The options of a study with no treatment but the plain model."""
    fields = {name: value for name, value in log.spec.items() if name != "treatments"}
    return {**fields, "temperatures": [1.0]}


# --- lengths


def test_natural_lengths(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    """Whole documents in bins of 100 tokens: 4 of 50 to 65 tokens, 5 of 100 to 120; unequal bins have no rank."""
    sizes = [10, 11, 12, 13, 20, 21, 22, 23, 24, 110]
    natural = write_corpus(tmp_path / "natural", sizes)
    model = make_tiny("bert", "mean")
    log = study(model, corpus=natural, natural=True, lengths=None)
    assert [(one["length"], one["texts"]) for one in log.header["lengths"]] == [(0, 4), (100, 5)]
    assert log.header["paired"] is False
    assert any("1 of 10 documents are longer than the model's 512" in note for note in log.notes)
    for begin, numbers in ((0, range(4)), (100, range(4, 9))):
        vectors = [model.encode(document(number, sizes[number])) for number in numbers]
        rows = chosen(log, "cosine", length=begin)
        assert rows["document"].to_list() == [f"d{number:02}" for number in numbers]
        assert rows["tokens"].to_list() == [5 * sizes[number] for number in numbers]
        assert rows["value"].mean() == pytest.approx(pairwise_mean(vectors), abs=BY_PADDING)
    summary = summarize_length(log)
    assert summary.measures == ["cosine", "distance"]
    change = summary.value("none", "cosine", 100, "shortest")
    assert change is not None
    assert change.low < change.estimate < change.high  # type: ignore[operator]


def test_natural_bins_of_one_size_have_a_rank(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    natural = write_corpus(tmp_path / "natural", [10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23, 24, 25, 26, 27])
    log = study(make_tiny("bert", "mean"), corpus=natural, natural=True, lengths=None, documents=8)
    assert [one["texts"] for one in log.header["lengths"]] == [8, 8]
    assert "rank" in summarize_length(log).measures


@pytest.mark.parametrize("few", [1, 2])
def test_a_natural_bin_of_few_documents_is_no_failure(
    make_tiny: Make, study: Study, tmp_path: Path, few: int
) -> None:
    """Nearly every real corpus has a last bin of one or two documents: it is left out, or has no interval."""
    natural = write_corpus(tmp_path / "natural", [10, 11, 12, 13, 14] + [22] * few)
    log = study(make_tiny("bert", "mean"), corpus=natural, natural=True, lengths=None)
    assert log.status == "complete"
    assert summarize_length(log).value("none", "cosine", 0) is not None


def test_treatments_of_natural_lengths_are_paired(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    """Both treatments embed the same documents with the same vectors: the change is 0 and has no width."""
    natural = write_corpus(tmp_path / "natural", [10, 11, 12, 13, 20, 21, 22, 23, 24])
    same = "tempscale+temperature=0.5+sides=query"
    log = study(make_tiny("bert", "mean"), corpus=natural, natural=True, lengths=None, treatments=[same])
    change = summarize_length(log).value(same, "cosine", 100, "none")
    assert change is not None
    assert change.estimate == 0
    assert (change.low, change.high) == pytest.approx((0, 0), abs=1e-9)


def test_one_natural_bin_was_not_cut(make_tiny: Make, study: Study) -> None:
    log = study(make_tiny("bert", "mean"), natural=True, lengths=None)
    assert [one["length"] for one in log.header["lengths"]] == [0]
    assert log.header["paired"] is False


@pytest.mark.parametrize(
    ("sizes", "window", "lengths"),
    [
        # Half of the documents have 1.1 · 50 = 55 tokens, and less than half 110.
        ([5] * 4 + [12] * 4, 512, [25, 50]),
        ([5] * 4 + [23] * 4, 512, [25, 50, 100]),
        ([5] * 5 + [23] * 4, 512, None),
        ([23] * 8, 102, [25, 50, 100]),
        ([23] * 8, 101, [25, 50]),
        pytest.param(
            [11] * 8,
            512,
            [25, 50],
        ),
    ],
)
def test_default_lengths(
    make_tiny: Make, tmp_path: Path, sizes: list[int], window: int, lengths: list[int] | None
) -> None:
    """25, 50, 100, … as far as the model reads, two special tokens aside, and half of the documents reach."""
    model = copy_sharing_weights(make_tiny("bert", "mean"))
    model.max_seq_length = window
    spec = make_collapse(corpus=write_corpus(tmp_path / "c", sizes))
    if lengths is None:
        with pytest.raises(DesignError, match="half of the 9 documents have fewer than 55 tokens"):
            prepare_collapse(open_subject(model), spec)
    else:
        assert list(prepare_collapse(open_subject(model), spec).cuts.lengths) == lengths


def test_a_window_too_short_for_the_default_lengths_is_said(make_tiny: Make, corpus: str) -> None:
    """All documents have at least 70 tokens; it is the model that reads 40."""
    model = copy_sharing_weights(make_tiny("bert", "mean"))
    model.max_seq_length = 40
    with pytest.raises(DesignError) as error:
        prepare_collapse(open_subject(model), make_collapse(corpus=corpus))
    assert "40" in str(error.value)
    assert "half of the 10 documents have fewer than 55 tokens" not in str(error.value)


def test_beyond_the_positions_every_treatment_has_to_be_in_tiles(tmp_path: Path) -> None:
    """A model of 80 positions on documents of 184 words: texts of 100 are read by tiles and cut by none."""
    tiny_model(tmp_path / "raw", "bert", "mean", max_position_embeddings=80).save_pretrained(str(tmp_path / "model"))
    asked: dict[str, Any] = {"corpus": write_corpus(tmp_path / "c", [23] * 8)}
    subject = open_subject(str(tmp_path / "model"), loading=Loading(window=200))
    with pytest.raises(DesignError, match="window=200 is more than the 80 tokens that none can read: use at most 80"):
        prepare_collapse(subject, make_collapse(**asked, treatments=["tiles"]))
    tiles = ["tiles+temperature=1", "tiles"]
    prepared = prepare_collapse(subject, make_collapse(**asked, temperatures=[], treatments=tiles))
    assert list(prepared.cuts.lengths) == [25, 50, 100]


def test_tiles_are_no_temperature_alone() -> None:
    assert [temperature_of(as_treatment(name)) for name in ("none", "tempscale", "tiles")] == [1.0, 0.8, None]


def test_one_length_only(make_tiny: Make, study: Study) -> None:
    log = study(make_tiny("bert", "mean"), lengths=[20], temperatures=[1.0, 0.5], spectra=1)
    entries = log.frame("geometry").to_dicts()
    assert {entry["against"] for entry in entries} == {None, "short_baseline", "none"}
    assert {entry["length"] for entry in entries} == {20}
    summary = summarize_length(log)
    assert summary.verdict("none") == "one length only: nothing to compare"
    assert log.to_dict()["status"] == "complete"


def test_one_length_only_gives_no_advice(make_tiny: Make, study: Study) -> None:
    summary = summarize_length(study(make_tiny("bert", "mean"), lengths=[20]))
    assert advice(summary) == "nothing: there is one length only"


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_documents_are_refused_before_work(
    make_tiny: Make, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    forbid_encoding(monkeypatch)
    with pytest.raises(FairspanError) as error:
        study(make_tiny("bert", "mean"), corpus=write_corpus(tmp_path / "few", [14] * count))
    assert "nothing was to be embedded" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_few_documents_decide_nothing(make_tiny: Make, study: Study) -> None:
    """Three documents, the least that is allowed: the interval has two degrees of freedom and holds both signs."""
    log = study(make_tiny("bert", "mean"), documents=3, lengths=[10, 40])
    change = summarize_length(log).value("none", "cosine", None, "doubling")
    assert change is not None
    assert change.low < 0 < change.high, "the premise"
    assert log.verdicts["verdict"].to_list() == ["inconclusive"]
    assert [card.tone for card in log.view.cards] == ["open"]
    assert "3 documents: with fewer than 30, intervals may be too narrow" in log.view.notes


def test_statistics_are_made_of_rows_alone(make_tiny: Make, study: Study) -> None:
    """The header has no numbers to read them from, and another margin or seed needs no other run."""
    log = study(make_tiny("bert", "mean"), temperatures=[1.0, 0.5])
    assert not {"geometry", "classification", "fitted"} & set(header_of(log.folder))
    before = log.frame("geometry")
    doubled = pl.when(pl.col("measure") == "cosine").then(2 * pl.col("value")).otherwise(pl.col("value"))
    rows = log.rows.with_columns(doubled.alias("value"))
    after = RunLog(log.folder, log.header, rows, log.show).frame("geometry")
    for name in ("estimate", "low", "high"):
        for measure, factor in (("cosine", 2), ("distance", 1), ("rank", 1)):
            one, other = (frame.filter(measure=measure)[name].to_numpy() for frame in (before, after))
            assert other == pytest.approx(factor * one, abs=1e-12)


def test_an_interrupted_study_has_a_page_and_goes_on(
    make_tiny: Make, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after the first of two treatments: its rows are there, and the same call gives what one run would."""
    model = make_tiny("bert", "mean")
    asked: dict[str, Any] = {"temperatures": [1.0, 0.5]}
    with monkeypatch.context() as patch:

        def stop(*_: Any) -> Any:
            raise KeyboardInterrupt

        measure = collapse_run._Study._under
        patch.setattr(
            collapse_run._Study,
            "_under",
            lambda self, treatment: stop() if treatment.name == STRONG else measure(self, treatment),
        )
        with pytest.raises(KeyboardInterrupt):
            study(model, **asked)
    log = read_log(tmp_path / "run")
    assert log.status == "interrupted"
    assert log.verdicts["treatment"].to_list() == ["none"]
    assert "1 of 2 treatments were measured" in log.view.notes[0]
    log.save_page(tmp_path / "page.html")
    again = study(model, **asked)
    assert again.header["timings"]["texts_from_store"] == 10
    whole = study(model, **asked, out=tmp_path / "whole", store=tmp_path / "whole.sqlite")
    assert again.rows.equals(whole.rows)


def test_spectra_that_do_not_fit_into_memory_are_one_line(
    make_tiny: Make, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB")
        yield

    monkeypatch.setattr(collapse_run, "spectra_of", exhausted)
    with pytest.raises(EncodingError, match="spectra of texts of up to 20 tokens do not fit into memory") as error:
        study(make_tiny("bert", "mean"), spectra=1)
    assert "\n" not in str(error.value)
    assert "spectra=0" in str(error.value)


def test_a_corpus_that_is_too_short_is_one_line(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    with pytest.raises(DesignError, match="none of 10 documents in 'en' has a sentence border within 20%") as error:
        study(make_tiny("bert", "mean"), lengths=[10, 200])
    assert "10: 10, 200: 0" in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_documents_that_were_left_out_are_noted(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    uneven = write_corpus(tmp_path / "uneven", [3] * 3 + [14] * 4)
    log = study(make_tiny("bert", "mean"), corpus=uneven, lengths=[10, 40])
    assert "3 of 7 documents have no sentence border within 20% of every length and were not used" in log.notes
    assert any(note.startswith("4 documents in place of 5") for note in log.notes)
    assert set(chosen(log, "cosine")["document"]) == {"d03", "d04", "d05", "d06"}


def test_the_language_that_is_named(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    """English if there is one, otherwise the first; only its texts are measured, whatever the others hold."""
    folder = tmp_path / "two"
    write_corpus(folder, [14] * 6, "it")
    write_corpus(folder, [15] * 8, "en")
    model = make_tiny("bert", "mean")
    assert set(study(model, corpus=str(folder), out=tmp_path / "a").rows["language"]) == {"en"}
    log = study(model, corpus=str(folder), language="it", out=tmp_path / "b")
    assert set(log.rows["language"]) == {"it"}
    assert log.header["corpus"]["languages"] == ["it"]
    with pytest.raises(FairspanError, match="no language 'fr'"):
        study(model, corpus=str(folder), language="fr", out=tmp_path / "c")


# --- treatments


def test_a_schedule_acts_from_its_length_on(make_tiny: Make, study: Study) -> None:
    """Special tokens count: a text of 20 words has 22 tokens, and one of 10 has 12."""
    reached, missed = ("tempscale+temperature=[[22,0.5]]", "tempscale+temperature=[[23,0.5]]")
    log = study(make_tiny("bert", "cls"), temperatures=[1.0, 0.5], treatments=[reached, missed], lengths=[10, 20])
    values = {
        (name, length): chosen(log, "cosine", name, length)["value"].to_numpy()
        for name in ("none", STRONG, reached, missed)
        for length in (10, 20)
    }
    for name, length, like in (
        (reached, 10, "none"),
        (reached, 20, STRONG),
        (missed, 10, "none"),
        (missed, 20, "none"),
    ):
        assert values[name, length] == pytest.approx(values[like, length], abs=BY_PADDING)
    assert np.abs(values["none", 20] - values[STRONG, 20]).max() > 1e-3, "the premise"


def test_baskets_and_one_sided_treatments(make_tiny: Make, study: Study) -> None:
    """Texts are documents: a treatment of queries leaves them as they are."""
    model = make_tiny("bert", "cls")
    names = ["paper+basket_size=4", "paper+basket_size=4+sides=document", "paper+basket_size=4+sides=query"]
    log = study(model, treatments=names, spectra=1, layers="all")
    fair = fairspan.calibrate(model, basket_size=4)
    texts = prepare_collapse(open_subject(model), make_collapse(**_asked(log))).cuts.at(20)
    by_hand = pairwise_mean([fair.encode_document(text.text) for text in texts])
    plain, both, documents, queries = (chosen(log, "cosine", name, 20)["value"].mean() for name in ("none", *names))
    assert both == pytest.approx(by_hand, abs=BY_PADDING)
    assert documents == pytest.approx(both, abs=BY_PADDING)
    assert queries == plain
    assert abs(both - plain) > 1e-4, "the premise"
    # Theorem 3 is about one softmax, so calibrated layers (2 and 3) have no such bound.
    assert set(chosen(log, "theorem_3", names[0])["layer"]) == {0, 1}
    assert set(chosen(log, "sigma_a", names[0])["layer"]) == {0, 1, 2, 3}


@pytest.mark.parametrize("name", ["whitening", "last2avg"])
def test_a_baseline_is_measured_or_refused(make_tiny: Make, study: Study, name: str) -> None:
    """What must not be is the plain model's numbers under a baseline's name."""
    try:
        log = study(make_tiny("bert", "mean"), treatments=[name])
    except FairspanError as error:
        if "there is no treatment" in str(error):
            pytest.fail("a version without baselines")
        return
    assert not np.allclose(chosen(log, "cosine")["value"], chosen(log, "cosine", name)["value"], atol=1e-6)


def test_segment_baskets_are_refused(make_tiny: Make, study: Study) -> None:
    """A text that was cut out of a document has no segments."""
    names = ["paper+basket_size=4", "paper+basket_size=4+baskets=segments"]
    try:
        log = study(make_tiny("bert", "cls"), treatments=names)
    except FairspanError:
        return
    one, other = (chosen(log, "cosine", name)["value"] for name in names)
    assert not np.allclose(one, other, atol=1e-6)


def test_a_treatment_called_words(make_tiny: Make, study: Study) -> None:
    """Refused, or kept apart from the control."""
    try:
        log = study(make_tiny("bert", "mean"), treatments=[{"name": WORDS, "preset": "tempscale"}])
    except FairspanError:
        return
    assert chosen(log, "cosine", WORDS)["document"].is_duplicated().sum() == len(chosen(log, "cosine", WORDS)) / 2


def test_nothing_but_vectors(make_tiny: Make, study: Study) -> None:
    log = study(make_tiny("bert", "mean"), spectra=0, probe=False)
    assert set(log.rows["measure"]) == {"cosine", "distance", "distance_without", "rank", "rank_without"}
    assert log.rows["layer"].null_count() == len(log.rows)
    assert not {"spectra", "bounds", "repeated"} & {name for name, one in log.view.frames.items() if len(one)}


@pytest.mark.parametrize(("value", "name"), [(1, "none"), (1.0, "none"), (0.9, "tempscale+temperature=0.9")])
def test_names_of_temperatures(value: float, name: str) -> None:
    assert at_temperature(value) == name
    assert make_collapse(temperatures=[value]).treatments[0].name == name


def test_a_temperature_is_used_as_it_was_given() -> None:
    [one] = make_collapse(temperatures=[0.87654321]).treatments
    assert one.calibration.temperature == 0.87654321


# --- what a model does not offer


def test_a_model_without_word_embeddings_is_a_note(
    make_tiny: Make, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_tiny("bert", "mean")

    def missing(self: Any) -> Any:
        raise NotImplementedError

    monkeypatch.setattr(type(model.transformers_model), "get_input_embeddings", missing)
    log = study(model)
    assert WORDS not in set(log.rows["treatment"])
    assert WORDS not in set(log.frame("geometry")["treatment"])
    [note] = log.notes
    assert note.startswith("the mean of raw word embeddings was not measured: BertModel has no input word embeddings")
    assert log.status == "complete"


def test_a_model_without_value_weights_is_one_note(
    make_tiny: Make, study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairspan.encoding.spectra.find_value_weights", lambda model: "values are hidden")
    log = study(make_tiny("bert", "mean"), temperatures=[1.0, 0.5], spectra=1)
    assert log.notes == ["Theorem 2's bound is not known: values are hidden"]
    assert {"hc_dc", "filter_rate", "sigma_a", "sigma_s", "theorem_3"} <= set(log.rows["measure"])
    assert "theorem_2" not in set(log.rows["measure"])
    assert set(log.frame("bounds")["bound"]) == {"theorem_3"}


def static() -> SentenceTransformer:
    torch.manual_seed(3)
    tokenizer = tiny_tokenizer().backend_tokenizer
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu")


def test_a_model_without_attention_is_measured_without_spectra(study: Study) -> None:
    model = static()
    log = study(model, spectra=0, probe=True)
    texts = prepare_collapse(open_subject(model), make_collapse(**_asked(log))).cuts.at(20)
    by_hand = pairwise_mean([model.encode(text.text) for text in texts])
    assert chosen(log, "cosine", length=20)["value"].mean() == pytest.approx(by_hand, abs=BY_PADDING)
    assert any("raw word embeddings was not measured" in note for note in log.notes)


def test_a_model_without_attention_is_a_note(study: Study) -> None:
    log = study(static(), spectra=2)
    assert log.status == "complete"
    assert any("attention" in note for note in log.notes)


def test_only_a_sentence_transformer(corpus: str) -> None:
    class Encodes:
        def encode(self, texts: list[str]) -> Any:
            return np.ones((len(texts), 2))

    with pytest.raises(UnsupportedModel, match="a study of length needs a SentenceTransformer, got Encodes"):
        prepare_collapse(open_subject(Encodes()), make_collapse(corpus=corpus))  # type: ignore[arg-type]


# --- what the same call finds again


def test_the_same_call_gives_the_same_numbers(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    """Another folder and another store; intervals come from the seed alone."""
    model = make_tiny("bert", "mean")
    first = study(model, spectra=1)
    second = study(model, spectra=1, out=tmp_path / "again", store=tmp_path / "again.sqlite")
    assert second.rows.equals(first.rows)
    assert second.frame("geometry").equals(first.frame("geometry"))


def test_vectors_are_shared_with_an_audit(make_tiny: Make, study: Study, corpus: str, tmp_path: Path) -> None:
    """Whole documents are the audit's segments: both ways, under the plain model and under a temperature."""
    model = make_tiny("bert", "mean")
    for number, first in enumerate(("audit", "collapse")):
        store = tmp_path / f"{number}.sqlite"

        def audited(store: Path = store, number: int = number) -> RunLog:
            names = ["none", STRONG]
            asked = {"sizes": [2], "sets": 5, "design": "latin", "treatments": names}
            return audit(model, corpus=corpus, **asked, store=store, out=tmp_path / f"audit{number}")

        if first == "audit":
            audited()
        log = study(
            model,
            natural=True,
            lengths=None,
            documents=10,
            temperatures=[1.0, 0.5],
            store=store,
            out=tmp_path / f"study{number}",
        )
        other = log if first == "audit" else audited()
        assert other.header["timings"]["texts_from_store"] == 2 * 10


def test_the_folders_name_belongs_to_the_run(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    """Made of all that decides the result, and of nothing else."""
    model = make_tiny("bert", "mean")

    def name(model: SentenceTransformer = model, name: str = "org/Tiny Model", **changes: Any) -> str:
        asked = {"corpus": corpus, "lengths": [10, 20], "temperatures": [1.0], "probe": False}
        return prepare_collapse(open_subject(model, name=name), make_collapse(**{**asked, **changes})).run

    narrower = copy_sharing_weights(model)
    narrower.max_seq_length = 100
    other = write_corpus(tmp_path / "other", [15] * 10)
    assert name().startswith("Tiny-Model-")
    assert name() == name(copy_sharing_weights(model)) == name(lengths=[20, 10, 10])
    again = [
        name(seed=1),
        name(lengths=[10, 40]),
        name(lengths=None),
        name(lengths=None, natural=True),
        name(temperatures=[1.0, 0.9]),
        name(treatments=["paper"]),
        name(documents=4),
        name(start="beginning"),
        name(tolerance=0.1),
        name(spectra=1),
        name(layers="all"),
        name(probe=True),
        name(margin=0.01),
        name(prompt="w1 "),
        name(corpus=other),
        name(make_tiny("bert", "cls")),
        name(narrower),
        name(name="org/Other"),
    ]
    assert len({name(), *again}) == 1 + len(again)


def test_progress_ends_at_what_it_announced(make_tiny: Make, study: Study) -> None:
    recorder = Recorder()
    study(make_tiny("bert", "mean"), temperatures=[1.0, 0.5], spectra=1, probe=True, progress=recorder)
    assert recorder.done == recorder.total > 0
    assert recorder.stages[-5:] == [
        "none: vectors",
        "none: spectra",
        f"{STRONG}: vectors",
        f"{STRONG}: spectra",
        "raw word embeddings",
    ]
    assert recorder.stopped == 1


# --- what is asked


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lengths": []}, "lengths must be numbers of tokens"),
        ({"lengths": [0, 10]}, "lengths must be numbers of tokens"),
        ({"lengths": [10.5]}, "lengths must be numbers of tokens"),
        ({"lengths": [True]}, "lengths must be numbers of tokens"),
        ({"lengths": "10,20"}, "lengths must be a list"),
        ({"lengths": [10], "natural": True}, "natural lengths are the documents' own"),
        ({"start": "middle"}, "start must be one of random, beginning, got 'middle'"),
        ({"layers": "first"}, "layers must be last, last_half or all, got 'first'"),
        ({"documents": 2}, "documents must be a whole number of at least 3, got 2"),
        ({"documents": 5.0}, "documents must be a whole number of at least 3, got 5.0"),
        ({"spectra": -1}, "spectra must be a whole number of at least 0, got -1"),
        ({"spectra": True}, "spectra must be a whole number of at least 0, got True"),
        ({"margin": 0}, "margin must be between 0 and 1, got 0"),
        ({"margin": "wide"}, "margin must be between 0 and 1, got 'wide'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"temperatures": [1.0, 1]}, "'none' is named twice"),
        ({"temperatures": [1.0], "treatments": ["none"]}, "'none' is named twice"),
        ({"temperatures": []}, "name at least one treatment"),
        ({"temperatures": 0.9}, "temperatures must be a list, such as [1.0, 0.8], got 0.9"),
        ({"temperatures": "0.9"}, "temperatures must be a list, such as [1.0, 0.8], got '0.9'"),
        ({"temperatures": [0.0]}, "temperature must be a number above 0 and at most 1, got 0.0"),
        ({"temperatures": [1.1]}, "temperature must be a number above 0 and at most 1, got 1.1"),
        ({"temperatures": [float("nan")]}, "temperature must be a number above 0 and at most 1, got nan"),
        ({"treatments": "paper"}, "treatments must be a list, such as ['paper'], got 'paper'"),
        ({"treatments": ["papre"]}, "there is no treatment 'papre'"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_mistake_is_one_line(options: dict[str, Any], said: str) -> None:
    with pytest.raises(FairspanError) as error:
        make_collapse(**options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("tolerance", [-0.1, 1.0, float("nan")])
def test_a_tolerance_that_cannot_be(make_tiny: Make, study: Study, tolerance: float) -> None:
    with pytest.raises(DesignError, match="tolerance is a share of the length from 0 to below 1"):
        study(make_tiny("bert", "mean"), tolerance=tolerance)


@pytest.mark.parametrize(
    "options",
    [{"lengths": 50}, {"lengths": [50, "100"]}, {"tolerance": "wide"}, {"corpus": Path("articles")}],
    ids=str,
)
def test_a_value_of_the_wrong_kind_is_one_line(
    make_tiny: Make, study: Study, corpus: str, options: dict[str, Any]
) -> None:
    given = {"corpus": Path(corpus)} if "corpus" in options else options
    with pytest.raises(FairspanError):
        study(make_tiny("bert", "mean"), **given)


def test_labelled_texts_that_are_not_there(make_tiny: Make, study: Study, tmp_path: Path) -> None:
    with pytest.raises(FairspanError, match="nowhere") as error:
        study(make_tiny("bert", "mean"), labelled="nowhere.jsonl")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_the_spec_is_in_the_log_as_json(make_tiny: Make, study: Study) -> None:
    log = study(make_tiny("bert", "mean"))
    header = header_of(log.folder)
    assert header["verb"] == "collapse"
    assert header["spec"] == log.spec
    assert header["spec"]["lengths"] == [10, 20]
    assert [one["name"] for one in header["spec"]["treatments"]] == ["none"]
    assert header["seed"] == 0
    json.dumps(header, allow_nan=False)
