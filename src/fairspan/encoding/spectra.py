"""`spectra`: what the layers of a model leave of each text's token signals, and how strongly their attention filters.

LC §2 and METHODS §7: ‖HC‖/‖DC‖ of the hidden states, σ_a and σ_s of the attention, and the bounds of LC's theorems.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from fairspan.attention.layers import unsupported
from fairspan.attention.plan import LayerInputs
from fairspan.attention.probes import Signal, find_signals, find_value_weights, watching
from fairspan.attention.spectrum import TOLERANCE, sigma_a, sigma_s, signal_norms, text_attention, value_norms
from fairspan.calibration.calibration import Layers, as_calibration
from fairspan.calibration.temperature import Side
from fairspan.encoding.recording import RecordingTransformer, recorded, recording_copy
from fairspan.encoding.tokens import prompt_of
from fairspan.errors import UnsupportedModel
from fairspan.model.tiling import forward_under
from fairspan.model.transformer import SEGMENTS
from fairspan.stats.theorems import theorem_2_bound, theorem_3_bound

_SPECTRA = "fairspan_spectra"


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """One text's token signals through the layers of a model.

    Attributes:
        tokens: L, special and prompt tokens counted.
        hc, dc: [layers + 1], ‖HC[X_l]‖_F and ‖DC[X_l]‖_F of the embedding output and of each layer's output, as
            `output_hidden_states` has them: the last one after a final normalisation, if the model has one.
        sigma_a_of_heads: [layers, heads], NaN in layers that were not asked for.
        residual_of_heads: [layers, heads], how far σ_a may be off (`attention.spectrum.SigmaA`).
        sigma_s_of_heads: [layers, heads].
        calibrated: [layers] bool, the layers whose attention is split into baskets.
        value_norms: [layers, value heads], ‖W_V^h‖₂; None if they cannot be told, and `no_value_norms` says why.
        tolerance: the residual that was asked for.
    """

    tokens: int
    hc: np.ndarray
    dc: np.ndarray
    sigma_a_of_heads: np.ndarray
    residual_of_heads: np.ndarray
    sigma_s_of_heads: np.ndarray
    calibrated: np.ndarray
    value_norms: np.ndarray | None
    no_value_norms: str | None
    tolerance: float

    @property
    def ratio(self) -> np.ndarray:
        """‖HC[X_l]‖_F / ‖DC[X_l]‖_F, [layers + 1]."""
        return np.asarray(self.hc / self.dc)

    @property
    def filter_rate(self) -> np.ndarray:
        """log(‖HC[X_{l+1}]‖_F / ‖HC[X_l]‖_F), [layers]; NaN for a text of one token, which has no HC."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(self.hc[1:] / self.hc[:-1]))

    @property
    def sigma_a(self) -> np.ndarray:
        """σ_a, the mean over heads (LC §E.3), [layers]."""
        return np.asarray(self.sigma_a_of_heads.mean(axis=1))

    @property
    def sigma_s(self) -> np.ndarray:
        """σ_s, the mean over heads, [layers]."""
        return np.asarray(self.sigma_s_of_heads.mean(axis=1))

    @property
    def converged(self) -> bool:
        """Whether every σ_a that was asked for is as exact as was asked for."""
        return not bool((self.residual_of_heads > self.tolerance).any())

    @property
    def theorem_2(self) -> np.ndarray | None:
        """The bound of LC Theorem 2 on `filter_rate`, [layers]; None where `no_value_norms` says why."""
        if self.value_norms is None:
            return None
        return theorem_2_bound(self.sigma_a_of_heads, self.value_norms)

    @property
    def theorem_3(self) -> np.ndarray:
        """The bound of LC Theorem 3 on each head's σ_a, as their mean, [layers].

        NaN in calibrated layers: the theorem is about a softmax, and says nothing of one split into baskets.
        """
        bound = theorem_3_bound(self.tokens, self.sigma_s_of_heads).mean(axis=1)
        return np.where(self.calibrated, np.nan, bound)


