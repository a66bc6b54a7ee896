"""Spectra of token signals and attention, against numpy's SVD."""

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
from torch import Tensor, nn
from transformers import AttentionInterface, BertModel

import fairspan
from fairspan.attention import spectrum
from fairspan.attention.plan import LayerInputs
from fairspan.attention.spectrum import sigma_a, sigma_s, signal_norms
from fairspan.encoding.spectra import Spectrum, spectra
from fairspan.errors import DesignError, UnsupportedModel
from tests.attention.spectrum_by_matrices import Matrices, matrices
from tests.builders.tiny import HEADS, HIDDEN, LAYERS, mostly_slow, tiny_model, words

Make = Callable[..., SentenceTransformer]

# Texts of 72, 32, 3 and 2 tokens.
TEXTS = [words(70, seed=1), words(30, seed=2), words(1, seed=4), ""]
EACH = mostly_slow(["bert", "albert", "modernbert", "gte", "qwen3", "mistral", "t5", "mpnet"])


def all_layers(model: SentenceTransformer, texts: list[Any], **options: Any) -> list[Spectrum]:
    return list(spectra(model, texts, layers="all", **options))


def assert_agree(
    found: list[Spectrum], expected: list[list[Matrices]], tolerance: float = 1e-6
) -> None:
    """Float64 on both sides, of the same queries and keys."""
    for one, layers in zip(found, expected, strict=True):
        assert one.tokens == layers[0].weights.shape[-1]
        for name in ("sigma_a", "sigma_s"):
            exact = np.stack([getattr(layer, name) for layer in layers])
            assert getattr(one, f"{name}_of_heads") == pytest.approx(exact, rel=tolerance)


# σ_a and σ_s


@pytest.mark.parametrize("architecture", EACH)
def test_plain_models_agree_with_the_svd(make_tiny: Make, architecture: str) -> None:
    model = make_tiny(architecture, "mean")
    assert_agree(all_layers(model, TEXTS), matrices(model, TEXTS))


HALF = {"basket_size": 7, "strength": 0.5, "bos": "original", "temperature": 0.8}
WARM = {"calibration": "tempscale", "temperature": 0.5}
SOME = {"basket_size": 16, "short_texts": "leave", "layers": [1, 3]}


@pytest.mark.parametrize(
    ("architecture", "pooling", "settings"),
    [
        ("bert", "mean", {"basket_size": 7, "layers": "all"}),
        ("qwen3", "lasttoken", HALF),
        pytest.param("t5", "mean", SOME, marks=pytest.mark.slow),
        pytest.param("mistral", "cls", {"basket_size": 7, "eos": "equal"}, marks=pytest.mark.slow),
        ("modernbert", "mean", WARM),
        pytest.param("mpnet", "mean", WARM, marks=pytest.mark.slow),
        pytest.param("t5", "mean", {**WARM, "scale_position_bias": True}, marks=pytest.mark.slow),
    ],
)
def test_calibrated_models_agree_with_the_svd(
    make_tiny: Make, architecture: str, pooling: str, settings: dict[str, Any]
) -> None:
    """σ_a of the calibrated matrix, where only the pooled row or every row is calibrated, and with
    a temperature alone, which divides σ_s."""
    model = make_tiny(architecture, pooling)
    fair = fairspan.calibrate(model, **settings)
    found = all_layers(fair, TEXTS)
    assert_agree(found, matrices(fair, TEXTS))
    calibration = fair[0].calibration
    calibrated = calibration.layer_numbers(LAYERS) if calibration.strength else set()
    assert all(set(np.flatnonzero(one.calibrated)) == calibrated for one in found)
    if not calibration.strength:
        plain = all_layers(model, TEXTS[:1])[0].sigma_s_of_heads[0]
        assert found[0].sigma_s_of_heads[0] == pytest.approx(plain / 0.5, rel=1e-6)


