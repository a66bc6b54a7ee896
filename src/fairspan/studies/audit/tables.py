"""The tables of an audit: verdicts, unevenness, coefficients as in the papers, languages, changes, and attention."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Any

import polars as pl
import polars.selectors as cs

from fairspan.report.frames import in_order, values_of
from fairspan.report.table import CHANGE, P_VALUE, Cell, Column, Row, Table
from fairspan.report.text import model_name, number
from fairspan.studies.audit.attention import parts_around
from fairspan.studies.audit.measures import symbol

Frames = Mapping[str, pl.DataFrame]

MARKERS = {"◇": "p < 0.01", "□": "p < 0.05", "•": "not significant"}
MEANING = "β0: the mean at position 1; βp: the difference of position p from it; n: segments in a document"
MIXED = "in mixed plans βp is a difference of languages as well as of positions"
LATER = "mixed plans: from position 2 on, since position 1 is in another language"
_VERDICT = Column("verdict", align="left")
_SHARE = ["part", "estimate", "high"]
_LANGUAGES = pl.concat_str("language", "against", separator=" − ").alias("languages")


def tables_of(frames: Frames, model: str, notes: Sequence[str]) -> list[Table]:
    """All tables of positions and languages, verdicts first; none where no position was measured."""
    if "families" not in frames:
        return []
    found = [_verdict_table(frames, model, notes)]
    for measure in values_of(frames["families"], "measure"):
        own = {
            name: one.filter(pl.col("measure") == measure)
            for name, one in frames.items()
            if "measure" in one.columns
        }
        found += [
            table
            for name, make in _OF_MEASURE.items()
            if len(own.get(name, ()))
            for table in make(own, model)
        ]
    for measure in values_of(frames["changes"], "measure") if "changes" in frames else ():
        found.append(change_table("changes", frames["changes"], measure))
    return found


def _verdict_table(frames: Frames, model: str, notes: Sequence[str]) -> Table:
    """The verdict on each treatment in words; the frame has that on every family of documents."""
    verdicts = frames["verdicts"]
    words = pl.Series("words", [reason(one) for one in verdicts.iter_rows(named=True)], pl.String)
    table = Table.from_frame(
        "verdicts",
        f"Verdicts on {model_name(model)}",
        verdicts.with_columns(words),
        heads=("measure", "treatment"),
        columns={"verdict": _VERDICT, "words": Column("in words", align="wrap")},
        grouped=1,
        notes=notes,
    )
    return replace(table, frame=frames["families"])


def _unevenness_tables(frames: Frames, model: str) -> list[Table]:
    """How much positions differ, in every family of documents under every treatment."""
    frame = in_order(frames["unevenness"], "plan", "n", "treatment")
    measure = frame["measure"][0]
    table = Table.from_frame(
        f"{measure}-unevenness",
        f"Unevenness of {measure} between positions ({model_name(model)})",
        frame,
        heads=("plan", "n", "treatment"),
        columns={
            "spread": "spread [95 %]",
            "gini": "Gini [95 %]",
            "psi": "PSI [95 %]",
            "verdict": _VERDICT,
        },
        grouped=2,
        notes=(
            "spread: largest minus smallest position mean; PSI: 1 − smallest/largest; Gini: of the position means",
            f"verdict: on differences between positions within ±{frames['families']['margin'].drop_nulls()[0]:g}",
            *_mixed_note(frame, LATER),
        ),
    )
    return [table]


def _coefficient_tables(frames: Frames, model: str) -> list[Table]:
    """All coefficients, then IRF's tables: one treatment's, and each (c.) with the first one (uc.).

    Documents in one language are in one table, and mixed ones in a table for each language of the later segments.
    """
    frame = frames["coefficients"]
    measure, (baseline, *others) = frame["measure"][0], values_of(frame, "treatment")

    def table(part: pl.DataFrame, ending: str, about: Sequence[str], **how: Any) -> Table:
        title = f"OLS coefficients of {measure} ({', '.join((about[0], model_name(model), *about[1:]))})"
        return coefficient_table(part, f"{measure}-{ending}", title, notes=_notes(part), **how)

    settings = list(_settings(frame))
    tables = [table(own, f"coefficients{suffix}", [setting]) for setting, suffix, own in settings]
    for setting, suffix, own in settings:
        there = values_of(own, "treatment")
        if len(there) > 1 and own["plan"].n_unique() > 1:
            tables += [
                table(_only(own, one), f"coefficients-{one}{suffix}", [setting, one])
                for one in there
            ]
    for name in others:
        for setting, suffix, own in settings:
            part, about = _only(own, baseline, name), [setting, f"{name} and {baseline}"]
            if part["treatment"].n_unique() == 2:
                tables.append(
                    table(part, f"calibrated-{name}{suffix}", about, pair=(name, baseline))
                )
    return tables


def coefficient_table(
    frame: pl.DataFrame,
    name: str,
    title: str,
    *,
    pair: tuple[str, str] | None = None,
    notes: Sequence[str] = (),
    digits: int = 3,
) -> Table:
    """A column for each plan, as in IRF's Tables 1–15, or for each treatment where there is one plan only.

    Args:
        frame: coefficients; the columns treatment, plan, n, position, estimate and marker are read.
        pair: a treatment and a baseline, which have two columns for each plan, calibrated (c.) and uncalibrated
            (uc.), as in IRF's Tables 16–19.
    """
    plans, treatments = values_of(frame, "plan"), pair or values_of(frame, "treatment")
    short = (
        dict(zip(pair, ("c.", "uc."), strict=True)) if pair else {one: one for one in treatments}
    )
    if len(plans) == 1 and not pair:
        columns = {(plans[0], one): Column(one) for one in treatments}
    elif len(treatments) == 1:
        columns = {(plan, treatments[0]): Column(heading(plan)) for plan in plans}
    else:
        columns = {
            (plan, one): Column(short[one], heading(plan)) for plan in plans for one in treatments
        }
    keys = ["n", "position", "plan", "treatment", "estimate", "marker"]
    found = {
        tuple(key): Cell(value, f".{digits}f", mark)
        for *key, value, mark in frame.select(keys).iter_rows()
    }
    rows = []
    for n in sorted(set(frame["n"])):
        for position in range(1, n + 1):
            meaning = "" if pair else f" ({'Intercept' if position == 1 else f'{position} vs. 1'})"
            # Empty where a size was not measured.
            cells = tuple(found.get((n, position, *column), Cell("")) for column in columns)
            rows.append(Row((str(n), symbol(position) + meaning), cells))
    notes = ((f"c.: {pair[0]}; uc.: {pair[1]}",) if pair else ()) + tuple(notes)
    return Table(
        name, title, ("n", ""), tuple(columns.values()), tuple(rows), frame, 1, notes=notes
    )


def _pair_tables(frames: Frames, model: str) -> list[Table]:
    """Languages that lead each other: the first minus the second."""
    frame = in_order(frames["languages"], "n", "language", "against", "treatment")
    measure = frame["measure"][0]
    names = {
        "estimate": "all positions [95 %]",
        "lead": "position 1 [95 %]",
        "later": "later [95 %]",
    }
    length = (
        "at the same length" if frame["same_length"].any() else "at the lengths that segments have"
    )
    table = Table.from_frame(
        f"{measure}-language-differences",
        f"Differences of {measure} between languages in mixed documents ({model_name(model)})",
        frame.with_columns(_LANGUAGES),
        heads=("n", "languages", "treatment"),
        columns={
            **{key: Column(name, form="+.3f") for key, name in names.items()},
            "verdict": _VERDICT,
        },
        grouped=2,
        notes=(
            f"the first language minus the second, in documents of just these two in both orders, {length}",
            f"verdict: on the mean over all positions within ±{frame['margin'][0]:g}",
        ),
        brief=True,
    )
    return [replace(table, frame=frame)]


def _role_tables(frames: Frames, model: str) -> list[Table]:
    """IRF's comparison: documents that begin in a language, beside those that begin in another and go on in it."""
    keys = ["n", "language", "treatment"]
    frame = in_order(frames["roles"], *keys)
    measure, wide = frame["measure"][0], frame.select(keys).unique(maintain_order=True)
    for role in ("lead", "later"):
        ends = cs.starts_with("own_", "others_", "gap_")
        own = frame.filter(pl.col("role") == role).select(*keys, ends.name.prefix(f"{role}_"))
        wide = wide.join(own, on=keys, how="left", maintain_order="left")
    leads, follows = "language leads", "language follows"
    table = Table.from_frame(
        f"{measure}-language-roles",
        f"{measure.capitalize()} of each language as lead and as later language ({model_name(model)})",
        wide,
        heads=keys,
        columns={
            "lead_own_estimate": Column("it at 1", leads),
            "lead_others_estimate": Column("others later", leads),
            "lead_gap": Column("1 − later [95 %]", leads, form="+.3f"),
            "later_others_estimate": Column("others at 1", follows),
            "later_own_estimate": Column("it later", follows),
            "later_gap": Column("1 − later [95 %]", follows, form="+.3f"),
        },
        grouped=2,
        notes=(
            "leads: it is at position 1, and later positions are in another language; follows: the other way round",
            "means over the other languages, at the lengths that segments have; later: the mean of positions 2 to n",
        ),
    )
    return [replace(table, frame=frame)]


