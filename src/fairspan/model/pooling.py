"""Which token's row a model pools, read from the modules that follow the transformer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
from sentence_transformers.sentence_transformer.modules import Router
from torch import Tensor, nn

from fairspan.calibration.calibration import Pooling
from fairspan.errors import DesignError, UnsupportedModel

TOKENS = "token_embeddings"
PROMPT = "prompt_length"
"""The feature with the length of a batch's prompt in tokens, special ones in front included."""
EVENLY = "fairspan_evenly"
"""The feature that says which texts are pooled evenly: a bool for all, or [N], the factor of the
ridge of each text, infinity for texts that keep their mean."""


def prompt_length(features: Mapping[str, Any]) -> int | None:
    """The length of a batch's prompt. Trainers store it as a tensor of shape (), (1) or (N)."""
    length: int | Tensor | None = features.get(PROMPT)
    if not isinstance(length, Tensor):
        return length
    lengths = sorted(set(length.flatten().tolist()))
    if len(lengths) != 1:
        raise DesignError(
            f"the texts of a batch have prompts of {lengths} tokens: use one prompt per batch."
        )
    return int(lengths[0])


@dataclass(frozen=True, slots=True)
class PoolingSite:
    """How the output of one transformer becomes one vector.

    Attributes:
        module: the pooling module, whose settings may still change.
        follows_directly: whether it is the next module, so that nothing else reads the tokens.
    """

    module: PoolingModule
    follows_directly: bool

    @property
    def pooling(self) -> Pooling:
        """ "cls", "lasttoken", or "mean" for everything that reads all tokens."""
        mode: Pooling = self.module.pooling_mode
        return mode if mode in ("cls", "lasttoken") else "mean"

    @property
    def skips_prompt(self) -> bool:
        """Whether the prompt's tokens are not pooled."""
        return not self.module.include_prompt

    def pooled_rows(self, valid: Tensor, prompt_length: int | None) -> Tensor:
        """[N], the row that is pooled of each text, given [N, L] bool."""
        if self.pooling == "lasttoken":
            return valid.shape[1] - 1 - valid.flip(1).int().argmax(dim=1)
        first = valid.int().argmax(dim=1)
        if self.skips_prompt and prompt_length:
            # For a text that is all prompt, the pooling module uses the batch's first position.
            pooled = first + prompt_length
            return torch.where(prompt_length < valid.sum(dim=1), pooled, 0)
        return first


def pooling_of(model: SentenceTransformer, transformer: nn.Module) -> PoolingSite:
    """The pooling that follows `transformer` in `model`."""
    for sequence in _sequences(model):
        if transformer not in sequence:
            continue
        after = sequence[sequence.index(transformer) + 1 :]
        for distance, module in enumerate(after):
            if isinstance(module, PoolingModule):
                return PoolingSite(module, follows_directly=distance == 0)
    raise UnsupportedModel(
        "no Pooling module follows the transformer, so fairspan cannot tell which row becomes the "
        "embedding. Build the model as SentenceTransformer(modules=[transformer, "
        "Pooling(dimension, 'cls' or 'mean')])."
    )


def _sequences(model: SentenceTransformer) -> Iterator[list[nn.Module]]:
    """The modules a text may go through: the model's, and those of each route of a Router."""
    modules = list(model.children())
    yield modules
    for number, module in enumerate(modules):
        if isinstance(module, Router):
            for route in module.sub_modules.values():
                yield [*route, *modules[number + 1 :]]
