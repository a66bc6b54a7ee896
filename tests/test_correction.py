"""Corrections of languages: by hand, against the published algorithm, in models, as treatments, on no tested text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.corpus.corpus import Corpus
from fairspan.encoding.direct import DirectEncoder
from fairspan.errors import CorpusError, DesignError, FairspanError, UnsupportedModel
from fairspan.model.correction import LanguageCorrection, language_subspace
from tests.commands import Run
from tests.saying import said_by
from tests.test_export import assert_same
from tests.tiny import WORDS, words

Make = Callable[..., SentenceTransformer]
METHODS = ["subspace", "lir"]
TEXTS = [words(4 + number % 9, seed=number) for number in range(12)]
# Texts in padded batches: a few float32 roundings (6e-8) through four layers, of values of order 1.
ROUNDED = 1e-5


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def of(*languages: str) -> list[list[tuple[str, float]]]:
    """Texts that are wholly in these languages."""
    return [[(language, 1.0)] for language in languages]


# The methods, as numbers.

ENGLISH = np.array([[1.0, 0, 0], [3, 0, 0]])
GERMAN = np.array([[1.0, 4, 0], [1, 0, 2]])


def test_subspace_by_hand() -> None:
    """Two languages differ in one direction, (−1, 2, 1) / √6; the language of a text is not asked for."""
    found = LanguageCorrection.fit("subspace", {"en": ENGLISH, "de": GERMAN}, normalise=False)
    assert not found.needs_language
    vectors = np.array([[1.0, 1, 1], [2, 1, 0]])
    wanted = np.array([[1 + 2 / 6, 1 - 4 / 6, 1 - 2 / 6], [2, 1, 0]])
    assert found.correct(vectors, [(), ()]) == pytest.approx(wanted)
    assert found.correct(vectors, of("xx", "en")) == pytest.approx(wanted)


def test_lir_by_hand() -> None:
    """The first component of English is the first axis, without centring; vectors of German lose their own."""
    given = {"en": ENGLISH, "de": np.array([[0, 5.0, 0], [0, 0, 1]])}
    found = LanguageCorrection.fit("lir", given, normalise=False)
    vectors = np.array([[1.0, 2, 3]] * 4)
    wanted = np.array([[0.0, 2, 3], [1, 0, 3], [1, 2, 3], [0.75, 0.5, 3]])
    spoken = [*of("en", "de-AT", "xx"), [("en", 0.25), ("de", 0.75)]]
    assert found.correct(vectors, spoken) == pytest.approx(wanted)
    assert found.untouched([*spoken, []]) == {"xx": 1, "": 1}
    diagonals = {"en": np.diag([3.0, 2, 1]), "de": np.diag([1.0, 2, 3])}
    two = LanguageCorrection.fit("lir-2", diagonals, normalise=False)
    assert two.correct(vectors[:2], of("en", "de")) == pytest.approx(
        np.array([[0.0, 0, 3], [1, 0, 0]])
    )


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


def test_languages_with_one_mean_add_no_direction() -> None:
    means = np.array([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    assert language_subspace(means).shape == (1, 3)
    with pytest.raises(DesignError, match="all languages have the same mean"):
        language_subspace(np.ones((2, 3)))


def planted(count: int = 200, width: int = 16) -> dict[str, np.ndarray]:
    """Meanings, and the same in each language moved by its offset."""
    rng = np.random.default_rng(0)
    meanings = 0.5 * rng.standard_normal(width) + rng.standard_normal((count, width))
    return {
        language: meanings + 2.0 * rng.standard_normal(width) for language in ("en", "de", "zh")
    }


def test_a_subspace_removes_planted_offsets() -> None:
    """Fitted on other texts."""
    vectors = planted()
    fit = LanguageCorrection.fit(
        "subspace", {name: own[:100] for name, own in vectors.items()}, normalise=False
    )
    after = {
        name: fit.correct(own[100:], [()] * 100).astype(np.float64) for name, own in vectors.items()
    }
    for own in after.values():
        assert own == pytest.approx(after["en"], abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_what_does_not_matter(method: str) -> None:
    """The order of texts and languages, and the length of vectors; turning all vectors turns the result."""
    vectors = planted()
    order = np.random.default_rng(1).permutation(200)
    given, spoken = vectors["de"][:9], of(*["de"] * 9)
    plain = LanguageCorrection.fit(method, vectors).correct(given, spoken)
    assert np.linalg.norm(plain, axis=1) == pytest.approx(1, abs=1e-6)
    moved = LanguageCorrection.fit(
        method, {name: vectors[name][order] for name in ("zh", "en", "de")}
    )
    assert moved.correct(given, spoken) == pytest.approx(plain, abs=1e-6)
    longer = LanguageCorrection.fit(method, {name: 7 * own for name, own in vectors.items()})
    assert longer.correct(3 * given, spoken) == pytest.approx(plain, abs=1e-6)
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((16, 16)))[0]
    turned = LanguageCorrection.fit(method, {name: own @ turn for name, own in vectors.items()})
    assert turned.correct(given @ turn, spoken) == pytest.approx(plain @ turn, abs=1e-6)


def test_a_vector_that_would_lose_everything_stays() -> None:
    fit = LanguageCorrection("subspace", ("en", "de"), torch.tensor([[[1.0, 0, 0]]]))
    assert fit.correct(np.array([[2.0, 0, 0]]), [()]) == pytest.approx(np.array([[1.0, 0, 0]]))


# In a model.


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Thirty texts in three "languages": each has a third of the words."""
    folder = tmp_path_factory.mktemp("fit") / "three"
    folder.mkdir()
    for part, language in enumerate(("de", "en", "it")):
        own = WORDS[30 * part : 30 * part + 30]
        rng = np.random.default_rng(part)
        lines = [{"id": f"s{n:02}", "text": " ".join(rng.choice(own, 9))} for n in range(30)]
        (folder / f"{language}.jsonl").write_text(
            "\n".join(map(json.dumps, lines)), encoding="utf-8"
        )
    return str(folder)