ALL = {"tile_size": 7, "strength": 0.5, "layers": "all"}


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        ("mistral", {"calibration": "tiles-16", "temperature": 0.5}),
        pytest.param("mistral", ALL, marks=pytest.mark.slow),
        pytest.param("modernbert", {"calibration": "tiles-7"}, marks=pytest.mark.slow),
        pytest.param("t5", {"calibration": "tiles-7"}, marks=pytest.mark.slow),
        pytest.param("mpnet", ALL, marks=pytest.mark.slow),
    ],
)
def test_tiles(make_tiny: Make, architecture: str, settings: dict[str, Any]) -> None:
    """σ_a and σ_s of what tokens see in tiles. In float64, in which the engine and the matrices
    have the same queries and keys, but for norms that some models take in float32."""
    model = copy.deepcopy(make_tiny(architecture, "lasttoken", padding_side="left")).double()
    fair = fairspan.calibrate(model, **settings)
    texts = [*TEXTS, fairspan.SegmentedText([words(3), words(20, seed=1)])]
    assert_agree(all_layers(fair, texts), matrices(fair, texts), tolerance=3e-6)
    plain = all_layers(model, texts)
    assert plain[0].sigma_a[0] != pytest.approx(all_layers(fair, texts)[0].sigma_a[0], rel=1e-3)


def test_one_token(make_tiny: Make) -> None:
    """(I − 1)·1 = 0: nothing is left of one token's attention, nor of its signals."""
    model = copy.deepcopy(make_tiny("mistral", "mean"))
    model.tokenizer.backend_tokenizer.post_processor = None
    one, _ = all_layers(model, ["w1", words(5)])
    assert one.tokens == 1
    assert not one.sigma_a_of_heads.any()
    # The root of a difference of squares, each rounded: √ε times a score of a few units.
    assert one.sigma_s_of_heads.max() < 1e-6
    assert not one.hc.any()
    assert np.isnan(one.filter_rate).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtypes(make_tiny: Make, dtype: torch.dtype) -> None:
    model = fairspan.calibrate(make_tiny("bert", "mean"), "tempscale").to(dtype)
    found = all_layers(model, TEXTS)
    assert_agree(found, matrices(model, TEXTS))
    assert all(one.value_norms is not None for one in found)


@pytest.mark.parametrize(("architecture", "pooling"), [("qwen3", "lasttoken"), ("t5", "mean")])
def test_blocks_do_not_show(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch, architecture: str, pooling: str
) -> None:
    fair = fairspan.calibrate(make_tiny(architecture, pooling), basket_size=16)
    kept = all_layers(fair, TEXTS)
    monkeypatch.setattr(spectrum, "_SCORES_AT_A_TIME", 300)
    for one, other in zip(all_layers(fair, TEXTS), kept, strict=True):
        assert one.sigma_a_of_heads == pytest.approx(other.sigma_a_of_heads, rel=1e-8)
        assert one.sigma_s_of_heads == pytest.approx(other.sigma_s_of_heads, rel=1e-12)


def test_chosen_layers(make_tiny: Make) -> None:
    model = make_tiny("bert", "mean")
    whole = all_layers(model, TEXTS[:1])[0]
    for layers, numbers in (("last", [3]), (2, [2, 3]), ([0, 2], [0, 2]), (None, [])):
        (one,) = spectra(model, TEXTS[:1], layers=layers)  # type: ignore[arg-type]
        asked = np.isin(np.arange(LAYERS), numbers)
        for found, wanted in ((one.sigma_a, whole.sigma_a), (one.sigma_s, whole.sigma_s)):
            assert np.array_equal(found[asked], wanted[asked])
            assert np.isnan(found[~asked]).all()
        assert np.array_equal(one.hc, whole.hc)


# The search for σ_a


