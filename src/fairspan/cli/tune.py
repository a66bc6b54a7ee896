"""`fairspan tune MODEL TASK…`."""

from typing import Annotated

import typer

from fairspan.calibration.calibration import CALIBRATION_FILE
from fairspan.cli.options import DATA, SEARCH, CorpusPath, ModelName, flag, list_option, option, studying
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
            help="Your own questions, in place of passages cut out of the documents: the folder of a collection, "
            "beir:FOLDER or mteb:NAME. Of several the mean counts.",
        ),
    ] = None,
    corpus: CorpusPath = None,
    parts: bool = flag("--parts", "Documents are made of unrelated parts: texts of the corpus are joined.", DATA),
    guards: list[str] | None = option(
        "A task of other documents that must not get worse. May be given several times.", "--guard", group=DATA
    ),
    languages: str | None = list_option("Languages of the corpus to use, such as en,de.", group=DATA),
    sets: int | None = option(
        "Number of documents to use. Default: 250, or fewer if they are long; 220 joined ones.", group=DATA
    ),
    seed: int | None = option("Seed of what is drawn and of the halves. Default: 0.", group=DATA),
    candidates: str | None = list_option(
        "Treatments to choose from. Default: long and tiles of 256, 128 and 64 tokens.",
        group=SEARCH,
    ),
    metric: str | None = option("What is maximised: ndcg@k, recall@k or mrr. Default: ndcg@10.", group=SEARCH),
    margin: float | None = option(
        "A gain or loss of the metric below it does not matter. Default: 0.01.", group=SEARCH
    ),
    strict: bool = flag("--strict", "Write a calibration only if its gain is confirmed.", SEARCH),
) -> None:
    """Find out which treatment to use for your documents, if any.

    The documents are used as they are: passages that are cut out of them have to find them again. Each half of the
    documents chooses a candidate, and the other half confirms it. The answer is: use it, it is probably better, or
    keep the plain model.

    The folder gets calibration.json, which fairspan calibrate takes, and the page tune.html. Computed vectors are
    kept: the same command continues where it was stopped.

    Examples:

        fairspan tune BAAI/bge-m3 --corpus my_documents/

        fairspan tune BAAI/bge-m3 my_questions/ --guard beir:datasets/scifact

        fairspan tune BAAI/bge-m3 --corpus my_documents/ --candidates long,tiles,paper --out tuned

        fairspan calibrate BAAI/bge-m3 my_model --calibration tuned/calibration.json
    """
    found = run_study(TuneOptions, context)
    if found is not None and not context.params["as_json"]:
        typer.echo(f"calibration: {found.folder / CALIBRATION_FILE}\npage: {found.folder / 'tune.html'}")
