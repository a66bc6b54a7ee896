"""What is decided from rows whose values are known, and what is said of it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from fairspan.stats.gains import is_worse
from fairspan.studies.evaluate.verdicts import verdicts_of
from fairspan.studies.tune.decision import decide
from tests.studies.tune.simulated import NAMES, PLAIN, Values, evaluation_log, tuning_log

DOCUMENTS, QUERIES = 40, 2
Gain = float | tuple[float, float]
"""Of a candidate on all documents, or on short and on long ones."""


def found(gains: dict[str, Gain], spread: float = 0.02) -> Values:
    """Half of the short and half of the long documents gain more by the spread, the others less:
    gains have a standard error of spread / √(DOCUMENTS − 1)."""
    documents = np.arange(DOCUMENTS)
    values = {PLAIN: np.full((DOCUMENTS, QUERIES), 0.5)}
    for name, gain in gains.items():
        short, long = gain if isinstance(gain, tuple) else (gain, gain)
        changes = np.where(documents % 2, long, short) + spread * (-1.0) ** (documents // 2)
        values[name] = values[PLAIN] + changes[:, None]
    return values


def random_values(rng: np.random.Generator) -> Values:
    """Candidates with gains and losses of the size of their errors, other ones for short and for
    long documents."""
    documents = 2 * int(rng.integers(10, 40))
    plain = rng.random((documents, QUERIES))
    is_long = np.arange(documents)[:, None] % 2
    values = {PLAIN: plain}
    for name in NAMES[: rng.integers(1, 6)]:
        short, long = rng.normal(0.01, 0.03, 2)
        spread = rng.choice([0.0, 0.03, 0.1])
        values[name] = plain + np.where(is_long, long, short) + rng.normal(0, spread, plain.shape)
    return values


def test_tune_and_evaluate_never_disagree() -> None:
    """On the same rows in another order: "use" exactly if a verdict of evaluate is "better", and
    only what has this verdict."""
    rng = np.random.default_rng(0)
    seen = Counter[str]()
    for _ in range(40):
        values = random_values(rng)
        margin = float(rng.choice([0.0, 0.01, 0.05]))
        decision = decide(tuning_log(values, margin=margin))
        evaluated = verdicts_of(evaluation_log(values), margin)
        assert [*decision.verdicts.values()] == evaluated
        better = [item.treatment for item in evaluated if item.verdict == "better"]
        assert (decision.name in better) if better else (decision.name is None)
        seen["use" if better else "keep"] += 1
        seen.update(item.verdict for item in evaluated)
    words = ("use", "keep", "better", "worse", "not worse", "inconclusive")
    assert all(seen[word] >= 3 for word in words), seen
    assert any("better for" in word for word in seen), seen


@pytest.mark.parametrize(("gain", "answer"), [(0.03, "use"), (0.0, "keep")])
def test_what_is_shown_is_what_evaluate_shows(gain: float, answer: str) -> None:
    values = found({"c0": gain})
    view = tuning_log(values).view
    (shown,) = view.frame("verdicts").to_dicts()
    (evaluated,) = evaluation_log(values).verdicts.to_dicts()
    assert shown["verdict"] == answer
    assert (evaluated["verdict"] == "better") == (answer == "use")
    about_all, about_lengths = evaluated["sentence"].split(" short documents")
    assert about_all in shown["sentence"]
    assert (about_lengths in shown["sentence"]) == (answer == "use")
    assert view.cards[0].name == ("c0" if answer == "use" else PLAIN)
    assert view.frame("candidates")["verdict"].to_list() == [evaluated["verdict"]]


@pytest.mark.parametrize(("margin", "name"), [(0.01, "c1"), (0.001, "c0")])
def test_of_candidates_about_as_good_the_milder_one_is_used(margin: float, name: str) -> None:
    values = found({"c0": 0.060, "c1": 0.055, "c2": 0.0})
    distances = {"c0": 0.3, "c1": 0.1, "c2": 0.01}
    decision = decide(tuning_log(values, margin=margin, distances=distances))
    assert decision.name == name
    verdicts = [item.verdict == "better" for item in decision.verdicts.values()]
    assert verdicts == [True, True, False]


def test_what_short_documents_lose_by_is_not_used() -> None:
    """It gains most over all documents, and what gains less is used instead."""
    gains: dict[str, Gain] = {"c0": (-0.05, 0.25), "c1": 0.03}
    decision = decide(tuning_log(found(gains)))
    assert decision.verdicts["c0"].verdict == "better for long, worse for short documents"
    assert decision.verdicts["c0"].overall.change.estimate == pytest.approx(0.1)
    assert decision.name == "c1"
    alone = tuning_log(found({"c0": gains["c0"]}))
    assert decide(alone).name is None
    (said,) = alone.verdicts["sentence"]
    assert said.startswith("No treatment is shown to help. The best, c0 (")
    assert "better for long, worse for short documents, ndcg@10 0.500 → 0.600" in said
    assert "short documents (at most 512 tokens; 20 documents): 0.500 → 0.450" in said


GAINS: dict[str, Gain] = {"c0": 0.2, "c1": 0.1, "c2": 0.05}


@pytest.mark.parametrize(
    ("on_guards", "name", "unguarded", "lost"),
    [
        # A guard is asked for one candidate at a time.
        ([{}], None, "c0", {}),
        ([{"c0": -0.05}], None, "c1", {"c0": "task 1"}),
        ([{"c0": -0.05, "c1": 0.0}], "c1", None, {"c0": "task 1"}),
        # On either of two, and also where only the short documents of a guard lose.
        (
            [{"c0": -0.05, "c1": 0.0, "c2": 0.0}, {"c0": 0.0, "c1": (-0.05, 0.1), "c2": -0.05}],
            None,
            None,
            {"c0": "task 1", "c1": "task 2", "c2": "task 2"},
        ),
    ],
)
def test_what_loses_on_a_guard_makes_room_for_the_next(
    on_guards: list[dict[str, Gain]], name: str | None, unguarded: str | None, lost: dict[str, str]
) -> None:
    log = tuning_log(found(GAINS), [found(gains) for gains in on_guards])
    decision = decide(log)
    assert (decision.name, decision.unguarded) == (name, unguarded)
    assert {candidate: guard for candidate, (guard, _) in decision.lost.items()} == lost
    assert all(is_worse(verdict.verdict) for _, verdict in decision.lost.values())
    if unguarded is None:
        assert log.verdicts["verdict"].to_list() == ["use" if name else "keep"]
        assert "c0 loses on task 1: ndcg@10 0.500 → 0.450" in log.verdicts["sentence"][0]
        guards = {candidate: f"loses on {guard}" for candidate, guard in lost.items()}
        guards |= {name: "no loss"} if name else {}
        shown = dict(log.frame("candidates").select("treatment", "guards").rows())
        assert shown == {**dict.fromkeys(GAINS), **guards}


def test_what_loses_on_a_guard_is_not_called_the_best() -> None:
    log = tuning_log(found({"c0": 0.2, "c1": 0.0}), [found({"c0": -0.05})])
    (said,) = log.verdicts["sentence"]
    assert said.startswith("No treatment is shown to help. The best, c1 (")
    assert "c0 loses on task 1" in said


def test_a_loss_that_a_guard_does_not_rule_out_is_said() -> None:
    log = tuning_log(found({"c0": 0.1}), [found({"c0": 0.0}, spread=0.2)])
    assert log.verdicts.select("treatment", "verdict").rows() == [("c0", "use")]
    assert "On task 1, a loss is not ruled out: ndcg@10" in log.verdicts["sentence"][0]


def test_a_choice_says_what_it_gains_and_costs() -> None:
    """Two halves prefer another one each, so that the cross-checked gain is less than the best."""
    first = np.random.default_rng(0).permutation(DOCUMENTS) % 2 == 0
    values = dict(found({"c0": 0.0, "c1": 0.0}))
    values["c0"] = values["c0"] + np.where(first, 0.30, 0.10)[:, None]
    values["c1"] = values["c1"] + np.where(first, 0.05, 0.25)[:, None]
    (said,) = tuning_log(values).verdicts["sentence"]
    # The first half under c1 gains 0.05, the other one under c0 0.10.
    assert "Cross-checked gain: +0.075 [" in said
    assert "; one half prefers c0, the other c1." in said
    assert said.startswith("Use c0 (")
    assert "Embedding takes 1.5 × the time; 40 of 40 documents need a new vector" in said


@pytest.mark.parametrize(
    ("gain", "spread", "drawn_from", "said"),
    [
        (0.0, 0.005, None, "A gain above 0.01 is ruled out."),
        (0.02, 0.1, 5000, "would show whether it gains that much."),
        (0.02, 0.1, None, "documents would show whether it gains that much."),
        (-0.001, 0.1, None, "No realistic number of documents would show a gain."),
    ],
)
def test_where_nothing_is_shown_to_help_it_says_what_would_decide(
    gain: float, spread: float, drawn_from: int | None, said: str
) -> None:
    log = tuning_log(found({"c0": gain}, spread), drawn_from=drawn_from)
    (sentence,) = log.verdicts["sentence"]
    assert sentence.startswith("No treatment is shown to help.")
    assert said in sentence
    assert ("`--sets " in sentence) == (drawn_from is not None)
