"""`fairspan audit MODEL`."""

import typer

from fairspan.cli.gate import FailIf
from fairspan.cli.options import (
    DATA,
    CorpusPath,
    ModelName,
    Prompt,
    list_option,
    option,
    studying_any,
)
from fairspan.cli.studies import run_study
from fairspan.studies.audit.options import AuditOptions


@studying_any
def audit(
    context: typer.Context,
    model: ModelName = None,
    corpus: CorpusPath = None,
    languages: str | None = list_option(
        "Monolingual plans, such as en,de. Default: en, or none with --mixed.", group=DATA
    ),
    mixed: str | None = list_option(
        "Mixed plans lead:later, such as de:en,en:de, or all.", group=DATA
    ),
    sizes: str | None = list_option(
        "Numbers of segments per document. Default: 4.", int, group=DATA
    ),
    sets: int | None = option("Number of sets of segments for each size. Default: 40.", group=DATA),
    design: str | None = option(
        "How each set is ordered: latin, permutations or williams. Default: latin.", group=DATA
    ),
    opening: int | None = option(
        "Number of tokens to use from the start of every segment.", group=DATA
    ),
    fit_corpus: str | None = option(
        "Corpus that whitening is fitted on. Default: segments in no document.",
        group=DATA,
    ),
    treatments: str | None = list_option(
        "plain, tiles, paper, retrieval, 128-last_half, paper+basket_size=64, whitening, last2avg, chunk-mean, "
        "… Default: plain,tiles, or plain,chunk-mean with --endpoint."
    ),
    measures: str | None = list_option(
        "representation, retention, attention. Default: representation."
    ),
    margin: float | None = option("Differences below it count as fair. Default: 0.02."),
    seed: int | None = option("Seed of the sample and the orders. Default: 0."),
    prompt: Prompt = None,
    fail_if: FailIf = None,
) -> None:
    """Measure how well one vector represents each position and language of a document.

    Documents are built from segments of the corpus in balanced orders, embedded under every treatment, and compared
    with each segment embedded alone. Vectors are stored, so the same command continues an interrupted run.

    Examples:

        fairspan audit

        fairspan audit ibm-granite/granite-embedding-30m-english --corpus my_articles/ --sizes 3,4,5

        fairspan audit MODEL --languages en,zh --mixed all --measures representation,attention --dry-run

        fairspan audit --languages en,de --sizes 3,4 --opening 115 --picture profiles.png

        fairspan audit ./my-model --treatments plain --fail-if biased

        fairspan audit --endpoint http://localhost:8000/v1 --model MODEL --dry-run
    """
    run_study(AuditOptions, context)
