"""What every verb that embeds does around its work: find a finished run, write the log, keep what was computed."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from fairspan import __version__
from fairspan.encoding.fill import Tally
from fairspan.errors import DesignError, LogError
from fairspan.model.transformer import calibrated_transformers
from fairspan.runs.log import HEADER, AuditLog, LogWriter, read_header, read_log

DEFAULT_RUNS = Path("fairspan-runs")


def run_name(model: str, *decisive: Any) -> str:
    """The name of a run's folder: the model's, and a hash of all that decides the result."""
    digest = hashlib.sha256(json.dumps([__version__, *decisive], sort_keys=True).encode()).hexdigest()
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", model.rstrip("/").split("/")[-1]).strip("-.") or "model"
    return f"{slug}-{digest[:8]}"


def name_of(model: Any) -> str:
    """What to call a model that was given without a name."""
    card = getattr(model, "model_card_data", None)
    return str(getattr(card, "base_model", None) or type(model).__name__)


def calibrations_of(model: Any) -> list[dict[str, Any]]:
    """How a model is calibrated before any treatment."""
    if not isinstance(model, SentenceTransformer):
        return []
    return [module.calibration.to_dict() for module in calibrated_transformers(model)]


def described(model: Any, name: str, fingerprint: str | None, **details: Any) -> dict[str, Any]:
    """What a log says of a model."""
    known: dict[str, Any] = {"name": name, "fingerprint": fingerprint}
    if not isinstance(model, SentenceTransformer):
        return known
    parameter = next(model.parameters(), None)
    return {
        **known,
        **details,
        "device": str(model.device),
        "dtype": None if parameter is None else str(parameter.dtype).removeprefix("torch."),
        "calibrations": calibrations_of(model),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def batch_budget(model: Any, batch_tokens: int | None) -> int:
    """Tokens in a batch, padding included."""
    if batch_tokens is not None and batch_tokens < 1:
        raise DesignError(f"batch_tokens must be a whole number of at least 1, got {batch_tokens}.")
    device = getattr(model, "device", None)
    return batch_tokens or (65536 if getattr(device, "type", "cpu") == "cuda" else 4096)


def finished(folder: Path, run: str, *, fresh: bool) -> AuditLog | None:
    """The complete log of this very run, if the folder holds it and it is wanted."""
    if not (folder / HEADER).exists():
        return None
    header = read_header(folder)
    if header.get("run") != run:
        raise DesignError(
            f"{folder} holds the run {header.get('run')}, which asked for something else: choose another folder with "
            "--out."
        )
    if fresh or header.get("status") != "complete":
        return None
    # Rows that were lost or written over are measured again.
    with suppress(LogError):
        return read_log(folder)
    return None


def write_run(folder: Path, header: Mapping[str, Any], work: Callable[[LogWriter, Tally], None]) -> AuditLog:
    """Do the work under a log that says how it ended, whatever happens."""
    writer = LogWriter(folder, header)
    tally, started = Tally(), time.monotonic()
    try:
        work(writer, tally)
    except BaseException as error:
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        # Where the disk is full the header cannot be written either; the first error is the one to tell.
        with suppress(LogError):
            writer.finish(status, error=str(error) or None, timings=_timings(tally, started))
        raise
    notes = [*writer.header["notes"], *_tally_notes(tally)]
    log = writer.finish("complete", timings=_timings(tally, started), notes=notes)
    assert log is not None
    return log


def _timings(tally: Tally, started: float) -> dict[str, Any]:
    return {
        "seconds": round(time.monotonic() - started, 3),
        "texts_computed": tally.computed,
        "tokens_computed": tally.computed_tokens,
        "texts_from_store": tally.found,
        "batches_halved": tally.halved,
    }


def _tally_notes(tally: Tally) -> list[str]:
    if not tally.halved:
        return []
    return [f"memory ran out and {tally.halved} batches were halved: a smaller --batch-tokens would be faster"]