_OF_MEASURE = {
    "unevenness": _unevenness_tables,
    "coefficients": _coefficient_tables,
    "languages": _pair_tables,
    "roles": _role_tables,
}


_CHANGES: dict[str, tuple[str, dict[str, str], dict[str, Column | str], tuple[str, ...]]] = {
    "changes": (
        "Spread of {} between positions",
        {"plan": "plan", "n": "n"},
        {
            "documents": Column("documents", form=",d"),
            "first_spread": "before",
            "second_spread": "after",
            "change": CHANGE,
            "p_value": P_VALUE,
        },
        ("p: of the test that no difference between positions has changed", LATER),
    ),
    "coefficient-changes": (
        "Changes of the coefficients of {}",
        {"plan": "plan", "n": "n", "coefficient": ""},
        {
            "first_estimate": "before",
            "second_estimate": "after",
            "change": CHANGE,
            "change_p_value": P_VALUE,
        },
        (MEANING, MIXED),
    ),
    "language-changes": (
        "Changes of differences of {} between languages",
        {"n": "n", "languages": "languages"},
        {
            "first_estimate": Column("before", form="+.3f"),
            "second_estimate": Column("after", form="+.3f"),
            "change": CHANGE,
            "absolute_change": Column("change of size [95 %]", form="+.3f"),
        },
        ("change of size: of the difference without its sign; below 0 the languages come closer",),
    ),
}
"""What is compared: its title, heads and columns, and notes of which a second one is about mixed plans."""


