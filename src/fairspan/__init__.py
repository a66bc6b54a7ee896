"""fairspan: measure and repair how fairly one vector represents every part of a long text."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairspan.calibration.calibration import Calibration as Calibration
from fairspan.calibration.temperature import PerSide as PerSide
from fairspan.errors import CorpusError, DesignError, FairspanError, MissingExtra, UnsupportedModel  # noqa: F401

if TYPE_CHECKING:
    from fairspan.calibration.level import CommonDirection as CommonDirection
    from fairspan.calibration.level import fit_level as fit_level
    from fairspan.corpus.corpus import Corpus as Corpus
    from fairspan.embedding.run import embed as embed
    from fairspan.encoding.endpoint import Endpoint as Endpoint
    from fairspan.encoding.part_vectors import encode_parts as encode_parts
    from fairspan.exporting.export import export as export
    from fairspan.model.build import calibrate as calibrate
    from fairspan.model.loading import load as load
    from fairspan.model.segments import SegmentedText as SegmentedText
    from fairspan.model.segments import encode_segments as encode_segments
    from fairspan.retrieval.mteb_running import mteb_model as mteb_model
    from fairspan.retrieval.mteb_running import mteb_task as mteb_task
    from fairspan.runs.log import RunLog as RunLog
    from fairspan.studies.audit.run import audit as audit
    from fairspan.studies.collapse.run import collapse as collapse
    from fairspan.studies.evaluate.run import evaluate as evaluate
    from fairspan.studies.inspect.run import inspect as inspect
    from fairspan.studies.logs import read_log as read_log
    from fairspan.studies.tune.run import tune as tune

__version__ = "0.3.0"

# Names whose modules are heavy are imported when first used, so that `import fairspan` stays cheap.
_LAZY = {
    "RunLog": "fairspan.runs.log",
    "CommonDirection": "fairspan.calibration.level",
    "Corpus": "fairspan.corpus.corpus",
    "embed": "fairspan.embedding.run",
    "Endpoint": "fairspan.encoding.endpoint",
    "audit": "fairspan.studies.audit.run",
    "collapse": "fairspan.studies.collapse.run",
    "evaluate": "fairspan.studies.evaluate.run",
    "inspect": "fairspan.studies.inspect.run",
    "read_log": "fairspan.studies.logs",
    "tune": "fairspan.studies.tune.run",
    "calibrate": "fairspan.model.build",
    "export": "fairspan.exporting.export",
    "fit_level": "fairspan.calibration.level",
    "load": "fairspan.model.loading",
    "SegmentedText": "fairspan.model.segments",
    "encode_parts": "fairspan.encoding.part_vectors",
    "encode_segments": "fairspan.model.segments",
    "mteb_model": "fairspan.retrieval.mteb_running",
    "mteb_task": "fairspan.retrieval.mteb_running",
}

__all__ = [
    *(
        "Calibration",
        "CorpusError",
        "DesignError",
        "FairspanError",
        "MissingExtra",
        "PerSide",
        "UnsupportedModel",
    ),
    *("__version__", *_LAZY),
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'fairspan' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
