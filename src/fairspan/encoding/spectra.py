"""`spectra`: what the layers of a model leave of each text's token signals.

LC §2 ("Length-Induced Embedding Collapse", 2025, arXiv 2410.24200): ‖HC‖/‖DC‖ of the hidden states,
σ_a and σ_s of the attention.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from fairspan.attention.layers import probe, unsupported
from fairspan.attention.plan import LayerInputs, Plan
from fairspan.attention.probes import find_value_weights
from fairspan.attention.spectrum import sigma_a, sigma_s, signal_norms, value_norms
from fairspan.calibration.calibration import Layers
from fairspan.calibration.spelling import as_calibration
from fairspan.encoding.recording import RecordingTransformer, record
from fairspan.errors import UnsupportedModel


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """One text's token signals through the layers of a model.

    Attributes:
        tokens: L, special and prompt tokens counted.
        hc, dc: [layers + 1], ‖HC[X_l]‖_F and ‖DC[X_l]‖_F of the embedding output and of each
            layer's output, as `output_hidden_states` has them: the last one after a final
            normalisation, if the model has one.
        sigma_a_of_heads, sigma_s_of_heads: [layers, heads], NaN in layers that were not asked for.
        calibrated: [layers] bool, the layers whose attention is split into baskets.
        value_norms: [layers, value heads], ‖W_V^h‖₂; None if they are unknown, and `no_value_norms`
            says why.
    """

    tokens: int
    hc: np.ndarray
    dc: np.ndarray
    sigma_a_of_heads: np.ndarray
    sigma_s_of_heads: np.ndarray
    calibrated: np.ndarray
    value_norms: np.ndarray | None
    no_value_norms: str | None

    @property
    def ratio(self) -> np.ndarray:
        """‖HC[X_l]‖_F / ‖DC[X_l]‖_F, [layers + 1]."""
        return np.asarray(self.hc / self.dc)

    @property
    def filter_rate(self) -> np.ndarray:
        """log(‖HC[X_{l+1}]‖_F / ‖HC[X_l]‖_F), [layers]; NaN for one token, which has no HC."""
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


def spectra(
    model: SentenceTransformer,
    texts: Sequence[str],
    *,
    prompt: str | None = None,
    layers: Layers | list[int] | None = "last",
) -> Iterator[Spectrum]:
    """The spectrum of each text, in the order of the texts.

    σ_a includes temperature and baskets: calibrated rows still sum to 1.

    Args:
        layers: the layers whose σ_a and σ_s are computed, which is slow: "last", "last_half",
            "all", an int k for the last k, or a list of numbers from 0. None for no layer.
    """
    if model.device.type == "mps":
        raise UnsupportedModel(
            "spectra are computed in float64, which MPS lacks: move the model with model.to('cpu')."
        )
    recorded = record(model, texts, _SpectrumRecorder, prompt=prompt, layers=layers)
    return (text.result for text in recorded)


class _SpectrumRecorder(RecordingTransformer):
    """Records the spectrum of the one text of a batch."""

    def start(self, model: SentenceTransformer, layers: Layers | list[int] | None = None) -> None:
        """Ask for the hidden states, and find the value weights."""
        super().start(model)
        chosen = None if layers is None else as_calibration(None, layers=layers)
        self.layers = chosen.layer_numbers(self.depth) if chosen else frozenset()
        self.model.config.output_hidden_states = True
        output = probe(self.model, Plan(), output_hidden_states=True)
        states = getattr(output, "hidden_states", None) or ()
        if len(states) != self.depth + 1:
            raise unsupported(
                self.model, f"shows {len(states)} hidden states, and has {self.depth} layers"
            )
        self.value_norms: np.ndarray | None = None
        self.no_value_norms: str | None = None
        weights = find_value_weights(self.model)
        if isinstance(weights, str):
            self.no_value_norms = weights
        else:
            self.value_norms = _stacked([value_norms(weight) for weight in weights])

    def recording(self, plan: Plan, inputs: dict[str, Any]) -> Callable[[dict[str, Any]], Spectrum]:
        """Watch σ_a and σ_s of each layer; the spectrum follows from the features."""
        filters: list[Tensor] = []
        spreads: list[Tensor] = []

        def watch(layer: LayerInputs) -> None:
            wanted = layer.layer in self.layers
            unknown = torch.full((layer.query.shape[1],), torch.nan, dtype=torch.float64)
            filters.append(sigma_a(layer) if wanted else unknown)
            spreads.append(sigma_s(layer) if wanted else unknown)

        def spectrum(features: dict[str, Any]) -> Spectrum:
            """The spectrum of the text that went through."""
            states = features.pop("all_layer_embeddings")
            hc, dc = np.array([signal_norms(state[0]) for state in states]).T
            return Spectrum(
                tokens=inputs["input_ids"].shape[1],
                hc=hc,
                dc=dc,
                sigma_a_of_heads=_stacked(filters),
                sigma_s_of_heads=_stacked(spreads),
                calibrated=np.isin(np.arange(self.depth), list(plan.layers)),
                value_norms=self.value_norms,
                no_value_norms=self.no_value_norms,
            )

        plan.watch = watch
        return spectrum


def _stacked(rows: list[Tensor]) -> np.ndarray:
    return np.asarray(torch.stack(rows).double().cpu())
