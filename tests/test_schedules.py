"""Schedules: Theorem 3 plugged back, planted optima found again, noise left alone, and no test text in any fit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from fairspan import Calibration, LengthSchedule, calibrate
from fairspan.calibration.temperature import PLAIN
from fairspan.errors import CalibrationError, FairspanError, StatisticsError
from fairspan.model.plans import _inverse_temperature
from fairspan.stats.theorems import theorem_3_bound
from fairspan.studies.collapse.classification import training_part
from fairspan.studies.collapse.schedules import (
    FittedSchedule,
    Split,
    fit_schedule,
    keeping_temperature,
    reference_reach,
    split,
)

GRID = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
EDGES = (0, 100, 200, 400)
LENGTHS = (50, 150, 300, 700)


def by_hand(length: float, sigma_s: float) -> float:
    """LC Theorem 3 as METHODS §7 writes it."""
    return math.sqrt(length / (2 * math.sqrt(1 + math.exp(-2 * sigma_s**2)) * (length - 1) ** 1.5 + 1))


def one_line(action: Callable[[], object], kind: type[FairspanError]) -> str:
    with pytest.raises(kind) as caught:
        action()
    said = str(caught.value)
    assert "\n" not in said
    return said


# Theorem 3


def test_the_prediction_is_theorem_3s() -> None:
    lengths, spreads = np.meshgrid([2, 10, 100, 4000], [0.1, 1.0, 3.0])
    np.testing.assert_allclose(theorem_3_bound(lengths, spreads), np.vectorize(by_hand)(lengths, spreads), rtol=1e-12)


def test_a_temperature_divides_sigma_s(make_tiny: Callable[..., SentenceTransformer]) -> None:
    """The premise: in the first layer, whose inputs no temperature has changed. Float32 weights."""
    from fairspan.encoding.spectra import spectra

    plain = make_tiny()
    sharp = calibrate(plain, Calibration(strength=0, temperature=0.8))
    texts = ["a b c d e f g h"]
    before, after = (next(iter(spectra(model, texts, layers=None))).sigma_s for model in (plain, sharp))
    assert after[0] == pytest.approx(before[0] / 0.8, rel=1e-5)


@settings(max_examples=300, deadline=None)
@given(
    reference=st.integers(2, 2000),
    longer=st.floats(1.0, 1.99),
    known=st.floats(0.05, 3.0),
    own=st.floats(0.05, 3.0),
)
def test_the_temperature_solves_the_equation(reference: int, longer: float, known: float, own: float) -> None:
    length = reference * longer
    target = by_hand(reference, known)
    tau = float(keeping_temperature(length, own, target))
    if 0 < tau < 1:
        assert by_hand(length, own / tau) == pytest.approx(target, rel=1e-9)
    elif tau == 1:
        assert by_hand(length, own) >= target * (1 - 1e-12)
    else:
        assert tau == 0
        assert by_hand(length, 1e6) <= target * (1 + 1e-12), "no attention, however sharp, gets there"


@pytest.mark.parametrize("least", [0.1, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("sigma_s", [0.3, 1.0, 2.0])
def test_how_far_it_reaches(sigma_s: float, least: float) -> None:
    """By trying every length: at `least`, and with attention as sharp as can be."""
    found = reference_reach([10, 1000], sigma_s, 100, least=least)
    target = by_hand(100, sigma_s)
    at_least = [n for n in range(101, 400) if by_hand(n, sigma_s / least) >= target]
    at_any = [n for n in range(101, 400) if by_hand(n, 1e6) > target]
    assert found.reach == max(at_least, default=100)
    assert found.limit == max(at_any, default=100)
    assert found.reach <= found.limit < 200, "never twice the reference"
    assert str(found.limit) in found.note
    assert f"from {found.reach + 1} tokens" in found.note


@pytest.mark.parametrize(("sigma_s", "times"), [(0.5, 1.607), (1.0, 1.135), (2.0, 1.0003)])
def test_the_limit_is_as_documented(sigma_s: float, times: float) -> None:
    """1 + e^{−2σ_s²} times the reference, up to what L − 1 and + 1 in the formula do at 100,000 tokens."""
    assert reference_reach([10], sigma_s, 100_000).limit / 100_000 == pytest.approx(times, abs=1e-3)


def test_the_sharper_attention_is_the_less_far_temperatures_reach() -> None:
    limits = [reference_reach([10, 1000], sigma_s, 200).limit for sigma_s in (0.2, 0.5, 1.0, 1.5, 3.0)]
    assert limits == sorted(set(limits), reverse=True)
    assert limits[-1] == 200, "at a σ_s of 3 nothing is left to sharpen"
    # A σ_s that rises with length changes what a temperature reaches, but not what any would.
    flat, rising = (reference_reach([100, 200], [0.5, last], 100) for last in (0.5, 0.8))
    assert rising.reach > flat.reach
    assert rising.limit == flat.limit


def test_a_model_takes_the_steps_as_the_schedule_says() -> None:
    """Special tokens counted: the plan counts every token that is not padding."""
    schedule = LengthSchedule([(41, 0.9), (45, 0.8), (50, 0.7), (60, 0.5)])
    assert Calibration.from_json(Calibration(strength=0, temperature=schedule).to_json()).temperature == schedule
    lengths = [1, 40, 41, 45, 50, 60, 200]
    valid = torch.arange(200) < torch.tensor(lengths)[:, None]
    found = _inverse_temperature(schedule, valid)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), [1 / schedule.at(n) for n in lengths], rtol=1e-6)
    assert len(set(found.tolist())) > 4


def test_what_cannot_be_derived_is_refused() -> None:
    def said(*given: object, **more: float) -> str:
        return one_line(lambda: reference_reach(*given, **more), CalibrationError)  # type: ignore[arg-type]

    assert "above 0 and at most 1" in said([10, 100], 1.0, 50, least=0.0)
    assert "that rise" in said([100, 10], 1.0, 50)
    assert "one for each of 2 lengths" in said([10, 100], [1.0], 50)
    assert "above 0" in said([10, 100], [1.0, math.nan], 50)
    assert "above 0" in said([10, 100], 0.0, 50)
    assert "at least 2 tokens" in said([10, 100], 1.0, 1)
    assert "from 10 to 100 tokens" in said([10, 100], [1.0, 1.0], 200)


# Held-out data


def ids(count: int) -> list[str]:
    return [f"doc-{number}" for number in range(count)]


def test_parts_are_disjoint_whole_and_about_the_share() -> None:
    for share in (0.2, 0.5, 0.8):
        found = split(ids(2000), seed=1, share=share)
        assert not set(found.fit) & set(found.test)
        assert sorted([*found.fit, *found.test]) == sorted(ids(2000))
        # Five standard errors of a share of 2000.
        assert len(found.fit) / 2000 == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / 2000))


def test_a_part_stays_when_texts_come_or_go() -> None:
    few, many = split(ids(100)), split([*reversed(ids(300)), *ids(300)])
    assert set(few.fit) <= set(many.fit)
    assert set(few.test) <= set(many.test)
    assert set(split(ids(300), share=0.3).fit) < set(many.fit)
    assert set(split(ids(300), seed=1).fit) != set(many.fit)
    assert len(many.fit) + len(many.test) == 300, "an id that comes twice is in one part once"
    # Fixed for good: a change of the hash would move test texts into fits.
    assert split(ids(12)).fit == ("doc-4", "doc-7", "doc-8", "doc-11")


def test_splits_for_schedules_and_for_classifiers_are_independent() -> None:
    """The same ids and seed: a classifier's test texts fall into both parts of a schedule's split alike."""
    names = ids(2000)
    trained, fit = training_part(names, seed=0), split(names, seed=0).in_fit(names)
    assert np.mean(fit[trained]) == pytest.approx(0.5, abs=0.08)
    assert np.mean(fit[~trained]) == pytest.approx(0.5, abs=0.08)


def test_splits_that_cannot_be_made_are_refused() -> None:
    assert "between 0 and 1" in one_line(lambda: split(ids(9), share=1.0), StatisticsError)
    assert "one part" in one_line(lambda: split(["a"]), StatisticsError)
    assert "'c' is in neither part" in one_line(lambda: Split(("a",), ("b",)).in_fit(["a", "c"]), StatisticsError)


# Fitting


def planted(
    best: tuple[float, ...], documents: int, rng: np.random.Generator, noise: float = 0.1
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Scores that fall off with the square of the distance to each bin's best temperature; the documents of all bins
    are the same, and how hard a document is does not depend on temperature."""
    lengths = np.repeat(LENGTHS, documents)
    peak = -4 * (np.array(GRID) - np.repeat(best, documents)[:, None]) ** 2
    hard = np.tile(rng.normal(size=documents), len(LENGTHS))[:, None]
    return peak + hard + noise * rng.normal(size=peak.shape), lengths, ids(documents) * len(LENGTHS)


