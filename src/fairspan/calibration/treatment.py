"""`Treatment`: a named way of embedding that an audit measures, such as "none" or "paper"."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairspan.calibration.calibration import LAYER_NAMES, PRESETS, Calibration, as_calibration
from fairspan.calibration.language_method import LanguageMethod
from fairspan.errors import CalibrationError, DesignError, FairspanError, require_list

DEFAULT_TREATMENTS = ("none", "tiles")
CLOSED_TREATMENTS = ("none", "chunk-mean")
"""The default for a model of which nothing is known but its vectors, which can have no other."""
CUTS = ("tokens", "segments")
BASELINES = ("whitening", "last2avg", "chunk-mean")
CHUNK_TOKENS = 128
_BASELINE = re.compile(r"(whitening|chunk-mean)(-[1-9]\d*)?|last2avg")
# IRF's own names: the basket size, a hyphen, and the layers.
_PUBLISHED = re.compile(rf"(\d+)-({'|'.join(LAYER_NAMES)}|\d+)")


@dataclass(frozen=True, slots=True)
class Treatment:
    """A calibration under the name that rows and tables show.

    In an audit, documents are on the document side. A segment embedded alone is treated as documents are, unless
    the calibration is limited to one side: with sides="document" segments stay as the plain model embeds them (IRF's
    control experiment), with sides="query" only they are calibrated.
    """

    name: str
    calibration: Calibration
    by_segments: bool = False
    """Whether a document's baskets, tiles or chunks are its segments, where they are known, not runs of tokens."""
    baseline: str | None = None
    """What is calibrated in place of the plain model: its "last2avg", or its "whitening", of which "whitening-256"
    keeps 256 dimensions. There is one whitening for both sides, fitted on texts that are embedded as documents. With
    "chunk-mean" the vector of a document is the mean of those of its chunks, of which "chunk-mean-64" have at most 64
    tokens; queries are embedded whole."""
    languages: str | None = None
    """How what vectors say about their language is taken away (`LanguageMethod`), such as "subspace". There is one
    fit for both sides, on texts that are embedded as documents under the rest of the treatment."""

    def __post_init__(self) -> None:
        if self.baseline is not None and not _is_baseline(self.baseline):
            raise CalibrationError(
                f"baseline must be one of {', '.join(BASELINES)}, or as in whitening-256, got {self.baseline!r}."
            )
        cut = self.calibration.strength > 0 or self.calibration.tile_size is not None or self.chunks
        if self.by_segments and not cut:
            raise CalibrationError(
                f"the treatment {self.name!r} cuts documents into segments and has neither baskets nor tiles nor "
                "chunks: give it a strength above 0 or a tile_size, or begin with chunk-mean."
            )
        if self.languages is not None:
            LanguageMethod.read(self.languages)

    @property
    def acts(self) -> bool:
        """Whether anything is different from the plain model."""
        return self.calibration.acts or self.baseline is not None or self.languages is not None

    @property
    def whitens(self) -> bool:
        return self.baseline is not None and self.baseline.startswith("whitening")

    @property
    def fitted(self) -> bool:
        """Whether something is fitted on texts that are never tested."""
        return self.whitens or self.languages is not None

    @property
    def uncorrected(self) -> Treatment:
        """The same without a correction of languages, which is made of its vectors."""
        return replace(self, languages=None)

    @property
    def base(self) -> Treatment:
        """The same without a correction and a name: treatments of one base correct the same vectors."""
        return replace(self.uncorrected, name="")

    @property
    def dimensions(self) -> int | None:
        """How many dimensions a whitening keeps; None for all."""
        number = (self.baseline or "").partition("-")[2] if self.whitens else ""
        return int(number) if number else None

    @property
    def chunks(self) -> bool:
        """Whether a document is embedded chunk by chunk."""
        return self.baseline is not None and self.baseline.startswith("chunk-mean")

    def chunk_size(self, default: int = CHUNK_TOKENS) -> int:
        """How long a chunk may be."""
        number = (self.baseline or "").removeprefix("chunk-mean").lstrip("-")
        return int(number) if number else default

    @property
    def for_documents(self) -> Calibration:
        """What documents are embedded with. Of a temperature by side it has the document's alone."""
        return self.calibration.on("document")

    @property
    def for_segments(self) -> Calibration:
        """What segments alone are embedded with, on the side of documents."""
        if self.calibration.sides == "document":
            return PRESETS["none"]
        return self.calibration.but(sides="both").on("document")

    @property
    def for_queries(self) -> Calibration:
        """What queries are embedded with. Of a temperature by side it has the query's alone."""
        return self.calibration.on("query")

    def to_dict(self) -> dict[str, Any]:
        # Named only where there is one, so that runs without keep their names.
        optional = {"baseline": self.baseline, "languages": self.languages}
        named = {field: value for field, value in optional.items() if value is not None}
        calibration, baskets = self.calibration.to_dict(), "segments" if self.by_segments else "tokens"
        return {"name": self.name, "calibration": calibration, "baskets": baskets, **named}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Treatment:
        """Read what `to_dict` wrote."""
        calibration = Calibration.from_dict(values["calibration"])
        by_segments = values.get("baskets") == "segments"
        name, baseline, languages = str(values["name"]), values.get("baseline"), values.get("languages")
        return cls(name, calibration, by_segments, baseline, languages)


