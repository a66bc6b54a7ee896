"""`fairspan audit MODEL`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fairspan.calibration.treatment import CLOSED_TREATMENTS
from fairspan.cli.gate import FailIf, fail_on_runs, read_conditions
from fairspan.cli.options import (
    AsJson,
    CorpusPath,
    EndpointOptions,
    LoadingOptions,
    ModelName,
    Prompt,
    RunningOptions,
    option,
    pick,
    print_json,
    shared,
    take_endpoint,
    typed,
)
from fairspan.errors import DesignError, FairspanError

if TYPE_CHECKING:
    from fairspan.runs.log import RunLog
    from fairspan.studies.audit.config import PlannedAudit
    from fairspan.studies.audit.forecast import Forecast


@shared(EndpointOptions, LoadingOptions, RunningOptions)
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
        "none, tiles, paper, retrieval, 128-last_half, paper+basket_size=64, whitening, last2avg, chunk-mean, "
        "tiles+languages=subspace, … Default: none,tiles, or none,chunk-mean with --endpoint."
    ),
    fit_corpus: str | None = option(
        "Corpus that whitening and languages= are fitted on. Default: what the corpus has in no document."
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
    fail_if: FailIf = None,
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

        fairspan audit ./my-model --treatments none --fail-if biased

        fairspan audit --endpoint http://localhost:8000/v1 --model BAAI/bge-m3 --dry-run
    """
    from fairspan.cli.showing import running
    from fairspan.studies.audit.config import PlannedAudit, read_config

    given = typed(context, "model", "config", "picture", "fail_if", "dry_run")
    endpoint = take_endpoint(given)
    if endpoint is not None:
        if model is not None:
            raise DesignError(f"MODEL {model!r} and [[endpoint=]] are two models: omit one of them.")
        if config is None:
            given.setdefault("treatments", list(CLOSED_TREATMENTS))
    conditions = read_conditions("audit", fail_if, given.get("treatments"))
    loading, settings = pick(given, LoadingOptions), pick(given, RunningOptions)
    fields = {name: value for name, value in given.items() if name not in {**loading, **settings}}
    planned = []
    for one in [PlannedAudit(None, {}, {})] if config is None else read_config(config):
        # What was typed of sets takes the place of what the file says of documents.
        own = {k: v for k, v in one.fields.items() if k != "documents" or not {"sets", "sizes"} & {*fields}}
        changed = PlannedAudit(endpoint or model or one.model, {**one.loading, **loading}, {**own, **fields})
        if (endpoint or model) is None or changed not in planned:
            planned.append(changed)
    if "out" in settings and len(planned) > 1:
        raise DesignError(f"[[out=]] names one folder, and {config} holds {len(planned)} audits: omit it.")
    with running(picture) as progress:
        logs = _run_all(
            planned, {**settings, "progress": progress}, picture=picture, dry_run=dry_run, as_json=as_json
        )
    fail_on_runs(logs, conditions)


def _known(planned: PlannedAudit, settings: dict[str, Any]) -> RunLog | None:
    """The log of this very audit, which needs no model."""
    from fairspan.runs.request import known_run
    from fairspan.studies.audit.spec import make_spec
    from fairspan.studies.audit.view import view_of

    given = {"model": planned.model, **planned.loading, **planned.fields, **settings}
    return known_run("audit", make_spec, view_of, given)


def _shown(log: RunLog, *, picture: Path | None, as_json: bool) -> RunLog:
    from rich.console import Console

    from fairspan.cli.showing import save_picture
    from fairspan.report.terminal import print_view

    if not as_json:
        print_view(Console(), log.view, ending=f"log: {log.folder}")
    if picture is not None:
        save_picture(log, picture, as_json=as_json)
    return log


def _run_all(
    planned: list[PlannedAudit], settings: dict[str, Any], *, picture: Path | None, dry_run: bool, as_json: bool
) -> list[RunLog]:
    """Run audits one after another. A failed one is reported in one line, and the others go on."""
    from fairspan.runs.request import named

    results: list[RunLog | dict[str, Any]] = []
    failed = 0
    for number, one in enumerate(planned, start=1):
        if len(planned) > 1:
            typer.echo(f"audit {number} of {len(planned)}: {named(one.model)}", err=True)
        try:
            results.append(_run_one(one, settings, _numbered(picture, number, len(planned)), dry_run, as_json))
        except FairspanError as error:
            if len(planned) == 1:
                raise
            failed += 1
            typer.echo(f"fairspan: {error.for_command_line}", err=True)
    logs = [one for one in results if not isinstance(one, dict)]
    if as_json:
        shown = [one if isinstance(one, dict) else one.to_dict() for one in results]
        print_json(shown if len(planned) > 1 else shown[0])
    if failed:
        raise FairspanError(f"{failed} of {len(planned)} audits failed; the others are complete.")
    return logs


def _run_one(
    planned: PlannedAudit, settings: dict[str, Any], picture: Path | None, dry_run: bool, as_json: bool
) -> RunLog | dict[str, Any]:
    """The log, or the forecast."""
    from fairspan.cli.checking import check_audit, check_model
    from fairspan.cli.showing import say_loading
    from fairspan.model.source import Loading
    from fairspan.studies.audit.spec import make_spec

    known = None if dry_run else _known(planned, settings)
    if known is not None:
        return _shown(known, picture=picture, as_json=as_json)
    spec, progress = make_spec(**planned.fields), settings["progress"]
    check_audit(spec)
    check_model(planned.model, {**settings, **planned.loading})
    say_loading(progress, planned.model)
    from fairspan.runs.request import request_of
    from fairspan.runs.runner import RunOptions
    from fairspan.runs.subject import open_subject
    from fairspan.studies.audit.forecast import forecast
    from fairspan.studies.audit.prepare import prepare
    from fairspan.studies.audit.run import run

    request = request_of("audit", spec, planned.model, **planned.loading)
    options = RunOptions(**settings, request=request)
    subject = open_subject(planned.model, loading=Loading(**planned.loading), progress=progress)
    prepared = prepare(subject, spec, progress)
    if dry_run:
        progress.stage("trying a few texts")
        found = forecast(prepared, options.store)
        if not as_json:
            _print_forecast(found)
        return {"model": subject.name, **found.to_dict()}
    return _shown(run(prepared, options), picture=picture, as_json=as_json)


def _print_forecast(found: Forecast) -> None:
    from fairspan.cli.showing import print_forecast
    from fairspan.report.text import duration

    took = "" if found.seconds is None else f", about {duration(found.seconds)}"
    print_forecast(
        ("n", "languages", "sets", "documents", found.unit),
        [(str(one.n), one.plan, str(one.sets), f"{one.documents:,}", f"{one.tokens:,}") for one in found.families],
        found.notes,
        f"{found.treatments} treatments × ({found.documents:,} documents + {found.segments:,} segments alone) = "
        f"{found.tokens:,} {found.unit}{took}",
        found.sending,
    )


def _numbered(picture: Path | None, number: int, count: int) -> Path | None:
    return picture if picture is None or count == 1 else picture.with_stem(f"{picture.stem}-{number}")
