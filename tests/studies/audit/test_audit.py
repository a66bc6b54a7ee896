"""An audit, recomputed by hand from its model; its log; and what the same call finds again."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Pooling

import fairspan
from fairspan.corpus.corpus import Corpus
from fairspan.errors import DesignError, FairspanError, UnsupportedModel
from fairspan.model.build import copy_sharing_weights
from fairspan.runs.header import Header, ModelInfo
from fairspan.runs.identity import run_name
from fairspan.runs.progress import Silent
from fairspan.runs.versions import library_versions
from fairspan.runs.writer import LogWriter
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.audit.rows import SCHEMA
from fairspan.studies.audit.run import STUDY, audit
from tests.builders.commands import forbid_encoding
from tests.builders.letters import Letters
from tests.builders.tiny import HIDDEN, tiny_model, words
from tests.corpus.test_corpus import write_folder

Make = Callable[..., SentenceTransformer]
Audit = Callable[..., fairspan.RunLog]
Embed = Callable[[str], Any]

# An audit embeds in padded batches and here every text goes alone, so float32 sums are split
# otherwise: a few roundings (6e-8 each) through four layers. Cosines are of order 1.
BY_PADDING = 1e-5

B8 = "paper+basket_size=8"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Aligned texts of 4 to 16 words in two "languages"."""
    texts = {
        language: {f"s{n:02}": words(4 + n + shift, 100 * shift + n) for n in range(13)}
        for shift, language in enumerate(("en", "de"))
    }
    return str(write_folder(tmp_path_factory.mktemp("corpus") / "tiny", texts))


@pytest.fixture
def measured(corpus: str, tmp_path: Path) -> Audit:
    """An audit of the small corpus, with everything it writes in tmp_path."""
    settings = {"corpus": corpus, "sizes": [3], "sets": 3, "treatments": ["plain"]}
    settings |= {"store": tmp_path / "s.db", "out": tmp_path / "run", "progress": False}
    return lambda model, **options: audit(model, **{**settings, **options})


def documents_of(rows: pl.DataFrame, corpus: str) -> dict[str, list[tuple[int, str]]]:
    """Position and text of every document's segments, from the rows and the corpus alone."""
    texts = Corpus.read(corpus)
    documents: dict[str, dict[int, str]] = {}
    names = ("document", "plan", "position", "segment")
    for document, plan, position, segment in rows.select(names).rows():
        text = texts.text(segment, language_at(position, plan))
        assert documents.setdefault(document, {}).setdefault(position, text) == text
    return {name: sorted(places.items()) for name, places in documents.items()}


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
    expected = {}
    for document, parts in documents_of(log.rows, corpus).items():
        vector = whole(" ".join(text for _, text in parts))
        expected |= {(document, place): cosine(vector, alone(text)) for place, text in parts}
    assert values_of(log.rows, "representation", name) == pytest.approx(expected, abs=within)


# Numbers.


def test_every_row_of_representation_by_hand(
    representative: SentenceTransformer, corpus: str, measured: Audit
) -> None:
    """cos(e(D), iso(s)) everywhere, each text embedded alone by the model that the treatment
    names: documents-only leaves segments plain, query-only leaves documents plain."""
    plain, fair = representative, fairspan.calibrate(representative, basket_size=8)
    models = {
        "plain": (plain, plain),
        B8: (fair, fair),
        f"{B8}+sides=document": (fair, plain),
        f"{B8}+sides=query": (plain, fair),
    }
    asked = {"languages": ["en"], "mixed": ["de:en"], "sizes": [2, 3], "sets": 2}
    log = measured(plain, treatments=[*models], **asked)
    # Per plan: 2 sets in 2 Latin orders of 2 segments, and 2 sets in 3 orders of 3.
    assert log.rows["document"].n_unique() == 2 * (2 * 2 + 2 * 3)
    assert log.rows.height == len(models) * 2 * (2 * 2 * 2 + 2 * 3 * 3)
    embed = {model: cache(model.encode_document) for model in (plain, fair)}
    for name, (for_documents, for_segments) in models.items():
        assert_by_hand(log, corpus, name, embed[for_documents], embed[for_segments])
    values = [values_of(log.rows, "representation", name) for name in models]
    for one, other in combinations(values, 2):
        assert max(abs(one[key] - other[key]) for key in one) > 1e-3, "they can be told apart"


