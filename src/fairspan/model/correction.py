"""`LanguageCorrection`: a model's last module, which removes the part of a vector that depends on the language."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.module import Module
from torch import Tensor
from torch.nn.functional import normalize

from fairspan.calibration.treatment import read_correction
from fairspan.errors import DesignError, FairspanError, UnsupportedModel
from fairspan.model.fingerprint import fingerprint

Shares = Sequence[tuple[str, float]]
"""The languages of a text with their shares of it, which sum to 1; empty where they are not known."""

# Below it, of the length of a vector, a correction leaves nothing but rounding.
_NOTHING = 1e-6
# Singular values below it, of the largest, are rounding: the means have no such direction.
_NO_SPREAD = 1e-6
_FILE = "model.safetensors"


class LanguageCorrection(Module):
    """v − P·v, where P projects on the directions that a language puts into vectors.

    `subspace` removes the directions in which the means of languages differ, from every vector. `lir` removes the
    first principal components of the language of a text, which has to be named: `encode(texts, language="de")`. A
    text in several languages loses the mean of what each of them removes, weighted by its share. A language that was
    not fitted removes nothing.

    Attributes:
        method: as it is written, such as "subspace" or "lir-2".
        languages: those that it was fitted on.
        normalise: whether vectors are set to length 1 before and after, as a model that compares by cosine wants it.
        fitted_on: where the fit comes from: model, calibration, corpus, number of texts.
        directions: [L, k, d], orthonormal rows; [1, k, d] of `subspace`.
    """

    # The reference written to modules.json; it must not change when files move.
    __module__ = "fairspan.model"
    config_keys: ClassVar[list[str]] = ["method", "languages", "normalise", "fitted_on"]
    forward_kwargs: ClassVar[set[str]] = {"language"}

    directions: Tensor

    def __init__(
        self,
        method: str,
        languages: Sequence[str],
        directions: Tensor,
        *,
        normalise: bool = True,
        fitted_on: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.method, self.languages, self.normalise = method, list(languages), normalise
        self.fitted_on = dict(fitted_on or {})
        self.needs_language = read_correction(method)[0] == "lir"
        count = len(self.languages) if self.needs_language else 1
        if directions.ndim != 3 or len(directions) != count or not directions.isfinite().all():
            raise UnsupportedModel(
                f"these are not the directions of {method} for {len(self.languages)} languages"
            )
        self.register_buffer("directions", directions.contiguous())

    @classmethod
    def fit(
        cls, method: str, vectors: Mapping[str, np.ndarray], *, normalise: bool = True
    ) -> LanguageCorrection:
        """A correction from [n, d] vectors of each language, of the same n texts in the same order.

        `subspace` (LSAR, arXiv 2401.05792 after Xie et al. 2022): see `language_subspace`. `lir` (arXiv 2109.04727)
        removes the first principal component of the language's vectors, which are not centred; `lir-2` the first two.

        Raises:
            DesignError: if more directions are to be removed than there are.
        """
        name, rank = read_correction(method)
        given = {language: np.asarray(own, dtype=np.float64) for language, own in vectors.items()}
        if normalise:
            given = {
                language: normalize(torch.from_numpy(own)).numpy()
                for language, own in given.items()
            }
        if name == "subspace":
            means = np.stack([own.mean(axis=0) for own in given.values()])
            bases = language_subspace(means, rank)[None]
        else:
            _require_rank(method, rank or 1, min(next(iter(given.values())).shape) - 1)
            found = [np.linalg.svd(own, full_matrices=False)[2] for own in given.values()]
            bases = np.stack([components[: rank or 1] for components in found])
        return cls(method, list(given), torch.from_numpy(bases), normalise=normalise)

    @property
    def fingerprint(self) -> str:
        """A hash of what decides corrected vectors."""
        said = f"{self.method} {','.join(self.languages)} {self.normalise} {tuple(self.directions.shape)}"
        return sha256(said.encode() + self.directions.float().cpu().numpy().tobytes()).hexdigest()

    def forward(
        self, features: dict[str, Any], language: str | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        if self.needs_language and language is None:
            raise FairspanError(
                f"{self.method} needs the language of the texts: pass one per call, as in "
                f"encode_document(texts, language={self.languages[0]!r})."
            )
        vectors = features["sentence_embedding"]
        # The number of vectors stays open in an exported graph.
        shares = [[(language or "", 1.0)]] * len(vectors) if self.needs_language else []
        features["sentence_embedding"] = self._corrected(vectors, shares)
        return features

    def correct(self, vectors: np.ndarray, shares: Sequence[Shares]) -> np.ndarray:
        """[N, d] → [N, d], float32, of vectors that are computed already, given the languages of each text."""
        given = torch.from_numpy(np.asarray(vectors, dtype=np.float64))
        return self._corrected(given, shares).float().numpy()

    def _corrected(self, given: Tensor, shares: Sequence[Shares]) -> Tensor:
        before = normalize(given, dim=-1) if self.normalise else given
        after = before - self._removed(before, shares)
        # A vector that loses everything says nothing but its language: it stays, rather than become rounding.
        gone = after.norm(dim=-1, keepdim=True) <= _NOTHING * before.norm(dim=-1, keepdim=True)
        after = torch.where(gone, before, after)
        return normalize(after, dim=-1) if self.normalise else after

    def _removed(self, vectors: Tensor, shares: Sequence[Shares]) -> Tensor:
        bases = self.directions.to(vectors)
        if not self.needs_language:
            return vectors @ bases[0].T @ bases[0]
        weights = torch.zeros(len(shares), len(bases), dtype=torch.float64)
        for row, own in zip(weights, shares, strict=True):
            for language, share in own:
                known = self._known(language)
                if known is not None:
                    row[self.languages.index(known)] += share
        along = torch.einsum("nd,lkd->nlk", vectors, bases)
        return torch.einsum("nl,nlk,lkd->nd", weights.to(vectors), along, bases)

    def _known(self, language: str) -> str | None:
        """The fitted language that a text's language is: itself, or "de" for "de-AT"; None if there is none."""
        return next(
            (one for one in (language, language.partition("-")[0]) if one in self.languages), None
        )

    def untouched(self, shares: Sequence[Shares]) -> dict[str, int]:
        """How many texts have a part in each language that was not fitted; "" counts those of unknown language."""
        found: dict[str, int] = {}
        for own in shares if self.needs_language else ():
            for language in {one for one, _ in own} or {""}:
                if self._known(language) is None:
                    found[language] = found.get(language, 0) + 1
        return found

    def get_embedding_dimension(self) -> int:
        return self.directions.shape[-1]

    def save(
        self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any
    ) -> None:
        self.save_config(output_path)
        self.save_torch_weights(output_path)

    @classmethod
    def load(
        cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any
    ) -> LanguageCorrection:
        names = ("token", "cache_folder", "revision", "local_files_only")
        place = {"subfolder": subfolder, **{name: kwargs[name] for name in names if name in kwargs}}
        try:
            config = cls.load_config(model_name_or_path, **place)
            file = cls.load_file_path(model_name_or_path, _FILE, **place)
            directions = load_file(file or _FILE)["directions"]
            known = {"normalise": config["normalise"], "fitted_on": config["fitted_on"]}
            return cls(config["method"], config["languages"], directions, **known)
        except (KeyError, TypeError, FairspanError, SafetensorError, OSError) as error:
            where, said = Path(model_name_or_path) / subfolder, str(error).splitlines()[0]
            raise UnsupportedModel(f"{where} holds no language correction: {said}.") from None


