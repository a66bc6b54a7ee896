"""`LanguageCorrection`: what vectors say about their language, fitted by language and taken away. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from fairspan.calibration.language_method import LanguageMethod
from fairspan.errors import StatisticsError

Shares = Sequence[tuple[str, float]]
"""The languages of a text with their shares of it, which sum to 1; empty where they are not known."""

# Below it, of the length of a vector, a correction leaves nothing but rounding.
NOTHING = 1e-6
# Singular values below it, of the largest, are rounding: the means have no such direction.
_NO_SPREAD = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class LanguageCorrection:
    """v − r_l(v), where r_l(v) is what the language l puts into a vector.

    `centre` and `shift` remove an offset of the language, `subspace` the projection on the directions in which the
    means of languages differ, `lir` the projection on the first directions of the language's own vectors. A text in
    several languages loses the mean of what each of them removes, weighted by its share: tokens of each language put
    their part into a mean of tokens. A language that was not fitted removes nothing. `subspace` treats all alike.

    Attributes:
        method: as it is written, such as "centre" or "lir-2".
        languages: those that it was fitted on.
        offsets: [L, d], one per language; of `centre` and `shift`.
        directions: [L, k, d], orthonormal rows; [1, k, d] of `subspace`.
        normalise: whether vectors are set to length 1 before and after, as a model that compares by cosine wants it.
        fitted_on: where the fit comes from: model, calibration, corpus, number of texts, pivot.
    """

    method: str
    languages: tuple[str, ...]
    offsets: np.ndarray | None = None
    directions: np.ndarray | None = None
    normalise: bool = True
    fitted_on: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs_language(self) -> bool:
        return LanguageMethod.read(self.method).needs_language

    @property
    def dimension(self) -> int:
        return int(self._matrices[0].shape[-1])

    @property
    def _matrices(self) -> list[np.ndarray]:
        return [one for one in (self.offsets, self.directions) if one is not None]

    @property
    def fingerprint(self) -> str:
        """A hash of what decides corrected vectors."""
        said = f"{self.method} {','.join(self.languages)} {self.normalise}"
        parts = [f"{one.shape}".encode() + one.astype("<f4").tobytes() for one in self._matrices]
        return sha256(said.encode() + b"".join(parts)).hexdigest()

    def knows(self, language: str) -> str | None:
        """The fitted language that a text's language is: itself, or "de" for "de-AT"; None if there is none."""
        return next((one for one in (language, language.partition("-")[0]) if one in self.languages), None)

    def weights(self, shares: Sequence[Shares]) -> np.ndarray:
        """[N, L], how much of each fitted language is in every text."""
        numbers = {language: number for number, language in enumerate(self.languages)}
        found = np.zeros((len(shares), len(self.languages)))
        for row, own in zip(found, shares, strict=True):
            for language, share in own:
                known = self.knows(language)
                if known is not None:
                    row[numbers[known]] += share
        return found

    def untouched(self, shares: Sequence[Shares]) -> dict[str, int]:
        """How many texts have a part in each language that was not fitted; "" counts those of unknown language."""
        found: dict[str, int] = {}
        if self.needs_language:
            for own in shares:
                for language in {one for one, _ in own} or {""}:
                    if self.knows(language) is None:
                        found[language] = found.get(language, 0) + 1
        return found

    def __call__(self, vectors: np.ndarray, shares: Sequence[Shares]) -> np.ndarray:
        """[N, d] → [N, d], float32, given the languages of each text."""
        given = np.asarray(vectors, dtype=np.float64)
        before = unit(given) if self.normalise else given
        removed = self.removed(before, None if not self.needs_language else self.weights(shares))
        after = before - removed
        # A vector that loses everything says nothing but its language: it stays, rather than become rounding.
        gone = np.linalg.norm(after, axis=1) <= NOTHING * np.linalg.norm(before, axis=1)
        after[gone] = before[gone]
        return np.asarray(unit(after) if self.normalise else after, dtype=np.float32)

    def removed(self, vectors: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """[N, d], what each vector loses, given [N, L] shares; those of a subspace are not asked for."""
        if self.offsets is not None:
            assert weights is not None
            return np.asarray(weights @ self.offsets)
        assert self.directions is not None
        if weights is None:
            (basis,) = self.directions
            return np.asarray(vectors @ basis.T @ basis)
        columns = zip(weights.T, self.directions, strict=True)
        return np.asarray(sum(weight[:, None] * (vectors @ basis.T @ basis) for weight, basis in columns))


def fit_correction(
    method: str,
    vectors: Mapping[str, np.ndarray],
    *,
    pivot: str | None = None,
    normalise: bool = True,
    fitted_on: Mapping[str, Any] | None = None,
) -> LanguageCorrection:
    """A correction from [n, d] vectors of each language, of the same n texts in the same order.

    With μ_l the mean of a language, M = [μ_1 … μ_L], and μ the mean of these, so that each language counts the same:

    - `centre` removes μ_l − μ.
    - `shift` (SHIFT, arXiv 2606.18801) removes the mean over texts of x_l − x_pivot.
    - `subspace` (LSAR, arXiv 2401.05792 after Xie et al. 2022): see `language_subspace`.
    - `lir` (arXiv 2109.04727) removes the first principal component of the language's vectors, which are not centred;
      `lir-2` the first two.

    Args:
        pivot: the language that `shift` moves others to; by default English, or the first language without it.

    Raises:
        StatisticsError: with one language, vectors that are not finite, or more directions than there are.
    """
    asked, languages = LanguageMethod.read(method), tuple(vectors)
    if len(languages) < 2:
        raise StatisticsError(
            f"{method} needs at least two languages to be fitted on, got {', '.join(languages) or 'none'}."
        )
    given = {language: np.asarray(own, dtype=np.float64) for language, own in vectors.items()}
    shapes = {own.shape for own in given.values()}
    if len(shapes) > 1 or any(own.ndim != 2 or not len(own) for own in given.values()):
        raise StatisticsError(
            f"a correction is fitted on the same texts in every language, [n, d], got {sorted(map(str, shapes))}."
        )
    broken = [language for language, own in given.items() if not np.isfinite(own).all()]
    if broken:
        raise StatisticsError(
            f"the vectors of {broken[0]!r} hold NaN or infinity: a correction needs finite vectors."
        )
    if normalise:
        given = {language: unit(own) for language, own in given.items()}
    known: dict[str, Any] = {"normalise": normalise, "fitted_on": dict(fitted_on or {})}
    means = np.stack([own.mean(axis=0) for own in given.values()])
    match asked.name:
        case "centre":
            return LanguageCorrection(method, languages, offsets=means - means.mean(axis=0), **known)
        case "shift":
            anchor = pivot_of(languages, pivot)
            known["fitted_on"] |= {"pivot": anchor}
            offsets = np.stack([(own - given[anchor]).mean(axis=0) for own in given.values()])
            return LanguageCorrection(method, languages, offsets=offsets, **known)
        case "subspace":
            basis = language_subspace(means, asked.rank)
            return LanguageCorrection(method, languages, directions=basis[None], **known)
        case _:
            rank = asked.rank or 1
            _require_rank(method, rank, min(next(iter(shapes))) - 1)
            bases = [np.linalg.svd(own, full_matrices=False)[2][:rank] for own in given.values()]
            return LanguageCorrection(method, languages, directions=np.stack(bases), **known)


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
        raise StatisticsError("all languages have the same mean: there is nothing to take away.")
    return np.asarray(left[:, : min(wanted, there)].T)


def pivot_of(languages: Sequence[str], pivot: str | None = None) -> str:
    """The language that `shift` moves others to."""
    if pivot is not None and pivot not in languages:
        raise StatisticsError(f"there is no language {pivot!r} to shift to: it is one of {', '.join(languages)}.")
    return pivot or ("en" if "en" in languages else languages[0])


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors [N, d] at length 1, those of length 0 as they are."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))


def _require_rank(method: str, rank: int, most: int) -> None:
    if rank > most:
        raise StatisticsError(
            f"{method} would remove {rank} directions, and there are {most} at most: remove fewer, or give more "
            "languages or texts."
        )
