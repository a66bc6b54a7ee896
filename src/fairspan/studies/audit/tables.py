"""The tables of an audit: verdicts, unevenness, languages, changes, attention."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isnan
from typing import Any, NamedTuple

import polars as pl
import polars.selectors as cs

from fairspan.report.frames import in_order, values_of
from fairspan.report.table import CHANGE, P_VALUE, Cell, Column, Row, Table
from fairspan.report.text import model_name, number
from fairspan.studies.audit.attention import LAST_HALF, parts_around
from fairspan.studies.audit.coefficients import (
    MEANING,
    MIXED_NOTE,
    coefficient_tables,
    if_mixed,
)

Frames = Mapping[str, pl.DataFrame]

_LATER = "mixed plans: from position 2 on, since position 1 is in another language"
_LEADS = "language leads"
_FOLLOWS = "language follows"
_VERDICT = Column("verdict", align="left")
_LANGUAGES = pl.concat_str("language", "against", separator=" − ").alias("languages")


class _Layout(NamedTuple):
    """A table of one measure, which its title has a place for; all heads but the last group."""

    title: str
    heads: Mapping[str, str] | Sequence[str]
    columns: Mapping[str, Column | str]
    note: str = ""


_signed = partial(Column, form="+.3f")


_LAYOUTS = {
    "unevenness": _Layout(
        "Unevenness of {} between positions",
        ("plan", "n", "treatment"),
        {
            "spread": "spread [95 %]",
            "gini": "Gini [95 %]",
            "psi": "PSI [95 %]",
            "least": "least",
            "verdict": _VERDICT,
        },
        "spread: largest minus smallest position mean; PSI: 1 − smallest/largest; Gini: of the "
        "position means; least: of the least represented segment, mean over documents",
    ),
    "language-differences": _Layout(
        "Differences of {} between languages in mixed documents",
        ("n", "languages", "treatment"),
        {
            "estimate": _signed("all positions [95 %]"),
            "lead": _signed("position 1 [95 %]"),
            "later": _signed("later [95 %]"),
            "verdict": _VERDICT,
        },
    ),
    "language-roles": _Layout(
        "{} of each language as lead and as later language",
        ("n", "language", "treatment"),
        {
            "lead_own_estimate": Column("it at 1", _LEADS),
            "lead_others_estimate": Column("others later", _LEADS),
            "lead_gap": _signed("1 − later [95 %]", _LEADS),
            "later_others_estimate": Column("others at 1", _FOLLOWS),
            "later_own_estimate": Column("it later", _FOLLOWS),
            "later_gap": _signed("1 − later [95 %]", _FOLLOWS),
        },
        "leads: it is at position 1, and later positions are in another language; follows: the "
        "other way round",
    ),
    "changes": _Layout(
        "Spread of {} between positions, on the same documents",
        {"change_of": "treatment", "plan": "plan", "n": "n"},
        {
            "documents": Column("documents", form=",d"),
            "first_spread": "before",
            "second_spread": "after",
            "change": CHANGE,
            "p_value": P_VALUE,
        },
        "p: of the test that no difference between positions has changed",
    ),
    "coefficient-changes": _Layout(
        "Changes of the coefficients of {}, on the same documents",
        {"change_of": "treatment", "plan": "plan", "n": "n", "coefficient": ""},
        {
            "first_estimate": "before",
            "second_estimate": "after",
            "change": CHANGE,
            "change_p_value": P_VALUE,
        },
        MEANING,
    ),
    "language-changes": _Layout(
        "Changes of differences of {} between languages, on the same mixed documents",
        {"change_of": "treatment", "n": "n", "languages": "languages"},
        {
            "first_estimate": _signed("before"),
            "second_estimate": _signed("after"),
            "change": CHANGE,
            "absolute_change": _signed("change of size [95 %]"),
        },
        "change of size: of the difference without its sign; below 0 the languages come closer",
    ),
}


def _table(
    kind: str,
    frame: pl.DataFrame,
    about: str,
    notes: Sequence[str],
    shown: pl.DataFrame | None = None,
    *,
    brief: bool = False,
) -> Table:
    """The table of a frame of one measure; `shown` has the columns that its rows need."""
    layout = _LAYOUTS[kind]
    measure = frame["measure"][0]
    title = layout.title.format(measure)
    table = Table.from_frame(
        f"{measure}-{kind}",
        f"{title[0].upper()}{title[1:]} ({about})",
        frame if shown is None else shown,
        heads=layout.heads,
        columns=layout.columns,
        grouped=len(layout.heads) - 1,
        notes=list(filter(None, [layout.note, *notes])),
        brief=brief,
    )
    return replace(table, frame=frame)


def tables_of(frames: Frames, model: str, notes: Sequence[str]) -> Iterator[Table]:
    """All tables of positions and languages, verdicts first; none if no position was measured."""
    if "families" not in frames:
        return
    name = model_name(model)
    yield _verdict_table(frames, name, notes)
    for measure in values_of(frames["families"], "measure"):
        parts = {
            kind: frame.filter(measure=measure)
            for kind, frame in frames.items()
            if "measure" in frame.columns and measure in frame["measure"]
        }
        if "unevenness" in parts:
            margin = parts["families"]["margin"].drop_nulls()[0]
            yield _unevenness_table(parts["unevenness"], name, margin)
        yield from coefficient_tables(parts["coefficients"], name, parts.get("published"))
        if "languages" in parts:
            yield _pair_table(parts["languages"], name)
        if "roles" in parts:
            yield _role_table(parts["roles"], name)
    if "changes" in frames:
        for measure in values_of(frames["changes"], "measure"):
            yield change_table("changes", frames["changes"], measure)


def _verdict_table(frames: Frames, model: str, notes: Sequence[str]) -> Table:
    """The verdict on each treatment in words; the frame has that on every family of documents."""
    verdicts = frames["verdicts"]
    words = pl.Series("words", map(reason, verdicts.to_dicts()), pl.String)
    table = Table.from_frame(
        "verdicts",
        f"Verdicts on {model}",
        verdicts.with_columns(words),
        heads=("measure", "treatment"),
        columns={"verdict": _VERDICT, "words": Column("in words", align="wrap")},
        grouped=1,
        notes=notes,
    )
    return replace(table, frame=frames["families"])


def _unevenness_table(frame: pl.DataFrame, model: str, margin: float) -> Table:

    notes = [f"verdict: on differences between positions within ±{margin:g}"]
    notes += if_mixed(frame, _LATER)
    return _table("unevenness", in_order(frame, "plan", "n", "treatment"), model, notes)


def _pair_table(frame: pl.DataFrame, model: str) -> Table:
    """Languages that lead each other: the first minus the second."""
    length = "same length" if frame["same_length"].any() else "lengths that segments have"
    note = "the first language minus the second, in documents of just these two in both orders"
    margin = f"verdict: on the mean over all positions within ±{frame['margin'][0]:g}"
    frame = in_order(frame, "n", "language", "against", "treatment")
    shown = frame.with_columns(_LANGUAGES)
    notes = [f"{note}, at the {length}", margin]
    return _table("language-differences", frame, model, notes, shown, brief=True)


def _role_table(frame: pl.DataFrame, model: str) -> Table:
    """IRF's comparison: documents that begin in a language, and those that go on in it."""
    keys = ["n", "language", "treatment"]
    frame = in_order(frame, *keys)
    wide = frame.select(keys).unique(maintain_order=True)
    for role in ("lead", "later"):
        ends = cs.starts_with("own_", "others_", "gap_").name.prefix(f"{role}_")
        of_role = frame.filter(role=role).select(*keys, ends)
        wide = wide.join(of_role, on=keys, how="left", maintain_order="left")
    means = "means over the other languages, at the lengths that segments have"
    note = f"{means}; later: the mean of positions 2 to n"
    return _table("language-roles", frame, model, [note], wide)


