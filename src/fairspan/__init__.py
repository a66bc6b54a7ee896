"""fairspan: measure and repair how fairly one vector represents every part of a long text."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairspan.calibration import Calibration
from fairspan.errors import (
    CalibrationError,
    CorpusError,
    DesignError,
    EncodingError,
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
from fairspan.temperature import LengthSchedule, PerSide

if TYPE_CHECKING:
    from fairspan.auditing import audit
    from fairspan.calibrated.build import calibrate
    from fairspan.calibrated.by_segments import encode_segments
    from fairspan.calibrated.saved import load
    from fairspan.calibrated.segments import SegmentedText
    from fairspan.collapsing import collapse
    from fairspan.corpus.corpus import Corpus
    from fairspan.design.design import Design
    from fairspan.evaluating import evaluate
    from fairspan.inspecting import inspect
    from fairspan.inspection import Inspection
    from fairspan.log import AuditLog, read_log

__version__ = "0.1.0"

__all__ = [
    "AuditLog",
    "Calibration",
    "CalibrationError",
    "Corpus",
    "CorpusError",
    "Design",
    "DesignError",
    "EncodingError",
    "FairspanError",
    "Inspection",
    "LengthSchedule",
    "LoadError",
    "LogError",
    "MissingExtra",
    "PerSide",
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
    "encode_segments",
    "evaluate",
    "inspect",
    "load",
    "read_log",
]

# Names whose modules are heavy are imported when first used, so that `import fairspan` stays cheap.
_LAZY = {
    "AuditLog": "fairspan.log",
    "Corpus": "fairspan.corpus.corpus",
    "Design": "fairspan.design.design",
    "audit": "fairspan.auditing",
    "collapse": "fairspan.collapsing",
    "evaluate": "fairspan.evaluating",
    "Inspection": "fairspan.inspection",
    "inspect": "fairspan.inspecting",
    "read_log": "fairspan.log",
    "calibrate": "fairspan.calibrated.build",
    "load": "fairspan.calibrated.saved",
    "SegmentedText": "fairspan.calibrated.segments",
    "encode_segments": "fairspan.calibrated.by_segments",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'fairspan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
