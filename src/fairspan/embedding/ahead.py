"""Work that runs in a thread while the model computes: what comes next is read, what is done is written."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import Empty, Full, Queue
from typing import TypeVar

Made = TypeVar("Made")
_WAIT = 0.2


def ahead(making: Iterable[Made], most: int = 1) -> Iterator[Made]:
    """The same one by one, made in a thread that is at most `most` ahead; what it raises is raised here."""
    ready: Queue[tuple[Made | None, BaseException | None]] = Queue(most)
    over = threading.Event()

    def put(made: Made | None, error: BaseException | None) -> bool:
        while not over.is_set():
            try:
                ready.put((made, error), timeout=_WAIT)
                return True
            except Full:
                continue
        return False

    def work() -> None:
        error: BaseException | None = StopIteration()
        try:
            for made in making:
                if not put(made, None):
                    return
        except BaseException as caught:
            error = caught
        put(None, error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            try:
                made, error = ready.get(timeout=_WAIT)  # a wait without an end would not hear an interrupt
            except Empty:
                continue
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield made  # type: ignore[misc]
    finally:
        over.set()
