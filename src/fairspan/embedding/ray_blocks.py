"""What passes through Ray Data: blocks of rows from the input, embedded by actors, written as shards."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from ray.data import Datasource
from ray.data.block import BlockMetadata
from ray.data.datasource import BlockBasedFileDatasink, FilenameProvider, ReadTask

from fairspan.embedding.computing import embed_texts, unusable_rows
from fairspan.embedding.encoder import open_encoder
from fairspan.embedding.ray_checkpoint import Checkpoint
from fairspan.embedding.shards import VECTORS, Record, shard_name, table, write_shard
from fairspan.embedding.source import Input, Item, Place, Rejected, Row
from fairspan.embedding.unit import Unit, cut, stopped
from fairspan.embedding.workers import Job
from fairspan.errors import EncodingError

ROW = "row"
"""Identifies a row inside Ray: the number of its file and its number there, in 64 bits."""
_FILE_BITS = 40

Checked = Callable[[Iterable[Unit]], Iterator[Unit]]
"""Rejects what cannot be embedded as it stands: the second row of an id."""


class Rows(Datasource):
    """The rows of an input from a place on, as one stream of blocks, read by one task."""

    def __init__(self, source: Input, start: Place, most: int, checked: Checked) -> None:
        self._arguments = (source, start, most, checked)

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        arguments = self._arguments
        unknown = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(lambda: read_blocks(*arguments), unknown)]

    def estimate_inmemory_data_size(self) -> int | None:
        return None


def read_blocks(source: Input, start: Place, most: int, checked: Checked) -> Iterator[pa.Table]:
    """The rows of an input, good and bad, each with the places before and after it."""
    ends: dict[tuple[str, int], Place] = {}

    def noted(items: Iterable[Item]) -> Iterator[Item]:
        for found, place in items:
            ends[_where(found)] = place
            yield found, place

    last = start
    for unit in checked(cut(noted(source.items(start)), start, 0 if start == Place() else 1, most)):
        found: dict[tuple[str, int], Row | Rejected] = {_where(one): one for one in unit.rows}
        found |= {_where(one): one for one in unit.rejected}
        after = list(ends.values())
        yield _block([found[where] for where in ends], [last, *after[:-1]], after)
        last = after[-1]
        ends.clear()


def _where(found: Row | Rejected) -> tuple[str, int]:
    return found.file, found.number if isinstance(found, Row) else found.row


def _block(rows: Sequence[Row | Rejected], before: Sequence[Place], after: Sequence[Place]) -> pa.Table:
    good = [row if isinstance(row, Row) else None for row in rows]
    return pa.table(
        {
            ROW: pa.array([place.file << _FILE_BITS | place.row for place in after], pa.int64()),
            "file": pa.array([_utf8(row.file) for row in rows], pa.string()),
            "number": pa.array([place.row for place in after], pa.int64()),
            "id": pa.array([row.id for row in rows], pa.string()),
            "text": pa.array([None if row is None else row.text for row in good], pa.large_string()),
            "reason": pa.array(
                [_utf8(row.reason) if isinstance(row, Rejected) else None for row in rows], pa.string()
            ),
            "before": _lists(np.array(before, dtype=np.int64)),
            "after": _lists(np.array(after, dtype=np.int64)),
        }
    )


def _utf8(text: str) -> str:
    """The name of a file may hold bytes that are no text; they are written as rejected.jsonl writes them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _lists(values: np.ndarray) -> pa.Array:
    """[rows, width] as a column of lists of one length."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])


def _array(column: pa.ChunkedArray) -> np.ndarray:
    """The other way round."""
    flat: np.ndarray = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), -1)


def _place(values: np.ndarray) -> Place:
    return Place(*(int(value) for value in values))


class Embedder:
    """An actor: it has the model, and gives the rows of a block their vectors. Bad rows pass as they are.

    Ray calls it from two threads, so that one block is tokenised while another is computed.
    """

    def __init__(self, job: Job, threads: int, identity: dict[str, Any], strict: bool) -> None:
        import torch

        torch.set_num_threads(threads)
        self._opened = open_encoder(*job)
        if self._opened.identity != identity:
            raise EncodingError(
                "the machines would give different vectors: use devices of one kind, or set [[dtype]]."
            )
        self._strict = strict
        self._reading, self._computing = threading.Lock(), threading.Lock()

    def __call__(self, block: pa.Table) -> pa.Table:
        if not len(block):
            return block
        opened, dtype = self._opened, self._opened.spec.vectors
        rows = [
            Row(one["file"], one["number"], one["id"], one["text"])
            for one in block.select(["file", "number", "id", "text"]).to_pylist()
            if one["text"] is not None
        ]
        with self._reading:
            texts = opened.encoder.read([row.text for row in rows])
        with self._computing:
            began = time.monotonic()
            embedded = embed_texts(opened.encoder, texts, opened.budget, dtype)
            seconds = time.monotonic() - began
        bad = unusable_rows(rows, embedded, dtype)
        if bad and self._strict:
            raise stopped(bad[0])
        why = {(one.file, one.row): one.reason for one in bad}
        found = np.flatnonzero(block["text"].is_valid().to_numpy(zero_copy_only=False))

        def spread(values: Any, empty: np.ndarray) -> np.ndarray:
            empty[found] = values
            return empty

        count, width = len(block), opened.encoder.dimension
        known = block.select(["file", "number", "reason"]).to_pylist()
        reasons = [one["reason"] or why.get((one["file"], one["number"])) for one in known]
        columns = {name: block[name] for name in (ROW, "file", "number", "id", "before", "after")}
        columns |= {
            "reason": pa.array(reasons, pa.string()),
            "vector": _lists(spread(embedded.vectors, np.zeros((count, width), dtype=VECTORS[dtype][0]))),
            "tokens": pa.array(spread(embedded.tokens, np.zeros(count, dtype=np.int32))),
            "read": pa.array(spread([one.read for one in texts], np.zeros(count, dtype=np.int32))),
            "truncated": pa.array(spread(embedded.truncated, np.zeros(count, dtype=bool))),
            "seconds": pa.array(np.full(count, seconds / count)),
        }
        return pa.table(columns)


class _Names(FilenameProvider):
    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self._checkpoint = checkpoint

    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        return shard_name(self._checkpoint.shard(task_index))


class Shards(BlockBasedFileDatasink):
    """Writes every block as a shard. Ray commits its rows to the checkpoint after that."""

    def __init__(self, checkpoint: Checkpoint, dtype: str, done: Sequence[Record]) -> None:
        super().__init__(str(checkpoint.folder), filename_provider=_Names(checkpoint), file_format="parquet")
        self._checkpoint, self._dtype = checkpoint, dtype
        self._done = sorted((record.start, record.end) for record in done)
        self.written = 0

    def on_write_complete(self, write_result: Any) -> None:
        self.written = int(write_result.num_rows)

    def write(self, blocks: Iterable[pa.Table], ctx: Any) -> None:
        given = [block for block in blocks if len(block)]
        if not given:
            return
        block = pa.concat_tables(given)
        before, after = _array(block["before"]), _array(block["after"])
        self._refuse_gaps(before, after)
        good = ~block["reason"].is_valid().to_numpy(zero_copy_only=False)
        keep = block.filter(pa.array(good))
        cut_off = keep["truncated"].to_numpy()
        rejected = [
            Rejected(one["file"], one["number"], one["id"], one["reason"])
            for one in block.filter(pa.array(~good)).select(["file", "number", "id", "reason"]).to_pylist()
        ]
        record = Record(
            number=self._checkpoint.shard(ctx.task_idx),
            start=_place(before[0]),
            end=_place(after[-1]),
            rows=len(keep),
            truncated=int(cut_off.sum()),
            tokens=int(block["read"].to_numpy().sum()),
            seconds=round(float(block["seconds"].to_numpy().sum()), 3),
            refused=len(rejected),
            rejected=rejected,
        )
        vectors = _array(keep["vector"]) if len(keep) else np.zeros((0, block["vector"].type.list_size), np.float32)
        rows = table(keep["id"].to_pylist(), vectors, keep["tokens"].to_numpy(), cut_off, self._dtype)
        write_shard(self._checkpoint.folder, record, rows)

    def _refuse_gaps(self, before: np.ndarray, after: np.ndarray) -> None:
        """A shard stands for all rows from its start to its end: what is not in it must have been done before."""
        for gap in np.flatnonzero((after[:-1] != before[1:]).any(axis=1)):
            reached, start = _place(after[gap]), _place(before[gap + 1])
            for known_start, known_end in self._done:
                if known_start <= reached:
                    reached = max(reached, known_end)
            if reached < start:
                raise EncodingError(f"a block has no rows between {reached} and {start}: Ray joined two blocks.")
