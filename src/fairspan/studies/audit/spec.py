"""`AuditSpec`: everything that was asked of an audit, as one frozen value."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from dataclasses import fields as fields_of
from typing import Any

from fairspan.calibration.treatment import DEFAULT_TREATMENTS, Treatment, as_treatments, require_use_of_fit
from fairspan.design.design import Design
from fairspan.errors import DesignError, require_list, require_whole
from fairspan.stats.contrasts import INFERENCES

MEASURES = ("representation", "retention", "attention")


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """What to measure, on which documents, under which treatments; `fairspan.audit` says what each field means."""

    corpus: str = "sample"
    languages: tuple[str, ...] | None = None
    mixed: str | tuple[str, ...] = ()
    design: Design = field(default_factory=Design)
    treatments: tuple[Treatment, ...] = as_treatments(DEFAULT_TREATMENTS)
    measures: tuple[str, ...] = ("representation",)
    prompt: str | None = None
    partial: bool = False
    margin: float = 0.02
    inference: str = "auto"
    attention_documents: int = 20
    fit_corpus: str | None = None

    def __post_init__(self) -> None:
        for name, kind, words in (
            ("corpus", str, "a name or a path"),
            ("fit_corpus", str | None, "a name or a path"),
            ("prompt", str | None, "text"),
            ("partial", bool, "true or false"),
        ):
            if not isinstance(getattr(self, name), kind):
                raise DesignError(f"[[{name}]] must be {words}, got {getattr(self, name)!r}.")
        for name, example in (("languages", "['en']"), ("measures", "['retention']"), ("mixed", "['de:en']")):
            value = getattr(self, name)
            if value is None or (name == "mixed" and isinstance(value, str)):
                continue
            require_list(name, value, example)
            object.__setattr__(self, name, tuple(value))
        for language in (*(self.languages or ()), *([self.mixed] if isinstance(self.mixed, str) else self.mixed)):
            if not isinstance(language, str):
                raise DesignError(
                    f"languages and mixed plans must be text such as 'en' and 'de:en', got {language!r}."
                )
        require_whole("attention_documents", self.attention_documents)
        require_use_of_fit(self.fit_corpus, self.treatments)
        _require_choices("measures", self.measures, MEASURES)
        _require_choices("inference", [self.inference], INFERENCES)
        if isinstance(self.margin, bool) or not isinstance(self.margin, int | float) or not 0 < self.margin < 1:
            raise DesignError(f"[[margin]] must be between 0 and 1, got {self.margin!r}.")

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        values = {one.name: getattr(self, one.name) for one in fields_of(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        treatments = [treatment.to_dict() for treatment in self.treatments]
        return {**plain, "design": self.design.to_dict(), "treatments": treatments}


def _require_choices(name: str, given: Sequence[str], choices: Sequence[str]) -> None:
    if not given:
        raise DesignError(f"[[{name}]] must name at least one of {', '.join(choices)}.")
    for value in given:
        if value not in choices:
            raise DesignError(f"[[{name}]] must be among {', '.join(choices)}, got {value!r}.")


def make_spec(*, design: Design | str = "latin", **fields: Any) -> AuditSpec:
    """A spec from plain values, which may come from a file: fields of `AuditSpec` and of `Design`.

    Args:
        design: a `Design`; or the name of its orders, with its other fields among `fields`.
    """
    own = {one.name for one in fields_of(AuditSpec)} - {"design"}
    drawn = {one.name for one in fields_of(Design)} - {"orders"}
    unknown = [name for name in fields if name not in own | drawn]
    if unknown:
        known = ", ".join(sorted(own | drawn | {"design"}))
        raise DesignError(f"an audit has no field {unknown[0]!r}. Fields: {known}.")
    of_design = {name: value for name, value in fields.items() if name in drawn}
    if isinstance(design, str):
        design = Design(orders=design, **of_design)
    else:
        plain = asdict(Design())
        changed = [name for name, value in asdict(Design(**of_design)).items() if value != plain[name]]
        if changed:
            raise DesignError(f"{changed[0]} belongs to the design: set it there.")
    treatments = as_treatments(fields.pop("treatments", DEFAULT_TREATMENTS))
    return AuditSpec(
        design=design, treatments=treatments, **{name: value for name, value in fields.items() if name in own}
    )
