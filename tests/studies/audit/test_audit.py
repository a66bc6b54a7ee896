"""An audit, recomputed by hand from its model; its log; and what the same call finds again."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Pooling

import fairspan
from fairspan.corpus.corpus import Corpus
from fairspan.errors import DesignError, FairspanError, UnsupportedModel
from fairspan.model.build import copy_sharing_weights
from fairspan.runs.header import FORMAT, Header, ModelInfo, Timings
from fairspan.runs.identity import run_name
from fairspan.runs.progress import Silent
from fairspan.runs.versions import library_versions
from fairspan.runs.writer import LogWriter
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.audit.rows import SCHEMA
from fairspan.studies.audit.run import STUDY, audit
from fairspan.studies.logs import read_log
from tests.builders.commands import forbid_encoding
from tests.builders.tiny import HIDDEN, tiny_model, words
from tests.corpus.test_corpus import write_folder

Make = Callable[..., SentenceTransformer]
Embed = Callable[[str], Any]

# An audit embeds in padded batches and here every text goes alone, so float32 sums are split
# otherwise: a few roundings (6e-8 each) through four layers. Cosines are of order 1.
BY_PADDING = 1e-5

LANGUAGES = ("en", "de")
SEGMENTS = 13


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Aligned texts of 4 to 16 words in two "languages"."""
    folder = tmp_path_factory.mktemp("corpus") / "tiny"
    texts = {
        language: {f"s{n:02}": words(4 + n + shift, 100 * shift + n) for n in range(SEGMENTS)}
        for shift, language in enumerate(LANGUAGES)
    }
    return str(write_folder(folder, texts))


Audit = Callable[..., fairspan.RunLog]


@pytest.fixture
def measured(corpus: str, tmp_path: Path) -> Audit:
    """An audit of the small corpus, with everything it writes in tmp_path."""

    def measure(model: Any, **options: Any) -> fairspan.RunLog:
        settings = {
            "corpus": corpus,
            "sizes": [3],
            "sets": 3,
            "treatments": ["plain"],
            "store": tmp_path / "s.db",
        }
        return audit(model, **{**settings, "out": tmp_path / "run", **options})

    return measure


def documents_of(rows: pl.DataFrame, corpus: str) -> dict[str, list[tuple[int, str, str]]]:
    """Position, key and text of every document's segments, from the rows and the corpus alone."""
    texts = Corpus.read(corpus)
    found: dict[str, dict[int, tuple[str, str]]] = {}
    for name, plan, position, segment in rows.select(
        "document", "plan", "position", "segment"
    ).rows():
        language = language_at(position, plan)
        assert found.setdefault(name, {}).setdefault(position, (segment, language)) == (
            segment,
            language,
        )
    return {
        name: [
            (position, f"{key[0]}/{key[1]}", texts.text(*key))
            for position, key in sorted(places.items())
        ]
        for name, places in found.items()
    }


def language_at(position: int, plan: str) -> str:
    """That of the first segment, or of all later ones."""
    first, _, later = plan.partition(":")
    return first if position == 1 else later or first


def cosine(one: Any, other: Any) -> float:
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    return float(one @ other / math.sqrt(float(one @ one) * float(other @ other)))


def values_of(rows: pl.DataFrame, measure: str, treatment: str) -> dict[tuple[str, int], float]:
    chosen = rows.filter((pl.col("measure") == measure) & (pl.col("treatment") == treatment))
    found = {
        (name, place): value
        for name, place, value in chosen.select("document", "position", "value").rows()
    }
    assert len(found) == len(chosen), "no row is there twice"
    return found


def assert_by_hand(
    log: fairspan.RunLog,
    corpus: str,
    name: str,
    whole: Embed,
    alone: Embed,
    within: float = BY_PADDING,
) -> None:
    """Every row of representation: documents and segments one by one, each through its function."""
    found = values_of(log.rows, "representation", name)
    for document, parts in documents_of(log.rows, corpus).items():
        vector = whole(" ".join(text for *_, text in parts))
        expected = [cosine(vector, alone(text)) for *_, text in parts]
        assert [found.pop((document, position)) for position, *_ in parts] == pytest.approx(
            expected, abs=within
        )
    assert not found


# Numbers.


