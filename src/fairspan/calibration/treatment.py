"""`Treatment`: a named way of embedding that an audit measures, such as "plain" or "paper"."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fairspan.calibration.calibration import LAYER_NAMES, PRESETS, SIZED_TILES, Calibration
from fairspan.errors import DesignError, FairspanError, require_list

PLAIN = "plain"
"""The unmodified model, as people see it; "none" is accepted too."""
DEFAULT_TREATMENTS = (PLAIN, "tiles")
CLOSED_TREATMENTS = (PLAIN, "chunk-mean")
"""The default for a model that only gives vectors, which allows no other."""
BASELINES = ("whitening", "last2avg", "chunk-mean")
CHUNK_TOKENS = 128
_CUT_WORDS = ("baskets", "tiles", "chunks")
_BASELINE = re.compile(r"whitening(-[1-9]\d*)?|chunk-mean(-[1-9]\d*|-window)?|last2avg")
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
    tokens, and "chunk-mean-window" as many as the plain model reads; queries are embedded whole."""

    def __post_init__(self) -> None:
        cut = self.calibration.strength > 0 or self.calibration.tile_size is not None or self.chunks
        if self.by_segments and not cut:
            raise DesignError(
                f"the treatment {self.name!r} uses segments but has no baskets, tiles or chunks: give it "
                "a strength above 0 or a tile_size, or begin with chunk-mean."
            )

    @property
    def acts(self) -> bool:
        """Whether anything is different from the plain model."""
        return self.calibration.acts or self.baseline is not None

    @property
    def whitens(self) -> bool:
        """Whether a whitening is fitted, on texts that are never tested."""
        return self.baseline is not None and self.baseline.startswith("whitening")

    @property
    def chunks(self) -> bool:
        """Whether a document is embedded chunk by chunk."""
        return self.baseline is not None and self.baseline.startswith("chunk-mean")

    def chunk_size(self, default: int = CHUNK_TOKENS) -> int | str:
        """How long a chunk may be: a number, or "window"."""
        return "window" if self.baseline == "chunk-mean-window" else self.number or default

    @property
    def number(self) -> int | None:
        """The number at the end of a baseline's name, such as the dimensions that a whitening keeps."""
        last = (self.baseline or "").rpartition("-")[2]
        return int(last) if last.isdigit() else None

    @property
    def for_documents(self) -> Calibration:
        """What documents are embedded with. Of a temperature by side it has the document's alone."""
        return self.calibration.on("document")

    @property
    def for_segments(self) -> Calibration:
        """What segments alone are embedded with, on the side of documents."""
        if self.calibration.sides == "document":
            return PRESETS[PLAIN]
        return self.calibration.but(sides="both").on("document")

    @property
    def for_queries(self) -> Calibration:
        """What queries are embedded with. Of a temperature by side it has the query's alone."""
        return self.calibration.on("query")

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, which `from_dict` reads."""
        return {**asdict(self), "calibration": self.calibration.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Treatment:
        calibration = Calibration.from_dict(values["calibration"])
        return cls(values["name"], calibration, values["by_segments"], values["baseline"])


AnyTreatment = Treatment | Calibration | str | Mapping[str, Any]
"""A treatment, or what `as_treatment` makes one of."""


def as_treatment(given: AnyTreatment) -> Treatment:
    """A treatment from its name, a calibration, or a table of fields with a name.

    Names are a preset's ("paper"), "tiles-256" for tiles of that many tokens, or one of IRF's ("128-last_half",
    "512-last"), each followed by any number of fields to change: "paper+basket_size=64+sides=document". With
    "paper+baskets=segments" every segment of a document is a basket, with "tiles+tiles=segments" a tile, with
    "chunk-mean+chunks=segments" a chunk. "whitening", "whitening-256", "last2avg", "chunk-mean" and "chunk-mean-64"
    are baselines with no calibration; fields give them one: "whitening+temperature=0.8".

    A table starts from the name that it gives as `preset`, from its own name if that means something, or from the
    defaults of `Calibration`: {"name": "mine", "preset": "whitening", "temperature": 0.8}.

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
            return _read(given, given, {})
        case Mapping():
            table = dict(given)
            name, preset = table.pop("name", None), table.pop("preset", None)
            if not isinstance(name, str) or not name.strip():
                raise DesignError(
                    f"a treatment given as a table needs a name, got {dict(given)!r}."
                )
            if preset is None and table and not _is_known(name):
                preset = PLAIN if table.get("tile_size") is not None else "paper"
            return _read(preset or name, name, table)
    raise DesignError(
        f"a treatment is a name such as 'plain' or 'paper', or a Calibration, got {given!r}."
    )


