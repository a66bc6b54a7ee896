"""`CollapseSpec`: everything that was asked of a study of length, as one frozen value."""

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any

from fairspan.calibration.temperature import check_temperature
from fairspan.calibration.treatment import AnyTreatment, Treatment, as_treatments, require_use_of_fit
from fairspan.errors import DesignError, require_list, require_whole

DEFAULT_TEMPERATURES = (1.0, 0.9, 0.8)
STARTS = ("random", "beginning")
DEFAULT_MARGIN = 0.005
"""Of mean cosine per doubling of length: over four doublings, as from 25 to 400 tokens, the margin of an audit."""
WORDS = "words"
"""The name of the control among the treatments: the mean of the raw word embeddings (LC Fig. 3)."""


@dataclass(frozen=True, slots=True)
class CollapseSpec:
    """What to measure of texts of several lengths; `fairspan.collapse` says what each field means."""

    corpus: str = "sample"
    language: str | None = None
    lengths: tuple[int, ...] | None = None
    natural: bool = False
    documents: int = 100
    start: str = "random"
    tolerance: float = 0.2
    treatments: tuple[Treatment, ...] = as_treatments(["none"])
    spectra: int = 5
    layers: str = "last"
    probe: bool = True
    labelled: str | None = None
    labelled_documents: int = 600
    seed: int = 0
    prompt: str | None = None
    fit_corpus: str | None = None
    margin: float = DEFAULT_MARGIN

    def __post_init__(self) -> None:
        for name, value, kind in (("corpus", self.corpus, str), ("language", self.language, str | None)):
            if not isinstance(value, kind):
                raise DesignError(f"[[{name}]] must be text, got {value!r}.")
        if isinstance(self.tolerance, bool) or not isinstance(self.tolerance, int | float):
            raise DesignError(f"[[tolerance]] must be a share such as 0.2, got {self.tolerance!r}.")
        if isinstance(self.margin, bool) or not isinstance(self.margin, int | float) or not 0 < self.margin < 1:
            raise DesignError(f"[[margin]] must be between 0 and 1, got {self.margin!r}.")
        whole = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in self.lengths or ())
        if self.lengths is not None and not (self.lengths and whole):
            raise DesignError(f"[[lengths]] must be numbers of tokens, such as 50,100,200, got {self.lengths!r}.")
        if self.lengths is not None and self.natural:
            raise DesignError("natural lengths are the documents' own: omit [[lengths]].")
        if self.start not in STARTS:
            raise DesignError(f"[[start]] must be one of {', '.join(STARTS)}, got {self.start!r}.")
        if self.layers not in ("last", "last_half", "all"):
            raise DesignError(f"[[layers]] must be last, last_half or all, got {self.layers!r}.")
        for name, least in (("documents", 3), ("labelled_documents", 4), ("spectra", 0), ("seed", 0)):
            require_whole(name, getattr(self, name), least=least)
        for treatment in self.treatments:
            if treatment.name == WORDS:
                raise DesignError(f"{WORDS!r} is the name of the word-embedding control: rename the treatment.")
            if treatment.by_segments:
                raise DesignError(f"{treatment.name} makes segments baskets, and these texts have none: omit it.")
            if treatment.languages is not None:
                raise DesignError(f"{treatment.name} corrects languages, and these texts are in one: omit it.")
        self._refuse_idle()

    def _refuse_idle(self) -> None:
        """What was changed and would do nothing is a mistake."""
        plain = {item.name: item.default for item in dataclass_fields(self)}
        require_use_of_fit(self.fit_corpus, self.treatments)
        for idle, names, why in (
            (self.natural, ("start", "tolerance"), "natural lengths are not cut"),
            (self.natural, ("labelled",), "labelled texts are cut to lengths, and natural lengths are not"),
            (self.labelled is None, ("labelled_documents",), "there are no labelled texts"),
            (self.spectra == 0, ("layers",), "spectra is 0"),
        ):
            changed = [name for name in names if getattr(self, name) != plain[name]]
            if idle and changed:
                raise DesignError(f"{why}, so [[{changed[0]}]] would do nothing: omit one of them.")

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        values = {item.name: getattr(self, item.name) for item in dataclass_fields(self)}
        lengths = None if self.lengths is None else list(self.lengths)
        return {**values, "lengths": lengths, "treatments": [one.to_dict() for one in self.treatments]}


def make_collapse(
    *,
    temperatures: Sequence[float] = DEFAULT_TEMPERATURES,
    treatments: Sequence[AnyTreatment] = (),
    lengths: Sequence[int] | None = None,
    **fields: Any,
) -> CollapseSpec:
    """A spec from plain values. `treatments` come after the temperatures, of which 1 is the unmodified model."""
    require_list("temperatures", temperatures, "[1.0, 0.8]")
    require_list("treatments", treatments, "['paper']")
    require_list("lengths", lengths or (), "[50, 100]")
    named = as_treatments([*(at_temperature(value) for value in temperatures), *treatments])
    try:
        ordered = None if lengths is None else tuple(sorted(set(lengths)))
    except TypeError:
        raise DesignError(f"[[lengths]] must be numbers of tokens, such as 50,100,200, got {lengths!r}.") from None
    return CollapseSpec(lengths=ordered, treatments=named, **fields)


def at_temperature(value: float) -> str:
    """The treatment that does nothing but set a temperature."""
    checked = check_temperature(value)
    return "none" if checked == 1 else f"tempscale+temperature={checked}"


def temperature_of(treatment: Treatment) -> float | None:
    """The temperature of a treatment that sets one for all texts and does nothing else."""
    calibration = treatment.calibration
    if calibration.sides != "both" or treatment.baseline is not None:
        return None
    value, plain = calibration.temperature, not calibration.but(temperature=1.0).acts
    return float(value) if plain and isinstance(value, int | float) else None
