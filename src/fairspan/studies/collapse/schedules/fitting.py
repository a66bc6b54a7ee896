"""`fit_schedule`: the temperature of each length bin, where its gain is beyond chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.calibration.temperature import PLAIN, LengthSchedule, check_temperature
from fairspan.errors import StatisticsError
from fairspan.stats.bootstrap import multiples, share
from fairspan.stats.distributions import t_below, t_quantile
from fairspan.studies.collapse.schedules.held_out import Split

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


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
    level: float
    notes: tuple[str, ...]

    @property
    def acts(self) -> bool:
        """Whether any text gets a temperature other than 1."""
        return any(one.temperature != 1 for one in self.bins)


@dataclass(frozen=True, slots=True)
class _Bootstrap:
    rng: np.random.Generator
    draws: int
    level: float
    least_documents: int

    def __post_init__(self) -> None:
        if not 0 < self.level < 1 or self.draws < 1 or self.least_documents < 2:
            raise StatisticsError(
                "level lies between 0 and 1, draws are at least 1 and least_documents at least 2, got "
                f"{self.level}, {self.draws} and {self.least_documents}."
            )


@dataclass(frozen=True, slots=True, eq=False)
class _Gains:
    """Mean gains over temperature 1 in each bin; temperatures fall from 1.

    Attributes:
        texts, documents: [B].
        mean, low: [B, T]; low is NaN for bins of too few documents.
    """

    texts: Numbers
    documents: Numbers
    mean: Floats
    low: Floats


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
        edges: where bins begin; the last one is open, and texts shorter than the first edge are left out.
        documents: [texts], whose texts are drawn together; by default each alone.
        split: rows outside its fit part are left out; needs `documents`.
        least_documents: a bin of fewer has no supported gain.
    """
    bootstrap = _Bootstrap(rng, draws, level, least_documents)
    table, size, names = _columns(scores, lengths, temperatures, documents)
    borders = _borders(edges)
    bins = np.searchsorted(borders, size, side="right") - 1
    used = bins >= 0
    if split is not None:
        if documents is None:
            raise StatisticsError("a split is by document: give the document of every text.")
        used &= split.in_fit(names)
    order = np.argsort([-value for value in temperatures])
    values = [float(temperatures[place]) for place in order]
    gains = (table[:, order] - table[:, order[:1]])[used]
    codes = np.unique(np.asarray(names, dtype=np.str_)[used], return_inverse=True)[1].astype(np.int64)
    found = _measure(gains, bins[used], codes, len(borders), bootstrap)
    # The largest supported gain of each bin; temperature 1, which gains 0, where none is supported.
    chosen = [values[place] for place in np.where(found.low > 0, found.mean, 0.0).argmax(1)]
    fitted = tuple(_bin(found, place, begin, values, chosen[place]) for place, begin in enumerate(borders))
    notes = tuple(
        f"the bin from {one.begin} tokens has {one.documents} documents, too few to be fitted by itself"
        for one in fitted
        if one.documents < least_documents
    )
    return FittedSchedule(_steps(borders, chosen), fitted, level, notes)


def _measure(gains: Floats, bins: Numbers, codes: Numbers, count: int, bootstrap: _Bootstrap) -> _Gains:
    """Gains[N, T] of each bin, with lower bounds that hold for all at once."""
    clusters = int(codes.max(initial=-1)) + 1
    sums, texts = np.zeros((clusters, count, gains.shape[1])), np.zeros((clusters, count))
    np.add.at(sums, (codes, bins), gains)
    np.add.at(texts, (codes, bins), 1)
    documents = (texts > 0).sum(0)
    mean = share(sums.sum(0), texts.sum(0)[:, None])
    low = np.full(mean.shape, np.nan)
    enough = documents >= bootstrap.least_documents
    if enough.any():
        low[enough] = _bounds(sums[:, enough], texts[:, enough], bootstrap)
    return _Gains(texts.sum(0).astype(np.int64), documents, mean, low)


def _bounds(sums: Floats, texts: Floats, bootstrap: _Bootstrap) -> Floats:
    """Simultaneous lower bounds [B, T] of the means of sums[C, B, T] over texts[C, B]."""
    flat, shape = sums.reshape(len(sums), -1), sums.shape[1:]
    mean = share(sums.sum(0), texts.sum(0)[:, None])
    away = np.concatenate(
        [
            share((weights @ flat).reshape(-1, *shape), (weights @ texts)[:, :, None]) - mean
            for weights in multiples(len(sums), bootstrap.rng, bootstrap.draws)
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
    z = max(0.0, float(np.quantile(largest, bootstrap.level)))
    reach = -t_quantile(t_below(-z, np.inf), documents - 1)
    return np.asarray(mean - np.where(varies, reach * error, 0.0))


def _bin(found: _Gains, place: int, begin: int, values: list[float], temperature: float) -> FittedBin:
    texts = int(found.texts[place])
    best = int(found.mean[place].argmax()) if texts else 0
    return FittedBin(
        begin=begin,
        texts=texts,
        documents=int(found.documents[place]),
        temperature=temperature,
        best=values[best],
        gain=float(found.mean[place, best]),
        low=float(found.low[place, best]),
    )


def _steps(borders: list[int], chosen: list[float]) -> LengthSchedule:
    before = [1.0, *chosen]
    steps = [step for step, last in zip(zip(borders, chosen, strict=True), before, strict=False) if step[1] != last]
    return LengthSchedule(steps) if steps else PLAIN


def _columns(
    scores: ArrayLike, lengths: ArrayLike, temperatures: Sequence[float], documents: Sequence[str] | None
) -> tuple[Floats, Floats, list[str]]:
    table, size = np.asarray(scores, np.float64), np.asarray(lengths, np.float64)
    values = [check_temperature(value) for value in temperatures]
    if len(set(values)) < len(values) or 1.0 not in values or len(values) < 2:
        raise StatisticsError(
            f"temperatures must differ, hold 1 to compare with and at least one other, got {values}."
        )
    if table.ndim != 2 or not len(table) or table.shape[1] != len(values):
        raise StatisticsError(
            f"scores must be [texts, temperatures] with a column for each of {len(values)} temperatures, got shape "
            f"{table.shape}."
        )
    names = [str(number) for number in range(len(table))] if documents is None else [str(name) for name in documents]
    if size.shape != (len(table),) or len(names) != len(table):
        raise StatisticsError(
            f"scores have {len(table)} rows, lengths {size.size} and documents {len(names)}: give one of each a text."
        )
    for name, column in (("scores", table), ("lengths", size)):
        if not np.isfinite(column).all():
            row = int(np.argwhere(~np.isfinite(column))[0][0])
            raise StatisticsError(f"{name} are not finite in row {row}: leave that text out or measure it again.")
    return table, size, names


def _borders(edges: Sequence[int]) -> list[int]:
    borders = [int(edge) for edge in edges]
    if not borders or borders[0] < 0 or any(b <= a for a, b in pairwise(borders)) or borders != list(edges):
        raise StatisticsError(f"edges are whole token counts that rise from 0 upwards, got {list(edges)}.")
    return borders
