"""Spectra of token signals and attention, against numpy's SVD of whole matrices and against LC's formulas by hand."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Router, StaticEmbedding
from torch import Tensor, nn
from transformers import AttentionInterface, BertModel

import fairspan
from fairspan.attention import spectrum
from fairspan.attention.interface import NAME, attention
from fairspan.attention.layers import count_layers, route_attention
from fairspan.attention.probes import find_signals, find_value_weights
from fairspan.attention.spectrum import (
    TextAttention,
    sigma_a,
    sigma_s,
    signal_norms,
    value_norms,
)
from fairspan.encoding.spectra import Spectrum, spectra
from fairspan.errors import CalibrationError, UnsupportedModel
from fairspan.stats.theorems import theorem_2_bound, theorem_3_bound
from tests.spectrum_by_matrices import Matrices, matrices
from tests.test_attention_profile import LargestTensor, eager
from tests.tiny import ARCHITECTURES, HEADS, HIDDEN, LAYERS, mostly_slow, tiny_model, tiny_tokenizer, words

Make = Callable[..., SentenceTransformer]

# One batch, padded: a text that is searched for σ_a, and texts whose whole space is, of 32 and 3 and 2 tokens.
TEXTS = [words(70, seed=1), words(30, seed=2), words(1, seed=4), ""]
# Every architecture, and those whose masks differ also with padding on the other side.
PADDED = [
    *(("bert", "right"), ("mpnet", "right"), ("qwen3", "left")),
    *(
        pytest.param(*one, marks=pytest.mark.slow)
        for one in [
            *((name, "right") for name in ARCHITECTURES if name not in ("bert", "mpnet")),
            *((name, "left") for name in ("bert", "roberta", "modernbert", "mistral", "t5", "mpnet")),
        ]
    ),
]


def all_layers(model: SentenceTransformer, texts: list[Any], **options: Any) -> list[Spectrum]:
    return list(spectra(model, texts, layers="all", **options))


def assert_agree(found: list[Spectrum], expected: list[list[Matrices]], tolerance: float = 1e-6) -> None:
    """Float64 on both sides, of the same queries and keys: what is off is the residual, 1e-6 at most."""
    for one, layers in zip(found, expected, strict=True):
        assert one.tokens == layers[0].weights.shape[-1]
        assert one.converged
        assert one.sigma_a_of_heads == pytest.approx(np.stack([layer.sigma_a for layer in layers]), rel=tolerance)
        assert one.sigma_s_of_heads == pytest.approx(np.stack([layer.sigma_s for layer in layers]), rel=tolerance)


# σ_a and σ_s


@pytest.mark.parametrize(("architecture", "padding_side"), PADDED)
def test_plain_models_agree_with_the_svd(make_tiny: Make, architecture: str, padding_side: str) -> None:
    """Causal, windowed, grouped and biased attention among them; the shortest text, all but padding, comes first."""
    model = make_tiny(architecture, "mean", padding_side=padding_side)
    assert_agree(all_layers(model, TEXTS[::-1]), matrices(model, TEXTS[::-1]))


@pytest.mark.parametrize("temperature", [0.5, [(20, 0.9), (50, 0.5)]])
@pytest.mark.parametrize("architecture", ["bert", "modernbert", "qwen3", "t5", "mpnet"])
@pytest.mark.slow
def test_temperatures(make_tiny: Make, architecture: str, temperature: Any) -> None:
    """Also one that depends on the length, in one batch, and one that divides T5's position bias too."""
    model = make_tiny(architecture, "mean")
    scaled = fairspan.calibrate(model, "tempscale", temperature=temperature, scale_position_bias=architecture == "t5")
    found = all_layers(scaled, TEXTS)
    assert_agree(found, matrices(scaled, TEXTS))
    assert not any(one.calibrated.any() for one in found)
    plain = all_layers(model, TEXTS[:1])[0]
    divisor = 0.5 if isinstance(temperature, list) else temperature
    assert found[0].sigma_s_of_heads[0] == pytest.approx(plain.sigma_s_of_heads[0] / divisor, rel=1e-6)


