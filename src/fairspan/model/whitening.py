"""Whitening (Su et al. 2021): move vectors to their mean and give every direction the same variance."""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from torch import nn

from fairspan.errors import StatisticsError, UnsupportedModel
from fairspan.model.build import copy_sharing_weights

# Of the widest direction's variance. A float32 vector holds seven digits: what spreads less than 1e-5 as wide as the
# widest direction is rounding to a good part, and whitening would blow it up.
_NO_VARIANCE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """(x − μ)·W.

    Attributes:
        mean: μ, [d].
        matrix: W = U·Λ^(−1/2), [d, k], the directions in order of falling variance.
    """

    mean: np.ndarray
    matrix: np.ndarray

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """[N, d] → [N, k]."""
        return np.asarray((np.asarray(vectors, dtype=np.float64) - self.mean) @ self.matrix)

    @property
    def fingerprint(self) -> str:
        """A hash of what a model carries of it."""
        shape = f"{self.matrix.shape}".encode()
        return sha256(shape + b"".join(part.astype("<f4").tobytes() for part in (self.mean, self.matrix))).hexdigest()


def fit_whitening(vectors: np.ndarray, *, dimensions: int | None = None) -> Whitening:
    """The whitening of [N, d] vectors, whose covariance (over N − 1) it turns into the identity.

    Args:
        dimensions: how many directions of largest variance to keep; None keeps all.

    Directions without variance are omitted, so fewer may remain than were asked for.

    Raises:
        StatisticsError: if there are not more vectors than directions to keep. N vectors vary in N − 1 directions at
            most; whitened in all of them, all are equally far from each other, whatever their texts.
    """
    given = np.asarray(vectors, dtype=np.float64)
    if given.ndim != 2 or not np.isfinite(given).all():
        raise StatisticsError(f"a whitening is fitted on finite vectors, [N, d], got an array of {given.shape}.")
    count, width = given.shape
    wanted = width if dimensions is None else dimensions
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 1 <= wanted <= width:
        raise StatisticsError(f"dimensions must be a whole number from 1 to {width}, got {dimensions!r}.")
    if count <= wanted:
        raise StatisticsError(
            f"a whitening of {wanted} dimensions needs at least {wanted + 1} vectors, got {count}: give "
            f"{wanted + 1 - count} more, or keep fewer dimensions."
        )
    mean = given.mean(axis=0)
    centred = given - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / (count - 1))
    variances, directions = variances[::-1][:wanted], directions[:, ::-1][:, :wanted]
    varied = variances > _NO_VARIANCE * variances[0]
    if not varied.any():
        raise StatisticsError(f"all {count} vectors are the same: there is nothing to whiten.")
    directions = directions[:, varied] * _signs(directions[:, varied])
    return Whitening(mean, directions / np.sqrt(variances[varied]))


def whiten(model: SentenceTransformer, whitening: Whitening) -> SentenceTransformer:
    """A SentenceTransformer whose vectors are whitened, on the same weights as `model`, which stays as it is.

    The map comes last, as a `Dense` module without activation, because it is fitted on what the model gives. Where
    the model normalises, what comes out is normalised again. In half precision the map is as coarse as the vectors.

    Raises:
        UnsupportedModel: if the model's vectors are not those of the whitening.
    """
    refuse_truncated(model)
    width, kept = whitening.matrix.shape
    if model.get_embedding_dimension() != width:
        raise UnsupportedModel(
            f"the model's vectors have {model.get_embedding_dimension()} dimensions, and the whitening was fitted on "
            f"{width}."
        )
    dense = Dense(
        width,
        kept,
        activation_function=nn.Identity(),
        init_weight=torch.from_numpy(whitening.matrix.T.copy()),
        init_bias=torch.from_numpy(-whitening.mean @ whitening.matrix),
    )
    whitened = copy_sharing_weights(model)
    whitened.add_module("whitening", dense.to(model.device, model.dtype or torch.float32))
    if isinstance(list(model.children())[-1], Normalize):
        whitened.add_module("whitened_normalize", Normalize())
    return whitened


def refuse_truncated(model: SentenceTransformer) -> None:
    """Raise if the model cuts its vectors, which it would do after they are whitened."""
    if model.truncate_dim is not None:
        raise UnsupportedModel(
            f"truncate_dim={model.truncate_dim} would cut the vectors after they are whitened: load the model "
            "without it, and keep fewer dimensions of the whitening."
        )


def _signs(directions: np.ndarray) -> np.ndarray:
    """[k], so that the largest component of every direction is positive: an eigenvector has no sign of its own."""
    largest = np.abs(directions).argmax(axis=0)
    return np.where(directions[largest, np.arange(directions.shape[1])] < 0, -1.0, 1.0)
