"""`tune`: which treatment to use, decided on data that does not judge it."""

import numpy as np
import polars as pl

from fairspan.calibration.treatment import PLAIN
from fairspan.encoding.calling import call_of
from fairspan.runs.bases import Treated
from fairspan.runs.forecast import relative_time
from fairspan.runs.log import RunLog
from fairspan.runs.study import Run, Study
from fairspan.studies.tune.options import REFERENCE, TuneOptions
from fairspan.studies.tune.prepare import PreparedTuning, prepare_tuning
from fairspan.studies.tune.summary import GUARD, REPORT, TUNE, Decision, decide
from fairspan.studies.tune.view import view_of, write_results


class Tuning:
    """A tuning while it runs; what decides about a part is read from the rows of the parts before it."""

    def __init__(self, prepared: PreparedTuning, run: Run) -> None:
        self.prepared, self.run = prepared, run
        self.treated: dict[str, Treated] = {}

    def measure(self) -> None:
        candidates = [one.name for one in self.prepared.options.measured[1:]]
        self._start(TUNE, 1 + len(candidates), with_reference=True)
        for name in (PLAIN, *candidates):
            self.search(name, TUNE)
        for name in candidates:
            self.run.header["changes"][name] = self._moved(name)
        self.search(PLAIN, TUNE, REFERENCE)
        # How many candidates are tested depends on how each one does, so each is counted by itself.
        if self._decision.untested:
            self._start(GUARD, 1)
            self.search(PLAIN, GUARD)
        while self._decision.untested:
            self._start(GUARD, 1)
            self.search(self._decision.untested, GUARD)
        # The part that nothing was decided on is searched here, and nowhere else.
        decision = self._decision
        self._start(REPORT, 2 if decision.looked_at else 1, with_reference=True)
        self.search(PLAIN, REPORT)
        if decision.looked_at:
            self.search(decision.looked_at, REPORT)
        if decision.answer == "use":
            self.run.header["times"][decision.chosen] = self._time(decision.chosen)
        self.search(PLAIN, REPORT, REFERENCE)

    def search(self, name: str, part: str, index: str = "whole") -> None:
        """Search a part of every task that has it under a treatment."""
        run, treated, rows = self.run, self._under(name), list[pl.DataFrame]()
        for one in self.prepared.having(part, index):
            run.progress.stage(f"{name if index == 'whole' else index}: {one.name} ({part})")
            searching = one.parts[part]
            run.fill(treated.queries, searching.queries())
            found, _ = searching.index_and_search(run, treated, one.plan(part, index))
            rows.append(found.with_columns(task=pl.lit(one.name), split=pl.lit(part)))
        run.add(pl.concat(rows))

    @property
    def _decision(self) -> Decision:
        """What the rows so far lead to."""
        return decide(self.run.writer.rows, self.run.header)

    def _start(self, part: str, treatments: int, *, with_reference: bool = False) -> None:
        tokens = treatments * self.prepared.tokens(part)
        self.run.progress.start(tokens + (self.prepared.tokens(part, REFERENCE) if with_reference else 0))

    def _under(self, name: str) -> Treated:
        if name not in self.treated:
            treatment = next(one for one in self.prepared.options.measured if one.name == name)
            self.treated[name] = self.run.under(treatment)
        return self.treated[name]

    def _time(self, name: str) -> float:
        """The time of a candidate relative to the plain model, from a trial in turns."""
        documents = [text for one in self.prepared.having(REPORT, REFERENCE) for text in one.plan(REPORT).flat]
        return round(relative_time(self._under(PLAIN).documents, self._under(name).documents, documents), 3)

    def _moved(self, name: str) -> float:
        """How far a candidate moves what is tuned on: the mean cosine distance of documents and that of queries."""
        plain, treated, tasks = self._under(PLAIN), self._under(name), self.prepared.having(TUNE)
        documents = [text for one in tasks for text in one.plan(TUNE).flat]
        queries = [text for one in tasks for text in one.parts[TUNE].queries()]
        moved = []
        for side, texts in (("documents", documents), ("queries", queries)):
            keys = ([getattr(own, side).key(text) for text in texts] for own in (plain, treated))
            one, two = (np.stack(self.run.read(own)).astype(np.float64) for own in keys)
            cosines = (one * two).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(two, axis=1)
            moved.append(1 - cosines.mean())
        return round(float(np.mean(moved)), 9)


STUDY = Study(prepare_tuning, lambda prepared, run: Tuning(prepared, run).measure(), view_of, write_results)


def _tune(options: TuneOptions) -> RunLog:
    """Choose a treatment for a model and a corpus, or none.

    Documents, with their queries and everything that shares a text with them, are divided by the seed: one half is
    tuned on, a quarter guards the choice, a quarter is for the figures that are shown. A candidate is chosen only if
    the guard part confirms its gain, and neither it nor any guard task loses the margin or more.

    Returns:
        The log. Its folder also has the page `tune.html`, and `calibration.json`, which `fairspan.calibrate` takes:
        that of the chosen candidate, or of the plain model if there is none.
    """
    return STUDY(options)


tune = call_of(TuneOptions, _tune, "tune", __name__)