def fit_of(
    model: SentenceTransformer, corpus: str, method: str, **options: Any
) -> LanguageCorrection:
    return fairspan.fit_correction(model, corpus, method, progress=False, **options)


def vectors_of(
    model: SentenceTransformer, texts: Sequence[str] = TEXTS, **options: Any
) -> np.ndarray:
    return np.asarray(model.encode_document(list(texts), **options), dtype=np.float64)


@pytest.mark.parametrize(("method", "calibration"), [("subspace", "plain"), ("lir-2", "tiles")])
def test_a_fit_by_hand(make_tiny: Make, corpus: str, method: str, calibration: str) -> None:
    """From the vectors of the calibrated model, as it embeds documents; where they come from is said."""
    model = make_tiny("bert", "mean", normalize=True)
    found = fit_of(model, corpus, method, calibration=calibration)
    fair, read = fairspan.calibrate(model, calibration), Corpus.read(corpus)
    wanted = LanguageCorrection.fit(
        method,
        {
            one: vectors_of(fair, [read.text(id, one) for id in read.ids()])
            for one in read.languages
        },
    )
    assert (found.method, found.languages, found.normalise) == (method, ["de", "en", "it"], True)
    one, other = (
        torch.einsum("lkd,lke->lde", fit.directions, fit.directions).numpy()
        for fit in (found, wanted)
    )
    # Directions turn by the error of vectors over the distance of singular values, which is above 0.1 here.
    assert one == pytest.approx(other, abs=1e-3)
    said = found.fitted_on
    assert said["corpus"] == {"name": "three", "fingerprint": read.fingerprint}
    assert (said["texts"], said["seed"]) == (30, 0)
    assert (said["calibration"] is None) == (calibration == "plain")


