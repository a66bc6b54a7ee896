"""`Findings`: everything that an evaluation's log says, advice on each treatment, and all of it as tidy frames."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from itertools import product
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import StatisticsError
from fairspan.report.table import Tone
from fairspan.report.text import model_name, number, with_bounds
from fairspan.runs.log import RunLog
from fairspan.runs.windows import cut_words
from fairspan.stats.bootstrap import Interval
from fairspan.stats.queries import FEW_CLUSTERS, QueryChange, clusters_to_decide
from fairspan.studies.evaluate.languages import LanguageFigure, LanguageSummary, summarize_languages
from fairspan.studies.evaluate.summary import (
    Arm,
    LengthGroup,
    Result,
    RetrievalSummary,
    by_length,
    languages_of,
    summarize_search,
)
from fairspan.studies.evaluate.temperature_grid import TemperatureGrid, temperature_grid

Record = dict[str, Any]

BADGES: dict[str, tuple[str, Tone]] = {
    "use": ("use it", "good"),
    "documents only": ("use it on documents only", "good"),
    "leave": ("do not use it", "bad"),
    "more data": ("needs more queries", "open"),
}
"""The words and the colour of each kind of advice, on enough clusters of queries."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do with a treatment, and the numbers that say why.

    Attributes:
        kind: "use", "documents only", "leave" or "more data".
        clusters: of queries, on which it rests.
        more_clusters: about how many more would decide, or make sure where there are few; 0 if these are enough.
    """

    treatment: str
    kind: str
    sentence: str
    clusters: int
    more_clusters: int | None

    @property
    def badge(self) -> tuple[str, Tone]:
        """Its words and their colour; on few clusters, no advice to use something is without that."""
        words, tone = BADGES[self.kind]
        few = tone == "good" and self.clusters < FEW_CLUSTERS
        return (f"{words}, on {self.clusters} clusters only", "open") if few else (words, tone)


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What one evaluation found. The arms of a grid of temperatures are in `grid` and `frames` only.

    `lengths` is empty where lengths are not known, or there is one cluster of queries only. `languages` is None
    unless several were searched across.
    """

    summary: RetrievalSummary
    advice: tuple[Advice, ...]
    lengths: tuple[LengthGroup, ...]
    grid: TemperatureGrid | None
    languages: LanguageSummary | None
    frames: Mapping[str, pl.DataFrame]

    @property
    def log(self) -> RunLog:
        return self.summary.log

    @property
    def task(self) -> str:
        """The task as titles name it."""
        task = self.log.header["task"]
        names = task.get("names") or []
        return str(names[0]) if len(names) == 1 else PurePath(str(task["source"])).name

    @property
    def where(self) -> str:
        return f"{model_name(self.log.model)} on {self.task}"

    def frame(self, name: str, *conditions: pl.Expr) -> pl.DataFrame:
        """The part of a frame that belongs to the arms of the summary, further conditions aside."""
        shown = [arm.treatment for arm in self.summary.arms]
        return self.frames[name].filter(pl.col("treatment").is_in(shown), *conditions)


def findings_of(log: RunLog, *, lengths: bool = False) -> Findings:
    """Read a log. With `lengths`, a search by length that cannot be had is an error."""
    full = summarize_search(log)
    grid = temperature_grid(full)
    shown = full if grid is None else full.without(grid.treatments)
    advice = advice_of(shown)
    if grid is not None:
        advice = (*advice, _on_clusters("temperatures", *grid.verdict(), shown))
    try:
        groups = by_length(log)
    except StatisticsError:
        if lengths:
            raise
        groups = []
    kept = tuple(group for group in groups if group.arm in shown.arms)
    languages = summarize_languages(log, full.arms, full.metrics)
    return Findings(shown, advice, kept, grid, languages, _frames(full, advice, groups, grid, languages))


def advice_of(summary: RetrievalSummary) -> tuple[Advice, ...]:
    """Advice on every treatment of whole documents; none where nothing could be tested."""
    if all(np.isnan(result.p_value) for result in summary.results):
        return ()
    margin = float(summary.log.spec["margin"])
    return tuple(_advise(summary, arm.treatment, margin) for arm in summary.arms[1:] if _is_advised(summary, arm))


def _is_advised(summary: RetrievalSummary, arm: Arm) -> bool:
    """Documents-only forms belong to the advice on the treatment itself, where that was measured."""
    return arm.index == "whole" and (arm.name == arm.treatment or arm.name not in summary.log.treatments)


