"""IRF's open questions: basket size × layers, what is left of a vector, and what it costs.

IRF is "Information Representation Fairness in Long-Document Embeddings" (2026, arXiv 2601.16934).
It tries baskets of 128 and 512 in the last layer and the last half, on one encoder, without
timings. This measures any grid on any model that `calibrate` takes, a decoder such as
Qwen/Qwen3-Embedding-0.6B as well: the spread between positions, the fidelity (the cosine of the
calibrated and the plain vector of a document), and the time of encoding relative to the plain
model. It chooses nothing: `fairspan tune` does, on data of your own.

Time: documents are embedded once for each pair. 9 pairs and 48 documents of 200 tokens took 2
minutes with all-MiniLM-L6-v2 on one CPU core, half of it for timings. OUT keeps vectors and
timings: an interrupted command continues. It gets sweep.csv and sweep.png.

    pip install 'fairspan[report]'
    python papers/irf_sweep.py Alibaba-NLP/gte-multilingual-base --corpus wiki --sizes 3
    python papers/irf_sweep.py all-MiniLM-L6-v2 --opening 50 --baskets 16,32,64
"""

import json
import statistics
import time
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.report.drawing import require_drawing
from fairspan.studies.audit.rows import with_languages
from scripting import Counts, Words, heat_map, make_app, print_table, run, say

PLAIN = "plain"

app = make_app(__doc__)


@app.default
def main(
    model: str,
    /,
    *,
    corpus: str = "sample",
    languages: Words = ("en",),
    sizes: Counts = (4,),
    sets: int = 40,
    opening: int | None = None,
    baskets: Counts = (128, 256, 512),
    layers: Words = ("last", "3", "last_half"),
    rounds: int = 5,
    out: Path = Path("irf-sweep"),
) -> None:
    """Audit every pair of a basket size and a set of layers.

    Args:
        model: Name on the Hugging Face hub, or folder.
        corpus: As in fairspan audit.
        languages: Languages of the documents.
        sizes: Numbers of segments per document.
        sets: Number of sets of segments of each size.
        opening: Number of tokens to use from the start of every segment. By default all.
        baskets: Numbers of tokens in a basket.
        layers: last, last_half, all, or a number for the last so many.
        rounds: How often encoding is timed; 0 for no timing.
        out: Folder for sweep.csv, sweep.png, vectors and timings.
    """
    require_drawing()
    pairs = list(product(baskets, layers))
    say(f"loading {model} …")
    loaded = fairspan.load(model)
    logs = {}
    for size, where in pairs:
        # Plain documents are embedded for the first pair, and taken from the store for the others.
        logs[size, where] = fairspan.audit(
            loaded,
            name=model,
            corpus=corpus,
            languages=languages,
            sizes=list(sizes),
            sets=sets,
            opening=opening,
            treatments=[PLAIN, f"paper+basket_size={size}+layers={where}"],
            measures=["representation", "fidelity"],
            out=out / f"run-{size}-{where}",
            store=out / "vectors.db",
        )
    names = list(dict.fromkeys(name for log in logs.values() for name in log.treatments))
    texts = documents_of(logs[pairs[0]], corpus)
    seconds = {} if rounds < 1 else timed(loaded, names, texts, rounds, out / "seconds.json")
    sweep = grid_of(logs, seconds)
    sweep.write_csv(out / "sweep.csv")
    draw(sweep, model, out / "sweep.png")
    print_table(sweep.with_columns(pl.selectors.float().round(3)))


def documents_of(log: Any, corpus: str, count: int = 8) -> list[str]:
    """The text of some documents, as long as those that were measured."""
    texts = {(part.id, part.language): part.text for part in fairspan.Corpus.read(corpus).segments}
    rows = with_languages(log.rows.filter(measure="representation", treatment=PLAIN))
    rows = rows.sort("document", "position")
    documents = []
    for _, parts in list(rows.group_by("document", maintain_order=True))[:count]:
        # All parts of a document are in one language.
        segments = parts.select("segment", "lead", "tokens").rows()
        # One word has about one token, so openings are about as long as those of the audit.
        words = [" ".join(texts[id, language].split()[:size]) for id, language, size in segments]
        documents.append(" ".join(words))
    return documents


def timed(
    model: SentenceTransformer, names: list[str], texts: list[str], rounds: int, file: Path
) -> dict[str, float]:
    """Median seconds of encoding the texts under each treatment, those in the file unmeasured."""
    seconds = json.loads(file.read_text()) if file.exists() else {}
    missing = [name for name in names if name not in seconds]
    treated = {name: fairspan.calibrate(model, name) for name in missing}
    taken: dict[str, list[float]] = {name: [] for name in missing}
    # All in turn, so that a busy moment does not count against one treatment; the first warms up.
    for turn, (name, calibrated) in product(range(rounds + 1), treated.items()):
        start = time.perf_counter()
        calibrated.encode_document(texts, show_progress_bar=False)
        if turn:
            taken[name].append(time.perf_counter() - start)
    seconds |= {name: statistics.median(times) for name, times in taken.items()}
    file.write_text(json.dumps(seconds))
    return {name: seconds[name] for name in names}


def grid_of(logs: dict[tuple[int, str], Any], seconds: dict[str, float]) -> pl.DataFrame:
    """A row for each pair and family of documents, after those of the plain model."""
    rows: list[dict[str, Any]] = []
    for pair, log in logs.items():
        calibrated = log.treatments[1]
        kept = log.frame("fidelity")
        for family in log.frame("families").iter_rows(named=True):
            name, plan, n = (family[key] for key in ("treatment", "plan", "n"))
            if name == PLAIN and pair != next(iter(logs)):
                continue
            means = log.frame("means").filter(treatment=name, plan=plan, n=n)["estimate"]
            fidelity = kept.filter(plan=plan, n=n)["estimate"][0] if name == calibrated else None
            size, layers = pair if name == calibrated else (None, None)
            row = {
                "basket_size": size,
                "layers": layers,
                "plan": plan,
                "n": n,
                "verdict": family["verdict"],
                "first": means[0],
            }
            row |= {"later": means[1:].mean(), "spread": family["spread_estimate"]}
            row |= {end: family[end] for end in ("spread_low", "spread_high")}
            ratio = seconds[name] / seconds[PLAIN] if seconds else None
            rows.append({**row, "fidelity": fidelity, "time_ratio": ratio})
    rows.sort(key=lambda row: row["layers"] is not None)
    return pl.DataFrame(rows, infer_schema_length=None)


def draw(sweep: pl.DataFrame, model: str, file: Path) -> None:
    """Spread and fidelity by basket size and layers, as means over families."""
    import altair as alt

    is_plain = pl.col("layers").is_null()
    plain = sweep.filter(is_plain)["spread"].mean()
    by_pair = sweep.filter(~is_plain).group_by("layers", "basket_size", maintain_order=True)
    x = alt.X("basket_size:O", title="basket size", sort=None)
    y = alt.Y("layers:N", sort=None)
    maps = []
    for column, title in (("spread", f"spread (plain: {plain:.3f})"), ("fidelity", "fidelity")):
        # Numbers can be read on the lighter half of the blues.
        blues = alt.Scale(scheme=alt.SchemeParams("blues", extent=[0, 0.5]))
        colour = alt.Color(f"{column}:Q", scale=blues, legend=None)
        means = by_pair.agg(pl.mean(column))
        maps.append(heat_map(means, x, y, colour, ".3f").properties(title=title))
    figure = alt.hconcat(*maps, title=model).resolve_scale(color="independent")
    figure.save(file, scale_factor=2)


if __name__ == "__main__":
    run(app)
