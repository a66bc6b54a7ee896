"""What attention does to the tokens of a text, and what the length-collapse paper (LC) says of it.

A text's tokens X[L, d] are their mean, DC, and the differences from it, HC (METHODS §7). Theorem 2
ignores residual connections, feed-forward layers and normalisation, and Theorem 3 takes attention
scores to be independent Gaussians: neither is exact for a trained model, so it is counted how often
they hold.
"""

from collections.abc import Sequence

import polars as pl

QUANTITIES = ("hc_dc", "filter_rate", "sigma_a", "sigma_s", "theorem_2", "theorem_3")
"""‖HC‖/‖DC‖ of the embeddings, layer 0, and of each layer's output; log of what a layer keeps of
‖HC‖; the largest singular value of the attention without its mean; the standard deviation of the
attention scores; the bounds of both theorems."""
BOUNDS = {"filter_rate": "theorem_2", "sigma_a": "theorem_3"}


def spectra(rows: pl.DataFrame, treatments: Sequence[str]) -> pl.DataFrame:
    """Means over texts by treatment, measure, length and layer."""
    means = (
        rows.filter(pl.col("measure").is_in(QUANTITIES))
        .group_by("treatment", "measure", pl.col("part").cast(pl.Int64).alias("length"), "layer")
        .agg(estimate=pl.col("value").mean(), texts=pl.len())
    )
    by_treatment = pl.col("treatment").cast(pl.Enum(treatments))
    by_measure = pl.col("measure").cast(pl.Enum(QUANTITIES))
    return means.sort(by_treatment, by_measure, "length", "layer")


def bounds(rows: pl.DataFrame) -> pl.DataFrame:
    """In how many layers of texts a quantity is `above` its theorem's bound, and `of` how many."""
    keys = ["treatment", "document", "part", "layer"]
    counts = []
    for quantity, bound in BOUNDS.items():
        limits = rows.filter(measure=bound).select(*keys, limit="value")
        bounded = rows.filter(measure=quantity).join(limits, on=keys, maintain_order="left")
        counts.append(
            bounded.group_by("treatment", maintain_order=True).agg(
                quantity=pl.lit(quantity),
                bound=pl.lit(bound),
                above=(pl.col("value") > pl.col("limit")).sum(),
                of=pl.len(),
            )
        )
    return pl.concat(counts)
