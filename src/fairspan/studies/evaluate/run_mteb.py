"""`evaluate` on a task of mteb: its own runner embeds and searches, its rankings are counted here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from sentence_transformers import SentenceTransformer

from fairspan.encoding.fill import Tally
from fairspan.encoding.store import Store
from fairspan.encoding.tokens import ModelTokens, counter_of, document_prompt, query_prompt
from fairspan.errors import TaskError, UnsupportedModel
from fairspan.model.build import calibrate
from fairspan.model.fingerprint import fingerprint
from fairspan.model.loading import DEFAULT_MODEL, load_model
from fairspan.runs.bases import base_of, embed_through, refuse_unsuited
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.log import AuditLog, LogWriter
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.runner import (
    DEFAULT_RUNS,
    batch_budget,
    calibrations_of,
    described,
    finished,
    name_of,
    run_name,
    write_run,
)
from fairspan.studies.evaluate.mteb_tasks import MtebResult, find_task, run_mteb
from fairspan.studies.evaluate.rows import ranking_rows, score_rows
from fairspan.studies.evaluate.spec import EvaluationSpec

MTEB = "mteb:"
# mteb rounds its scores to five places.
_ROUNDING = 1e-5


def evaluate_mteb(
    model: SentenceTransformer | str | None,
    spec: EvaluationSpec,
    *,
    name: str | None = None,
    out: Path | str | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
    task: Any = None,
) -> AuditLog:
    """Run a task of mteb under every treatment.

    Args:
        task: an `mteb.AbsTask` in place of the one that the spec names.
    """
    progress = progress or Silent()
    if model is None or isinstance(model, str):
        progress.stage(f"loading {model or 'the default model'}")
        name = name or model or DEFAULT_MODEL
        model = load_model(model)
    if not isinstance(model, SentenceTransformer):
        raise UnsupportedModel(f"mteb is run with a SentenceTransformer, got {type(model).__name__}.")
    _refuse(spec)
    prompts = {"document": document_prompt(model), "query": query_prompt(model)}
    fit = _fit_part(spec, model, prompts["document"])
    languages = None if spec.language is None else [spec.language]
    task = task or find_task(spec.task.removeprefix(MTEB), languages=languages, splits=_splits(spec))
    progress.stage("hashing the weights")
    name, weights = name or name_of(model), fingerprint(model)
    prompts = {"document": document_prompt(model), "query": query_prompt(model)}
    details = {"window": ModelTokens(model).window, "prompts": prompts}
    compared = str(model.similarity_fn_name)
    decisive = [[name, weights, calibrations_of(model), details, compared], task.metadata.name, *fit.decisive]
    run = run_name(name, spec.to_dict(), *decisive)
    folder = Path(out) if out is not None else DEFAULT_RUNS / run
    done = finished(folder, run, fresh=fresh)
    if done is not None:
        return done
    details = {"window": ModelTokens(model).window, "prompts": prompts}
    header = {
        "verb": "evaluate",
        "run": run,
        "model": described(model, name, weights, **details),
        "task": {"source": spec.task, "names": [task.metadata.name], "indexes": 1, "positions": None, "kind": None},
        "plans": [],
        "token_unit": "tokens",
        "seed": spec.design.seed,
        "spec": spec.to_dict(),
        "costs": [],
        "notes": [*fit.notes],
    }

    def work(writer: LogWriter, tally: Tally) -> None:
        # mteb keeps no vectors either.
        embed = embed_through(Store(":memory:"), budget=batch_budget(model, None), tally=tally, progress=_unseen)
        for treatment in spec.measured:
            progress.stage(f"{treatment.name}: {task.metadata.name}")
            base = base_of(model, weights, treatment, prompt=prompts["document"], fit=fit, embed=embed).model
            # With its sides: mteb says of every text which one it is on.
            acting = treatment.calibration.acts
            treated = calibrate(base, treatment.calibration) if acting else base
            result = run_mteb(treated, task, folder / "mteb")
            label = {"run": run, "model": name, "treatment": treatment.name}
            rows = _rows(result, spec.metrics, label)
            writer.header["task"] |= _counted(result)
            writer.header["notes"] += _disagreements(result, rows, treatment.name)
            writer.add(rows)

    return write_run(folder, header, work)


def _unseen(tokens: int) -> None:
    """mteb counts no tokens, so neither does the bar."""


def _fit_part(spec: EvaluationSpec, model: SentenceTransformer, prompt: str) -> FitPart:
    """Whoever names a corpus to fit on has to know that mteb's task is not made of it: its texts are not at hand."""
    for treatment in spec.treatments:
        refuse_unsuited(model, treatment, compares_tokens=False)
    counter, seed = counter_of(model, prompt), spec.design.seed
    fit = choose_fit_part(spec.treatments, model, counter, spec.fit_corpus, spec.fit_languages, (), seed=seed)
    notes = ("the texts of the task were not compared with those that were fitted on",) if fit.texts else ()
    return replace(fit, notes=(*fit.notes, *notes))


def _rows(result: MtebResult, metrics: Sequence[str], label: Mapping[str, str]) -> pl.DataFrame:
    tables, seen = [], 0
    for part in result.parts:
        where = f"{part.split}/{part.subset}"
        if not part.rankings:
            tables.append(score_rows(where, result.measure, part.main_score, number=seen, **label))
            seen += 1
            continue
        found = {f"{where}/{query}": [name for name, _ in ranking] for query, ranking in part.rankings.items()}
        relevant = {f"{where}/{query}": part.relevant[query] for query in part.rankings}
        tables.append(ranking_rows(found, relevant, metrics, first=seen, language=_language(part.languages), **label))
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
    """A word for everyone who knows mteb's score: ours, from its own rankings, is another one."""
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


def _language(languages: Sequence[str]) -> str | None:
    return languages[0] if len(languages) == 1 else None


def _splits(spec: EvaluationSpec) -> list[str] | None:
    """None for mteb's own choice, which is "test" for most tasks."""
    return None if spec.split == "test" else [spec.split]


def _refuse(spec: EvaluationSpec) -> None:
    if spec.indexes != ("whole",):
        others = ", ".join(index for index in spec.indexes if index != "whole")
        raise TaskError(f"mteb searches whole documents: leave out {others}, or read the task as a BEIR folder.")
    by_segments = [treatment.name for treatment in spec.treatments if treatment.baskets == "segments"]
    if by_segments:
        raise TaskError(f"mteb knows no segments: leave out {', '.join(by_segments)}.")
    if spec.prompt is not None or spec.query_prompt is not None:
        raise TaskError("mteb takes the prompts that the model has: set model.prompts, and leave prompt away.")
