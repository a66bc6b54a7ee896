"""`Workers`: one process per device. This one reads the input; each of those embeds units and writes their shards."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fairspan.embedding.computing import Advance
from fairspan.embedding.shards import Record
from fairspan.embedding.spec import EmbedSpec
from fairspan.embedding.unit import Unit
from fairspan.errors import EncodingError, FairspanError
from fairspan.model.source import Loading

Job = tuple[str, EmbedSpec, Loading, int | None]
"""The model, what is asked of it, how it is loaded, and the tokens in a batch."""

# Units that a process has: one that it writes, one that it computes, one that it tokenises.
_AT_ONCE = 3


class Workers:
    """Processes that have loaded the same model.

    Attributes:
        identity: of the model; see `Opened`.
    """

    def __init__(self, jobs: list[Job]) -> None:
        self.name = jobs[0][0]
        context = multiprocessing.get_context("spawn")
        threads = max(1, (os.cpu_count() or 1) // len(jobs))
        self._jobs = jobs
        self._processes: list[BaseProcess] = []
        self._pipes: list[Connection] = []
        try:
            for job in jobs:
                mine, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs, job, threads), daemon=True)
                process.start()
                theirs.close()
                self._processes.append(process)
                self._pipes.append(mine)
            identities = [self._next(number)[1] for number in range(len(jobs))]
        except BaseException:
            self.close()
            raise
        self.identity: dict[str, Any] = identities[0]
        if any(one != self.identity for one in identities):
            self.close()
            raise EncodingError(
                "the devices would give different vectors: name devices of one kind, or a [[dtype=]]."
            )

    def embed(self, units: Iterable[Unit], folder: Path, *, strict: bool, advance: Advance) -> Iterator[Record]:
        """Send units to the processes; yields the record of each shard when it is written."""
        for pipe in self._pipes:
            pipe.send((folder, strict))
        waiting, at_work = iter(units), [0] * len(self._pipes)
        more = True
        while True:
            while more and min(at_work) < _AT_ONCE:
                unit = next(waiting, None)
                if unit is None:
                    more = False
                    for number in range(len(self._pipes)):
                        self._send(number, None)
                    break
                number = at_work.index(min(at_work))
                self._send(number, unit)
                at_work[number] += 1
            if not any(at_work):
                return
            ready = wait(self._pipes)
            for number, pipe in enumerate(self._pipes):
                if pipe in ready:
                    kind, said = self._next(number)
                    if kind == "batch":
                        advance(*said)
                    else:
                        at_work[number] -= 1
                        yield said

    def close(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()
        for pipe in self._pipes:
            pipe.close()

    def _send(self, number: int, unit: Unit | None) -> None:
        try:
            self._pipes[number].send(unit)
        except OSError:
            self._next(number)
            raise self._died(number) from None

    def _next(self, number: int) -> tuple[str, Any]:
        """What a process says next; raise what it raised, or that it is no longer there."""
        try:
            kind, said = self._pipes[number].recv()
        except (EOFError, OSError):
            raise self._died(number) from None
        if kind == "failed":
            raise said
        return kind, said

    def _died(self, number: int) -> EncodingError:
        process = self._processes[number]
        process.join(5)
        code = process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        return EncodingError(
            f"the process for {self._jobs[number][2].device} {how}, perhaps for lack of memory. Finished shards are "
            "kept, and the same command continues from there."
        )


def _work(pipe: Connection, job: Job, threads: int) -> None:
    """The life of one process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it and ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        import torch

        from fairspan.embedding.encoder import open_encoder

        torch.set_num_threads(threads)
        opened = open_encoder(*job)
        pipe.send(("ready", opened.identity))
        folder, strict = pipe.recv()
        units = iter(pipe.recv, None)
        lock = threading.Lock()

        def say(*words: Any) -> None:
            with lock:
                pipe.send(words)

        for record in opened.embed(units, folder, strict=strict, advance=lambda *done: say("batch", done)):
            say("done", record)
    except EOFError:
        pass
    except FairspanError as error:
        pipe.send(("failed", error))
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        pipe.send(
            ("failed", EncodingError(f"a process for {job[2].device} failed ({type(error).__name__}: {first})."))
        )


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
