"""`fairspan collapse MODEL`."""

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

if TYPE_CHECKING:
    from fairspan.runs.progress import Progress
    from fairspan.studies.collapse.forecast import Forecast


@shared(LoadingOptions, RunningOptions)
def collapse(
    context: typer.Context,
    model: ModelName = None,
    corpus: CorpusPath = None,
    language: str | None = option("Language of the corpus. Default: en."),
    lengths: str | None = option(
        "Lengths in tokens, such as 50,100,200,400. Default: 25, 50, … as far as model and texts reach."
    ),
    natural: bool = option(
        "Use whole documents, in bins of 100 tokens, instead of cutting them.", "--natural", default=False
    ),
    temperatures: str | None = option("Softmax temperatures; 1 is the unmodified model. Default: 1.0,0.9,0.8."),
    treatments: str | None = option("More treatments, as in an audit, such as paper or whitening."),
    documents: int | None = option("Number of documents at most. Default: 100."),
    start: str | None = option("Where a cut begins: random or beginning. Default: random."),
    tolerance: float | None = option(
        "How far a text may be from the length asked for, as a share of it. Default: 0.2."
    ),
    spectra: int | None = option("Number of texts of each length whose attention is analysed. Default: 5."),
    layers: str | None = option("Layers whose σ_a is computed: last, last_half or all. Default: last."),
    labelled: Path | None = option("A JSONL file of texts and labels to classify at every length."),
    labelled_documents: int | None = option("Number of labelled texts at most. Default: 600."),
    fit_corpus: str | None = option(
        "Corpus that whitening is fitted on. Default: what the corpus has in no measured text."
    ),
    margin: float | None = option(
        "Rise of the mean cosine per doubling of length below which texts count as not more alike. Default: 0.005."
    ),
    probe: bool = option("Embed repeated words as well.", default=True),
    seed: int | None = option("Seed of the draw, and of the intervals of labelled texts. Default: 0."),
    prompt: Prompt = None,
    picture: Path | None = option("Draw the curves into this PNG, SVG or PDF."),
    dry_run: bool = option("Print what would be embedded and how long it takes.", "--dry-run", default=False),
    as_json: AsJson = False,
) -> None:
    """Measure whether a model makes long texts look similar, which layer does it, and what a temperature changes.

    The same documents are cut to several lengths, so longer texts are not about other things than shorter ones.

    Examples:

        fairspan collapse

        fairspan collapse BAAI/bge-m3 --corpus my_articles/ --lengths 100,200,400,800 --picture length.png

        fairspan collapse BAAI/bge-m3 --corpus my_articles/ --temperatures 1.0,0.9,0.8,0.5 --layers all --dry-run

        fairspan collapse BAAI/bge-m3 --corpus my_articles/ --labelled reviews.jsonl --treatments whitening,last2avg
    """
    from fairspan.cli.checking import check_collapse, check_model
    from fairspan.cli.showing import running, say_loading, show
    from fairspan.runs.request import fields_of_study, known_run
    from fairspan.studies.collapse.spec import make_collapse
    from fairspan.studies.collapse.view import view_of

    given = typed(context, "picture", "dry_run")
    with running(picture) as progress:
        log = None if dry_run else known_run("collapse", make_collapse, view_of, given)
        if log is None:
            check_collapse(make_collapse(**fields_of_study(given)))
            check_model(model, given)
            say_loading(progress, model)
            if dry_run:
                _forecast(given, progress, as_json=as_json)
                return
            from fairspan.studies.collapse.run import collapse

            log = collapse(**given, progress=progress)
    show(log, as_json=as_json, picture=picture, ending=f"log: {log.folder}")


def _forecast(given: dict[str, Any], progress: Progress, *, as_json: bool) -> None:
    """Cut the texts and time the treatments on a few of them."""
    from fairspan.model.source import Loading
    from fairspan.runs.request import fields_of_study
    from fairspan.runs.subject import open_subject
    from fairspan.studies.collapse.forecast import forecast
    from fairspan.studies.collapse.prepare import prepare_collapse
    from fairspan.studies.collapse.spec import make_collapse

    spec = make_collapse(**fields_of_study(given))
    subject = open_subject(given.get("model"), loading=Loading(**pick(given, LoadingOptions)), progress=progress)
    prepared = prepare_collapse(subject, spec, progress)
    progress.stage("timing a few texts")
    found = forecast(prepared)
    if as_json:
        print_json({"model": subject.name, **found.to_dict()})
    else:
        _print_forecast(found, subject.counter.unit)


def _print_forecast(found: Forecast, unit: str) -> None:
    from fairspan.cli.showing import print_forecast
    from fairspan.report.text import duration

    print_forecast(
        ("treatment", f"{unit} to embed", "time"),
        [(arm.treatment, f"{arm.tokens:,}", duration(arm.seconds)) for arm in found.arms],
        found.notes,
        f"{found.texts:,} texts of up to {found.lengths[-1]:,} {unit} × {len(found.arms)} treatments = "
        f"{found.tokens:,} {unit}, about {duration(found.seconds)}",
    )
