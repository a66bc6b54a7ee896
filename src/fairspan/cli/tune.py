"""`fairspan tune MODEL TASK…`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairspan.cli.options import (
    AsJson,
    LoadingOptions,
    ModelName,
    Prompt,
    RunningOptions,
    option,
    pick,
    print_json,
    shared,
    typed,
)

if TYPE_CHECKING:
    from fairspan.runs.progress import Progress
    from fairspan.studies.tune.budget import Budget


@shared(LoadingOptions, RunningOptions)
def tune(
    context: typer.Context,
    model: ModelName = None,
    tasks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="task",
            help="What search should get better at: pages or passages, which are made from the corpus, or from "
            "another one as in pages:CORPUS; the folder or file of a collection; beir:FOLDER or mteb:NAME. "
            "Of several the mean counts. Default: pages.",
        ),
    ] = None,
    guards: list[str] | None = option(
        "A task of other documents that must not get worse. It is not tuned on. May be given several times.",
        "--guard",
    ),
    corpus: str | None = option(
        "Corpus of pages and passages: sample, a folder, a JSONL or Parquet file, a dataset. Default: sample."
    ),
    grid: str | None = option("Candidates: small, full or a TOML file. Default: small."),
    metric: str | None = option("What is maximised: ndcg@k, recall@k or mrr. Default: ndcg@10."),
    fairness: str | None = option(
        "Groups of queries that should be served equally: position, language or length. "
        "Default: position, where it is known."
    ),
    epsilon: float | None = option("A loss of the metric below it counts as none. Default: 0.01."),
    max_cost: float | None = option(
        "Leave out candidates that take more than this many times the plain model's time, such as 1.2."
    ),
    budget: float | None = option("Minutes that the run may take. Candidates that do not fit are left out."),
    languages: str | None = option("Languages of monolingual pages, such as en,de."),
    mixed: str | None = option("Languages lead:later of mixed pages, such as de:en, or all."),
    partial: bool = option("Omit segments that lack a translation.", "--partial", default=False),
    size: int | None = option("Number of segments per page. Default: 4."),
    sets: int | None = option(
        "Number of pages or documents that are searched for. Default: 220; a quarter of them are the 50 that a "
        "decision needs."
    ),
    editions: int | None = option(
        "Number of indexes, each with other orders. Default: every segment at every position."
    ),
    distractors: int | None = option("Number of further pages, which no query asks for."),
    query: str | None = option("What pages are searched with: held-out, first-sentence or title. Default: held-out."),
    query_tokens: int | None = option("Length of the longest held-out query. Default: 60."),
    query_language: str | None = option("Ask in this language, whatever the language of the page."),
    opening: int | None = option("Number of tokens to use from the start of every segment on a page."),
    min_tokens: int | None = option("Omit shorter segments."),
    max_tokens: int | None = option("Omit longer segments."),
    documents: Path | None = option("Where a collection keeps its documents, if not in the folder of its queries."),
    language: str | None = option("Language of a collection that has several."),
    unit: str | None = option("What a document is in files like SQuAD's: article (default) or paragraph."),
    split: str | None = option("Split of BEIR folders and tasks of mteb. Default: test."),
    too_long: str | None = option(
        "What to do with documents that no treatment reads whole: leave-out, shorten, cut or error. "
        "Default: shorten for passages, leave-out if positions are known otherwise, else cut."
    ),
    chunk_tokens: int | None = option(
        "Length of the longest chunk of the reference, the mean of chunks that the plain model embeds. Default: 64."
    ),
    seed: int | None = option("Seed of pages and of the parts. Default: 0."),
    prompt: Prompt = None,
    query_prompt: str | None = option("Text put before every query. Default: the model's own."),
    picture: Path | None = option("Draw quality and fairness of all candidates into this PNG, SVG or PDF."),
    dry_run: bool = option("Print what would be embedded and how long it takes.", "--dry-run", default=False),
    as_json: AsJson = False,
) -> None:
    """Choose a treatment for a model and your documents, or none.

    Documents are divided by the seed: one half is tuned on, a quarter guards the choice, a quarter is for the figures
    that are shown. A candidate is chosen only if the guard part confirms its gain and no task loses epsilon or more.
    Without a task, pages are built from the corpus; no labels are needed.

    The folder gets calibration.json, which fairspan calibrate takes, and the page tune.html. Computed vectors are
    kept: the same command continues where it was stopped.

    Examples:

        fairspan tune BAAI/bge-m3 --corpus my_articles/

        fairspan tune BAAI/bge-m3 --corpus my_articles/ --guard beir:datasets/scifact --guard my_questions/

        fairspan tune BAAI/bge-m3 my_questions/ --grid full --budget 20 --out tuned

        fairspan tune BAAI/bge-m3 mteb:SciFact --guard mteb:NFCorpus --max-cost 1.2

        fairspan tune BAAI/bge-m3 --corpus my_articles/ --grid my_grid.toml --dry-run

        fairspan calibrate BAAI/bge-m3 my_model --calibration tuned/calibration.json
    """
    from fairspan.cli.checking import check_model, check_tuning
    from fairspan.cli.showing import running, say_loading, show
    from fairspan.runs.request import fields_of_study, known_run
    from fairspan.studies.tune.budget import Budget
    from fairspan.studies.tune.results import write_results
    from fairspan.studies.tune.spec import make_tuning
    from fairspan.studies.tune.view import view_of

    given = typed(context, "picture", "budget", "dry_run")
    with running(picture) as progress:
        within = Budget(budget)
        log = None if dry_run else known_run("tune", make_tuning, view_of, given)
        if log is None:
            check_tuning(make_tuning(**fields_of_study(given)))
            check_model(model, given)
            say_loading(progress, model)
            if dry_run:
                _forecast(given, within, progress, as_json=as_json)
                return
            from fairspan.studies.tune.run import tune

            log = tune(**given, budget=budget, progress=progress)
        calibration, page = write_results(log)
    ending = f"log: {log.folder}\ncalibration: {calibration}\npage: {page}"
    show(log, as_json=as_json, picture=picture, ending=ending)


def _forecast(given: dict[str, Any], budget: Budget, progress: Progress, *, as_json: bool) -> None:
    """Read and divide the tasks, and time the plain model on a few of their texts."""
    from fairspan.cli.showing import print_forecast
    from fairspan.model.source import Loading
    from fairspan.report.text import duration
    from fairspan.runs.request import fields_of_study
    from fairspan.runs.subject import open_subject
    from fairspan.studies.tune.forecast import forecast
    from fairspan.studies.tune.prepare import prepare_tuning
    from fairspan.studies.tune.spec import make_tuning

    spec = make_tuning(**fields_of_study(given))
    subject = open_subject(given.get("model"), loading=Loading(**pick(given, LoadingOptions)), progress=progress)
    prepared = prepare_tuning(subject, spec, progress)
    progress.stage("timing a few documents")
    found, notes, unit = forecast(prepared), prepared.header["notes"], subject.counter.unit
    fits = budget.fits(found.seconds)
    if as_json:
        within = None if budget.minutes is None else fits
        print_json({"model": subject.name, **found.to_dict(), "fits_budget": within, "notes": notes})
        return
    if not fits:
        notes = [
            *notes,
            f"this does not fit into {budget.minutes:g} min: candidates at the end of the grid would be left out",
        ]
    notes = [*notes, "guard: with the plain model and one candidate; each further one that is tested adds its tokens"]
    print_forecast(
        ("stage", "candidates", "clusters", f"{unit} to embed", "time"),
        [
            (one.stage, f"{one.candidates}", f"{one.clusters:,}", f"{one.tokens:,}", duration(one.seconds))
            for one in found.stages
        ],
        notes,
        found.sentence(unit),
    )