def spectra(
    model: SentenceTransformer,
    texts: Sequence[str],
    *,
    prompt: str | None = None,
    side: Side = "document",
    layers: Layers | list[int] | None = "last",
    tolerance: float = TOLERANCE,
    batch_tokens: int = 8192,
) -> Iterator[Spectrum]:
    """The spectrum of each text, in the order of the texts.

    σ_a is that of the attention the model really uses, temperature and, in the calibrated layers of a calibrated
    model, baskets included: calibrated rows still sum to 1, which is all that Theorem 2 asks of them.

    No L×L tensor is made for this; models that make one themselves, for a sliding window or a position bias, still
    do. The model stays as it is: the texts go through a copy on the same weights.

    Args:
        model: a SentenceTransformer on the torch backend, plain or calibrated.
        texts: strings. In a calibrated model a `SegmentedText` has its segments as baskets, as in `encode_segments`.
        prompt: what to put before every text; None for what `encode_document` or `encode_query` would.
        side: which of the two is meant.
        layers: the layers whose σ_a is computed, which is what takes time: "last", "last_half", "all", an int k for
            the last k, or a list of numbers from 0. None for no layer.
        tolerance: the relative residual at which the search for σ_a ends, above 0.
        batch_tokens: how many tokens, padding counted, go through the model at once; a longer text goes alone.

    Raises:
        UnsupportedModel: at once, if the model's attention or hidden states cannot be reached, or a text is longer
            than the model's window or has no tokens.
        CalibrationError: at once, if the model does not have these layers.
    """
    if model.device.type == "mps":
        raise UnsupportedModel(
            "spectra are computed in float64, which MPS lacks: move the model with model.to('cpu')."
        )
    if prompt is None:
        prompt = prompt_of(model, side)
    recorder = recording_copy(model, side)
    for module in recorder.modules():
        if isinstance(module, RecordingTransformer):
            module.__class__ = _SpectralTransformer
            module.start_spectra(layers, tolerance)
    batches = recorded(recorder, texts, prompt, side, batch_tokens, _SPECTRA)
    return (one for batch in batches for one in batch.result)


@dataclass(slots=True)
class _Record:
    """What one text's tokens leave behind as they pass through the layers."""

    tokens: slice
    norms: dict[int, tuple[float, float]] = field(default_factory=dict)
    sigma_a: list[Tensor] = field(default_factory=list)
    residual: list[Tensor] = field(default_factory=list)
    sigma_s: list[Tensor] = field(default_factory=list)


class _SpectralTransformer(RecordingTransformer):
    """A `Transformer` module, calibrated or not, that adds the spectra of its texts to the features."""

    layers: frozenset[int]
    tolerance: float
    signals: list[Signal]
    value_norms: np.ndarray | None
    no_value_norms: str | None

    def start_spectra(self, layers: Layers | list[int] | None, tolerance: float) -> None:
        """Find the hidden states and the value weights."""
        self.layers = frozenset() if layers is None else as_calibration(None, layers=layers).layer_numbers(self.depth)
        self.tolerance = tolerance
        self.signals = find_signals(self.model, self.depth)
        found = find_value_weights(self.model)
        self.no_value_norms = found if isinstance(found, str) else None
        self.value_norms = None if isinstance(found, str) else _stacked([value_norms(weight) for weight in found])

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        inputs = {name: value for name, value in features.items() if name != SEGMENTS}
        records = [_Record(_span(valid)) for valid in inputs["attention_mask"].bool()]

        def receive(number: int, tensor: Tensor) -> None:
            for text, record in enumerate(records):
                record.norms[number] = signal_norms(tensor[text, record.tokens])

        def watch(layer: LayerInputs) -> None:
            for text, record in enumerate(records):
                attention = text_attention(layer, text, record.tokens)
                spread = sigma_s(attention)
                record.sigma_s.append(spread)
                unknown = torch.full_like(spread, torch.nan)
                found = sigma_a(attention, self.tolerance) if layer.layer in self.layers else None
                record.sigma_a.append(unknown if found is None else found.value)
                record.residual.append(unknown if found is None else found.residual)

        plan = self._plan(inputs, features.get(SEGMENTS))
        plan.watch = watch
        with watching(self.signals, receive):
            features.update(forward_under(plan, self, inputs, self.tiling, **kwargs))
        shown = len(records[0].norms)
        if not plan.passed == shown - 1 == self.depth or not plan.kept:
            raise unsupported(
                self.model,
                f"has {self.depth} layers, went through {plan.passed} with {shown} hidden states, calibrated "
                f"{plan.calibrated} of {sorted(plan.layers)}, and tiled {plan.tiled} of {sorted(plan.tile_layers)}",
            )
        features[_SPECTRA] = [self._spectrum(record, plan.layers) for record in records]
        return features

    def _spectrum(self, record: _Record, calibrated: frozenset[int]) -> Spectrum:
        norms = np.array([record.norms[number] for number in range(self.depth + 1)])
        return Spectrum(
            tokens=record.tokens.stop - record.tokens.start,
            hc=norms[:, 0],
            dc=norms[:, 1],
            sigma_a_of_heads=_stacked(record.sigma_a),
            residual_of_heads=_stacked(record.residual),
            sigma_s_of_heads=_stacked(record.sigma_s),
            calibrated=np.isin(np.arange(self.depth), list(calibrated)),
            value_norms=self.value_norms,
            no_value_norms=self.no_value_norms,
            tolerance=self.tolerance,
        )


def _span(valid: Tensor) -> slice:
    """Where the tokens of a text lie, between padding on either side."""
    places = valid.nonzero()
    return slice(int(places[0]), int(places[-1]) + 1)


def _stacked(rows: list[Tensor]) -> np.ndarray:
    return np.asarray(torch.stack(rows).cpu())
