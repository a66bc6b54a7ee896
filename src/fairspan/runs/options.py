"""`StudyOptions`: everything that is asked of a study, as one frozen value.

The call, the log and the identity of a study follow from it. A study adds its fields in a subclass;
a field that names something to read is declared with `source`. Options that only analyse rows are
fields of an `Analysis`, which the subclass inherits as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fairspan.calibration.treatment import (
    CLOSED_TREATMENTS,
    DEFAULT_TREATMENTS,
    Treatment,
)
from fairspan.errors import DesignError
from fairspan.model.source import DEFAULT_MODEL, Loading, find_model
from fairspan.runs.entries import as_json

if TYPE_CHECKING:
    from fairspan.encoding.encoder import AnyModel
    from fairspan.runs.progress import Progress


DISPLAY_ONLY = frozenset({"out", "store", "batch_tokens", "fresh", "progress"})
"""Options that say where to compute a result and how to show it, and do not decide it."""


AnyAnalysis = TypeVar("AnyAnalysis", bound="Analysis")


@dataclass(frozen=True)
class Analysis:
    """Options that only analyse rows: they can change without measuring again."""

    @classmethod
    def read(cls: type[AnyAnalysis], asked: Mapping[str, Any], **changes: Any) -> AnyAnalysis:
        """What a run was asked, with changes; raise for what this study does not have."""
        names = [option.name for option in fields(cls)]
        for name in changes:
            if name not in names:
                raise DesignError(
                    f"{name} is no option of this analysis: it has {', '.join(names) or 'none'}."
                )
        values = {name: value for name, value in asked.items() if name in names}
        return cls(**{**values, **changes})


def source(default: str | None = None) -> Any:
    """A field that names something to read: pages hide its path."""
    return field(default=default, metadata={"source": True})


@dataclass(frozen=True)
class StudyOptions:
    """The options that all studies have.

    Attributes:
        model: a SentenceTransformer: its name on the hub or its folder. By default
            all-MiniLM-L6-v2. In Python also the model itself, an `Endpoint`, or any object with
            `encode(list[str])`, under the treatments "plain" and "chunk-mean". Vectors of an object
            are stored if it has an `identity`, a string that names everything that determines them.
        name: what the log calls the model.
        max_seq_length: longest text to read, in tokens, for a model given by name. Only treatments
            in tiles can exceed the model's positions; others truncate, and the log says how many
            documents.
        device: where the model runs: cpu, cuda or mps. By default the fastest.
        dtype: number format of the weights: float32, bfloat16, float16, or auto for that of the
            saved weights. By default float32 on a CPU and auto elsewhere.
        trust_remote_code: run code that comes with the model.
        out: folder of the run. By default one in fairspan-runs for this model and these options, so
            that the same call continues it.
        store: file that stores the vectors. By default one in your cache folder.
        batch_tokens: number of tokens in a batch, padding included; of characters for an endpoint.
        fresh: embed and measure everything again, whatever is stored; new vectors replace stored
            ones.
        progress: True for a bar, False for none, or an object that shows it.
    """

    verb: ClassVar[str]
    analysed: ClassVar[type[Analysis]] = Analysis
    model: AnyModel = None
    _: KW_ONLY
    name: str | None = None
    max_seq_length: int | None = None
    device: str | None = None
    dtype: str | None = None
    trust_remote_code: bool = False
    out: Path | str | None = None
    store: Path | str | None = None
    batch_tokens: int | None = None
    fresh: bool = False
    progress: bool | Progress = True

    def check(self) -> None:
        """Read what the study reads, and raise if that fails."""

    @cached_property
    def checked(self) -> bool:
        """Check everything that needs no model, and raise otherwise; inputs are read only once."""
        self.check()
        self.loading.require_device()
        if isinstance(self.model, str | None):
            find_model(self.model)
        return True

    @property
    def loading(self) -> Loading:
        return Loading(self.max_seq_length, self.device, self.dtype, self.trust_remote_code)

    @property
    def all_treatments(self) -> tuple[Treatment, ...]:
        """The treatments that are compared, the baseline first."""
        raise NotImplementedError

    @property
    def analysis(self) -> Analysis:
        """How rows are analysed."""
        kind = self.analysed
        return kind(**{option.name: getattr(self, option.name) for option in fields(kind)})

    @property
    def asked(self) -> dict[str, Any]:
        """What this study was asked to measure besides the model, as JSON holds it."""
        common = {option.name for option in fields(StudyOptions)}
        return self._as_json(common)

    @property
    def decisive(self) -> dict[str, Any]:
        """All options that decide the rows, as JSON holds them, but for the model itself."""
        return self._as_json(DISPLAY_ONLY | {"model"})

    @property
    def unused(self) -> set[str]:
        """The fields that mean nothing to what is studied."""
        return set()

    def _as_json(self, omitted: Collection[str]) -> dict[str, Any]:
        omitted = {*omitted, *self.unused, *(option.name for option in fields(self.analysed))}
        names = [option.name for option in fields(self) if option.name not in omitted]
        values = {name: as_json(getattr(self, name)) for name in names}
        return {**values, "treatments": as_json(self.all_treatments)}

    def name_sources(self) -> None:
        """Take every path to something that is read as its name."""
        for option in fields(self):
            value = getattr(self, option.name) if option.metadata.get("source") else None
            if isinstance(value, Path):
                object.__setattr__(self, option.name, str(value))
            elif isinstance(value, list | tuple):
                names = [str(item) if isinstance(item, Path) else item for item in value]
                object.__setattr__(self, option.name, names)

    @property
    def sources(self) -> list[str]:
        sources: list[str] = []
        for option in fields(self):
            is_source = option.metadata.get("source") and option.name not in self.unused
            value = getattr(self, option.name) if is_source else None
            several = [value] if isinstance(value, str | Path) else value or ()
            sources += [str(item) for item in several if isinstance(item, str | Path)]
        return sources


def named(model: Any) -> str:
    if isinstance(model, str | None):
        return model or DEFAULT_MODEL
    remote = getattr(model, "model", None)
    return remote if isinstance(remote, str) else type(model).__name__


def default_treatments(model: AnyModel) -> tuple[str, ...]:
    """What is compared by default."""
    if not isinstance(model, str | None) and not is_kind(model, "SentenceTransformer"):
        return CLOSED_TREATMENTS
    return DEFAULT_TREATMENTS


def is_kind(model: AnyModel, name: str) -> bool:
    """Whether a model is of the class of that name, which is found without importing it."""
    return name in {kind.__name__ for kind in type(model).__mro__}
