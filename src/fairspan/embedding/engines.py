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

from fairspan.embedding.options import EmbedOptions
from fairspan.embedding.shards import Record
from fairspan.embedding.unit import Unit
from fairspan.embedding.worker import DIFFERENT, Advance, UnitWorker
from fairspan.errors import CorpusError, FairspanError

AT_ONCE = 2
"""Units that a worker has at a time: one that it computes, and one that it tokenises or writes."""
_LOOK = 0.5


class Engine(Protocol):
    """Workers that have loaded the same model.

    Attributes:
        name: of the model.
        identity: of the model; see `UnitWorker.open`.
        workers: each embeds a unit, and may be called from several threads.
    """

    name: str
    identity: dict[str, Any]

    @property
    def workers(self) -> Sequence[Callable[[Unit], Record]]: ...

    def close(self) -> None:
        """End the work; what runs in a worker raises."""


def embed_units(engine: Engine, units: Iterable[Unit]) -> Iterator[Record]:
    """Give units to workers that have room; yields what each unit became. Closes the engine."""
    free = [*engine.workers] * AT_ONCE
    running: dict[Future[Record], Callable[[Unit], Record]] = {}

    def finished() -> Iterator[Record]:
        # A wait without an end would not hear an interrupt everywhere.
        for done in wait(running, timeout=_LOOK, return_when=FIRST_COMPLETED).done:
            free.append(running.pop(done))
            yield done.result()

    pool = ThreadPoolExecutor(len(free))
    waiting, failed = iter(units), None
    try:
        while True:
            try:
                unit = next(waiting, None)
            except CorpusError as error:  # of a row behind those that are at work
                unit, failed = None, error
            if unit is None:
                break
            while not free:
                yield from finished()
            worker = free.pop(0)
            running[pool.submit(worker, unit)] = worker
        while running:
            yield from finished()
        if failed is not None:
            raise failed
    finally:
        engine.close()
        pool.shutdown(cancel_futures=True)


class ThisProcess:
    """One worker here; it reports after every batch."""

    def __init__(self, asked: EmbedOptions) -> None:
        self._over = threading.Event()
        self.advance: Advance | None = None
        worker = UnitWorker(asked, asked.devices[0], advance=self._report)
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
    """A process that has a worker, and serves every thread that calls it in a thread of its own."""


_Manager.register("worker", UnitWorker)


class Processes:
    """One process per device. This one reads the input; each of those embeds units and writes their shards."""

    def __init__(self, asked: EmbedOptions) -> None:
        context, devices = multiprocessing.get_context("spawn"), asked.devices
        threads = max(1, (os.cpu_count() or 1) // len(devices))
        self._managers = [_Manager(ctx=context) for _ in devices]
        try:
            for manager in self._managers:
                manager.start(_watch_parent)
            made: list[Any] = [
                manager.worker(asked.for_workers(), device, threads)  # type: ignore[attr-defined]
                for manager, device in zip(self._managers, devices, strict=True)
            ]
            with ThreadPoolExecutor(len(made)) as pool:
                opened = list(
                    pool.map(
                        lambda one: _called(one[0].open, one[1]), zip(made, devices, strict=True)
                    )
                )
            self.name, self.identity = one_of(opened)
        except BaseException:
            self.close()
            raise
        self.workers = [
            partial(_called, worker.embed, device, identity=self.identity)
            for worker, device in zip(made, devices, strict=True)
        ]

    def close(self) -> None:
        for manager in self._managers:
            if hasattr(manager, "shutdown"):  # it has none before it is started
                manager.shutdown()


def one_of(opened: Sequence[tuple[str, dict[str, Any]]]) -> tuple[str, dict[str, Any]]:
    """The name and the identity that all workers share."""
    if any(identity != opened[0][1] for _, identity in opened):
        raise FairspanError(DIFFERENT)
    return opened[0]


def _called(method: Callable[..., Any], device: str | None, *given: Any, **options: Any) -> Any:
    """What a worker in another process answers; whatever went wrong there in one line."""
    try:
        return method(*given, **options)
    except FairspanError:
        raise
    except (EOFError, ConnectionError):
        raise FairspanError(
            f"the process for {device} died, perhaps because memory ran out. Finished shards are kept, and the same "
            "command continues from there."
        ) from None
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise FairspanError(
            f"the process for {device} failed ({type(error).__name__}: {first})."
        ) from None


def _watch_parent() -> None:
    """End this process when the one that started it is gone, however it ended."""

    def look() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=look, daemon=True).start()
