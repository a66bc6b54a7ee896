"""The tables of an audit: verdicts, and one for each of its questions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from fairspan.report.frames import Estimate, in_order, interval, values_of
from fairspan.report.table import Cell, Column, Row, Table
from fairspan.studies.audit.measures import Columns

Frames = Mapping[str, pl.DataFrame]

_VERDICT = Column("verdict", align="left")


def verdict_table(frames: Frames, model: str, notes: Sequence[str]) -> Table:
    """The verdict on each treatment in words; the frame has that on every family of documents."""
    verdicts = frames["verdicts"]
    table = Table.from_frame(
        "verdicts",
        f"Verdicts on {model}",
        verdicts,
        heads=("measure", "treatment"),
        columns={"verdict": _VERDICT, "sentence": Column("in words", align="wrap")},
        grouped=1,
        notes=notes,
    )
    return replace(table, frame=frames["families"])


def coefficient_tables(frames: Frames, model: str) -> Iterator[Table]:
    """For each measure β0 and the differences from position 1, a column for each treatment."""
    whole = frames["coefficients"]
    for measure in values_of(whole, "measure"):
        frame = in_order(whole.filter(measure=measure), "plan", "n", "position")

        def cell(row: Columns) -> Cell:
            form = ".3f" if row["position"] == 1 else "+.3f"
            return Cell(interval(row), form, row["marker"])

        title = f"Coefficients of {measure} ({model})"
        table = _by_treatment(f"{measure}-coefficients", title, frame, "coefficient", cell)
        yield replace(table, notes=tuple(_coefficient_notes(frame)))


def _by_treatment(
    name: str, title: str, frame: pl.DataFrame, part: str, cell: Callable[[Columns], Cell]
) -> Table:
    """A row for each plan, size and part of a frame, and a column for each treatment."""
    heads = ("plan", "n", part)
    treatments = values_of(frame, "treatment")
    cells = {
        (*(row[head] for head in heads), row["treatment"]): cell(row)
        for row in frame.iter_rows(named=True)
    }
    rows = [
        Row(tuple(map(str, key)), tuple(cells.get((*key, name), Cell("")) for name in treatments))
        for key in frame.select(heads).unique(maintain_order=True).iter_rows()
    ]
    columns = tuple(map(Column, treatments))
    return Table(name, title, ("plan", "n", ""), columns, tuple(rows), frame, 2)


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
    pair = pl.concat_str("language", "against", separator=" − ").alias("languages")
    table = Table.from_frame(
        f"{measure}-languages",
        f"Differences of {measure} between languages in mixed documents ({model})",
        frame.with_columns(pair),
        heads=("n", "languages", "treatment"),
        columns={"estimate": Column("difference [95 %]", form="+.3f"), "verdict": _VERDICT},
        grouped=2,
        notes=[f"{note}, at the {length}", f"verdict: within ±{frame['margin'][0]:g}"],
        brief=True,
    )
    return replace(table, frame=frame)


def attention_table(frame: pl.DataFrame, model: str) -> Table:
    """The shares of all baskets and of special tokens, a column for each treatment."""

    def cell(row: Columns) -> Cell:
        return Cell(Estimate(*(end and 100 * end for end in interval(row))), ".1f")

    layers = f"layers {frame['first_layer'][0]} to {frame['last_layer'][0]}"
    title = f"Attention of the pooled row in % ({model}, {layers})"
    frame = in_order(frame.filter(pl.col("estimate") > 0), "plan", "n")
    return replace(_by_treatment("attention", title, frame, "part", cell), brief=True)


def fidelity_table(frame: pl.DataFrame, model: str, first: str) -> Table:
    """How far treatments move the vectors of documents."""
    return Table.from_frame(
        "fidelity",
        f"Cosine of each document's vector and that under {first} ({model})",
        in_order(frame, "plan", "n", "treatment"),
        heads=("plan", "n", "treatment"),
        columns={"estimate": "mean [95 %]", "documents": Column("documents", form=",d")},
        grouped=2,
        brief=True,
    )
