"""The map of vectors by length: distances by hand, sets of one corpus and of several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fairspan
import lc_map
from tests.builders.verbs import article
from tests.corpus.test_corpus import write
from tests.papers.conftest import Script, refused

pytest.importorskip("sklearn")


def corpus(file: Path, count: int, sentences: int) -> Path:
    """Sentences of five tokens."""
    write(file, [{"id": f"a{n}", "text": article(n, sentences)} for n in range(count)])
    return file


def test_several_corpora_are_read_whole(script: Script, model: Path, tmp_path: Path) -> None:
    """Distances of unit vectors to the mean of all, and of the map to its own mean."""
    files = [corpus(tmp_path / f"{name}.jsonl", 9, size) for name, size in (("a", 12), ("b", 2))]
    typed = (",".join(map(str, files)), "--texts", "8", "--out", tmp_path / "out")
    said = script(lc_map, model, *typed).ok
    distances = pl.read_csv(tmp_path / "out" / "distances.csv")
    points = pl.read_csv(tmp_path / "out" / "map.csv")
    assert distances["set"].to_list() == list(map(str, files))
    assert distances["texts"].to_list() == [8, 8]
    assert distances["tokens"].to_list() == [60, 10]
    plain = fairspan.load(model)
    texts = [article(n, size) for size in (12, 2) for n in range(8)]
    vectors = plain.encode_document(texts, normalize_embeddings=True).astype(np.float64)
    by_hand = np.linalg.norm(vectors - vectors.mean(0), axis=1).reshape(2, 8).mean(1)
    assert distances["vectors"].to_list() == pytest.approx(by_hand.tolist(), abs=1e-5)
    on_map = points.select("x", "y").to_numpy()
    assert on_map.mean(0) == pytest.approx([0, 0], abs=1e-4)
    by_hand = np.linalg.norm(on_map, axis=1).reshape(2, 8).mean(1)
    assert distances["map"].to_list() == pytest.approx(by_hand.tolist(), rel=1e-6)
    assert np.ptp(by_hand) > 0, "the premise"
    assert points.group_by("set").len()["len"].to_list() == [8, 8]
    assert (tmp_path / "out" / "map.png").stat().st_size > 1000
    assert f"{distances['vectors'][0]:.3f}".rstrip("0") in said.out


def test_one_corpus_is_cut(script: Script, model: Path, tmp_path: Path) -> None:
    file = corpus(tmp_path / "a.jsonl", 6, 12)
    assert script(lc_map, model, file, "--lengths", "40,10", "--out", tmp_path / "out").ok
    distances = pl.read_csv(tmp_path / "out" / "distances.csv")
    assert distances["set"].to_list() == ["10 tokens", "40 tokens"]
    assert distances["tokens"].to_list() == [10, pytest.approx(40, rel=0.2)]
    short, long = pl.read_csv(tmp_path / "out" / "map.csv").partition_by("set")
    assert short["document"].to_list() == long["document"].to_list()


def test_bad_input_is_one_line(script: Script, model: Path, tmp_path: Path) -> None:
    few = corpus(tmp_path / "few.jsonl", 2, 12)
    for typed, reason in (
        ([few, "--lengths", "10,20"], "4 texts are too few for a map"),
        ([few, "--lengths", "0"], "lengths are numbers of tokens from 1, got 0"),
    ):
        refused(script(lc_map, model, *typed, "--out", tmp_path / "out"), reason)
