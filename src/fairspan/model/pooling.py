"""Which token's row a model pools, read from the modules that follow the transformer."""

from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule
from sentence_transformers.sentence_transformer.modules import Router
from torch import Tensor, nn

from fairspan.calibration.calibration import Pooling
from fairspan.errors import DesignError, UnsupportedModel

TOKENS = "token_embeddings"
PROMPT = "prompt_length"
"""The feature with the length of a batch's prompt in tokens, special ones in front included."""
EVENLY = "fairspan_evenly"
"""The feature that says which texts of a batch are pooled evenly: a bool for all, or [N], what the
ridge is multiplied by, infinity for texts that keep their mean."""


def prompt_length(features: Mapping[str, Any]) -> int | None:
    """The length of a batch's prompt, of which trainers make a tensor of shape (), (1) or (N)."""
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
    """How the output of one transformer becomes one vector, or one for each token.

    Attributes:
        module: the pooling module, whose settings may still change; None in a multi-vector encoder,
            which keeps all tokens.
        follows_directly: whether it is the next module, so that nothing else reads the tokens.
    """

    module: PoolingModule | None
    follows_directly: bool

    @property
    def pooling(self) -> Pooling:
        """ "cls", "lasttoken", or "mean" for everything that reads all tokens."""
        mode: Pooling = "mean" if self.module is None else self.module.pooling_mode
        return mode if mode in ("cls", "lasttoken") else "mean"

    @property
    def skips_prompt(self) -> bool:
        """Whether the prompt's tokens are not pooled."""
        return self.module is not None and not self.module.include_prompt

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


class PooledFeatures(UserDict[str, Any]):
    """Features that are pooled already; all but the pooling module get all tokens.

    The pooling module reads one token, and what it makes of that is replaced by `vectors` [N, D].

    Attributes:
        being_pooled: whether the pooling module has them.
    """

    def __init__(
        self, features: dict[str, Any], vectors: Tensor, all_tokens: Callable[[], dict[str, Any]]
    ) -> None:
        """The features of a batch with its vectors, and how to compute those of all tokens."""
        super().__init__({**features, TOKENS: vectors[:, None], EVENLY: False})
        self._vectors: Tensor | None = vectors
        self._all_tokens: Callable[[], dict[str, Any]] | None = all_tokens
        self.being_pooled = False

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "sentence_embedding" and self._vectors is not None:
            value = self._vectors
            self._vectors = None
            self.being_pooled = False
        self.data[key] = value

    def __getitem__(self, key: str) -> Any:
        is_of_tokens = key in (TOKENS, EVENLY)
        if is_of_tokens and self._all_tokens is not None and not self.being_pooled:
            self.data |= self._all_tokens()
            self._all_tokens = None
        return self.data[key]

    def __or__(self, other: Any) -> Any:
        return dict(self) | other


def _tell_features(module: nn.Module, arguments: tuple[Any, ...]) -> None:
    """Before a pooling module runs."""
    if arguments and isinstance(arguments[0], PooledFeatures):
        arguments[0].being_pooled = True


def announce(pooling: Any) -> None:
    """Let a pooling module tell `PooledFeatures` that it has them."""
    if not getattr(pooling, "tells_features", False):
        pooling.register_forward_pre_hook(_tell_features)
        pooling.tells_features = True


def pooling_of(
    model: SentenceTransformer | MultiVectorEncoder, transformer: nn.Module
) -> PoolingSite:
    """The pooling that follows `transformer` in `model`."""
    if isinstance(model, MultiVectorEncoder):
        return PoolingSite(None, follows_directly=False)
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
