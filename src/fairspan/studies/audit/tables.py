"""The tables of an audit: verdicts, unevenness, coefficients as in the papers, changes, and attention."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from fairspan.errors import LogError
from fairspan.report.table import Cell, Column, Row, Table, Tone, row
from fairspan.report.text import model_name, number
from fairspan.studies.audit.attention import parts_around
from fairspan.studies.audit.frames import interval, symbol

Frames = Mapping[str, pl.DataFrame]

TONES: dict[str, Tone] = {"fair": "good", "biased": "bad", "inconclusive": "open"}
MARKERS = {"◇": "p < 0.01", "□": "p < 0.05", "•": "not significant"}
MEANING = "β0: the mean at position 1; βp: the difference of position p from it; n: segments in a document"
MIXED = "in mixed plans βp is a difference of languages as well as of positions"
LATER = "mixed plans: from position 2 on, since position 1 is in another language"
SHARED = "sets share segments: p allows for it, the interval of the change resamples sets and does not"


def verdict_table(frames: Frames, model: str, notes: Sequence[str]) -> Table:
    """The verdict on each treatment in words; the frame has that on every family of documents."""
    rows = [
        row(one["measure"], one["treatment"], cells=[verdict_cell(one["verdict"]), reason(one)])
        for one in frames["verdicts"].iter_rows(named=True)
    ]
    columns = (Column("verdict", align="left"), Column("in words", align="wrap"))
    title = f"Verdicts on {model_name(model)}"
    heads = ("measure", "treatment")
    return Table("verdicts", title, heads, columns, tuple(rows), frames["families"], grouped=1, notes=tuple(notes))


def unevenness_table(frames: Frames, measure: str, model: str) -> Table:
    """How much positions differ, in every family of documents under every treatment."""
    frame = in_order(frames["unevenness"].filter(pl.col("measure") == measure), "plan", "n", "treatment")
    rows = []
    for one in frame.iter_rows(named=True):
        numbers = [Cell(interval(one, f"{name}_")) for name in ("spread", "gini", "psi")]
        heads = (one["plan"], str(one["n"]), one["treatment"])
        rows.append(row(*heads, cells=[*numbers, verdict_cell(one["verdict"])]))
    names = ("spread [95 %]", "Gini [95 %]", "PSI [95 %]")
    notes = (
        "spread: largest minus smallest position mean; PSI: 1 − smallest/largest; Gini: of the position means",
        f"verdict: on differences between positions within ±{frames['families']['margin'].drop_nulls()[0]:g}",
        *_mixed_note(frame, LATER),
    )
    return Table(
        f"{measure}-unevenness",
        f"Unevenness of {measure} between positions ({model_name(model)})",
        ("plan", "n", "treatment"),
        (*(Column(name) for name in names), Column("verdict", align="left")),
        tuple(rows),
        frame,
        grouped=2,
        notes=notes,
    )


def coefficient_tables(frames: Frames, measure: str, model: str) -> list[Table]:
    """All coefficients in brief, then IRF's tables: one treatment's, and each (c.) with the first one (uc.).

    Documents in one language are in one table, and mixed ones in a table for each language of the later segments.
    """
    frame = frames["coefficients"].filter(pl.col("measure") == measure)
    baseline, *others = values_of(frame, "treatment")

    def plain(part: pl.DataFrame, ending: str, *about: str, brief: bool = False) -> Table:
        title = f"OLS coefficients of {measure} ({', '.join((about[0], model_name(model), *about[1:]))})"
        return plain_layout(part, f"{measure}-coefficients{ending}", title, notes=_notes(part), brief=brief)

    settings = list(_settings(frame))
    tables = [plain(own, suffix, setting, brief=True) for setting, suffix, own in settings]
    for setting, suffix, own in settings:
        there = values_of(own, "treatment")
        if len(there) > 1 and own["plan"].n_unique() > 1:
            tables += [plain(_only(own, name), f"-{name}{suffix}", setting, name) for name in there]
    for name in others:
        for setting, suffix, own in settings:
            part = _only(own, baseline, name)
            if part["treatment"].n_unique() == 2:
                title = f"OLS coefficients of {measure} ({setting}, {model_name(model)}, {name} and {baseline})"
                stem = f"{measure}-calibrated-{name}{suffix}"
                notes = (f"c.: {name}; uc.: {baseline}", *_notes(part))
                tables.append(paired_layout(part, stem, title, name, baseline, notes=notes))
    return tables


def plain_layout(
    frame: pl.DataFrame, name: str, title: str, *, notes: Sequence[str] = (), digits: int = 3, brief: bool = False
) -> Table:
    """A column for each plan, as in IRF's Tables 1–15, or for each treatment where there is one plan only.

    Args:
        frame: coefficients; the columns treatment, plan, n, position, estimate and marker are read.
    """
    plans, treatments = values_of(frame, "plan"), values_of(frame, "treatment")
    if len(plans) == 1:
        columns = {(plans[0], one): Column(one) for one in treatments}
    else:
        several = len(treatments) > 1
        columns = {
            (plan, one): Column(one, heading(plan)) if several else Column(heading(plan))
            for plan in plans
            for one in treatments
        }

    def head(position: int) -> str:
        return f"{symbol(position)} ({'Intercept' if position == 1 else f'{position} vs. 1'})"

    rows = tuple(Row((str(n), head(position)), cells) for n, position, cells in _cells(frame, columns, digits))
    heads = ("n", "")
    return Table(name, title, heads, tuple(columns.values()), rows, frame, 1, notes=tuple(notes), brief=brief)


def paired_layout(
    frame: pl.DataFrame,
    name: str,
    title: str,
    treatment: str,
    baseline: str,
    *,
    notes: Sequence[str] = (),
    digits: int = 3,
) -> Table:
    """Two columns for each plan, calibrated (c.) and uncalibrated (uc.), as in IRF's Tables 16–19."""
    there = values_of(frame, "treatment")
    for one in (treatment, baseline):
        if one not in there:
            raise LogError(f"there are no coefficients of {one!r}, only of {', '.join(there)}.")
    columns = {
        (plan, one): Column(short, heading(plan))
        for plan in values_of(frame, "plan")
        for one, short in ((treatment, "c."), (baseline, "uc."))
    }
    rows = tuple(Row((str(n), symbol(position)), cells) for n, position, cells in _cells(frame, columns, digits))
    return Table(name, title, ("n", ""), tuple(columns.values()), rows, frame, 1, notes=tuple(notes))