def test_every_row_of_retention_by_hand(make_tiny: Make, corpus: str, measured: Audit) -> None:
    """cos(ctx(s, D), iso(s)); one token a word, so tokens are counted off after <s> and prompt.

    Padded on the left: test_inspect has it on the right, and without a prompt.
    """
    plain, prompt = make_tiny("qwen3", "mean", padding_side="left"), "w7 w8 "
    fair = fairspan.calibrate(plain, basket_size=8)
    models = {"plain": (plain, plain), B8: (fair, fair), f"{B8}+sides=document": (fair, plain)}
    log = measured(
        plain, treatments=[*models], measures=["retention"], mixed=["en:de"], prompt=prompt
    )
    assert set(log.rows["measure"]) == {"retention"}
    put = {"prompt": prompt}
    alone = {model: cache(partial(model.encode_document, **put)) for model in (plain, fair)}
    for name, (for_documents, for_segments) in models.items():
        values = values_of(log.rows, "retention", name)
        for document, parts in documents_of(log.rows, corpus).items():
            text = " ".join(text for _, text in parts)
            tokens = for_documents.encode_document(
                text, output_value="token_embeddings", **put
            ).double()
            begin = 1 + 2
            for position, segment in parts:
                end = begin + len(segment.split())
                by_hand = cosine(tokens[begin:end].mean(dim=0), alone[for_segments](segment))
                assert values[document, position] == pytest.approx(by_hand, abs=BY_PADDING)
                begin = end
            assert begin == len(tokens) - 1


def test_rows_say_what_they_were_measured_on(make_tiny: Make, corpus: str, measured: Audit) -> None:
    """A set has the same ids in every plan and order."""
    log = measured(make_tiny(), languages=["en"], mixed=["de:en"], name="mine")
    assert dict(log.rows.schema) == SCHEMA
    assert log.model == "mine"
    by_document = log.rows.group_by("set", "document").agg(
        pl.col("position", "n"), members=pl.col("segment").sort()
    )
    assert all(sorted(places) == [1, 2, 3] for places in by_document["position"])
    assert all(n.to_list() == [3, 3, 3] for n in by_document["n"])
    assert by_document.select("set", "members").n_unique() == by_document["set"].n_unique() == 3
    texts = Corpus.read(corpus)
    for row in log.rows.iter_rows(named=True):
        language = language_at(row["position"], row["plan"])
        assert row["tokens"] == len(texts.text(row["segment"], language).split())
        assert row["document"].startswith(f"n3/{row['plan']}/set{row['set']}/order")


def test_attention_of_the_parts_sums_to_one(make_tiny: Make, measured: Audit) -> None:
    names = ["plain", f"{B8}+layers=all"]
    log = measured(
        make_tiny("bert", "cls"),
        treatments=names,
        measures=["representation", "attention"],
        attention_documents=4,
        attention_basket_size=8,
    )
    rows = log.rows.filter(pl.col("layer").is_not_null())
    assert set(rows["measure"]) == {"attention_basket"}
    sums = rows.group_by("treatment", "document", "layer").agg(pl.col("value").sum())
    # 2 treatments, 4 documents, 4 layers; float32 softmaxes of some 40 terms.
    assert sums.height == 2 * 4 * 4
    assert np.allclose(sums["value"], 1.0, atol=1e-5)
    assert rows["value"].min() >= 0
    # Whole baskets of the calibration's size have the first token's share.
    baskets = rows.filter(pl.col("basket").is_in(["first", "basket 1", "basket 2"]))
    shares = baskets.filter(treatment=names[1]).group_by("document", "layer").agg("value")
    assert max(np.ptp(values) for values in shares["value"].to_list()) < 1e-6
    assert "by basket of 8 tokens" in log.view.chart("attention").title


def test_fidelity_is_the_cosine_with_the_first_treatment_by_hand(
    make_tiny: Make, measured: Audit, corpus: str
) -> None:
    model = make_tiny("bert", "cls")
    log = measured(model, treatments=["plain", B8], measures=["representation", "fidelity"])
    other = fairspan.calibrate(model, basket_size=8)
    values = values_of(log.rows.with_columns(position=0), "fidelity", B8)
    for document, parts in documents_of(log.rows.drop_nulls("position"), corpus).items():
        text = " ".join(text for _, text in parts)
        expected = cosine(model.encode(text), other.encode(text))
        assert values[document, 0] == pytest.approx(expected, abs=BY_PADDING)
    assert 0.1 < max(values.values()) < 0.9999
    [row] = log.frame("fidelity").iter_rows(named=True)
    assert row["estimate"] == pytest.approx(np.mean(list(values.values())))
    assert (row["treatment"], row["sets"], row["documents"]) == (B8, 3, 9)


