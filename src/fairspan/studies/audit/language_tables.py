"""Tables of languages in mixed documents: their differences, each as lead and as later language, and changes."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from fairspan.report.table import Cell, Column, Table, row
from fairspan.report.text import model_name
from fairspan.studies.audit.frames import interval
from fairspan.studies.audit.tables import Frames, in_order, pair_name, verdict_cell


def language_tables(frames: Frames, measure: str, model: str) -> list[Table]:
    """Differences between languages in mixed documents, and each language where it leads and where it follows."""
    found = []
    if "languages" in frames and len(pairs := frames["languages"].filter(pl.col("measure") == measure)):
        found.append(_pair_table(pairs, measure, model))
    if "roles" in frames and len(roles := frames["roles"].filter(pl.col("measure") == measure)):
        found.append(_role_table(roles, measure, model))
    return found


def _pair_table(frame: pl.DataFrame, measure: str, model: str) -> Table:
    """Languages that lead each other: the first minus the second."""
    frame = in_order(frame, "n", "language", "against", "treatment")
    rows = []
    for one in frame.iter_rows(named=True):
        numbers = [Cell(interval(one, name), "+.3f") for name in ("", "lead_", "later_")]
        heads = (str(one["n"]), _difference_name(one), one["treatment"])
        rows.append(row(*heads, cells=[*numbers, verdict_cell(one["verdict"])]))
    names = ("all positions [95 %]", "position 1 [95 %]", "later [95 %]")
    length = "at the same length" if frame["same_length"].any() else "at the lengths that segments have"
    notes = (
        f"the first language minus the second, in documents of just these two in both orders, {length}",
        f"verdict: on the mean over all positions within ±{frame['margin'][0]:g}",
    )
    return Table(
        f"{measure}-language-differences",
        f"Differences of {measure} between languages in mixed documents ({model_name(model)})",
        ("n", "languages", "treatment"),
        (*(Column(name) for name in names), Column("verdict", align="left")),
        tuple(rows),
        frame,
        grouped=2,
        notes=notes,
        brief=True,
    )


def _role_table(frame: pl.DataFrame, measure: str, model: str) -> Table:
    """IRF's comparison: documents that begin in a language, beside those that begin in another and go on in it."""
    frame = in_order(frame, "n", "language", "treatment")
    found = {(one["n"], one["language"], one["treatment"], one["role"]): one for one in frame.iter_rows(named=True)}
    rows = []
    for key in dict.fromkeys(key[:3] for key in found):
        lead, later = (found.get((*key, role), dict[str, Any]()) for role in ("lead", "later"))
        cells: list[Cell | str | None] = [
            *(Cell(lead.get(f"{name}_estimate")) for name in ("own", "others")),
            _ends(lead),
            *(Cell(later.get(f"{name}_estimate")) for name in ("others", "own")),
            _ends(later),
        ]
        rows.append(row(str(key[0]), *key[1:], cells=cells))
    leads, follows = "language leads", "language follows"
    columns = (
        Column("it at 1", leads),
        Column("others later", leads),
        Column("1 − later [95 %]", leads),
        Column("others at 1", follows),
        Column("it later", follows),
        Column("1 − later [95 %]", follows),
    )
    notes = (
        "leads: it is at position 1, and later positions are in another language; follows: the other way round",
        "means over the other languages, at the lengths that segments have; later: the mean of positions 2 to n",
    )
    return Table(
        f"{measure}-language-roles",
        f"{measure.capitalize()} of each language as lead and as later language ({model_name(model)})",
        ("n", "language", "treatment"),
        columns,
        tuple(rows),
        frame,
        grouped=2,
        notes=notes,
    )


def _ends(role: dict[str, Any]) -> Cell:
    return Cell(interval(role, "gap_"), "+.3f") if role else Cell("")


def _difference_name(one: Mapping[str, Any]) -> str:
    """The name of a difference between two languages.

    >>> _difference_name({"language": "en", "against": "de"})
    'en − de'
    """
    return f"{one['language']} − {one['against']}"


def language_change_table(frame: pl.DataFrame, measure: str) -> Table:
    """The difference of every two languages before and after, on the same documents."""
    order = ("first_treatment", "second_treatment", "n", "language", "against")
    frame = in_order(frame.filter(pl.col("measure") == measure), *order)
    rows = []
    for one in frame.iter_rows(named=True):
        heads = (pair_name(one["first_treatment"], one["second_treatment"]), str(one["n"]), _difference_name(one))
        numbers = [Cell(one[f"{side}_estimate"], "+.3f") for side in ("first", "second")]
        changes = [Cell(interval(one, key), "+.3f") for key in ("change_", "absolute_change_")]
        rows.append(row(*heads, cells=[*numbers, *changes]))
    models = pair_name(*(model_name(frame[f"{side}_model"][0]) for side in ("first", "second")))
    names = ("before", "after", "change [95 %]", "change of size [95 %]")
    return Table(
        f"{measure}-language-changes",
        f"Changes of differences of {measure} between languages, on the same mixed documents ({models})",
        ("treatment", "n", "languages"),
        tuple(Column(name) for name in names),
        tuple(rows),
        frame,
        grouped=2,
        notes=("change of size: of the difference without its sign; below 0 the languages come closer",),
        brief=True,
    )
