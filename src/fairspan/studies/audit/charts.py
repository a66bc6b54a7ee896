"""The charts of an audit: profiles by position, position by language as a heat map, and attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from fairspan.report.chart import Chart, HeatCell, HeatMap, Panel, Point, Series, domain_of, point
from fairspan.report.text import finite, model_name, number, p_value, with_bounds
from fairspan.report.view import Section
from fairspan.stats.bootstrap import Interval
from fairspan.studies.audit.attention import AROUND, parts_around
from fairspan.studies.audit.frames import interval
from fairspan.studies.audit.words import ATTENTION_MEASURES, POSITION_MEASURES, AttentionWords

MOST_PLANS, MOST_ATTENTION_PLANS = 6, 4
"""Of more plans than these a figure would be too wide, and several are drawn."""

MOST_FAMILIES = 12
"""Of more families than these a page shows the attention of the first, which are in one language."""

EQUAL = "equal shares for all parts of the text"


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """One run as charts see it; its `label` precedes its treatments where several runs are drawn together."""

    model: str
    frames: Mapping[str, pl.DataFrame]
    label: str = ""

    def name(self, treatment: str) -> str:
        return f"{self.label}: {treatment}" if self.label else treatment

    def of(self, frame: str, **chosen: Any) -> list[dict[str, Any]]:
        """The rows of a frame that have these values."""
        return self.frames[frame].filter(**chosen).to_dicts() if frame in self.frames else []

    @property
    def measures(self) -> list[str]:
        there = self.frames.get("means")
        return [] if there is None else there["measure"].unique(maintain_order=True).to_list()

    @property
    def treatments(self) -> list[str]:
        """All that were measured."""
        found = [self.frames[name]["treatment"].to_list() for name in ("means", "attention") if name in self.frames]
        return list(dict.fromkeys(name for names in found for name in names))


def switch_of(shown: Sequence[Shown]) -> tuple[str, ...]:
    """The treatments that a page can switch between."""
    return tuple(one.name(treatment) for one in shown for treatment in one.treatments)


def measure_sections(shown: Sequence[Shown], measure: str) -> list[Section]:
    """Positions, and languages where two lead each other."""
    languages = language_section(shown, measure)
    return [profile_section(shown, measure), *([] if languages is None else [languages])]


def profile_section(shown: Sequence[Shown], measure: str) -> Section:
    """Profiles by size and language plan, and heat maps."""
    words = POSITION_MEASURES[measure]
    panels = _profile_panels(shown, measure)
    sizes = list(dict.fromkeys(len(panel.labels) for panel in panels))
    pages = _pages([panel.title for panel in panels])
    subtitle = " and ".join(dict.fromkeys(model_name(one.model) for one in shown))
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
            subtitle=subtitle,
            fixed=fixed,
            brief=True,
        )
        for page, plans in pages
    )
    heats = [_heat_map(shown, measure, n, subtitle, several=len(sizes) > 1) for n in sizes]
    return Section(words.section, words.intro, charts, tuple(heat for heat in heats if heat is not None))


def language_section(shown: Sequence[Shown], measure: str) -> Section | None:
    """Each language of mixed documents against every other; None where no two lead each other."""
    switch = switch_of(shown)
    found: dict[tuple[int, str], dict[tuple[str, str], Point | None]] = {}
    rows = [(one.name(row["treatment"]), row) for one in shown for row in one.of("languages", measure=measure)]
    for name, row in rows:
        both = (row["language"], row["against"])
        for (language, other), sign in ((both, 1), (both[::-1], -1)):
            low, high = sorted((sign * row["low"], sign * row["high"]))
            ends = Interval(sign * row["estimate"], low, high)
            told = f"{name}\n{language} against {other}: {with_bounds(ends, '+.3f')}\n{row['verdict']}"
            found.setdefault((row["n"], language), {})[name, other] = point(ends, told)
    if not rows:
        return None
    languages = list(dict.fromkeys(language for _, row in rows for language in (row["language"], row["against"])))
    if len(languages) == 2:
        # The other one would be its mirror.
        found = {key: points for key, points in found.items() if key[1] == languages[0]}
    panels = []
    for (n, language), points in sorted(found.items(), key=lambda item: (item[0][0], languages.index(item[0][1]))):
        others = [other for other in languages if any(other == one for _, one in points)]
        series = [
            Series(name, place, tuple(points.get((name, other)) for other in others))
            for place, name in enumerate(switch)
            if any(name == one for one, _ in points)
        ]
        panels.append(Panel(f"{language} against …", tuple(others), tuple(series), heading=f"{n} segments"))
    margin = rows[0][1]["margin"]
    chart = Chart(
        name=f"{measure}-language-differences",
        title=f"How much more each language is {POSITION_MEASURES[measure].done} than others in mixed documents",
        caption=f"Difference of {measure} between two languages in documents of both, averaged over both orders, "
        f"with 95 % intervals; shaded: within ±{margin:g}.",
        kind="bars",
        x_label="other language",
        y_label=f"difference of {measure}",
        panels=tuple(panels),
        subtitle=" and ".join(dict.fromkeys(model_name(one.model) for one in shown)),
        dots=True,
        band=(-margin, margin),
    )
    intro = (
        f"Dots show by how much a language is better {POSITION_MEASURES[measure].done} than another one in documents "
        "of both, at the same position, averaged over the two orders, with 95 % intervals. Above 0 it is favoured. "
        f"Differences in the shaded area, within ±{margin:g}, count as fair."
    )
    return Section(f"Which languages are better {POSITION_MEASURES[measure].done}", intro, (chart,))


def attention_section(shown: Shown) -> Section:
    """Where the pooled row looks; a page shows the last third of the layers."""
    frame = shown.frames["attention"]
    groups = frame["layers"].unique(maintain_order=True).to_list()
    where = "the last third of the layers" if "last third" in groups else "all layers"
    intro = (
        f"The mean share of attention that each part of the text gets from the pooled row, in {where}, with 95 % "
        "intervals. Special tokens are on the right. Text with more attention has more influence on the vector."
    )
    charts = [
        chart
        for measure, words in ATTENTION_MEASURES.items()
        if len(own := frame.filter(pl.col("measure") == measure))
        for chart in _attention_charts(own, words, shown)
    ]
    return Section("Where attention goes", intro, tuple(charts))


def _profile_panels(shown: Sequence[Shown], measure: str) -> list[Panel]:
    """By size, then by plan, in the order of the log."""
    switch = switch_of(shown)
    found: dict[tuple[int, str], list[tuple[Series, list[dict[str, Any]]]]] = {}
    for one in shown:
        keys = ("treatment", "n", "plan", "position")
        effects = {tuple(row[key] for key in keys): row for row in one.of("coefficients", measure=measure)}
        verdicts = {row["treatment"]: row["verdict"] for row in one.of("verdicts", measure=measure)}
        own = one.frames["means"].filter(pl.col("measure") == measure) if measure in one.measures else None
        parts = {} if own is None else own.partition_by("treatment", "n", "plan", as_dict=True, maintain_order=True)
        for (treatment, n, plan), part in parts.items():
            rows = part.to_dicts()
            name = one.name(treatment)
            points = [
                point(interval(row), _told(name, row, effects.get((treatment, n, plan, row["position"]))))
                for row in rows
            ]
            legend = f"{name} ({verdicts[treatment]})" if treatment in verdicts else name
            series = Series(name, switch.index(name), tuple(points), legend=legend)
            found.setdefault((n, plan), []).append((series, rows))
    panels = []
    # Sorting is stable: plans keep their order.
    for (n, plan), drawn in sorted(found.items(), key=lambda item: item[0][0]):
        rows = drawn[0][1]
        sets, documents = rows[0]["sets"], rows[0]["documents"]
        panels.append(
            Panel(
                plan,
                tuple(str(row["position"]) for row in rows),
                tuple(series for series, _ in drawn),
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
    plans = list(dict.fromkeys(plans))
    if len(plans) <= MOST_PLANS:
        return [("", plans)]
    named: dict[str, list[str]] = {}
    for plan in plans:
        _, _, later = plan.partition(":")
        named.setdefault(f"later-{later}" if later else "monolingual", []).append(plan)
    return [
        (name if start == 0 else f"{name}-{start // MOST_PLANS + 1}", own[start : start + MOST_PLANS])
        for name, own in named.items()
        for start in range(0, len(own), MOST_PLANS)
    ]


def _heat_map(shown: Sequence[Shown], measure: str, n: int, subtitle: str, *, several: bool) -> HeatMap | None:
    """Position × language, with the effect of length taken out where the joint model could be fitted.

    Otherwise position × plan; None where there is one of them only.
    """
    switch = switch_of(shown)
    slopes = [row["estimate"] for one in shown for row in one.of("joint", measure=measure, n=n, effect="log_tokens")]
    adjusted = "" if None in slopes else ", at the mean length of a segment"
    for frame, head, chosen, ending in (
        ("joint", "language", {"effect": "mean"}, f", n = {n}{adjusted}"),
        ("means", "plan", {}, f" plan, n = {n}"),
    ):
        table: dict[str, list[list[float | None]]] = {}
        for one in shown:
            for row in one.of(frame, measure=measure, n=n, **chosen):
                name = f"{row[head]} (mixed)" if row.get("plans") == "mixed" else row[head]
                cells = table.setdefault(name, [[None] * len(switch) for _ in range(n)])
                cells[row["position"] - 1][switch.index(one.name(row["treatment"]))] = finite(row["estimate"])
        rows = [
            (name, tuple(None if set(values) == {None} else HeatCell(tuple(values)) for values in cells))
            for name, cells in table.items()
        ]
        if len(rows) > 1:
            return HeatMap(
                name=f"{measure}-languages" + (f"-n{n}" if several else ""),
                title=f"{measure} by position and language{ending}",
                caption=f"Mean {measure} at each position in each {head}, in documents of {n} segments"
                + (f"{adjusted}." if frame == "joint" else "."),
                corner=head,
                columns=tuple(f"position {position}" for position in range(1, n + 1)),
                rows=tuple(rows),
                subtitle=subtitle,
                entries=switch,
            )
    return None


def _attention_charts(frame: pl.DataFrame, words: AttentionWords, shown: Shown) -> list[Chart]:
    """One chart for each size, of as many plans as fit."""
    sizes = sorted(frame["n"].unique())
    families = frame.select("n", "plan").unique(maintain_order=True).rows()
    charts = []
    for n in sizes:
        plans = [plan for size, plan in families if size == n]
        stem = words.name + (f"-n{n}" if len(sizes) > 1 else "")
        for start in range(0, len(plans), MOST_ATTENTION_PLANS):
            part = plans[start : start + MOST_ATTENTION_PLANS]
            own = frame.filter((pl.col("n") == n) & pl.col("plan").is_in(part))
            crowded = words.relative or families.index((n, part[0])) >= MOST_FAMILIES
            panels = _attention_panels(own, words, shown.treatments, crowded=crowded)
            charts.append(
                Chart(
                    name=stem if start == 0 else f"{stem}-{start // MOST_ATTENTION_PLANS + 1}",
                    title=f"Attention of the pooled row {words.by}" + (f", {n} segments" if len(sizes) > 1 else ""),
                    caption=f"Share of the pooled row's attention {words.by}, in documents of {n} segments, by "
                    "layers, with 95 % intervals.",
                    kind="lines" if words.relative else "bars",
                    x_label=words.x_label,
                    y_label="share of attention",
                    panels=tuple(panels),
                    subtitle=f"{model_name(shown.model)}, {max(own['documents'])} documents"
                    + (" of each plan" if len(part) > 1 else ""),
                    dashes=EQUAL,
                    fixed=domain_of([panel.series for panel in panels], zero=True),
                )
            )
    return charts


def _attention_panels(
    frame: pl.DataFrame, words: AttentionWords, treatments: Sequence[str], *, crowded: bool
) -> list[Panel]:
    """For each group of layers and plan the parts of the text, and then what is around it.

    On the relative axis special tokens would be far above twenty small parts; they are the same as by segment.
    """
    on_page = "last third" if "last third" in set(frame["layers"]) else "all"
    around = [] if words.relative else parts_around(frame)
    panels = []
    for (layers, plan), own in frame.partition_by("layers", "plan", as_dict=True, maintain_order=True).items():
        first = own.row(0, named=True)
        which = f"{layers} of the layers" if layers != "all" else "all layers"
        numbered = own.filter(pl.col("number").is_not_null()).sort("number", maintain_order=True)
        parts = [*numbered["part"].unique(maintain_order=True), *around]
        series: list[Series] = []
        for (name,), rows in own.partition_by("treatment", as_dict=True, maintain_order=True).items():
            found = {row["part"]: row for row in rows.iter_rows(named=True)}
            series += _attention_series(name, treatments.index(name), found, parts)
        panels.append(
            Panel(
                plan,
                tuple(_label(part, words) for part in parts),
                tuple(series),
                detail=f"{first['n']} segments, {max(own['documents']):,} documents",
                heading=f"{which} ({first['first_layer']}–{first['last_layer']})",
                folded=crowded or layers != on_page,
            )
        )
    return panels


def _attention_series(
    name: str, place: int, found: Mapping[str, dict[str, Any]], parts: Sequence[str]
) -> list[Series]:
    """The shares of one treatment; dashed, what would be equal ones."""
    points: list[Point | None] = []
    equal: list[Point | None] = []
    for part in parts:
        share = found.get(part)
        level = None if share is None else finite(share["equal"])
        told = "" if share is None else f"{name}, {part}\n{with_bounds(interval(share))}"
        told += "" if level is None else f"\nan equal share would be {number(level)}"
        points.append(None if share is None else point(interval(share), told))
        equal.append(None if level is None else Point(level))
    drawn = Series(name, place, tuple(points))
    return [drawn] if not any(equal) else [drawn, Series(name, place, tuple(equal), dashed=True)]


def _label(part: str, words: AttentionWords) -> str:
    """The number of a part; on the relative axis where it begins, in percent."""
    if part in AROUND:
        return part
    count = int(part.removeprefix(f"{words.part} "))
    return str(5 * (count - 1)) if words.relative else str(count)