@pytest.mark.parametrize(
    ("architecture", "pooling", "side"),
    [
        ("bert", "cls", "right"),
        pytest.param("roberta", "mean", "right", marks=pytest.mark.slow),
        ("qwen3", "mean", "left"),
    ],
)
def test_every_row_of_representation_by_hand(
    make_tiny: Make, corpus: str, measured: Audit, architecture: str, pooling: str, side: str
) -> None:
    """cos(e(D), iso(s)) everywhere, each text embedded alone by the model that the treatment
    names: documents-only leaves segments plain, query-only leaves documents plain."""
    plain = make_tiny(architecture, pooling, padding_side=side)
    calibration = fairspan.Calibration(basket_size=8)
    fair = fairspan.calibrate(plain, calibration)
    names = [
        "plain",
        "paper+basket_size=8",
        "paper+basket_size=8+sides=document",
        "paper+basket_size=8+sides=query",
    ]
    models = {
        names[0]: (plain, plain),
        names[1]: (fair, fair),
        names[2]: (fair, plain),
        names[3]: (plain, fair),
    }
    log = measured(plain, treatments=names, languages=["en", "de"], mixed=["de:en"], sizes=[2, 3])
    documents = documents_of(log.rows, corpus)
    # Per plan: 3 sets in 2 Latin orders of 2 segments, and 3 sets in 3 orders of 3.
    assert len(documents) == 3 * (3 * 2 + 3 * 3)
    assert log.rows.height == len(names) * 3 * (3 * 2 * 2 + 3 * 3 * 3)
    embed = {model: cache(model.encode_document) for model in (plain, fair)}
    for name, (for_documents, for_segments) in models.items():
        assert_by_hand(log, corpus, name, embed[for_documents], embed[for_segments])
    premise = [values_of(log.rows, "representation", name) for name in names]
    assert all(
        max(abs(one[key] - other[key]) for key in one) > 1e-3
        for one in premise
        for other in premise
        if one is not other
    ), "the treatments can be told apart"


@pytest.mark.parametrize(
    ("architecture", "side", "prompt"),
    [("bert", "right", None), ("qwen3", "left", "w7 w8 "), ("modernbert", "right", "w7 w8 ")],
)
def test_every_row_of_retention_by_hand(
    make_tiny: Make, corpus: str, measured: Audit, architecture: str, side: str, prompt: str | None
) -> None:
    """cos(ctx(s, D), iso(s)); one token a word, so tokens are counted off after <s> and prompt."""
    plain = make_tiny(architecture, "mean", padding_side=side)
    names = ["plain", "paper+basket_size=8", "paper+basket_size=8+sides=document"]
    fair = fairspan.calibrate(plain, basket_size=8)
    models = {names[0]: (plain, plain), names[1]: (fair, fair), names[2]: (fair, plain)}
    log = measured(plain, treatments=names, measures=["retention"], mixed=["en:de"], prompt=prompt)
    assert set(log.rows["measure"]) == {"retention"}
    put = {"prompt": prompt or ""}
    alone = {model: cache(partial(model.encode_document, **put)) for model in (plain, fair)}
    for name, (for_documents, for_segments) in models.items():
        found = values_of(log.rows, "retention", name)
        for document, parts in documents_of(log.rows, corpus).items():
            text = " ".join(text for _, _, text in parts)
            tokens = for_documents.encode_document(
                text, output_value="token_embeddings", **put
            ).double()
            begin = 1 + len(put["prompt"].split())
            for position, _, segment in parts:
                end = begin + len(segment.split())
                contextual = tokens[begin:end].mean(dim=0).numpy()
                by_hand = cosine(contextual, alone[for_segments](segment))
                assert found[document, position] == pytest.approx(by_hand, abs=BY_PADDING)
                begin = end
            assert begin == len(tokens) - 1


