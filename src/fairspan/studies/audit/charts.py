"""The charts of an audit: profiles by position, languages, and attention."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import polars as pl

from fairspan.report.chart import Chart, HeatCell, HeatMap, Panel, Point, Series, domain_of, point
from fairspan.report.frames import interval, values_of
from fairspan.report.text import counted, finite, number, p_value, with_bounds
from fairspan.report.view import Section
from fairspan.studies.audit.attention import LAST_HALF, parts_around
from fairspan.studies.audit.measures import (
    ATTENTION_MEASURES,
    POSITION_MEASURES,
    AttentionWords,
    Columns,
)

Tell = Callable[[Columns], str]
"""What is shown when a reader points at a row's point."""

MOST_PLANS = 6
"""Of more plans than these a figure would be too wide, and several are drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What charts see of a run, or of several whose frames were joined."""

    model: str
    frames: Mapping[str, pl.DataFrame]

    def rows(self, frame: str, **values: Any) -> list[Columns]:
        return self.frames[frame].filter(**values).to_dicts() if frame in self.frames else []

    @property
    def treatments(self) -> tuple[str, ...]:
        """All that were measured, which a page can switch between."""
        frames = [self.frames[name] for name in ("means", "attention") if name in self.frames]
        return tuple(dict.fromkeys(name for frame in frames for name in frame["treatment"]))

    def series(
        self, rows: Iterable[Columns], column: str, labels: Iterable[Any], tell: Tell
    ) -> Iterator[Series]:
        """One for each treatment, with a point for each label that a column of its rows has."""
        by_treatment: dict[str, dict[Any, Point | None]] = {}
        for row in rows:
            points = by_treatment.setdefault(row["treatment"], {})
            points[row[column]] = point(interval(row), tell(row))
        for name, points in by_treatment.items():
            place = self.treatments.index(name)
            yield Series(name, place, tuple(points.get(label) for label in labels))


def sections_of(shown: Shown) -> Iterator[Section]:
    """For each measure its positions, and languages where two lead each other."""
    means = shown.frames.get("means", pl.DataFrame({"measure": []}))
    for measure in values_of(means, "measure"):
        yield _profile_section(shown, measure)
        yield from _language_sections(shown, measure)


def _profile_section(shown: Shown, measure: str) -> Section:
    """Profiles by size and language plan, and heat maps."""
    words = POSITION_MEASURES[measure]
    panels = list(_profile_panels(shown, measure))
    pages = _pages(panel.title for panel in panels)
    fixed = domain_of([panel.series for panel in panels], zero=True) if len(pages) > 1 else None
    charts = []
    for page, plans in pages.items():
        title = page.replace("-", " ")
        chart = Chart(
            name=f"{measure}-profiles" + (f"-{page}" if page else ""),
            title=words.title + (f": {title}" if page else ""),
            kind="bars",
            x_label="position",
            y_label=f"{measure} (cosine)",
            panels=tuple(panel for panel in panels if panel.title in plans),
            subtitle=shown.model,
            fixed=fixed,
            brief=True,
        )
        charts.append(chart)
    sizes = dict.fromkeys(len(panel.labels) for panel in panels)
    heats = [_heat_map(shown, measure, n, several=len(sizes) > 1) for n in sizes]
    return Section(words.title, words.intro, tuple(charts), tuple(filter(None, heats)))


def _profile_panels(shown: Shown, measure: str) -> Iterator[Panel]:
    """By size, then by plan, in the order of the log."""
    key = itemgetter("treatment", "n", "plan", "position")
    effects = {key(row): row for row in shown.rows("coefficients", measure=measure)}

    def tell(mean: Columns) -> str:
        lines = [f"{mean['treatment']}, position {mean['position']}", with_bounds(interval(mean))]
        effect = effects.get(key(mean))
        if effect is not None and mean["position"] > 1 and mean["lead"] == mean["later"]:
            change = with_bounds(interval(effect), "+.3f")
            lines.append(f"against position 1: {change}, p {p_value(effect['p_value'])}")
        tokens = number(mean["tokens"], ".0f")
        return "\n".join([*lines, f"{tokens} tokens on average, {mean['documents']:,} documents"])

    verdicts = {row["treatment"]: row["verdict"] for row in shown.rows("verdicts", measure=measure)}
    means = shown.frames["means"].filter(measure=measure).sort("n", maintain_order=True)
    families = means.partition_by("n", "plan", as_dict=True, maintain_order=True)
    for (n, plan), family in families.items():
        first = family.filter(treatment=family["treatment"][0])
        positions = first["position"].to_list()
        series = []
        for drawn in shown.series(family.to_dicts(), "position", positions, tell):
            verdict = f" ({verdicts[drawn.name]})" if drawn.name in verdicts else ""
            series.append(replace(drawn, legend=drawn.name + verdict))
        yield Panel(
            plan,
            tuple(map(str, positions)),
            tuple(series),
            detail=f"{counted(first['sets'][0], 'set')}, {first['documents'][0]:,} documents",
            strip=tuple(round(tokens, 1) for tokens in first["tokens"]),
            heading=f"{n} segments",
        )