def language_subspace(means: np.ndarray, rank: int | None = None) -> np.ndarray:
    """[r, d], orthonormal directions in which the means of languages [L, d] differ; r is L − 1 unless given.

    LSAR: min ‖M − c·1ᵀ − S·Γᵀ‖ over a common vector c and a part S of rank r with c ⊥ S, where M = [μ_1 … μ_L]. The
    solution (Xie et al. 2022, Algorithm 1) takes the mean of its columns out of M, keeps the first r singular
    directions of what remains, and takes for c the point nearest to the origin of the plane that they and the mean
    span. That point is orthogonal to the plane, and moving from the mean to it does not turn the plane: what is
    removed are the first r left singular vectors of M − μ·1ᵀ.
    """
    count, width = means.shape
    wanted = count - 1 if rank is None else rank
    _require_rank("subspace", wanted, min(count, width) - 1)
    middle = means.mean(axis=0)
    left, spread, _ = np.linalg.svd((means - middle).T, full_matrices=False)
    # Languages with the same mean have no direction between them.
    there = int((spread > _NO_SPREAD * max(spread[0], float(np.linalg.norm(middle)))).sum())
    if not there:
        raise DesignError("all languages have the same mean: there is nothing to remove.")
    return np.asarray(left[:, : min(wanted, there)].T)


def _require_rank(method: str, rank: int, most: int) -> None:
    if rank > most:
        raise DesignError(
            f"{method} would remove {rank} directions, and there are {most} at most: remove fewer, or give more "
            "languages or texts."
        )


def corrections_of(model: SentenceTransformer) -> Iterator[LanguageCorrection]:
    """The corrections among a model's modules."""
    return (module for module in model.modules() if isinstance(module, LanguageCorrection))


def add_correction(model: SentenceTransformer, fit: LanguageCorrection) -> None:
    """Put a correction at the end of a model, in place of one that is there.

    Raises:
        UnsupportedModel: unless it was fitted on vectors of this model.
    """
    if not isinstance(fit, LanguageCorrection):
        raise UnsupportedModel(
            f"correction takes what fairspan.fit_correction returns, got {type(fit).__name__}: fit it first."
        )
    if model.truncate_dim is not None:
        raise UnsupportedModel(
            f"truncate_dim={model.truncate_dim} would truncate the vectors after they are corrected: load the model "
            "without it."
        )
    for name in [
        name for name, module in model.named_children() if isinstance(module, LanguageCorrection)
    ]:
        delattr(model, name)
    if fit.fitted_on.get("fingerprint") != fingerprint(model):
        raise UnsupportedModel(
            f"the correction was fitted on another model, {fit.fitted_on.get('model')}: fit it on this one."
        )
    model.add_module(
        "correction", copy.deepcopy(fit).to(model.device, model.dtype or torch.float32)
    )
