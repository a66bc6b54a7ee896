"""`Tuning`: a tuning while it runs: rounds on the part that is tuned on, tests on the guard part, then the report."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from fairspan.encoding.encoder import Encoder, Text
from fairspan.errors import DesignError
from fairspan.report.text import duration
from fairspan.runs.bases import Treated
from fairspan.runs.runner import Run
from fairspan.runs.speed import relative_time, tokens_read
from fairspan.stats.choice import alphas, keep_better
from fairspan.studies.tune.budget import Budget
from fairspan.studies.tune.decision import (
    GUARD,
    PLAIN,
    REFERENCE,
    REPORT,
    TUNE,
    decide_on,
    samples_of,
    shortlisted,
    tested_on_guard,
)
from fairspan.studies.tune.forecast import forecast
from fairspan.studies.tune.prepare import DividedTask, PreparedTuning

SPENT = "the budget was spent"


class Tuning:
    """Measures part after part; what decides about a part is read from the rows of the parts before it."""

    def __init__(self, prepared: PreparedTuning, run: Run, budget: Budget) -> None:
        self.prepared, self.spec, self.run, self.budget = prepared, prepared.spec, run, budget
        self.tasks = [one for one in prepared.tasks if not one.is_guard]
        self.treated: dict[str, Treated] = {}

    def measure(self) -> None:
        run = self.run
        expected = forecast(self.prepared, lambda one: self._under(one.name), run.store.missing)
        run.progress.stage(expected.sentence(self.prepared.subject.counter.unit))
        self.speed = expected.speed
        self._measure_tune()
        self._measure_guard()
        self._measure_report()

    def _measure_tune(self) -> None:
        run, header = self.run, self.run.header
        going_on, rounds = [one.name for one in self.spec.candidates], len(self.tasks[0].rounds)
        run.progress.start(self.prepared.tokens_to_tune)
        for number in range(rounds):
            self.search(PLAIN, TUNE, number)
            for name in going_on:
                if not self._fits(name, number):
                    header["left_out"][name] = SPENT
                    run.partial = True
                    continue
                self.search(name, TUNE, number)
                if number == 0:
                    self._compare_with_plain(name)
            going_on = [name for name in going_on if name not in header["left_out"]]
            if number < rounds - 1:
                samples = list(samples_of(run.writer.rows, header, TUNE, number).values())
                going_on = keep_better(samples, going_on, -(-len(going_on) // 2))
        self.search(PLAIN, TUNE, rounds - 1, index=REFERENCE)
        header["parts_done"].append(TUNE)

    def _measure_guard(self) -> None:
        run, header = self.run, self.run.header
        listed = shortlisted(run.writer.rows, header)
        run.progress.start(self.prepared.tokens_to_confirm)
        for one, alpha in zip(listed, alphas(len(listed)), strict=True):
            if one is listed[0]:
                self.search(PLAIN, GUARD)
            self.search(one.name, GUARD)
            tested = tested_on_guard(run.writer.rows, header, one, alpha)
            assert tested is not None
            # On few clusters nothing is decided, and the first candidate says how many are missing.
            if tested.finding == "use" or tested.is_small:
                break
        header["parts_done"].append(GUARD)

    def _measure_report(self) -> None:
        """The part that nothing was decided on is searched here, and nowhere else."""
        looked_at = decide_on(self.run.writer.rows, self.run.header).looked_at
        for name in (PLAIN, *([looked_at] if looked_at else [])):
            self.search(name, REPORT)
        if looked_at:
            documents = [text for task in self.tasks for text in task.plan(REPORT).flat]
            self.run.header["times"][looked_at] = self._trial(looked_at, documents)
        self.search(PLAIN, REPORT, index=REFERENCE)
        self.run.header["parts_done"].append(REPORT)

    def search(self, name: str, part: str, number: int = 0, index: str = "whole", *, guards: bool = True) -> None:
        """Search a part of every task that has it, or a round of it, under a treatment."""
        run, treated, rows = self.run, self._under(name), list[pl.DataFrame]()
        for task in self.prepared.tasks if guards and index == "whole" else self.tasks:
            if part not in task.parts:
                continue
            searching = task.searching(part, number)
            where = f"{part}, round {number + 1}" if part == TUNE and len(task.rounds) > 1 else part
            run.progress.stage(f"{name if index == 'whole' else index}: {task.name} ({where})")
            run.fill(treated.queries, searching.queries())
            found, cost = searching.index_and_search(run, treated, task.plan(part, number, index))
            labels = {"task": task.name, "split": part}
            columns = [pl.lit(value).alias(column) for column, value in labels.items()]
            rows.append(found.with_columns(*columns, pl.lit(number, pl.Int16).alias("round")))
            run.header["costs"].append({**labels, "round": number, **cost})
        run.add(pl.concat(rows))

    def _under(self, name: str) -> Treated:
        if name not in self.treated:
            treatment = next(one for one in self.spec.treatments if one.name == name)
            self.treated[name] = self.run.under(treatment)
        return self.treated[name]

    def _compare_with_plain(self, name: str) -> None:
        """How far a candidate moves the vectors, and how long it takes relative to the plain model."""
        plain, treated, header = self._under(PLAIN), self._under(name), self.run.header
        documents = [text for task in self.tasks for text in task.plan(TUNE).flat]
        queries = [text for task in self.tasks for text in task.searching(TUNE).queries()]
        moved = [
            self._moved(plain.documents, treated.documents, documents),
            self._moved(plain.queries, treated.queries, queries),
        ]
        header["changes"][name] = round(float(np.mean(moved)), 9)
        header["times"][name] = took = self._time(name, documents)
        if self.spec.max_cost is not None and took > self.spec.max_cost:
            header["left_out"][name] = f"it takes {took:.2f} × the time of the plain model"

    def _time(self, name: str, documents: Sequence[Text]) -> float:
        """The time of a candidate relative to the plain model: as it was embedded, or by trial.

        A limit is held against a trial in turns, which a busy machine disturbs less.
        """
        took = dict[str, float]()
        for cost in self.run.header["costs"]:
            if cost["treatment"] in (PLAIN, name) and cost["round"] == 0 and cost["seconds"]:
                took[cost["treatment"]] = took.get(cost["treatment"], 0.0) + cost["seconds"]
        if self.spec.max_cost is None and len(took) == 2:
            return round(took[name] / took[PLAIN], 3)
        return self._trial(name, documents)

    def _trial(self, name: str, documents: Sequence[Text]) -> float:
        first, second = self._under(PLAIN).documents, self._under(name).documents
        return round(relative_time(first, second, documents), 3)

    def _moved(self, first: Encoder, second: Encoder, texts: Sequence[Text]) -> float:
        """The mean cosine distance between the vectors of two encoders."""
        one, two = (
            np.stack(self.run.read([encoder.key(text) for text in texts])).astype(np.float64)
            for encoder in (first, second)
        )
        cosines = (one * two).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(two, axis=1)
        return float(1 - cosines.mean())

    def _fits(self, name: str, number: int) -> bool:
        """Whether this round of a candidate, and testing and reporting one, are over before the budget is spent."""
        if self.budget.minutes is None:
            return True
        plain, treated = self._under(PLAIN), self._under(name)
        tokens = sum(self._missing(treated, task, TUNE, number) for task in self.tasks)
        for task in self.prepared.tasks:
            for part in (GUARD, REPORT):
                tokens += self._missing(plain, task, part) + self._missing(treated, task, part)
        needed = self.budget.needed(tokens, self.speed)
        fits = self.budget.fits(needed)
        if not fits and not self.run.header["changes"]:
            raise DesignError(
                f"the plain model and one candidate need about {duration(needed)} on this machine: raise "
                "[[budget]], or use fewer documents."
            )
        return fits

    def _missing(self, treated: Treated, task: DividedTask, part: str, number: int = 0) -> int:
        """Tokens that have no vector yet."""
        found = 0
        for encoder, texts in (
            (treated.documents, task.plan(part, number).flat),
            (treated.queries, task.searching(part, number).queries()),
        ):
            absent = self.run.store.missing([encoder.key(text) for text in texts])
            found += sum(tokens_read(encoder, text) for text in texts if encoder.key(text) in absent)
        return found