@pytest.mark.parametrize("loaded", ["made", "fairspan.load", "SentenceTransformer"])
@pytest.mark.parametrize("method", METHODS)
def test_a_corrected_model(
    make_tiny: Make, corpus: str, tmp_path: Path, method: str, loaded: str
) -> None:
    """Its vectors are the corrected ones of the calibrated model, also after saving; the model is as it was."""
    model = make_tiny("roberta", "cls")
    before, modules = vectors_of(model), list(model.children())
    fit = fit_of(model, corpus, method, calibration="tiles")
    fair = made = fairspan.calibrate(model, "tiles", correction=fit)
    if loaded != "made":
        made.save_pretrained(str(tmp_path))
        (folder,) = (one for one in tmp_path.iterdir() if "LanguageCorrection" in one.name)
        assert sorted(file.name for file in folder.iterdir()) == [
            "config.json",
            "model.safetensors",
        ]
        fair = fairspan.load(tmp_path, device="cpu")
        if loaded == "SentenceTransformer":
            fair = SentenceTransformer(str(tmp_path), trust_remote_code=True, device="cpu")
        assert fair[-1].fitted_on == fit.fitted_on
    assert type(fair) is SentenceTransformer
    assert isinstance(fair[-1], LanguageCorrection)
    assert fair[-1].fingerprint == fit.fingerprint
    plain = fairspan.calibrate(model, "tiles")
    for language in ("de", "xx"):
        found = vectors_of(fair, language=language)
        assert found == pytest.approx(
            fit.correct(vectors_of(plain), of(*[language] * len(TEXTS))), abs=ROUNDED
        )
        assert np.array_equal(found, vectors_of(made, language=language))
    assert np.abs(vectors_of(fair, language="de") - unit(vectors_of(plain))).max() > 0.01, (
        "the premise"
    )
    asked = np.asarray(fair.encode_query(TEXTS, language="en"))
    assert asked == pytest.approx(
        fit.correct(plain.encode_query(TEXTS), of(*["en"] * len(TEXTS))), abs=ROUNDED
    )
    assert fair.get_embedding_dimension() == model.get_embedding_dimension()
    assert np.array_equal(vectors_of(model), before)
    assert list(model.children()) == modules
    again = fairspan.calibrate(fair, "tiles")
    assert np.array_equal(vectors_of(again, language="de"), vectors_of(fair, language="de")), (
        "a copy has it, too"
    )


