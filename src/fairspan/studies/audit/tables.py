"""The tables of an audit: verdicts, and one for each of its questions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from fairspan.report.frames import in_order, values_of
from fairspan.report.table import Column, Table

Frames = Mapping[str, pl.DataFrame]

_VERDICT = Column("verdict", align="left")


def verdict_table(frames: Frames, model: str, notes: Sequence[str]) -> Table:
    """The verdict on each treatment in words; the frame has that on every family of documents."""
    verdicts = frames["verdicts"]
    return Table(
        "verdicts",
        f"Verdicts on {model}",
        verdicts,
        heads=("measure", "treatment"),
        columns={"verdict": _VERDICT, "sentence": Column("in words", align="wrap")},
        grouped=1,
        notes=notes,
        tidy=frames["families"],
    )


def coefficient_tables(frames: Frames, model: str) -> Iterator[Table]:
    """For each measure β0 and the differences from position 1, a column for each treatment."""
    whole = frames["coefficients"]
    for measure in values_of(whole, "measure"):
        frame = in_order(whole.filter(measure=measure), "plan", "n", "position")
        notes = _coefficient_notes(frame)
        title = f"Coefficients of {measure} ({model})"
        frame = frame.rename({"marker": "mark"})
        yield _by_treatment(
            f"{measure}-coefficients", title, frame, "coefficient", ".3f", notes=tuple(notes)
        )


def _by_treatment(
    name: str, title: str, frame: pl.DataFrame, part: str, form: str, **more: Any
) -> Table:
    """A row for each plan, size and part of a frame, and a column for each treatment."""
    treatments = values_of(frame, "treatment")
    shown = ["estimate", "low", "high", *({"mark"} & set(frame.columns))]
    wide = frame.pivot("treatment", index=["plan", "n", part], values=shown, maintain_order=True)
    wide = wide.rename(
        {
            f"{value}_{treatment}": f"{treatment}_{value}"
            for value in shown
            for treatment in treatments
        }
    )
    return Table(
        name,
        title,
        wide,
        heads={"plan": "plan", "n": "n", part: ""},
        columns={treatment: Column(treatment, form=form) for treatment in treatments},
        grouped=2,
        tidy=frame,
        **more,
    )


def _coefficient_notes(frame: pl.DataFrame) -> Iterator[str]:
    """What coefficients and markers mean, and how the intervals were made."""
    yield "β0: the mean at position 1; βp: the difference of position p from it; [95 %]"
    if (frame["lead"] != frame["later"]).any():
        yield "in mixed plans βp is a difference of languages as well as of positions"
    yield "p < 0.001 unless marked: ◇ p < 0.01, □ p < 0.05, • not significant"
    ends = dict.fromkeys([frame["sets"].min(), frame["sets"].max()])
    kinds = ", ".join(sorted(frame["inference"].unique()))
    yield f"sets: {' to '.join(map(str, ends))}; inference: {kinds}"


def language_table(frame: pl.DataFrame, model: str) -> Table:
    """Languages that lead each other: the first minus the second."""
    measure = frame["measure"][0]
    length = "same length" if frame["same_length"].any() else "lengths that segments have"
    note = "the first language minus the second, in documents of just these two in both orders"
    frame = in_order(frame, "n", "language", "against", "treatment")
    return Table(
        f"{measure}-languages",
        f"Differences of {measure} between languages in mixed documents ({model})",
        frame.with_columns(languages=pl.concat_str("language", "against", separator=" − ")),
        heads=("n", "languages", "treatment"),
        columns={"estimate": Column("difference [95 %]", form="+.3f"), "verdict": _VERDICT},
        grouped=2,
        notes=[f"{note}, at the {length}", f"verdict: within ±{frame['margin'][0]:g}"],
        brief=True,
        tidy=frame,
    )


def attention_table(frame: pl.DataFrame, model: str) -> Table:
    """The shares of all baskets and of special tokens, a column for each treatment."""
    layers = f"layers {frame['first_layer'][0]} to {frame['last_layer'][0]}"
    title = f"Attention of the pooled row in % ({model}, {layers})"
    attended = frame.filter(pl.col("estimate") > 0)
    percent = attended.with_columns(pl.col("estimate", "low", "high") * 100)
    return _by_treatment(
        "attention", title, in_order(percent, "plan", "n"), "part", ".1f", brief=True
    )


def fidelity_table(frame: pl.DataFrame, model: str, first: str) -> Table:
    """How far treatments move the vectors of documents."""
    return Table(
        "fidelity",
        f"Cosine of each document's vector and that under {first} ({model})",
        in_order(frame, "plan", "n", "treatment"),
        heads=("plan", "n", "treatment"),
        columns={"estimate": "mean [95 %]", "documents": Column("documents", form=",d")},
        grouped=2,
        brief=True,
    )
