"""`evaluate` on a task of mteb: its own runner embeds and searches, its rankings are scored here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from fairspan.encoding.tokens import window_of
from fairspan.encoding.window import cutting
from fairspan.errors import TaskError
from fairspan.model.build import calibrate
from fairspan.retrieval.mteb_tasks import MtebResult, find_task, run_mteb
from fairspan.retrieval.source import MTEB
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.log import RunLog
from fairspan.runs.rows import as_rows
from fairspan.runs.runner import Run, RunOptions, run_study
from fairspan.runs.search_rows import ranking_rows
from fairspan.runs.subject import Subject
from fairspan.runs.windows import window_notes, windows_of
from fairspan.studies.evaluate.spec import EvaluationSpec
from fairspan.studies.evaluate.view import view_of

# mteb rounds its scores to five places.
_ROUNDING = 1e-5


@dataclass(frozen=True, slots=True)
class PreparedMteb:
    """A task of mteb that is ready to run."""

    subject: Subject
    spec: EvaluationSpec
    task: Any
    fit: FitPart

    @property
    def name(self) -> str:
        return str(self.task.metadata.name)

    @property
    def decisive(self) -> list[Any]:
        return [self.name]

    @property
    def header(self) -> dict[str, Any]:
        task = {"source": self.spec.task, "names": [self.name], "indexes": 1, "positions": None, "kind": None}
        # mteb has the texts, so that nothing is known of their lengths.
        windows = windows_of(self.subject, self.spec.measured, {"documents": None})
        notes = window_notes(windows, self.subject.counter.unit)
        return {"verb": "evaluate", "task": task, "plans": [], "costs": [], "windows": windows, "notes": notes}


def evaluate_mteb(subject: Subject, spec: EvaluationSpec, options: RunOptions, *, task: Any = None) -> RunLog:
    """Run a task of mteb under every treatment.

    Args:
        task: an `mteb.AbsTask` in place of the one that the spec names.
    """
    subject.transformer("mteb")
    _refuse(spec)
    subject = subject.reading(spec.measured)
    fit = _fit_part(spec, subject)
    languages = None if spec.language is None else [spec.language]
    # "test" means mteb's own choice, which it is for most tasks.
    splits = None if spec.split == "test" else [spec.split]
    task = task or find_task(spec.task.removeprefix(MTEB), languages=languages, splits=splits)
    prepared = PreparedMteb(subject, spec, task, fit)
    # mteb keeps no vectors either.
    return run_study(prepared, lambda run: _measure(prepared, run), replace(options, store=":memory:"), view_of)


def _measure(prepared: PreparedMteb, run: Run) -> None:
    for treatment in prepared.spec.measured:
        run.progress.stage(f"{treatment.name}: {prepared.name}")
        base = run.under(treatment).model
        # With its sides: mteb says of every text which one it is on.
        treated = calibrate(base, treatment.calibration) if treatment.calibration.acts else base
        treated = cutting(treated, window_of(treated))
        result = run_mteb(treated, prepared.task, run.writer.folder / "mteb")
        rows = _rows(result, prepared.spec.metrics, {**run.label, "treatment": treatment.name, "part": "whole"})
        run.header["task"] |= _counted(result)
        run.header["notes"] += _disagreements(result, rows, treatment.name)
        run.add(rows)


def _fit_part(spec: EvaluationSpec, subject: Subject) -> FitPart:
    """mteb's texts are not at hand, so that nothing checks whether the corpus to fit on shares some with the task."""
    subject.refuse_unsuited(spec.treatments)
    model, source, seed = subject.model, spec.fit_corpus, spec.design.seed
    fit = choose_fit_part(spec.treatments, model, subject.counter, source, spec.fit_languages, (), seed=seed)
    notes = ("the texts of the task were not compared with those that were fitted on",) if fit.texts else ()
    return replace(fit, notes=(*fit.notes, *notes))


def _rows(result: MtebResult, metrics: Sequence[str], label: dict[str, str]) -> pl.DataFrame:
    tables, seen = [], 0
    for part in result.parts:
        where = f"{part.split}/{part.subset}"
        if not part.rankings:
            score = {"measure": result.measure, "query": where, "value": [part.main_score]}
            tables.append(as_rows({**label, **score, "set": [seen], "order": 0}))
            seen += 1
            continue
        found = {f"{where}/{query}": [name for name, _ in ranking] for query, ranking in part.rankings.items()}
        relevant = {f"{where}/{query}": part.relevant[query] for query in part.rankings}
        language = part.languages[0] if len(part.languages) == 1 else None
        tables.append(ranking_rows(found, relevant, metrics, seen, {**label, "language": language}))
        seen += len(found)
    return pl.concat(tables)


def _counted(result: MtebResult) -> dict[str, Any]:
    searched = any(part.rankings for part in result.parts)
    return {
        "kind": "search" if searched else "scores",
        "mteb": {"type": result.kind, "revision": result.dataset_revision, "version": result.mteb_version},
        "queries": sum(len(part.rankings) for part in result.parts),
        "documents": None,
        "clusters": sum(len(part.rankings) or 1 for part in result.parts),
    }


def _disagreements(result: MtebResult, rows: pl.DataFrame, treatment: str) -> list[str]:
    """Notes where mteb's score differs from the one of its rankings."""
    if result.measure != "ndcg_at_10" or "ndcg@10" not in rows["measure"].to_list():
        return []
    notes, seen = [], 0
    for part in result.parts:
        count = len(part.rankings)
        own = rows.filter((pl.col("measure") == "ndcg@10") & pl.col("set").is_between(seen, seen + count - 1))
        mean = own["value"].mean()
        seen += count
        if count and isinstance(mean, float) and abs(mean - part.main_score) > _ROUNDING:
            notes.append(
                f"{treatment}, {part.split}/{part.subset}: mteb gives ndcg_at_10 {part.main_score:.5f}, its rankings "
                f"give {mean:.5f}"
            )
    return notes


def _refuse(spec: EvaluationSpec) -> None:
    if spec.indexes != ("whole",):
        others = ", ".join(index for index in spec.indexes if index != "whole")
        raise TaskError(f"mteb searches whole documents: omit {others}, or read the task as a BEIR folder.")
    by_segments = [treatment.name for treatment in spec.treatments if treatment.by_segments]
    if by_segments:
        raise TaskError(f"mteb does not support segments: omit {', '.join(by_segments)}.")
    chunked = [treatment.name for treatment in spec.treatments if treatment.chunks]
    if chunked:
        raise TaskError(f"mteb embeds whole documents: omit {', '.join(chunked)}, or read the task as a BEIR folder.")
    corrected = [treatment.name for treatment in spec.treatments if treatment.languages]
    if corrected:
        raise TaskError(
            f"mteb does not say which language a text is in: omit {', '.join(corrected)}, or read the task as a BEIR "
            "folder."
        )
    if spec.prompt is not None or spec.query_prompt is not None:
        raise TaskError("mteb takes the prompts that the model has: set model.prompts, and omit prompt.")