def test_rows_say_what_they_were_measured_on(make_tiny: Make, corpus: str, measured: Audit) -> None:
    """A set has the same ids in every plan and order, and every segment once at every position."""
    log = measured(
        make_tiny(), languages=["en"], mixed=["de:en"], measures=["representation"], name="mine"
    )
    assert dict(log.rows.schema) == SCHEMA
    assert log.model == "mine"
    texts = Corpus.read(corpus)
    members: dict[int, set[frozenset[str]]] = {}
    for (number, _), group in log.rows.group_by("set", "document"):
        members.setdefault(number, set()).add(frozenset(group["segment"]))
        assert sorted(group["position"]) == [1, 2, 3]
        assert group["n"].to_list() == [3, 3, 3]
    assert {number: len(found) for number, found in members.items()} == {0: 1, 1: 1, 2: 1}
    by_position = log.rows.group_by("set", "plan", "segment").agg(pl.col("position").sort())
    assert all(places.to_list() == [1, 2, 3] for places in by_position["position"])
    for row in log.rows.iter_rows(named=True):
        language = language_at(row["position"], row["plan"])
        assert row["tokens"] == len(texts.text(row["segment"], language).split())
        assert row["document"].startswith(f"n3/{row['plan']}/set{row['set']}/order")


def test_a_model_that_comes_calibrated_is_measured_as_it_is(
    make_tiny: Make, corpus: str, measured: Audit
) -> None:
    """In the same store as the plain one, whose vectors it must not be given."""
    plain = make_tiny("bert", "cls")
    fair = fairspan.calibrate(plain, basket_size=8)
    before = measured(plain)
    log = measured(fair, out=before.folder.with_name("fair"))
    assert log.header.timings.texts_from_store == 0
    assert_by_hand(log, corpus, "plain", fair.encode_document, fair.encode_document)


def test_the_models_own_prompt_is_used(make_tiny: Make, corpus: str, measured: Audit) -> None:
    model = copy_sharing_weights(make_tiny("bert", "mean"))
    model.prompts = {"document": "w7 w8 "}
    log = measured(model)
    assert log.header.model.prompts["document"] == "w7 w8 "
    put = partial(model.encode, prompt="w7 w8 ")
    assert_by_hand(log, corpus, "plain", put, put)


def test_attention_of_the_parts_sums_to_one(make_tiny: Make, measured: Audit) -> None:
    model = make_tiny("bert", "cls")
    names = ["plain", "paper+basket_size=8+layers=all"]
    log = measured(
        model,
        treatments=names,
        measures=["representation", "attention"],
        attention_documents=4,
        attention_basket_size=8,
    )
    rows = log.rows.filter(pl.col("layer").is_not_null())
    assert set(rows["measure"]) == {"attention_basket"}
    sums = rows.group_by("treatment", "measure", "document", "layer").agg(pl.col("value").sum())
    # 2 treatments, 4 documents, 4 layers; float32 softmaxes of some 40 terms.
    assert sums.height == 2 * 4 * 4
    assert np.allclose(sums["value"], 1.0, atol=1e-5)
    assert rows.group_by("treatment").agg(pl.col("document").n_unique())["document"].to_list() == [
        4,
        4,
    ]
    assert rows["value"].min() >= 0
    # Whole baskets of the calibration's size have the first token's share.
    baskets = rows.filter(measure="attention_basket", treatment=names[1])
    shares = baskets.filter(pl.col("basket").is_in(["first", "basket 1", "basket 2"]))
    ends = shares.group_by("document", "layer").agg(
        reach=pl.col("value").max() - pl.col("value").min()
    )
    assert ends["reach"].max() < 1e-6
    assert "by basket of 8 tokens" in log.view.chart("attention").title


def test_fidelity_is_the_cosine_with_the_first_treatment_by_hand(
    make_tiny: Make, measured: Audit, corpus: str
) -> None:
    model = make_tiny("bert", "cls")
    names = ["plain", "paper+basket_size=8"]
    log = measured(model, treatments=names, measures=["representation", "fidelity"])
    other = fairspan.calibrate(model, "paper", basket_size=8)
    values = values_of(log.rows.with_columns(position=0), "fidelity", names[1])
    for document, parts in documents_of(log.rows.drop_nulls("position"), corpus).items():
        text = " ".join(text for *_, text in parts)
        expected = cosine(model.encode(text), other.encode(text))
        assert values[document, 0] == pytest.approx(expected, abs=BY_PADDING)
    assert 0.1 < max(values.values()) < 0.9999
    [row] = log.frame("fidelity").iter_rows(named=True)
    assert row["estimate"] == pytest.approx(np.mean(list(values.values())))
    assert (row["treatment"], row["sets"], row["documents"]) == (names[1], 3, 9)


