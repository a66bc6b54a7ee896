"""`fairspan collapse MODEL`."""

import typer

from fairspan.cli.options import DATA, CorpusPath, ModelName, flag, list_option, option, studying
from fairspan.cli.studies import run_study
from fairspan.studies.collapse.options import CollapseOptions


@studying
def collapse(
    context: typer.Context,
    model: ModelName = None,
    corpus: CorpusPath = None,
    language: str | None = option("Language of the corpus. Default: en.", group=DATA),
    lengths: str | None = list_option(
        "Lengths in tokens. Default: 25,50,100,… as far as model and texts reach.", int, group=DATA
    ),
    natural: bool = flag(
        "--natural", "Use whole documents, in bins of 100 tokens, instead of cutting them.", DATA
    ),
    documents: int | None = option("Largest number of documents. Default: 100.", group=DATA),
    labelled: str | None = option(
        "A JSONL file of texts and labels to classify at every length.", group=DATA
    ),
    temperatures: str | None = list_option(
        'Softmax temperatures; 1 is the unmodified model, and "" leaves only --treatments. Default: 1.0,0.9,0.8.',
        float,
        none=True,
    ),
    treatments: str | None = list_option(
        "More treatments, as in an audit, such as paper or whitening."
    ),
) -> None:
    """Measure whether a model makes long texts look similar, which layer does it, and what a temperature changes.

    The same documents are cut to several lengths, so that long and short texts are about the same topics.

    Examples:

        fairspan collapse

        fairspan collapse ibm-granite/granite-embedding-30m-english --lengths 50,100,200,400 --picture length.png

        fairspan collapse ibm-granite/granite-embedding-30m-english --corpus my_articles/ --dry-run

        fairspan collapse all-MiniLM-L6-v2 --labelled reviews.jsonl --treatments whitening,last2avg
    """
    run_study(CollapseOptions, context)
