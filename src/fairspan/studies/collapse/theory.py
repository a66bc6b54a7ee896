"""What attention does to the tokens of a text, and what the length-collapse paper (LC) says of it (METHODS §7).

A text's tokens X[L, d] are their mean, DC, and the differences from it, HC. In the rows of a log:

- `hc_dc`: ‖HC‖/‖DC‖, with layer 0 for the embeddings and then each layer's output.
- `filter_rate`: log of what a layer keeps of ‖HC‖; `theorem_2`: LC Theorem 2's bound on it.
- `sigma_a`: the largest singular value of the attention without its mean; `theorem_3`: LC Theorem 3's bound on it,
  made of `sigma_s`, the standard deviation of the attention scores.

Theorem 2 ignores residual connections, feed-forward layers and normalisation, and Theorem 3 takes attention scores
to be independent Gaussians: neither is exact for a trained model, so it is counted how often they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fairspan.runs.rows import as_rows

if TYPE_CHECKING:
    from fairspan.design.cuts import LengthText
    from fairspan.encoding.spectra import Spectrum

QUANTITIES = ("hc_dc", "filter_rate", "sigma_a", "sigma_s", "theorem_2", "theorem_3")
BOUNDS = {"filter_rate": "theorem_2", "sigma_a": "theorem_3"}


def spectrum_rows(
    texts: Sequence[LengthText], found: Sequence[Spectrum], **label: str
) -> pl.DataFrame:
    """One row for each text, layer and quantity; `label` holds the columns `run`, `model` and `treatment`."""
    tables = []
    for text, one in zip(texts, found, strict=True):
        own = {
            "document": text.document,
            "language": text.language,
            "tokens": one.tokens,
            "part": str(text.length),
        }
        for measure in QUANTITIES:
            values = one.ratio if measure == "hc_dc" else getattr(one, measure)
            # Layers whose σ_a was not asked for have none, nor a bound that is made of it.
            known = [] if values is None else np.flatnonzero(np.isfinite(values)).tolist()
            if known:
                column = np.asarray(values, np.float64)[known].tolist()
                tables.append(
                    as_rows({**label, **own, "measure": measure, "layer": known, "value": column})
                )
    return pl.concat(tables)


def spectra(rows: pl.DataFrame, treatments: Sequence[str]) -> pl.DataFrame:
    """Means over texts by treatment, measure, length and layer."""
    found = (
        rows.filter(pl.col("measure").is_in(QUANTITIES))
        .group_by("treatment", "measure", pl.col("part").cast(pl.Int64).alias("length"), "layer")
        .agg(estimate=pl.col("value").mean(), texts=pl.len())
    )
    order = {"treatment": treatments, "measure": QUANTITIES}
    return found.sort(
        *(pl.col(name).cast(pl.Enum(kinds)) for name, kinds in order.items()), "length", "layer"
    )


def bounds(rows: pl.DataFrame) -> pl.DataFrame:
    """In how many layers of texts a quantity is `above` the bound of its theorem, and `of` how many."""
    keys = ["treatment", "document", "part", "layer"]
    found = []
    for quantity, bound in BOUNDS.items():
        own, limit = (rows.filter(measure=one).select(*keys, "value") for one in (quantity, bound))
        found.append(
            own.join(limit, on=keys, maintain_order="left")
            .group_by("treatment", maintain_order=True)
            .agg(above=(pl.col("value") > pl.col("value_right")).sum(), of=pl.len())
            .select(
                "treatment",
                pl.lit(quantity).alias("quantity"),
                pl.lit(bound).alias("bound"),
                "above",
                "of",
            )
        )
    return pl.concat(found)