def change_table(kind: str, frame: pl.DataFrame, measure: str, *, brief: bool = False) -> Table:
    """Two treatments on the same documents, before and after: spreads, coefficients or differences of languages."""
    title, heads, columns, (note, *mixed) = _CHANGES[kind]
    by_language = "languages" in heads
    order = ("n", "language", "against") if by_language else ("plan", "n")
    frame = in_order(frame.filter(measure=measure), "first_treatment", "second_treatment", *order)
    first = frame.row(0, named=True)
    models = _change_name(*(model_name(first[f"{side}_model"]) for side in ("first", "second")))
    notes = [note, *(line for one in mixed for line in _mixed_note(frame, one))]
    if first["first_run"] != first["second_run"]:
        notes.append(f"before: {first['first_run']}; after: {first['second_run']}")
    sides = frame.select("first_treatment", "second_treatment").rows()
    named = [pl.Series("change_of", [_change_name(*one) for one in sides])]
    table = Table.from_frame(
        f"{measure}-{kind}",
        f"{title.format(measure)}, on the same {'mixed ' if by_language else ''}documents ({models})",
        frame.with_columns(*named, *([_LANGUAGES] if by_language else [])),
        heads={"change_of": "treatment", **heads},
        columns=columns,
        grouped=len(heads),
        notes=notes,
        brief=brief,
    )
    return replace(table, frame=frame)


