"""`fairspan evaluate MODEL TASK`."""

from typing import Annotated

import typer

from fairspan.cli.gate import FailIf
from fairspan.cli.options import (
    DATA,
    MODEL,
    SEARCH,
    CorpusPath,
    ModelName,
    Prompt,
    list_option,
    number_or_word,
    option,
    studying_any,
)
from fairspan.cli.studies import asked, run_study
from fairspan.studies.evaluate.options import EvaluateOptions


@studying_any
def evaluate(
    context: typer.Context,
    model: ModelName = None,
    task: Annotated[
        str,
        typer.Argument(
            help="Your own questions: the folder of a collection, beir:FOLDER or mteb:NAME. Without them, passages "
            "of the corpus; or pages joined from its texts."
        ),
    ] = "passages",
    corpus: CorpusPath = None,
    languages: str | None = list_option(
        "Languages of pages, such as en,de, or of multilingual questions to search across.",
        group=DATA,
    ),
    language: str | None = option("Language of a collection that has several.", group=DATA),
    split: str | None = option("Split of a collection. Default: test.", group=DATA),
    sets: int | None = option("Number of pages, or of documents. Default: 100.", group=DATA),
    opening: int | None = option(
        "Number of tokens to use from the start of every segment on a page.", group=DATA
    ),
    too_long: str | None = option(
        "What to do with documents that not every treatment reads whole: leave-out, shorten, cut or error. Default: "
        "cut; if no treatment reads them and positions are known, leave-out (passages: shorten).",
        group=DATA,
    ),
    fit_corpus: str | None = option(
        "Corpus that whitening is fitted on. Default, for pages: segments on no page.",
        group=DATA,
    ),
    seed: int | None = option("Seed of pages and intervals. Default: 0.", group=DATA),
    treatments: str | None = list_option(
        "Treatments; the first is the baseline. Default: plain,long; for pages plain,tiles; of an endpoint "
        "plain,chunk-mean.",
        group=SEARCH,
    ),
    indexes: str | None = list_option(
        "What the index stores of a document: whole, chunk-mean, chunk-max, late-max. Default: whole.",
        group=SEARCH,
    ),
    chunk_tokens: str | None = option(
        "Length of the longest chunk, or window. Default: 128.", group=SEARCH
    ),
    metrics: str | None = list_option(
        "Metrics; the first decides the verdicts. Default: ndcg@10,mrr,recall@1,recall@10.",
        group=SEARCH,
    ),
    margin: float | None = option("Losses below it do not matter. Default: 0.01.", group=SEARCH),
    prompt: Prompt = None,
    query_prompt: str | None = option(
        "Text put before every query. Default: the model's own.", group=MODEL
    ),
    fail_if: FailIf = None,
) -> None:
    """Measure what search finds, by how deep in a document it is, and whether a treatment helps.

    Every treatment embeds the same documents and queries; search is exact; differences are paired by query. Vectors
    are stored, so the same command continues an interrupted run.

    Examples:

        fairspan evaluate

        fairspan evaluate ibm-granite/granite-embedding-30m-english --corpus my_documents/ --picture by_depth.png

        fairspan evaluate ibm-granite/granite-embedding-30m-english my_questions/ --indexes whole,chunk-max,late-max

        fairspan evaluate all-MiniLM-L6-v2 beir:datasets/scifact --dry-run

        fairspan evaluate MODEL xquad_positions --languages en,de,zh,hi --picture languages.png

        fairspan evaluate --endpoint http://localhost:8000/v1 --model MODEL my_questions/ --fail-if worse
    """
    given = asked(context)
    if "chunk_tokens" in given:
        given["chunk_tokens"] = number_or_word(given["chunk_tokens"])
    run_study(EvaluateOptions, context, given)
