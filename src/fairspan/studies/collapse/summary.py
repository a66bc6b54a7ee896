"""`LengthSummary`: what the rows of a study of length say of a model."""

from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any

import numpy as np
import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.errors import LogError, StatisticsError
from fairspan.report.text import number, with_bounds
from fairspan.runs.log import RunLog
from fairspan.stats.bootstrap import Interval
from fairspan.stats.contrasts import Contrast
from fairspan.stats.equivalence import round_up
from fairspan.stats.growth import documents_needed, growth
from fairspan.studies.collapse import results
from fairspan.studies.collapse.spec import DEFAULT_MARGIN, WORDS, temperature_of

SPECTRA = ("hc_dc", "filter_rate", "sigma_a", "sigma_s", "theorem_2", "theorem_3")
BOUNDS = {"filter_rate": "theorem_2", "sigma_a": "theorem_3"}
# Below these documents, intervals of skewed distributions are too narrow (tests/test_geometry.py).
FEW = 30
# With fewer documents than a quarter of the dimensions, an effective rank is nearly the number of documents.
RANK_SHARE = 4
WORDS_OF = {"more": "more alike", "not more": "not more alike", "less": "less alike", "open": "inconclusive"}
_KEYS: dict[str, Any] = {"treatment": pl.String, "measure": pl.String, "length": pl.Int64, "against": pl.String}
_ENTRY: dict[str, Any] = {**_KEYS, **dict.fromkeys(("estimate", "low", "high"), pl.Float64)}


