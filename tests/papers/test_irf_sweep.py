"""The grid of basket sizes and layers: spread and fidelity by hand, and what is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
import irf_sweep
from tests.builders.tiny import words
from tests.corpus.test_corpus import write_folder
from tests.papers.conftest import Script, refused

GRID = ("--sizes", "3", "--sets", "4", "--baskets", "4", "--layers", "1,last_half")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    texts = {f"a{number}": words(10, seed=number) for number in range(12)}
    return write_folder(tmp_path / "corpus", {"en": texts})


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of texts of each call that encodes."""
    encoded: list[int] = []
    encode = SentenceTransformer.encode_document

    def counted(self: Any, texts: Any, *rest: Any, **options: Any) -> Any:
        encoded.append(len(texts))
        return encode(self, texts, *rest, **options)

    monkeypatch.setattr(SentenceTransformer, "encode_document", counted)
    return encoded


def test_a_sweep_by_hand(
    script: Script, save_tiny: Callable[..., Path], corpus: Path, tmp_path: Path
) -> None:
    """Of a decoder: every number from vectors of single texts."""
    folder, out = save_tiny("qwen3", "lasttoken"), tmp_path / "out"
    said = script(irf_sweep, folder, "--corpus", corpus, *GRID, "--out", out).ok
    sweep = pl.read_csv(out / "sweep.csv")
    pairs = sweep.select("basket_size", "layers").rows()
    assert pairs == [(None, None), (4, "1"), (4, "last_half")]
    plain = fairspan.load(folder)
    texts = {part.id: part.text for part in fairspan.Corpus.read(str(corpus)).segments}
    rows = fairspan.read_log(out / "run-4-1").rows
    rows = rows.filter(measure="representation", treatment="plain").sort("document", "position")
    documents = rows.group_by("document", maintain_order=True).agg("segment")["segment"].to_list()
    assert len(documents) == 12
    for row in sweep.iter_rows(named=True):
        model = plain
        if row["layers"] is not None:
            layers = 1 if row["layers"] == "1" else row["layers"]
            model = fairspan.calibrate(
                plain, "paper", basket_size=row["basket_size"], layers=layers
            )
        alone = {id: unit(model.encode_document(text)) for id, text in texts.items()}
        cosines, kept = [], []
        for segments in documents:
            text = " ".join(texts[id] for id in segments)
            vector = unit(model.encode_document(text))
            cosines.append([vector @ alone[id] for id in segments])
            kept.append(vector @ unit(plain.encode_document(text)))
        means = np.mean(cosines, axis=0)
        assert row["first"] == pytest.approx(means[0], abs=1e-5)
        assert row["later"] == pytest.approx(means[1:].mean(), abs=1e-5)
        assert row["spread"] == pytest.approx(np.ptp(means), abs=2e-5)
        if model is plain:
            assert (row["fidelity"], row["time_ratio"]) == (None, pytest.approx(1))
        else:
            assert row["fidelity"] == pytest.approx(np.mean(kept), abs=1e-5)
            assert row["fidelity"] < 0.9999
            assert row["time_ratio"] > 0
    assert (out / "sweep.png").stat().st_size > 1000
    assert "last_half" in said.out


def unit(vector: np.ndarray) -> np.ndarray:
    wide = vector.astype(np.float64)
    return wide / np.linalg.norm(wide)


@pytest.mark.slow
def test_a_finished_sweep_is_read(
    script: Script, model: Path, corpus: Path, tmp_path: Path, calls: list[int]
) -> None:
    """Vectors and timings; a larger grid measures what is new."""
    out = tmp_path / "out"
    typed = (model, "--corpus", corpus, *GRID, "--out", out)
    assert script(irf_sweep, *typed, "--rounds", "1").ok
    first = (out / "sweep.csv").read_bytes()
    # Three treatments, once to warm up and once timed, of eight documents.
    assert calls.count(8) == 2 * 3
    del calls[:]
    assert script(irf_sweep, *typed, "--rounds", "1").ok
    assert (out / "sweep.csv").read_bytes() == first
    assert calls.count(8) == 0
    assert script(irf_sweep, *typed, "--rounds", "1", "--baskets", "4,8").ok
    assert calls.count(8) == 2 * 2
    assert len(json.loads((out / "seconds.json").read_text())) == 5
    sweep = pl.read_csv(out / "sweep.csv")
    pairs = [(size, layers) for size in (4, 8) for layers in ("1", "last_half")]
    assert sweep.select("basket_size", "layers").rows() == [(None, None), *pairs]
    assert script(irf_sweep, *typed, "--rounds", "0").ok
    assert pl.read_csv(out / "sweep.csv")["time_ratio"].null_count() == 3


def test_documents_are_timed_at_their_length(model: Path, corpus: Path, tmp_path: Path) -> None:
    asked: Any = {"corpus": corpus, "treatments": ["plain"], "progress": False}
    log = fairspan.audit(str(model), **asked, sizes=[3], sets=4, opening=4, out=tmp_path / "out")
    texts = irf_sweep.documents_of(log, str(corpus))
    assert [len(text.split()) for text in texts] == [12] * 8


def test_bad_input_is_one_line(script: Script, model: Path, corpus: Path, tmp_path: Path) -> None:
    for options, reason in (
        (["--baskets", "4,many"], "invalid literal"),
        (["--layers", "9"], "layers=9 asks for more than the model's 4 layers"),
    ):
        typed = ("--corpus", corpus, "--out", tmp_path / "out", *options)
        refused(script(irf_sweep, model, *typed), reason)
