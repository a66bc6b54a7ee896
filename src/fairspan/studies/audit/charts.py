"""The charts of an audit: profiles by position, position by language as a heat map, and attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from fairspan.report.chart import Chart, HeatCell, HeatMap, Panel, Point, Series, domain_of, point
from fairspan.report.frames import interval, values_of
from fairspan.report.text import finite, number, p_value, with_bounds
from fairspan.report.view import Section
from fairspan.studies.audit.attention import parts_around
from fairspan.studies.audit.measures import ATTENTION_MEASURES, POSITION_MEASURES, AttentionWords

MOST_PLANS = 6
"""Of more plans than these a figure would be too wide, and several are drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What charts see of a run, or of several whose frames were joined; `model` as titles name it."""

    model: str
    frames: Mapping[str, pl.DataFrame]

    def of(self, frame: str, **chosen: Any) -> list[dict[str, Any]]:
        """The rows of a frame that have these values."""
        return self.frames[frame].filter(**chosen).to_dicts() if frame in self.frames else []

    @property
    def measures(self) -> list[str]:
        there = self.frames.get("means")
        return [] if there is None else values_of(there, "measure")

    @property
    def treatments(self) -> tuple[str, ...]:
        """All that were measured, which a page can switch between."""
        found = [
            self.frames[name]["treatment"].to_list()
            for name in ("means", "attention")
            if name in self.frames
        ]
        return tuple(dict.fromkeys(name for names in found for name in names))


def measure_sections(shown: Shown, measure: str) -> list[Section]:
    """Positions, and languages where two lead each other."""
    return [_profile_section(shown, measure), *_language_sections(shown, measure)]


def _profile_section(shown: Shown, measure: str) -> Section:
    """Profiles by size and language plan, and heat maps."""
    words = POSITION_MEASURES[measure]
    panels = _profile_panels(shown, measure)
    sizes = list(dict.fromkeys(len(panel.labels) for panel in panels))
    pages = _pages([panel.title for panel in panels])
    fixed = domain_of([panel.series for panel in panels], zero=True) if len(pages) > 1 else None
    charts = tuple(
        Chart(
            name=f"{measure}-profiles" + (f"-{page}" if page else ""),
            title=words.title + (f": {page.replace('-', ' ')}" if page else ""),
            caption=f"{words.caption}{f', {page}'.replace('-', ' ') if page else ''}, with 95 % intervals and mean "
            "segment lengths.",
            kind="bars",
            x_label="position",
            y_label=f"{measure} (cosine)",
            panels=tuple(panel for panel in panels if panel.title in plans),
            subtitle=shown.model,
            fixed=fixed,
            brief=True,
        )
        for page, plans in pages
    )
    heats = [_heat_map(shown, measure, n, several=len(sizes) > 1) for n in sizes]
    return Section(
        words.title, words.intro, charts, tuple(heat for heat in heats if heat is not None)
    )


def _language_sections(shown: Shown, measure: str) -> list[Section]:
    """Every two languages that lead each other in mixed documents; nothing where there are none."""
    rows, done, panels = shown.of("languages", measure=measure), POSITION_MEASURES[measure].done, []
    for n in sorted({row["n"] for row in rows}):
        own = [row for row in rows if row["n"] == n]
        found = {(row["treatment"], f"{row['language']} − {row['against']}"): row for row in own}
        pairs = tuple(dict.fromkeys(pair for _, pair in found))
        series = []
        for place, name in enumerate(shown.treatments):
            points: list[Point | None] = []
            for pair in pairs:
                row = found.get((name, pair), {})
                told = f"{name}\n{pair}: {with_bounds(interval(row), '+.3f')}\n{row.get('verdict')}"
                points.append(point(interval(row), told))
            series += [Series(name, place, tuple(points))] if any(points) else []
        panels.append(Panel("", pairs, tuple(series), heading=f"{n} segments"))
    if not rows:
        return []
    margin = rows[0]["margin"]
    chart = Chart(
        name=f"{measure}-language-differences",
        title=f"How much more each language is {done} than others in mixed documents",
        caption=f"Difference of {measure} between two languages in documents of both, averaged over both orders, "
        f"with 95 % intervals; shaded: within ±{margin:g}.",
        kind="bars",
        x_label="languages",
        y_label=f"difference of {measure}",
        panels=tuple(panels),
        subtitle=shown.model,
        dots=True,
        band=(-margin, margin),
    )
    intro = (
        f"Dots show by how much the first language is better {done} than the second in documents of both, at the "
        "same position, averaged over the two orders, with 95 % intervals. Above 0 it is favoured. Differences in "
        f"the shaded area, within ±{margin:g}, count as fair."
    )
    return [Section(f"Which languages are better {done}", intro, (chart,))]


def attention_section(shown: Shown) -> Section:
    """Where the pooled row looks; a page shows the last third of the layers."""
    frame = shown.frames["attention"]
    groups = frame["layers"].unique(maintain_order=True).to_list()
    where = "the last third of the layers" if "last third" in groups else "all layers"
    intro = (
        f"The mean share of attention that each part of the text gets from the pooled row, in {where}, with 95 % "
        "intervals. Special tokens are on the right. Text with more attention has more influence on the vector."
    )
    charts: list[Chart] = []
    for measure, words in ATTENTION_MEASURES.items():
        charts += _attention_charts(frame.filter(measure=measure), words, shown)
    return Section("Where attention goes", intro, tuple(charts))


def _profile_panels(shown: Shown, measure: str) -> list[Panel]:
    """By size, then by plan, in the order of the log."""
    found: dict[tuple[int, str], dict[str, list[dict[str, Any]]]] = {}
    for row in shown.of("means", measure=measure):
        found.setdefault((row["n"], row["plan"]), {}).setdefault(row["treatment"], []).append(row)
    verdicts = {
        row["treatment"]: f" ({row['verdict']})" for row in shown.of("verdicts", measure=measure)
    }
    keys = ("treatment", "n", "plan", "position")
    effects = {
        tuple(row[key] for key in keys): row for row in shown.of("coefficients", measure=measure)
    }
    panels = []
    # Sorting is stable: plans keep their order.
    for (n, plan), drawn in sorted(found.items(), key=lambda item: item[0][0]):
        series = []
        for name, rows in drawn.items():
            told = [_told(name, row, effects.get((name, n, plan, row["position"]))) for row in rows]
            points = tuple(point(interval(row), text) for row, text in zip(rows, told, strict=True))
            series.append(
                Series(
                    name, shown.treatments.index(name), points, legend=name + verdicts.get(name, "")
                )
            )
        rows = next(iter(drawn.values()))
        sets, documents = rows[0]["sets"], rows[0]["documents"]
        panels.append(
            Panel(
                plan,
                tuple(str(row["position"]) for row in rows),
                tuple(series),
                detail=f"{sets} {'set' if sets == 1 else 'sets'}, {documents:,} documents",
                strip=tuple(round(row["tokens"], 1) for row in rows),
                heading=f"{n} segments",
            )
        )
    return panels


def _told(name: str, mean: dict[str, Any], effect: dict[str, Any] | None) -> str:
    lines = [f"{name}, position {mean['position']}", with_bounds(interval(mean))]
    if effect is not None and mean["position"] > 1 and mean["lead"] == mean["later"]:
        change = with_bounds(interval(effect), "+.3f")
        lines.append(f"against position 1: {change}, p {p_value(effect['p_value'])}")
    tokens = number(mean["tokens"], ".0f")
    return "\n".join([*lines, f"{tokens} tokens on average, {mean['documents']:,} documents"])


def _pages(plans: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Plans that are drawn together, each page with a name: all of them, or by the language of later segments."""
    named: dict[str, list[str]] = {}
    for plan in dict.fromkeys(plans):
        _, _, later = plan.partition(":")
        named.setdefault(f"later-{later}" if later else "monolingual", []).append(plan)
    everything = [plan for own in named.values() for plan in own]
    return [("", everything)] if len(everything) <= MOST_PLANS else list(named.items())


