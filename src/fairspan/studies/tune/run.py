"""`tune`: which treatment to use, decided on data that does not judge it."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fairspan.calibration.treatment import AnyTreatment
from fairspan.model.loading import Loading
from fairspan.retrieval.source import PAGES
from fairspan.runs.log import RunLog
from fairspan.runs.progress import Progress, as_progress
from fairspan.runs.request import fields_of_study, request_of
from fairspan.runs.runner import RunOptions, run_study
from fairspan.runs.subject import AnyModel, open_subject
from fairspan.studies.tune.budget import Budget
from fairspan.studies.tune.measuring import Tuning
from fairspan.studies.tune.prepare import prepare_tuning
from fairspan.studies.tune.results import write_results
from fairspan.studies.tune.spec import make_tuning
from fairspan.studies.tune.view import view_of


def tune(
    model: AnyModel = None,
    tasks: Sequence[str] | str = (PAGES,),
    *,
    guards: Sequence[str] | str = (),
    grid: str | Path | Sequence[AnyTreatment] = "small",
    metric: str = "ndcg@10",
    fairness: str | None = None,
    epsilon: float = 0.01,
    max_cost: float | None = None,
    budget: float | None = None,
    corpus: str | None = None,
    languages: Sequence[str] | None = None,
    mixed: str | Sequence[str] | None = None,
    partial: bool | None = None,
    size: int | None = None,
    sets: int | None = None,
    editions: int | None = None,
    distractors: int | None = None,
    query: str | None = None,
    query_tokens: int | None = None,
    query_language: str | None = None,
    opening: int | None = None,
    min_tokens: int | None = None,
    max_tokens: int | None = None,
    documents: Path | str | None = None,
    language: str | None = None,
    unit: str | None = None,
    split: str | None = None,
    too_long: str | None = None,
    chunk_tokens: int = 64,
    prompt: str | None = None,
    query_prompt: str | None = None,
    seed: int = 0,
    name: str | None = None,
    window: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    out: Path | str | None = None,
    store: Path | str | None = None,
    batch_tokens: int | None = None,
    fresh: bool = False,
    progress: bool | Progress = True,
) -> RunLog:
    """Choose a treatment for a model and a corpus, or none.

    Documents, with their queries and everything that shares a text with them, are divided by the seed: one half is
    tuned on, a quarter guards the choice, a quarter is for the figures that are shown. A candidate is chosen only if
    the guard part confirms its gain, and neither it nor any guard task loses `epsilon` or more.

    Args:
        model: a SentenceTransformer, its name or folder, None for all-MiniLM-L6-v2.
        tasks: what search should get better at: "pages" or "passages" (made from `corpus`; no labels are needed) or,
            for another corpus, "pages:CORPUS"; the folder or file of a collection, "beir:FOLDER", "mteb:NAME". Of
            several the mean counts.
        guards: tasks of other documents that must not get worse. They are not tuned on.
        grid: the candidates: "small", "full", a TOML file, or a list of treatments.
        metric: what is maximised.
        fairness: the groups of queries that should be served equally: "position", "language" or "length"; by default
            positions where they are known.
        epsilon: a loss of the metric below it counts as none.
        max_cost: leave out candidates that take more than so many times the plain model's time.
        budget: minutes that the run may take. Candidates that do not fit are left out, and named.
        corpus, languages, mixed, partial, size, editions, distractors, query, query_tokens, query_language, opening,
            min_tokens, max_tokens: of pages, as in `evaluate`.
        sets: number of pages or documents, by default 220: a quarter of them are the 50 that a decision needs.
        documents, language, unit, split: of collections, as in `evaluate`.
        too_long: as in `evaluate`.
        chunk_tokens: length of the longest chunk of the reference, the mean of chunks that the plain model embeds.
        prompt, query_prompt: put before documents and queries; by default the model's own.
        seed: of pages and of the parts.
        name, window, device, dtype, trust_remote_code: as in `audit`.
        out, store, batch_tokens, fresh, progress: as in `audit`.

    Returns:
        The log. Its folder also has the page `tune.html`, and `calibration.json`, which `fairspan.calibrate` takes:
        that of the chosen candidate, or of the plain model if there is none.
    """
    given = {key: value for key, value in locals().items() if value is not None and key != "budget"}
    shown, spec, within = as_progress(progress), make_tuning(**fields_of_study(given)), Budget(budget)
    loading = Loading(window, device, dtype, trust_remote_code)
    request = request_of("tune", spec, model, name=name, **asdict(loading))
    options = RunOptions(out, store, batch_tokens, fresh, shown, request)
    known = options.answer(name or model, view_of)
    if known is None:
        subject = open_subject(model, name=name, loading=loading, progress=shown)
        prepared = prepare_tuning(subject, spec, shown)
        known = run_study(prepared, lambda run: Tuning(prepared, run, within).measure(), options, view_of)
    write_results(known)
    return known
