"""Which token's row a model pools, read from the modules that follow the transformer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
from sentence_transformers.sentence_transformer.modules import Router
from torch import Tensor, nn

from fairspan.calibration import Pooling
from fairspan.errors import UnsupportedModel


@dataclass(frozen=True, slots=True)
class PoolingSite:
    """How the output of one transformer becomes one vector.

    Attributes:
        pooling: "cls", "lasttoken", or "mean" for everything that reads all tokens.
        skips_prompt: whether the prompt's tokens are left out of pooling.
        follows_directly: whether the pooling module is the next one, so that nothing else reads the tokens.
    """

    pooling: Pooling
    skips_prompt: bool = False
    follows_directly: bool = False

    def pooled_rows(self, valid: Tensor, prompt_length: int | None) -> Tensor:
        """[N], the row that is pooled of each text, given [N, L] bool."""
        if self.pooling == "lasttoken":
            return valid.shape[1] - 1 - valid.flip(1).int().argmax(dim=1)
        first = valid.int().argmax(dim=1)
        if self.skips_prompt and prompt_length:
            last = first + valid.sum(dim=1) - 1
            first = torch.minimum(first + prompt_length, last)
        return first


def pooling_of(model: SentenceTransformer, transformer: nn.Module) -> PoolingSite:
    """The pooling that follows `transformer` in `model`."""
    for sequence in _sequences(model):
        if transformer not in sequence:
            continue
        after = sequence[sequence.index(transformer) + 1 :]
        for distance, module in enumerate(after):
            if isinstance(module, PoolingModule):
                return PoolingSite(_kind(module), not module.include_prompt, distance == 0)
    raise UnsupportedModel(
        "no Pooling module follows the transformer, so fairspan cannot tell which row becomes the embedding. "
        "Build the model as SentenceTransformer(modules=[transformer, Pooling(dimension, 'cls' or 'mean')])."
    )


def _sequences(model: SentenceTransformer) -> Iterator[list[nn.Module]]:
    """The module sequences a text may take: the model's own, and each route of a Router with what follows it."""
    modules = list(model.children())
    yield modules
    for place, module in enumerate(modules):
        if isinstance(module, Router):
            for route in module.sub_modules.values():
                yield [*route, *modules[place + 1 :]]


def _kind(module: PoolingModule) -> Pooling:
    mode = module.pooling_mode
    if mode == "cls":
        return "cls"
    return "lasttoken" if mode == "lasttoken" else "mean"