def change_table(frame: pl.DataFrame, measure: str, *, brief: bool = False) -> Table:
    """The spread between positions before and after, on the same documents."""
    columns = {
        "documents": ("documents", ",d"),
        "before": ("first_spread", ".3f"),
        "after": ("second_spread", ".3f"),
        "change [95 %]": ("change_", "+.3f"),
        "p": ("p_value", "p"),
    }
    note = "p: of the test that no difference between positions has changed"
    title = f"Spread of {measure} between positions"
    return _paired_table(frame, measure, "changes", title, columns, (note, LATER), brief=brief)


def coefficient_change_table(frame: pl.DataFrame, measure: str, *, brief: bool = False) -> Table:
    """Every coefficient before and after, on the same documents."""
    columns = {
        "before": ("first_estimate", ".3f"),
        "after": ("second_estimate", ".3f"),
        "change [95 %]": ("change_", "+.3f"),
        "p": ("change_p_value", "p"),
    }
    title = f"Changes of the coefficients of {measure}"
    return _paired_table(frame, measure, "coefficient-changes", title, columns, (MEANING, MIXED), brief=brief)


def _paired_table(
    frame: pl.DataFrame,
    measure: str,
    name: str,
    title: str,
    columns: Mapping[str, tuple[str, str]],
    told: tuple[str, str],
    *,
    brief: bool = False,
) -> Table:
    """Two treatments; each column has the frame's column (or the beginning of an interval's) and its format.

    `told` are the notes below the table; the second is for mixed plans only.
    """
    order = ("first_treatment", "second_treatment", "plan", "n")
    frame = in_order(frame.filter(pl.col("measure") == measure), *order)
    by_coefficient = "coefficient" in frame.columns
    rows = []
    for one in frame.iter_rows(named=True):
        heads = [pair_name(one["first_treatment"], one["second_treatment"]), one["plan"], str(one["n"])]
        heads += [one["coefficient"]] if by_coefficient else []
        values = [(interval(one, key) if key.endswith("_") else one[key], form) for key, form in columns.values()]
        rows.append(row(*heads, cells=[Cell(value, form) for value, form in values]))
    first = frame.row(0, named=True)
    models = pair_name(model_name(first["first_model"]), model_name(first["second_model"]))
    across = first["first_run"] != first["second_run"]
    notes = [
        told[0],
        *_mixed_note(frame, told[1]),
        *([f"before: {first['first_run']}; after: {first['second_run']}"] if across else []),
    ]
    notes += [SHARED] if "two-way" in set(frame["inference"]) else []
    return Table(
        f"{measure}-{name}",
        f"{title}, on the same documents ({models})",
        ("treatment", "plan", "n", *([""] if by_coefficient else [])),
        tuple(Column(column) for column in columns),
        tuple(rows),
        frame,
        grouped=3 if by_coefficient else 2,
        notes=tuple(notes),
        brief=brief,
    )