def _pages(plans: Iterable[str]) -> dict[str, list[str]]:
    """Plans that are drawn together by the page's name: all, or by the language of later ones."""
    distinct = list(dict.fromkeys(plans))
    if len(distinct) <= MOST_PLANS:
        return {"": distinct}
    pages: dict[str, list[str]] = {}
    for plan in distinct:
        _, _, later = plan.partition(":")
        pages.setdefault(f"later-{later}" if later else "monolingual", []).append(plan)
    return pages


def _heat_map(shown: Shown, measure: str, n: int, *, several: bool) -> HeatMap | None:
    """Position × language, without the effect of length; None if there is only one language."""
    switch = shown.treatments
    joint = shown.rows("joint", measure=measure, n=n)
    unknown = any(row["effect"] == "log_tokens" and row["estimate"] is None for row in joint)
    adjusted = "" if unknown else ", at the mean length of a segment"
    table: dict[str, list[list[float | None]]] = {}
    for row in joint:
        if row["effect"] == "mean":
            language = f"{row['language']} (mixed)" if row["plans"] == "mixed" else row["language"]
            cells = table.setdefault(language, [[None] * len(switch) for _ in range(n)])
            cells[row["position"] - 1][switch.index(row["treatment"])] = finite(row["estimate"])
    if len(table) < 2:
        return None
    return HeatMap(
        name=f"{measure}-languages" + (f"-n{n}" if several else ""),
        title=f"{measure} by position and language, n = {n}{adjusted}",
        corner="language",
        columns=tuple(f"position {position}" for position in range(1, n + 1)),
        rows=tuple((name, tuple(map(_heat_cell, cells))) for name, cells in table.items()),
        subtitle=shown.model,
        entries=switch,
    )


def _heat_cell(values: Sequence[float | None]) -> HeatCell | None:
    return None if set(values) == {None} else HeatCell(tuple(values))


def _language_sections(shown: Shown, measure: str) -> Iterator[Section]:
    """Every two languages that lead each other in mixed documents; none if there are none."""
    rows = shown.rows("languages", measure=measure)
    if not rows:
        return
    done = POSITION_MEASURES[measure].done
    margin = rows[0]["margin"]
    for row in rows:
        row["pair"] = f"{row['language']} − {row['against']}"

    def tell(row: Columns) -> str:
        difference = with_bounds(interval(row), "+.3f")
        return f"{row['treatment']}\n{row['pair']}: {difference}\n{row['verdict']}"

    panels = []
    for n in sorted({row["n"] for row in rows}):
        of_size = [row for row in rows if row["n"] == n]
        pairs = tuple(dict.fromkeys(row["pair"] for row in of_size))
        series = shown.series(of_size, "pair", pairs, tell)
        panels.append(Panel("", pairs, tuple(series), heading=f"{n} segments"))
    chart = Chart(
        name=f"{measure}-language-differences",
        title=f"How much more each language is {done} than others in mixed documents",
        kind="bars",
        x_label="languages",
        y_label=f"difference of {measure}",
        panels=tuple(panels),
        subtitle=shown.model,
        dots=True,
        band=(-margin, margin),
    )
    intro = (
        f"Dots show by how much the first language is better {done} than the second in documents "
        "of both, at the same position, averaged over the two orders, with 95 % intervals. Above 0 "
        f"it is favoured. Differences in the shaded area, within ±{margin:g}, count as fair."
    )
    yield Section(f"Which languages are better {done}", intro, (chart,))


