"""Rows of a study of length: how widely texts spread, what the layers do to their tokens, and repeated words.

`label` holds the columns `run`, `model` and `treatment`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from fairspan.design.cuts import Cuts, LengthText
from fairspan.encoding.spectra import Spectrum
from fairspan.runs.rows import as_rows
from fairspan.stats.geometry import cosines, distance_without, distances, effective_rank, ranks_without
from fairspan.studies.collapse.classification import Classified
from fairspan.studies.collapse.words import RepeatedPair


def text_rows(cuts: Cuts, clouds: Sequence[np.ndarray], **label: str) -> pl.DataFrame:
    """How widely the texts of each length, `part`, spread: everything that estimates and intervals are made of.

    - `cosine`: each text's mean cosine with the other texts of its length; their mean is the mean pairwise cosine,
      and what it is without a text follows from them.
    - `distance`: each text's distance to the centre of the others. `distance_without`: the mean without that text.
    - `rank`: the effective rank, one row per length. `rank_without`: without each group of texts, `set`. Only where
      all lengths have as many texts.
    """
    texts = [text for length in cuts.lengths for text in cuts.at(length)]
    by_text = {"cosine": cosines, "distance": distances, "distance_without": distance_without}
    tables = []
    for name, measure in by_text.items():
        values = np.concatenate([measure(cloud) for cloud in clouds]).tolist()
        tables.append(as_rows({**label, **_columns(texts), "measure": name, "value": values}))
    if len({len(cloud) for cloud in clouds}) == 1:
        for length, cloud in zip(cuts.lengths, clouds, strict=True):
            own = {**label, "language": texts[0].language, "part": str(length)}
            without = ranks_without(cloud).tolist()
            tables.append(as_rows({**own, "measure": "rank", "value": [effective_rank(cloud)]}))
            groups = list(range(len(without)))
            tables.append(as_rows({**own, "measure": "rank_without", "set": groups, "value": without}))
    return pl.concat(tables)


def spectrum_rows(texts: Sequence[LengthText], found: Sequence[Spectrum], **label: str) -> pl.DataFrame:
    """One row for each text, layer and quantity; `hc_dc` has layer 0 for the embeddings, then each layer's output."""
    tables = []
    for text, one in zip(texts, found, strict=True):
        own = {"document": text.document, "language": text.language, "tokens": one.tokens, "part": str(text.length)}
        for measure, values in (
            ("hc_dc", one.ratio),
            ("filter_rate", one.filter_rate),
            ("sigma_a", one.sigma_a),
            ("sigma_s", one.sigma_s),
            ("theorem_2", one.theorem_2),
            ("theorem_3", one.theorem_3),
        ):
            # Layers whose σ_a was not asked for have none, nor a bound that is made of it.
            known = [] if values is None else np.flatnonzero(np.isfinite(values)).tolist()
            if values is not None and known:
                column = np.asarray(values, np.float64)[known].tolist()
                tables.append(as_rows({**label, **own, "measure": measure, "layer": known, "value": column}))
    return pl.concat(tables)


def label_rows(texts: Sequence[LengthText], found: Classified, **label: str) -> pl.DataFrame:
    """Two rows per tested text: whether its label was predicted (`correct`), and the prediction's `entropy`."""
    measures = {"correct": found.correct, "entropy": found.entropy}
    constant = {**label, **_columns(texts)}
    return pl.concat(as_rows({**constant, "measure": name, "value": own.tolist()}) for name, own in measures.items())


def probe_rows(pairs: Sequence[RepeatedPair], vectors: np.ndarray, **label: str) -> pl.DataFrame:
    """One row for each number of repetitions, `part`: the cosine of two texts that share no word (LC Fig. 12)."""
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return as_rows(
        {
            **label,
            "measure": "repeated",
            "document": [" / ".join(text.split()[0] for text in pair.texts) for pair in pairs],
            "tokens": [max(pair.tokens) for pair in pairs],
            "part": [str(pair.times) for pair in pairs],
            "value": (units[:, 0].astype(np.float64) * units[:, 1]).sum(axis=-1).tolist(),
        }
    )


def _columns(texts: Sequence[LengthText]) -> dict[str, list[Any]]:
    return {
        "document": [text.document for text in texts],
        "language": [text.language for text in texts],
        "tokens": [text.tokens for text in texts],
        "part": [str(text.length) for text in texts],
    }
