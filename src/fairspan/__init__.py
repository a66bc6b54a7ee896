"""fairspan: measure and repair how fairly one vector represents every part of a long text."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.temperature import LengthSchedule, PerSide
from fairspan.errors import (
    CalibrationError,
    CorpusError,
    DesignError,
    EncodingError,
    ExportError,
    FairspanError,
    LoadError,
    LogError,
    MissingExtra,
    SegmentError,
    StatisticsError,
    StoreError,
    TaskError,
    UnsupportedModel,
)

if TYPE_CHECKING:
    from fairspan.corpus.corpus import Corpus
    from fairspan.design.design import Design
    from fairspan.embedding.run import Embedding, embed
    from fairspan.encoding.endpoint import Endpoint
    from fairspan.model.build import calibrate, encode_segments
    from fairspan.model.export import export
    from fairspan.model.language_module import encode_languages
    from fairspan.model.language_text import LanguageText
    from fairspan.model.languages import LanguageCorrection
    from fairspan.model.saved import load
    from fairspan.model.segments import SegmentedText
    from fairspan.runs.language_fit import fit_languages
    from fairspan.runs.log import RunLog
    from fairspan.studies.audit.run import audit
    from fairspan.studies.collapse.run import collapse
    from fairspan.studies.evaluate.run import evaluate
    from fairspan.studies.inspect.inspection import Inspection
    from fairspan.studies.inspect.run import inspect
    from fairspan.studies.logs import read_log
    from fairspan.studies.tune.run import tune

__version__ = "0.1.0"

__all__ = [
    "Calibration",
    "CalibrationError",
    "Corpus",
    "CorpusError",
    "Design",
    "DesignError",
    "Embedding",
    "EncodingError",
    "Endpoint",
    "ExportError",
    "FairspanError",
    "Inspection",
    "LanguageCorrection",
    "LanguageText",
    "LengthSchedule",
    "LoadError",
    "LogError",
    "MissingExtra",
    "PerSide",
    "RunLog",
    "SegmentError",
    "SegmentedText",
    "StatisticsError",
    "StoreError",
    "TaskError",
    "UnsupportedModel",
    "__version__",
    "audit",
    "calibrate",
    "collapse",
    "embed",
    "encode_languages",
    "encode_segments",
    "evaluate",
    "export",
    "fit_languages",
    "inspect",
    "load",
    "read_log",
    "tune",
]

# Names whose modules are heavy are imported when first used, so that `import fairspan` stays cheap.
_LAZY = {
    "RunLog": "fairspan.runs.log",
    "Corpus": "fairspan.corpus.corpus",
    "Design": "fairspan.design.design",
    "Embedding": "fairspan.embedding.run",
    "embed": "fairspan.embedding.run",
    "Endpoint": "fairspan.encoding.endpoint",
    "audit": "fairspan.studies.audit.run",
    "collapse": "fairspan.studies.collapse.run",
    "evaluate": "fairspan.studies.evaluate.run",
    "Inspection": "fairspan.studies.inspect.inspection",
    "inspect": "fairspan.studies.inspect.run",
    "read_log": "fairspan.studies.logs",
    "tune": "fairspan.studies.tune.run",
    "calibrate": "fairspan.model.build",
    "export": "fairspan.model.export",
    "load": "fairspan.model.saved",
    "SegmentedText": "fairspan.model.segments",
    "encode_segments": "fairspan.model.build",
    "encode_languages": "fairspan.model.language_module",
    "LanguageText": "fairspan.model.language_text",
    "LanguageCorrection": "fairspan.model.languages",
    "fit_languages": "fairspan.runs.language_fit",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'fairspan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