def fit(
    scores: np.ndarray, lengths: np.ndarray, documents: list[str] | None, seed: int = 0, **options: object
) -> FittedSchedule:
    options = {"draws": 399, **options}
    rng = np.random.default_rng(seed)
    return fit_schedule(scores, lengths, GRID, EDGES, rng=rng, documents=documents, **options)  # type: ignore[arg-type]


def test_a_planted_optimum_is_found() -> None:
    scores, lengths, documents = planted((1.0, 0.9, 0.8, 0.6), 100, np.random.default_rng(0))
    found = fit(scores, lengths, documents)
    assert found.schedule == LengthSchedule([(100, 0.9), (200, 0.8), (400, 0.6)])
    assert found.acts
    assert not found.notes
    assert [one.temperature for one in found.bins] == [one.best for one in found.bins] == [1.0, 0.9, 0.8, 0.6]
    assert [(one.begin, one.texts, one.documents) for one in found.bins] == [(edge, 100, 100) for edge in EDGES]
    last = found.bins[-1]
    assert last.gain == pytest.approx((scores[300:, 4] - scores[300:, 0]).mean())
    assert 0 < last.low < last.gain
    shuffled = np.random.default_rng(1).permutation(6)
    again = fit_schedule(
        scores[:, shuffled],
        lengths,
        [GRID[place] for place in shuffled],
        EDGES,
        rng=np.random.default_rng(0),
        documents=documents,
        draws=399,
    )
    assert again == found, "temperatures may come in any order"


