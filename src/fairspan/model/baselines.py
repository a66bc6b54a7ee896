"""Baselines of the literature: whitening (Su et al. 2021) and last2avg (Li et al. 2020)."""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
    WeightedLayerPooling,
)
from torch import nn

from fairspan.attention.layers import evaluating, probe_input
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.model.build import copy_sharing_weights
from fairspan.model.transformer import calibrated_transformers

# Of the widest direction's variance. float32 holds seven digits: a direction that spreads less than
# 1e-5 as wide as the widest one is mostly rounding.
_NO_VARIANCE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """(x − μ)·W: μ is the `mean`, [d], and W = U·Λ^(−1/2) the `matrix`, [d, k].

    Directions are in order of falling variance.
    """

    mean: np.ndarray
    matrix: np.ndarray

    @property
    def fingerprint(self) -> str:
        """A hash of what a model carries of it."""
        digest = sha256(f"{self.matrix.shape}".encode())
        for part in (self.mean, self.matrix):
            digest.update(part.astype("<f4").tobytes())
        return digest.hexdigest()


def fit_whitening(vectors: np.ndarray, *, dimensions: int | None = None) -> Whitening:
    """The whitening of [N, d] vectors, whose covariance (over N − 1) it turns into the identity.

    It keeps the `dimensions` of largest variance, of which N has to be larger: whitened in all
    N − 1 directions in which they vary, N vectors are equally far from each other.
    """
    vectors = np.asarray(vectors, dtype=np.float64)
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(vectors.T)))
    variances = variances[::-1][:dimensions]
    directions = directions[:, ::-1][:, :dimensions]
    varied = variances > _NO_VARIANCE * variances[0]
    if not varied.any():
        raise DesignError(f"all {len(vectors)} vectors are the same: there is nothing to whiten.")
    directions = directions[:, varied]
    # The sign of an eigenvector is arbitrary: the largest component of each is made positive.
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])]
    signs = np.where(largest < 0, -1.0, 1.0)
    return Whitening(vectors.mean(axis=0), directions * signs / np.sqrt(variances[varied]))


def whiten(model: SentenceTransformer, whitening: Whitening) -> SentenceTransformer:
    """A SentenceTransformer whose vectors are whitened, on the same weights as `model`.

    The map is the last `Dense` module, without activation. Where the model normalises, the result
    is normalised again.
    """
    dense = Dense(
        *whitening.matrix.shape,
        activation_function=nn.Identity(),
        init_weight=torch.from_numpy(whitening.matrix.T.copy()),
        init_bias=torch.from_numpy(-whitening.mean @ whitening.matrix),
    )
    whitened = copy_sharing_weights(model)
    whitened.add_module("whitening", dense.to(model.device, model.dtype or torch.float32))
    if isinstance(list(model.children())[-1], Normalize):
        whitened.add_module("whitened_normalize", Normalize())
    return whitened


def last_two(model: SentenceTransformer) -> SentenceTransformer:
    """A SentenceTransformer that averages the last two layers, then all tokens.

    It shares the weights of `model`. The mean replaces the model's pooling, as in the literature;
    what follows the pooling is kept. The layers are transformers' hidden states: where a model
    normalises after its last layer, only the last one is normalised, and the other weighs more.
    """
    averaged = copy_sharing_weights(model)
    (name, transformer), *rest = averaged.named_children()
    pooling = rest[0][1] if rest else None
    if (
        not isinstance(transformer, Transformer)
        or not isinstance(pooling, Pooling)
        or transformer.backend != "torch"
    ):
        kinds = ", ".join(type(module).__name__ for module in model.children())
        raise UnsupportedModel(
            "last2avg reads the layers of a Transformer module that a Pooling follows, on the "
            f"torch backend; this model has {kinds}."
        )
    width = pooling.embedding_dimension
    transformer.model.config.output_hidden_states = True
    count = _count_states(transformer)
    average = WeightedLayerPooling(width, num_hidden_layers=count - 1, layer_start=count - 2)
    average.to(model.device, model.dtype)
    mean = Pooling(width, "mean", include_prompt=pooling.include_prompt)
    for old, _ in list(averaged.named_children()):
        delattr(averaged, old)
    for new, part in [(name, transformer), ("last_two", average), (rest[0][0], mean), *rest[1:]]:
        averaged.add_module(new, part)
    for module in calibrated_transformers(averaged):
        module.on_model_ready(averaged)
    return averaged


def _count_states(transformer: Transformer) -> int:
    """How many hidden states a pass gives, that of the embeddings included."""
    input_ids = probe_input(transformer.model)
    inputs = {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}
    with evaluating(transformer), torch.inference_mode():
        features = transformer(inputs)
    states = features.get("all_layer_embeddings") or ()
    shape = features["token_embeddings"].shape
    if len(states) < 3 or any(state.shape != shape for state in states[-2:]):
        raise UnsupportedModel(
            f"{type(transformer.model).__name__} does not give the hidden states of two layers "
            f"({len(states)} were given for output_hidden_states=True), so there is no last2avg of "
            "it."
        )
    return len(states)
