"""What embeds units: this process, one process per device, or other workers."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from multiprocessing.managers import BaseManager
from typing import Any, Protocol

from fairspan.corpus.processes import end_with_parent
from fairspan.embedding.options import EmbedOptions
from fairspan.embedding.shards import ShardSummary
from fairspan.embedding.unit import Unit
from fairspan.embedding.worker import DIFFERENT, Advance, UnitWorker
from fairspan.errors import CorpusError, FairspanError, first_line

# Units that a worker has at a time: one that it computes, and one that it tokenises or writes.
AT_ONCE = 2
_POLL_SECONDS = 0.5
Embed = Callable[[Unit], ShardSummary]
Opened = tuple[str, dict[str, Any]]
"""The name of a model and its identity."""


class Engine(Protocol):
    """Workers that have loaded the same model, of this name and identity.

    Each embeds a unit, and may be called from several threads.
    """

    name: str
    identity: dict[str, Any]

    @property
    def workers(self) -> Sequence[Embed]: ...

    def close(self) -> None:
        """End the work; what runs in a worker raises."""


def embed_units(engine: Engine, units: Iterable[Unit]) -> Iterator[ShardSummary]:
    """Give units to workers that have room; yields the summary of each. Closes the engine."""
    free = [*engine.workers] * AT_ONCE
    running: dict[Future[ShardSummary], Embed] = {}

    def finished() -> Iterator[ShardSummary]:
        # Without a timeout, an interrupt would be noticed only after the wait on some systems.
        for done in wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED).done:
            free.append(running.pop(done))
            yield done.result()

    pool = ThreadPoolExecutor(len(free))
    failure: CorpusError | None = None
    try:
        try:
            for unit in units:
                while not free:
                    yield from finished()
                worker = free.pop(0)
                running[pool.submit(worker, unit)] = worker
        except CorpusError as error:  # of a row behind those that are being embedded
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

    def __init__(self, options: EmbedOptions) -> None:
        self._over = threading.Event()
        self.advance: Advance | None = None
        worker = UnitWorker(options, options.devices[0], advance=self._report)
        self.name, self.identity = worker.open()
        self.workers = [partial(worker.embed, identity=self.identity)]

    def close(self) -> None:
        self._over.set()

    def _report(self, rows: int, tokens: int, amount: float) -> None:
        if self._over.is_set():
            raise FairspanError("the work was stopped.")
        if self.advance is not None:
            self.advance(rows, tokens, amount)


class _Manager(BaseManager):
    """A process that has a worker, and runs each call of it in a thread of its own."""


_Manager.register("worker", UnitWorker)


class Processes:
    """One process per device, which embeds units and writes shards. This one reads the input."""

    def __init__(self, options: EmbedOptions) -> None:
        """Start the processes, and load the model in all of them at once."""
        context = multiprocessing.get_context("spawn")
        threads = max(1, (os.cpu_count() or 1) // len(options.devices))
        self._managers = [_Manager(ctx=context) for _ in options.devices]
        self.workers: list[Embed] = []
        opening: list[Callable[[], Opened]] = []
        try:
            for manager, device in zip(self._managers, options.devices, strict=True):
                manager.start(end_with_parent)
                make: Any = manager.worker  # type: ignore[attr-defined]
                worker = make(options.for_workers(), device, threads)
                opening.append(partial(_call, device, worker.open))
                self.workers.append(partial(self._embed, device, worker))
            with ThreadPoolExecutor(len(opening)) as pool:
                opened = list(pool.map(lambda open: open(), opening))
            self.name, self.identity = same_model(opened)
        except BaseException:
            self.close()
            raise

    def _embed(self, device: str | None, worker: Any, unit: Unit) -> Any:
        return _call(device, worker.embed, unit, self.identity)

    def close(self) -> None:
        for manager in self._managers:
            if hasattr(manager, "shutdown"):  # it has none before it is started
                manager.shutdown()


def same_model(opened: Sequence[Opened]) -> Opened:
    """The name and the identity that all workers share."""
    if any(identity != opened[0][1] for _, identity in opened):
        raise FairspanError(DIFFERENT)
    return opened[0]


def _call(device: str | None, method: Callable[..., Any], *arguments: Any) -> Any:
    """What a worker in another process returns; its errors in one line."""
    try:
        return method(*arguments)
    except FairspanError:
        raise
    except (EOFError, ConnectionError):
        raise FairspanError(
            f"the process for {device} died, perhaps because memory ran out. Finished shards are "
            "kept, and the same command continues from there."
        ) from None
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise FairspanError(f"the process for {device} failed ({reason}).") from None