def _advise(summary: RetrievalSummary, treatment: str, margin: float) -> Advice:
    """Use it if it helps and costs no quality; on documents only if that does while both sides do not."""
    both = Arm(treatment, "whole")
    only = summary.twin_of(both)
    chosen = summary.result(both)
    advice = kind = _judge(chosen, margin)
    if only is not None:
        found = summary.result(only)
        second = _judge(found, margin)
        better = found.effects.overall.estimate > chosen.effects.overall.estimate
        if (second == "use" and (kind != "use" or better)) or (second == "more data" and kind == "leave"):
            chosen, advice = found, "documents only" if second == "use" else second
    before = summary.result(summary.baseline)
    sentence = _sentence(summary.log, before, chosen) + _cuts(summary.log, before.arm.treatment, chosen.arm.treatment)
    return _on_clusters(treatment, advice, sentence, chosen.overall_change, summary)


def _on_clusters(
    treatment: str, kind: str, sentence: str, change: Interval | None, summary: RetrievalSummary
) -> Advice:
    """Advice that says how many clusters it rests on where more are needed."""
    clusters, margin = summary.results[0].effects.counts.clusters, float(summary.log.spec["margin"])
    more = None if change is None else clusters_to_decide(change, clusters, margin)
    if kind != "more data" and clusters >= FEW_CLUSTERS:
        more = 0
    few = f"; only {clusters} clusters of queries" if clusters < FEW_CLUSTERS else ""
    if more:
        sentence += f"{few}: about {more:,} more" if few else f"; about {more:,} more clusters of queries"
        sentence += " would decide" if kind == "more data" else " would make sure"
    else:
        sentence += few
    return Advice(treatment, kind, sentence, clusters, more)


def _cuts(log: RunLog, before: str, after: str) -> str:
    """How many documents each of the two treatments did not read whole, if any."""
    unit = str(log.header.get("token_unit", "tokens"))
    documents = {one["treatment"]: one for one in log.header.get("windows", ()) if one["texts"] == "documents"}
    own = [documents[name] for name in (before, after) if name in documents]
    if not any(one["cut"] for one in own):
        return ""
    said = [cut_words(one, unit) or "no document was cut" for one in own]
    if len(set(said)) == 1:
        return f"; {said[0]} under both"
    return "".join(f"; {one['treatment']}: {words}" for one, words in zip(own, said, strict=True))


def _judge(result: Result, margin: float) -> str:
    """A loss is shown by its interval alone; a gain also has to pass the correction for several treatments."""
    assert result.change is not None
    overall, psi, worst = result.change.overall, result.change.psi, result.change.worst
    gains = overall.low > 0 and result.p_value < 0.05
    # The weakest position has to gain more than is lost over all of them.
    fairer = psi.estimate < 0 and worst.low > max(0.0, -overall.estimate) and result.p_psi < 0.05
    if overall.high < 0 and overall.low < -margin:
        return "leave"
    if gains or fairer:
        return "use" if overall.low >= -margin else "more data"
    return "leave" if overall.high <= margin else "more data"


def _sentence(log: RunLog, before: Result, after: Result) -> str:
    assert after.change is not None
    sides = before.effects, after.effects
    means = " → ".join(number(side.overall.estimate) for side in sides)
    words = f"{after.metric} {means} ({with_bounds(after.change.overall, '+.3f')})"
    if all(np.isfinite(side.psi.estimate) for side in sides):
        weakest = " → ".join(number(min(one.estimate for one in side.groups)) for side in sides)
        psi = " → ".join(number(side.psi.estimate, ".2f") for side in sides)
        words += f", {_weakest(log, before, after)} {weakest}, PSI {psi}"
    return words


def _weakest(log: RunLog, *sides: Result) -> str:
    """What the group is called in which least is found."""
    if not languages_of(log):
        return "weakest position"
    names = dict.fromkeys(min(side.by_group, key=lambda group: group[2].estimate)[0] for side in sides)
    return f"weakest languages ({'; then '.join(names)})"