AnyTreatment = Treatment | Calibration | str | Mapping[str, Any]
"""A treatment, or what `as_treatment` makes one of."""


def as_treatment(given: AnyTreatment) -> Treatment:
    """A treatment from its name, a calibration, or a table of fields with a name.

    Names are a preset's ("paper"), or one of IRF's ("128-last_half", "512-last"), each followed by any number of
    fields to change: "paper+basket_size=64+sides=document". With "paper+baskets=segments" every segment of a document
    is a basket, with "tiles+tiles=segments" a tile, with "chunk-mean+chunks=segments" a chunk. "whitening",
    "whitening-256", "last2avg", "chunk-mean" and "chunk-mean-64" are baselines with no calibration; fields give them
    one: "whitening+temperature=0.8". "tiles+languages=subspace" and "none+languages=centre" take away what vectors
    say about their language.

    >>> as_treatment("128-last").calibration.layers
    'last'
    >>> as_treatment("paper+basket_size=64").calibration.basket_size
    64
    """
    match given:
        case Treatment():
            return given
        case Calibration():
            return Treatment(_name_of(given), given)
        case str():
            base, *changes = (part.strip() for part in given.split("+"))
            fields = dict(_parse_change(part) for part in changes)
            cut, languages = _take_cut(fields), fields.pop("languages", None)
            baseline = base if _is_baseline(base) else None
            calibration = (PRESETS["none"] if baseline else _base(base, given)).but(**fields)
            by_segments = bool(_by_segments(cut, given, calibration, baseline))
            return Treatment(given.strip(), calibration, by_segments, baseline, languages)
        case Mapping():
            return _from_table(given)
    raise CalibrationError(f"a treatment is a name such as 'none' or 'paper', or a Calibration, got {given!r}.")


def as_treatments(
    given: Sequence[AnyTreatment], *, error: type[FairspanError] = DesignError
) -> tuple[Treatment, ...]:
    """Different treatments, at least one."""
    require_list("treatments", str(given) if isinstance(given, Mapping) else given, "['none', 'paper']", error)
    found = tuple(as_treatment(one) for one in given)
    names = [treatment.name for treatment in found]
    if not names:
        raise error("name at least one treatment, for example none.")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise error(f"the treatment {twice[0]!r} is named twice.")
    return found


def _base(name: str, whole: str) -> Calibration:
    published = _PUBLISHED.fullmatch(name)
    if published:
        size, layers = published.groups()
        return Calibration(basket_size=int(size), layers=int(layers) if layers.isdigit() else layers)
    if name not in PRESETS:
        raise CalibrationError(
            f"there is no treatment {whole!r}: begin with {', '.join([*PRESETS, *BASELINES])} or a name such as "
            "128-last_half, and change fields with +, as in paper+basket_size=64."
        )
    return PRESETS[name]