@pytest.mark.parametrize(
    ("pooling", "added", "said"),
    [
        ("mean", None, "omit retention"),
        ("mean", Dense(HIDDEN, HIDDEN), "omit retention"),
        ("lasttoken", (), "takes by lasttoken pooling: omit retention"),
        (("cls", "mean"), (), "omit retention"),
    ],
    ids=["truncate_dim", "dense", "lasttoken", "two poolings"],
)
def test_retention_is_refused_where_it_means_nothing(
    make_tiny: Make, measured: Audit, pooling: Any, added: Any, said: str
) -> None:
    """ctx is a mean of token embeddings, iso the last module's: two spaces, and no cosine. IRF
    defines retention for mean pooling only."""
    modules = [make_tiny("bert", "mean")[0], Pooling(HIDDEN, pooling)]
    model = SentenceTransformer(modules=[*modules, *([added] if added else [])], device="cpu")
    if added is None:
        model.truncate_dim = 8
    with pytest.raises(UnsupportedModel, match=said):
        measured(model, measures=["representation", "retention"])


# Objects that only encode.


def test_any_object_with_encode(corpus: str, measured: Audit) -> None:
    """In test_encoders such objects give lists, arrays and tensors."""
    model = Letters()
    log = measured(model)
    # Vectors are kept in float32.
    assert_by_hand(log, corpus, "plain", Letters.one, Letters.one, within=1e-6)
    # First the longest document with and without its end; then each text once.
    proof, once = model.asked[:2], model.asked[2:]
    assert proof[0] == max(once, key=len)
    assert proof[0].startswith(proof[1])
    assert sorted(once) == sorted(set(once))
    assert log.header.model == ModelInfo("Letters", None)
    assert log.header.token_unit == "characters"


def test_a_vector_that_says_nothing_is_called_that(measured: Audit) -> None:
    """And not taken for that of a model that does not read to the end, which it resembles."""
    model = Letters(lambda rows: np.ones((len(rows), 4)))
    parts = ["One text of some length.", "And another one, also."]
    for measure in (measured, lambda model: fairspan.inspect(model, parts, treatments=["plain"])):
        with pytest.raises(FairspanError, match="gives different texts the same vector") as error:
            measure(model)
        assert "to the end" not in str(error.value)


# The log.


def test_the_header(make_tiny: Make, corpus: str, measured: Audit, tmp_path: Path) -> None:
    model = make_tiny("bert", "mean")
    log = measured(model, seed=5, name="tiny/model", treatments=["plain", "paper"])
    header = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert header == log.header.to_json()
    assert header["run"].startswith("audit-model-")
    assert (header["spec"]["seed"], header["analysis"]["margin"]) == (5, 0.02)
    assert set(header["versions"]) == {"python", *library_versions()}
    assert len(header["model"].pop("fingerprint")) == 64
    assert header["model"] == {
        "name": "tiny/model",
        "endpoint": None,
        "prompts": {"document": "", "query": ""},
        "transformer": {
            "window": 512,
            "similarity": "cosine",
            "device": "cpu",
            "dtype": "float32",
            "calibrations": [],
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
        },
    }
    texts = Corpus.read(corpus, ["en"])
    segments = set(log.rows["segment"])
    assert header["corpus"]["fingerprint"] == texts.fingerprint
    assert header["corpus"]["languages"] == header["plans"] == ["en"]
    assert (header["documents"], header["corpus"]["segments"]) == (9, len(segments))
    timings = header["timings"]
    assert timings["texts_computed"] == 2 * (9 + len(segments))
    # <s> and </s> around 9 documents, and around each segment alone.
    in_documents = 2 * 9 + log.rows.filter(treatment="plain")["tokens"].sum()
    alone = sum(2 + len(texts.text(name, "en").split()) for name in segments)
    assert timings["tokens_computed"] == 2 * (in_documents + alone)


def rows_of(*values: float) -> pl.DataFrame:
    row = dict.fromkeys(SCHEMA) | {"treatment": "plain", "measure": "representation"}
    return pl.DataFrame([{**row, "value": value} for value in values], schema=SCHEMA)


