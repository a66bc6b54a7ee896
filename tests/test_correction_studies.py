"""Corrections of languages as treatments: rows by hand, fitted on no tested text, nothing embedded twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import PRESETS
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.corpus.corpus import Corpus
from fairspan.encoding.chunks import ChunkEncoder
from fairspan.encoding.encoder import CorrectedEncoder, ObjectEncoder, Text
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store
from fairspan.encoding.tokens import Characters
from fairspan.errors import CorpusError, DesignError, UnsupportedModel
from fairspan.model.correction import LanguageCorrection
from fairspan.runs.progress import Silent
from fairspan.runs.study import run_name
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.audit.run import STUDY, audit
from fairspan.studies.collapse.run import collapse
from fairspan.studies.evaluate.run import evaluate
from fairspan.studies.inspect.run import inspect
from fairspan.studies.tune.options import TuneOptions
from tests.embedding_server import serving
from tests.saying import said_by
from tests.test_audit import cosine, documents_of, values_of
from tests.test_correction import METHODS, of, planted
from tests.tiny import words
from tests.verbs import write_articles

Make = Callable[..., SentenceTransformer]


def test_names() -> None:
    found = as_treatment("tiles+correction=subspace")
    assert (found.correction, found.calibration, found.fitted) == (
        "subspace",
        PRESETS["tiles"],
        True,
    )
    assert Treatment.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert found.uncorrected.to_dict() == {**as_treatment("tiles").to_dict(), "name": found.name}
    assert as_treatment("whitening-8+correction=lir-2").whitens
    assert (
        as_treatment({"name": "mine", "preset": "tiles", "correction": "lir-2"}).correction
        == "lir-2"
    )
    assert as_treatment({"name": "mine", "correction": "lir"}).calibration == PRESETS["plain"]
    for wrong in ("plain+correction=centre", "plain+correction=lir-0"):
        with pytest.raises(
            DesignError, match="correction must be one of subspace, lir, or as in subspace-3"
        ):
            as_treatment(wrong)


class Speaking:
    """Vectors of words, moved by the language of the first: "de…" and "en…" are languages of their own."""

    identity = "speaking"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def encode(self, sentences: list[str], /) -> np.ndarray:
        self.texts += sentences
        return np.stack([self._embed(text) for text in sentences])

    def _embed(self, text: str) -> np.ndarray:
        def of(word: str) -> np.ndarray:
            return np.random.default_rng(list(word.encode())).standard_normal(24)

        parts = [of(word[2:]) + 1.5 * of(word[:2]) for word in text.replace(".", "").split()]
        return np.asarray(np.mean(parts, axis=0))


def write_spoken(
    folder: Path, numbers: Sequence[int], languages: Sequence[str] = ("en", "de")
) -> str:
    """The same words in each language, of which every one names its language."""
    folder.mkdir()
    for language in languages:
        lines = []
        for number in numbers:
            text = " ".join(f"{language}{word}" for word in words(12, number).split())
            lines.append(json.dumps({"id": f"s{number:04}", "text": f"{text}."}) + "\n")
        (folder / f"{language}.jsonl").write_text("".join(lines), encoding="utf-8")
    return str(folder)


@pytest.fixture
def spoken(tmp_path: Path) -> str:
    return write_spoken(tmp_path / "spoken", range(80))


@pytest.mark.parametrize("method", METHODS)
def test_an_audit_by_hand(method: str, spoken: str, tmp_path: Path) -> None:
    """cos(e(D), iso(s)) of every row, fitted here on the segments that no row names; mixed documents by shares."""
    name = f"plain+correction={method}"
    options: dict[str, Any] = {
        "corpus": spoken,
        "languages": ["en", "de"],
        "mixed": ["de:en"],
        "sizes": [3],
    }
    log = audit(
        Speaking(),
        **options,
        sets=4,
        treatments=["plain", name],
        store=tmp_path / "s",
        out=tmp_path / "run",
    )
    texts, tested, model = Corpus.read(spoken), set(log.rows["segment"]), Speaking()
    rest = [id for id in texts.ids() if id not in tested]
    vectors = {one: model.encode([texts.text(id, one) for id in rest]) for one in ("en", "de")}
    fit = LanguageCorrection.fit(method, vectors)

    def embed(text: str, shares: list[tuple[str, float]]) -> np.ndarray:
        return np.asarray(fit.correct(model.encode([text]), [shares])[0], dtype=np.float64)

    plain, found = (
        values_of(log.rows, "representation", treatment) for treatment in ("plain", name)
    )
    assert plain.keys() == found.keys()
    assert max(abs(plain[key] - found[key]) for key in plain) > 0.05, "the premise"
    count = 0
    for document, parts in documents_of(log.rows, spoken).items():
        # Of characters, which is what the length of a text is where there is no tokenizer.
        own = [(text[:2], len(text)) for _, _, text in parts]
        whole = sum(length for _, length in own)
        shares = [(one, sum(n for other, n in own if other == one) / whole) for one in dict(own)]
        vector = embed(" ".join(text for _, _, text in parts), shares)
        for position, _, text in parts:
            wanted = cosine(vector, embed(text, [(text[:2], 1.0)]))
            assert found[document, position] == pytest.approx(wanted, abs=1e-5)
            count += 1
    assert count == 3 * 3 * 3 * 4
    said = f"{name}: fitted on {len(rest)} texts of spoken, the same in each of en, de, that are not tested"
    assert said in log.header["notes"]


def test_nothing_is_embedded_twice(spoken: str, tmp_path: Path) -> None:
    """All methods together embed what one needs, and afterwards nothing is asked of the model."""
    options: dict[str, Any] = {"corpus": spoken, "languages": ["en", "de"], "sizes": [3], "sets": 4}
    model = Speaking()
    audit(
        model,
        **options,
        treatments=["plain+correction=lir"],
        store=tmp_path / "s",
        out=tmp_path / "one",
    )
    first = len(model.texts)
    assert first > len(set(model.texts)) - 3 > 100, "the premise"
    names = [f"plain+correction={method}" for method in (*METHODS, "lir-2")]
    log = audit(
        model, **options, treatments=["plain", *names], store=tmp_path / "s", out=tmp_path / "two"
    )
    assert len(model.texts) == first
    assert log.header["timings"]["texts_computed"] == 0
    assert set(log.rows["treatment"]) == {"plain", *names}


def test_keys_are_of_the_vector_and_the_fit() -> None:
    """A language counts only for a method that asks for it; two languages of one text are two vectors."""
    vectors, alone = planted(width=24), ObjectEncoder(Speaking())
    texts = [Text("enw1 enw2", 9, language=language) for language in ("en", "de")]
    for method, plain in product(METHODS, (alone, ChunkEncoder(alone, Characters(), 12))):
        encoder = CorrectedEncoder(plain, LanguageCorrection.fit(method, vectors))
        keys = {encoder.key(text) for text in texts} | {plain.key(texts[0])}
        assert len(keys) == (2 if method == "subspace" else 3)
        with Store(":memory:") as store:
            tally = Tally()
            fill(encoder, texts, store, budget=100, tally=tally, progress=lambda tokens: None)
            assert tally.computed == 1
            found = store.get([encoder.key(text) for text in texts])
            for text in texts:
                np.testing.assert_array_equal(found[encoder.key(text)], encoder.vectors([text])[0])


def test_the_mean_of_chunks_is_corrected_as_a_whole() -> None:
    chunks = ChunkEncoder(ObjectEncoder(Speaking()), Characters(), 12)
    fit = LanguageCorrection.fit("lir", planted(width=24))
    text = Text("dew1 dew2. dew3 dew4. dew5 dew6.", 32, language="de")
    (mean,) = chunks.vectors([text])
    (found,) = CorrectedEncoder(chunks, fit).vectors([text])
    np.testing.assert_array_equal(found, fit.correct(mean[None], of("de"))[0])


@pytest.mark.slow
def test_with_whitening_tiles_and_a_transformer(make_tiny: Make, tmp_path: Path) -> None:
    """Fitted on vectors of the rest of the treatment: of tiles, of whitened vectors, of means of chunks."""
    rest = ["tiles+tile_size=8", "whitening-8", "chunk-mean-20"]
    names = [*rest, *(f"{one}+correction={method}" for one in rest for method in METHODS)]
    corpus = str(write_articles(tmp_path / "corpus", 36))
    options: dict[str, Any] = {"corpus": corpus, "languages": ["en", "it"], "sizes": [2], "sets": 4}
    model = make_tiny("bert", "mean")
    log = audit(model, **options, treatments=names, store=tmp_path / "s", out=tmp_path / "run")
    for one in names[3:]:
        plain, corrected = (
            values_of(log.rows, "representation", name) for name in (one.partition("+corr")[0], one)
        )
        assert np.isfinite(list(corrected.values())).all()
        # Both "languages" are random words, so that their means are close; rounding is below 1e-6.
        assert max(abs(plain[key] - corrected[key]) for key in plain) > 1e-5


def write_collection(folder: Path, languages: Sequence[str]) -> str:
    """Six documents in a BEIR folder and a question to each, which is its beginning."""
    (folder / "qrels").mkdir(parents=True)
    documents, queries, judged = [], [], ["query-id\tcorpus-id\tscore"]
    for number in range(6):
        language = languages[number % len(languages)]
        text = " ".join(f"{language}{word}" for word in words(12, 5000 + number).split())
        metadata = {"language": language}
        documents.append(json.dumps({"_id": f"d{number}", "text": text, "metadata": metadata}))
        queries.append(json.dumps({"_id": f"q{number}", "text": text[:29], "metadata": metadata}))
        judged.append(f"q{number}\td{number}\t1")
    for file, lines in (
        ("corpus.jsonl", documents),
        ("queries.jsonl", queries),
        ("qrels/test.tsv", judged),
    ):
        (folder / file).write_text("\n".join(lines), encoding="utf-8")
    return str(folder)


def test_a_search_notes_languages_that_were_not_fitted(spoken: str, tmp_path: Path) -> None:
    """A collection in a language that the corpus to fit on does not have."""
    names = ["plain", "plain+correction=lir", "plain+correction=subspace"]
    options: dict[str, Any] = {
        "fit_corpus": spoken,
        "metrics": ["mrr"],
        "treatments": names,
        "store": tmp_path / "s",
    }
    log = evaluate(
        Speaking(),
        write_collection(tmp_path / "task", ["en", "fr"]),
        **options,
        out=tmp_path / "run",
    )
    assert set(log.rows["treatment"]) == set(names)
    notes = [note for note in log.header["notes"] if "not corrected" in note]
    assert notes == ["lir: texts not corrected, wholly or in part: 3 in fr"]


def test_tested_texts_are_never_fitted_on(spoken: str, tmp_path: Path) -> None:
    """A fit corpus that holds all that is tested, among others and in one language only: both languages are out."""
    folder = tmp_path / "overlap"
    write_spoken(folder, range(1000, 1040))
    own = Corpus.read(spoken)
    options: dict[str, Any] = {"corpus": spoken, "languages": ["en", "de"], "sizes": [3], "sets": 4}
    options["treatments"] = ["plain+correction=subspace"]
    planted_in = (folder / "de.jsonl").open("a", encoding="utf-8")
    with planted_in, (folder / "en.jsonl").open("a", encoding="utf-8") as other:
        for number, id in enumerate(own.ids()):
            print(json.dumps({"id": f"x{number}", "text": own.text(id, "de")}), file=planted_in)
            print(
                json.dumps({"id": f"x{number}", "text": f"Something else {number} here."}),
                file=other,
            )
    prepared = STUDY.ready(AuditOptions(Speaking(), **options, fit_corpus=str(folder)), Silent())
    tested = set(prepared.documents.segments.values())
    used = {id for id, _ in prepared.documents.segments}
    fitted = {text.text for text in prepared.fit.parallel}
    assert len(tested) == 2 * 3 * 4
    assert not fitted & tested
    numbers = [number for number, id in enumerate(own.ids()) if id in used]
    assert not fitted & {f"Something else {number} here." for number in numbers}
    assert f"Something else {next(n for n in range(80) if n not in numbers)} here." in fitted
    again = STUDY.ready(AuditOptions(Speaking(), **options), Silent())
    assert not {text.text for text in again.fit.parallel} & tested
    assert run_name(again) != run_name(prepared)


@pytest.mark.slow
def test_texts_of_a_fit_are_the_same_in_every_language(tmp_path: Path) -> None:
    """Long segments are cut; of an id as many texts count as its shortest language has; at most 500 are drawn."""
    folder = tmp_path / "long"
    folder.mkdir()
    for language, sentences in (("en", 14), ("de", 9)):
        lines = []
        for number in range(300):
            text = " ".join(f"N{number} {words(40, place)}." for place in range(sentences))
            lines.append(json.dumps({"id": f"s{number:04}", "text": text}) + "\n")
        (folder / f"{language}.jsonl").write_text("".join(lines), encoding="utf-8")
    corpus = write_spoken(tmp_path / "tested", range(5000, 5020))
    options: dict[str, Any] = {
        "languages": ["en", "de"],
        "sizes": [2],
        "sets": 2,
        "treatments": ["plain+correction=lir"],
    }
    asked = AuditOptions(Speaking(), corpus=corpus, fit_corpus=str(folder), **options)
    fit = STUDY.ready(asked, Silent()).fit
    by_language = [
        [text for text in fit.parallel if text.language == language] for language in ("en", "de")
    ]
    assert [len(own) for own in by_language] == [500, 500]
    for one, other in zip(*by_language, strict=True):
        assert one.text.split()[0] == other.text.split()[0], "of one id"
    assert fit == STUDY.ready(asked, Silent()).fit


def test_what_studies_refuse(make_tiny: Make, spoken: str, tmp_path: Path) -> None:
    """In one line, before anything is embedded."""
    other = write_spoken(tmp_path / "other", range(2000, 2040), ["en"])
    model, name = make_tiny("bert", "mean"), "plain+correction=lir"
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        (
            {"languages": ["en"]},
            CorpusError,
            "needs at least two languages to be fitted on, and there is only 'en'",
        ),
        (
            {"sets": 26},
            CorpusError,
            "needs 20 texts that all of en, de have, and spoken has 2 that are not tested",
        ),
        (
            {"measures": ["retention"]},
            UnsupportedModel,
            "are not comparable with token vectors: omit it",
        ),
        ({"fit_corpus": other}, CorpusError, "other has no language 'de'. Languages there: en."),
    ]
    for changes, kind, said in cases:
        options = {"corpus": spoken, "languages": ["en", "de"], "sizes": [3], "sets": 4, **changes}
        assert said in said_by(
            STUDY.ready, AuditOptions(model, **options, treatments=[name]), Silent(), kind=kind
        )
    with pytest.raises(
        DesignError, match="corrects languages, and these texts are in one: omit it"
    ):
        collapse(model, corpus=spoken, treatments=[name], out=tmp_path / "c")
    with pytest.raises(
        DesignError, match="is fitted on a corpus and cannot be inspected: run an audit"
    ):
        inspect(model, "w1 w2. w3 w4.", treatments=[name])
    with pytest.raises(DesignError, match="is not only a calibration, and cannot be written to"):
        TuneOptions(candidates=["tiles+correction=subspace"])


def test_a_model_behind_an_endpoint(tmp_path: Path) -> None:
    """Its vectors are enough. What is fitted on is announced with the rest, and nothing is sent twice."""
    corpus = str(write_articles(tmp_path / "corpus", 40))
    options: dict[str, Any] = {"corpus": corpus, "languages": ["en", "it"], "sizes": [2], "sets": 3}
    names = ["plain", "plain+correction=subspace", "chunk-mean+correction=lir"]
    with serving() as server:
        log = audit(
            Endpoint(server.url, "words"),
            **options,
            treatments=names,
            store=tmp_path / "s",
            out=tmp_path / "o",
        )
        assert server.twice == 0
        said = log.header["sending"]["texts"]
        assert said <= len(server.texts) <= said + 4, "and a few without their end"
