"""Rows of a study of length: how alike texts are, what the layers do to their tokens, and repeated words."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from fairspan.design.cuts import Cuts, LengthText
from fairspan.encoding.spectra import Spectrum
from fairspan.runs.rows import as_rows
from fairspan.studies.collapse.classification import Classified
from fairspan.studies.collapse.words import RepeatedPair


def text_rows(cuts: Cuts, clouds: Sequence[np.ndarray], *, run: str, model: str, treatment: str) -> pl.DataFrame:
    """One row a text: its mean cosine with the other texts of its length, `part`.

    Their mean is the mean pairwise cosine of that length.
    """
    texts = [text for length in cuts.lengths for text in cuts.at(length)]
    values = np.concatenate([_with_others(cloud) for cloud in clouds])
    return as_rows(
        {
            "run": run,
            "model": model,
            "treatment": treatment,
            "measure": "cosine",
            "document": [text.document for text in texts],
            "language": [text.language for text in texts],
            "tokens": [text.tokens for text in texts],
            "part": [str(text.length) for text in texts],
            "value": values.tolist(),
        }
    )


def spectrum_rows(
    texts: Sequence[LengthText], found: Sequence[Spectrum], *, run: str, model: str, treatment: str
) -> pl.DataFrame:
    """One row for each text, layer and quantity; `hc_dc` has layer 0 for the embeddings, then each layer's output."""
    tables = []
    for text, one in zip(texts, found, strict=True):
        constant = {
            "run": run,
            "model": model,
            "treatment": treatment,
            "document": text.document,
            "language": text.language,
            "tokens": one.tokens,
            "part": str(text.length),
        }
        quantities: Mapping[str, np.ndarray | None] = {
            "hc_dc": one.ratio,
            "filter_rate": one.filter_rate,
            "sigma_a": one.sigma_a,
            "sigma_s": one.sigma_s,
            "theorem_2": one.theorem_2,
            "theorem_3": one.theorem_3,
        }
        for measure, values in quantities.items():
            if values is None:
                continue
            # Layers whose σ_a was not asked for have none, nor a bound that is made of it.
            known = np.flatnonzero(np.isfinite(values))
            if len(known):
                tables.append(
                    as_rows(
                        {
                            **constant,
                            "measure": measure,
                            "layer": known.tolist(),
                            "value": np.asarray(values, np.float64)[known].tolist(),
                        }
                    )
                )
    return pl.concat(tables)


def label_rows(
    texts: Sequence[LengthText], found: Classified, *, run: str, model: str, treatment: str
) -> pl.DataFrame:
    """Two rows a tested text: whether its label was told (`correct`), and how sure of it the classifier was."""
    constant = {
        "run": run,
        "model": model,
        "treatment": treatment,
        "document": [text.document for text in texts],
        "language": [text.language for text in texts],
        "tokens": [text.tokens for text in texts],
        "part": [str(text.length) for text in texts],
    }
    return pl.concat(
        [
            as_rows({**constant, "measure": "correct", "value": found.correct.tolist()}),
            as_rows({**constant, "measure": "entropy", "value": found.entropy.tolist()}),
        ]
    )


def probe_rows(
    pairs: Sequence[RepeatedPair], vectors: np.ndarray, *, run: str, model: str, treatment: str
) -> pl.DataFrame:
    """One row for each number of repetitions, `part`: the cosine of two texts that share no word (LC Fig. 12)."""
    units = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return as_rows(
        {
            "run": run,
            "model": model,
            "treatment": treatment,
            "measure": "repeated",
            "document": [" / ".join(text.split()[0] for text in pair.texts) for pair in pairs],
            "tokens": [max(pair.tokens) for pair in pairs],
            "part": [str(pair.times) for pair in pairs],
            "value": (units[:, 0].astype(np.float64) * units[:, 1]).sum(axis=-1).tolist(),
        }
    )


def _with_others(cloud: np.ndarray) -> np.ndarray:
    """The mean cosine of each vector with all others, [N]."""
    units = cloud.astype(np.float64)
    units = units / np.linalg.norm(units, axis=1, keepdims=True)
    found: np.ndarray = (units @ units.sum(axis=0) - 1) / (len(units) - 1)
    return found
