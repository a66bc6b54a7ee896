"""LC, Figures 9 and 15: nDCG@10 by the softmax temperatures of queries and of documents.

LC is "Length-Induced Embedding Collapse" (ACL 2025, arXiv 2410.24200). Data: of mteb, which
downloads them, mteb:LEMBQMSumRetrieval (Figure 9) and mteb:LEMBSummScreenFDRetrieval (Figure 15);
or another search of mteb, or a folder in BEIR's layout. The picture shows changes relative to
(1, 1), as in the paper.

Time: texts are embedded once per temperature, so 36 pairs take 6 passes over the data. QMSum (197
documents, 1,527 queries) took 6 minutes with all-MiniLM-L6-v2 (256 tokens) on two CPU cores.
Vectors are kept in OUT/vectors: an interrupted command continues.

    pip install 'fairspan[mteb,report]'
    python papers/lc_grid.py BAAI/bge-base-en-v1.5 mteb:LEMBQMSumRetrieval
    python papers/lc_grid.py all-MiniLM-L6-v2 scifact/ --temperatures 0.8,0.9,1
"""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.errors import CorpusError, DesignError, FairspanError
from fairspan.report.drawing import require_drawing
from fairspan.retrieval.beir import read_beir
from fairspan.retrieval.metrics import gains_of, ndcg
from fairspan.retrieval.mteb_reading import mteb_library
from fairspan.retrieval.search import search
from fairspan.retrieval.task import Passage, Query, RetrievalTask
from scripting import (
    OWN_PROMPTS,
    Numbers,
    Prompts,
    encoded,
    folder_of,
    heat_map,
    kept,
    make_app,
    print_table,
    run,
    temperature_presets,
)

DEPTH = 10
METRIC = f"ndcg@{DEPTH}"

app = make_app(__doc__)


@app.default
def main(
    model: str,
    task: str,
    /,
    *,
    temperatures: Numbers = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    prompts: Prompts = OWN_PROMPTS,
    out: Path = Path("lc-grid"),
) -> None:
    """Search with every pair of temperatures.

    Args:
        model: Name on the Hugging Face hub, or folder.
        task: mteb:NAME, or a folder with corpus.jsonl, queries.jsonl and qrels/test.tsv.
        temperatures: Numbers above 0 and up to 1; 1 must be one of them.
        out: Folder for grid.csv, grid.png and the vectors.
    """
    require_drawing()
    if 1.0 not in temperatures:
        raise DesignError("changes are relative to temperature 1: add 1 to temperatures.")
    calibrations = temperature_presets(temperatures)
    searched = read_mteb(task[5:]) if task.startswith("mteb:") else read_beir(Path(task))
    loaded = prompts.open(model)
    grid = score_pairs(searched, embed(loaded, searched, calibrations, out / "vectors"))
    grid.write_csv(out / "grid.csv")
    draw(grid, f"{model}, {searched.name}", out / "grid.png")
    print_pivot(grid, METRIC, grid[METRIC].round(3))
    print_pivot(grid, "change in %", (100 * grid["relative_change"]).round(1))


def read_mteb(name: str) -> RetrievalTask:
    """A search of mteb that has one subset; queries that nothing answers are left out."""
    try:
        task = mteb_library().get_task(name)
        task.load_data()
        task.convert_v1_dataset_format_to_v2(num_proc=None)
        data = task.dataset["default"][task.eval_splits[0]]
    except FairspanError:
        raise
    # Tasks load in ways of their own, and let through whatever these raise.
    except Exception as error:
        raise CorpusError(f"mteb could not read {name} as a search: {error}") from error
    documents = {
        row["id"]: f"{row.get('title') or ''} {row['text']}".strip() for row in data["corpus"]
    }
    relevant = {
        query: {id: gain for id, gain in gains.items() if gain > 0 and id in documents}
        for query, gains in data["relevant_docs"].items()
    }
    queries = [Query(row["id"], row["text"]) for row in data["queries"] if relevant.get(row["id"])]
    passages = [Passage(id, text) for id, text in documents.items()]
    return RetrievalTask(name, tuple(queries), tuple(passages), relevant)


def embed(
    model: SentenceTransformer, task: RetrievalTask, calibrations: dict[float, Any], store: Path
) -> dict[tuple[str, float], np.ndarray]:
    """Vectors [texts, d] of length 1 by side and temperature; those in the store are read there."""
    folder = folder_of(store, model, task.fingerprint)
    vectors = {}
    for number, calibration in calibrations.items():
        treated = fairspan.calibrate(model, calibration)
        for side, texts, encode in (
            ("query", task.queries, treated.encode_query),
            ("document", task.documents, treated.encode_document),
        ):
            what = f"temperature {number:g}, {side} side"
            strings = [text.text for text in texts]
            file = folder / f"{side}-{number:g}.npy"
            vectors[side, number] = kept(file, partial(encoded, encode, strings, what))
    return vectors


def score_pairs(task: RetrievalTask, vectors: dict[tuple[str, float], np.ndarray]) -> pl.DataFrame:
    """nDCG@10 of each pair of temperatures, and its change relative to (1, 1)."""
    numbers = {document.id: number for number, document in enumerate(task.documents)}
    relevant = [
        {numbers[id]: gain for id, gain in task.relevant[query.id].items() if gain > 0}
        for query in task.queries
    ]
    ideal = [list(gains.values()) for gains in relevant]
    temperatures = sorted({temperature for _, temperature in vectors})
    rows = []
    for query, document in product(temperatures, temperatures):
        ranked = search(vectors["query", query], vectors["document", document], DEPTH)
        score = ndcg(gains_of(ranked, relevant), ideal, DEPTH).mean()
        rows.append((query, document, float(score)))
    grid = pl.DataFrame(rows, ["query", "document", METRIC], orient="row")
    plain = rows[-1][2]
    if plain == 0:
        raise CorpusError(f"the plain model finds nothing in {task.name}.")
    return grid.with_columns(relative_change=pl.col(METRIC) / plain - 1)


def print_pivot(grid: pl.DataFrame, heading: str, values: pl.Series) -> None:
    """Print values by the temperature of queries (rows) and of documents (columns)."""
    pivot = grid.with_columns(values.alias("value")).pivot(
        "document", index="query", values="value"
    )
    print_table(pivot.rename({"query": heading}))


def draw(grid: pl.DataFrame, title: str, file: Path) -> None:
    """A heat map of the relative changes in %."""
    import altair as alt

    rows = grid.select("query", "document", change=100 * pl.col("relative_change"))
    end = max(rows["change"].abs().max(), 0.1)
    # Numbers can be read on the lighter half of the colours.
    scheme = alt.SchemeParams("redblue", extent=[0.2, 0.8])
    scale = alt.Scale(scheme=scheme, domain=[-end, end])
    x = alt.X("document:O", title="temperature of documents")
    y = alt.Y("query:O", title="temperature of queries", sort="descending")
    colour = alt.Color("change:Q", title=f"change of {METRIC} in %", scale=scale)
    heat_map(rows, x, y, colour, ".1f").properties(title=title).save(file, scale_factor=2)


if __name__ == "__main__":
    run(app)
