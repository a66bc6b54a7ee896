"""The pictures of an audit: means by position, languages, and attention."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from fairspan.report.chart import Chart, Panel, Point, Series, domain_of, point
from fairspan.report.frames import interval, values_of
from fairspan.report.text import counted, with_bounds
from fairspan.studies.audit.measures import POSITION_MEASURES

MOST_PLANS = 6
"""Of more plans than these a figure would be too wide, and several are drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The frames of a run that its charts are drawn from, and the treatments of the page."""

    model: str
    frames: Mapping[str, pl.DataFrame]

    @property
    def treatments(self) -> tuple[str, ...]:
        """All that were measured, which a page can switch between."""
        frames = [self.frames[name] for name in ("means", "attention") if name in self.frames]
        return tuple(dict.fromkeys(name for frame in frames for name in frame["treatment"]))

    def series(
        self, rows: pl.DataFrame, column: str, labels: Sequence[Any], form: str = ".3f"
    ) -> Iterator[Series]:
        """One for each treatment, with a point for each label that a column of its rows has."""
        for name in values_of(rows, "treatment"):
            points = {
                row[column]: point(interval(row), f"{name}\n{with_bounds(interval(row), form)}")
                for row in rows.filter(treatment=name).iter_rows(named=True)
            }
            place = self.treatments.index(name)
            yield Series(name, place, tuple(points.get(label) for label in labels))


def position_charts(shown: Shown, measure: str) -> Iterator[Chart]:
    """Means by position, one panel for each size and plan; several charts of many plans."""
    words = POSITION_MEASURES[measure]
    means = shown.frames["means"].filter(measure=measure)
    verdicts = shown.frames["verdicts"].filter(measure=measure)
    kinds = dict(verdicts.select("treatment", "verdict").iter_rows())
    panels = list(_position_panels(shown, means, kinds))
    pages = _pages(panel.title for panel in panels)
    fixed = domain_of([panel.series for panel in panels], zero=True) if len(pages) > 1 else None
    for page, plans in pages.items():
        title = page.replace("-", " ")
        yield Chart(
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


def _position_panels(
    shown: Shown, means: pl.DataFrame, kinds: Mapping[str, str]
) -> Iterator[Panel]:
    """By size, then by plan, in the order of the log."""
    ordered = means.sort("n", maintain_order=True)
    families = ordered.partition_by("n", "plan", as_dict=True, maintain_order=True)
    for (n, plan), family in families.items():
        first = family.filter(treatment=family["treatment"][0])
        positions = first["position"].to_list()
        series = [
            replace(drawn, legend=f"{drawn.name} ({kinds[drawn.name]})")
            for drawn in shown.series(family, "position", positions)
        ]
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


def language_chart(shown: Shown, measure: str) -> Chart:
    """Every two languages that lead each other in mixed documents."""
    done = POSITION_MEASURES[measure].done
    languages = shown.frames["languages"].filter(measure=measure)
    pair = pl.concat_str("language", "against", separator=" − ").alias("pair")
    margin = languages["margin"][0]
    panels = []
    for (n,), rows in _by(languages.with_columns(pair).sort("n", maintain_order=True), "n"):
        pairs = values_of(rows, "pair")
        series = tuple(shown.series(rows, "pair", pairs, "+.3f"))
        panels.append(Panel(f"{n} segments", tuple(pairs), series))
    return Chart(
        name=f"{measure}-languages",
        title=f"Which languages are better {done} in mixed documents",
        kind="bars",
        x_label="languages",
        y_label=f"difference of {measure}",
        panels=tuple(panels),
        subtitle=shown.model,
        dots=True,
        band=(-margin, margin),
    )


def attention_charts(shown: Shown, basket_size: int) -> Iterator[Chart]:
    """The baskets of the text, and then what is around it; one chart for each size."""
    frame = shown.frames["attention"]
    several = frame["n"].n_unique() > 1
    layers = f"layers {frame['first_layer'][0]} to {frame['last_layer'][0]}"
    title = f"Attention of the pooled row by basket of {basket_size} tokens"
    for (n,), of_size in _by(frame.sort("n", maintain_order=True), "n"):
        yield Chart(
            name=f"attention-n{n}" if several else "attention",
            title=f"{title}, {n} segments" if several else title,
            kind="bars",
            x_label="basket",
            y_label="share of attention",
            panels=tuple(_attention_panels(shown, of_size)),
            subtitle=f"{shown.model}, {layers}",
        )


def _attention_panels(shown: Shown, frame: pl.DataFrame) -> Iterator[Panel]:
    """One for each plan, without parts that get no attention."""
    for (plan,), rows in _by(frame, "plan"):
        attended = rows.filter(pl.col("estimate").max().over("part") > 0)
        parts = values_of(attended.sort("number", nulls_last=True, maintain_order=True), "part")
        around = [part for part in parts if not part.startswith("basket ")]
        series = (
            replace(drawn, points=tuple(map(_share, drawn.points)))
            for drawn in shown.series(attended, "part", parts)
        )
        yield Panel(
            plan,
            tuple(part.removeprefix("basket ") for part in parts),
            tuple(series),
            detail=f"{max(rows['documents']):,} documents",
            apart=len(around),
        )


def _share(point: Point | None) -> Point | None:
    """A point whose interval ends at 0 and 1: what lies beyond cannot be a share."""
    if point is None or point.low is None or point.high is None:
        return point
    return replace(point, low=max(0.0, point.low), high=min(1.0, point.high))


def _by(frame: pl.DataFrame, column: str) -> Iterable[tuple[tuple[Any, ...], pl.DataFrame]]:
    """The parts of a frame by the values of a column, in order of appearance."""
    return frame.partition_by(column, as_dict=True, maintain_order=True).items()