def test_where_the_language_comes_from(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    """A subspace needs none; LIR says in one line how to name it, wherever nobody does."""
    model = make_tiny("bert", "mean", normalize=True)
    projected = fairspan.calibrate(model, "plain", correction=fit_of(model, corpus, "subspace"))
    assert np.array_equal(vectors_of(projected), vectors_of(projected, language="de"))
    direct = DirectEncoder(projected)
    assert direct.takes_ids
    np.testing.assert_allclose(
        direct.vectors(direct.read(TEXTS)), vectors_of(projected), atol=ROUNDED
    )
    spoken = fairspan.calibrate(model, "plain", correction=fit_of(model, corpus, "lir"))
    for use in (
        spoken.encode,
        DirectEncoder,
        lambda model: fairspan.embed(spoken, corpus, tmp_path, progress=False),
    ):
        with pytest.raises(
            FairspanError, match=r"^lir needs .* encode_document\(texts, language='de'\)\.$"
        ):
            use(TEXTS if use == spoken.encode else spoken)
    with pytest.raises(
        UnsupportedModel, match="uses the correction lir, which needs the language of each text"
    ):
        fairspan.export(spoken, tmp_path / "spoken")


@pytest.mark.slow
def test_a_graph_has_the_subspace(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    model = make_tiny("bert", "mean", normalize=True)
    fair = fairspan.calibrate(
        model, "tiles", correction=fit_of(model, corpus, "subspace", calibration="tiles")
    )
    fairspan.export(fair, tmp_path / "x")
    assert_same(tmp_path / "x", fair)


def test_a_new_fit_takes_the_place_of_the_old(make_tiny: Make, corpus: str) -> None:
    model = make_tiny("bert", "mean")
    fits = [fit_of(model, corpus, method) for method in METHODS]
    once = fairspan.calibrate(model, "plain", correction=fits[0])
    twice = fairspan.calibrate(once, "plain", correction=fits[1])
    alone = fairspan.calibrate(model, "plain", correction=fits[1])
    assert np.array_equal(vectors_of(twice, language="de"), vectors_of(alone, language="de"))
    with pytest.raises(UnsupportedModel, match="already has a language correction"):
        fit_of(once, corpus, "lir")


def test_a_fit_under_another_calibration_is_warned_of(make_tiny: Make, corpus: str) -> None:
    model = make_tiny("bert", "mean")
    fit = fit_of(model, corpus, "subspace")
    with pytest.warns(UserWarning, match="was fitted under another calibration"):
        fairspan.calibrate(model, "tiles", correction=fit)
    fairspan.calibrate(
        model, "tiles", correction=fit_of(fairspan.calibrate(model, "tiles"), corpus, "subspace")
    )


def test_what_a_fit_refuses(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    model = make_tiny("bert", "mean")
    few = tmp_path / "few"
    few.mkdir()
    for language in ("en", "de"):
        lines = (Path(corpus) / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()[:19]
        (few / f"{language}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    cases: list[tuple[str, str, dict[str, Any], type[Exception], str]] = [
        (
            corpus,
            "centre",
            {},
            DesignError,
            "correction must be one of subspace, lir, or as in subspace-3",
        ),
        (
            corpus,
            "lir",
            {"languages": ["en"]},
            CorpusError,
            "needs at least two languages to be fitted on",
        ),
        (corpus, "lir", {"languages": ["en", "fr"]}, CorpusError, "has no language 'fr'"),
        (
            corpus,
            "subspace-3",
            {},
            DesignError,
            "would remove 3 directions, and there are 2 at most",
        ),
        (
            corpus,
            "lir-30",
            {},
            DesignError,
            "lir-30 would remove 30 directions, and there are 29 at most",
        ),
        (
            str(few),
            "lir",
            {},
            CorpusError,
            "lir needs 20 texts that all of de, en have, and few has 19",
        ),
    ]
    for place, method, options, kind, said in cases:
        assert said in said_by(fit_of, model, place, method, **options, kind=kind)


def test_a_foreign_fit_is_refused(make_tiny: Make, corpus: str) -> None:
    model, other = make_tiny("bert", "mean"), make_tiny("bert", "cls")
    fit = fit_of(model, corpus, "subspace")
    with pytest.raises(
        UnsupportedModel, match=r"was fitted on another model, .*: fit it on this one"
    ):
        fairspan.calibrate(other, "plain", correction=fit)
    with pytest.raises(
        UnsupportedModel, match=r"takes what fairspan.fit_correction returns, got str"
    ):
        fairspan.calibrate(model, "plain", correction="subspace")  # type: ignore[arg-type]
    cut = SentenceTransformer(modules=list(model.children()), truncate_dim=8, device="cpu")
    with pytest.raises(UnsupportedModel, match="truncate_dim=8 would truncate the vectors"):
        fairspan.calibrate(cut, "plain", correction=fit)


@pytest.mark.parametrize(
    "fault", ["cut", "missing", "foreign", "shape", "nan", "method", "no config"]
)
def test_damaged_files_are_one_line(
    make_tiny: Make, corpus: str, tmp_path: Path, fault: str
) -> None:
    model = make_tiny("bert", "mean")
    fairspan.calibrate(model, "plain", correction=fit_of(model, corpus, "lir")).save_pretrained(
        str(tmp_path)
    )
    (folder,) = (one for one in tmp_path.iterdir() if "LanguageCorrection" in one.name)
    file, config = folder / "model.safetensors", folder / "config.json"
    directions = load_file(file)["directions"]
    match fault:
        case "cut":
            file.write_bytes(file.read_bytes()[:-20])
        case "missing":
            file.unlink()
        case "foreign":
            save_file({"weight": directions}, file)
        case "shape":
            save_file({"directions": directions[:2].contiguous()}, file)
        case "nan":
            save_file({"directions": torch.full_like(directions, torch.nan)}, file)
        case "method":
            config.write_text(
                config.read_text(encoding="utf-8").replace('"lir"', '"mean"'), encoding="utf-8"
            )
        case _:
            config.write_text("{}", encoding="utf-8")
    assert "LanguageCorrection holds no language correction" in said_by(
        fairspan.load, tmp_path, device="cpu", kind=UnsupportedModel
    )


def test_calibrate_on_the_command_line(
    make_tiny: Make, corpus: str, tmp_path: Path, run: Run
) -> None:
    """What it writes is what Python makes."""
    model = make_tiny("bert", "mean", normalize=True)
    model.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    asked = ["calibrate", tmp_path / "model", "out", "--preset", "tiles"]
    done = run(*asked, "--correction", "subspace", "--fit-corpus", corpus, "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)["correction"]
    assert (said["method"], said["texts"]) == ("subspace", 30)
    made = fairspan.calibrate(
        model, "tiles", correction=fit_of(model, corpus, "subspace", calibration="tiles")
    )
    assert vectors_of(fairspan.load(tmp_path / "out", device="cpu")) == pytest.approx(
        vectors_of(made), abs=ROUNDED
    )
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(Path(corpus) / "en.jsonl", alone)
    for given, message in (
        (["--correction", "lir"], "correction and fit_corpus belong together"),
        (["--correction", "mean", "--fit-corpus", corpus], "must be one of subspace, lir"),
        (["--correction", "lir", "--fit-corpus", str(alone)], "needs at least two languages"),
    ):
        run("calibrate", tmp_path / "model", "other", *given).is_one_line(message)
        assert not (tmp_path / "other").exists()
