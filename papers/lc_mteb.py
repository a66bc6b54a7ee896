"""LC, Tables 1 and 6: scores of mteb's tasks by type, plain, with TempScale and two baselines.

LC is "Length-Induced Embedding Collapse" (ACL 2025, arXiv 2410.24200). Data: the paper's 40 tasks
(Table 4), or any others of mteb, which downloads them; in English. "Avg." is the paper's, the mean
over seven types.

Time: 500 documents and 300 queries of SciFact and 400 film reviews, under four treatments, took 8
minutes of CPU time with all-MiniLM-L6-v2 (256 tokens). All 40 tasks were not measured: they embed
some 4 million texts for each treatment.
Scores are kept in OUT/results, in mteb's format: an interrupted command continues.

    pip install 'fairspan[mteb,report]'
    python papers/lc_mteb.py BAAI/bge-base-en-v1.5
    python papers/lc_mteb.py all-MiniLM-L6-v2 SciFact,STS12 --treatments plain,tempscale
"""

import hashlib
import json
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from sentence_transformers import SentenceTransformer

import fairspan
from baselines import last_two, whiten
from fairspan.errors import CorpusError, FairspanError
from fairspan.report.chart import Chart
from fairspan.report.drawing import draw as draw_chart
from fairspan.report.drawing import require_drawing
from scripting import OWN_PROMPTS, Prompts, Words, make_app, print_table, run, say

# The paper's types and tasks; mteb has one type for both kinds of retrieval.
TYPES = {
    "Class.": "AmazonPolarityClassification Banking77Classification EmotionClassification "
    "ImdbClassification MassiveIntentClassification MassiveScenarioClassification "
    "ToxicConversationsClassification TweetSentimentExtractionClassification",
    "Clust.": "ArxivClusteringP2P ArxivClusteringS2S BiorxivClusteringP2P BiorxivClusteringS2S "
    "MedrxivClusteringP2P MedrxivClusteringS2S RedditClustering RedditClusteringP2P "
    "StackExchangeClustering StackExchangeClusteringP2P TwentyNewsgroupsClustering",
    "Summ.": "SummEval",
    "STS": "BIOSSES SICK-R STS12 STS13 STS14 STS15 STS16 STS17 STS22 STSBenchmark",
    "BeirRetr.": "NFCorpus SciFact",
    "Rerank.": "AskUbuntuDupQuestions MindSmallReranking SciDocsRR StackOverflowDupQuestions",
    "LongEmbdRetr.": "LEMBNarrativeQARetrieval LEMBQMSumRetrieval LEMBSummScreenFDRetrieval "
    "LEMBWikimQARetrieval",
}
TYPE_OF = {task: name for name, tasks in TYPES.items() for task in tasks.split()}

app = make_app(__doc__)


@app.default
def main(
    model: str,
    tasks: Words | None = None,
    /,
    *,
    treatments: Words = ("plain", "tempscale", "last2avg", "whitening"),
    corpus: str = "long-sample",
    prompts: Prompts = OWN_PROMPTS,
    out: Path = Path("lc-mteb"),
) -> None:
    """Score a model.

    Args:
        model: Name on the Hugging Face hub, or folder.
        tasks: Names of mteb's tasks. By default the paper's 40.
        treatments: Presets of fairspan, last2avg, whitening. Changes are relative to the first.
        corpus: Texts to fit whitening on. None of them may be in a task.
        out: Folder for tasks.csv, types.csv, types.png and mteb's results.
    """
    require_drawing()
    loaded = prompts.open(model)
    metas = {name: meta_of(name, loaded, corpus) for name in treatments}
    names = list(TYPE_OF) if tasks is None else tasks
    rows = []
    for number, name in enumerate(names, start=1):
        for treatment, meta in metas.items():
            say(f"{name} ({number} of {len(names)}): {treatment} …")
            rows.append((*score(name, meta, out), treatment))
    scores = pl.DataFrame(rows, ["type", "task", "score", "treatment"], orient="row")
    means = mean_by_type(scores)
    with_change(scores, "task").write_csv(out / "tasks.csv")
    means.write_csv(out / "types.csv")
    draw(means, out / "types.png")
    print_table(means.with_columns(pl.col("score", "relative_change").round(4)))


