"""`AuditSpec`: everything that was asked of an audit, as one frozen value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Any

from fairspan.calibration.treatment import DEFAULT_TREATMENTS, Treatment, as_treatment
from fairspan.design.design import Design
from fairspan.errors import DesignError

MEASURES = ("representation", "retention", "attention")
INFERENCES = ("auto", "cr1", "z", "cr2", "cr3", "wild", "two-way")
EXAMPLES = {"languages": "en", "treatments": "none", "measures": "representation"}


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """What to measure, on which documents, under which treatments.

    Attributes:
        corpus: "sample", a folder, a file or the name of a dataset.
        languages: the monolingual plans; None for English where the corpus has it, else for its first language.
        mixed: plans such as "de:en" (the first segment German, all later ones English), or "all".
        design: sets, orders, lengths and the seed.
        treatments: what is compared, "none" being the model as it comes.
        measures: "representation", "retention", "attention".
        prompt: what is put before every text; None for the model's own document prompt.
        partial: whether segments that lack a translation are left out instead of refused.
        margin: how far from position 1 a fair position may be.
        inference: how intervals are made; "auto" chooses by the number of sets.
        attention_documents: documents of each size and plan whose attention is read.
        fit_corpus: what a whitening is fitted on; None for what `corpus` has in no document.
    """

    corpus: str = "sample"
    languages: tuple[str, ...] | None = None
    mixed: str | tuple[str, ...] = ()
    design: Design = field(default_factory=Design)
    treatments: tuple[Treatment, ...] = tuple(as_treatment(name) for name in DEFAULT_TREATMENTS)
    measures: tuple[str, ...] = ("representation",)
    prompt: str | None = None
    partial: bool = False
    margin: float = 0.02
    inference: str = "auto"
    attention_documents: int = 20
    fit_corpus: str | None = None

    def __post_init__(self) -> None:
        _require_kind("corpus", self.corpus, str, "a name or a path")
        _require_kind("fit_corpus", self.fit_corpus, str | None, "a name or a path")
        _require_kind("prompt", self.prompt, str | None, "text")
        _require_kind("partial", self.partial, bool, "true or false")
        languages = (*(self.languages or ()), *([self.mixed] if isinstance(self.mixed, str) else self.mixed))
        for language in languages:
            _require_kind("languages and mixed plans", language, str, "text such as 'en' and 'de:en'")
        if isinstance(self.attention_documents, bool) or not isinstance(self.attention_documents, int):
            raise DesignError(f"attention_documents must be a whole number, got {self.attention_documents!r}.")
        if self.attention_documents < 1:
            raise DesignError(f"attention_documents must be at least 1, got {self.attention_documents!r}.")
        _require_choices("measures", self.measures, MEASURES)
        _require_choices("inference", [self.inference], INFERENCES)
        if not self.treatments:
            raise DesignError("an audit needs at least one treatment, for example none.")
        names = [treatment.name for treatment in self.treatments]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise DesignError(f"the treatment {twice[0]!r} is named twice.")
        if isinstance(self.margin, bool) or not isinstance(self.margin, int | float) or not 0 < self.margin < 1:
            raise DesignError(f"margin must be between 0 and 1, got {self.margin!r}.")

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        # Named only where there is one, so that runs without keep their names.
        fit_corpus = {} if self.fit_corpus is None else {"fit_corpus": self.fit_corpus}
        return {
            "corpus": self.corpus,
            "languages": None if self.languages is None else list(self.languages),
            "mixed": self.mixed if isinstance(self.mixed, str) else list(self.mixed),
            "design": self.design.to_dict(),
            "treatments": [treatment.to_dict() for treatment in self.treatments],
            "measures": list(self.measures),
            "prompt": self.prompt,
            "partial": self.partial,
            "margin": self.margin,
            "inference": self.inference,
            "attention_documents": self.attention_documents,
            **fit_corpus,
        }


def _require_kind(name: str, value: Any, kind: Any, words: str) -> None:
    if not isinstance(value, kind):
        raise DesignError(f"{name} must be {words}, got {value!r}.")


def _require_choices(name: str, given: Sequence[str], choices: Sequence[str]) -> None:
    if not given:
        raise DesignError(f"{name} must name at least one of {', '.join(choices)}.")
    for value in given:
        if value not in choices:
            raise DesignError(f"{name} must be among {', '.join(choices)}, got {value!r}.")


def make_spec(
    *,
    corpus: str = "sample",
    languages: Sequence[str] | None = None,
    mixed: str | Sequence[str] = (),
    treatments: Sequence[Treatment | str | Mapping[str, Any]] = DEFAULT_TREATMENTS,
    measures: Sequence[str] = ("representation",),
    prompt: str | None = None,
    partial: bool = False,
    margin: float = 0.02,
    inference: str = "auto",
    attention_documents: int = 20,
    fit_corpus: str | None = None,
    design: Design | str = "latin",
    **fields: Any,
) -> AuditSpec:
    """A spec from plain values.

    Args:
        design: a `Design`; or the name of its orders, with its other fields among `fields`.
    """
    given = {"languages": languages, "treatments": treatments, "measures": measures}
    for name, value in given.items():
        if value is not None and (isinstance(value, str) or not isinstance(value, Iterable)):
            raise DesignError(f"{name} must be a list, such as [{EXAMPLES[name]!r}], got {value!r}.")
    known = {field.name for field in dataclass_fields(Design)} - {"orders"}
    unknown = [name for name in fields if name not in known]
    if unknown:
        own = [field.name for field in dataclass_fields(AuditSpec)]
        raise DesignError(f"an audit has no field {unknown[0]!r}. Fields: {', '.join([*own, *sorted(known)])}.")
    if isinstance(design, Design) and fields:
        raise DesignError(f"{next(iter(fields))} belongs to the design: set it there.")
    chosen = design if isinstance(design, Design) else Design(orders=design, **fields)
    return AuditSpec(
        corpus=corpus,
        languages=None if languages is None else tuple(languages),
        mixed=mixed if isinstance(mixed, str) else tuple(mixed),
        design=chosen,
        treatments=tuple(as_treatment(treatment) for treatment in treatments),
        measures=tuple(measures),
        prompt=prompt,
        partial=partial,
        margin=margin,
        inference=inference,
        attention_documents=attention_documents,
        fit_corpus=fit_corpus,
    )
