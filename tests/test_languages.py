"""Corrections of languages: by hand, against the published algorithm, as treatments, and fitted on no tested text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import PRESETS
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.corpus.corpus import Corpus
from fairspan.encoding.corrected import CorrectedEncoder
from fairspan.encoding.encoder import ChunkEncoder, ObjectEncoder, Text
from fairspan.encoding.endpoint import Endpoint
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store
from fairspan.encoding.tokens import Characters
from fairspan.errors import CalibrationError, CorpusError, DesignError, StatisticsError, TaskError, UnsupportedModel
from fairspan.model.languages import LanguageCorrection, fit_correction, language_subspace
from fairspan.runs.fit_part import FitPart
from fairspan.runs.subject import open_subject
from fairspan.studies.audit.forecast import forecast
from fairspan.studies.audit.prepare import prepare
from fairspan.studies.audit.run import audit
from fairspan.studies.audit.spec import make_spec
from fairspan.studies.collapse.run import collapse
from fairspan.studies.evaluate.prepare import prepare_evaluation
from fairspan.studies.evaluate.run import evaluate
from fairspan.studies.evaluate.spec import make_evaluation
from fairspan.studies.inspect.run import inspect
from tests.embedding_server import Words, serving
from tests.test_audit import cosine, documents_of, values_of
from tests.test_baselines import Counted
from tests.tiny import words
from tests.verbs import write_articles

Make = Callable[..., SentenceTransformer]
METHODS = ["centre", "subspace", "shift", "lir"]
# float64 inside, float32 out: one rounding of a number below 1.
ROUNDED = 1e-7


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def of(*languages: str) -> list[list[tuple[str, float]]]:
    """Texts that are wholly in these languages."""
    return [[(language, 1.0)] for language in languages]


# The methods, as numbers.

ENGLISH = np.array([[1.0, 0, 0], [3, 0, 0]])
GERMAN = np.array([[1.0, 4, 0], [1, 0, 2]])


def test_centre_by_hand() -> None:
    """Means (2, 0, 0) and (1, 2, 1), whose mean is (1.5, 1, 0.5)."""
    found = fit_correction("centre", {"en": ENGLISH, "de": GERMAN}, normalise=False)
    assert found.offsets == pytest.approx(np.array([[0.5, -1, -0.5], [-0.5, 1, 0.5]]))
    vectors = np.array([[1.0, 1, 1]] * 2)
    assert found(vectors, of("de", "en")) == pytest.approx(np.array([[1.5, 0, 0.5], [0.5, 2, 1.5]]))


def test_shift_by_hand() -> None:
    """German is (−1, 2, 1) away from English on average, over pairs; English stays where it is."""
    found = fit_correction("shift", {"de": GERMAN, "en": ENGLISH}, normalise=False)
    assert found.fitted_on["pivot"] == "en"
    vectors = np.array([[1.0, 1, 1]] * 2)
    assert found(vectors, of("de", "en")) == pytest.approx(np.array([[2.0, -1, 0], [1, 1, 1]]))
    other = fit_correction("shift", {"de": GERMAN, "en": ENGLISH}, pivot="de", normalise=False)
    assert other(vectors, of("de", "en")) == pytest.approx(np.array([[1.0, 1, 1], [0, 3, 2]]))


def test_subspace_by_hand() -> None:
    """Two languages differ in one direction, (−1, 2, 1) / √6; the language of a text is not asked for."""
    found = fit_correction("subspace", {"en": ENGLISH, "de": GERMAN}, normalise=False)
    assert not found.needs_language
    vectors = np.array([[1.0, 1, 1], [2, 1, 0]])
    wanted = np.array([[1 + 2 / 6, 1 - 4 / 6, 1 - 2 / 6], [2, 1, 0]])
    assert found(vectors, [(), ()]) == pytest.approx(wanted)
    assert found(vectors, of("xx", "en")) == pytest.approx(wanted)


def test_lir_by_hand() -> None:
    """The first component of English is the first axis, without centring; vectors of German lose their own."""
    found = fit_correction("lir", {"en": ENGLISH, "de": np.array([[0, 5.0, 0], [0, 0, 1]])}, normalise=False)
    vectors = np.array([[1.0, 2, 3]] * 3)
    wanted = np.array([[0.0, 2, 3], [1, 0, 3], [1, 2, 3]])
    assert found(vectors, of("en", "de", "xx")) == pytest.approx(wanted)
    two = fit_correction("lir-2", {"en": np.diag([3.0, 2, 1]), "de": np.diag([1.0, 2, 3])}, normalise=False)
    assert two(vectors[:2], of("en", "de")) == pytest.approx(np.array([[0.0, 0, 3], [1, 0, 0]]))


def lsar(means: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Xie et al. 2022, Algorithm 1, step by step: the common vector and the projector of the removed subspace."""
    matrix, ones = means.T, np.ones(len(means))
    mean = matrix @ ones / len(means)
    left, values, right = np.linalg.svd(matrix - np.outer(mean, ones), full_matrices=False)
    low = left[:, :rank] @ np.diag(values[:rank]) @ right[:rank] + np.outer(mean, ones)
    direction = np.linalg.pinv(low).T @ ones
    common = direction / (direction @ direction)
    specific = np.linalg.svd(low - np.outer(common, ones), full_matrices=False)[0][:, :rank]
    return common, specific @ specific.T


