"""What embeds units: this process, or other workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from fairspan.embedding.options import EmbedOptions
from fairspan.embedding.shards import ShardSummary
from fairspan.embedding.unit import Unit
from fairspan.embedding.worker import Advance, UnitWorker
from fairspan.errors import CorpusError, FairspanError

# Units that a worker has at a time: one that it computes, and one that it tokenises or writes.
AT_ONCE = 2
_POLL_SECONDS = 0.5
Embed = Callable[[Unit], ShardSummary | None]
"""Writes the shard of a unit; None if that was tried in vain. May be called from several threads.
"""


class Engine(Protocol):
    """Workers that have loaded the same model, of this name and identity."""

    name: str
    identity: dict[str, Any]

    @property
    def workers(self) -> Sequence[Embed]: ...

    def close(self) -> None:
        """End the work; what runs in a worker raises."""


def embed_units(
    engine: Engine, units: Iterable[Unit]
) -> Iterator[tuple[Unit, ShardSummary | None]]:
    """Give units to workers that have room; yields each with its summary. Closes the engine."""
    free = [*engine.workers] * AT_ONCE
    running: dict[Future[ShardSummary | None], tuple[Embed, Unit]] = {}

    def finished() -> Iterator[tuple[Unit, ShardSummary | None]]:
        # Without a timeout, an interrupt would be noticed only after the wait on some systems.
        for done in wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED).done:
            worker, unit = running.pop(done)
            free.append(worker)
            yield unit, done.result()

    pool = ThreadPoolExecutor(len(free))
    failure: CorpusError | None = None
    try:
        try:
            for unit in units:
                while not free:
                    yield from finished()
                worker = free.pop(0)
                running[pool.submit(worker, unit)] = (worker, unit)
        except CorpusError as error:  # of a row that was read ahead: running units may finish
            failure = error
        while running:
            yield from finished()
        if failure is not None:
            raise failure
    finally:
        engine.close()
        pool.shutdown(cancel_futures=True)


class ThisProcess:
    """One worker here; it reports after every batch."""

    def __init__(self, options: EmbedOptions, advance: Advance) -> None:
        self._over = threading.Event()
        self._advance = advance
        worker = UnitWorker(options, advance=self._report)
        self.name, self.identity = worker.open()
        self.workers = [worker.embed]

    def close(self) -> None:
        self._over.set()

    def _report(self, rows: int, tokens: int, amount: float) -> None:
        if self._over.is_set():
            raise FairspanError("the work was stopped.")
        self._advance(rows, tokens, amount)
