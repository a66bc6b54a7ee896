"""The picture of a tuning: every candidate by fairness and quality, or by quality alone."""

from fairspan.report.chart import Chart, Panel, Point, Series
from fairspan.report.scatter import Dot, Scatter
from fairspan.report.text import number, with_bounds
from fairspan.stats.difference import Difference
from fairspan.studies.tune.decision import PLAIN, REFERENCE, Measured
from fairspan.studies.tune.findings import Findings

INTERVALS = "Whiskers are 95 % intervals of the change from the plain model, on the same queries."
# What the groups are that fairness is between.
GROUPS = {"position": "positions", "language": "languages", "length": "lengths"}


def pareto_chart(found: Findings) -> Scatter:
    """Quality and unfairness of every candidate that was measured to the end."""
    decision, dots = found.decision, []
    plain = decision.measured[PLAIN]
    for name, one in decision.measured.items():
        if one.rounds_left:
            continue
        role = "baseline" if one is plain else "reference" if name == REFERENCE else "candidate"
        dots.append(
            Dot(
                name,
                _point(one.unfairness, plain.unfairness, one.psi_change, one is plain),
                _point(one.quality, plain.quality, one.gain, one is plain),
                role,  # type: ignore[arg-type]
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
        f"PSI between {groups} (lower is fairer)",
        found.metric,
        tuple(dots),
        subtitle=f"{found.model}, {found.header['task']['source']}",
        x_form=".2f",
    )


def quality_chart(found: Findings) -> Chart:
    """Quality alone, where there are no groups to be fair to."""
    decision = found.decision
    plain = decision.measured[PLAIN]
    shown = sorted(decision.measured.values(), key=lambda one: -one.quality)
    points = tuple(_point(one.quality, plain.quality, one.gain, one is plain, _told(found, one)) for one in shown)
    panel = Panel("all queries", tuple(one.name for one in shown), (Series(found.metric, -1, points),))
    return Chart(
        "candidates",
        "Which treatment finds more",
        f"Candidates on the part that is tuned on. {INTERVALS}",
        "rows",
        found.metric,
        "treatment",
        (panel,),
        subtitle=f"{found.model}, {found.header['task']['source']}",
    )


def _point(value: float, plain: float, change: Difference, is_plain: bool, told: str = "") -> Point:
    """A number with the interval of its change from the plain model's; none for the plain model itself."""
    if is_plain:
        return Point(value, told=told)
    ends = change.interval()
    return Point(value, plain + ends.low, plain + ends.high, told)


def _told(found: Findings, one: Measured) -> str:
    lines = [one.name, f"{found.metric} {number(one.quality)}"]
    if one.name != PLAIN:
        lines.append(f"change {with_bounds(one.gain.interval(), '+.3f')}")
    if found.has_groups:
        lines.append(f"PSI {number(one.unfairness, '.2f')}")
    if one.name in found.fates:
        lines.append(f"{found.fates[one.name].kind}: {found.fates[one.name].why}")
    return "\n".join(lines)
