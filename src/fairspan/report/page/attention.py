"""Attention on a page: the share of each part of the text in the row that becomes the vector."""

from __future__ import annotations

from collections.abc import Sequence

from fairspan.report.page.charts import Chart, Point, Series, domain_of, point
from fairspan.report.page.sections import Group, Section
from fairspan.report.tables.text import interval, number
from fairspan.studies.audit.attention import MEASURES, AttentionProfile, AttentionSummary

HEADINGS = {"attention_segment": "By segment", "attention_basket": "By basket of 128 tokens"}
LABELS = {"first": "first", "last": "last", "special": "special", "other": "other"}
# Of more families than this a page shows those in one language, which come first.
MOST_FAMILIES = 12


def attention_section(summary: AttentionSummary, switch: Sequence[str]) -> Section:
    """Where attention goes in the last layers."""
    layers = "last third" if "last third" in summary.groups else "all"
    groups = [
        Group(heading, _charts(summary, measure, layers, switch), large=len(summary.families) < 3)
        for measure, heading in HEADINGS.items()
        if measure in summary.measures
    ]
    where = "the last third of the layers" if layers == "last third" else "all layers"
    intro = (
        f"The mean share of attention that each part of the text holds in the pooled row, in {where}, with 95 % "
        "intervals. Special tokens (the first and the last) stand apart at the end. What attention favours, the "
        "vector reflects."
    )
    return Section("Where attention goes", intro, tuple(groups))


def _charts(summary: AttentionSummary, measure: str, layers: str, switch: Sequence[str]) -> tuple[Chart, ...]:
    made = []
    for n, plan in summary.families[:MOST_FAMILIES]:
        profiles = summary.of(measure, n, plan, layers)
        if not profiles:
            continue
        parts = list(dict.fromkeys(share.part for own in profiles for share in (*own.content, *own.around)))
        parts.sort(key=lambda part: part in LABELS)
        made.append((n, plan, profiles, parts, [_series(own, parts, switch) for own in profiles]))
    domain = domain_of([series for *_, series in made], zero=True)
    kind = MEASURES[measure]
    return tuple(
        Chart(
            "bars",
            plan,
            f"n = {n}, {profiles[0].documents:,} documents",
            kind,
            "share of attention",
            tuple(LABELS.get(part, part.removeprefix(f"{kind} ")) for part in parts),
            tuple(series),
            domain,
        )
        for n, plan, profiles, parts, series in made
    )


def _series(profile: AttentionProfile, parts: list[str], switch: Sequence[str]) -> Series:
    found = {share.part: share for share in profile.shares}
    points: list[Point | None] = []
    for part in parts:
        share = found.get(part)
        if share is None:
            points.append(None)
            continue
        told = f"{profile.treatment}, {LABELS.get(part, part)}\n{interval(share)}"
        equal = number(share.equal)
        told += f"\nan equal share would be {equal}" if share.number is not None else ""
        points.append(point(share, told, digits=2))
    return Series(profile.treatment, switch.index(profile.treatment), tuple(points))