def change_table(kind: str, frame: pl.DataFrame, measure: str, *, brief: bool = False) -> Table:
    """Two treatments on the same documents: spreads, coefficients or languages."""
    by_language = kind == "language-changes"
    order = ("n", "language", "against") if by_language else ("plan", "n")
    frame = in_order(frame.filter(measure=measure), "first_treatment", "second_treatment", *order)
    first = frame.row(0, named=True)
    models = _change_name(model_name(first["first_model"]), model_name(first["second_model"]))
    treatments = frame.select("first_treatment", "second_treatment").iter_rows()
    shown = frame.with_columns(change_of=pl.Series([_change_name(*pair) for pair in treatments]))
    if by_language:
        shown = shown.with_columns(_LANGUAGES)
        notes = []
    else:
        notes = if_mixed(frame, _LATER if kind == "changes" else MIXED_NOTE)
    if first["first_run"] != first["second_run"]:
        notes.append(f"before: {first['first_run']}; after: {first['second_run']}")
    return _table(kind, frame, models, notes, shown, brief=brief)


def _change_name(first: str, second: str) -> str:
    return first if first == second else f"{first} → {second}"


def attention_tables(frame: pl.DataFrame) -> Iterator[Table]:
    """Attention by segment in the last half of the layers and in all: a table for each family."""
    layers = pl.col("layers").is_in([LAST_HALF, "all"])
    chosen = frame.filter(layers, measure="attention_segment")
    families = chosen.partition_by("n", "plan", as_dict=True, maintain_order=True)
    for (n, plan), family in families.items():
        parts = [*(f"segment {place}" for place in range(1, n + 1)), *parts_around(family)]
        groups = family.partition_by("layers", "treatment", as_dict=True, maintain_order=True)
        rows = []
        for heads, group in groups.items():
            shares = {row["part"]: _share(row) for row in group.iter_rows(named=True)}
            rows.append(Row(heads, tuple(shares[part] for part in parts)))
        about = f"{plan}, n = {n}, {max(family['documents'])} documents"
        yield Table(
            f"attention-segments-{plan.replace(':', '-')}-n{n}",
            f"Attention by segment ({about}), in % of the pooled row's",
            ("layers", "treatment"),
            tuple(Column(part.removeprefix("segment ")) for part in parts),
            tuple(rows),
            family,
            grouped=1,
            notes=("±: half of the 95 % interval",),
            brief=True,
        )


def _share(row: Mapping[str, Any]) -> Cell:
    """A share in %, with half of its interval."""
    half = 100 * (row["high"] - row["estimate"])
    return Cell(100 * row["estimate"], ".1f", "" if isnan(half) else f" ±{number(half, '.1f')}")


def reason(verdict: Mapping[str, Any]) -> str:
    """A verdict's sentence without the verdict, which is shown next to it."""
    kind = verdict["verdict"]
    return str(verdict["sentence"]).removeprefix(f"{kind}: ").removeprefix(f"{kind} ")
