"""Spectra by whole matrices in float64, for comparison: LC's definitions, with numpy's SVD.

It shares nothing with `fairspan.attention.spectrum`. The matrices are those of
`tests.attention.by_matrices`, of the same queries and keys; in tiles, of those that come from
matrices.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from fairspan.attention.interface import attention
from fairspan.attention.layers import route_attention
from fairspan.attention.plan import Plan
from fairspan.model.build import copy_sharing_weights
from tests.attention.by_matrices import attention_by_matrices, matrices_instead


@dataclass(frozen=True)
class Matrices:
    """One layer's attention over one text, [H, L, L]: A, and the scores q·k·scale / temperature."""

    weights: np.ndarray
    scores: np.ndarray

    @property
    def sigma_a(self) -> np.ndarray:
        """The largest singular value of (I − 11ᵀ/L) A, of each head."""
        length = self.weights.shape[-1]
        centring = np.eye(length) - np.ones((length, length)) / length
        return np.array(
            [np.linalg.svd(centring @ head, compute_uv=False)[0] for head in self.weights]
        )

    @property
    def sigma_s(self) -> np.ndarray:
        """The standard deviation of the scores of the pairs that the mask leaves, of each head."""
        return np.array(
            [head[p > 0].std() for head, p in zip(self.scores, self.weights, strict=True)]
        )


def matrices(
    model: SentenceTransformer, texts: Sequence[Any], **options: Any
) -> list[list[Matrices]]:
    """The attention of each text in each layer, of a plain or calibrated model; each text goes
    alone."""
    return [_of_one(model, text, **options) for text in texts]


def _of_one(model: SentenceTransformer, text: Any, **options: Any) -> list[Matrices]:
    layers: list[tuple[Tensor, Tensor]] = []

    def keep(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        scaling: float | None = None,
        position_bias: Tensor | None = None,
        fairspan_plan: Plan | None = None,
        **kwargs: Any,
    ) -> Any:
        n, heads, length, dim = query.shape
        # The identity in place of the values turns into the weights.
        identity = torch.eye(length, dtype=torch.float64).expand(n, key.shape[1], length, length)
        plan, temperature = copy.copy(fairspan_plan), torch.ones(1, dtype=torch.float64)
        if plan is not None:
            plan.asked, plan.calibrated = [*plan.asked], []
            temperature = temperature / plan.inverse_temperature
        weights, _ = attention_by_matrices(
            module,
            query.double(),
            key.double(),
            identity,
            mask,
            scaling,
            position_bias,
            plan,
            **kwargs,
        )
        keys = key.double().repeat_interleave(heads // key.shape[1], dim=1)
        scale = dim**-0.5 if scaling is None else scaling
        scores = query.double() @ keys.transpose(-1, -2) * scale / temperature[:, None, None, None]
        layers.append((weights.transpose(1, 2), scores))
        # In tiles, masks and biases are here those of whole matrices, and the engine cannot go on
        # with them.
        go_on = attention if getattr(plan, "layout", None) is None else attention_by_matrices
        return go_on(
            module, query, key, value, mask, scaling, position_bias, fairspan_plan, **kwargs
        )

    routed = copy_sharing_weights(model).eval()
    route_attention(routed[0].model)
    features = routed.preprocess([text], **options)
    with matrices_instead(keep), torch.inference_mode():
        routed[0](features)
    return [Matrices(*(x[0].numpy() for x in layer)) for layer in layers]
