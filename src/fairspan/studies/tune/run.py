"""`tune`: which treatment to use, chosen by half of the documents and confirmed by the rest."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import polars as pl

from fairspan.calibration.treatment import PLAIN, as_treatment
from fairspan.encoding.calling import call_of
from fairspan.retrieval.indexes import ONE_PER_CHUNK, index_words
from fairspan.runs.forecast import relative_time
from fairspan.runs.log import RunLog
from fairspan.runs.study import Run, Study
from fairspan.runs.subject import Treated
from fairspan.studies.tune.decision import Decision, decide
from fairspan.studies.tune.entries import TuneEntries
from fairspan.studies.tune.options import TuneOptions
from fairspan.studies.tune.prepare import (
    PreparedTuning,
    TunedTask,
    prepare_tuning,
    reference,
)
from fairspan.studies.tune.view import view_of, write_results

EASY = 0.8
"""Queries of which the plain model finds more are shortened."""
_SAME = 1e-4
"""Vectors that differ by less are the same up to rounding."""


class Tuning:
    """A tuning while it runs; what is measured next is decided by the rows so far."""

    def __init__(self, prepared: PreparedTuning, run: Run) -> None:
        self.prepared = prepared
        self.run = run
        self.entries = run.header.part(TuneEntries)
        self.treatments = {item.name: item for item in prepared.options.all_treatments}
        self.under = cache(run.under)

    def measure(self) -> None:
        """Every candidate on the tasks, the choice on the guards, and chunks to compare it with."""
        tasks = self.prepared.tasks
        for task in tasks:
            self.entries.query_tokens[task.name] = self._query_tokens(task)
        self._search(list(self.treatments), tasks)
        decision = self._decide()
        while decision.unguarded:
            self._search(decision.unguarded, self.prepared.guards)
            decision = self._decide()
        window = self.prepared.subject.window(self.treatments[PLAIN])
        chunks = reference(self.treatments[decision.name], window)
        if chunks not in self.treatments:
            self._search([chunks], tasks)
        self._search_parts(decision.advised)
        if decision.answer != "keep":
            self.entries.costs.update(self._costs(decision.name))

    def _under(self, name: str) -> Treated:
        return self.under(self.treatments.get(name) or as_treatment(name))

    def _decide(self) -> Decision:
        return decide(self.run.writer.rows, self.run.header)

    def _search(self, names: Sequence[str], tasks: Sequence[TunedTask]) -> None:
        """Search tasks or guards under some treatments, and log the rows of each treatment."""
        lengths = self.entries.query_tokens
        for name in names:
            rows = [self._rows(task, name, lengths.get(task.name)) for task in tasks]
            self.run.add(pl.concat(rows))

    def _search_parts(self, advised: str) -> None:
        """Search with several vectors per document: under what is advised; per chunk, plain."""
        self.entries.indexes.clear()
        for index in self.prepared.part_indexes:
            treated = self._under(PLAIN if index == ONE_PER_CHUNK else advised)
            for task in self.prepared.tasks:
                searching = task.asking(self.entries.query_tokens[task.name])
                self.run.progress.stage(f"{index_words(index)}: {task.name}")
                plan = task.part_plans[index]
                rows, cost = searching.index_and_search(self.run, treated, plan)
                self.run.add(rows.with_columns(task=pl.lit(task.name)))
                self.entries.indexes.append(cost)

    def _rows(self, task: TunedTask, name: str, tokens: int | None) -> pl.DataFrame:
        """The rows of a task under a treatment, with queries of at most so many tokens."""
        treated = self._under(name)
        searching = task.asking(tokens)
        self.run.progress.stage(f"{name}: {task.name}")
        self.run.fill(treated.queries, searching.queries())
        rows, _ = searching.index_and_search(self.run, treated, task.plan)
        return rows.with_columns(task=pl.lit(task.name))

    def _query_tokens(self, task: TunedTask) -> int | None:
        """The length of the longest queries of which the plain model does not find nearly all."""
        for tokens in task.lengths:
            if self._rows(task, PLAIN, tokens)["value"].to_numpy().mean() <= EASY:
                break
        return tokens

    def _costs(self, name: str) -> dict[str, float]:
        """The time relative to the plain model's, and the documents whose vectors change."""
        plain = self._under(PLAIN).documents
        treated = self._under(name).documents
        texts = list(dict.fromkeys(text for task in self.prepared.tasks for text in task.plan.flat))
        before = np.stack(self.run.read([plain.key(text) for text in texts]))
        after = np.stack(self.run.read([treated.key(text) for text in texts]))
        lengths = np.array([text.length for text in texts])
        read = np.minimum(lengths, plain.window or lengths).sum() / lengths.sum()
        return {
            "time": round(relative_time(plain, treated, texts), 3),
            "read": round(float(read), 4),
            "documents": len(texts),
            "changed": int((np.abs(before - after).max(1) > _SAME).sum()),
        }


STUDY = Study(
    prepare_tuning, lambda prepared, run: Tuning(prepared, run).measure(), view_of, write_results
)


@call_of(TuneOptions)
def tune(options: TuneOptions) -> RunLog:
    """Choose a treatment for a model and your documents, or none.

    Passages are cut out of documents and used as queries for the rest. Each half of the documents
    chooses a candidate, and the other half confirms it; neither the documents nor any guard may
    lose the margin.

    Returns:
        The log. Its folder also has the page `tune.html`, and `calibration.json`, which
        `fairspan.calibrate` takes: that of the candidate that is better or probably better, or of
        the plain model.
    """
    return STUDY(options)