# What retention cannot be measured on.


@pytest.mark.parametrize("kind", ["truncate_dim", "narrowing dense", "dense", "two poolings"])
def test_retention_is_refused_where_it_means_nothing(
    make_tiny: Make, measured: Audit, kind: str
) -> None:
    """ctx is a mean of token embeddings, iso the last module's: two spaces, and no cosine."""
    model = copy_sharing_weights(make_tiny("bert", "mean"))
    modules = list(model.children())
    torch.manual_seed(0)
    match kind:
        case "truncate_dim":
            model.truncate_dim = 8
        case "narrowing dense":
            model = SentenceTransformer(modules=[*modules, Dense(HIDDEN, 8)], device="cpu")
        case "dense":
            model = SentenceTransformer(modules=[*modules, Dense(HIDDEN, HIDDEN)], device="cpu")
        case "two poolings":
            model = SentenceTransformer(
                modules=[modules[0], Pooling(HIDDEN, ("cls", "mean"))], device="cpu"
            )
    with pytest.raises(UnsupportedModel, match="omit retention"):
        measured(model, measures=["retention"])


@pytest.mark.parametrize("pooling", ["cls", "lasttoken"])
def test_retention_is_refused_where_a_vector_is_no_mean(
    make_tiny: Make, measured: Audit, pooling: str
) -> None:
    """IRF defines it for mean pooling only; a verdict of "biased" would mean nothing here."""
    with pytest.raises(UnsupportedModel, match=f"takes by {pooling} pooling: omit retention"):
        measured(make_tiny("bert", pooling), measures=["representation", "retention"])


# Objects that only encode.


class Letters:
    """Counts letters: an embedding that anybody can check, in the form that is asked for."""

    def __init__(self, form: Callable[[list[list[float]]], Any] = list) -> None:
        self.form, self.asked = form, list[str]()

    def encode(self, sentences: list[str], /) -> Any:
        self.asked += sentences
        return self.form([self.one(sentence) for sentence in sentences])

    @staticmethod
    def one(sentence: str) -> list[float]:
        return [1.0 + sentence.count(letter) for letter in "w0123456789"]


@pytest.mark.parametrize("form", [list, np.asarray, torch.tensor], ids=["lists", "numpy", "torch"])
def test_any_object_with_encode(
    corpus: str, measured: Audit, form: Callable[[list[list[float]]], Any]
) -> None:
    model = Letters(form)
    log = measured(model)
    # Small whole numbers are exact in float32, so only the float64 cosine rounds.
    assert_by_hand(log, corpus, "plain", Letters.one, Letters.one, within=1e-12)
    # First the longest document with and without its end; then each text once.
    proof, once = model.asked[:2], model.asked[2:]
    assert proof[0] == max(once, key=len)
    assert proof[0].startswith(proof[1])
    assert sorted(once) == sorted(set(once))
    assert log.header.model == ModelInfo("Letters", None)
    assert log.header.token_unit == "characters"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"treatments": ["plain", "paper"]}, "omit paper."),
        ({"measures": ["retention"]}, "omit retention."),
        ({"treatments": ["tempscale"], "measures": ["attention"]}, "omit tempscale, attention."),
    ],
)
def test_more_than_representation_is_refused_of_objects(
    measured: Audit, options: dict[str, Any], named: str
) -> None:
    model = Letters()
    with pytest.raises(UnsupportedModel, match="Letters is not a SentenceTransformer") as error:
        measured(model, **options)
    assert str(error.value).endswith(named)
    assert model.asked == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "is all zero"),
        (np.nan, "holds NaN or infinity"),
        (1.0, "gives different texts the same vector"),
    ],
    ids=["zero", "nan", "constant"],
)
def test_vectors_that_say_nothing_are_called_that(
    measured: Audit, value: float, words: str
) -> None:
    """And not taken for those of a model that does not read to the end, which they resemble."""

    class Same(Letters):
        def encode(self, sentences: list[str], /) -> Any:
            return np.full((len(sentences), 4), value)

    with pytest.raises(FairspanError, match=words) as error:
        measured(Same())
    assert "to the end" not in str(error.value)
    with pytest.raises(FairspanError, match=words):
        fairspan.inspect(
            Same(), ["One text of some length.", "And another one, also."], treatments=["plain"]
        )


