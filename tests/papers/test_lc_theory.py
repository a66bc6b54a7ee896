"""Spectra by length: means over texts by hand, LC's bounds, raw word embeddings, repeated words."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from sentence_transformers import SentenceTransformer

import fairspan
import lc_theory
from fairspan.attention.plan import LayerInputs
from fairspan.attention.spectrum import sigma_a, signal_norms, value_norms
from fairspan.encoding.spectra import spectra
from fairspan.encoding.tokens import ModelTokens
from tests.attention.spectrum_by_matrices import matrices
from tests.builders.tiny import SPECIAL, WORDS, words
from tests.corpus.test_corpus import write
from tests.papers.conftest import Script, refused
from tests.stats.test_geometry import pairs_mean, unit

Make = Callable[..., SentenceTransformer]

# Three texts of 5 to 15 tokens, four of 25 to 35 and one of 42.
SIZES = [5, 9, 15, 25, 27, 31, 35, 42]
TEXTS = [words(size, seed=size) for size in SIZES]
IN_BINS = {0: TEXTS[:3], 20: TEXTS[3:7], 40: TEXTS[7:]}
TYPED = ["--bin", "20", "--temperatures", "0.5,1"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write(tmp_path / "corpus.jsonl", [{"text": text} for text in TEXTS])


def written(folder: Path) -> dict[tuple[Any, ...], float]:
    """theory.csv by measure, temperature, length and layer."""
    return {row[:4]: row[5] for row in pl.read_csv(folder / "theory.csv").rows()}


def rows_of_words(model: SentenceTransformer, text: str) -> np.ndarray:
    """The raw embedding of each word."""
    matrix = model.transformers_model.get_input_embeddings().weight.detach().double().numpy()
    return np.stack([matrix[len(SPECIAL) + WORDS.index(word)] for word in text.split()])


def test_means_of_each_length_by_hand(
    script: Script, model: Path, corpus: Path, tmp_path: Path
) -> None:
    """σ_a by numpy's SVD of whole matrices, the filter rate from the hidden states.

    One word a token: means of word embeddings, of which a bin of one text has no pairs, and cosines
    of repetitions up to the window. The tiny vocabulary has no dogs.
    """
    typed = [*TYPED, "--max-seq-length", "50", "--out", tmp_path / "out"]
    said = script(lc_theory, model, corpus, *typed).ok
    values = written(tmp_path / "out")
    plain = fairspan.load(model)
    for temperature in (0.5, 1.0):
        treated = fairspan.calibrate(plain, "tempscale", temperature=temperature)
        for length, texts in IN_BINS.items():
            layers = [[layer.sigma_a.mean() for layer in text] for text in matrices(treated, texts)]
            for layer, by_hand in enumerate(np.mean(layers, axis=0), start=1):
                key = (temperature, length, layer)
                assert values["sigma_a", *key] == pytest.approx(by_hand, rel=1e-5)
                assert values["filter_rate", *key] <= values["theorem_2", *key]
    for length, texts in IN_BINS.items():
        for layer in (1, 4):
            by_hand = np.mean([rate(plain, text, layer) for text in texts])
            assert values["filter_rate", 1.0, length, layer] == pytest.approx(by_hand, abs=1e-4)
    assert (values["sigma_a", 0.5, 0, 4] - values["sigma_a", 1.0, 0, 4]) ** 2 > 1e-6, "the premise"
    assert {key[3] for key in values if key[0] == "hc_dc"} == {0, 1, 2, 3, 4}
    assert (tmp_path / "out" / "theory.png").stat().st_size > 1000
    assert f"{values['sigma_a', 0.5, 20, 4]:.3f}" in said.out
    for length in (0, 20):
        means = [rows_of_words(plain, text).mean(axis=0) for text in IN_BINS[length]]
        assert values["words", None, length, None] == pytest.approx(pairs_mean(means), abs=1e-6)
    assert ("words", None, 40, None) not in values
    repeated = [key[2] for key in values if key[:2] == ("repeated", 1.0)]
    assert repeated == [1, 2, 4, 8, 16, 32]
    assert [values[key] for key in values if key[0] == "repeated"] == pytest.approx([1] * 12)


def rate(model: SentenceTransformer, text: str, layer: int) -> float:
    """log ‖HC[X_l]‖/‖HC[X_{l−1}]‖ from what transformers shows."""
    features = model.tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        states = model.transformers_model(**features, output_hidden_states=True).hidden_states
    signals = [states[number][0].double().numpy() for number in (layer - 1, layer)]
    before, after = (np.linalg.norm(signal - signal.mean(0)) for signal in signals)
    return float(np.log(after / before))


def test_repeated_words_by_hand(minilm: SentenceTransformer) -> None:
    rows = lc_theory.repeated_rows(minilm, ModelTokens(minilm), 1.0)
    assert [row[2] for row in rows] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    pair = unit(np.stack([minilm.encode(" ".join([word] * 8)) for word in ("dog", "cat")]))
    assert rows[3][5] == pytest.approx(float(pair[0] @ pair[1]), abs=1e-5)


# Bounds


@pytest.mark.parametrize("seed", range(2))
def test_theorem_2_bounds_what_the_heads_make_of_the_signals(seed: int) -> None:
    """‖HC[[A_1 X W_1 … A_H X W_H]]‖_F ≤ σ_a σ_1 H ‖HC[X]‖_F, and not by far."""
    generator = torch.Generator().manual_seed(seed)
    heads, length, d = 3, 80, 12
    query, key = (torch.randn(1, heads, length, 16, generator=generator) for _ in range(2))
    attention = LayerInputs(0, query, key, key, 0.25, None, None, False, None)
    weights = (query[0] @ key[0].transpose(1, 2) * 0.25).double().softmax(dim=-1)
    value = torch.randn(heads, 4, d, generator=generator, dtype=torch.float64)
    x = torch.randn(length, d, generator=generator, dtype=torch.float64) + 3
    out = torch.cat(list(weights @ x @ value.transpose(1, 2)), dim=-1)
    spectrum: Any = type("", (), {})()
    spectrum.sigma_a_of_heads = sigma_a(attention).numpy()[None]
    spectrum.value_norms = value_norms(value).numpy()[None]
    bound = lc_theory.theorem_2(spectrum).item()
    assert bound - 5 < math.log(signal_norms(out)[0] / signal_norms(x)[0]) <= bound


def test_theorem_3_by_hand() -> None:
    """At L = 2 and σ_s = 0: √(2 / (2√2 + 1)). At L = 5 and large σ_s: √(5 / (2·8 + 1))."""
    bound = lc_theory.sigma_a_bound
    assert bound(2, 0).item() == pytest.approx(math.sqrt(2 / (2 * math.sqrt(2) + 1)))
    assert bound(5, 9.0).item() == pytest.approx(math.sqrt(5 / 17))
    between = math.sqrt(10 / (2 * math.sqrt(1 + math.exp(-2 * 0.7**2)) * 9**1.5 + 1))
    assert bound(10, 0.7).item() == pytest.approx(between)


def test_unknown_value_weights_leave_theorem_2_out(make_tiny: Make) -> None:
    (spectrum,) = spectra(make_tiny("bert", "mean"), ["w1 w2"])
    object.__setattr__(spectrum, "value_norms", None)
    assert np.isnan(lc_theory.theorem_2(spectrum)).all()
    rows = lc_theory.layer_rows(lc_theory.by_layer(spectrum)[None], 1.0, 0)
    assert {row[0] for row in rows} == {"filter_rate", "sigma_a", "theorem_3", "hc_dc"}


# Raw word embeddings


@pytest.mark.parametrize("architecture", ["bert", "gemma3_text", "mpnet", "t5"])
def test_means_of_the_words_own_rows(make_tiny: Make, architecture: str) -> None:
    """Texts of unequal length, and neither <s>, </s>, <pad> nor a prompt among the rows.

    Gemma's table multiplies its rows by √d, so that directions are compared.
    """
    model = make_tiny(architecture, "mean")
    texts = [words(3), words(40, seed=1), "w5", "w5 w5 w5 w6"]
    for row, text in zip(lc_theory.word_means(model, texts), texts, strict=True):
        expected = rows_of_words(model, text).mean(axis=0)
        scale = np.linalg.norm(row) / np.linalg.norm(expected)
        # The rows are float32: their sums of up to 40 agree to about 1e-7.
        np.testing.assert_allclose(row, expected * scale, rtol=1e-5, atol=1e-6)
        assert scale == pytest.approx(32**0.5 if architecture == "gemma3_text" else 1, rel=1e-3)


def test_bad_input_is_one_line(script: Script, model: Path, corpus: Path, tmp_path: Path) -> None:
    for typed, reason in (
        ([corpus, "--bin", "0"], "bin must be a whole number of at least 1, got 0"),
        ([corpus, "--texts", "0"], "texts must be a whole number of at least 1, got 0"),
    ):
        refused(script(lc_theory, model, *typed, "--out", tmp_path / "out"), reason)
