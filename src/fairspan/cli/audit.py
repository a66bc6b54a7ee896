"""`fairspan audit MODEL`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairspan.cli.options import (
    AsJson,
    BatchTokens,
    Device,
    Dtype,
    Fresh,
    Out,
    StoreFile,
    TrustRemoteCode,
    Window,
    numbers,
    positive,
    words,
)
from fairspan.errors import DesignError, FairspanError

INTERRUPTED = "fairspan: interrupted. What was computed is kept: the same command goes on from there."

if TYPE_CHECKING:
    from fairspan.studies.audit.config import PlannedAudit
    from fairspan.studies.audit.forecast import Forecast


def audit(
    model: Annotated[
        str | None,
        typer.Argument(help="A SentenceTransformer: a folder or a name on the hub. Default: all-MiniLM-L6-v2."),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(help="sample, a folder of en.jsonl, de.jsonl, …, a JSONL or Parquet file, a dataset."),
    ] = None,
    languages: Annotated[
        str | None, typer.Option(help="Monolingual plans, such as en,de. Default: en, none where --mixed is given.")
    ] = None,
    mixed: Annotated[str | None, typer.Option(help="Mixed plans lead:later, such as de:en,en:de, or all.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Segments a document. Default: 4.")] = None,
    sets: Annotated[int | None, typer.Option(help="Sets of segments for each size. Default: 40.")] = None,
    design: Annotated[str | None, typer.Option(help="latin, permutations or williams. Default: latin.")] = None,
    treatments: Annotated[
        str | None,
        typer.Option(
            help="none, paper, retrieval, 128-last_half, paper+basket_size=64, whitening, last2avg, … Default: "
            "none,paper,retrieval."
        ),
    ] = None,
    fit_corpus: Annotated[
        str | None, typer.Option(help="What whitening is fitted on. Default: what the corpus has in no document.")
    ] = None,
    measures: Annotated[
        str | None, typer.Option(help="representation, retention, attention. Default: representation.")
    ] = None,
    min_tokens: Annotated[int | None, typer.Option(help="Leave out shorter segments.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Leave out longer segments.")] = None,
    length_language: Annotated[str | None, typer.Option(help="Hold only this language to the limits.")] = None,
    length_ratio: Annotated[
        float | None, typer.Option(help="How far other languages may be from it, such as 0.7.")
    ] = None,
    opening: Annotated[int | None, typer.Option(help="Take the first so many tokens of every segment.")] = None,
    too_long: Annotated[
        str | None, typer.Option(help="What to do with sets that do not fit the model: redraw or error.")
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Leave out segments that lack a translation.")] = False,
    prompt: Annotated[str | None, typer.Option(help="Put before every text. Default: the model's own.")] = None,
    window: Window = None,
    margin: Annotated[float | None, typer.Option(help="Differences below it count as fair. Default: 0.02.")] = None,
    inference: Annotated[
        str | None, typer.Option(help="auto, cr1, z, cr2, cr3, wild or two-way. Default: auto.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the draw and the orders. Default: 0.")] = None,
    config: Annotated[
        str | None, typer.Option(help="A TOML file, or irf or irf-laptop; options given here override it.")
    ] = None,
    out: Out = None,
    store: StoreFile = None,
    device: Device = None,
    dtype: Dtype = None,
    batch_tokens: BatchTokens = None,
    trust_remote_code: TrustRemoteCode = False,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the position profiles into this PNG, SVG or PDF.")
    ] = None,
    fresh: Fresh = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be embedded and how long it takes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure how well each position and language of a document is represented in its one vector.

    Documents are built from the corpus's segments in balanced orders, embedded under every treatment, and compared
    with each segment embedded alone. What is computed is kept: the same command goes on where it was stopped.

    Examples:

        fairspan audit

        fairspan audit BAAI/bge-m3 --corpus my_articles/ --languages en,de --sizes 3,4,5 --treatments none,paper

        fairspan audit BAAI/bge-m3 --languages en,zh --mixed all --measures representation,attention --dry-run

        fairspan audit --config irf-laptop --picture profiles.png
    """
    from fairspan.report.figure import require_drawing
    from fairspan.studies.audit.config import PlannedAudit, read_config

    fields = {
        "corpus": corpus,
        "languages": words(languages),
        "mixed": mixed if mixed == "all" else words(mixed),
        "sizes": numbers("sizes", sizes),
        "sets": sets,
        "design": design,
        "treatments": words(treatments),
        "fit_corpus": fit_corpus,
        "measures": words(measures),
        "min_tokens": min_tokens,
        "max_tokens": max_tokens,
        "length_language": length_language,
        "length_ratio": length_ratio,
        "opening": opening,
        "too_long": too_long,
        "partial": partial or None,
        "prompt": prompt,
        "margin": margin,
        "inference": inference,
        "seed": seed,
    }
    loading = {
        "window": positive("window", window),
        "device": device,
        "dtype": dtype,
        "trust_remote_code": trust_remote_code or None,
    }
    if picture is not None:
        require_drawing(picture)
    planned = [PlannedAudit(None, {}, {})] if config is None else read_config(config)
    changed = [_changed(audit, model, loading, fields) for audit in planned]
    if model is not None and config is not None:
        changed = [audit for number, audit in enumerate(changed) if audit not in changed[:number]]
    if out is not None and len(changed) > 1:
        raise DesignError(f"--out names one folder, and {config} holds {len(changed)} audits: leave --out away.")
    settings = {"out": out, "store": store, "batch_tokens": positive("batch-tokens", batch_tokens), "fresh": fresh}
    _run_all(changed, settings, picture=picture, dry_run=dry_run, as_json=as_json)


