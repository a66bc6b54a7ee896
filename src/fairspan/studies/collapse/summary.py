"""`LengthSummary`: what a study of length says of a model, and which temperature it suggests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.errors import LogError
from fairspan.runs.log import RunLog
from fairspan.studies.collapse.schedules import reference_reach
from fairspan.studies.collapse.spec import temperature_of

SPECTRA = ("hc_dc", "filter_rate", "sigma_a", "sigma_s", "theorem_2", "theorem_3")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval; None where it is not defined."""

    estimate: float | None
    low: float | None
    high: float | None

    @property
    def differs(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, slots=True)
class LengthSummary:
    """The results of one study."""

    log: RunLog

    @property
    def lengths(self) -> list[int]:
        return [int(one["length"]) for one in self.log.header["lengths"]]

    def name(self, length: int) -> str:
        """How a length is told: bins of natural lengths by where they begin and end."""
        return f"{length}–{length + 99}" if self.natural else str(length)

    @property
    def natural(self) -> bool:
        """Whether lengths are bins of whole documents, so that each has others."""
        return not self.log.header["paired"]

    @property
    def baseline(self) -> str:
        return self.log.treatments[0]

    @property
    def treatments(self) -> list[str]:
        """Those that were measured; of an interrupted run not all."""
        found = {entry["treatment"] for entry in self.log.header["geometry"]}
        return [name for name in self.log.treatments if name in found]

    @property
    def measures(self) -> list[str]:
        return list(dict.fromkeys(entry["measure"] for entry in self.log.header["geometry"]))

    def value(
        self, treatment: str, measure: str, length: int | None = None, against: str | None = None
    ) -> Estimate | None:
        """A measure of the texts of one length; against "shortest", "doubling" or a treatment, what it adds."""
        for entry in self.log.header["geometry"]:
            found = (entry["treatment"], entry["measure"], entry["length"], entry["against"])
            if found == (treatment, measure, length, against):
                return Estimate(entry["estimate"], entry["low"], entry["high"])
        return None

    def classified(self, treatment: str, measure: str, length: int, against: str | None = None) -> Estimate | None:
        """The share of labels told ("correct") or the mean "entropy" at a length, or its change from a treatment."""
        for entry in self.log.header.get("classification", []):
            found = (entry["treatment"], entry["measure"], entry["length"], entry["against"])
            if found == (treatment, measure, length, against):
                return Estimate(entry["estimate"], entry["low"], entry["high"])
        return None

    def spectrum(self, measure: str, treatment: str) -> pl.DataFrame:
        """The mean over texts of a quantity, by `length` and `layer`, with how many texts there were."""
        rows = self.log.rows.filter((pl.col("measure") == measure) & (pl.col("treatment") == treatment))
        return (
            rows.with_columns(length=pl.col("part").cast(pl.Int64))
            .group_by("length", "layer")
            .agg(pl.col("value").mean(), pl.len().alias("texts"))
            .sort("length", "layer")
        )

    def exceeded(self, measure: str, bound: str, treatment: str) -> tuple[int, int]:
        """In how many of the texts' layers a quantity is above its bound, and of how many."""
        rows = self.log.rows.filter(pl.col("treatment") == treatment)
        keys = ["document", "part", "layer"]
        both = rows.filter(pl.col("measure") == measure).join(rows.filter(pl.col("measure") == bound), on=keys)
        return int((both["value"] > both["value_right"]).sum()), len(both)

    def repeated(self, treatment: str) -> list[tuple[int, float]]:
        """The cosine of two repeated words, by repetitions (LC Fig. 12)."""
        rows = self.log.rows.filter((pl.col("measure") == "repeated") & (pl.col("treatment") == treatment))
        return [(int(part), float(value)) for part, value in rows.select("part", "value").rows()]

    def verdict(self, treatment: str) -> str:
        """Whether long texts are more alike than short ones, in one line."""
        first, last = self.lengths[0], self.lengths[-1]
        short, long = self.value(treatment, "cosine", first), self.value(treatment, "cosine", last)
        change = self.value(treatment, "cosine", last, "shortest")
        if short is None or long is None or change is None:
            return "one length only: nothing to compare"
        low, high = change.low, change.high
        if low is None or high is None or change.estimate is None:
            return "too few documents to say whether long texts are more alike"
        kind = "more alike" if low > 0 else "less alike" if high < 0 else "about as alike"
        words = (
            f"long texts are {kind}: mean cosine {short.estimate:.3f} at {self.name(first)} tokens, "
            f"{long.estimate:.3f} at {self.name(last)} ({change.estimate:+.3f} [{low:+.3f}, {high:+.3f}])"
        )
        return words.replace("-", "−")

    def suggestion(self) -> list[tuple[int, float | None]]:
        """For every length the highest temperature at which its texts are no more alike than the shortest ones.

        None where no temperature that was tried is enough, or where there are too few documents to tell.
        """
        known = {str(one["name"]): temperature_of(Treatment.from_dict(one)) for one in self.log.spec["treatments"]}
        tried = sorted(((known[name] or 0.0, name) for name in self.treatments if known[name]), reverse=True)
        found: list[tuple[int, float | None]] = []
        for length in self.lengths:
            enough = [value for value, name in tried if self._no_more_alike(name, length)]
            found.append((length, enough[0] if enough else None))
        return found

    def advice(self) -> str:
        """What the geometry suggests, in one line. Whether it helps is for search and classification to say."""
        if len(self.lengths) < 2:
            return "nothing: there is one length only"
        if not any(temperature_of(Treatment.from_dict(one)) for one in self.log.spec["treatments"]):
            return "nothing: no temperature was tried"
        found = self.suggestion()
        if all(value == 1 for _, value in found):
            return "none: long texts are not more alike than short ones"
        parts = []
        for number, (length, value) in enumerate(found):
            if value == 1 or (number and found[number - 1][1] == value):
                continue
            alike = [length]
            for other, same in found[number + 1 :]:
                if same != value:
                    break
                alike.append(other)
            where = f"{length} to {alike[-1]} tokens" if len(alike) > 1 else f"{length} tokens"
            where = f"{length} tokens and more" if alike[-1] == self.lengths[-1] else where
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
        rows = self.spectrum("sigma_s", self.baseline)
        # Natural lengths are bins, of which none is a reference; and theory needs scores that differ.
        if rows.is_empty() or self.natural or self.lengths[0] < 2:
            return None
        last = rows.filter(rows["layer"] == rows["layer"].max())
        if last["value"].min() <= 0:  # type: ignore[operator]
            return None
        # The theorem's L is what attention sees, special tokens included.
        lengths = [length + self.added_tokens for length in last["length"]]
        return reference_reach(lengths, last["value"].to_list(), lengths[0]).note

    def fitted(self) -> str | None:
        """The schedule fitted on half of the classified documents, and what it does to the others, if one was."""
        found = self.log.header.get("fitted")
        if not found:
            return None
        steps = [f"{one['temperature']:g} from {one['length']}" for one in found["steps"] if one["temperature"] != 1]
        if not steps:
            return f"fitted on {found['fitted_documents']} classified documents: no temperature is supported"
        change = found["tested_change"]
        words = (
            f"fitted on {found['fitted_documents']} classified documents: {', '.join(steps)} tokens on; accuracy on "
            f"{found['tested_documents']} others {change['estimate']:+.3f} [{change['low']:+.3f}, "
            f"{change['high']:+.3f}]"
        )
        return words.replace("-", "−")

    def _no_more_alike(self, treatment: str, length: int) -> bool:
        """Whether texts of a length, so treated, are no more alike than the plain model's shortest ones."""
        if length == self.lengths[0]:
            return True
        against = self.value(treatment, "cosine", length, "short_baseline")
        return against is not None and against.low is not None and against.low <= 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": self.log.run,
            "folder": str(self.log.folder),
            "model": self.log.model,
            "status": self.log.status,
            "notes": self.log.notes,
            "lengths": list(self.log.header["lengths"]),
            "verdicts": [{"treatment": name, "sentence": self.verdict(name)} for name in self.treatments],
            "advice": self.advice(),
            "theory": self.theory(),
            "fitted": self.log.header.get("fitted"),
            "schedule": self.schedule(),
            "suggestion": [{"length": length, "temperature": value} for length, value in self.suggestion()],
            "geometry": list(self.log.header["geometry"]),
            "classification": list(self.log.header.get("classification", [])),
            "spectra": [
                {"treatment": name, "measure": measure, **row}
                for name in self.treatments
                for measure in SPECTRA
                for row in self.spectrum(measure, name).to_dicts()
            ],
            "bounds": [
                {"treatment": name, "quantity": quantity, "bound": bound, "above": above, "of": total}
                for name in self.treatments
                for quantity, bound in (("filter_rate", "theorem_2"), ("sigma_a", "theorem_3"))
                for above, total in [self.exceeded(quantity, bound, name)]
                if total
            ],
            "repeated": [
                {"treatment": name, "times": times, "cosine": cosine}
                for name in self.treatments
                for times, cosine in self.repeated(name)
            ],
        }


def summarize_length(log: RunLog) -> LengthSummary:
    """The results of a study's log."""
    if log.header.get("verb") != "collapse":
        raise LogError(f"the run {log.run} belongs to {log.header.get('verb')}, not to a study of length.")
    if not log.header["geometry"]:
        raise LogError(f"the run {log.run} is {log.status} and has no results yet: run its command again.")
    return LengthSummary(log)
