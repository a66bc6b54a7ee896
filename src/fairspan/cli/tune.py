"""`fairspan tune MODEL TASK…`."""

from typing import Annotated

import typer

from fairspan.calibration.calibration import CALIBRATION_FILE
from fairspan.cli.options import (
    DATA,
    SEARCH,
    CorpusPath,
    ModelName,
    flag,
    list_option,
    option,
    studying,
)
from fairspan.cli.studies import run_study
from fairspan.studies.tune.options import TuneOptions


@studying
def tune(
    context: typer.Context,
    model: ModelName = None,
    tasks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="task",
            help="Your own questions instead of passages cut out of the documents: the folder of a collection, "
            "beir:FOLDER or mteb:NAME. Results of several tasks are averaged.",
        ),
    ] = None,
    corpus: CorpusPath = None,
    parts: bool = flag(
        "--parts", "For documents made of unrelated parts: join texts of the corpus to pages.", DATA
    ),
    guards: list[str] | None = option(
        "A task on other documents that must not get worse. May be repeated.", "--guard", group=DATA
    ),
    languages: str | None = list_option(
        "Languages of the corpus to use, such as en,de.", group=DATA
    ),
    sets: int | None = option(
        "Number of documents to use. Default: 250, or fewer if they are long; 220 joined ones.",
        group=DATA,
    ),
    seed: int | None = option("Seed of the sample and of the halves. Default: 0.", group=DATA),
    candidates: str | None = list_option(
        "Treatments to choose from. Default: long and tiles of 256, 128 and 64 tokens.",
        group=SEARCH,
    ),
    metric: str | None = option(
        "Metric to maximise: ndcg@k, recall@k or mrr. Default: ndcg@10.", group=SEARCH
    ),
    margin: float | None = option(
        "Gains and losses below it do not matter. Default: 0.01.", group=SEARCH
    ),
    strict: bool = flag("--strict", "Write a calibration only if its gain is confirmed.", SEARCH),
) -> None:
    """Find out which treatment to use for your documents, if any.

    Passages are cut out of your documents and used as queries for the rest. Each half of the documents picks a
    candidate, and the other half tests it. The answer is: use it, it is probably better, or keep the plain model.

    The folder gets calibration.json, for fairspan calibrate, and the page tune.html. Vectors are stored, so the same
    command continues an interrupted run.

    Examples:

        fairspan tune ibm-granite/granite-embedding-30m-english --corpus my_documents/

        fairspan tune ibm-granite/granite-embedding-30m-english my_questions/ --guard beir:datasets/scifact

        fairspan tune ibm-granite/granite-embedding-30m-english --corpus my_documents/ --out tuned

        fairspan calibrate ibm-granite/granite-embedding-30m-english granite-tuned --calibration tuned
    """
    found = run_study(TuneOptions, context)
    if found is not None and not context.params["as_json"]:
        typer.echo(
            f"calibration: {found.folder / CALIBRATION_FILE}\npage: {found.folder / 'tune.html'}"
        )
