"""LC, Figure 1b: a t-SNE map of vectors by length, and how far they are from the origin.

LC is "Length-Induced Embedding Collapse" (ACL 2025, arXiv 2410.24200). Data: NFCorpus in the paper,
whole and as two versions that a language model shortened. Give such versions as several corpora,
each a set of the map; or give one corpus, whose documents are cut to several lengths.

`map` is the mean distance to the origin of the map, as in the paper. t-SNE keeps neighbours and not
distances, so `vectors` has the same in the space of the vectors: the mean distance of vectors of
length 1 to the mean of all of them.

Time: 300 texts took 20 seconds with all-MiniLM-L6-v2 on one CPU core.

    pip install 'fairspan[report]' scikit-learn
    python papers/lc_map.py BAAI/bge-base-en-v1.5 whole.jsonl,short.jsonl,sentence.jsonl
    python papers/lc_map.py all-MiniLM-L6-v2 nfcorpus/corpus.jsonl --lengths 25,100,400
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

import fairspan
from fairspan.design.cuts import LengthText, cut_documents
from fairspan.encoding.tokens import ModelTokens
from fairspan.errors import CorpusError, require_whole
from fairspan.report.drawing import require_drawing
from scripting import (
    OWN_PROMPTS,
    Numbers,
    Prompts,
    Words,
    colours_and_shapes,
    encoded,
    make_app,
    print_table,
    require,
    run,
    say,
)

app = make_app(__doc__)


@app.default
def main(
    model: str,
    corpora: Words,
    /,
    *,
    lengths: Numbers = (25, 100, 200),
    texts: int = 200,
    max_seq_length: int | None = None,
    prompts: Prompts = OWN_PROMPTS,
    out: Path = Path("lc-map"),
) -> None:
    """Map vectors by length.

    Args:
        model: Name on the Hugging Face hub, or folder.
        corpora: A corpus as fairspan reads it, to cut; or several, to read whole.
        lengths: Lengths in tokens that one corpus is cut to.
        texts: Largest number of texts in a set.
        max_seq_length: Longest text to read, in tokens. By default the model's own limit.
        out: Folder for map.csv, distances.csv and map.png.
    """
    require_drawing()
    require("sklearn")
    require_whole("texts", texts)
    loaded = prompts.open(model, max_seq_length)
    counter = ModelTokens(loaded, loaded.prompts.get("document") or "")
    if len(corpora) == 1:
        sets = cut_sets(corpora[0], [round(length) for length in lengths], counter, texts)
    else:
        sets = {name: whole_texts(name, counter, texts) for name in corpora}
    strings = [text.text for each in sets.values() for text in each]
    if len(strings) < 5:
        raise CorpusError(f"{len(strings)} texts are too few for a map.")
    vectors = encoded(loaded.encode_document, strings, "vectors").astype(np.float64)
    points = map_of(vectors)
    columns = {
        "set": [name for name, each in sets.items() for _ in each],
        "document": [text.document for each in sets.values() for text in each],
        "tokens": [text.tokens for each in sets.values() for text in each],
        "x": points[:, 0],
        "y": points[:, 1],
        "map": np.linalg.norm(points, axis=1),
        "vectors": np.linalg.norm(vectors - vectors.mean(0), axis=1),
    }
    table = pl.DataFrame(columns)
    distances = table.group_by("set", maintain_order=True).agg(
        pl.len().alias("texts"), pl.mean("tokens", "map", "vectors")
    )
    out.mkdir(parents=True, exist_ok=True)
    table.drop("map", "vectors").write_csv(out / "map.csv")
    distances.write_csv(out / "distances.csv")
    draw(table, distances, model, out / "map.png")
    print_table(distances.with_columns(pl.selectors.float().round(3)))


def cut_sets(
    corpus: str, lengths: Sequence[int], counter: ModelTokens, count: int
) -> dict[str, Sequence[LengthText]]:
    """The same documents cut to each length at sentence borders."""
    read = fairspan.Corpus.read_first(corpus)
    cuts = cut_documents(read, read.languages[0], lengths, counter, documents=count, tolerance=0.2)
    for note in cuts.notes:
        say(f"note: {note}")
    return {f"{length} tokens": cuts.at(length) for length in cuts.lengths}


def whole_texts(corpus: str, counter: ModelTokens, count: int) -> Sequence[LengthText]:
    """The first texts of a corpus; what a model reads of them is up to it."""
    read = fairspan.Corpus.read_first(corpus)
    segments = read.segments[:count]
    tokens = counter.count([segment.text for segment in segments])
    return [
        LengthText(segment.id, segment.language, 0, segment.text, number)
        for segment, number in zip(segments, tokens, strict=True)
    ]


def map_of(vectors: np.ndarray) -> np.ndarray:
    """[texts, 2] of vectors[texts, d], whose origin is the mean of the map."""
    from sklearn.manifold import TSNE

    perplexity = min(30, (len(vectors) - 1) / 3)
    points = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(vectors)
    return np.asarray(points - points.mean(0), np.float64)


def draw(table: pl.DataFrame, distances: pl.DataFrame, title: str, file: Path) -> None:
    """A point for each text."""
    import altair as alt

    labels = {
        name: f"{name}: L = {tokens:.0f}, D = {on_map:.1f}"
        for name, _, tokens, on_map, _ in distances.rows()
    }
    points = table.with_columns(pl.col("set").replace(labels))
    end = 1.05 * np.abs(points.select("x", "y").to_numpy()).max()
    scale = alt.Scale(domain=[-end, end], nice=False)
    figure = alt.Chart(alt.Data(values=points.to_dicts()), width=450, height=450).encode(
        x=alt.X("x:Q", title=None, scale=scale),
        y=alt.Y("y:Q", title=None, scale=scale),
        **colours_and_shapes(points, "set"),
    )
    figure = figure.properties(title=f"{title}: mean length L, mean distance to the origin D")
    figure.mark_point(filled=True, opacity=0.6).save(file, scale_factor=2)


if __name__ == "__main__":
    run(app)