@dataclass(frozen=True)
class LengthSummary:
    """The results of one study.

    Attributes:
        margin: of mean cosine per doubling of length; what is shown to be less counts as not more alike.
        level: of all intervals and tests.
    """

    log: RunLog
    margin: float
    level: float

    @property
    def percent(self) -> str:
        """The level in words."""
        return f"{100 * self.level:g} %"

    @property
    def lengths(self) -> list[int]:
        return [int(one["length"]) for one in self.log.header["lengths"]]

    @cached_property
    def tokens(self) -> dict[int, float]:
        """The geometric mean of the tokens that the texts of each length have."""
        own = self.log.rows.filter(measure="cosine", treatment=self.baseline)
        parts, tokens = own["part"].cast(pl.Int64).to_numpy(), own["tokens"].to_numpy()
        if missing := [n for n in self.lengths if n not in parts]:
            raise LookupError(f"there are no texts of length {missing[0]}")
        return {n: float(2 ** np.log2(np.maximum(tokens[parts == n], 1)).mean()) for n in self.lengths}

    def name(self, length: int) -> str:
        """A length as text; for bins of natural lengths, where they begin and end."""
        return f"{length}–{length + 99}" if self.natural else str(length)

    @property
    def natural(self) -> bool:
        """Whether lengths are bins of whole documents, so that each has others."""
        return not self.log.header["paired"]

    @property
    def documents(self) -> int:
        """At each length; the fewest if they differ."""
        return min(int(one["texts"]) for one in self.log.header["lengths"])

    @property
    def baseline(self) -> str:
        return self.log.treatments[0]

    @property
    def treatments(self) -> list[str]:
        """Those that were measured; of an interrupted run not all."""
        return self.log.measured

    @property
    def controlled(self) -> list[str]:
        """The treatments, and the control of raw word embeddings if it was measured."""
        return [*self.treatments, *([WORDS] if WORDS in self.log.rows["treatment"] else [])]

    @cached_property
    def measures(self) -> list[str]:
        """Those of geometry that are shown: an effective rank needs documents."""
        found = dict.fromkeys(measure for _, measure, _, _ in self._geometry)
        return [one for one in found if one != "rank" or self.documents * RANK_SHARE >= self.dimensions]

    @property
    def dimensions(self) -> int:
        """Of the vectors; 0 in logs that do not tell."""
        return int(self.log.header.get("dimensions", 0))

    @cached_property
    def geometry(self) -> pl.DataFrame:
        """Every measure of the vectors by treatment and length, and what it is compared with (`against`)."""
        return _frame({key: one for key, one in self._geometry.items() if key[1] in self.measures})

    @cached_property
    def _geometry(self) -> dict[results.Key, Contrast | Interval]:
        found: dict[results.Key, Contrast | Interval] = {
            **results.geometry(self.log.rows, self.controlled, self.tokens, paired=not self.natural, level=self.level)
        }
        # Earlier versions kept the rows of cosines and of all other measures only the statistics.
        measured = {measure for _, measure, _, _ in found}
        for one in self.log.header.get("geometry", ()):
            if one["measure"] not in measured:
                low, value, high = (nan if one[end] is None else one[end] for end in ("low", "estimate", "high"))
                found[one["treatment"], one["measure"], one["length"], one["against"]] = Interval(value, low, high)
        return found

    @cached_property
    def classification(self) -> pl.DataFrame:
        """The share of correct labels ("correct") and the "entropy" of a classifier, in the form of `geometry`."""
        return _frame(self._classified[0])

    @cached_property
    def fitted(self) -> results.Fitted | None:
        """The schedule fitted on half of the classified documents, if there are labels and temperatures."""
        return self._classified[1]

    @cached_property
    def _classified(self) -> tuple[dict[results.Key, Interval], results.Fitted | None, str]:
        """The statistics of a classifier, a schedule fitted on it, and why there are none."""
        rows, seed, added = self.log.rows, int(self.log.header["seed"]), self.added_tokens
        try:
            found = results.classification(rows, self.treatments, seed=seed, level=self.level)
            fit = results.fitted(rows, self.asked, self.lengths, added=added, seed=seed, level=self.level)
        except StatisticsError as error:
            return {}, None, str(error)
        return found, fit, ""

    @property
    def asked(self) -> list[Treatment]:
        return [Treatment.from_dict(one) for one in self.log.spec["treatments"]]

    @cached_property
    def tried(self) -> dict[str, float]:
        """The measured treatments that only set a temperature, and that temperature."""
        asked = [one for one in self.asked if one.name in self.treatments]
        return {one.name: value for one in asked if (value := temperature_of(one)) is not None}

    @property
    def notes(self) -> list[str]:
        """What a reader should know: the run's own notes, and what the documents do not allow."""
        found = list(self.log.notes)
        if self.documents < FEW:
            found.append(f"{self.documents} documents: with fewer than {FEW}, intervals may be too narrow")
        if "rank" not in self.measures and any(measure == "rank" for _, measure, _, _ in self._geometry):
            needed = -(-self.dimensions // RANK_SHARE)
            found.append(
                f"the effective rank is not shown: with {self.documents} documents in {self.dimensions} dimensions "
                f"it tells little but the number of documents, and needs at least {needed}"
            )
        if self._classified[2]:
            found.append(f"labelled texts have no statistics: {self._classified[2]}")
        return found

    def value(
        self, treatment: str, measure: str, length: int | None = None, against: str | None = None
    ) -> Contrast | Interval | None:
        """A measure of the texts of one length; with `against`, its difference from that.

        Args:
            measure: of `geometry` or `classification`.
            against: "shortest", "short_baseline", "doubling" or a treatment.
        """
        key = (treatment, measure, length, against)
        return self._geometry.get(key) or self._classified[0].get(key)

    def cosine(self, treatment: str, length: int | None = None, against: str | None = None) -> Contrast:
        """The same of the mean cosine, which every log has rows of."""
        found = self._geometry[treatment, "cosine", length, against]
        assert isinstance(found, Contrast)
        return found

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
        """Whether texts are more alike the longer they are, under each treatment: one word, and a sentence."""
        rows = [(name, *self._verdict(name)) for name in self.treatments]
        return pl.DataFrame(rows, schema=["treatment", "verdict", "sentence"], orient="row")

    def verdict(self, treatment: str) -> str:
        """The sentence on one treatment."""
        return self._verdict(treatment)[1]

    def _verdict(self, treatment: str) -> tuple[str, str]:
        first, last = self.lengths[0], self.lengths[-1]
        if first == last:
            return "unknown", "one length only: nothing to compare"
        slope = self.cosine(treatment, None, "doubling")
        kind = growth(slope, self.margin, self.level)
        short, long = (number(self.cosine(treatment, length).estimate) for length in (first, last))
        seen = f"mean cosine {with_bounds(slope, '+.4f')} per doubling of length"
        seen += f" ({short} at {self.name(first)} tokens, {long} at {self.name(last)})"
        if kind == "not more":
            seen += f"; less than the margin of {self.margin:g}"
        return WORDS_OF[kind], f"{self._outlook(slope)}; {seen}" if kind == "open" else seen

    def _outlook(self, slope: Contrast) -> str:
        """How many more documents would decide."""
        seen = sum(int(one["texts"]) for one in self.log.header["lengths"]) if self.natural else self.documents
        needed = documents_needed(slope, self.margin, seen, self.level)
        if needed is None:
            return f"too close to the margin of {self.margin:g} for any realistic number of documents to decide"
        return f"about {round_up(needed)} more document{'' if needed == 1 else 's'} would decide"

    @property
    def added_tokens(self) -> int:
        """The prompt's and special tokens of every text."""
        return int(self.log.header.get("added_tokens", 0))


def summarize_length(log: RunLog, *, margin: float | None = None, level: float = 0.95) -> LengthSummary:
    """The results of a study's log, by the margin of its spec or by that given."""
    if log.header.get("verb") != "collapse":
        raise LogError(f"the run {log.run} belongs to {log.header.get('verb')}, not to a study of length.")
    return LengthSummary(log, float(log.spec.get("margin", DEFAULT_MARGIN)) if margin is None else margin, level)


def _frame(found: dict[Any, Any]) -> pl.DataFrame:
    rows = [(*key, one.estimate, one.low, one.high) for key, one in found.items()]
    return pl.DataFrame(rows, schema=_ENTRY, orient="row")
