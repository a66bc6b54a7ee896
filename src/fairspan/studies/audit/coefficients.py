"""Tables of coefficients: columns for plans, as IRF prints them, and for treatments."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import polars as pl

from fairspan.report.frames import values_of
from fairspan.report.table import Cell, Column, Row, Table
from fairspan.studies.audit.measures import symbol

MARKERS = {"◇": "p < 0.01", "□": "p < 0.05", "•": "not significant"}
MEANING = (
    "β0: the mean at position 1; βp: the difference of position p from it; n: segments in a "
    "document"
)
MIXED_NOTE = "in mixed plans βp is a difference of languages as well as of positions"


def coefficient_tables(
    frame: pl.DataFrame, model: str, published: pl.DataFrame | None = None
) -> Iterator[Table]:
    """All coefficients, then IRF's tables: one treatment's, and each (c.) with the first (uc.).

    The first tables have the `published` ones of their documents, too.
    """
    names = values_of(frame, "treatment")
    settings = list(_settings(frame, model))
    for setting in settings:
        table = setting.beside(published).table("coefficients")
        yield replace(table, brief=published is not None)
    for setting in settings:
        if len(names) > 1 and setting.frame["plan"].n_unique() > 1:
            for name in names:
                yield setting.table(f"coefficients-{name}", name)
    for name in names[1:]:
        for setting in settings:
            yield setting.table(f"calibrated-{name}", name, names[0])


class _Setting(NamedTuple):
    """Documents whose coefficients are in one table, whose name ends in `suffix`."""

    about: str
    suffix: str
    frame: pl.DataFrame

    def beside(self, published: pl.DataFrame | None) -> "_Setting":
        """The same with what was published of these documents."""
        if published is None:
            return self
        documents = published.join(self.frame, on=["plan", "n"], how="semi", maintain_order="left")
        return self._replace(frame=pl.concat([self.frame, documents], how="diagonal_relaxed"))

    def table(self, kind: str, *treatments: str) -> Table:
        """The table of all treatments, of one, or of a treatment with the baseline."""
        part = self.frame
        about = self.about
        if treatments:
            part = part.filter(pl.col("treatment").is_in(treatments))
            about += f", {' and '.join(treatments)}"
        measure = part["measure"][0]
        return coefficient_table(
            part,
            f"{measure}-{kind}{self.suffix}",
            f"OLS coefficients of {measure} ({about})",
            pair=treatments if len(treatments) == 2 else None,
            notes=_notes(part),
        )


def _settings(frame: pl.DataFrame, model: str) -> Iterator[_Setting]:
    """Documents in one language, and mixed ones for each language of later segments."""
    same = pl.col("lead") == pl.col("later")
    alone = frame.filter(same)
    if len(alone):
        languages = values_of(alone, "lead")
        title = "monolingual" if len(languages) > 1 else languages[0]
        yield _Setting(f"{title}, {model}", "", alone)
    mixed = frame.filter(~same)
    for later in values_of(mixed, "later"):
        part = mixed.filter(later=later)
        plans = values_of(part, "plan")
        title = heading(plans[0])
        if len(plans) > 1:
            title = f"mixed-language, later segments in {later}"
        yield _Setting(f"{title}, {model}", f"-mixed-{later}", part)


def coefficient_table(
    frame: pl.DataFrame,
    name: str,
    title: str,
    *,
    pair: tuple[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """A column for each plan, as in IRF's Tables 1–15, or for each treatment of a single plan.

    A treatment and its baseline as a `pair` have two columns for each plan, calibrated (c.) and
    uncalibrated (uc.), as in IRF's Tables 16–19.
    """
    plans = values_of(frame, "plan")
    treatments = pair or values_of(frame, "treatment")
    columns = {}
    for plan, treatment in product(plans, treatments):
        if pair:
            column = Column("c." if treatment == pair[0] else "uc.", heading(plan))
        elif len(plans) == 1:
            column = Column(treatment)
        elif len(treatments) == 1:
            column = Column(heading(plan))
        else:
            column = Column(treatment, heading(plan))
        columns[plan, treatment] = column
    digits = pl.col("digits") if "digits" in frame.columns else pl.lit(None)
    keys = ["n", "position", "plan", "treatment", "estimate", "marker", digits.fill_null(3)]
    cells = {
        tuple(key): Cell(estimate, f".{places}f", marker)
        for *key, estimate, marker, places in frame.select(keys).iter_rows()
    }
    rows = []
    for n in sorted(set(frame["n"])):
        for position in range(1, n + 1):
            label = symbol(position)
            if not pair:
                label += " (Intercept)" if position == 1 else f" ({position} vs. 1)"
            # Empty where a size was not measured.
            of_row = tuple(cells.get((n, position, *column), Cell("")) for column in columns)
            rows.append(Row((str(n), label), of_row))
    if pair:
        notes = (f"c.: {pair[0]}; uc.: {pair[1]}", *notes)
    headings = tuple(columns.values())
    return Table(name, title, ("n", ""), headings, tuple(rows), frame, 1, tuple(notes))


def heading(plan: str) -> str:
    """A plan as the heading of a column, such as "[zh, en, ..., en]" for "zh:en"."""
    lead, _, later = plan.partition(":")
    return f"[{lead}, {later}, ..., {later}]" if later else lead


def legend(frame: pl.DataFrame) -> str:
    """What the markers mean that occur."""
    used = [f"{sign} {meaning}" for sign, meaning in MARKERS.items() if sign in frame["marker"]]
    return f"p < 0.001 unless marked: {', '.join(used)}" if used else "p < 0.001 for all"


def _notes(frame: pl.DataFrame) -> list[str]:
    """What the coefficients mean, how they were made, and where published ones are from."""
    kinds = ", ".join(sorted(frame["inference"].drop_nulls().unique()))
    ends = dict.fromkeys([frame["sets"].min(), frame["sets"].max()])
    counts = f"sets: {' to '.join(map(str, ends))}; inference: {kinds}"
    notes = [MEANING, *if_mixed(frame, MIXED_NOTE), legend(frame), counts]
    if "table" in frame.columns:
        tables = ", ".join(map(str, sorted(frame["table"].drop_nulls().unique())))
        notes.append(f"IRF: arXiv 2601.16934, Tables {tables}, which measured other documents")
        if (frame["table"] >= 16).any():
            notes.append("IRF's calibrated coefficients are printed without signs of significance")
    return notes


def if_mixed(frame: pl.DataFrame, note: str) -> list[str]:
    """The note if some plan is mixed."""
    return [note] if (frame["lead"] != frame["later"]).any() else []