def _read(written: str, name: str, more: Mapping[str, Any]) -> Treatment:
    """The treatment `name` of what is written, such as "paper+basket_size=64", and more fields to change."""
    base, *changes = (part.strip() for part in shown_name(written).split("+"))
    values = dict(_parse_change(part) for part in changes) | dict(more)
    cut = {word: values.pop(word) for word in _CUT_WORDS if word in values}
    for word, value in cut.items():
        if value != "segments":
            raise DesignError(
                f"{word} can be segments, as in tiles+tiles=segments, or omitted, got {value!r}."
            )
    baseline = base if _BASELINE.fullmatch(base) else None
    calibration = (PRESETS[PLAIN] if baseline else _base(base, written)).but(**values)
    made = Treatment(shown_name(name), calibration, bool(cut), baseline)
    if "tiles" in cut and calibration.tile_size is None:
        raise DesignError(
            f"the treatment {made.name!r} has no tiles: give it a tile_size such as 64."
        )
    if cut and made.chunks != ("chunks" in cut):
        why = "embeds chunks: make these segments with chunks=segments"
        why = why if made.chunks else "has no chunks: begin with chunk-mean"
        raise DesignError(f"the treatment {made.name!r} {why}.")
    return made


def shown_name(name: str) -> str:
    """A treatment's name as people see it, with "plain" for "none"."""
    base, plus, changes = name.strip().partition("+")
    return PLAIN + plus + changes if base.strip() == "none" else name.strip()


def as_treatments(
    given: Sequence[AnyTreatment], *, error: type[FairspanError] = DesignError
) -> tuple[Treatment, ...]:
    """Different treatments, at least one."""
    require_list(
        "treatments",
        str(given) if isinstance(given, Mapping) else given,
        "['plain', 'paper']",
        error,
    )
    found = tuple(as_treatment(one) for one in given)
    names = [treatment.name for treatment in found]
    if not names:
        raise error("name at least one treatment, for example plain.")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise error(f"the treatment {twice[0]!r} is named twice.")
    return found


def _base(name: str, whole: str) -> Calibration:
    published = _PUBLISHED.fullmatch(name)
    if published:
        size, layers = published.groups()
        return Calibration(
            basket_size=int(size), layers=int(layers) if layers.isdigit() else layers
        )
    if SIZED_TILES.fullmatch(name):
        return Calibration.preset(name)
    if name not in PRESETS:
        raise DesignError(
            f"there is no treatment {whole!r}: begin with {', '.join([*PRESETS, *BASELINES])} or a name such as "
            "128-last_half, and change fields with +, as in paper+basket_size=64."
        )
    return PRESETS[name]


def _is_known(name: str) -> bool:
    base = shown_name(name).partition("+")[0].strip()
    return base in PRESETS or any(
        pattern.fullmatch(base) for pattern in (_BASELINE, _PUBLISHED, SIZED_TILES)
    )


def _parse_change(part: str) -> tuple[str, Any]:
    field, equals, value = part.partition("=")
    if not equals:
        raise DesignError(
            f"a field of a treatment is written name=value, as in +basket_size=64, got {part!r}."
        )
    try:
        return field.strip(), json.loads(value)
    except json.JSONDecodeError:
        return field.strip(), value.strip()


def require_use_of_fit(fit_corpus: str | None, treatments: Sequence[Treatment]) -> None:
    """Raise if a corpus to fit on was named, and no treatment is fitted."""
    if fit_corpus is not None and not any(treatment.whitens for treatment in treatments):
        raise DesignError("no treatment is fitted, so fit_corpus would do nothing: omit it.")


def _name_of(calibration: Calibration) -> str:
    for name, preset in PRESETS.items():
        if calibration == preset:
            return name
    nearest = "paper" if calibration.tile_size is None else "tiles"
    known = PRESETS[nearest].to_dict()
    changed = {
        field: value for field, value in calibration.to_dict().items() if value != known[field]
    }
    written = {
        field: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for field, value in changed.items()
    }
    return "+".join([nearest, *(f"{field}={value}" for field, value in written.items())])
