"""Several jobs at a time that wait for something else, such as requests to a server."""

from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_parallel(work: Callable[[Job], Result], jobs: Sequence[Job], count: int) -> Iterator[tuple[Job, Result]]:
    """The results of jobs as they come, with at most `count` under way.

    After a failure no further job begins; those under way are waited for and given, and then the failure is raised.
    Whoever is interrupted meanwhile does not wait for them.
    """
    if count == 1 or len(jobs) < 2:
        for job in jobs:
            yield job, work(job)
        return
    waiting: SimpleQueue[Job] = SimpleQueue()
    done: SimpleQueue[tuple[Job, Result] | BaseException | None] = SimpleQueue()
    over = Event()
    for job in jobs:
        waiting.put(job)

    def take_turns() -> None:
        try:
            while not over.is_set():
                job = waiting.get_nowait()
                done.put((job, work(job)))
        except Empty:
            pass
        except BaseException as error:
            over.set()
            done.put(error)
        done.put(None)

    running = min(count, len(jobs))
    for _ in range(running):
        Thread(target=take_turns, daemon=True).start()
    failure: BaseException | None = None
    try:
        while running:
            match done.get():
                case None:
                    running -= 1
                case BaseException() as error:
                    failure = failure or error
                case result:
                    yield result
    finally:
        over.set()
    if failure is not None:
        raise failure