HEADER = Header(
    verb="audit", run="r", spec={"treatments": [{"name": "plain"}]}, model=ModelInfo("m", None)
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


# What the same call finds again.


def test_another_audit_takes_shared_texts_from_the_store(
    make_tiny: Make, measured: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_tiny("bert", "cls")
    first = measured(model)
    texts = first.header.timings.texts_computed
    second = measured(model, treatments=["paper", "plain"], out=tmp_path / "second")
    assert second.header.timings.texts_from_store == texts
    assert second.header.timings.texts_computed == texts
    before, after = (values_of(log.rows, "representation", "plain") for log in (first, second))
    assert before == after
    # Documents-only embeds segments as "plain" and documents as "paper": all of it is stored.
    forbid_encoding(monkeypatch)
    third = measured(model, treatments=["paper+sides=document"], out=tmp_path / "third")
    assert third.header.timings.texts_from_store == texts


@pytest.mark.parametrize("odd", ["/", "...", "ü", "a/b/"])
def test_the_name_of_a_run_is_that_of_a_folder(make_tiny: Make, corpus: str, odd: str) -> None:
    """Made of all that decides the result alone; test_found_again has every option."""
    options = AuditOptions(make_tiny(), name=odd, corpus=corpus, sizes=[2], treatments=["plain"])
    made = run_name(STUDY.read(options, Silent()))
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
    only = f"{T8}+sides=document"
    log = measured(short, treatments=["plain", T8, only], sizes=[2, 3])
    plain = copy_sharing_weights(short)
    plain.max_seq_length = SHORT
    tiled = fairspan.calibrate(short, T8)
    embed = {model: cache(model.encode) for model in (plain, tiled)}
    for name, documents, segments in (
        ("plain", plain, plain),
        (T8, tiled, tiled),
        (only, tiled, plain),
    ):
        assert_by_hand(log, corpus, name, embed[documents], embed[segments])
    texts = [
        [text.split() for _, text in parts] for parts in documents_of(log.rows, corpus).values()
    ]
    longer = sum(2 + sum(map(len, parts)) > SHORT for parts in texts)
    assert 0 < longer < len(texts), "the premise"
    count = log.rows["segment"].n_unique()
    assert [
        (window.treatment, window.texts, window.window, window.count, window.cut)
        for window in log.header.windows
    ] == [
        ("plain", "documents", SHORT, len(texts), longer),
        ("plain", "segments", SHORT, count, 0),
        (T8, "documents", None, len(texts), 0),
        (T8, "segments", None, count, 0),
        (only, "documents", None, len(texts), 0),
        (only, "segments", SHORT, count, 0),
    ]
    cut = f"{longer} of {len(texts)} documents were cut at {SHORT} tokens"
    assert [cut in sentence for sentence in log.verdicts["sentence"]] == [True, False, False]
    assert log.notes[-1] == f"plain: {cut}"


def test_tiles_that_end_with_the_segments_are_noted(
    make_tiny: Make, tmp_path: Path, measured: Audit
) -> None:
    """Three segments of 8 tokens in three tiles of up to 10 or six of 4, but not in four of 6, nor
    with one of 7: where all positions are equal."""
    for last, ends in ((8, {10: True, 4: True, 6: False}), (7, {8: False})):
        texts = {f"s{n:02}": words(last if n % 3 == 2 else 8, n) for n in range(9)}
        corpus = str(write_folder(tmp_path / f"corpus{last}", {"en": texts}))
        names = [f"tiles-{size}" for size in ends]
        out = tmp_path / f"run{last}"
        log = measured(make_tiny("bert", "cls"), corpus=corpus, treatments=names, out=out)
        noted = {name: f"{name}: the end of every segment" for name in names}
        told = [any(note.startswith(noted[name]) for note in log.notes) for name in names]
        assert told == [*ends.values()]
        means = log.rows.group_by("treatment", "position").agg(pl.col("value").mean())
        spreads = [np.ptp(means.filter(treatment=name)["value"].to_numpy()) for name in names]
        assert [spread < BY_PADDING for spread in spreads] == told


def test_measures_of_tokens_need_whole_documents(short: SentenceTransformer, corpus: str) -> None:
    asked: dict[str, Any] = {"sizes": [3], "sets": 3, "treatments": ["plain", T8]}
    for measure in ("retention", "attention"):
        said = (
            rf"{measure} is measured on whole documents, and plain cuts those of up to \d\d.* at "
            rf"{SHORT}: omit {measure}, omit plain, or use max_seq_length of at most {SHORT}\.$"
        )
        options = AuditOptions(short, corpus=corpus, **asked, measures=["representation", measure])
        with pytest.raises(DesignError, match=said):
            STUDY.read(options, Silent())


def test_a_model_in_tiles_is_audited_at_its_own_length(
    short: SentenceTransformer, corpus: str
) -> None:
    asked = {"corpus": corpus, "sizes": [6], "sets": 3, "treatments": ["plain"]}
    wrong = f"do not fit into the model's {SHORT} tokens: use opening=2"
    with pytest.raises(DesignError, match=wrong):
        STUDY.read(AuditOptions(short, **asked), Silent())
    tiled = fairspan.calibrate(short, T8)
    texts = STUDY.read(AuditOptions(tiled, **asked), Silent())
    assert max(document.length for document in texts.documents.documents) > SHORT
