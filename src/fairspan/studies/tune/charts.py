"""The picture of a tuning: every candidate by fairness and quality, or by quality alone."""

from fairspan.report.chart import Chart, Panel, Point, Series
from fairspan.report.scatter import Dot, Role, Scatter
from fairspan.report.text import bounds, number, with_bounds
from fairspan.stats.difference import Difference
from fairspan.studies.tune.decision import PLAIN, REFERENCE, Measured
from fairspan.studies.tune.findings import Findings

INTERVALS = "Changes from the plain model on the same queries, with 95 % intervals."
# What the groups are that fairness is between.
GROUPS = {"position": "positions", "language": "languages", "length": "lengths"}


def pareto_chart(found: Findings) -> Scatter:
    """How quality and fairness change with every candidate; those of early rounds are on a part of the data."""
    decision, dots = found.decision, []
    for name, one in decision.measured.items():
        role: Role = "baseline" if name == PLAIN else "reference" if name == REFERENCE else "candidate"
        dots.append(
            Dot(
                name,
                _point(one.psi_change, is_plain=name == PLAIN),
                _point(one.gain, is_plain=name == PLAIN),
                role,
                front=name in decision.front,
                chosen=name == decision.chosen and decision.answer in ("use", "do nothing"),
                told=_told(found, one),
            )
        )
    groups = GROUPS[found.log.spec["fairness"] or "position"]
    return Scatter(
        "candidates",
        "Which treatment finds more, and which is fairer",
        f"Candidates on the part that is tuned on. {INTERVALS}",
        f"change of PSI between {groups} (to the left: fairer)",
        f"change of {found.metric}",
        tuple(dots),
        subtitle=f"{found.model}, {found.header['task']['source']}",
        x_form="+.2f",
        form="+.3f",
    )


def quality_chart(found: Findings) -> Chart:
    """Quality alone, where there are no groups to be fair to."""
    shown = sorted(found.decision.measured.values(), key=lambda one: -one.gain.estimate)
    points = tuple(_point(one.gain, _told(found, one), is_plain=one.name == PLAIN) for one in shown)
    series = Series(f"change of {found.metric}", -1, points)
    return Chart(
        "candidates",
        "Which treatment finds more",
        f"Candidates on the part that is tuned on. {INTERVALS}",
        "rows",
        "treatment",
        f"change of {found.metric}",
        (Panel("all queries", tuple(one.name for one in shown), (series,)),),
        subtitle=f"{found.model}, {found.header['task']['source']}",
        form="+.3f",
    )


def _point(change: Difference, told: str = "", *, is_plain: bool) -> Point:
    ends = change.interval()
    return (
        Point(0.0, told=told) if is_plain else Point(ends.estimate, ends.low, ends.high, told, bounds(ends, "+.3f"))
    )


def _told(found: Findings, one: Measured) -> str:
    lines = [one.name, f"{found.metric} {number(one.quality)}"]
    if one.name != PLAIN:
        lines.append(f"change {with_bounds(one.gain.interval(), '+.3f')}")
    if found.has_groups:
        lines.append(f"PSI {number(one.unfairness, '.2f')}")
    if one.name in found.fates:
        lines.append(f"{found.fates[one.name].kind}: {found.fates[one.name].why}")
    return "\n".join(lines)