def _heat_map(shown: Shown, measure: str, n: int, *, several: bool) -> HeatMap | None:
    """Position × language, with the effect of length taken out; None where there is one language only."""
    switch, joint = shown.treatments, shown.of("joint", measure=measure, n=n)
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
        caption=f"Mean {measure} at each position in each language, in documents of {n} segments{adjusted}.",
        corner="language",
        columns=tuple(f"position {position}" for position in range(1, n + 1)),
        rows=tuple(
            (
                name,
                tuple(
                    None if set(values) == {None} else HeatCell(tuple(values)) for values in cells
                ),
            )
            for name, cells in table.items()
        ),
        subtitle=shown.model,
        entries=switch,
    )


def _attention_charts(frame: pl.DataFrame, words: AttentionWords, shown: Shown) -> list[Chart]:
    """One chart for each size, of as many plans as fit."""
    sizes, charts = sorted(frame["n"].unique()), []
    for n in sizes:
        pages = _pages(values_of(frame.filter(n=n), "plan"))
        for page, plans in pages:
            own = frame.filter(pl.col("n") == n, pl.col("plan").is_in(plans))
            panels = _attention_panels(
                own, words, shown.treatments, folded=words.relative or page != pages[0][0]
            )
            ending = [f"n{n}"] if len(sizes) > 1 else []
            charts.append(
                Chart(
                    name="-".join([words.name, *ending, *([page] if page else [])]),
                    title=f"Attention of the pooled row {words.by}"
                    + (f", {n} segments" if len(sizes) > 1 else ""),
                    caption=f"Share of the pooled row's attention {words.by}, in documents of {n} segments, by "
                    "layers, with 95 % intervals.",
                    kind="lines" if words.relative else "bars",
                    x_label=words.x_label,
                    y_label="share of attention",
                    panels=tuple(panels),
                    subtitle=f"{shown.model}, {max(own['documents'])} documents"
                    + (" of each plan" if len(plans) > 1 else ""),
                    dashes="equal shares for all parts of the text",
                    fixed=domain_of([panel.series for panel in panels], zero=True),
                )
            )
    return charts