def _changed(
    planned: PlannedAudit, model: str | None, loading: dict[str, Any], fields: dict[str, Any]
) -> PlannedAudit:
    """A planned audit with what was typed in place of what the file says."""
    from fairspan.studies.audit.config import PlannedAudit

    def typed(values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if value is not None}

    merged = {**planned.fields, **typed(fields)}
    if "sets" in typed(fields) or "sizes" in typed(fields):
        merged.pop("documents", None)
    return PlannedAudit(model or planned.model, {**planned.loading, **typed(loading)}, merged)


def _run_all(
    planned: list[PlannedAudit], settings: dict[str, Any], *, picture: Path | None, dry_run: bool, as_json: bool
) -> None:
    """Run audits one after another. A failed one is told in one line, and the others go on."""
    results, failed = [], 0
    for number, one in enumerate(planned, start=1):
        if len(planned) > 1:
            typer.echo(f"audit {number} of {len(planned)}: {one.model or 'the default model'}", err=True)
        try:
            results.append(_run_one(one, settings, _numbered(picture, number, len(planned)), dry_run, as_json))
        except FairspanError as error:
            if len(planned) == 1:
                raise
            failed += 1
            typer.echo(f"fairspan: {error}", err=True)
        except KeyboardInterrupt:
            # Typer would end without a word.
            typer.echo(INTERRUPTED, err=True)
            raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps(results if len(planned) > 1 else results[0], ensure_ascii=False, indent=2))
    if failed:
        raise FairspanError(f"{failed} of {len(planned)} audits failed; the others are complete.")


def _run_one(
    planned: PlannedAudit, settings: dict[str, Any], picture: Path | None, dry_run: bool, as_json: bool
) -> dict[str, Any]:
    import transformers
    from rich.console import Console

    from fairspan.cli.progress import TerminalProgress
    from fairspan.model.loading import DEFAULT_MODEL, load_model
    from fairspan.report.figure import draw, figure_bytes
    from fairspan.report.files import write_file
    from fairspan.report.frames import to_records
    from fairspan.report.terminal import print_view
    from fairspan.studies.audit.forecast import forecast
    from fairspan.studies.audit.prepare import prepare
    from fairspan.studies.audit.run import run
    from fairspan.studies.audit.spec import make_spec
    from fairspan.studies.audit.view import view_of

    spec = make_spec(**planned.fields)
    name = planned.model or DEFAULT_MODEL
    progress = TerminalProgress()
    progress.stage(f"loading {name}")
    # transformers' own bar for reading a local file says nothing that the line above does not.
    transformers.utils.logging.disable_progress_bar()
    prepared = prepare(load_model(planned.model, **planned.loading), spec, name=name, progress=progress)
    console = Console()
    if dry_run:
        progress.stage("timing a few documents")
        found = forecast(prepared)
        if not as_json:
            _print_forecast(console, found)
        return {"model": name, **found.to_dict()}
    try:
        log = run(prepared, **settings, progress=progress)
    finally:
        progress.stop()
    view = view_of(log)
    if not as_json:
        print_view(console, view, ending=f"log: {log.folder}")
    if picture is not None:
        write_file(picture, figure_bytes(draw(view.chart()), picture.suffix.lower().removeprefix(".")))
        typer.echo(f"picture: {picture}", err=as_json)
    frames = {frame: to_records(rows) for frame, rows in view.frames.items()}
    described = {"run": log.run, "folder": str(log.folder), "model": log.model, "status": log.status}
    return {**described, "notes": list(view.notes), **frames}


def _print_forecast(console: Any, found: Forecast) -> None:
    from rich.table import Table

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
        f"{found.tokens:,} tokens, about {_duration(found.seconds)} on this machine",
        soft_wrap=True,
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _numbered(picture: Path | None, number: int, count: int) -> Path | None:
    return picture if picture is None or count == 1 else picture.with_stem(f"{picture.stem}-{number}")
