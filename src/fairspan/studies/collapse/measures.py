"""What is measured of vectors, with two controls: means of raw word embeddings, and texts that repeat one word.

`label` holds the columns `run`, `model` and `treatment` of the rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from sentence_transformers import SentenceTransformer

from fairspan.design.cuts import Cuts, LengthText
from fairspan.design.lengths import TokenCounter
from fairspan.errors import UnsupportedModel
from fairspan.runs.rows import as_rows
from fairspan.stats.geometry import cosines, distance_without, distances

Pair = tuple[str, str]
"""Two texts that share no word, each one word repeated equally often."""
# As far as repetitions go by themselves where a model names no window.
REPETITIONS = 512


def text_rows(cuts: Cuts, vectors: np.ndarray, **label: str) -> pl.DataFrame:
    """How widely the texts of each length, `part`, spread: everything that estimates and intervals are made of.

    - `cosine`: each text's mean cosine with the other texts of its length; their mean is the mean pairwise cosine,
      and what it is without a text follows from them.
    - `distance`: each text's distance to the centre of the others. `distance_without`: the mean without that text.
    """
    lengths = np.array([text.length for text in cuts.texts])
    clouds = [vectors[lengths == length] for length in cuts.lengths]
    measures = {"cosine": cosines, "distance": distances, "distance_without": distance_without}
    values = {
        name: np.concatenate([measure(one) for one in clouds]) for name, measure in measures.items()
    }
    return rows_by_text(cuts.texts, values, **label)


def rows_by_text(
    texts: Sequence[LengthText], values: Mapping[str, np.ndarray], **label: str
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
        as_rows({**columns, "measure": name, "value": own.tolist()}) for name, own in values.items()
    )


def word_means(model: SentenceTransformer, texts: Sequence[str]) -> np.ndarray:
    """[texts, d], the mean of the model's input embeddings of each text's own tokens (LC Fig. 3).

    Rows of the word embedding matrix alone: no positions, no layer, no special tokens, no prompt. What rises with
    length here rises by averaging more words, and not by attention. Texts are taken whole, whatever the window.
    """
    transformer: Any = getattr(model, "transformers_model", None)
    try:
        table = transformer.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        kind = type(model if transformer is None else transformer).__name__
        raise UnsupportedModel(f"{kind} has no input word embeddings to average.") from None
    device = next(table.parameters()).device
    found = model.tokenizer(
        list(texts), add_special_tokens=False, truncation=False, padding=False, verbose=False
    )
    with torch.inference_mode():
        rows = (
            table(torch.as_tensor(ids, dtype=torch.long, device=device))
            for ids in found["input_ids"]
        )
        return np.stack([own.double().mean(0).cpu().numpy() for own in rows])


def repeated_pairs(counter: TokenCounter, *, words: tuple[str, str] = ("dog", "cat")) -> list[Pair]:
    """The texts of LC Fig. 12, whose cosine is to be taken at 1, 2, 4, … repetitions, as far as the model reads."""
    found: list[Pair] = []
    times = 1
    while counter.window is not None or times <= REPETITIONS:
        texts = (" ".join([words[0]] * times), " ".join([words[1]] * times))
        if counter.window is not None and max(counter.count_whole(texts)) > counter.window:
            break
        found.append(texts)
        times *= 2
    return found


def probe_rows(pairs: Sequence[Pair], vectors: np.ndarray, **label: str) -> pl.DataFrame:
    """One row for each number of repetitions, `part`: the cosine of two texts that share no word (LC Fig. 12)."""
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return as_rows(
        {
            **label,
            "measure": "repeated",
            "document": [" / ".join(text.split()[0] for text in pair) for pair in pairs],
            "part": [str(len(pair[0].split())) for pair in pairs],
            "value": (units[:, 0].astype(np.float64) * units[:, 1]).sum(axis=-1).tolist(),
        }
    )