def _attention_panels(
    frame: pl.DataFrame, words: AttentionWords, treatments: Sequence[str], *, folded: bool
) -> list[Panel]:
    """For each group of layers and plan the parts of the text, and then what is around it.

    On the relative axis special tokens would be far above twenty small parts; they are the same as by segment.
    """
    on_page = "last third" if "last third" in set(frame["layers"]) else "all"
    around = {} if words.relative else {part: part for part in parts_around(frame)}
    panels = []
    for (layers, plan), own in frame.partition_by(
        "layers", "plan", as_dict=True, maintain_order=True
    ).items():
        first = own.row(0, named=True)
        numbers = own.select("part", "number").drop_nulls().unique().sort("number").rows()
        labels = {
            part: str(5 * (one - 1) if words.relative else one) for part, one in numbers
        } | around
        series = []
        for (name,), rows in own.partition_by(
            "treatment", as_dict=True, maintain_order=True
        ).items():
            found = {row["part"]: row for row in rows.iter_rows(named=True)}
            points = [_share(name, found.get(part)) for part in labels]
            series.append(Series(name, treatments.index(name), tuple(share for share, _ in points)))
            # Dashed, what would be equal shares.
            equal = tuple(level for _, level in points)
            series += (
                [Series(name, treatments.index(name), equal, dashed=True)] if any(equal) else []
            )
        panels.append(
            Panel(
                plan,
                tuple(labels.values()),
                tuple(series),
                detail=f"{first['n']} segments, {max(own['documents']):,} documents",
                heading=f"{'all layers' if layers == 'all' else f'{layers} of the layers'} "
                f"({first['first_layer']}–{first['last_layer']})",
                folded=folded or layers != on_page,
            )
        )
    return panels


def _share(name: str, share: dict[str, Any] | None) -> tuple[Point | None, Point | None]:
    """The share of a part, and what would be an equal one; None for what is unknown."""
    if share is None:
        return None, None
    level, told = finite(share["equal"]), f"{name}, {share['part']}\n{with_bounds(interval(share))}"
    if level is None:
        return point(interval(share), told), None
    return point(interval(share), f"{told}\nan equal share would be {number(level)}"), Point(level)