def head_of(weights: Tensor) -> LayerInputs:
    """Of one head with these weights [L, L]: their logarithms as position bias on queries of 0."""
    zeros = torch.zeros(1, 1, len(weights), 1)
    bias = weights.double().log()[None, None]
    return LayerInputs(0, zeros, zeros, zeros, 1.0, None, bias, False, None)


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e-7])
def test_rows_that_are_all_but_alike(scale: float) -> None:
    """Every row looks at the first key but for a little: ‖A‖₂ = √L, and σ_a is far smaller.
    At scale 1 a random matrix, with no gap below its largest singular value."""
    weights = torch.rand(300, 300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = weights / weights.sum(dim=1, keepdim=True) * scale
    weights[:, 0] += 1 - weights.sum(dim=1)
    exact = Matrices(weights[None].numpy(), weights[None].numpy()).sigma_a
    assert sigma_a(head_of(weights)).numpy() == pytest.approx(exact, rel=1e-6)


def test_spectra_without_a_gap_or_a_value() -> None:
    """Tokens that look at themselves alone: all singular values of I − 11ᵀ/L are 1, but one. All
    rows alike: HC[A] = 0, and the rest is rounding."""
    assert sigma_a(head_of(torch.eye(300))).item() == pytest.approx(1, rel=1e-8)
    row = torch.rand(300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert sigma_a(head_of((row / row.sum()).repeat(300, 1))).item() <= 1e-12


# Signals


def test_norms_of_a_long_text() -> None:
    """A mean a thousand times what is left of the signals, which float32 sums would blur."""
    x = torch.randn(1000, 7, generator=torch.Generator().manual_seed(0)) + 1000
    exact = x.double().numpy()
    mean = exact.mean(axis=0)
    by_hand = np.linalg.norm(exact - mean), math.sqrt(1000) * np.linalg.norm(mean)
    assert signal_norms(x) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("architecture", mostly_slow(["bert", "modernbert", "t5"], ["bert"]))
def test_norms_agree_with_output_hidden_states(make_tiny: Make, architecture: str) -> None:
    model = copy.deepcopy(make_tiny(architecture, "mean")).double()
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


class Silent(BertModel):
    """A model that shows no hidden states."""

    def forward(self, *args: Any, output_hidden_states: bool = False, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)


def test_models_that_show_no_hidden_states_are_refused(make_tiny: Make) -> None:
    model = copy.deepcopy(make_tiny("bert", "mean"))
    model[0].model.__class__ = Silent
    refused(model, "shows 0 hidden states")


def test_sigma_s_of_gaussian_queries_and_keys() -> None:
    """LC Theorem 3's own setting: σ_s² = σ_q² σ_k² · D · scale², here 2² · 3² · 64 / 64."""
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 4, 2000, 64, generator=generator) * width for width in (2, 3))
    inputs = LayerInputs(0, query, key, key, 1 / 8, None, None, False, None)
    assert sigma_s(inputs).numpy() == pytest.approx([6] * 4, rel=0.02)


# Value weights

VALUES: dict[str, Callable[[nn.Module, int], Tensor]] = {
    "bert": lambda model, layer: model.encoder.layer[layer].attention.self.value.weight,
    "modernbert": lambda model, layer: model.layers[layer].attn.Wqkv.weight[2 * HIDDEN :],
    "qwen3": lambda model, layer: model.layers[layer].self_attn.v_proj.weight,
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


def test_values_that_no_one_weight_explains(make_tiny: Make) -> None:
    """σ_1 would be wrong, so there is no bound, and a reason; everything else is there."""
    model = copy.deepcopy(make_tiny("bert", "mean"))
    model[0].model.encoder.layer[2].attention.self.value.__class__ = Doubled
    (one,) = spectra(model, TEXTS[:1])
    assert one.value_norms is None
    assert one.no_value_norms is not None
    assert "values of layer 2" in one.no_value_norms
    assert np.isfinite(one.sigma_a[-1])


# The model and its texts


@pytest.mark.parametrize("architecture", ["bert", "mpnet"])
def test_the_model_stays_as_it_is(make_tiny: Make, architecture: str) -> None:
    model = make_tiny(architecture, "mean")

    def state() -> list[Any]:
        every = list(model.modules())
        modules = [(type(module), module.training, sorted(vars(module))) for module in every]
        hooks = [(len(one._forward_hooks), len(one._forward_pre_hooks)) for one in every]
        registered = dict(AttentionInterface._global_mapping)
        return [modules, hooks, registered, model[0].model.config._attn_implementation]

    vectors, before = model.encode(TEXTS), state()
    rows = spectra(model, TEXTS)
    assert state() == before
    next(rows)
    assert state() == before
    assert np.array_equal(model.encode(TEXTS), vectors)


# Refusals, before any text goes through


def refused(
    model: SentenceTransformer, because: str, texts: list[str] = TEXTS, **options: Any
) -> None:
    with pytest.raises(UnsupportedModel, match=because) as caught:
        spectra(model, texts, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_models_and_texts_that_are_refused(
    make_tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused(tiny_model(tmp_path, "fnet", "mean"), "'fnet'")
    model = make_tiny("bert", "cls")
    refused(model, "text 1 has 602 tokens", [words(5), words(600)])
    for layers in ([LAYERS], LAYERS + 1, "first"):
        with pytest.raises(DesignError, match="layers"):
            spectra(model, TEXTS, layers=layers)  # type: ignore[arg-type]
    monkeypatch.setattr(SentenceTransformer, "device", property(lambda self: torch.device("mps")))
    refused(model, "MPS")