# The log.


def test_the_header(make_tiny: Make, corpus: str, measured: Audit, tmp_path: Path) -> None:
    model = make_tiny("bert", "mean")
    log = measured(model, seed=5, name="tiny/model", treatments=["plain", "paper"])
    header = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert header == log.header.to_json()
    assert (header["format"], header["verb"], header["status"]) == (FORMAT, "audit", "complete")
    assert header["error"] is None
    assert header["run"].startswith("audit-model-")
    assert header["spec"]["seed"] == 5
    assert header["analysis"] == {"margin": 0.02, "inference": "auto"}
    assert header["versions"]["torch"] in (torch.__version__, torch.__version__.split("+")[0])
    assert set(header["versions"]) == {"python", *library_versions()}
    assert {"fairspan", "torch", "transformers", "sentence-transformers", "polars"} <= set(
        header["versions"]
    )
    assert header["versions"]["fairspan"] == fairspan.__version__
    assert len(header["model"]["fingerprint"]) == 64
    assert header["model"]["name"] == "tiny/model"
    assert header["model"]["prompts"] == {"document": "", "query": ""}
    assert header["model"]["transformer"] == {
        "window": 512,
        "similarity": "cosine",
        "device": "cpu",
        "dtype": "float32",
        "calibrations": [],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
    assert header["corpus"]["fingerprint"] == Corpus.read(corpus, ["en"]).fingerprint
    assert header["corpus"]["languages"] == header["plans"] == ["en"]
    assert header["documents"] == 9
    assert header["started"] <= header["finished"]
    texts = {f"{row[0]}" for row in log.rows.select("segment").rows()}
    assert header["corpus"]["segments"] == len(texts)
    assert header["timings"]["texts_computed"] == 2 * (9 + len(texts))
    assert header["timings"]["texts_from_store"] == header["timings"]["batches_halved"] == 0
    # <s> and </s> around 9 documents, and around each segment alone.
    in_documents = 2 * 9 + log.rows.filter(pl.col("treatment") == "plain")["tokens"].sum()
    alone = sum(2 + len(Corpus.read(corpus, ["en"]).text(name, "en").split()) for name in texts)
    assert header["timings"]["tokens_computed"] == 2 * (in_documents + alone)
    assert header["timings"]["seconds"] >= 0


HEADER = Header(
    verb="audit", run="r", spec={"treatments": [{"name": "plain"}]}, model=ModelInfo("m", None)
)
NAMED = {"treatment": "plain", "measure": "representation"}


def rows_of(*values: float) -> pl.DataFrame:
    return pl.DataFrame(
        [dict.fromkeys(SCHEMA) | NAMED | {"value": value} for value in values], schema=SCHEMA
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads the names of open files in /proc")
def test_a_file_is_on_disk_before_it_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a loss of power the old file or the new one is whole: fsync, then the rename."""
    happened: list[tuple[str, str]] = []
    sync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        happened.append(("sync", Path(f"/proc/self/fd/{descriptor}").resolve().name))
        sync(descriptor)

    def replaced(self: Path, target: Path) -> Path:
        happened.append(("rename", self.name))
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    LogWriter(tmp_path, HEADER).add(rows_of(1.0))
    written = [name for what, name in happened if what == "rename"]
    assert len(written) == 3, "the header, the rows and the header again"
    assert happened == [(what, name) for name in written for what in ("sync", "rename")]


def test_a_complete_log_holds_all_its_rows_whoever_else_writes(tmp_path: Path) -> None:
    """Of two audits in one folder, the second writes a part and is killed after the first ended."""
    first, second = LogWriter(tmp_path, HEADER), LogWriter(tmp_path, HEADER)
    first.add(rows_of(1.0))
    first.add(rows_of(2.0))
    first.finish("complete", Timings())
    second.add(rows_of(1.0))
    log = read_log(tmp_path)
    assert log.status != "complete" or log.rows["value"].to_list() == [1.0, 2.0]


# What the same call finds again.


def test_another_audit_takes_shared_texts_from_the_store(
    make_tiny: Make, measured: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_tiny("bert", "cls")
    first = measured(model, treatments=["plain"])
    texts = first.header.timings.texts_computed
    second = measured(model, treatments=["paper", "plain"], out=tmp_path / "second")
    assert second.header.timings.texts_from_store == texts
    assert second.header.timings.texts_computed == texts
    assert values_of(second.rows, "representation", "plain") == values_of(
        first.rows, "representation", "plain"
    )
    # Documents-only embeds segments as "plain" and documents as "paper": all of it is stored.
    forbid_encoding(monkeypatch)
    third = measured(model, treatments=["paper+sides=document"], out=tmp_path / "third")
    assert third.header.timings.texts_from_store == texts
    assert third.header.timings.texts_computed == 0


def test_the_folders_name_belongs_to_the_run(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    """Made of all that decides the result alone; test_found_again has every option."""
    model = make_tiny("bert", "mean")
    asked = {"corpus": corpus, "sizes": [2], "sets": 2, "treatments": ["plain"]}

    def name(model: Any = model, name: str = "org/Tiny Model", **changes: Any) -> str:
        options = AuditOptions(model, name=name, **{**asked, **changes})
        return run_name(STUDY.read(options, Silent()))

    assert name().startswith("audit-Tiny-Model-")
    assert name() == name(copy_sharing_weights(model)) == name(languages=None)
    again = [name(seed=1), name(opening=3), name(mixed=["en:de"]), name(make_tiny("bert", "cls"))]
    assert len({name(), *again}) == 1 + len(again)
    for odd in ("/", "...", "ü", "a/b/"):
        made = name(name=odd)
        assert made == Path(made).name
        assert not made.startswith(".")


# Beyond the window.

SHORT, T8 = 20, "tiles-8"


@pytest.fixture
def short(tmp_path: Path) -> SentenceTransformer:
    """20 positions, set to read 100: enough for a segment of 4 to 16 words, not for three."""
    model = tiny_model(tmp_path / "short", "bert", "mean", max_position_embeddings=SHORT)
    model.max_seq_length = 100
    return model


def test_treatments_that_cut_and_one_that_reads_on_by_hand(
    short: SentenceTransformer, corpus: str, measured: Audit
) -> None:
    """The plain model has the vector of what it reads, and is compared with what it never sees."""
    names = ["plain", T8, f"{T8}+sides=document"]
    log = measured(short, treatments=names, sizes=[2, 3])
    plain = copy_sharing_weights(short)
    plain.max_seq_length = SHORT
    tiled = fairspan.calibrate(short, fairspan.Calibration.preset("tiles-8"))
    models = {names[0]: (plain, plain), names[1]: (tiled, tiled), names[2]: (tiled, plain)}
    documents = documents_of(log.rows, corpus)
    words_of = {
        name: [len(text.split()) for *_, text in parts] for name, parts in documents.items()
    }
    lengths = {name: 2 + sum(own) for name, own in words_of.items()}
    longer = [name for name, length in lengths.items() if length > SHORT]
    assert 0 < len(longer) < len(documents), "the premise"
    for treatment, (whole, alone) in models.items():
        assert_by_hand(log, corpus, treatment, whole.encode, alone.encode)
    segments = len({(row[1]) for parts in documents.values() for row in parts})
    kept = {
        (one["treatment"], one["texts"]): (one["window"], one["count"], one["cut"])
        for one in log.header.to_json()["windows"]
    }
    assert kept == {
        ("plain", "documents"): (SHORT, len(documents), len(longer)),
        ("plain", "segments"): (SHORT, segments, 0),
        (T8, "documents"): (None, len(documents), 0),
        (T8, "segments"): (None, segments, 0),
        (names[2], "documents"): (None, len(documents), 0),
        (names[2], "segments"): (SHORT, segments, 0),
    }


def test_cut_documents_are_in_verdicts_notes_json_and_page(
    short: SentenceTransformer, measured: Audit, tmp_path: Path
) -> None:
    log = measured(short, treatments=["plain", "paper", T8])
    cut = next(one["cut"] for one in log.header.to_json()["windows"] if one["texts"] == "documents")
    said = f"{cut} of 9 documents were cut at {SHORT} tokens"
    none, paper, tiles = log.verdicts["sentence"]
    assert none.endswith(said)
    assert paper.endswith(said)
    assert "cut" not in tiles
    assert log.notes[-1] == f"plain, paper: {said}"
    values = json.loads(json.dumps(log.to_dict(), allow_nan=False))
    assert [one["window"] for one in values["windows"] if one["texts"] == "documents"] == [
        SHORT,
        SHORT,
        None,
    ]
    page = log.save_page(tmp_path / "page.html").read_text(encoding="utf-8")
    assert said in page
    assert "any length; shorter under some treatments" in page


@pytest.mark.parametrize(
    ("size", "counts", "ends"),
    [(8, (8, 8, 8), True), (4, (8, 8, 8), True), (6, (8, 8, 8), False), (8, (8, 8, 7), False)],
)
def test_tiles_that_end_with_the_segments_are_noted(
    make_tiny: Make, tmp_path: Path, size: int, counts: tuple[int, ...], ends: bool
) -> None:
    """Three segments of 8 tokens in tiles of 8 or 4, but not in four of 6, nor with one of 7."""
    texts = {f"s{number:02}": words(counts[number % 3], number) for number in range(9)}
    corpus = str(write_folder(tmp_path / "corpus", {"en": texts}))
    options = {"corpus": corpus, "sizes": [3], "sets": 3, "progress": False}
    places = {"store": tmp_path / "s.db", "out": tmp_path / "run"}
    tiles = f"tiles-{size}"
    log = audit(make_tiny("bert", "cls"), treatments=["plain", tiles], **options, **places)
    noted = [note for note in log.notes if note.startswith(f"{tiles}: tiles end where segments")]
    assert len(noted) == ends
    means = log.rows.filter(treatment=tiles).group_by("position").agg(pl.col("value").mean())
    assert (np.ptp(means["value"].to_numpy()) < BY_PADDING) == ends


@pytest.mark.parametrize("measure", ["retention", "attention"])
def test_measures_of_tokens_need_whole_documents(
    short: SentenceTransformer, corpus: str, measure: str
) -> None:
    asked = {
        "sizes": [3],
        "sets": 3,
        "treatments": ["plain", T8],
        "measures": ["representation", measure],
    }
    with pytest.raises(
        DesignError,
        match=rf"{measure} is measured on whole documents, and plain cuts those of up to \d\d",
    ) as caught:
        STUDY.read(AuditOptions(short, corpus=corpus, **asked), Silent())
    assert str(caught.value).endswith(
        f"at {SHORT}: omit {measure}, omit plain, or use max_seq_length of at most {SHORT}."
    )


def test_a_model_in_tiles_is_audited_at_its_own_length(
    short: SentenceTransformer, corpus: str
) -> None:
    tiled = fairspan.calibrate(short, "tiles-8")
    asked = {"corpus": corpus, "sizes": [6], "sets": 3, "treatments": ["plain"]}
    wrong = f"do not fit into the model's {SHORT} tokens: use opening=2"
    with pytest.raises(DesignError, match=wrong):
        STUDY.read(AuditOptions(short, **asked), Silent())
    found = STUDY.read(AuditOptions(tiled, **asked), Silent())
    assert max(one.length for one in found.documents.documents) > SHORT


# Forecasts.


@pytest.mark.parametrize("treatments", [["plain"], ["plain", "paper", "paper+sides=document"]])
def test_a_forecast_counts_what_the_run_does(
    make_tiny: Make,
    corpus: str,
    tmp_path: Path,
    treatments: list[str],
) -> None:
    """Documents-only shares its vectors with the other two, and embeds nothing."""
    asked = {"corpus": corpus, "sizes": [2, 3], "sets": 2, "languages": ["en"], "mixed": ["de:en"]}
    places = {"out": tmp_path / "run", "store": tmp_path / "s.db"}
    options = AuditOptions(
        make_tiny("bert", "cls"), **asked, treatments=treatments, progress=False, **places
    )
    expected = STUDY.forecast(options)
    assert not (tmp_path / "s.db").exists()
    log = STUDY(options)
    assert log.header.timings.tokens_computed == expected.tokens
    assert [stage.name for stage in expected.stages] == treatments
    assert expected.stages[0].texts == log.header.documents + log.header.corpus.segments
