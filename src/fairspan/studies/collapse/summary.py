"""`LengthSummary`: what a study of length says of a model, and which temperature it suggests."""

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import nan
from typing import Any

import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.errors import LogError
from fairspan.report.text import UNKNOWN, bounds, number, with_bounds
from fairspan.runs.log import RunLog
from fairspan.stats.bootstrap import Interval
from fairspan.studies.collapse.schedules import reference_reach
from fairspan.studies.collapse.spec import WORDS, temperature_of

SPECTRA = ("hc_dc", "filter_rate", "sigma_a", "sigma_s", "theorem_2", "theorem_3")
BOUNDS = {"filter_rate": "theorem_2", "sigma_a": "theorem_3"}
_KEYS: dict[str, Any] = {"treatment": pl.String, "measure": pl.String, "length": pl.Int64, "against": pl.String}
_ENTRY: dict[str, Any] = {**_KEYS, **dict.fromkeys(("estimate", "low", "high"), pl.Float64)}
_SUGGESTION: dict[str, Any] = {"length": pl.Int64, "temperature": pl.Float64}
_STEP: dict[str, Any] = {"source": pl.String, "tokens": pl.Int64, "temperature": pl.Float64}


@dataclass(frozen=True)
class LengthSummary:
    """The results of one study."""

    log: RunLog

    @property
    def lengths(self) -> list[int]:
        return [int(one["length"]) for one in self.log.header["lengths"]]

    def name(self, length: int) -> str:
        """A length as text; for bins of natural lengths, where they begin and end."""
        return f"{length}–{length + 99}" if self.natural else str(length)

    @property
    def natural(self) -> bool:
        """Whether lengths are bins of whole documents, so that each has others."""
        return not self.log.header["paired"]

    @property
    def baseline(self) -> str:
        return self.log.treatments[0]

    @cached_property
    def treatments(self) -> list[str]:
        """Those that were measured; of an interrupted run not all."""
        found = set(self.geometry["treatment"])
        return [name for name in self.log.treatments if name in found]

    @property
    def controlled(self) -> list[str]:
        """The treatments, and the control of raw word embeddings if it was measured."""
        return [*self.treatments, *([WORDS] if WORDS in self.geometry["treatment"] else [])]

    @cached_property
    def measures(self) -> list[str]:
        """Those of geometry."""
        return self.geometry["measure"].unique(maintain_order=True).to_list()

    @cached_property
    def geometry(self) -> pl.DataFrame:
        """Every measure of the vectors by treatment and length, and what it is compared with (`against`)."""
        return pl.DataFrame(self.log.header["geometry"], schema=_ENTRY)

    @cached_property
    def classification(self) -> pl.DataFrame:
        """The share of correct labels ("correct") and the "entropy" of a classifier, in the form of `geometry`."""
        return pl.DataFrame(self.log.header.get("classification", []), schema=_ENTRY)

    def value(
        self, treatment: str, measure: str, length: int | None = None, against: str | None = None
    ) -> Interval | None:
        """A measure of the texts of one length; with `against`, its difference from that.

        Args:
            measure: of `geometry` or `classification`.
            against: "shortest", "short_baseline", "doubling" or a treatment.
        """
        return self._values.get((treatment, measure, length, against))

    @cached_property
    def _values(self) -> dict[tuple[Any, ...], Interval]:
        rows = pl.concat([self.geometry, self.classification]).rows()
        return {row[:4]: _interval(*row[4:]) for row in rows}

    @cached_property
    def spectra(self) -> pl.DataFrame:
        """Means over texts of what was measured inside the model, by treatment, measure, length and layer."""
        found = (
            self.log.rows.filter(pl.col("measure").is_in(SPECTRA))
            .group_by("treatment", "measure", pl.col("part").cast(pl.Int64).alias("length"), "layer")
            .agg(estimate=pl.col("value").mean(), texts=pl.len())
        )
        order = {"treatment": self.log.treatments, "measure": SPECTRA}
        return found.sort(*(pl.col(name).cast(pl.Enum(kinds)) for name, kinds in order.items()), "length", "layer")

    @cached_property
    def last_layers(self) -> pl.DataFrame:
        """Of `spectra`, the last layer in which each quantity was measured."""
        return self.spectra.filter(pl.col("layer") == pl.col("layer").max().over("treatment", "measure"))

    @cached_property
    def bounds(self) -> pl.DataFrame:
        """In how many layers of texts a quantity is `above` the bound of its theorem, and `of` how many."""
        keys = ["treatment", "document", "part", "layer"]
        found = []
        for quantity, bound in BOUNDS.items():
            own, limit = (self.log.rows.filter(measure=one).select(*keys, "value") for one in (quantity, bound))
            found.append(
                own.join(limit, on=keys, maintain_order="left")
                .group_by("treatment", maintain_order=True)
                .agg(above=(pl.col("value") > pl.col("value_right")).sum(), of=pl.len())
                .select("treatment", pl.lit(quantity).alias("quantity"), pl.lit(bound).alias("bound"), "above", "of")
            )
        return pl.concat(found)

    @cached_property
    def repeated(self) -> pl.DataFrame:
        """The cosine of two repeated words, by repetitions (LC Fig. 12)."""
        rows = self.log.rows.filter(measure="repeated")
        return rows.select("treatment", pl.col("part").cast(pl.Int64).alias("times"), pl.col("value").alias("cosine"))

    @cached_property
    def verdicts(self) -> pl.DataFrame:
        """Whether long texts are more similar than short ones under each treatment: one word, and a sentence."""
        rows = [(name, *self._verdict(name)) for name in self.treatments]
        return pl.DataFrame(rows, schema=["treatment", "verdict", "sentence"], orient="row")

    def verdict(self, treatment: str) -> str:
        """The sentence on one treatment."""
        return self._verdict(treatment)[1]

    def _verdict(self, treatment: str) -> tuple[str, str]:
        first, last = self.lengths[0], self.lengths[-1]
        short, long = self.value(treatment, "cosine", first), self.value(treatment, "cosine", last)
        change = self.value(treatment, "cosine", last, "shortest")
        if short is None or long is None or change is None:
            return "unknown", "one length only: nothing to compare"
        if bounds(change) == UNKNOWN:
            return "unknown", "too few documents to say whether long texts are more similar"
        word, kind = "stable", "about as similar"
        if change.low > 0 or change.high < 0:
            word, kind = ("collapses", "more similar") if change.low > 0 else ("spreads", "less similar")
        return word, (
            f"long texts are {kind}: mean cosine {number(short.estimate)} at {self.name(first)} tokens, "
            f"{number(long.estimate)} at {self.name(last)} ({with_bounds(change, '+.3f')})"
        )

    def suggestion(self) -> list[tuple[int, float | None]]:
        """For every length the highest temperature at which its texts are no more similar than the shortest ones.

        None where no temperature that was tried is enough, or where there are too few documents to tell.
        """
        tried = sorted(
            ((value, name) for name, value in self._tried.items() if name in self.treatments), reverse=True
        )
        return [
            (length, next((value for value, name in tried if self._no_more_similar(name, length)), None))
            for length in self.lengths
        ]

    @cached_property
    def _tried(self) -> dict[str, float]:
        """The treatments that only set a temperature, and that temperature."""
        asked = [Treatment.from_dict(one) for one in self.log.spec["treatments"]]
        return {one.name: value for one in asked if (value := temperature_of(one)) is not None}

    def advice(self) -> str:
        """What the geometry suggests, in one line. Whether it helps is for search and classification to say."""
        if len(self.lengths) < 2:
            return "nothing: there is one length only"
        if not self._tried:
            return "nothing: no temperature was tried"
        found = self.suggestion()
        if all(value == 1 for _, value in found):
            return "none: long texts are not more similar than short ones"
        parts = []
        for value, group in groupby(found, key=lambda one: one[1]):
            if value == 1:
                continue
            same = [length for length, _ in group]
            where = f"{same[0]} to {same[-1]} tokens" if len(same) > 1 else f"{same[0]} tokens"
            where = f"{same[0]} tokens and more" if same[-1] == self.lengths[-1] else where
            said = "nothing that was tried is enough" if value is None else f"{value:g}"
            parts.append(f"{said} for texts of {where}")
        return "; ".join(parts)

    def schedule(self) -> list[list[float]]:
        """The suggestion as the steps of a `LengthSchedule`, which counts special tokens where lengths do not.

        Where nothing that was tried is enough, the step before goes on. Empty if no text needs a temperature.
        """
        steps: list[list[float]] = []
        for length, value in self.suggestion():
            if value is not None and value != (steps[-1][1] if steps else 1.0):
                steps.append([length + self.added_tokens, value])
        return steps

    @property
    def added_tokens(self) -> int:
        """The prompt's and special tokens of every text."""
        return int(self.log.header.get("added_tokens", 0))

    def theory(self) -> str | None:
        """How far a temperature keeps the σ_a that Theorem 3 predicts of the shortest texts; None if unmeasured."""
        last = self.last_layers.filter(measure="sigma_s", treatment=self.baseline)
        found = dict(last.select("length", "estimate").rows())
        # Natural lengths are bins, of which none is a reference; and theory needs scores that differ.
        if not found or self.natural or self.lengths[0] < 2 or min(found.values()) <= 0:
            return None
        # The theorem's L is what attention sees, special tokens included.
        lengths = [length + self.added_tokens for length in found]
        return reference_reach(lengths, list(found.values()), lengths[0]).note

    def fitted(self) -> str | None:
        """The schedule fitted on half of the classified documents, and what it does to the others, if one was."""
        found = self.log.header.get("fitted")
        if not found:
            return None
        steps = [f"{one['temperature']:g} from {one['length']}" for one in found["steps"] if one["temperature"] != 1]
        if not steps:
            return f"fitted on {found['fitted_documents']} classified documents: no temperature is supported"
        change = with_bounds(_interval(**found["tested_change"]), "+.3f")
        return (
            f"fitted on {found['fitted_documents']} classified documents: {', '.join(steps)} tokens on; accuracy on "
            f"{found['tested_documents']} others {change}"
        )

    @cached_property
    def remarks(self) -> pl.DataFrame:
        """What temperature is suggested and why, one sentence for each `source`: geometry, labels, theory."""
        said = [("geometry", f"suggested by geometry alone: {self.advice()}")]
        if self.schedule():
            steps = ",".join(f"[{int(tokens)},{value:g}]" for tokens, value in self.schedule())
            said.append(("geometry", f"as a schedule, special tokens counted: temperature=[{steps}]"))
        said += [(source, one) for source, one in (("labels", self.fitted()), ("theory", self.theory())) if one]
        return pl.DataFrame(said, schema=["source", "sentence"], orient="row")

    def _no_more_similar(self, treatment: str, length: int) -> bool:
        """Whether texts of a length are no more similar than the plain model's shortest ones."""
        if length == self.lengths[0]:
            return True
        against = self.value(treatment, "cosine", length, "short_baseline")
        return against is not None and against.low <= 0

    def frames(self) -> dict[str, pl.DataFrame]:
        """All statistics by name.

        `schedule` has the suggested steps (`source` "geometry") and those fitted on labels ("labels"), in tokens with
        the special ones.
        """
        fit = self.log.header.get("fitted") or {}
        steps = [("geometry", *step) for step in self.schedule()]
        steps += [("labels", *step) for step in fit.get("schedule", [])]
        found = {
            "verdicts": self.verdicts,
            "lengths": pl.DataFrame(list(self.log.header["lengths"])),
            "geometry": self.geometry,
            "classification": self.classification,
            "spectra": self.spectra,
            "bounds": self.bounds,
            "repeated": self.repeated,
            "advice": self.remarks,
            "suggestion": pl.DataFrame(self.suggestion(), schema=_SUGGESTION, orient="row"),
            "schedule": pl.DataFrame(steps, schema=_STEP, orient="row"),
        }
        if fit:
            change = {f"change_{name}": value for name, value in fit["tested_change"].items()}
            counts = {name: fit[name] for name in ("fitted_documents", "tested_documents")}
            found["fitted"] = pl.DataFrame([{**counts, **change}])
        return found


def summarize_length(log: RunLog) -> LengthSummary:
    """The results of a study's log."""
    if log.header.get("verb") != "collapse":
        raise LogError(f"the run {log.run} belongs to {log.header.get('verb')}, not to a study of length.")
    if not log.header["geometry"]:
        raise LogError(f"the run {log.run} is {log.status} and has no results yet: run its command again.")
    return LengthSummary(log)


def _interval(estimate: float | None, low: float | None, high: float | None) -> Interval:
    """From JSON, where an unknown number is null."""
    known = [nan if one is None else one for one in (estimate, low, high)]
    return Interval(known[0], known[1], known[2])
