"""`UnitWorker`: a loaded model that turns units into shards, called from several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from fairspan.calibration.calibration import Calibration
from fairspan.corpus.rows import Fault
from fairspan.embedding.options import EmbedOptions
from fairspan.embedding.shards import UNUSABLE, VECTORS, Record, table, write_shard
from fairspan.embedding.unit import Text, Unit, stopped
from fairspan.encoding.direct import DirectEncoder, ReadText, usable
from fairspan.encoding.fill import Tally, batches, embed_batch
from fairspan.errors import DesignError, FairspanError
from fairspan.model.build import calibrate_if_asked
from fairspan.model.transformer import calibrated_transformers
from fairspan.runs.subject import open_subject

Advance = Callable[[int, int, float], None]
"""Called after a batch with the rows and tokens that were read, and how much of the input they are."""
DIFFERENT = "the devices would give different vectors: use devices of one kind, or set dtype."


class UnitWorker:
    """One model on one device.

    While one thread computes, another tokenises the next unit or writes the last one. The model is loaded by `open`,
    or by the first unit, so that a restarted worker needs no further call.

    Args:
        threads: of the CPU that the model uses; None for as many as it would take.
        advance: see `Advance`; what it raises ends the work.
    """

    def __init__(
        self,
        asked: EmbedOptions,
        device: str | None,
        threads: int | None = None,
        advance: Advance | None = None,
    ) -> None:
        self._asked, self._device, self._threads, self._advance = asked, device, threads, advance
        self._opening, self._reading, self._computing = (
            threading.Lock(),
            threading.Lock(),
            threading.Lock(),
        )
        self._opened: tuple[str, dict[str, Any]] | None = None

    def open(self) -> tuple[str, dict[str, Any]]:
        """The name of the model, and its identity: two models that share it give the same vectors up to rounding."""
        with self._opening:
            if self._opened is None:
                self._opened = self._load()
            return self._opened

    def _load(self) -> tuple[str, dict[str, Any]]:
        import torch

        if self._threads is not None:
            torch.set_num_threads(self._threads)
        asked = self._asked
        plain = open_subject(asked.model, loading=asked.loading(self._device))
        calibration = asked.calibration if isinstance(asked.calibration, Calibration) else None
        made = calibrate_if_asked(plain.transformer("embed"), calibration, asked.max_seq_length)
        subject = open_subject(made, name=plain.name)
        self._encoder = encoder = DirectEncoder(made, asked.side, prompt=asked.prompt)
        self._budget = subject.budget(asked.batch_tokens)
        known = {
            "dtype": subject.description["dtype"],
            "prompt": encoder.prompt,
            "window": encoder.window,
            "dimension": encoder.dimension,
            "calibrations": subject.calibrations,
            "fingerprint": subject.fingerprint,
        }
        self._fits = -1  # the most tokens of a text that keeps its vector
        if asked.only_longer_than_window:
            modules = list(calibrated_transformers(made))
            asked.refuse_changing(*(one.calibration for one in modules))
            fits = self._fits = known["plain_window"] = min(
                one.untiled_length or 0 for one in modules
            )
            if not fits or (encoder.window is not None and encoder.window <= fits):
                raise DesignError(
                    f"the plain model reads {f'{fits:,} tokens' if fits else 'any length'}, and this one no "
                    "more: use a larger max_seq_length, or omit it."
                )
        return plain.name, known

    def embed(self, unit: Unit, identity: dict[str, Any]) -> Record:
        """Write the shard of a unit; the model has to be the one of that identity."""
        if self.open()[1] != identity:
            raise FairspanError(DIFFERENT)
        with self._reading:
            texts = self._encoder.read([row.text for row in unit.rows])
        longer = np.array([one.length > self._fits for one in texts], dtype=bool)
        skipped = [row.id for row in compress(unit.rows, ~longer)]
        unit, texts = (
            replace(unit, rows=list(compress(unit.rows, longer))),
            list(compress(texts, longer)),
        )
        with self._computing:
            began = time.monotonic()
            vectors = self._vectors(texts, unit)
            seconds = time.monotonic() - began
        good = usable(vectors)
        bad = [
            _unusable(unit.rows[number], vectors[number])
            for number in np.flatnonzero(~good).tolist()
        ]
        if bad and self._asked.strict:
            raise stopped(bad[0])
        lengths = np.array([one.length for one in texts], dtype=np.int32)[good]
        cut = np.array([one.cut for one in texts], dtype=bool)[good]
        record = Record(
            number=unit.number,
            start=unit.start,
            end=unit.end,
            rows=int(good.sum()),
            truncated=int(cut.sum()),
            tokens=sum(one.read for one in texts),
            seconds=round(seconds, 3),
            rejected=len(unit.rejected) + len(bad),
            skipped=len(skipped),
            faults=sorted([*unit.rejected, *bad], key=lambda one: (one.file, one.row)),
            skipped_ids=skipped,
        )
        ids = [row.id for row in compress(unit.rows, good)]
        rows = table(
            ids, vectors if good.all() else vectors[good], lengths, cut, self._asked.vectors
        )
        write_shard(Path(self._asked.out), record, rows)
        return replace(record, faults=(), skipped_ids=())

    def _vectors(self, texts: Sequence[ReadText], unit: Unit) -> np.ndarray:
        """Vectors of texts in their order, computed in batches of tokens, longest first.

        Which texts share a batch depends on the lengths alone, so that the same texts give the same bits.
        """
        read = [one.read for one in texts]
        whole, size = sum(read), unit.end.done - unit.start.done
        vectors = np.zeros(
            (len(texts), self._encoder.dimension), dtype=VECTORS[self._asked.vectors][0]
        )
        for numbers in batches(read, self._budget):
            found = embed_batch(
                self._encoder.vectors,
                [texts[number] for number in numbers],
                lambda one: one.read,
                Tally(),
                advice="set a max_seq_length, or use a smaller model",
                kept=lambda: "Finished shards are kept.",
            )
            with np.errstate(over="ignore"):  # what float16 cannot hold is infinite, and not usable
                vectors[numbers] = found
            if self._advance is not None:
                done = sum(read[number] for number in numbers)
                self._advance(len(numbers), done, size * done / max(1, whole))
        return vectors


def _unusable(row: Text, vector: np.ndarray) -> Fault:
    why = (
        f"contains NaN, infinity or values beyond {vector.dtype}" if vector.any() else "is all zero"
    )
    return Fault(row.file, row.number, row.id, f"{UNUSABLE} {why}.")
