"""Temperatures by length: what LC Theorem 3 can keep, and schedules fitted on texts that are not tested.

Lengths are those a schedule is evaluated at: tokens as the model reads them, prompt and special ones counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.calibration.temperature import PLAIN, LengthSchedule, check_temperature
from fairspan.errors import CalibrationError, StatisticsError
from fairspan.stats.bootstrap import multiples, share
from fairspan.stats.distributions import t_below, t_quantile
from fairspan.stats.theorems import theorem_3_bound

Floats = NDArray[np.float64]


def keeping_temperature(lengths: ArrayLike, sigma_s: ArrayLike, target: float) -> Floats:
    """The temperature τ at which LC Theorem 3 predicts the σ_a `target` of texts of more than one token.

    Scores are divided by τ (LC eq. 6), and with them their standard deviation: σ_s becomes σ_s/τ. So

        √(1 + e^{−2(σ_s/τ)²}) = c        c = (L/target² − 1) / (2 (L − 1)^{3/2})
        τ = σ_s / √(−½ ln(c² − 1))

    1 where the prediction is no lower than the target already, and 0 where no temperature above 0 gets there: however
    sharp attention is, the root on the left stays above 1.
    """
    length, s = np.asarray(lengths, np.float64), np.asarray(sigma_s, np.float64)
    c = (length / target**2 - 1) / (2 * (length - 1) ** 1.5)
    rest = np.where(c > 1, c**2 - 1, 0.0)
    solved = (rest > 0) & (rest < np.exp(-2 * s**2))
    tau = s / np.sqrt(-np.log(np.where(solved, rest, 0.5)) / 2)
    return np.where(solved, tau, np.where(rest > 0, 1.0, 0.0))


@dataclass(frozen=True, slots=True)
class Reach:
    """How far Theorem 3 can make up for length.

    Attributes:
        reference: the length whose predicted σ_a is to be kept.
        least: the lowest temperature allowed.
        reach: the longest text that keeps it; `reference` if no longer one does.
        limit: the longest text that would at any temperature above 0.
    """

    reference: int
    least: float
    reach: int
    limit: int

    @property
    def note(self) -> str:
        """What a reader of the schedule should know."""
        kept = f"up to {self.reach} tokens" if self.reach > self.reference else "in no longer text"
        return (
            f"LC Theorem 3: temperatures down to {self.least:g} keep the predicted σ_a of {self.reference} tokens "
            f"{kept}, and no temperature does beyond {self.limit} tokens; from {self.reach + 1} tokens, "
            f"{self.least:g} is too high to keep it"
        )


def reference_reach(lengths: Sequence[int], sigma_s: ArrayLike, reference: int, *, least: float = 0.5) -> Reach:
    """Up to which length a temperature keeps the σ_a that LC Theorem 3 predicts of `reference` tokens.

    **The equation has a solution for slightly longer texts only**: a lower temperature takes √(1 + e^{−2σ_s²}) from
    at most √2 to no less than 1, whereas the prediction falls with ⁴√L. So a text can be at most about 1 + e^{−2σ_s²}
    times as long as the reference, with σ_s of the reference: 1.6 times for 0.5, 1.14 times for 1, 1.0003 times for
    2, and never twice.

    The theorem bounds σ_a of independent Gaussian scores, and that of trained attention may differ. It is
    about one layer: a temperature in every layer also changes the inputs of later ones, and so their σ_s.

    Args:
        lengths: where σ_s was measured. In between it is interpolated along log L, and beyond held.
        sigma_s: [lengths], at temperature 1, or one number for all.
        least: the lowest temperature allowed, above 0 and at most 1.
    """
    check_temperature(least)
    knots, spread = np.asarray(lengths, np.float64), np.asarray(sigma_s, np.float64)
    if knots.ndim != 1 or not len(knots) or knots[0] < 1 or (np.diff(knots) <= 0).any():
        raise CalibrationError(f"lengths are token counts from 1 that rise, got {list(lengths)}.")
    if spread.shape not in ((), knots.shape) or not (np.isfinite(spread) & (spread > 0)).all():
        raise CalibrationError(
            f"sigma_s must be one number above 0, or one for each of {len(knots)} lengths, got {spread.tolist()}."
        )
    if reference < 2:
        raise CalibrationError(f"reference must be at least 2 tokens, got {reference!r}.")
    if spread.ndim and not knots[0] <= reference <= knots[-1]:
        raise CalibrationError(
            f"sigma_s is known from {knots[0]:g} to {knots[-1]:g} tokens, and the reference is {reference}: choose "
            "one in between, or measure texts of that length."
        )
    # Nothing keeps a text of twice the reference.
    longer = np.arange(reference, 2 * reference + 1)
    own = np.interp(np.log(longer), np.log(knots), np.broadcast_to(spread, knots.shape))
    target = float(theorem_3_bound(reference, own[0]))
    wanted = keeping_temperature(longer[1:], own[1:], target)
    reach, limit = (int(longer[1:][kept].max(initial=reference)) for kept in (wanted >= least, wanted > 0))
    return Reach(reference, float(least), reach, limit)


@dataclass(frozen=True, slots=True)
class Split:
    """Ids in two parts, each in the order they were given, without repetitions."""

    fit: tuple[str, ...]
    test: tuple[str, ...]

    def in_fit(self, documents: Iterable[str]) -> NDArray[np.bool_]:
        """Which rows belong to the fit part, given the document of each."""
        parts = dict.fromkeys(self.fit, True) | dict.fromkeys(self.test, False)
        listed = list(documents)
        unknown = [name for name in listed if name not in parts]
        if unknown:
            raise StatisticsError(f"the document {unknown[0]!r} is in neither part: split all documents first.")
        return np.array([parts[name] for name in listed], dtype=np.bool_)


def split(ids: Iterable[str], seed: int = 0, share: float = 0.5, *, purpose: str = "schedule") -> Split:
    """A part to fit on, of about `share`, and a part to test on.

    An id's part depends on the id, `seed` and `share` alone: it stays when other ids come or go, and a smaller share
    only takes ids out of the fit part. Splits for different purposes are independent of each other. Give the id of
    the document, so that all of its texts fall together.
    """
    if not 0 < share < 1:
        raise StatisticsError(f"share must be between 0 and 1, got {share}.")
    names = list(dict.fromkeys(ids))
    fit = {name for name in names if _draw(name, seed, purpose) < share}
    if len(fit) in (0, len(names)):
        raise StatisticsError(
            f"{len(names)} documents fall into one part at a share of {share} with the seed {seed}: give more."
        )
    return Split(tuple(name for name in names if name in fit), tuple(name for name in names if name not in fit))


def _draw(name: str, seed: int, purpose: str) -> float:
    """A number in [0, 1) that looks random."""
    digest = blake2b(f"{purpose}\0{seed}\0{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@dataclass(frozen=True, slots=True)
class FittedBin:
    """What the fit saw of the texts of one bin alone, and the temperature that it gave them.

    Attributes:
        begin: the shortest length of the bin.
        temperature: what the schedule has here.
        best: the temperature with the best mean score.
        gain: mean score at `best` less that at 1; NaN without texts.
        low: simultaneous lower bound of that gain; NaN with too few documents to tell.
    """

    begin: int
    texts: int
    documents: int
    temperature: float
    best: float
    gain: float
    low: float


@dataclass(frozen=True, slots=True)
class FittedSchedule:
    """A schedule, and what it was fitted on; gains are those of the fit and flatter it, so test it elsewhere."""

    schedule: LengthSchedule
    bins: tuple[FittedBin, ...]
    notes: tuple[str, ...]

    @property
    def acts(self) -> bool:
        """Whether any text gets a temperature other than 1."""
        return any(one.temperature != 1 for one in self.bins)


def fit_schedule(
    scores: ArrayLike,
    lengths: ArrayLike,
    temperatures: Sequence[float],
    edges: Sequence[int],
    *,
    rng: np.random.Generator,
    documents: Sequence[str] | None = None,
    split: Split | None = None,
    level: float = 0.95,
    draws: int = 1999,
    least_documents: int = 30,
) -> FittedSchedule:
    """The temperature that scores best in each length bin, where its gain over temperature 1 is supported.

    A gain is supported if its lower bound is above 0. The bounds hold at `level` for all bins and temperatures at
    once (a paired bootstrap of whole documents, by its largest studentised deviation), so that noise moves any bin
    away from 1 in about 1 − level of cases, however many are tried.

    Args:
        scores: [texts, temperatures], higher is better; a text may be a query.
        lengths: [texts].
        temperatures: 1 among them.
        edges: where bins begin; the last one is open, and texts shorter than the first edge are not used.
        documents: [texts], whose texts are drawn together; by default each alone.
        split: rows outside its fit part are not used; needs `documents`.
        least_documents: a bin of fewer has no supported gain.
    """
    if not 0 < level < 1 or draws < 1 or least_documents < 2:
        raise StatisticsError(
            "level must be between 0 and 1, draws at least 1 and least_documents at least 2, got "
            f"{level}, {draws} and {least_documents}."
        )
    table, size, names = _columns(scores, lengths, temperatures, documents)
    borders = [int(edge) for edge in edges]
    if not borders or borders[0] < 0 or any(b <= a for a, b in pairwise(borders)) or borders != list(edges):
        raise StatisticsError(f"edges are whole token counts that rise from 0 upwards, got {list(edges)}.")
    bins = np.searchsorted(borders, size, side="right") - 1
    used = bins >= 0
    if split is not None:
        if documents is None:
            raise StatisticsError("a split is by document: give the document of every text.")
        used &= split.in_fit(names)
    order = np.argsort([-value for value in temperatures])
    values = [float(temperatures[place]) for place in order]
    gains = (table[:, order] - table[:, order[:1]])[used]
    codes = np.unique(np.asarray(names, dtype=np.str_)[used], return_inverse=True)[1]
    shape = int(codes.max(initial=-1)) + 1, len(borders)
    sums, texts = np.zeros((*shape, len(values))), np.zeros(shape)
    np.add.at(sums, (codes, bins[used]), gains)
    np.add.at(texts, (codes, bins[used]), 1)
    mean, counts = share(sums.sum(0), texts.sum(0)[:, None]), (texts > 0).sum(0)
    low, enough = np.full(mean.shape, np.nan), counts >= least_documents
    if enough.any():
        low[enough] = _bounds(sums[:, enough], texts[:, enough], rng, draws, level)
    # The largest supported gain of each bin; temperature 1, which gains 0, where none is supported.
    chosen = [values[place] for place in np.where(low > 0, mean, 0.0).argmax(1)]
    fitted = tuple(
        FittedBin(
            begin=begin,
            texts=int(texts[:, place].sum()),
            documents=int(counts[place]),
            temperature=chosen[place],
            best=values[best],
            gain=float(mean[place, best]),
            low=float(low[place, best]),
        )
        for place, (begin, best) in enumerate(zip(borders, mean.argmax(1), strict=True))
    )
    notes = tuple(
        f"the bin from {one.begin} tokens has {one.documents} documents, too few to be fitted by itself"
        for one in fitted
        if one.documents < least_documents
    )
    before = [1.0, *chosen]
    steps = [step for step, last in zip(zip(borders, chosen, strict=True), before, strict=False) if step[1] != last]
    return FittedSchedule(LengthSchedule(steps) if steps else PLAIN, fitted, notes)


def _bounds(sums: Floats, texts: Floats, rng: np.random.Generator, draws: int, level: float) -> Floats:
    """Simultaneous lower bounds [B, T] of the means of sums[C, B, T] over texts[C, B]."""
    flat, shape = sums.reshape(len(sums), -1), sums.shape[1:]
    mean = share(sums.sum(0), texts.sum(0)[:, None])
    away = np.concatenate(
        [
            share((weights @ flat).reshape(-1, *shape), (weights @ texts)[:, :, None]) - mean
            for weights in multiples(len(sums), rng, draws)
        ]
    )
    deviation = np.nanstd(away, axis=0)
    # Gains that are the same for all texts differ between samples by rounding alone.
    varies = deviation > 1e-12 * np.abs(sums).max()
    if not varies.any():
        return mean
    largest = np.nanmax(away[:, varies] / deviation[varies], axis=1)
    documents = (texts > 0).sum(0)[:, None]
    error = deviation * np.sqrt(documents / (documents - 1))
    z = max(0.0, float(np.quantile(largest, level)))
    reach = -t_quantile(t_below(-z, np.inf), documents - 1)
    return np.asarray(mean - np.where(varies, reach * error, 0.0))


def _columns(
    scores: ArrayLike, lengths: ArrayLike, temperatures: Sequence[float], documents: Sequence[str] | None
) -> tuple[Floats, Floats, list[str]]:
    table, size = np.asarray(scores, np.float64), np.asarray(lengths, np.float64)
    values = [check_temperature(value) for value in temperatures]
    if len(set(values)) < len(values) or 1.0 not in values or len(values) < 2:
        raise StatisticsError(
            f"[[temperatures]] must differ, hold 1 to compare with and at least one other, got {values}."
        )
    if table.ndim != 2 or not len(table) or table.shape[1] != len(values):
        raise StatisticsError(
            f"scores must be [texts, temperatures] with a column for each of {len(values)} temperatures, got shape "
            f"{table.shape}."
        )
    names = [str(number) for number in range(len(table))] if documents is None else [str(name) for name in documents]
    if size.shape != (len(table),) or len(names) != len(table):
        raise StatisticsError(
            f"scores have {len(table)} rows, lengths {size.size} and documents {len(names)}: each text needs one."
        )
    for name, column in (("scores", table), ("lengths", size)):
        if not np.isfinite(column).all():
            row = int(np.argwhere(~np.isfinite(column))[0][0])
            raise StatisticsError(f"{name} are not finite in row {row}: omit that text or measure it again.")
    return table, size, names
