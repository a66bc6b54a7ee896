"""The pictures of an audit: means by position, languages, and attention."""

from collections.abc import Mapping

import polars as pl

from fairspan.report.chart import Chart
from fairspan.report.frames import in_order
from fairspan.studies.audit.measures import POSITION_MEASURES

Frames = Mapping[str, pl.DataFrame]
_COUNTS = [("sets", "sets"), ("documents", "documents")]


def position_chart(frames: Frames, measure: str, model: str) -> Chart:
    """Means by position, one panel for each size and plan."""
    means = frames["means"].filter(measure=measure)
    return Chart(
        name=f"{measure}-profiles",
        title=POSITION_MEASURES[measure].title,
        subtitle=model,
        frame=in_order(means.with_columns(panel=_panel(means)), "n", "panel"),
        kind="lines",
        x="position",
        panel="panel",
        y_title=f"{measure} (cosine)",
        told=(*_COUNTS, ("tokens", "tokens of a segment")),
        brief=True,
    )


def _panel(frame: pl.DataFrame) -> pl.Expr:
    """Languages, and the number of segments where it varies."""
    if frame["n"].n_unique() == 1:
        return pl.col("plan")
    return pl.format("{}, {} segments", "plan", "n")


def language_chart(frames: Frames, measure: str, model: str) -> Chart:
    """Every two languages that lead each other in mixed documents."""
    done = POSITION_MEASURES[measure].done
    languages = (
        frames["languages"]
        .filter(measure=measure)
        .with_columns(
            pair=pl.concat_str("language", "against", separator=" − "),
            panel=pl.format("{} segments", "n"),
        )
    )
    return Chart(
        name=f"{measure}-languages",
        title=f"Which languages are better {done} in mixed documents",
        subtitle=model,
        frame=languages.sort("n", maintain_order=True),
        x="pair",
        panel="panel",
        x_title="languages",
        y_title=f"difference of {measure}",
        form="+.3f",
        margin=languages["margin"][0],
    )


def attention_chart(frames: Frames, basket_size: int, model: str) -> Chart:
    """The baskets of the text, and then what is around it."""
    frame = frames["attention"].sort("n", maintain_order=True)
    # Shares end at 0 and 1, and so do their intervals.
    shown = frame.filter(pl.col("estimate").max().over("n", "plan", "part") > 0).with_columns(
        basket=pl.col("part").str.strip_prefix("basket "),
        panel=_panel(frame),
        low=pl.col("low").clip(0, 1),
        high=pl.col("high").clip(0, 1),
    )
    layers = f"layers {frame['first_layer'][0]} to {frame['last_layer'][0]}"
    return Chart(
        name="attention",
        title=f"Attention of the pooled row by basket of {basket_size} tokens",
        subtitle=f"{model}, {layers}",
        frame=shown.sort("n", "number", nulls_last=True, maintain_order=True),
        x="basket",
        panel="panel",
        y_title="share of attention",
        told=_COUNTS,
    )
