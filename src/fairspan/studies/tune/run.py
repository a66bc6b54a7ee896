"""`tune`: which treatment to use, chosen by one half of the documents and confirmed by the other."""

import numpy as np
import polars as pl

from fairspan.calibration.treatment import PLAIN, Treatment, as_treatment
from fairspan.encoding.calling import call_of
from fairspan.runs.bases import Treated
from fairspan.runs.forecast import forecast, relative_time
from fairspan.runs.log import RunLog
from fairspan.runs.running import Run
from fairspan.runs.study import Study
from fairspan.studies.tune.entries import TuneEntries
from fairspan.studies.tune.options import TuneOptions
from fairspan.studies.tune.prepare import PreparedTuning, TunedTask, prepare_tuning, reference
from fairspan.studies.tune.summary import decide
from fairspan.studies.tune.view import view_of, write_results

EASY = 0.8
"""Queries of which the plain model finds more are shortened."""
_SAME = 1e-4
"""Vectors that differ by less are the same up to rounding."""


class Tuning:
    """A tuning while it runs; what is measured next is decided by the rows so far."""

    def __init__(self, prepared: PreparedTuning, run: Run) -> None:
        self.prepared, self.run, self.store = prepared, run, run.store
        self.entries = run.header.part(TuneEntries)
        self.treated: dict[str, Treated] = {}

    def measure(self) -> None:
        run, names = self.run, [one.name for one in self.prepared.options.all_treatments]
        run.progress.stage("timing a few texts")
        run.progress.stage(forecast(self.prepared, self).sentence)
        for one in self._having(guards=False):
            run.progress.start(one.tokens(one.lengths))
            self.entries.query_tokens[one.name] = self._hard_enough(one)
        run.progress.start(len(names) * self.prepared.tokens(guards=False))
        for name in names:
            self.search(name)
        # A candidate that loses on a guard makes room for the next.
        while self._having(guards=True) and (
            wanted := decide(run.writer.rows, run.header).unguarded
        ):
            run.progress.start(len(wanted) * self.prepared.tokens(guards=True))
            for name in wanted:
                self.search(name, guards=True)
        decision = decide(run.writer.rows, run.header)
        treatment = next(
            (one for one in self.prepared.options.all_treatments if one.name == decision.name), None
        )
        beside = reference(
            treatment, self.prepared.subject.window(self.prepared.options.all_treatments[0])
        )
        if beside not in names:
            run.progress.start(self.prepared.tokens(guards=False))
            self.search(beside)
        if decision.answer != "keep":
            self.entries.costs.update(self._costs(decision.name))

    def search(self, name: str, *, guards: bool = False) -> None:
        """Search all tasks, or all guards, under a treatment."""
        rows = [
            self._found(one, name, self.entries.query_tokens.get(one.name))
            for one in self._having(guards=guards)
        ]
        self.run.add(pl.concat(rows))

    def _having(self, *, guards: bool) -> list[TunedTask]:
        return self.prepared.having(guards=guards)

    def _found(self, one: TunedTask, name: str, tokens: int | None) -> pl.DataFrame:
        treated, searching = self._under(name), one.asking(tokens)
        self.run.progress.stage(f"{name}: {one.name}")
        self.run.fill(treated.queries, searching.queries())
        found, _ = searching.index_and_search(self.run, treated, one.plan)
        return found.with_columns(task=pl.lit(one.name))

    def _hard_enough(self, one: TunedTask) -> int | None:
        """The longest queries of which the plain model does not find nearly all."""
        for tokens in one.lengths:
            if self._found(one, PLAIN, tokens)["value"].to_numpy().mean() <= EASY:
                break
        return tokens

    def under(self, treatment: Treatment) -> Treated:
        """The model under a treatment, made once."""
        if treatment.name not in self.treated:
            self.treated[treatment.name] = self.run.under(treatment)
        return self.treated[treatment.name]

    def _under(self, name: str) -> Treated:
        named = {one.name: one for one in self.prepared.options.all_treatments}
        return self.under(named.get(name) or as_treatment(name))

    def _costs(self, name: str) -> dict[str, float]:
        """The time relative to the plain model's, and the documents whose vectors change."""
        plain, treated = self._under(PLAIN).documents, self._under(name).documents
        texts = list(
            dict.fromkeys(text for one in self._having(guards=False) for text in one.plan.flat)
        )
        before, after = (
            np.stack(self.run.read([own.key(text) for text in texts])) for own in (plain, treated)
        )
        changed = int((np.abs(before - after).max(1) > _SAME).sum())
        whole, window = sum(text.length for text in texts), plain.window
        read = sum(min(text.length, window) for text in texts) / whole if window else 1.0
        time = relative_time(plain, treated, texts)
        return {
            "time": round(time, 3),
            "read": round(read, 4),
            "documents": len(texts),
            "changed": changed,
        }


STUDY = Study(
    prepare_tuning, lambda prepared, run: Tuning(prepared, run).measure(), view_of, write_results
)


@call_of(TuneOptions)
def tune(options: TuneOptions) -> RunLog:
    """Choose a treatment for a model and your documents, or none.

    Passages are cut out of documents and used as queries for the rest. Each half of the documents
    chooses a candidate, and the other half confirms it; neither the documents nor any guard may lose the margin.

    Returns:
        The log. Its folder also has the page `tune.html`, and `calibration.json`, which `fairspan.calibrate` takes:
        that of the candidate that is better or probably better, or of the plain model.
    """
    return STUDY(options)