def attention_section(shown: Shown, basket_size: int) -> Section:
    """Where the pooled row looks; a page shows the last half of the layers."""
    frame = shown.frames["attention"]
    where = "the last half of the layers" if LAST_HALF in frame["layers"] else "all layers"
    intro = (
        "The mean share of attention that each part of the text gets from the pooled row, in "
        f"{where}, with 95 % intervals. Special tokens are on the right. Text with more attention "
        "has more influence on the vector."
    )
    charts = [
        chart
        for measure, words in ATTENTION_MEASURES.items()
        for chart in _attention_charts(
            frame.filter(measure=measure),
            words._replace(by=words.by.format(basket_size)),
            shown,
        )
    ]
    return Section("Where attention goes", intro, tuple(charts))


def _attention_charts(frame: pl.DataFrame, words: AttentionWords, shown: Shown) -> Iterator[Chart]:
    """One chart for each size, of as many plans as fit."""
    sizes = sorted(frame["n"].unique())
    for n in sizes:
        name = words.name
        title = f"Attention of the pooled row {words.by}"
        if len(sizes) > 1:
            name += f"-n{n}"
            title += f", {n} segments"
        pages = _pages(frame.filter(n=n)["plan"])
        for page, plans in pages.items():
            part = frame.filter(pl.col("plan").is_in(plans), n=n)
            folded = words.relative or page != next(iter(pages))
            panels = tuple(_attention_panels(part, words, shown, folded=folded))
            of_each = " of each plan" if len(plans) > 1 else ""
            yield Chart(
                name=f"{name}-{page}" if page else name,
                title=title,
                kind="lines" if words.relative else "bars",
                x_label=words.x_label,
                y_label="share of attention",
                panels=panels,
                subtitle=f"{shown.model}, {max(part['documents'])} documents{of_each}",
                dashes="equal shares for all parts of the text",
                by_row=True,
            )


def _attention_panels(
    frame: pl.DataFrame, words: AttentionWords, shown: Shown, *, folded: bool
) -> Iterator[Panel]:
    """For each group of layers and plan the parts of the text, and then what is around it."""
    on_page = LAST_HALF if LAST_HALF in frame["layers"] else "all"
    # On the relative axis special tokens would be far above twenty small parts.
    around = [] if words.relative else parts_around(frame)
    parts = frame.partition_by("layers", "plan", as_dict=True, maintain_order=True)
    for (layers, plan), rows in parts.items():
        first = rows.row(0, named=True)
        numbers = rows.select("part", "number").drop_nulls().unique().sort("number")
        if words.relative:
            numbers = numbers.with_columns((pl.col("number") - 1) * 5)
        labels = {part: str(place) for part, place in numbers.iter_rows()}
        labels |= {part: part for part in around}
        where = "all layers" if layers == "all" else f"{layers} of the layers"
        yield Panel(
            plan,
            tuple(labels.values()),
            tuple(_share_series(rows.to_dicts(), labels, shown)),
            detail=f"{first['n']} segments, {max(rows['documents']):,} documents",
            heading=f"{where} ({first['first_layer']}–{first['last_layer']})",
            folded=folded or layers != on_page,
            apart=len(around),
        )


def _share_series(rows: Sequence[Columns], labels: Iterable[str], shown: Shown) -> Iterable[Series]:
    """The shares of each treatment, followed by what would be equal shares, dashed."""
    equal = {
        (row["treatment"], row["part"]): Point(row["equal"])
        for row in rows
        if finite(row["equal"]) is not None
    }

    def tell(row: Columns) -> str:
        lines = [f"{row['treatment']}, {row['part']}", with_bounds(interval(row))]
        if (row["treatment"], row["part"]) in equal:
            lines.append(f"an equal share would be {number(row['equal'])}")
        return "\n".join(lines)

    for series in shown.series(rows, "part", labels, tell):
        yield replace(series, points=tuple(map(_share, series.points)))
        levels = tuple(equal.get((series.name, part)) for part in labels)
        if any(levels):
            yield Series(series.name, series.number, levels, dashed=True)


def _share(point: Point | None) -> Point | None:
    """A point whose interval ends at 0 and 1: what lies beyond cannot be a share."""
    if point is None or point.low is None or point.high is None:
        return point
    return replace(point, low=max(0.0, point.low), high=min(1.0, point.high))
