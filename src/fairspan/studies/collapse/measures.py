"""What is measured of vectors, with two controls: means of word embeddings, and repeated words.

`label` holds the columns `run`, `model` and `treatment` of the rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import torch
from sentence_transformers import SentenceTransformer

from fairspan.design.cuts import Cuts, LengthText
from fairspan.design.lengths import TokenCounter
from fairspan.encoding.spectra import Spectrum
from fairspan.errors import UnsupportedModel
from fairspan.runs.rows import as_rows
from fairspan.stats.geometry import cosines, distance_without, distances, origin_distances
from fairspan.studies.collapse.theory import QUANTITIES

Pair = tuple[str, str]
"""Two texts that share no word, each one word repeated equally often."""
# The most repetitions for a model without a window.
REPETITIONS = 512


def text_rows(cuts: Cuts, vectors: np.ndarray, **label: str) -> pl.DataFrame:
    """How widely vectors[texts, d] of each length spread.

    - `cosine`: each text's mean cosine with the other texts of its length. Their mean is the mean
      pairwise cosine, with and without any of the texts.
    - `distance`: each text's distance to the centre of the others; `distance_without`: the mean
      without that text.
    - `origin`: its distance to the centre of the texts of all lengths.
    """
    lengths = np.array([text.length for text in cuts.texts])
    clouds = [vectors[lengths == length] for length in cuts.lengths]
    measures = {"cosine": cosines, "distance": distances, "distance_without": distance_without}
    values = {
        name: np.concatenate([measure(cloud) for cloud in clouds])
        for name, measure in measures.items()
    }
    values["origin"] = np.concatenate(origin_distances(clouds))
    return rows_by_text(cuts.texts, values, **label)


def rows_by_text(
    texts: Sequence[LengthText], values: Mapping[str, np.ndarray], **label: Any
) -> pl.DataFrame:
    """A row for each measure and text, with values[texts] by measure."""
    columns = {
        **label,
        "document": [text.document for text in texts],
        "language": [text.language for text in texts],
        "tokens": [text.tokens for text in texts],
        "part": [str(text.length) for text in texts],
    }
    return pl.concat(
        as_rows({**columns, "measure": name, "value": column.tolist()})
        for name, column in values.items()
    )


def word_means(model: SentenceTransformer, texts: Sequence[str]) -> np.ndarray:
    """[texts, d], the mean of the model's input embeddings of each text's tokens (LC Fig. 3).

    Without positions, layers, special tokens, prompt and window: what rises with length here rises
    by averaging more words, and not by attention.
    """
    transformer: Any = getattr(model, "transformers_model", None)
    try:
        table = transformer.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        kind = type(model if transformer is None else transformer).__name__
        raise UnsupportedModel(f"{kind} has no input word embeddings to average.") from None
    device = next(table.parameters()).device
    tokens = model.tokenizer(
        list(texts), add_special_tokens=False, truncation=False, padding=False, verbose=False
    )
    means = []
    with torch.inference_mode():
        for ids in tokens["input_ids"]:
            rows = table(torch.as_tensor(ids, dtype=torch.long, device=device))
            means.append(rows.double().mean(0).cpu().numpy())
    return np.stack(means)


def repeated_pairs(counter: TokenCounter, *, words: Pair = ("dog", "cat")) -> list[Pair]:
    """The texts of LC Fig. 12: words 1, 2, 4, … times, as far as the model reads."""
    pairs: list[Pair] = []
    times = 1
    while counter.window is not None or times <= REPETITIONS:
        pair = (" ".join([words[0]] * times), " ".join([words[1]] * times))
        if counter.window is not None and max(counter.count_whole(pair)) > counter.window:
            break
        pairs.append(pair)
        times *= 2
    return pairs


def probe_rows(pairs: Sequence[Pair], vectors: np.ndarray, **label: str) -> pl.DataFrame:
    """The cosine of each pair by its repetitions, `part`, from vectors[pairs, 2, d]."""
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    columns = {
        "measure": "repeated",
        "document": [" / ".join(text.split()[0] for text in pair) for pair in pairs],
        "part": [str(len(first.split())) for first, _ in pairs],
        "value": (units[:, 0].astype(np.float64) * units[:, 1]).sum(axis=-1).tolist(),
    }
    return as_rows({**label, **columns})


def spectrum_rows(
    texts: Sequence[LengthText], spectra: Sequence[Spectrum], **label: str
) -> pl.DataFrame:
    """A row for each text, quantity and layer."""
    tables = []
    for text, spectrum in zip(texts, spectra, strict=True):
        whole = replace(text, tokens=spectrum.tokens)
        for measure in QUANTITIES:
            values = spectrum.ratio if measure == "hc_dc" else getattr(spectrum, measure)
            if values is not None:
                # Layers whose σ_a was not asked for have none, nor a bound that is made of it.
                layers = np.flatnonzero(np.isfinite(values))
                by_layer = {measure: values[layers]}
                repeated = [whole] * len(layers)
                tables.append(rows_by_text(repeated, by_layer, layer=layers.tolist(), **label))
    return pl.concat(tables)