@pytest.mark.parametrize(
    ("architecture", "padding_side"), [("bert", "left"), ("qwen3", "left"), ("mistral", "right"), ("t5", "right")]
)
@pytest.mark.parametrize(
    "settings",
    [
        {"basket_size": 7, "rows": "all", "layers": "all"},
        {"basket_size": 7, "rows": "pooling", "strength": 0.5, "bos": "original", "eos": 0.2, "temperature": 0.8},
        {"basket_size": 16, "rows": "all", "short_texts": "ramp", "layers": [1, 3]},
    ],
)
@pytest.mark.slow
def test_baskets(make_tiny: Make, architecture: str, padding_side: str, settings: dict[str, Any]) -> None:
    """σ_a of the calibrated matrix, where only the pooled row or every row is calibrated."""
    fair = fairspan.calibrate(make_tiny(architecture, "lasttoken", padding_side=padding_side), **settings)
    found = all_layers(fair, TEXTS)
    assert_agree(found, matrices(fair, TEXTS))
    calibrated = fair[0].calibration.layer_numbers(LAYERS)
    for one in found:
        assert set(np.flatnonzero(one.calibrated)) == calibrated
        assert np.array_equal(np.isnan(one.theorem_3), one.calibrated)


@pytest.mark.parametrize(
    "settings",
    [
        {"tile_size": 7},
        {"tile_size": 16, "tile_layers": 2, "tile_reach": 1, "temperature": [(20, 0.9), (50, 0.5)]},
        pytest.param({"tile_size": 7, "rows": "pooling", "strength": 0.5, "layers": "all"}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("architecture", mostly_slow(["mistral", "bert", "modernbert", "t5", "mpnet"], ["mistral"]))
def test_tiles(make_tiny: Make, architecture: str, settings: dict[str, Any]) -> None:
    """σ_a and σ_s of what tokens see in tiles. In float64, in which the engine and the matrices have the same queries
    and keys, but for norms that some models take in float32.
    """
    model = copy.deepcopy(make_tiny(architecture, "lasttoken", padding_side="left")).double()
    fair = fairspan.calibrate(model, **settings)
    texts = [*TEXTS, fairspan.SegmentedText([words(3), words(20, seed=1)])]
    assert_agree(all_layers(fair, texts), matrices(fair, texts), tolerance=3e-6)
    plain = all_layers(model, texts)
    assert plain[0].sigma_a[0] != pytest.approx(all_layers(fair, texts)[0].sigma_a[0], rel=1e-3)


def test_segments_are_baskets(make_tiny: Make) -> None:
    fair = fairspan.calibrate(make_tiny("bert", "mean"))
    texts = [fairspan.SegmentedText([words(count, seed=count) for count in (3, 70)]), words(40)]
    assert_agree(all_layers(fair, texts), matrices(fair, texts))
    plain = all_layers(fair, [str(text) for text in texts])
    assert plain[0].sigma_a[-1] != pytest.approx(all_layers(fair, texts)[0].sigma_a[-1], rel=1e-3)


@pytest.mark.parametrize("architecture", ["bert", "qwen3", "t5"])
def test_without_padding(make_tiny: Make, architecture: str) -> None:
    """One text alone has no mask: a causal model then hides later keys by a flag."""
    model = make_tiny(architecture, "mean")
    assert_agree(all_layers(model, TEXTS[:1]), matrices(model, TEXTS[:1]))


@pytest.mark.parametrize("architecture", ["bert", "mistral"])
def test_one_token(make_tiny: Make, architecture: str) -> None:
    """(I − 1)·1 = 0: nothing is left of one token's attention, nor of its signals."""
    model = copy.deepcopy(make_tiny(architecture, "mean"))
    model.tokenizer.backend_tokenizer.post_processor = None
    one, _ = all_layers(model, ["w1", words(5)])
    assert one.tokens == 1
    assert one.converged
    assert not one.sigma_a_of_heads.any()
    assert not one.sigma_s_of_heads.any()
    assert not one.hc.any()
    assert np.isnan(one.filter_rate).all()
    assert (one.theorem_3 == 1).all()


@pytest.mark.parametrize("architecture", ["bert", "roberta", "modernbert", "qwen3", "mistral", "t5", "mpnet"])
def test_eager_attention_has_the_same_spectrum(make_tiny: Make, architecture: str) -> None:
    """Of transformers' own float32 weights. A weight that went through four layers is off by a hundred roundings at
    most, so A by that share of ‖A‖_F ≤ √L, since rows sum to 1, and σ_a by no more than A (Weyl).
    """
    model = make_tiny(architecture, "mean")
    weights, valid = eager(model, TEXTS)
    for one, layers, real in zip(all_layers(model, TEXTS), weights.double(), valid.bool(), strict=True):
        for layer, heads in enumerate(layers):
            own = heads[:, real][:, :, real].numpy()
            off = 100 * 2.0**-24 * math.sqrt(own.shape[-1])
            assert one.sigma_a_of_heads[layer] == pytest.approx(Matrices(own, own).sigma_a, abs=off)


def test_real_weights(minilm: SentenceTransformer) -> None:
    """all-MiniLM-L6-v2: its heads range from nearly uniform to nearly one key a row."""
    texts = ["The Danube rises in the Black Forest and flows through ten countries. " * 6]
    for model in (minilm, fairspan.calibrate(minilm, "tempscale", temperature=0.5)):
        assert_agree(all_layers(model, texts), matrices(model, texts))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtypes(make_tiny: Make, dtype: torch.dtype) -> None:
    """Whatever the model computes in, the attention of its queries and keys is taken in float64."""
    model = fairspan.calibrate(make_tiny("bert", "mean"), "tempscale").to(dtype)
    found = all_layers(model, TEXTS)
    assert_agree(found, matrices(model, TEXTS))
    assert all(one.value_norms is not None for one in found)


@pytest.mark.parametrize(
    ("architecture", "pooling"), [("modernbert", "mean"), ("qwen3", "mean"), ("qwen3", "lasttoken"), ("t5", "mean")]
)
def test_batches_and_blocks_do_not_show(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch, architecture: str, pooling: str
) -> None:
    """Blocks of a few rows of one head, recomputed for each pass, give what a kept matrix gives.

    One text alone takes other kernels of SDPA than a padded batch. In float64 their rounding, 1e-16 in each of some
    hundred sums, stays below the residual that ends each search, 1e-6.
    """
    fair = fairspan.calibrate(copy.deepcopy(make_tiny(architecture, pooling)).double(), basket_size=16)
    together = all_layers(fair, TEXTS)
    monkeypatch.setattr(spectrum, "_WEIGHTS_AT_A_TIME", 1000)
    for one, other in zip(all_layers(fair, TEXTS, batch_tokens=1), together, strict=True):
        assert one.sigma_a_of_heads == pytest.approx(other.sigma_a_of_heads, rel=1e-6)
        assert one.sigma_s_of_heads == pytest.approx(other.sigma_s_of_heads, rel=1e-12)


def test_chosen_layers(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean")
    whole = all_layers(model, TEXTS[:1])[0]
    for layers, numbers in (("last", [3]), (2, [2, 3]), ([0, 2], [0, 2]), (None, [])):
        (one,) = spectra(model, TEXTS[:1], layers=layers)  # type: ignore[arg-type]
        asked = np.isin(np.arange(LAYERS), numbers)
        assert np.array_equal(one.sigma_a[asked], whole.sigma_a[asked])
        assert np.isnan(one.sigma_a[~asked]).all()
        assert np.isnan(one.residual_of_heads[~asked]).all()
        assert np.array_equal(one.sigma_s, whole.sigma_s)
        assert np.array_equal(one.hc, whole.hc)
        assert one.converged


# The search for σ_a


def head_of(weights: Tensor) -> TextAttention:
    """An attention of one head with these weights [L, L]: the logarithms as position bias on queries of 0."""
    zeros = torch.zeros(1, len(weights), 1)
    return TextAttention(zeros, zeros, 1.0, position_bias=weights.double().log()[None])


def test_a_flat_spectrum() -> None:
    """Tokens that look at themselves alone: all singular values of I − 11ᵀ/L are 1, but one."""
    found = sigma_a(head_of(torch.eye(300)))
    assert found.value.item() == pytest.approx(1, rel=1e-12)
    assert found.residual.item() <= 1e-6


@pytest.mark.parametrize("scale", [1e-1, 1e-4, 1e-7])
def test_rows_that_are_all_but_alike(scale: float) -> None:
    """Every row looks at the first key but for a little: ‖A‖₂ = √L, and σ_a is smaller by orders of magnitude."""
    weights = torch.rand(300, 300, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * scale / 300
    weights[:, 0] += 1 - weights.sum(dim=1)
    exact = Matrices(weights[None].numpy(), weights[None].numpy()).sigma_a
    found = sigma_a(head_of(weights))
    assert found.value.numpy() == pytest.approx(exact, rel=1e-6)
    assert found.residual.item() <= 1e-6


def test_rows_that_are_alike() -> None:
    """A repeated word without positions: HC[A] = 0, and what rounding leaves is not searched for."""
    row = torch.rand(300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = sigma_a(head_of((row / row.sum()).repeat(300, 1)))
    assert found.value.item() <= 1e-12
    assert found.residual.item() <= 1e-6


def random_attention(length: int, heads: int = 2) -> TextAttention:
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(heads, length, 16, generator=generator) for _ in range(2))
    return TextAttention(query, key, 0.25)


def test_more_passes_than_directions_are_kept_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random matrix has no gap below its largest singular value: the search restarts, again and again."""
    weights = torch.rand(400, 400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = weights / weights.sum(dim=1, keepdim=True)
    passes: list[int] = []
    apply = spectrum._apply

    def count(blocks: Any, x: Tensor) -> Any:
        passes.append(x.shape[2])
        return apply(blocks, x)

    monkeypatch.setattr(spectrum, "_apply", count)
    found = sigma_a(head_of(weights), tolerance=1e-9)
    assert found.value.numpy() == pytest.approx(Matrices(weights[None].numpy(), weights.numpy()).sigma_a, rel=1e-9)
    assert sum(passes) > 3 * spectrum._MOST_DIRECTIONS


def test_an_unfinished_search_says_so(make_tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_tiny("bert", "mean")
    exact = all_layers(model, TEXTS[:1])[0]
    assert exact.converged
    monkeypatch.setattr(spectrum, "_MOST_PASSES", 2)
    rough = all_layers(model, TEXTS[:1])[0]
    assert not rough.converged
    assert (rough.residual_of_heads > 1e-6).any()
    off = 1 - rough.sigma_a_of_heads / exact.sigma_a_of_heads
    assert (off > -1e-9).all()
    assert off.max() > 1e-9


def test_the_tolerance_is_kept(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean")
    exact = np.stack([layer.sigma_a for layer in matrices(model, TEXTS[:1])[0]])
    largest = []
    for tolerance in (1e-1, 1e-3, 1e-9):
        one = all_layers(model, TEXTS[:1], tolerance=tolerance)[0]
        assert one.converged
        assert np.abs(one.sigma_a_of_heads / exact - 1).max() <= tolerance
        largest.append(one.residual_of_heads.max())
    assert largest[0] > 1e-3 > largest[1] > 1e-9


@pytest.mark.parametrize("calibrated", [False, True])
def test_no_tensor_grows_with_the_square_of_the_length(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch, calibrated: bool
) -> None:
    """A text of 2048 tokens: no tensor has more than an eighth of L×L elements, all heads together."""
    monkeypatch.setattr(torch, "inference_mode", torch.no_grad)  # under which every inner step can be seen
    length = 2048
    model = make_tiny("bert", "cls", max_position_embeddings=length)
    model.max_seq_length = length
    if calibrated:
        model = fairspan.calibrate(model, basket_size=128, strength=0.5)
    with LargestTensor() as largest:
        (one,) = spectra(model, [words(length - 2)], tolerance=1e-1)
    assert one.tokens == length
    assert 0 < largest.elements <= length**2 // 8


# Signals


def test_norms_by_hand() -> None:
    """The mean is (2, 2), and (−1, −2) and (1, 2) are left."""
    assert signal_norms(torch.tensor([[1.0, 0.0], [3.0, 4.0]])) == pytest.approx((math.sqrt(10), 4))


def test_norms_of_a_long_text() -> None:
    """A mean a thousand times what is left of the signals, which float32 sums would blur."""
    x = torch.randn(1000, 7, generator=torch.Generator().manual_seed(0)) + 1000
    exact = x.double().numpy()
    mean = exact.mean(axis=0)
    by_hand = np.linalg.norm(exact - mean), math.sqrt(1000) * np.linalg.norm(mean)
    assert signal_norms(x) == pytest.approx(by_hand, rel=1e-12)


def test_dc_is_the_zeroth_frequency() -> None:
    """LC §2.1: by the discrete Fourier transform over tokens, which keeps norms."""
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    frequencies = torch.fft.fft(x.double(), dim=0, norm="ortho")
    by_hand = frequencies[1:].norm().item(), frequencies[0].norm().item()
    assert signal_norms(x) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(("architecture", "padding_side"), PADDED)
@pytest.mark.slow
def test_norms_agree_with_output_hidden_states(make_tiny: Make, architecture: str, padding_side: str) -> None:
    """By numpy from the hidden states that the model itself returns, in float64: some hundred roundings of 1e-16."""
    model = copy.deepcopy(make_tiny(architecture, "mean", padding_side=padding_side)).double()
    features = model.preprocess(TEXTS)
    inputs = {name: features[name] for name in ("input_ids", "attention_mask")}
    with torch.inference_mode():
        states = copy.deepcopy(model[0].model)(**inputs, output_hidden_states=True).hidden_states
    for text, one in enumerate(spectra(model, TEXTS, layers=None)):
        real = features["attention_mask"][text].bool()
        signals = [state[text][real].double().numpy() for state in states]
        high = np.array([np.linalg.norm(x - x.mean(axis=0)) for x in signals])
        low = np.array([np.sqrt(len(x)) * np.linalg.norm(x.mean(axis=0)) for x in signals])
        assert len(one.hc) == LAYERS + 1
        assert one.hc == pytest.approx(high, rel=1e-12)
        assert one.dc == pytest.approx(low, rel=1e-12)
        assert one.ratio == pytest.approx(high / low, rel=1e-12)
        assert one.filter_rate == pytest.approx(np.log(high[1:] / high[:-1]), abs=1e-12)


def test_signals_that_are_written_to_later_are_not_taken(make_tiny: Make) -> None:
    """The embeddings' own LayerNorm gave something else; the sum that replaced it comes out of no module before."""
    model = copy.deepcopy(make_tiny("bert", "mean"))[0].model
    route_attention(model)
    model.embeddings.register_forward_hook(lambda module, args, output: output.mul_(2))
    signals = find_signals(model, LAYERS)
    assert signals[0].module is not model.embeddings.LayerNorm
    assert signals[1].module is model.encoder.layer[0].output.LayerNorm


class Silent(BertModel):
    """A model that shows no hidden states."""

    def forward(self, *args: Any, output_hidden_states: bool = False, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)


def test_models_that_show_no_hidden_states_are_refused(make_tiny: Make) -> None:
    model = copy.deepcopy(make_tiny("bert", "mean"))
    model[0].model.__class__ = Silent
    refused(model, "shows 0 hidden states")


# Bounds


def test_theorem_2_by_hand() -> None:
    """σ_a = (1 + 2)/2, σ_1 = 5, H = 2."""
    bound = theorem_2_bound([1.0, 2.0], [3.0, 5.0])
    assert bound.item() == pytest.approx(math.log(1.5 * 5 * 2))


@pytest.mark.parametrize("seed", range(5))
def test_theorem_2_bounds_what_the_heads_make_of_the_signals(seed: int) -> None:
    """‖HC[[A_1 X W_1 … A_H X W_H]]‖_F ≤ σ_a σ_1 H ‖HC[X]‖_F, and without the factor σ_a it would bound anything."""
    generator = torch.Generator().manual_seed(seed)
    heads, length, d = 3, 80, 12
    attention = random_attention(length, heads)
    weights = (attention.query @ attention.key.transpose(1, 2) * 0.25).double().softmax(dim=-1)
    value = torch.randn(heads, 4, d, generator=generator, dtype=torch.float64)
    x = torch.randn(length, d, generator=generator, dtype=torch.float64) + 3
    out = torch.cat(list(weights @ x @ value.transpose(1, 2)), dim=-1)
    rate = math.log(signal_norms(out)[0] / signal_norms(x)[0])
    bound = theorem_2_bound(sigma_a(attention).value, value_norms(value)).item()
    assert bound - 5 < rate <= bound


def test_theorem_3_by_hand() -> None:
    """At L = 2 and σ_s = 0: √(2 / (2√2 + 1)). At L = 5 and large σ_s: √(5 / (2·8 + 1))."""
    assert theorem_3_bound(2, 0).item() == pytest.approx(math.sqrt(2 / (2 * math.sqrt(2) + 1)))
    assert theorem_3_bound(5, 9.0).item() == pytest.approx(math.sqrt(5 / 17))
    between = math.sqrt(10 / (2 * math.sqrt(1 + math.exp(-2 * 0.7**2)) * 9**1.5 + 1))
    assert theorem_3_bound(10, 0.7).item() == pytest.approx(between)


def test_theorem_3_falls_with_length_and_rises_with_sigma_s() -> None:
    """LC §2.2; for long texts like L^(-1/4)."""
    lengths = np.arange(1, 5000)
    for sigma in (0.0, 0.5, 1.0, 3.0):
        bound = theorem_3_bound(lengths, sigma)
        assert bound[0] == 1
        assert (np.diff(bound) < 0).all()
    rising = theorem_3_bound(100, np.linspace(0, 3, 50))
    assert (np.diff(rising) > 0).all()
    ratio = theorem_3_bound(160_000, 1.0) / theorem_3_bound(10_000, 1.0)
    assert ratio.item() == pytest.approx(0.5, rel=1e-3)


def test_bounds_of_a_spectrum(make_tiny: Make) -> None:
    one = all_layers(make_tiny("qwen3", "lasttoken"), TEXTS)[0]
    assert one.value_norms is not None
    by_hand = np.log(one.sigma_a_of_heads.sum(axis=1) * one.value_norms.max(axis=1))
    assert one.theorem_2 == pytest.approx(by_hand)
    length, spread = one.tokens, one.sigma_s_of_heads
    of_heads = np.sqrt(length / (2 * np.sqrt(1 + np.exp(-2 * spread**2)) * (length - 1) ** 1.5 + 1))
    assert one.theorem_3 == pytest.approx(of_heads.mean(axis=1))


def test_sigma_s_of_gaussian_queries_and_keys() -> None:
    """LC Theorem 3's own setting: σ_s² = σ_q² σ_k² · D · scale², here 2² · 3² · 64 / 64."""
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(4, 2000, 64, generator=generator) * width for width in (2, 3))
    assert sigma_s(TextAttention(query, key, 1 / 8)).numpy() == pytest.approx([6] * 4, rel=0.02)


# Value weights

VALUES: dict[str, Callable[[nn.Module, int], Tensor]] = {
    "bert": lambda model, layer: model.encoder.layer[layer].attention.self.value.weight,
    "roberta": lambda model, layer: model.encoder.layer[layer].attention.self.value.weight,
    "distilbert": lambda model, layer: model.transformer.layer[layer].attention.v_lin.weight,
    "albert": lambda model, layer: model.encoder.albert_layer_groups[0].albert_layers[0].attention.value.weight,
    "modernbert": lambda model, layer: model.layers[layer].attn.Wqkv.weight[2 * HIDDEN :],
    "eurobert": lambda model, layer: model.layers[layer].self_attn.v_proj.weight,
    "qwen3": lambda model, layer: model.layers[layer].self_attn.v_proj.weight,
    "t5": lambda model, layer: model.encoder.block[layer].layer[0].SelfAttention.v.weight,
    "mpnet": lambda model, layer: model.encoder.layer[layer].attention.attn.v.weight,
}


@pytest.mark.parametrize("architecture", VALUES)
def test_value_weights_are_the_modules_own(make_tiny: Make, architecture: str) -> None:
    model = make_tiny(architecture, "mean")
    found = all_layers(model, TEXTS[:1])[0].value_norms
    assert found is not None
    for layer in range(LAYERS):
        weight = VALUES[architecture](model[0].model, layer).detach().double().numpy()
        heads = weight.reshape(-1, HIDDEN // HEADS, weight.shape[1])
        assert found[layer] == pytest.approx([np.linalg.norm(head, 2) for head in heads], rel=1e-6)


class Doubled(nn.Linear):
    """A linear layer that does more than its weight says."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


class Adapted(nn.Module):
    """A linear layer with a low-rank update beside it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.down, self.up = nn.Linear(HIDDEN, 2, bias=False), nn.Linear(2, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


class Transposed(nn.Module):
    """A linear layer with its weight the other way round, as in GPT-2."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(base.weight.detach().T.contiguous()), base.bias

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


def with_values_through(make_tiny: Make, wrap: Callable[[nn.Linear], nn.Module]) -> SentenceTransformer:
    model = copy.deepcopy(make_tiny("bert", "mean"))
    attending = model[0].model.encoder.layer[2].attention.self
    attending.value = wrap(attending.value)
    return model


def doubled(base: nn.Linear) -> nn.Module:
    base.__class__ = Doubled
    return base


@pytest.mark.parametrize("wrap", [doubled, Adapted])
def test_values_that_no_one_weight_explains(make_tiny: Make, wrap: Callable[[nn.Linear], nn.Module]) -> None:
    """σ_1 would be wrong, so there is no bound, and a reason; everything else is there."""
    model = with_values_through(make_tiny, wrap)
    (one,) = spectra(model, TEXTS[:1])
    assert one.theorem_2 is None
    assert one.value_norms is None
    assert one.no_value_norms is not None
    assert "values of layer 2" in one.no_value_norms
    assert np.isfinite(one.sigma_a[-1])
    assert np.isfinite(one.theorem_3).all()


def test_weights_that_lie_the_other_way_round(make_tiny: Make) -> None:
    plain = all_layers(make_tiny("bert", "mean"), TEXTS[:1])[0]
    other = all_layers(with_values_through(make_tiny, Transposed), TEXTS[:1])[0]
    assert other.value_norms == pytest.approx(plain.value_norms, rel=1e-12)


# The model and its texts


@pytest.mark.parametrize("architecture", ["bert", "albert", "mpnet"])
def test_the_model_stays_as_it_is(make_tiny: Make, architecture: str) -> None:
    """Its outputs bit for bit, no hook on any module, and transformers' registry as it was."""
    model = make_tiny(architecture, "mean")

    def state() -> list[Any]:
        modules = [(type(module), module.training, sorted(vars(module))) for module in model.modules()]
        hooks = [(len(module._forward_hooks), len(module._forward_pre_hooks)) for module in model.modules()]
        registered = dict(AttentionInterface._global_mapping)
        return [modules, hooks, registered, model[0].model.config._attn_implementation]

    vectors, before = model.encode(TEXTS), state()
    rows = spectra(model, TEXTS)
    assert state() == before
    next(rows)
    assert state() == before
    assert np.array_equal(model.encode(TEXTS), vectors)


def test_probes_leave_no_hooks(make_tiny: Make) -> None:
    """But those that transformers puts on a model that is asked for its hidden states, and never takes off."""
    model = copy.deepcopy(make_tiny("bert", "mean"))[0].model
    route_attention(model)
    count_layers(model)
    model(input_ids=torch.tensor([[1, 2]]), output_hidden_states=True)

    def hooks() -> list[int]:
        return [len(module._forward_hooks) for module in model.modules()]

    before = hooks()
    find_signals(model, LAYERS)
    find_value_weights(model)
    assert hooks() == before


def test_two_models_side_by_side(make_tiny: Make) -> None:
    """Texts in turns, one batch each, of models that differ in temperature alone."""
    model = make_tiny("bert", "mean")
    pair = [fairspan.calibrate(model, "tempscale", temperature=value) for value in (0.9, 0.5)]
    alone = [all_layers(one, TEXTS, batch_tokens=1) for one in pair]
    turns = zip(*(spectra(one, TEXTS, layers="all", batch_tokens=1) for one in pair), strict=True)
    for number, both in enumerate(turns):
        for one, expected in zip(both, alone, strict=True):
            assert np.array_equal(one.sigma_a, expected[number].sigma_a)
            assert np.array_equal(one.hc, expected[number].hc)
    assert alone[0][0].sigma_a[0] != alone[1][0].sigma_a[0]
    assert AttentionInterface()[NAME] is attention


def test_no_gradients(make_tiny: Make) -> None:
    model = copy.deepcopy(make_tiny("bert", "mean")).train()
    found = all_layers(model, TEXTS)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert np.array_equal(found[0].hc, all_layers(model, TEXTS)[0].hc)  # without dropout
    assert model.training


def test_prompts_and_sides(make_tiny: Make) -> None:
    prompts = {"query": "w1 ", "document": "w2 w3 "}
    model = SentenceTransformer(modules=list(make_tiny("bert", "mean").children()), prompts=prompts, device="cpu")
    scaled = fairspan.calibrate(model, "tempscale", temperature={"query": 0.5})

    def one(**options: Any) -> Spectrum:
        return next(spectra(scaled, TEXTS[1:2], layers="all", **options))

    assert (one().tokens, one(side="query").tokens, one(prompt="").tokens) == (34, 33, 32)
    query, document = one(side="query", prompt=""), one(prompt="")
    assert query.sigma_s_of_heads[0] == pytest.approx(2 * document.sigma_s_of_heads[0])


def test_routes(make_tiny: Make) -> None:
    """Each side goes its own way, and a side without a transformer has no attention."""
    query, document = make_tiny("roberta", "mean"), make_tiny("bert", "cls")
    both = SentenceTransformer(
        modules=[Router.for_query_document(list(query.children()), list(document.children()))], device="cpu"
    )
    for side, alone in (("query", query), ("document", document)):
        assert np.array_equal(all_layers(both, TEXTS, side=side)[0].sigma_a, all_layers(alone, TEXTS)[0].sigma_a)
    static = StaticEmbedding(tiny_tokenizer().backend_tokenizer, embedding_dim=HIDDEN)
    mixed = SentenceTransformer(
        modules=[Router.for_query_document([static], list(document.children()))], device="cpu"
    )
    refused(mixed, "no transformer", side="query")


def test_no_texts(make_tiny: Make) -> None:
    assert list(spectra(make_tiny("bert", "cls"), [])) == []


# Refusals, before any text goes through


def refused(model: SentenceTransformer, because: str, texts: list[str] = TEXTS, **options: Any) -> None:
    with pytest.raises(UnsupportedModel, match=because) as caught:
        spectra(model, texts, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_models_and_texts_that_are_refused(make_tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(tiny_model(tmp_path, "fnet", "mean"), "'fnet'")
    model = make_tiny("bert", "cls")
    refused(model, "text 1 has 602 tokens", [words(5), words(600)])
    for layers in ([LAYERS], LAYERS + 1, "first"):
        with pytest.raises(CalibrationError, match="layers"):
            spectra(model, TEXTS, layers=layers)  # type: ignore[arg-type]
    monkeypatch.setattr(SentenceTransformer, "device", property(lambda self: torch.device("mps")))
    refused(model, "MPS")