def attention_tables(frame: pl.DataFrame) -> list[Table]:
    """Attention by segment, in the last third of the layers and in all of them: one table for each family."""
    chosen = frame.filter((pl.col("measure") == "attention_segment") & pl.col("layers").is_in(["last third", "all"]))
    families = chosen.partition_by("n", "plan", as_dict=True, maintain_order=True)
    return [_attention_table(own, n, plan) for (n, plan), own in families.items()]


def _attention_table(frame: pl.DataFrame, n: int, plan: str) -> Table:
    parts = [*(f"segment {place}" for place in range(1, n + 1)), *parts_around(frame)]
    rows = []
    for (layers, name), own in frame.partition_by("layers", "treatment", as_dict=True, maintain_order=True).items():
        found = {one["part"]: one for one in own.iter_rows(named=True)}
        rows.append(row(layers, name, cells=[_percent(found[part]) for part in parts]))
    documents = max(frame["documents"])
    return Table(
        f"attention-segments-{plan.replace(':', '-')}-n{n}",
        f"Attention by segment ({plan}, n = {n}, {documents} documents), in % of the pooled row's",
        ("layers", "treatment"),
        tuple(Column(part.removeprefix("segment ")) for part in parts),
        tuple(rows),
        frame,
        grouped=1,
        notes=("±: half of the 95 % interval",),
        brief=True,
    )


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


def _cells(
    frame: pl.DataFrame, columns: Mapping[tuple[str, str], Column], digits: int
) -> Iterator[tuple[int, int, tuple[Cell, ...]]]:
    """A row of cells for each size and position; empty where a size was not measured."""
    keys = ["n", "position", "plan", "treatment", "estimate", "marker"]
    found = {tuple(key): Cell(value, f".{digits}f", mark) for *key, value, mark in frame.select(keys).iter_rows()}
    for n in sorted(set(frame["n"])):
        for position in range(1, n + 1):
            yield n, position, tuple(found.get((n, position, *column), Cell("")) for column in columns)


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
        setting = f"mixed-language, later segments in {later}" if len(plans) > 1 else heading(plans[0])
        yield setting, f"-mixed-{later}", own


def _notes(frame: pl.DataFrame) -> tuple[str, ...]:
    kinds = ", ".join(sorted(set(frame["inference"])))
    sets = sorted(set(frame["sets"]))
    counted = f"{sets[0]}" if len(sets) == 1 else f"{sets[0]} to {sets[-1]}"
    return MEANING, *_mixed_note(frame, MIXED), legend(frame), f"sets: {counted}; inference: {kinds}"


def _mixed_note(frame: pl.DataFrame, note: str) -> list[str]:
    return [note] if (frame["lead"] != frame["later"]).any() else []


def _only(frame: pl.DataFrame, *treatments: str) -> pl.DataFrame:
    return frame.filter(pl.col("treatment").is_in(treatments))


def values_of(frame: pl.DataFrame, column: str) -> list[str]:
    """The values of a column in the order of their first appearance."""
    return frame[column].unique(maintain_order=True).to_list()


def in_order(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Sorted by numbers, and by names in the order of their first appearance."""
    keys = [
        pl.col(name).cast(pl.Enum(values_of(frame, name))) if frame[name].dtype == pl.String else pl.col(name)
        for name in columns
    ]
    return frame.sort(keys, maintain_order=True)


def pair_name(first: str, second: str) -> str:
    """Two names before and after, or the one that both have."""
    return first if first == second else f"{first} → {second}"


def _percent(share: Mapping[str, Any]) -> Cell:
    half = number(100 * (share["high"] - share["estimate"]), ".1f")
    known = share["high"] == share["high"]
    return Cell(100 * share["estimate"], ".1f", mark=f" ±{half}" if known else "")


def verdict_cell(kind: str) -> Cell:
    """A verdict in its colour."""
    return Cell(kind, tone=TONES[kind])
