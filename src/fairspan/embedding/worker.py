"""`UnitWorker`: a loaded model that turns units into shards, called from several threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.calibration import Calibration
from fairspan.embedding.options import EmbedOptions
from fairspan.embedding.shards import VECTORS, ShardSummary, table, write_shard
from fairspan.embedding.unit import Row, Unit
from fairspan.encoding.direct import DirectEncoder, ReadText, usable
from fairspan.encoding.fill import Tally, batches, embed_batch
from fairspan.errors import DesignError
from fairspan.model.build import calibrate_by_default
from fairspan.model.even import NotFinite
from fairspan.model.transformer import calibrated_transformers
from fairspan.runs.embedder import batch_budget
from fairspan.runs.subject import open_subject

Advance = Callable[[int, int, float], None]
"""Called after a batch with its rows and tokens, and how much of the input they are."""


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """What is embedded of a unit.

    Attributes:
        rows: [texts], the number of each text's row in the unit.
        parts: [texts, 3], of each part its number in the row and its characters; None for whole
            texts.
        skipped: how many rows keep the vector they have.
    """

    texts: Sequence[ReadText]
    rows: np.ndarray
    parts: np.ndarray | None
    skipped: int


class UnitWorker:
    """One model on one device.

    While one thread computes, another tokenises the next unit or writes the last one. The model is
    loaded by `open`, or by the first unit, so that a restarted worker needs no further call.
    """

    def __init__(
        self, options: EmbedOptions, threads: int | None = None, advance: Advance | None = None
    ) -> None:
        """A worker on so many `threads` of the CPU; what `advance` raises ends the work."""
        self._options = options
        self._threads = threads
        self._advance = advance
        self._opening = Lock()
        self._reading = Lock()
        self._computing = Lock()
        self._opened: tuple[str, dict[str, Any]] | None = None
        # Texts of up to so many tokens keep the vectors they have.
        self._fits = -1

    def open(self) -> tuple[str, dict[str, Any]]:
        """The model's name and identity, which decides its vectors up to rounding."""
        with self._opening:
            if self._opened is None:
                self._opened = self._load()
            return self._opened

    def _load(self) -> tuple[str, dict[str, Any]]:
        """Load and calibrate the model; its name and identity."""
        import torch

        if self._threads is not None:
            torch.set_num_threads(self._threads)
        options = self._options
        plain = open_subject(options.model, loading=options.loading)
        calibration = options.calibration if isinstance(options.calibration, Calibration) else None
        model = plain.transformer("embed")
        prompt = options.prompt if options.side == "document" else None
        model = calibrate_by_default(model, calibration, options.max_seq_length, prompt)
        subject = open_subject(model, name=plain.name)
        self._encoder = DirectEncoder(model, options.side, prompt=options.prompt)
        self._budget = batch_budget(model, options.batch_tokens)
        identity = {
            "calibrations": subject.calibrations,
            "dtype": subject.dtype,
            "prompt": self._encoder.prompt,
            "window": self._encoder.window,
            "dimension": self._encoder.dimension,
            # It also decides the common direction, if that was found here.
            "fingerprint": plain.fingerprint,
        }
        if options.only_longer_than_window:
            self._fits = self._most_kept(model)
            identity["plain_window"] = self._fits
        return plain.name, identity

    def _most_kept(self, model: SentenceTransformer) -> int:
        """The most tokens of a text that keeps its vector; raise if the model reads no longer
        texts."""
        modules = list(calibrated_transformers(model))
        self._options.refuse_changing(*(module.calibration for module in modules))
        fits = min(module.tiling.at_once for module in modules if module.tiling is not None)
        window = self._encoder.window
        if window is not None and window <= fits:
            raise DesignError(
                f"texts of up to {fits:,} tokens keep their plain vectors, and this model reads no "
                "longer ones: use a larger max_seq_length, or omit it."
            )
        return fits

    def embed(self, unit: Unit) -> ShardSummary:
        """Write the shard of a unit; its summary."""
        self.open()
        with self._reading:
            read = self._read(unit.rows)
        with self._computing:
            began = time.monotonic()
            vectors = self._vectors(read.texts, unit.amount)
            seconds = time.monotonic() - began
        rows = [*unit.rows]
        for number in np.flatnonzero(~usable(vectors)):
            row = read.rows[number]
            rows[row] = replace(rows[row], fault=_fault(vectors[number]))
            if self._options.strict:
                raise rows[row].stopped()
        # A document without one of its parts would be found by the others alone.
        good = [number for number, row in enumerate(read.rows) if not rows[row].fault]
        texts = [read.texts[number] for number in good]
        cut = np.array([text.cut for text in texts], dtype=bool)
        faults = [row for row in rows if row.fault]
        summary = ShardSummary(
            number=unit.number,
            rows=len(good),
            truncated=int(cut.sum()),
            tokens=sum(text.read for text in read.texts),
            seconds=round(seconds, 3),
            rejected=len(faults),
            skipped=read.skipped,
            texts=unit.digest,
        )
        columns = table(
            [rows[row].id for row in read.rows[good]],
            None if read.parts is None else read.parts[good],
            vectors if len(good) == len(vectors) else vectors[good],
            np.array([text.length for text in texts], dtype=np.int32),
            cut,
            self._options.storage,
        )
        write_shard(Path(self._options.out), summary, faults, columns)
        return summary

    def _read(self, rows: Sequence[Row]) -> _Read:
        """The texts of rows, or of their parts, without rows that keep the vectors they have."""
        rule = self._options.part_rule
        numbers = np.array([n for n, row in enumerate(rows) if not row.fault], dtype=np.int64)
        count = len(numbers)
        if rule is None or self._fits >= 0:
            texts = self._encoder.read([rows[number].text for number in numbers])
            longer = [text.length > self._fits for text in texts]
            numbers = numbers[longer]
            if rule is None:
                texts = list(compress(texts, longer))
                return _Read(texts, numbers, None, count - len(numbers))
        spans_of = self._encoder.parts([rows[number].text for number in numbers], rule)
        parts = np.array(
            [
                (row, number, *span)
                for row, spans in zip(numbers, spans_of, strict=True)
                for number, span in enumerate(spans)
            ],
            dtype=np.int32,
        ).reshape(-1, 4)
        texts = self._encoder.read([rows[row].text[start:end] for row, _, start, end in parts])
        return _Read(texts, parts[:, 0], parts[:, 1:], count - len(numbers))

    def _vectors(self, texts: Sequence[ReadText], amount: int) -> np.ndarray:
        """[texts, dimension], of texts that are so much of the input.

        Which texts share a batch depends on the lengths alone, so that the same texts give the same
        bits.
        """
        lengths = [text.read for text in texts]
        dtype = VECTORS[self._options.storage][0]
        vectors = np.zeros((len(texts), self._encoder.dimension), dtype=dtype)
        for numbers in batches(lengths, self._budget):
            computed = embed_batch(
                self._pass,
                [texts[number] for number in numbers],
                lambda text: text.read,
                Tally(),
                advice="set a max_seq_length, or use a smaller model",
                kept=lambda: "Finished shards are kept.",
            )
            with np.errstate(over="ignore"):  # what float16 cannot hold is infinite, and not usable
                vectors[numbers] = computed
            if self._advance is not None:
                tokens = sum(lengths[number] for number in numbers)
                self._advance(len(numbers), tokens, amount * tokens / max(1, sum(lengths)))
        if self._advance is not None and not lengths:
            self._advance(0, 0, amount)
        return vectors

    def _pass(self, batch: Sequence[ReadText]) -> np.ndarray:
        """[texts, dimension], with NaN for a text that cannot be pooled evenly."""
        try:
            return self._encoder.vectors(batch)
        except NotFinite:
            if len(batch) == 1:
                return np.full((1, self._encoder.dimension), np.nan)
            middle = len(batch) // 2
            return np.concatenate([self._pass(batch[:middle]), self._pass(batch[middle:])])


def _fault(vector: np.ndarray) -> str:
    """Why a vector cannot be used."""
    reason = "is all zero"
    if vector.any():
        reason = f"contains NaN, infinity or values beyond {vector.dtype}"
    return f"the model's vector {reason}."
