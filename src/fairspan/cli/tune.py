"""`fairspan tune MODEL TASK…`."""

from typing import Annotated

import typer

from fairspan.calibration.calibration import CALIBRATION_FILE
from fairspan.cli.options import DATA, SEARCH, CorpusPath, ModelName, list_option, option, studying
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
            help="What search should get better at: pages or passages, which are made from the corpus, or from "
            "another one as in pages:CORPUS; the folder of a collection; beir:FOLDER or mteb:NAME. "
            "Of several the mean counts. Default: pages.",
        ),
    ] = None,
    guards: list[str] | None = option(
        "A task of other documents that must not get worse. It is not tuned on. May be given several times.",
        "--guard",
        group=DATA,
    ),
    corpus: CorpusPath = None,
    languages: str | None = list_option("Languages of pages and passages, such as en,de.", group=DATA),
    size: int | None = option("Number of segments per page. Default: 4.", group=DATA),
    sets: int | None = option(
        "Number of pages or documents. Default: 220; a quarter of them are the 50 that a decision needs.", group=DATA
    ),
    seed: int | None = option("Seed of pages and of the parts. Default: 0.", group=DATA),
    candidates: str | None = list_option(
        "Treatments to choose from. Default: tiles of three sizes and other presets.", group=SEARCH
    ),
    metric: str | None = option("What is maximised: ndcg@k, recall@k or mrr. Default: ndcg@10.", group=SEARCH),
    fairness: str | None = option(
        "Groups of queries that should be served equally: position, language or length. "
        "Default: position, where it is known.",
        group=SEARCH,
    ),
    margin: float | None = option("A loss of the metric below it counts as none. Default: 0.01.", group=SEARCH),
) -> None:
    """Choose a treatment for a model and your documents, or none.

    Documents are divided by the seed: one half is tuned on, a quarter guards the choice, a quarter is for the figures
    that are shown. A candidate is chosen only if the guard part confirms its gain and no task loses the margin.
    Without a task, pages are built from the corpus; no labels are needed.

    The folder gets calibration.json, which fairspan calibrate takes, and the page tune.html. Computed vectors are
    kept: the same command continues where it was stopped.

    Examples:

        fairspan tune BAAI/bge-m3 --corpus my_articles/

        fairspan tune BAAI/bge-m3 --corpus my_articles/ --guard beir:datasets/scifact --guard my_questions/

        fairspan tune BAAI/bge-m3 my_questions/ --candidates tiles,paper,tempscale+temperature=0.9 --out tuned

        fairspan tune BAAI/bge-m3 mteb:SciFact --guard mteb:NFCorpus --dry-run

        fairspan calibrate BAAI/bge-m3 my_model --calibration tuned/calibration.json
    """
    found = run_study(TuneOptions, context)
    if found is not None and not context.params["as_json"]:
        typer.echo(f"calibration: {found.folder / CALIBRATION_FILE}\npage: {found.folder / 'tune.html'}")