def meta_of(treatment: str, model: SentenceTransformer, corpus: str) -> Any:
    """What mteb runs, with a name and a revision that no other treatment has."""
    if treatment not in ("last2avg", "whitening"):
        return fairspan.mteb_model(model, treatment)
    plain = fairspan.mteb_model(model, "plain")
    texts = passages(corpus) if treatment == "whitening" else []
    decisive = json.dumps([plain.revision, treatment, texts])

    @cache
    def treated() -> SentenceTransformer:
        return last_two(model) if treatment == "last2avg" else whiten(model, texts)

    def load(name: str, **_: Any) -> Any:
        from mteb import SentenceTransformerEncoderWrapper

        return SentenceTransformerEncoderWrapper(treated())

    facts = {
        "name": plain.name.replace("(plain)", f"({treatment})"),
        "revision": hashlib.sha256(decisive.encode()).hexdigest()[:16],
        "loader": load,
    }
    return plain.model_copy(update=facts)


def passages(corpus: str, words: int = 80) -> list[str]:
    """The texts of a corpus, cut into pieces of this many words."""
    pieces = []
    for segment in fairspan.Corpus.read(corpus, partial=True).segments:
        text = segment.text.split()
        pieces += [" ".join(text[at : at + words]) for at in range(0, len(text), words)]
    return pieces


def score(name: str, meta: Any, out: Path) -> tuple[str, str, float]:
    """The type of a task, its name and mteb's main score; one that is in `out` is read there."""
    import mteb

    # mteb also scores the validation split of Massive*, and the paper does not.
    splits = ["test"] if name.startswith("Massive") else None
    try:
        with warnings.catch_warnings(action="ignore"):
            # Tasks draw samples as they are scored: a new one draws the same for each treatment.
            task = mteb.get_task(
                name, languages=["eng"], exclusive_language_filter=True, eval_splits=splits
            )
            result = mteb.evaluate(
                meta,
                task,
                cache=mteb.ResultCache(out),
                co2_tracker=False,
                show_progress_bar=sys.stderr.isatty(),
            )
    except FairspanError:
        raise
    # Tasks load and score in ways of their own, and let through whatever these raise.
    except Exception as error:
        raise CorpusError(f"mteb could not score {name}: {error}") from error
    kind = TYPE_OF.get(name, str(task.metadata.type))
    return kind, name, result.task_results[0].get_score()


def mean_by_type(scores: pl.DataFrame) -> pl.DataFrame:
    """The mean score over the tasks of each type, and over the types."""
    by_type = scores.group_by("type", "treatment", maintain_order=True)
    types = by_type.agg(pl.len().alias("tasks"), pl.mean("score"))
    by_treatment = types.group_by("treatment", maintain_order=True)
    average = by_treatment.agg(pl.lit("Avg.").alias("type"), pl.sum("tasks"), pl.mean("score"))
    return with_change(pl.concat([types, average.select(types.columns)]), "type")


def with_change(scores: pl.DataFrame, group: str) -> pl.DataFrame:
    """With the change relative to the first treatment, which is in a group's first row."""
    first = pl.col("score").first().over(group)
    return scores.with_columns(relative_change=(pl.col("score") - first) / first.abs())


def draw(means: pl.DataFrame, file: Path) -> None:
    """The relative changes by type."""
    chart = Chart(
        name="types",
        title="Relative change of the score",
        frame=means.rename({"relative_change": "estimate"}),
        x="type",
        form="+.1%",
    )
    draw_chart(chart).save(file, scale_factor=2)


if __name__ == "__main__":
    run(app)