@pytest.mark.parametrize(("count", "rank"), [(2, None), (5, None), (5, 3), (5, 1)])
def test_subspace_is_the_published_one(count: int, rank: int | None) -> None:
    rng = np.random.default_rng(count)
    means = rng.standard_normal(12) + 0.3 * rng.standard_normal((count, 12))
    basis = language_subspace(means, rank)
    common, projector = lsar(means, rank or count - 1)
    assert basis @ basis.T == pytest.approx(np.eye(rank or count - 1))
    assert basis.T @ basis == pytest.approx(projector)
    assert basis @ common == pytest.approx(0, abs=1e-9)
    if rank is None:
        corrected = means - means @ projector
        assert corrected == pytest.approx(np.tile(common, (count, 1))), "what languages share is all that is left"


def test_languages_with_one_mean_add_no_direction() -> None:
    means = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    assert language_subspace(means).shape == (1, 3)
    with pytest.raises(StatisticsError, match="all languages have the same mean"):
        language_subspace(np.ones((2, 3)))


def planted(
    count: int = 200, width: int = 16, languages: Sequence[str] = ("en", "de", "zh"), seed: int = 0
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Meanings, and the same in each language moved by its offset."""
    rng = np.random.default_rng(seed)
    meanings = 0.5 * rng.standard_normal(width) + rng.standard_normal((count, width))
    offsets = {language: 2.0 * rng.standard_normal(width) for language in languages}
    return meanings, {language: meanings + offset for language, offset in offsets.items()}


def found_first(vectors: dict[str, np.ndarray]) -> float:
    """How often a translation is the nearest neighbour in another language among texts of all languages."""
    names = list(vectors)
    table = unit(np.concatenate([vectors[name] for name in names]))
    count, right = len(vectors[names[0]]), 0
    similar = table @ table.T
    np.fill_diagonal(similar, -1)
    for row, column in enumerate(similar.argmax(axis=1)):
        right += row % count == column % count
    return right / len(table)


@pytest.mark.parametrize("method", ["centre", "subspace", "shift"])
def test_planted_offsets_are_removed_and_meanings_kept(method: str) -> None:
    """Fitted on other texts. Where vectors are not normalised, offsets are removed up to one that all share."""
    meanings, vectors = planted()
    fit = fit_correction(method, {name: own[:100] for name, own in vectors.items()}, normalise=False)
    after = {name: fit(own[100:], of(*[name] * 100)).astype(np.float64) for name, own in vectors.items()}
    assert found_first({name: own[100:] for name, own in vectors.items()}) < 0.2, "the premise"
    assert found_first(after) == 1.0
    for own in after.values():
        assert own == pytest.approx(after["en"], abs=1e-5)
    if method != "subspace":
        assert np.ptp(after["en"] - meanings[100:], axis=0) == pytest.approx(0, abs=1e-5), "moved, and nothing else"
    normal = fit_correction(method, {name: own[:100] for name, own in vectors.items()})
    lengths = np.linalg.norm(normal(vectors["de"], of(*["de"] * 200)), axis=1)
    assert lengths == pytest.approx(1, abs=1e-6)


def test_centre_and_shift_differ_by_one_constant() -> None:
    """Of the same texts in every language, the mean of differences is the difference of means."""
    _, vectors = planted()
    one, other = (fit_correction(method, vectors, normalise=False) for method in ("centre", "shift"))
    assert one.offsets is not None
    assert other.offsets is not None
    assert np.ptp(one.offsets - other.offsets, axis=0) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_a_text_in_two_languages_loses_the_weighted_mean(method: str) -> None:
    _, vectors = planted()
    fit = fit_correction(method, vectors, normalise=False)
    given = vectors["zh"][:1]
    removed = {name: given - fit(given, of(name)) for name in ("de", "en")}
    wanted = 0.25 * removed["de"] + 0.75 * removed["en"]
    mixed = given - fit(given, [[("de", 0.25), ("en", 0.75)]])
    assert mixed == pytest.approx(wanted, abs=1e-5)
    half = given - fit(given, [[("de", 0.5), ("xx", 0.5)]])
    assert half == pytest.approx(removed["de"] if method == "subspace" else 0.5 * removed["de"], abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_unknown_languages_are_untouched_and_counted(method: str) -> None:
    _, vectors = planted()
    fit = fit_correction(method, vectors)
    given = unit(vectors["de"][:4])
    spoken: list[Any] = [[("xx", 1.0)], [], [("de-AT", 1.0)], [("de", 0.5), ("xx", 0.5)]]
    found = fit(given, spoken)
    assert found.dtype == np.float32
    if method == "subspace":
        assert fit.untouched(spoken) == {}
        return
    assert found[:2] == pytest.approx(given[:2], abs=ROUNDED)
    assert found[2] == pytest.approx(fit(given[2:3], of("de"))[0])
    assert fit.untouched(spoken) == {"xx": 2, "": 1}


@pytest.mark.parametrize("method", METHODS)
def test_what_does_not_matter(method: str) -> None:
    """The order of texts and languages, and the length of vectors; turning all vectors turns the result."""
    _, vectors = planted()
    order = np.random.default_rng(1).permutation(200)
    given, spoken = vectors["de"][:9], of(*["de"] * 9)
    plain = fit_correction(method, vectors)(given, spoken)
    moved = fit_correction(method, {name: vectors[name][order] for name in ("zh", "en", "de")})(given, spoken)
    assert moved == pytest.approx(plain, abs=1e-6)
    longer = fit_correction(method, {name: 7 * own for name, own in vectors.items()})(3 * given, spoken)
    assert longer == pytest.approx(plain, abs=1e-6)
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((16, 16)))[0]
    turned = fit_correction(method, {name: own @ turn for name, own in vectors.items()})(given @ turn, spoken)
    assert turned == pytest.approx(plain @ turn, abs=1e-6)


def test_a_vector_that_would_lose_everything_stays() -> None:
    fit = LanguageCorrection("subspace", ("en", "de"), directions=np.array([[[1.0, 0, 0]]]))
    assert fit(np.array([[2.0, 0, 0]]), [()]) == pytest.approx(np.array([[1.0, 0, 0]]))


def test_a_fingerprint_is_of_what_decides() -> None:
    _, vectors = planted()
    names = ("centre", "shift", "subspace", "subspace-1", "lir", "lir-2")
    fits = [fit_correction(name, vectors) for name in names]
    fits += [fit_correction("centre", vectors, normalise=False), fit_correction("centre", planted(seed=1)[1])]
    assert len({fit.fingerprint for fit in fits}) == len(fits)
    assert fits[0].fingerprint == fit_correction("centre", vectors, fitted_on={"corpus": "x"}).fingerprint


@pytest.mark.parametrize(
    ("method", "vectors", "said"),
    [
        ("centre", {"en": ENGLISH}, "centre needs at least two languages to be fitted on, got en"),
        ("shift", {}, "got none"),
        ("centre", {"en": ENGLISH, "de": GERMAN[:1]}, "the same texts in every language, [n, d]"),
        ("lir", {"en": ENGLISH, "de": np.full((2, 3), np.nan)}, "the vectors of 'de' hold NaN or infinity"),
        ("lir-3", {"en": ENGLISH, "de": GERMAN}, "would remove 3 directions, and there are 1 at most"),
        ("subspace-2", {"en": ENGLISH, "de": GERMAN}, "would remove 2 directions, and there are 1 at most"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(method: str, vectors: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(StatisticsError) as caught:
        fit_correction(method, vectors)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(StatisticsError, match="there is no language 'fr' to shift to: it is one of en, de"):
        fit_correction("shift", {"en": ENGLISH, "de": GERMAN}, pivot="fr")


# As treatments.


def test_names() -> None:
    found = as_treatment("tiles+languages=subspace")
    assert (found.languages, found.calibration, found.fitted) == ("subspace", PRESETS["tiles"], True)
    assert found.to_dict()["languages"] == "subspace"
    assert Treatment.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert found.uncorrected.to_dict() == {**as_treatment("tiles").to_dict(), "name": found.name}
    assert as_treatment("none+languages=centre").acts
    assert as_treatment("whitening-8+languages=lir-2").whitens
    assert as_treatment({"name": "mine", "preset": "tiles", "languages": "lir-2"}).languages == "lir-2"
    assert as_treatment({"name": "mine", "languages": "shift"}).calibration == PRESETS["none"]
    assert as_treatment({"name": "tiles+languages=shift"}).languages == "shift"
    assert "languages" not in as_treatment("tiles").to_dict(), "runs without keep their names"


@pytest.mark.parametrize("given", ["none+languages=mean", "none+languages=centre-2", "none+languages=lir-0"])
def test_unknown_methods_are_one_line(given: str) -> None:
    with pytest.raises(CalibrationError, match="languages must be one of centre, subspace, shift, lir, or as in"):
        as_treatment(given)


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


def write_spoken(folder: Path, numbers: Sequence[int], languages: Sequence[str] = ("en", "de")) -> str:
    """The same six words in each language, of which every one names its language."""
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


def by_hand(fit: LanguageCorrection, model: Any, text: str, spoken: Sequence[tuple[str, float]]) -> np.ndarray:
    return np.asarray(fit(np.asarray(model.encode([text])), [spoken])[0], dtype=np.float64)


@pytest.mark.parametrize("method", METHODS)
def test_an_audit_by_hand(method: str, spoken: str, tmp_path: Path) -> None:
    """cos(e(D), iso(s)) of every row, fitted here on the segments that no row names; mixed documents by shares."""
    name = f"none+languages={method}"
    options: dict[str, Any] = {
        "corpus": spoken,
        "languages": ["en", "de"],
        "mixed": ["de:en"],
        "sizes": [3],
        "sets": 4,
    }
    log = audit(Speaking(), **options, treatments=["none", name], store=tmp_path / "s", out=tmp_path / "run")
    texts, tested = Corpus.read(spoken), set(log.rows["segment"])
    rest = [id for id in texts.ids() if id not in tested]
    model = Speaking()
    vectors = {one: model.encode([texts.text(id, one) for id in rest]) for one in ("en", "de")}
    fit = fit_correction(method, vectors)
    plain, found = (values_of(log.rows, "representation", treatment) for treatment in ("none", name))
    assert plain.keys() == found.keys()
    assert max(abs(plain[key] - found[key]) for key in plain) > 0.05, "the premise"
    count = 0
    for document, parts in documents_of(log.rows, spoken).items():
        languages = [text[:2] for _, _, text in parts]
        shares = [(one, languages.count(one) / 3) for one in dict.fromkeys(languages)]
        # Characters: segments of equal length in words differ a little in them.
        lengths = [len(text) for _, _, text in parts]
        shares = [
            (one, sum(n for n, own in zip(lengths, languages, strict=True) if own == one) / sum(lengths))
            for one, _ in shares
        ]
        whole = by_hand(fit, model, " ".join(text for _, _, text in parts), shares)
        for position, _, text in parts:
            wanted = cosine(whole, by_hand(fit, model, text, [(text[:2], 1.0)]))
            assert found[document, position] == pytest.approx(wanted, abs=1e-5)
            count += 1
    assert count == 3 * 3 * 3 * 4
    said = f"{name}: fitted on {len(rest)} texts of spoken, the same in each of en, de, that are not tested"
    assert said in log.header["notes"]
    assert ("shift moves languages to en" in log.header["notes"]) == (method == "shift")


def test_nothing_is_embedded_twice(spoken: str, tmp_path: Path) -> None:
    """All methods together embed what one needs, and afterwards nothing is asked of the model."""
    options: dict[str, Any] = {"corpus": spoken, "languages": ["en", "de"], "sizes": [3], "sets": 4}
    model = Speaking()
    audit(model, **options, treatments=["none+languages=centre"], store=tmp_path / "s", out=tmp_path / "one")
    first = len(model.texts)
    assert first > len(set(model.texts)) - 3 > 100, "the premise"
    names = [f"none+languages={method}" for method in (*METHODS, "lir-2")]
    log = audit(model, **options, treatments=["none", *names], store=tmp_path / "s", out=tmp_path / "two")
    assert len(model.texts) == first
    assert log.header["timings"]["texts_computed"] == 0
    assert set(log.rows["treatment"]) == {"none", *names}


def test_a_further_correction_is_forecast_to_embed_nothing() -> None:
    """100 tokens under each treatment, a fit of 7; tiles come without a plain twin."""
    part = FitPart(parallel=(Text("eins", 3, language="de"), Text("one", 4, language="en")))
    names = ["none", "none+languages=centre", "none+languages=lir", "tiles+languages=centre", "tiles"]
    treatments = [as_treatment(name) for name in names]
    assert part.tokens(treatments, [100] * 5) == [100, 7, 0, 107, 0]


def test_progress_ends_at_what_it_announced(spoken: str, tmp_path: Path) -> None:
    """Each base counts once, whether its vectors are computed or found in the store."""
    names = ["none", "none+languages=centre", "none+languages=lir", "chunk-mean+languages=centre", "chunk-mean"]
    options: dict[str, Any] = {"corpus": spoken, "languages": ["en", "de"], "store": tmp_path / "s"}
    searched: dict[str, Any] = {"size": 2, "sets": 4, "editions": 1, "opening": 40}
    for folder in ("computed", "found"):
        counted = Counted()
        audit(Speaking(), **options, sizes=[3], sets=4, treatments=names, out=tmp_path / folder, progress=counted)
        assert counted.done == counted.total > 0
        counted, out = Counted(), tmp_path / f"{folder}-search"
        evaluate(Speaking(), "pages", **options, **searched, treatments=names, out=out, progress=counted)
        assert counted.done == counted.total > 0


def test_keys_are_of_the_vector_and_the_fit() -> None:
    """A language counts only for a method that asks for it; two languages of one text are two vectors."""
    _, vectors = planted(width=24)
    plain = ObjectEncoder(Speaking())
    texts = [Text("enw1 enw2", 9, language=language) for language in ("en", "de")]
    for method in METHODS:
        encoder = CorrectedEncoder(plain, fit_correction(method, vectors))
        keys = {encoder.key(text) for text in texts} | {plain.key(texts[0])}
        assert len(keys) == (2 if method == "subspace" else 3)
        with Store(":memory:") as store:
            tally = Tally()
            fill(encoder, texts, store, budget=100, tally=tally, progress=lambda tokens: None)
            assert tally.computed == 1
            found = store.get([encoder.key(text) for text in texts])
            for text in texts:
                np.testing.assert_array_equal(found[encoder.key(text)], encoder.vectors([text])[0])
        with pytest.raises(UnsupportedModel, match="have no token embeddings"):
            encoder.span_key(texts[0])


def test_the_mean_of_chunks_is_corrected_as_a_whole() -> None:
    _, vectors = planted(width=24)
    chunks = ChunkEncoder(ObjectEncoder(Speaking()), Characters(), 12)
    fit = fit_correction("centre", vectors)
    text = Text("dew1 dew2. dew3 dew4. dew5 dew6.", 32, language="de")
    (mean,) = chunks.vectors([text])
    (found,) = CorrectedEncoder(chunks, fit).vectors([text])
    np.testing.assert_array_equal(found, fit(mean[None], of("de"))[0])


@pytest.mark.parametrize("method", METHODS)
def test_with_whitening_tiles_and_a_transformer(method: str, make_tiny: Make, tmp_path: Path) -> None:
    """Fitted on vectors of the rest of the treatment: of tiles, of whitened vectors, of means of chunks."""
    rest = ["tiles+tile_size=8", "whitening-8", "chunk-mean-20"]
    log = audit(
        make_tiny("bert", "mean"),
        corpus=str(write_articles(tmp_path / "corpus", 36)),
        languages=["en", "it"],
        sizes=[2],
        sets=4,
        treatments=[*rest, *(f"{one}+languages={method}" for one in rest)],
        store=tmp_path / "s",
        out=tmp_path / "run",
    )
    for one in rest:
        plain, corrected = (
            values_of(log.rows, "representation", f"{one}{end}") for end in ("", f"+languages={method}")
        )
        assert np.isfinite(list(corrected.values())).all()
        # Both "languages" are random words, so that their means are close; rounding is below 1e-6.
        assert max(abs(plain[key] - corrected[key]) for key in plain) > 1e-5


def test_a_search_across_languages(spoken: str, tmp_path: Path) -> None:
    """Pages in German, queries in English: plain vectors are far apart, corrected ones are found."""
    log = evaluate(
        Speaking(),
        corpus=spoken,
        languages=["de"],
        query_language="en",
        query="held-out",
        opening=40,
        size=2,
        sets=8,
        metrics=["mrr"],
        treatments=["none", *(f"none+languages={method}" for method in METHODS)],
        store=tmp_path / "s",
        out=tmp_path / "run",
    )
    rows = log.rows.filter(measure="mrr", part="whole")
    assert set(rows["treatment"]) == {"none", *(f"none+languages={method}" for method in METHODS)}


def write_collection(folder: Path, languages: Sequence[str]) -> str:
    """Documents and a question to each, which is its beginning."""
    folder.mkdir()
    documents, queries = [], []
    for number in range(6):
        language = languages[number % len(languages)]
        text = " ".join(f"{language}{word}" for word in words(12, 5000 + number).split())
        documents.append(json.dumps({"id": f"d{number}", "text": text, "language": language}))
        asked = {"id": f"q{number}", "query": text[:29], "document": f"d{number}", "start": 0, "end": 29}
        queries.append(json.dumps({**asked, "language": language}))
    (folder / "documents.jsonl").write_text("\n".join(documents), encoding="utf-8")
    (folder / "queries.jsonl").write_text("\n".join(queries), encoding="utf-8")
    return str(folder)


def test_tested_texts_are_never_fitted_on(spoken: str, tmp_path: Path) -> None:
    """A fit corpus that holds all that is tested, among others and in one language only: both languages are out."""
    folder = tmp_path / "overlap"
    write_spoken(folder, range(1000, 1040))
    own, tested = Corpus.read(spoken), set[str]()
    options: dict[str, Any] = {"corpus": spoken, "languages": ["en", "de"], "sizes": [3], "sets": 4}
    planted_in = (folder / "de.jsonl").open("a", encoding="utf-8")
    with planted_in, (folder / "en.jsonl").open("a", encoding="utf-8") as other:
        for number, id in enumerate(own.ids()):
            print(json.dumps({"id": f"x{number}", "text": own.text(id, "de")}), file=planted_in)
            print(json.dumps({"id": f"x{number}", "text": f"Something else {number} here."}), file=other)
    spec = make_spec(**options, treatments=["none+languages=centre"], fit_corpus=str(folder))
    prepared = prepare(open_subject(Speaking()), spec)
    tested = set(prepared.documents.segments.values())
    used = {id for id, _ in prepared.documents.segments}
    fitted = {text.text for text in prepared.fit.parallel}
    assert len(tested) == 2 * 3 * 4
    assert not fitted & tested
    numbers = [number for number, id in enumerate(own.ids()) if id in used]
    assert not fitted & {f"Something else {number} here." for number in numbers}
    assert f"Something else {next(n for n in range(80) if n not in numbers)} here." in fitted
    again = prepare(open_subject(Speaking()), make_spec(**options, treatments=["none+languages=centre"]))
    assert not {text.text for text in again.fit.parallel} & tested
    assert again.fit.languages == ("en", "de")
    assert again.run != prepared.run


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
    spec = make_spec(
        corpus=corpus,
        languages=["en", "de"],
        sizes=[2],
        sets=2,
        fit_corpus=str(folder),
        treatments=["none+languages=lir"],
    )
    fit = prepare(open_subject(Speaking()), spec).fit
    by_language = {
        language: [text for text in fit.parallel if text.language == language] for language in fit.languages
    }
    assert {language: len(own) for language, own in by_language.items()} == {"en": 500, "de": 500}
    for one, other in zip(*by_language.values(), strict=True):
        assert one.text.split()[0] == other.text.split()[0], "of one id"
    assert fit == prepare(open_subject(Speaking()), spec).fit


def test_unknown_languages_are_noted(spoken: str, tmp_path: Path) -> None:
    """A collection in a language that the corpus to fit on does not have."""
    task = write_collection(tmp_path / "task", ["en", "fr"])
    log = evaluate(
        Speaking(),
        task=task,
        fit_corpus=spoken,
        metrics=["mrr"],
        treatments=["none", "none+languages=centre", "none+languages=subspace"],
        store=tmp_path / "s",
        out=tmp_path / "run",
    )
    notes = [note for note in log.header["notes"] if "left as they are" in note]
    assert notes == ["centre: texts left as they are, wholly or in part: 3 in fr"]


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"languages": ["en"]}, CorpusError, "needs at least two languages to be fitted on, and there is only 'en'"),
        ({"sets": 26}, CorpusError, "needs 20 texts that all of en, de have, and spoken has 2 that are not tested"),
        ({"measures": ["retention"]}, UnsupportedModel, "are not comparable with token vectors: omit it"),
        ({"fit_corpus": "other"}, CorpusError, "other has no language 'de'. Languages there: en."),
    ],
)
def test_what_an_audit_refuses(
    make_tiny: Make, spoken: str, tmp_path: Path, changes: dict[str, Any], kind: type[Exception], said: str
) -> None:
    if "fit_corpus" in changes:
        changes = {"fit_corpus": write_spoken(tmp_path / "other", range(2000, 2040), ["en"])}
    options = {"corpus": spoken, "languages": ["en", "de"], "sizes": [3], "sets": 4, **changes}
    with pytest.raises(kind) as caught:
        prepare(open_subject(make_tiny("bert", "mean")), make_spec(**options, treatments=["none+languages=centre"]))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_other_studies_refuse(make_tiny: Make, spoken: str, tmp_path: Path) -> None:
    model, name = make_tiny("bert", "mean"), "none+languages=centre"
    with pytest.raises(DesignError, match="corrects languages, and these texts are in one: omit it"):
        collapse(model, corpus=spoken, treatments=[name], out=tmp_path / "c")
    with pytest.raises(DesignError, match="is fitted on a corpus, and this is one document: run an audit"):
        inspect(model, "w1 w2. w3 w4.", treatments=[name])
    spec = make_evaluation(corpus=spoken, size=2, sets=4, treatments=[name], indexes=["late-mean"])
    with pytest.raises(UnsupportedModel, match="are not comparable with token vectors"):
        prepare_evaluation(open_subject(model), spec)
    with pytest.raises(TaskError, match="mteb does not say which language a text is in: omit none"):
        evaluate(model, task="mteb:X", treatments=[name], out=tmp_path / "m")


def test_a_model_behind_an_endpoint(tmp_path: Path) -> None:
    """Its vectors are enough. What is fitted on is announced with the rest, and nothing is sent twice."""
    corpus = str(write_articles(tmp_path / "corpus", 40))
    options: dict[str, Any] = {
        "corpus": corpus,
        "languages": ["en", "it"],
        "sizes": [2],
        "sets": 3,
        "progress": False,
    }
    names = ["none", "none+languages=subspace", "chunk-mean+languages=centre"]
    with serving() as server:
        endpoint = Endpoint(server.url, "words")
        log = audit(endpoint, **options, treatments=names, store=tmp_path / "s", out=tmp_path / "far")
        assert server.twice == 0
        said = log.header["sending"]["texts"]
        assert said <= len(server.texts) <= said + 4, "and a few without their end"
        forecast_of(endpoint, options, names, tmp_path / "s")
    near = audit(Words(), **options, treatments=names, out=tmp_path / "near")
    assert near.rows.drop("run", "model").equals(log.rows.drop("run", "model"))


def forecast_of(endpoint: Endpoint, options: dict[str, Any], names: Sequence[str], store: Path) -> None:
    asked = {name: value for name, value in options.items() if name != "progress"}
    found = forecast(prepare(open_subject(endpoint), make_spec(**asked, treatments=names)), store)
    assert found.sending is not None
    assert found.sending.texts == 0, "all is in the store"