@pytest.mark.parametrize("kind", ["normal", "hits"])
def test_noise_gives_no_schedule(kind: str) -> None:
    """At least 90 % of seeds, with 20 chances each to be taken in; with a bound for one chance it is about half."""
    plain = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=(160, 6))
        scores = noise if kind == "normal" else (noise > -0.8) * 1.0
        found = fit(scores, np.repeat(LENGTHS, 40), ids(40) * 4, seed, draws=299)
        assert found.acts == (found.schedule != PLAIN)
        plain += not found.acts
    assert plain >= 180


def test_the_best_is_passed_over_for_what_is_supported() -> None:
    """0.5 scores best by luck of a few texts; 0.9 gains a little on every text."""
    rng = np.random.default_rng(0)
    scores = np.zeros((100, 6))
    scores[:, 1] = 0.05 + 0.01 * rng.normal(size=100)
    scores[:3, 5] = 4.0
    found = fit(scores, np.full(100, 150), None)
    assert found.bins[1].best == 0.5
    assert found.bins[1].low < 0
    assert found.schedule == LengthSchedule([(100, 0.9), (200, 1.0)])


def test_temperatures_may_rise_with_length() -> None:
    scores, lengths, documents = planted((1.0, 0.7, 1.0, 0.7), 100, np.random.default_rng(0))
    found = fit(scores, lengths, documents)
    assert found.schedule == LengthSchedule([(100, 0.7), (200, 1.0), (400, 0.7)])


def test_the_fit_never_sees_the_test_part() -> None:
    """Whatever the test part's scores are, the fit is the same; without the split it is not."""
    scores, lengths, documents = planted((1.0, 0.9, 0.8, 0.6), 200, np.random.default_rng(0))
    parts = split(documents)
    inside = parts.in_fit(documents)
    spoilt = np.where(inside[:, None], scores, 100.0 * np.array(GRID)[::-1])
    found = fit(scores, lengths, documents, split=parts)
    assert fit(spoilt, lengths, documents, split=parts) == found
    assert [one.documents for one in found.bins] == [len(parts.fit)] * 4
    alone = fit(scores[inside], lengths[inside], [name for name in documents if name in parts.fit])
    assert alone == found
    assert fit(spoilt, lengths, documents).schedule != found.schedule


