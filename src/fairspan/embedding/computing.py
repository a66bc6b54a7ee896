"""From units to shards: the next unit is read and tokenised, and the last one written, while the model computes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fairspan.embedding.ahead import ahead
from fairspan.embedding.shards import UNUSABLE, VECTORS, Record, table, write_shard
from fairspan.embedding.source import Rejected, Row
from fairspan.embedding.unit import Unit, stopped
from fairspan.encoding.direct import DirectEncoder, ReadText, usable
from fairspan.encoding.fill import OutOfMemory, batches, within_memory
from fairspan.errors import EncodingError, FairspanError

Advance = Callable[[int, float], None]
"""Called after a batch with the tokens that were read, and which part of the texts, or of the input, they are."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """The columns of a shard, before rows without a usable vector are left out."""

    vectors: np.ndarray
    tokens: np.ndarray
    truncated: np.ndarray
    good: np.ndarray


def embed_texts(
    encoder: DirectEncoder, texts: Sequence[ReadText], budget: int, dtype: str, advance: Advance | None = None
) -> Embedded:
    """Vectors of texts in their order, computed in batches of `budget` tokens, longest first.

    Which texts share a batch depends on the lengths alone, so that the same texts give the same bits.
    """
    read = [one.read for one in texts]
    whole = sum(read)
    vectors = np.zeros((len(texts), encoder.dimension), dtype=VECTORS[dtype][0])
    waiting = batches(read, budget)[::-1]
    while waiting:
        numbers = waiting.pop()
        try:
            found = _vectors(encoder, [texts[number] for number in numbers])
        except OutOfMemory as error:
            if len(numbers) == 1:
                raise EncodingError(
                    f"one text of {read[numbers[0]]:,} tokens does not fit into memory ({error}): set a "
                    "[[max_seq_length=]], or use a smaller model. Finished shards are kept."
                ) from None
            middle = (len(numbers) + 1) // 2
            waiting += [numbers[middle:], numbers[:middle]]
            continue
        with np.errstate(over="ignore"):  # what float16 cannot hold is infinite, and not usable
            vectors[numbers] = found
        if advance is not None:
            done = sum(read[number] for number in numbers)
            advance(done, done / max(1, whole))
    tokens = np.array([one.length for one in texts], dtype=np.int32)
    truncated = np.array([one.cut for one in texts], dtype=bool)
    return Embedded(vectors, tokens, truncated, usable(vectors))


def embed_units(
    encoder: DirectEncoder,
    units: Iterable[Unit],
    folder: Path,
    *,
    budget: int,
    dtype: str,
    strict: bool,
    advance: Advance,
) -> Iterator[Record]:
    """Write a shard for every unit; yields what was written, a unit later than it was computed."""

    def read() -> Iterator[tuple[Unit, list[ReadText]]]:
        for unit in units:
            yield unit, encoder.read([row.text for row in unit.rows])

    writing: Future[Record] | None = None
    with ThreadPoolExecutor(1) as writer:
        for unit, texts in ahead(read()):
            began = time.monotonic()
            embedded = embed_texts(encoder, texts, budget, dtype, _scaled(advance, unit))
            seconds = time.monotonic() - began
            if writing is not None:
                yield writing.result()
            bad = unusable_rows(unit.rows, embedded, dtype)
            if strict and bad:
                raise stopped(bad[0])
            tokens = sum(one.read for one in texts)
            writing = writer.submit(_write, folder, unit, embedded, bad, tokens, seconds, dtype)
        if writing is not None:
            yield writing.result()


def _scaled(advance: Advance, unit: Unit) -> Advance:
    size = unit.end.done - unit.start.done
    return lambda tokens, part: advance(tokens, part * size)


def _write(
    folder: Path, unit: Unit, embedded: Embedded, bad: Sequence[Rejected], tokens: int, seconds: float, dtype: str
) -> Record:
    good, cut = embedded.good, embedded.truncated
    record = Record(
        number=unit.number,
        start=unit.start,
        end=unit.end,
        rows=int(good.sum()),
        truncated=int((good & cut).sum()),
        tokens=tokens,
        seconds=round(seconds, 3),
        refused=len(unit.rejected) + len(bad),
        rejected=sorted([*unit.rejected, *bad], key=Rejected.place),
    )
    ids = [row.id for row, is_good in zip(unit.rows, good, strict=True) if is_good]
    whole = good.all()
    vectors = embedded.vectors if whole else embedded.vectors[good]
    write_shard(folder, record, table(ids, vectors, embedded.tokens[good], cut[good], dtype))
    return replace(record, rejected=())


def unusable_rows(rows: Sequence[Row], embedded: Embedded, dtype: str) -> list[Rejected]:
    """The rows whose vectors cannot be used, with the reason."""
    if embedded.good.all():
        return []
    found = []
    for number in np.flatnonzero(~embedded.good).tolist():
        zero = not embedded.vectors[number].any()
        why = "is all zero" if zero else f"holds NaN, infinity or what {dtype} cannot hold"
        row = rows[number]
        found.append(Rejected(row.file, row.number, row.id, f"{UNUSABLE} {why}."))
    return found


def _vectors(encoder: DirectEncoder, batch: Sequence[ReadText]) -> np.ndarray:
    try:
        return within_memory(lambda: encoder.vectors(batch))
    except (FairspanError, OutOfMemory):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise EncodingError(
            f"the model failed on a batch of {len(batch)} texts of up to {max(one.read for one in batch):,} tokens "
            f"({type(error).__name__}: {reason}). Finished shards are kept."
        ) from error
