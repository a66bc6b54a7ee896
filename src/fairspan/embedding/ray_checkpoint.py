"""Ray's checkpoint of a folder: which rows are done, and that a killed run's late writers cannot change it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fairspan.embedding.shards import Record, explained
from fairspan.embedding.source import Place

_ROOM = ".ray"
_PENDING = ".pending.parquet"
# Shards of one attempt; Ray tells its files apart by the beginnings of their names, so numbers have the same width.
_SHARDS = 10**7


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The checkpoint of one attempt. Ray commits the rows of a shard here after the shard is written."""

    folder: Path
    attempt: int

    @property
    def path(self) -> Path:
        return _path(self.folder, self.attempt)

    def shard(self, task: int) -> int:
        """The number of the shard that a task writes."""
        return self.attempt * _SHARDS + task

    def remove_uncommitted(self) -> None:
        """Shards without their rows in the checkpoint, and rows in the checkpoint without their shard."""
        with explained(self.folder):
            for pending in self.path.glob(f"*{_PENDING}"):
                pending.unlink()
            committed = {file.name: file for file in self.path.glob("*.parquet")}
            shards = {file.name: file for file in self.folder.glob("part-*.parquet")}
            for name in committed.keys() ^ shards.keys():
                (committed.get(name) or shards[name]).unlink()


def open_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint of the next attempt, with what the last one committed.

    A writer of a killed attempt may still be at work on another machine. It cannot commit any more, because the
    folder of its checkpoint has another name now, and a shard without a commit is removed.
    """
    with explained(folder):
        room = folder / _ROOM
        room.mkdir(parents=True, exist_ok=True)
        last = max((int(one.name.partition("-")[2]) for one in room.glob("checkpoint-*")), default=0)
        checkpoint = Checkpoint(folder, last + 1)
        if last:
            _path(folder, last).rename(checkpoint.path)
        else:
            checkpoint.path.mkdir()
    checkpoint.remove_uncommitted()
    return checkpoint


def remove_checkpoint(folder: Path) -> None:
    """Of a folder that is complete, and says so."""
    shutil.rmtree(folder / _ROOM, ignore_errors=True)


def _path(folder: Path, attempt: int) -> Path:
    return folder / _ROOM / f"checkpoint-{attempt}"


def done_from_start(records: Iterable[Record]) -> tuple[Place, list[Record]]:
    """The place up to which every row of the input is done, and the shards before it."""
    reached, before = Place(), []
    for record in sorted(records, key=lambda one: one.start):
        if record.start > reached:
            break
        reached = max(reached, record.end)
        before.append(record)
    return reached, before