def _frames(
    summary: RetrievalSummary,
    advice: Sequence[Advice],
    lengths: Sequence[LengthGroup],
    grid: TemperatureGrid | None,
    languages: LanguageSummary | None,
) -> dict[str, pl.DataFrame]:
    """By name, without empty ones except for the verdicts."""
    columns = {**dict.fromkeys(("treatment", "verdict", "sentence"), pl.String), "clusters": pl.Int64}
    verdicts = pl.DataFrame([astuple(one) for one in advice], {**columns, "more_clusters": pl.Int64}, orient="row")
    costs = []
    for arm in summary.arms if summary.log.header.get("costs") else ():
        result = summary.result(arm)
        costs.append({**summary.cost(arm), "metric": result.metric, "estimate": result.effects.overall.estimate})
    across = languages_of(summary.log)
    records: dict[str, list[Record]] = {
        "quality": [_quality(result) for result in summary.results],
        "positions": [] if across else [one for result in summary.results for one in _groups(result, "position")],
        "language_pairs": [one for result in summary.results for one in _pairs(result, across)],
        "languages": [] if languages is None else [_figure(one) for one in languages.figures],
        "tokens_before": [record for result in summary.tokens_before for record in _groups(result, "tokens")],
        "by_length": [_length(group) for group in lengths],
        "costs": costs,
        "temperature_grid": _grid(grid) if grid is not None else [],
        "windows": list(summary.log.header.get("windows", ())),
    }
    found = {name: pl.DataFrame(own, infer_schema_length=None) for name, own in records.items() if own}
    model = pl.lit(summary.log.model).alias("model")
    return {name: frame.select(model, pl.all()) for name, frame in {"verdicts": verdicts, **found}.items()}


def _quality(result: Result) -> Record:
    effects, change = result.effects, result.change
    return {
        **_named(result),
        "queries": effects.counts.queries,
        "clusters": effects.counts.clusters,
        **ends("", effects.overall),
        **ends("psi_", effects.psi),
        **ends("harmonic_", effects.harmonic),
        "p_value": result.p_value,
        "p_value_alone": np.nan if change is None else change.p_value,
        "p_psi": result.p_psi,
        "p_psi_alone": np.nan if change is None else change.p_psi,
        **change_ends(change),
    }


def _groups(result: Result, name: str) -> list[Record]:
    return [
        {**_named(result), name: group, "queries": count, **ends("", mean), **ends("change_", change)}
        for group, count, mean, change in result.by_group
    ]


def _pairs(result: Result, languages: Sequence[str]) -> list[Record]:
    """One for each language of queries and of documents, in this order."""
    pairs = product(languages, repeat=2) if result.groups else ()
    return [
        {
            **_named(result),
            "query_language": query,
            "document_language": document,
            "queries": count,
            **ends("", mean),
            **ends("change_", change),
        }
        for (query, document), (_, count, mean, change) in zip(pairs, result.by_group, strict=False)
    ]


def _figure(one: LanguageFigure) -> Record:
    return {
        **asdict(one.arm),
        "measure": one.measure,
        "query_language": one.query,
        "document_language": one.document,
        **ends("", one.value),
        **ends("change_", one.change),
        "p_value": one.p_value,
    }


def _length(one: LengthGroup) -> Record:
    return {
        **asdict(one.arm),
        "group": one.group,
        "measure": one.measure,
        "count": one.count,
        "tokens_from": one.tokens[0],
        "tokens_to": one.tokens[1],
        **ends("", one.value),
        **ends("change_", one.change),
    }


def _grid(grid: TemperatureGrid) -> list[Record]:
    return [
        {
            "treatment": cell.arm.treatment,
            "metric": grid.metric,
            "query": cell.query,
            "document": cell.document,
            **ends("", cell.value),
            **ends("change_", cell.change),
            "p_value": cell.p_value,
        }
        for cell in grid.cells
    ]


def _named(result: Result) -> Record:
    return {**asdict(result.arm), "metric": result.metric, "plan": result.plan}


def change_ends(change: QueryChange | None) -> dict[str, float]:
    """The columns of a change over all queries, and of what it does to the measures of the position means."""
    found: dict[str, float] = {}
    for prefix in ("", "psi_", "harmonic_", "spread_", "worst_"):
        own = None if change is None else getattr(change, prefix.removesuffix("_") or "overall")
        found |= ends(f"{prefix}change_", own)
    return found


def ends(prefix: str, found: Interval | None) -> dict[str, float]:
    """The columns of an interval; NaN where there is none."""
    names = ("estimate", "low", "high")
    return {f"{prefix}{name}": np.nan if found is None else float(getattr(found, name)) for name in names}
