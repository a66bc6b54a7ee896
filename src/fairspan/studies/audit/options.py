"""`AuditOptions`: everything that is asked of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from fairspan.calibration.treatment import AnyTreatment, Treatment, as_treatments
from fairspan.corpus.corpus import Corpus
from fairspan.design.design import Design
from fairspan.design.plan import LanguagePlan, choose_plans
from fairspan.errors import DesignError, require_list, require_whole
from fairspan.runs.options import Analysis, StudyOptions, default_treatments, source

MEASURES = ("representation", "retention", "attention", "fidelity")
INFERENCES = ("auto", "z")


@dataclass(frozen=True, kw_only=True)
class AuditAnalysis(Analysis):
    """How the rows of an audit are analysed.

    Attributes:
        margin: largest difference between positions that counts as negligible.
        inference: how intervals are computed: auto, which allows for few sets and for segments that
            sets share; or z, as in the paper that audits are from.
    """

    margin: float = 0.02
    inference: str = "auto"

    def __post_init__(self) -> None:
        """Raise where an option is not of its kind."""
        _require_among("inference", self.inference, INFERENCES)
        if not isinstance(self.margin, int | float) or not 0 < self.margin < 1:
            raise DesignError(f"margin must be between 0 and 1, got {self.margin!r}.")


@dataclass(frozen=True, kw_only=True)
class AuditOptions(AuditAnalysis, StudyOptions, Design):
    """What to measure, on which documents, under which treatments.

    Attributes:
        corpus: "sample", a folder of text files or with en.jsonl, de.jsonl, …, a JSONL or
            Parquet file, or the name of a dataset.
        languages: languages of documents in one language, such as en and de. By default English if
            the corpus has it, otherwise its first language; none with `mixed`.
        mixed: languages of mixed documents as lead:later, such as de:en (the first segment German,
            all later ones English), or all.
        treatments: treatments to compare, the baseline first: plain, fair, tiles-64, paper,
            retrieval, paper+basket_size=64, chunk-mean, … By default plain and fair, or for an
            endpoint plain and chunk-mean. In Python also calibrations.
        measures: measures to compute: representation, retention, attention, fidelity.
        partial: omit segments that lack a translation, instead of refusing the corpus.
        prompt: text put before every document. By default the model's own.
        attention_documents: number of documents of each size and plan whose attention is read.
        attention_basket_size: number of tokens in each basket whose attention is read.
    """

    verb: ClassVar[str] = "audit"
    analysed: ClassVar[type[Analysis]] = AuditAnalysis
    corpus: str = source("sample")
    languages: Sequence[str] | None = None
    mixed: str | Sequence[str] = ()
    treatments: Sequence[AnyTreatment] | None = None
    measures: Sequence[str] = ("representation",)
    partial: bool = False
    prompt: str | None = None
    attention_documents: int = 20
    attention_basket_size: int = 128

    def __post_init__(self) -> None:
        """Raise where an option is not of its kind."""
        Design.__post_init__(self)
        AuditAnalysis.__post_init__(self)
        self.name_sources()
        if not isinstance(self.corpus, str):
            raise DesignError(f"corpus must be a name or a path, got {self.corpus!r}.")
        mixed = [self.mixed] if isinstance(self.mixed, str) else self.mixed
        lists = {"languages": self.languages or (), "mixed": mixed, "measures": self.measures}
        for name, texts in lists.items():
            require_list(name, texts, "['en']" if name == "languages" else "['de:en']")
            for text in texts:
                if not isinstance(text, str):
                    raise DesignError(
                        f"{name} must be text such as 'en' and 'de:en', got {text!r}."
                    )
        object.__setattr__(self, "mixed", "all" if list(mixed) == ["all"] else tuple(mixed))
        if not self.measures:
            raise DesignError(f"measures must name at least one of {', '.join(MEASURES)}.")
        for measure in self.measures:
            _require_among("measures", measure, MEASURES)
        first, *others = self.all_treatments
        if "fidelity" in self.measures and not others:
            raise DesignError(f"fidelity compares treatments with {first.name}: name one more.")
        for name in ("attention_documents", "attention_basket_size"):
            require_whole(name, getattr(self, name))

    @cached_property
    def all_treatments(self) -> tuple[Treatment, ...]:
        if self.treatments is None:
            return as_treatments(default_treatments(self.model))
        return as_treatments(self.treatments)

    @cached_property
    def planned_corpus(self) -> tuple[tuple[LanguagePlan, ...], Corpus]:
        """The language plans, and the corpus in their languages."""
        return choose_plans(self.corpus, self.languages, self.mixed, partial=self.partial)

    def check(self) -> None:
        _ = self.planned_corpus


def _require_among(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise DesignError(f"{name} must be among {', '.join(choices)}, got {value!r}.")
