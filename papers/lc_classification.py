"""LC, Figures 1a, 6, 8 and 14: accuracy and entropy of a classifier by length and temperature.

LC is "Length-Induced Embedding Collapse" (ACL 2025, arXiv 2410.24200). Data: IMDb (Figure 1a) and
AmazonPolarity, as JSONL files with `text` and `label`; docs/papers.md has a line that writes them.
As in mteb, a logistic regression of at most 100 iterations classifies vectors of length 1. It
learns from the texts of TRAIN, or else from half of the texts of each length, and is tested on the
others. `entropy` is −Σ p ln p over the classes, and `error` the standard error of the accuracy.

Time: 181 reviews of up to 512 tokens took 25 seconds of CPU time for each temperature with
all-MiniLM-L6-v2.
Vectors are kept in OUT/vectors: an interrupted command continues.

    pip install 'fairspan[report]' scikit-learn
    python papers/lc_classification.py BAAI/bge-base-en-v1.5 imdb.jsonl --train train.jsonl
    python papers/lc_classification.py all-MiniLM-L6-v2 reviews.jsonl --temperatures 0.8,1
"""

from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

import fairspan
from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.design.cuts import LengthText, natural_lengths
from fairspan.encoding.tokens import ModelTokens
from fairspan.errors import CorpusError, require_whole
from fairspan.report.drawing import require_drawing
from fairspan.retrieval.entries import read_entries
from scripting import (
    OWN_PROMPTS,
    Numbers,
    Prompts,
    curves,
    encoded,
    folder_of,
    kept,
    make_app,
    print_table,
    require,
    run,
    say,
    temperature_presets,
)

ITERATIONS = 100

app = make_app(__doc__)


@app.default
def main(
    model: str,
    labelled: Path,
    /,
    *,
    train: Path | None = None,
    temperatures: Numbers = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5),
    bin: int = 100,
    texts: int = 500,
    max_seq_length: int | None = None,
    prompts: Prompts = OWN_PROMPTS,
    out: Path = Path("lc-classification"),
) -> None:
    """Classify texts by length.

    Args:
        model: Name on the Hugging Face hub, or folder.
        labelled: JSONL file with `text` and `label`.
        train: Another such file to learn from. By default half of the texts of each length.
        temperatures: Numbers above 0 and up to 1.
        bin: Width of a bin of lengths, in tokens.
        texts: Largest number of texts in a bin.
        max_seq_length: Longest text to read, in tokens. By default the model's own limit.
        out: Folder for classification.csv, classification.png and the vectors.
    """
    require_drawing()
    require("sklearn")
    require_whole("bin", bin)
    require_whole("texts", texts)
    calibrations = temperature_presets(temperatures)
    files = [labelled] if train is None else [labelled, train]
    read = [read_labelled(file) for file in files]
    loaded = prompts.open(model, max_seq_length)
    counter = ModelTokens(loaded, loaded.prompts.get("document") or "")
    sampled: list[LengthText] = []
    for corpus, _ in read:
        cuts = natural_lengths(corpus, "en", counter, documents=texts, width=bin)
        sampled += cuts.texts
        for note in cuts.notes:
            say(f"note: {note}")
    label_of = {id: label for _, labels in read for id, label in labels.items()}
    labels = np.array([label_of[text.document] for text in sampled])
    lengths = np.array([text.length for text in sampled])
    learns = learning(lengths) if train is None else of_file(sampled, read[1][1])
    if len(set(labels[learns])) < 2:
        raise CorpusError("the texts to learn from have one label: give more labelled texts.")
    strings = [text.text for text in sampled]
    folder = folder_of(out / "vectors", loaded, strings)
    tables = []
    for temperature, calibration in calibrations.items():
        treated = fairspan.calibrate(loaded, calibration)
        embed = partial(encoded, treated.encode_document, strings, f"temperature {temperature:g}")
        vectors = kept(folder / f"{temperature:g}.npy", embed)
        table = scores_by_length(vectors, labels, lengths, learns)
        tables.append(table.insert_column(0, pl.lit(temperature).alias("temperature")))
    scores = pl.concat(tables)
    scores.write_csv(out / "classification.csv")
    draw(scores, f"{model}, {labelled.stem}", out / "classification.png")
    for measure in ("accuracy", "entropy"):
        pivot = scores.with_columns(pl.col(measure).round(3)).pivot(
            "length", index="temperature", values=measure
        )
        print_table(pivot.rename({"temperature": measure}))


def read_labelled(file: Path) -> tuple[Corpus, dict[str, str]]:
    """The texts of a JSONL file, and their labels by id; a text's id is its place."""
    entries = list(read_entries(file))
    labels = {entry.place: entry.id("label") for entry in entries}
    if len(set(labels.values())) < 2:
        raise CorpusError(
            f"{file} has {len(set(labels.values()))} labels: give at least 2 classes."
        )
    segments = [Segment(entry.place, "en", entry.text("text")) for entry in entries]
    return Corpus.from_segments(file.name, segments), labels


def of_file(texts: list[LengthText], labels: dict[str, str]) -> NDArray[np.bool_]:
    return np.array([text.document in labels for text in texts])


def learning(lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which texts to learn from, [texts]: half of those of each length, drawn at random."""
    learns = np.zeros(len(lengths), bool)
    rng = np.random.default_rng(0)
    for length in np.unique(lengths):
        places = rng.permutation(np.flatnonzero(lengths == length))
        learns[places[: len(places) // 2]] = True
    return learns


def scores_by_length(
    vectors: NDArray[np.float32],
    labels: NDArray[np.str_],
    lengths: NDArray[np.int64],
    learns: NDArray[np.bool_],
) -> pl.DataFrame:
    """Accuracy and mean entropy of the tested texts of each length, from vectors[texts, d]."""
    correct, entropy = classify(vectors.astype(np.float64), labels, learns)
    tested = pl.DataFrame({"length": lengths[~learns], "correct": correct, "entropy": entropy})
    accuracy = pl.mean("correct")
    return tested.group_by("length", maintain_order=True).agg(
        pl.len().alias("texts"),
        accuracy=accuracy,
        error=(accuracy * (1 - accuracy) / pl.len()).sqrt(),
        entropy=pl.mean("entropy"),
    )


def classify(
    vectors: NDArray[np.float64], labels: NDArray[np.str_], learns: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Whether each tested text is classified correctly, and the entropy of its probabilities."""
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression(max_iter=ITERATIONS).fit(vectors[learns], labels[learns])
    shares = classifier.predict_proba(vectors[~learns])
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return classifier.predict(vectors[~learns]) == labels[~learns], -(shares * logs).sum(1)


def draw(scores: pl.DataFrame, title: str, file: Path) -> None:
    """Accuracy, with its standard error, and entropy: a line for each temperature."""
    import altair as alt

    accuracy, error = pl.col("accuracy"), pl.col("error")
    rows = scores.rename({"length": "tokens from"})
    bars = rows.with_columns(low=accuracy - error, high=accuracy + error)
    left = curves(bars, "tokens from", "accuracy", "temperature")
    right = curves(rows, "tokens from", "entropy", "temperature")
    left.title, right.title = "accuracy ± standard error", "entropy in nats"
    alt.hconcat(left, right, title=title).save(file, scale_factor=2)


if __name__ == "__main__":
    run(app)