def _change_name(first: str, second: str) -> str:
    """Two names before and after, or the one that both have."""
    return first if first == second else f"{first} → {second}"


def attention_tables(frame: pl.DataFrame) -> list[Table]:
    """Attention by segment, in the last third of the layers and in all of them: one table for each family."""
    chosen = frame.filter(
        (pl.col("measure") == "attention_segment") & pl.col("layers").is_in(["last third", "all"])
    )
    tables = []
    for (n, plan), own in chosen.partition_by(
        "n", "plan", as_dict=True, maintain_order=True
    ).items():
        parts = [*(f"segment {place}" for place in range(1, n + 1)), *parts_around(own)]
        documents = max(own["documents"])
        rows = []
        for (layers, name), some in own.partition_by(
            "layers", "treatment", as_dict=True, maintain_order=True
        ).items():
            found = {
                part: (100 * mean, 100 * (high - mean)) for part, mean, high in some[_SHARE].rows()
            }
            halves = {
                part: "" if isnan(half) else f" ±{number(half, '.1f')}"
                for part, (_, half) in found.items()
            }
            rows.append(
                Row(
                    (layers, name),
                    tuple(Cell(found[part][0], ".1f", halves[part]) for part in parts),
                )
            )
        tables.append(
            Table(
                f"attention-segments-{plan.replace(':', '-')}-n{n}",
                f"Attention by segment ({plan}, n = {n}, {documents} documents), in % of the pooled row's",
                ("layers", "treatment"),
                tuple(Column(part.removeprefix("segment ")) for part in parts),
                tuple(rows),
                own,
                grouped=1,
                notes=("±: half of the 95 % interval",),
                brief=True,
            )
        )
    return tables


def reason(verdict: Mapping[str, Any]) -> str:
    """A verdict's sentence without the verdict, which is shown next to it."""
    kind, sentence = verdict["verdict"], str(verdict["sentence"])
    return sentence.removeprefix(f"{kind}: ").removeprefix(f"{kind} ")


def heading(plan: str) -> str:
    """A plan as the heading of a column: a language, or that of the first segment before that of the later ones.

    >>> heading("zh:en")
    '[zh, en, ..., en]'
    """
    lead, _, later = plan.partition(":")
    return f"[{lead}, {later}, ..., {later}]" if later else lead


def legend(frame: pl.DataFrame) -> str:
    """What the markers mean that occur; nothing is said of those that do not."""
    there = set(frame["marker"])
    used = [f"{sign} {meaning}" for sign, meaning in MARKERS.items() if sign in there]
    return f"p < 0.001 unless marked: {', '.join(used)}" if used else "p < 0.001 for all"


def _settings(frame: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """What the documents are, what a table's name ends in, and the coefficients: first one language, then mixed."""
    same = pl.col("lead") == pl.col("later")
    alone, mixed = frame.filter(same), frame.filter(~same)
    if len(alone):
        languages = values_of(alone, "lead")
        yield "monolingual" if len(languages) > 1 else languages[0], "", alone
    for later in values_of(mixed, "later"):
        own = mixed.filter(pl.col("later") == later)
        plans = values_of(own, "plan")
        setting = (
            f"mixed-language, later segments in {later}" if len(plans) > 1 else heading(plans[0])
        )
        yield setting, f"-mixed-{later}", own


def _notes(frame: pl.DataFrame) -> tuple[str, ...]:
    kinds = ", ".join(sorted(set(frame["inference"])))
    sets = sorted(set(frame["sets"]))
    counted = f"{sets[0]}" if len(sets) == 1 else f"{sets[0]} to {sets[-1]}"
    return (
        MEANING,
        *_mixed_note(frame, MIXED),
        legend(frame),
        f"sets: {counted}; inference: {kinds}",
    )


def _mixed_note(frame: pl.DataFrame, note: str) -> list[str]:
    return [note] if (frame["lead"] != frame["later"]).any() else []


def _only(frame: pl.DataFrame, *treatments: str) -> pl.DataFrame:
    return frame.filter(pl.col("treatment").is_in(treatments))