def _is_baseline(name: Any) -> bool:
    return isinstance(name, str) and _BASELINE.fullmatch(name) is not None


def _parse_change(part: str) -> tuple[str, Any]:
    field, equals, value = part.partition("=")
    if not equals:
        raise CalibrationError(f"a field of a treatment is written name=value, as in +basket_size=64, got {part!r}.")
    try:
        return field.strip(), json.loads(value)
    except json.JSONDecodeError:
        return field.strip(), value.strip()


def _from_table(table: Mapping[str, Any]) -> Treatment:
    fields = dict(table)
    cut, baseline, languages = _take_cut(fields), fields.pop("baseline", None), fields.pop("languages", None)
    name, preset = fields.pop("name", None), fields.pop("preset", None)
    if not isinstance(name, str) or not name.strip():
        raise CalibrationError(f"a treatment given as a table needs a name, got {dict(table)!r}.")
    named = name.split("+")[0].strip()
    own = named if _is_baseline(named) else None
    known = own is not None or named in PRESETS or _PUBLISHED.fullmatch(named) is not None
    if known and baseline not in (None, own):
        raise CalibrationError(f"the treatment {name!r} has no baseline {baseline!r}: give it another name.")
    baseline = baseline or own
    if preset is None and (known or not (fields or baseline or languages)):
        named_so = as_treatment(name)
        calibration = named_so.calibration.but(**fields)
        by_segments = _by_segments(cut, name, calibration, baseline)
        by_segments = named_so.by_segments if by_segments is None else by_segments
        return Treatment(name, calibration, by_segments, baseline, languages or named_so.languages)
    alone = preset is None and (baseline or (languages and not fields))
    calibration = as_calibration("none" if alone else preset, **fields)
    return Treatment(name, calibration, bool(_by_segments(cut, name, calibration, baseline)), baseline, languages)


def require_use_of_fit(fit_corpus: str | None, treatments: Sequence[Treatment]) -> None:
    """Raise if a corpus to fit on was named, and no treatment is fitted."""
    if fit_corpus is not None and not any(treatment.fitted for treatment in treatments):
        raise DesignError("no treatment is fitted, so [[fit_corpus]] would do nothing: omit one of them.")


def _take_cut(fields: dict[str, Any]) -> dict[str, str]:
    """Where "baskets", "tiles" or "chunks" says to cut a document, taken out of the fields."""
    given: dict[str, str] = {name: fields.pop(name) for name in ("baskets", "tiles", "chunks") if name in fields}
    for name, value in given.items():
        if value not in CUTS:
            raise CalibrationError(f"{name} must be one of {', '.join(CUTS)}, got {value!r}.")
    if len(set(given.values())) > 1:
        raise CalibrationError("a document is cut in one way: give baskets and tiles the same value, or one of them.")
    return given


def _by_segments(cut: Mapping[str, str], name: str, calibration: Calibration, baseline: Any) -> bool | None:
    """Whether a document is cut into its segments; None if nothing says so."""
    if "tiles" in cut and calibration.tile_size is None:
        raise CalibrationError(f"the treatment {name!r} has no tiles: give it a tile_size such as 64.")
    chunks = _is_baseline(baseline) and str(baseline).startswith("chunk-mean")
    if "chunks" in cut and not chunks:
        raise CalibrationError(f"the treatment {name!r} has no chunks: begin with chunk-mean.")
    if chunks and "segments" in cut.values() and "chunks" not in cut:
        raise CalibrationError(f"the treatment {name!r} embeds chunks: make these segments with chunks=segments.")
    return "segments" in cut.values() if cut else None


def _name_of(calibration: Calibration) -> str:
    for name, preset in PRESETS.items():
        if calibration == preset:
            return name
    nearest = "paper" if calibration.tile_size is None else "tiles"
    known = PRESETS[nearest].to_dict()
    changed = {field: value for field, value in calibration.to_dict().items() if value != known[field]}
    return "+".join([nearest, *(f"{field}={_written(value)}" for field, value in changed.items())])


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
