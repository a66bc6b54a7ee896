"""Even pooling: one vector that represents all tokens of a text equally.

In a mean, what a text repeats hides what it says once. The even vector v makes v·u nearly the same
for the directions u of all tokens; a ridge c limits how nearly. Tokens h have the weights of the
mean, their lengths: with m = Σ h / Σ |h| and M = Σ h·hᵀ/|h| / Σ |h|,

    v ∝ (M + c·|m|²·I)⁻¹ m,

which is the direction of the mean for c → ∞. Murray and Perronnin (2014) pool the local features of
an image in this way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import torch
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn

from fairspan.attention.baskets import is_traced
from fairspan.attention.interface import kernels
from fairspan.errors import FairspanError
from fairspan.model.pooling import EVENLY, TOKENS, prompt_length

_LONG = 2**15
"""Tokens of a text above which products of tokens are summed, without a copy of all tokens."""
_AT_A_TIME = 2**12
"""Tokens of a long text that are processed together."""
_SMALLEST = 1e-30
_TOLERANCE = 1e-6
"""The residual at which a solve ends, as a share of the mean."""


class NotFinite(FairspanError):  # noqa: N818 - as its base's other classes
    """Tokens that are NaN or infinite cannot be pooled evenly."""


class EvenPooling(Pooling):  # type: ignore[misc]
    """Even pooling in place of the mean, for the texts that the feature `EVENLY` selects.

    An even vector has the length of the mean.

    Attributes:
        tokenizer: the model's, to quote a text in errors.
    """

    # The reference written to modules.json; it must not change when files move.
    __module__ = "fairspan.model"

    config_keys: ClassVar[list[str]] = [*Pooling.config_keys, "ridge"]

    def __init__(self, *args: Any, ridge: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ridge = ridge
        self.tokenizer: Any = None

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The features with `sentence_embedding`, [N, d]."""
        evenly = features.get(EVENLY, True)
        if evenly is False:
            pooled: dict[str, Any] = super().forward(features, **kwargs)
            return pooled
        tokens = features[TOKENS]
        # First: in a graph, nothing may depend on lengths.
        keeps_batch = is_traced() or tokens.requires_grad or tokens.is_cuda
        if not keeps_batch and _is_large(features):
            pooled = self._pool_one_by_one(features, evenly, **kwargs)
        else:
            pooled = self._pool(features, evenly, **kwargs)
        if is_traced():
            return pooled
        number = _not_finite(pooled)
        steps = _steps(self.ridge)
        most = 4 * features[TOKENS].shape[2]
        while number is not None and pooled["sentence_embedding"].is_cuda and steps < most:
            # The text needs more steps, or its tokens are not finite.
            steps = min(4 * steps, most)
            pooled = self._pool(features, evenly, steps=steps, **kwargs)
            number = _not_finite(pooled)
        if number is not None:
            self._refuse(pooled, number)
        return pooled

    def _refuse(self, pooled: dict[str, Any], number: int) -> NoReturn:
        """Raise an error that names the text whose tokens are not finite."""
        beginning = ""
        if self.tokenizer is not None and "input_ids" in pooled:
            text = self.tokenizer.decode(pooled["input_ids"][number][:40])[:40]
            beginning = f", which begins {text!r},"
        count = len(pooled["sentence_embedding"])
        raise NotFinite(
            f"the model turns text {number + 1} of {count} in its batch{beginning} into NaN "
            "or infinity: check the weights and the dtype."
        )

    def _pool_one_by_one(
        self, features: dict[str, Any], evenly: Tensor | bool, **kwargs: Any
    ) -> dict[str, Any]:
        """What `_pool` gives, without any work on padding."""
        vectors = []
        for text, mask in enumerate(features["attention_mask"]):
            columns = mask.nonzero()[:, 0].tolist() or [0]
            span = slice(columns[0], columns[-1] + 1)
            alone = {
                **features,
                TOKENS: features[TOKENS][text, span][None],
                "attention_mask": mask[span][None],
            }
            factor = evenly[text, None] if isinstance(evenly, Tensor) else evenly
            vectors.append(self._pool(alone, factor, **kwargs)["sentence_embedding"])
        return {**features, "sentence_embedding": torch.cat(vectors)}

    def _pool(
        self,
        features: dict[str, Any],
        evenly: Tensor | bool,
        *,
        steps: int | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The features with `sentence_embedding`; `evenly` is not False.

        Args:
            steps: the most steps on a GPU; by default what texts of real models need.
        """
        tokens = features[TOKENS]
        mask = features.get("attention_mask")
        if mask is None:
            mask = torch.ones(tokens.shape[:2], dtype=torch.long, device=tokens.device)
        prompt = None if self.include_prompt else prompt_length(features)
        if prompt is not None:
            mask = self._exclude_prompt_from_mask(mask, prompt)
        dtype = torch.promote_types(tokens.dtype, torch.float32)
        factor = tokens.new_ones(tokens.shape[0], 1, dtype=dtype)
        if isinstance(evenly, Tensor):
            factor = evenly[:, None].to(dtype)
        keeps_mean = factor.isinf()
        ridges = self.ridge * torch.where(keeps_mean, 1.0, factor)
        if kernels is not None and _suits_kernel(tokens):
            how = (_steps(self.ridge) if steps is None else steps, _TOLERANCE)
            even, total = kernels.even_vectors_kernel(tokens, mask, ridges, *how)
            mean = total / mask.sum(dim=1, keepdim=True).clamp(min=1)
            return _with_vectors(features, mean.to(tokens.dtype), even, keeps_mean)
        largest = _AT_A_TIME if tokens.dtype == torch.float16 else _LONG
        if not is_traced() and tokens.shape[1] > largest:
            # The base class copies all tokens, and its sum overflows in float16.
            pooled = {**features, "sentence_embedding": _mean_by_parts(tokens, mask)}
        else:
            pooled = super().forward(features, **kwargs)
        even = pool_evenly(tokens, mask, self.ridge, ridges)
        return _with_vectors(pooled, pooled["sentence_embedding"], even, keeps_mean)


def _with_vectors(
    features: dict[str, Any], mean: Tensor, even: Tensor, keeps_mean: Tensor
) -> dict[str, Any]:
    """The features with even vectors [N, d] as long as the means, or the means where kept."""
    even = even * (_length(mean.to(even.dtype)) / _length(even).clamp(min=_SMALLEST))
    vectors = torch.where(keeps_mean, mean, even.to(mean.dtype))
    return {**features, "sentence_embedding": vectors}


def _is_large(features: dict[str, Any]) -> bool:
    """Whether a batch has so many tokens, padding included, that its texts are pooled alone."""
    texts, longest, _ = features[TOKENS].shape
    return texts > 1 and texts * longest > _LONG and "attention_mask" in features


def _not_finite(pooled: dict[str, Any]) -> int | None:
    """The index of the first text whose vector is NaN or infinite; None if all are finite."""
    sums = pooled["sentence_embedding"].sum(dim=1, dtype=torch.float32).tolist()
    return next((row for row, total in enumerate(sums) if not math.isfinite(total)), None)


def _mean_by_parts(tokens: Tensor, mask: Tensor) -> Tensor:
    """[N, d]: the mean of tokens [N, L, d] where `mask` [N, L] is not 0."""
    total = tokens.new_zeros(len(tokens), tokens.shape[2], dtype=torch.float32)
    for start in range(0, tokens.shape[1], _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        valid = mask[:, part, None] != 0
        total = total + torch.where(valid, tokens[:, part], 0).sum(dim=1, dtype=torch.float32)
    return (total / mask.sum(dim=1, keepdim=True).clamp(min=1)).to(tokens.dtype)


def takes_mean(model: nn.Module) -> bool:
    """Whether every pooling in a model, or a pooling module, takes the mean of all tokens."""
    poolings = [module for module in model.modules() if isinstance(module, Pooling)]
    return all(
        type(module) in (Pooling, EvenPooling) and module.pooling_mode == "mean"
        for module in poolings
    )


def set_even(pooling: Pooling, ridge: float | None, tokenizer: Any) -> None:
    """Make a module pool evenly, or for None as it did before."""
    if ridge is not None:
        pooling.__class__ = EvenPooling
        pooling.ridge = ridge
        pooling.tokenizer = tokenizer
    elif isinstance(pooling, EvenPooling):
        pooling.__class__ = Pooling
        del pooling.ridge, pooling.tokenizer


def pool_evenly(tokens: Tensor, mask: Tensor, ridge: float, ridges: Tensor) -> Tensor:
    """[N, d]: even vectors, of any length, of tokens [N, L, d] where `mask` [N, L] is not 0.

    The ridge of each text is in `ridges` [N, 1], and at least `ridge`. Computed in float32, or
    float64 for such tokens. A text without tokens has zeros.
    """
    dtype = torch.promote_types(tokens.dtype, torch.float32)
    if not is_traced() and (tokens.requires_grad or tokens.shape[1] > _LONG):
        return _by_products(tokens, mask, ridges)
    total, rows = _scaled(tokens, mask, dtype)
    lengths = _square(rows).sum(dim=1).clamp(min=_SMALLEST)
    mean = total / lengths
    steps = _steps(ridge)
    tolerance: float | None = _TOLERANCE
    if is_traced():
        # A graph cannot check convergence: take twice as many steps.
        steps = 2 * min(steps, tokens.shape[2])
        tolerance = None

    def product(vector: Tensor) -> Tensor:
        """[N, d]: M times a vector [N, d]."""
        return ((rows @ vector[:, :, None]).mT @ rows)[:, 0] / lengths

    return _solve(product, mean, ridges * _square(mean), steps, tolerance)


def _steps(ridge: float) -> int:
    """How many steps reach the rounding of float32 on texts of real models."""
    return math.ceil(4 * math.sqrt(1 + 1 / ridge))


def _suits_kernel(tokens: Tensor) -> bool:
    """Whether the GPU kernel can pool the tokens [N, L, d] of a batch."""
    is_on_gpu = tokens.is_cuda and len(tokens) > 0 and not is_traced()
    return is_on_gpu and not tokens.requires_grad and tokens.dtype != torch.float64


def _scaled(tokens: Tensor, mask: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """[N, d], the sum of the tokens where `mask` [N, L] is not 0, and [N, L, d], the tokens divided
    by the roots of their lengths, so that products of these add up to Σ h·hᵀ/|h|."""
    tokens = torch.where(mask[:, :, None] != 0, tokens, 0).to(dtype)
    return tokens.sum(dim=1), tokens * _square(tokens).clamp(min=_SMALLEST).pow(-0.25)


def _solve(
    product: Callable[[Tensor], Tensor],
    mean: Tensor,
    weight: Tensor,
    steps: int,
    tolerance: float | None,
) -> Tensor:
    """[N, d]: v with product(v) + weight·v = m for means m [N, d], by conjugate gradients.

    Args:
        steps: the least number of steps.
        tolerance: go on until each residual is below this share of m; None to stop after `steps`.
    """
    solution = torch.zeros_like(mean)
    rest = mean
    direction = mean
    left = _square(rest)
    bound = None if tolerance is None else left * tolerance**2
    for step in range(1, max(steps, mean.shape[1]) + 1):
        image = torch.addcmul(product(direction), weight, direction)
        along = left / (direction * image).sum(dim=1, keepdim=True).clamp(min=_SMALLEST)
        solution = torch.addcmul(solution, along, direction)
        rest = torch.addcmul(rest, along, image, value=-1)
        remaining = _square(rest)
        direction = torch.addcmul(rest, remaining / left.clamp(min=_SMALLEST), direction)
        left = remaining
        if step >= steps and (bound is None or not bool((left > bound).any())):
            break
    return solution


def _by_products(tokens: Tensor, mask: Tensor, ridge: Tensor) -> Tensor:
    """[N, d]: the same as `pool_evenly`, with exact gradients; `ridge` is [N, 1].

    Σ h, Σ |h| and Σ h·hᵀ/|h| are summed over parts of a text, in constant memory.
    """
    texts, count, width = tokens.shape
    total = ridge.new_zeros(texts, width)
    lengths = ridge.new_zeros(texts, 1)
    products = ridge.new_zeros(texts, width, width)
    for start in range(0, count, _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        part_total, rows = _scaled(tokens[:, part], mask[:, part], ridge.dtype)
        total = total + part_total
        lengths = lengths + _square(rows).sum(dim=1)
        products = products + rows.mT @ rows
    lengths = lengths.clamp(min=_SMALLEST)
    mean = total / lengths
    weight = (ridge * _square(mean)).clamp(min=_SMALLEST)
    identity = torch.eye(width, dtype=ridge.dtype, device=tokens.device)
    matrix = products / lengths[:, :, None] + weight[:, :, None] * identity
    solution: Tensor = torch.linalg.solve(matrix, mean)
    return solution


def _square(vectors: Tensor) -> Tensor:
    """[…, 1]: the squared lengths of vectors […, d]."""
    return vectors.square().sum(dim=-1, keepdim=True)


def _length(vectors: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return length
