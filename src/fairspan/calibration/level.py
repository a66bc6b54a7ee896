"""Level vectors: the same share of the direction that all vectors of a model have in common.

In an index, whatever has more of that direction looks a little like every query and wins: texts
read in tiles, and averages over many tokens. For a vector v, the direction μ, and b, the mean share
of it that general short texts have,

    level(v) = |v|·(b·μ + √(1 − b²)·r/|r|),   r = v − (v·μ)·μ.

Among level documents, b changes no ranking, and it makes no difference whether queries are level:
both change the scores of a query by one positive factor and one constant. All-but-the-top (Mu and
Viswanath 2018) removes such directions instead, from all vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairspan.errors import DesignError, first_line

LEAST = 20
"""The fewest vectors, or texts, that a common direction is found from."""
NO_REST = 1e-5
"""The share of a vector beside μ below which it is rounding; float32 holds seven digits."""
_CLOSEST = 1e-6
"""How near b may be to 0, where there is no common direction, and to 1, where there is no other."""


@dataclass(frozen=True, slots=True, eq=False)
class CommonDirection:
    """What the vectors of a model have in common; it is valid for the same weights only.

    Attributes:
        direction: [d] in float32, of length 1.
        share: the cosine with it that level vectors have, above 0 and below 1.
    """

    direction: np.ndarray
    share: float

    def __post_init__(self) -> None:
        """Check the values, and bring them into float32, which a model and its files keep."""
        try:
            direction = np.array(self.direction, dtype=np.float32)
            share = float(np.float32(self.share))
        except (TypeError, ValueError):
            raise DesignError("a common direction is a list of numbers and a share.") from None
        length = float(np.linalg.norm(direction.astype(np.float64)))
        if direction.ndim != 1 or not abs(length - 1) <= NO_REST:
            raise DesignError(
                f"a common direction is one vector of length 1, got shape {direction.shape} and "
                f"length {length:.6g}."
            )
        if not 0 <= share < 1:
            raise DesignError(f"share must be at least 0 and below 1, got {self.share!r}.")
        direction.flags.writeable = False
        object.__setattr__(self, "direction", direction)
        object.__setattr__(self, "share", share)

    def level(self, vectors: np.ndarray) -> np.ndarray:
        """[n, d]: vectors [n, d] with the same share of the direction; their lengths do not change.

        A vector that is all zero, along the direction, or has NaN stays as it is.
        Computed in float64; floats keep their dtype.
        """
        array = np.asarray(vectors)
        if array.ndim != 2 or array.shape[1] != len(self.direction):
            raise DesignError(
                f"this common direction levels vectors of {len(self.direction)} dimensions, "
                f"[n, {len(self.direction)}], got an array of shape {array.shape}."
            )
        v = array.astype(np.float64)
        mu = self.direction.astype(np.float64)
        b = self.share
        with np.errstate(invalid="ignore", divide="ignore"):
            rest = v - (v @ mu)[:, None] * mu
            rest_length = np.linalg.norm(rest, axis=1, keepdims=True)
            length = np.linalg.norm(v, axis=1, keepdims=True)
            leveled = length * (b * mu + math.sqrt(1 - b * b) * rest / rest_length)
            result = np.where(rest_length > NO_REST * length, leveled, v)
        is_float = np.issubdtype(array.dtype, np.floating)
        return result.astype(array.dtype if is_float else np.float64)

    def save(self, path: str | Path) -> None:
        """Write it as safetensors."""
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        share = np.array(self.share, dtype=np.float32)
        try:
            save_file({"direction": self.direction, "share": share}, path)
        except (OSError, SafetensorError) as error:
            raise DesignError(f"{path} cannot be written: {first_line(error)}.") from None

    @classmethod
    def load(cls, path: str | Path) -> CommonDirection:
        """Read what `save` wrote; also the `model.safetensors` of a saved model's `Level`."""
        from safetensors.numpy import load_file

        try:
            values = load_file(path)
            return cls(values["direction"], float(values["share"]))
        except FileNotFoundError:
            raise DesignError(f"there is no file {path}.") from None
        except OSError as error:
            raise DesignError(f"{path} cannot be read: {first_line(error)}.") from None
        except Exception as error:  # a damaged file raises errors of many kinds
            raise DesignError(
                f"{path} is not a file that CommonDirection.save wrote: {first_line(error)}"
            ) from None


def fit_level(vectors: np.ndarray) -> CommonDirection:
    """The direction that vectors [n, d] have in common, and their mean share of it.

    Pass plain vectors of about 50 general short texts, embedded with the model's document prompt.
    Do not use texts of your corpus: the direction would include its subject.

    Raises:
        DesignError: if there are fewer than 20, if some are all zero or not finite, or if all have
            the same direction.
    """
    v = np.asarray(vectors)
    if v.ndim != 2 or not np.issubdtype(v.dtype, np.number):
        raise DesignError(f"fit_level takes vectors [n, d], got an array of shape {v.shape}.")
    if len(v) < LEAST:
        raise DesignError(f"fit_level takes at least {LEAST} vectors, got {len(v)}.")
    v = v.astype(np.float64)
    length = np.linalg.norm(v, axis=1, keepdims=True)
    for fault, wrong in (("not finite", ~np.isfinite(length)), ("all zero", length == 0)):
        if wrong.any():
            raise DesignError(f"vector {int(wrong.argmax()) + 1} of {len(v)} is {fault}.")
    mean = (v / length).mean(axis=0)
    # The mean of the cosines with μ = m/|m| is m·μ = |m|.
    share = float(np.linalg.norm(mean))
    if share > 1 - _CLOSEST:
        raise DesignError(
            f"all {len(v)} vectors have the same direction, and nothing is left beside it: give "
            "different texts, or check that the model's tokenizer knows their words."
        )
    if share < _CLOSEST:
        raise DesignError(f"the {len(v)} vectors have no direction in common.")
    return CommonDirection(mean / share, share)