def test_texts_of_one_document_do_not_count_as_many() -> None:
    """Each text ten times over: the same bounds if the copies are known to be of one document, else closer ones."""
    rng = np.random.default_rng(0)
    scores, lengths = rng.normal(size=(60, 6)), np.full(60, 150)
    once = fit(scores, lengths, ids(60)).bins[1]
    tens = fit(np.repeat(scores, 10, axis=0), np.repeat(lengths, 10), list(np.repeat(ids(60), 10))).bins[1]
    apart = fit(np.repeat(scores, 10, axis=0), np.repeat(lengths, 10), None).bins[1]
    assert (tens.texts, tens.documents, apart.documents) == (600, 60, 600)
    assert tens.low == pytest.approx(once.low)
    assert once.gain - apart.low < 0.5 * (once.gain - once.low)


@pytest.mark.parametrize("count", [12, 50])
def test_a_bound_of_one_comparison_is_students(count: int) -> None:
    """One bin, one other temperature and normal gains: the one-sided t bound.

    A 95 % quantile of 9999 draws has a standard error of 0.021 of theirs; four are allowed.
    """
    stats = pytest.importorskip("scipy.stats")
    gain = 0.3 + stats.norm.ppf((np.arange(count) + 0.5) / count)
    scores = np.column_stack([np.zeros(count), gain])
    found = fit_schedule(
        scores, np.full(count, 9), [1.0, 0.8], [0], rng=np.random.default_rng(0), draws=9999, least_documents=2
    ).bins[0]
    error = gain.std(ddof=1) / math.sqrt(count)
    assert found.gain == pytest.approx(gain.mean())
    assert found.low == pytest.approx(gain.mean() - stats.t.ppf(0.95, count - 1) * error, abs=0.084 * error)


def test_bins_of_few_documents_keep_1() -> None:
    scores, lengths, documents = planted((1.0, 1.0, 0.7, 0.7), 100, np.random.default_rng(0))
    few = np.r_[:300, 300:310]
    alone = fit(scores[few], lengths[few], [documents[row] for row in few])
    assert alone.schedule == LengthSchedule([(200, 0.7), (400, 1.0)])
    assert alone.notes == ("the bin from 400 tokens has 10 documents, too few to be fitted by itself",)
    assert math.isnan(alone.bins[-1].low)
    assert alone.bins[-1].best == 0.7
    none = fit(scores[:200], lengths[:200], documents[:200])
    assert [one.texts for one in none.bins] == [100, 100, 0, 0]
    assert math.isnan(none.bins[-1].gain)
    assert none.schedule == PLAIN


def test_a_gain_that_is_the_same_for_every_text_is_supported() -> None:
    scores = np.zeros((40, 6))
    scores[:, 2] = 0.1
    assert fit(scores, np.full(40, 150), None).bins[1].temperature == 0.8
    assert not fit(np.zeros((40, 6)), np.full(40, 150), None).acts


def test_texts_shorter_than_the_first_edge_are_left_out() -> None:
    scores = np.zeros((80, 6))
    scores[:40, 3] = 1.0
    lengths = np.repeat([99, 100], 40)
    found = fit_schedule(scores, lengths, GRID, [100], rng=np.random.default_rng(0))
    assert (found.bins[0].texts, found.schedule) == (40, PLAIN)


def test_what_cannot_be_fitted_is_refused() -> None:
    scores, lengths = np.zeros((40, 6)), np.full(40, 150)

    def said(table: object = scores, sizes: object = lengths, grid: object = GRID, **more: object) -> str:
        edges = more.pop("edges", EDGES)
        rng = np.random.default_rng(0)
        return one_line(
            lambda: fit_schedule(table, sizes, grid, edges, rng=rng, **more),  # type: ignore[arg-type]
            StatisticsError,
        )

    assert "hold 1" in said(scores[:, :2], grid=(0.9, 0.8))
    assert "must differ" in said(scores[:, :3], grid=(1.0, 0.9, 0.9))
    assert "shape (40, 6)" in said(grid=(1.0, 0.9))
    assert "lengths 39" in said(sizes=lengths[1:])
    assert "row 3" in said(np.where(np.arange(40)[:, None] == 3, np.nan, scores))
    assert "token counts that rise" in said(edges=[100, 100])
    assert "token counts that rise" in said(edges=[0.5])
    assert "give the document" in said(split=Split(("a",), ("b",)))
    assert "in neither part" in said(split=Split(("a",), ("b",)), documents=ids(40))
    assert "level" in said(level=1.0)
    with pytest.raises(CalibrationError, match="at most 1"):
        fit_schedule(scores[:, :2], lengths, (1.0, 1.5), EDGES, rng=np.random.default_rng(0))
