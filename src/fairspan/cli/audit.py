"""`fairspan audit MODEL`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fairspan.cli.options import (
    AsJson,
    CorpusPath,
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
from fairspan.errors import DesignError, FairspanError

if TYPE_CHECKING:
    from fairspan.studies.audit.config import PlannedAudit
    from fairspan.studies.audit.forecast import Forecast


@shared(LoadingOptions, RunningOptions)
def audit(
    context: typer.Context,
    model: ModelName = None,
    corpus: CorpusPath = None,
    languages: str | None = option("Monolingual plans, such as en,de. Default: en, or none with --mixed."),
    mixed: str | None = option("Mixed plans lead:later, such as de:en,en:de, or all."),
    sizes: str | None = option("Numbers of segments per document, such as 3,4. Default: 4."),
    sets: int | None = option("Number of sets of segments for each size. Default: 40."),
    design: str | None = option("How each set is ordered: latin, permutations or williams. Default: latin."),
    treatments: str | None = option(
        "none, tiles, paper, retrieval, 128-last_half, paper+basket_size=64, whitening, last2avg, … Default: "
        "none,paper,tiles."
    ),
    fit_corpus: str | None = option(
        "Corpus that whitening is fitted on. Default: what the corpus has in no document."
    ),
    measures: str | None = option("representation, retention, attention. Default: representation."),
    min_tokens: int | None = option("Omit shorter segments."),
    max_tokens: int | None = option("Omit longer segments."),
    length_language: str | None = option("Apply these limits to this language only."),
    length_ratio: float | None = option("How far the lengths of other languages may be from it, such as 0.7."),
    opening: int | None = option("Number of tokens to use from the start of every segment."),
    too_long: str | None = option("What to do with sets that are longer than any treatment reads: redraw or error."),
    partial: bool = option("Omit segments that lack a translation.", "--partial", default=False),
    prompt: Prompt = None,
    margin: float | None = option("Differences below it count as fair. Default: 0.02."),
    inference: str | None = option("How intervals are made: auto, cr1, z, cr2, cr3, wild or two-way. Default: auto."),
    seed: int | None = option("Seed of the draw and the orders. Default: 0."),
    config: str | None = option("A TOML file, or irf or irf-laptop; options given here override it."),
    picture: Path | None = option("Draw the position profiles into this PNG, SVG or PDF."),
    dry_run: bool = option("Print what would be embedded and how long it takes.", "--dry-run", default=False),
    as_json: AsJson = False,
) -> None:
    """Measure how well each position and language of a document is represented in its one vector.

    Documents are built from the corpus's segments in balanced orders, embedded under every treatment, and compared
    with each segment embedded alone. Computed vectors are kept: the same command continues where it was stopped.

    Examples:

        fairspan audit

        fairspan audit BAAI/bge-m3 --corpus my_articles/ --languages en,de --sizes 3,4,5 --treatments none,paper

        fairspan audit BAAI/bge-m3 --languages en,zh --mixed all --measures representation,attention --dry-run

        fairspan audit --config irf-laptop --picture profiles.png
    """
    from fairspan.cli.showing import running
    from fairspan.studies.audit.config import PlannedAudit, read_config

    given = typed(context, "model", "config", "picture", "dry_run")
    loading, settings = pick(given, LoadingOptions), pick(given, RunningOptions)
    fields = {name: value for name, value in given.items() if name not in {**loading, **settings}}
    planned = []
    for one in [PlannedAudit(None, {}, {})] if config is None else read_config(config):
        # What was typed of sets takes the place of what the file says of documents.
        own = {k: v for k, v in one.fields.items() if k != "documents" or not {"sets", "sizes"} & {*fields}}
        changed = PlannedAudit(model or one.model, {**one.loading, **loading}, {**own, **fields})
        if model is None or changed not in planned:
            planned.append(changed)
    if "out" in settings and len(planned) > 1:
        raise DesignError(f"[[out=]] names one folder, and {config} holds {len(planned)} audits: omit it.")
    with running(picture) as progress:
        _run_all(planned, {**settings, "progress": progress}, picture=picture, dry_run=dry_run, as_json=as_json)


def _run_all(
    planned: list[PlannedAudit], settings: dict[str, Any], *, picture: Path | None, dry_run: bool, as_json: bool
) -> None:
    """Run audits one after another. A failed one is reported in one line, and the others go on."""
    from fairspan.model.loading import DEFAULT_MODEL

    results, failed = [], 0
    for number, one in enumerate(planned, start=1):
        if len(planned) > 1:
            typer.echo(f"audit {number} of {len(planned)}: {one.model or DEFAULT_MODEL}", err=True)
        try:
            results.append(_run_one(one, settings, _numbered(picture, number, len(planned)), dry_run, as_json))
        except FairspanError as error:
            if len(planned) == 1:
                raise
            failed += 1
            typer.echo(f"fairspan: {error.for_command_line}", err=True)
    if as_json:
        print_json(results if len(planned) > 1 else results[0])
    if failed:
        raise FairspanError(f"{failed} of {len(planned)} audits failed; the others are complete.")


def _run_one(
    planned: PlannedAudit, settings: dict[str, Any], picture: Path | None, dry_run: bool, as_json: bool
) -> dict[str, Any]:
    from rich.console import Console

    from fairspan.cli.showing import save_picture
    from fairspan.model.loading import Loading
    from fairspan.report.terminal import print_view
    from fairspan.runs.runner import RunOptions
    from fairspan.runs.subject import open_subject
    from fairspan.studies.audit.forecast import forecast
    from fairspan.studies.audit.prepare import prepare
    from fairspan.studies.audit.run import run
    from fairspan.studies.audit.spec import make_spec

    spec, options = make_spec(**planned.fields), RunOptions(**settings)
    progress, console = options.progress, Console()
    subject = open_subject(planned.model, loading=Loading(**planned.loading), progress=progress)
    prepared = prepare(subject, spec, progress)
    if dry_run:
        progress.stage("timing a few documents")
        found = forecast(prepared)
        if not as_json:
            _print_forecast(console, found)
        return {"model": subject.name, **found.to_dict()}
    log = run(prepared, options)
    if not as_json:
        print_view(console, log.view, ending=f"log: {log.folder}")
    if picture is not None:
        save_picture(log, picture, as_json=as_json)
    return log.to_dict()


def _print_forecast(console: Any, found: Forecast) -> None:
    from rich.table import Table

    from fairspan.report.text import duration

    table = Table()
    for name in ("n", "languages", "sets", "documents", "tokens"):
        table.add_column(name, justify="left" if name == "languages" else "right")
    for family in found.families:
        table.add_row(str(family.n), family.plan, str(family.sets), f"{family.documents:,}", f"{family.tokens:,}")
    console.print(table)
    for note in found.notes:
        console.print(f"note: {note}", style="yellow", soft_wrap=True)
    console.print(
        f"{found.treatments} treatments × ({found.documents:,} documents + {found.segments:,} segments alone) = "
        f"{found.tokens:,} tokens, about {duration(found.seconds)} on this machine",
        soft_wrap=True,
    )


def _numbered(picture: Path | None, number: int, count: int) -> Path | None:
    return picture if picture is None or count == 1 else picture.with_stem(f"{picture.stem}-{number}")
