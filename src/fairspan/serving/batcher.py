"""`Batcher`: texts of many requests, in batches, through one model in one thread."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from fairspan.encoding.direct import DirectEncoder, ReadText

Result = TypeVar("Result")


class QueueFull(Exception):  # noqa: N818 - a state, which passes
    """There is no room for a request now; `seconds` is when there may be."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the queue is full for about {seconds:.0f} s")
        self.seconds = seconds


class PassFailed(Exception):  # noqa: N818 - says what happened
    """The model raised an error for one text, though it was alone in its batch."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(str(error))
        self.index, self.error = index, error


class Watch:
    """Is told what happens; this one does nothing."""

    def batch(self, texts: int, tokens: int, padded: int, seconds: float) -> None:
        """A batch was run; it had so many tokens, and so many with padding."""

    def begun(self, seconds: float) -> None:
        """A request had its first batch, after so many seconds in the queue."""

    def failed(self, error: Exception) -> None:
        """A pass raised an error."""


@dataclass(slots=True, eq=False)
class _Job:
    """The texts of one request."""

    encoder: DirectEncoder
    future: asyncio.Future[np.ndarray]
    loop: asyncio.AbstractEventLoop
    missing: int
    tokens: int
    came: float
    served: float
    begun: bool = False
    vectors: np.ndarray | None = None


@dataclass(slots=True, eq=False)
class _Waiting:
    job: _Job
    place: int
    text: ReadText


class Batcher:
    """Runs one model in one thread, on batches of texts that came with any request.

    Of what waits, the longest texts go first, with others of about their length, so that little is padded. A request
    of which nothing was run for `age` seconds goes before longer ones.

    Args:
        budget: tokens in a batch, padding included. A longer text is a batch of its own.
        room: tokens that may wait or be in the model at a time.
        patience: for how many seconds a batch that is not full waits for requests that are being read.
        age: for how many seconds a request waits behind longer ones.
        pass_tokens: what a pass costs besides its tokens, in tokens. Padding up to that is cheaper than another pass.
    """

    def __init__(
        self,
        *,
        budget: int = 8192,
        room: int = 1_000_000,
        patience: float = 0.002,
        age: float = 0.1,
        pass_tokens: int = 64,
        watch: Watch | None = None,
    ) -> None:
        self.budget, self.room, self.patience, self.age = budget, room, patience, age
        self.pass_tokens, self.speed = pass_tokens, 0.0
        self.broken: Exception | None = None
        self._watch = watch or Watch()
        self._changed = threading.Condition()
        self._waiting: dict[DirectEncoder, list[_Waiting]] = {}
        self._jobs: set[_Job] = set()
        self._calls: deque[Callable[[], None]] = deque()
        self._coming, self._tokens, self._closed = 0, 0, False
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    @property
    def requests(self) -> int:
        """Requests that wait or are in the model."""
        return len(self._jobs)

    @property
    def tokens(self) -> int:
        """Tokens of texts that wait or are in the model."""
        return self._tokens

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout: float | None = None) -> bool:
        """Finish what waits, and end the thread; whether it ended in time."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    @contextmanager
    def coming(self) -> Iterator[None]:
        """While texts of a request are being read, a batch may wait for them."""
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    async def call(self, work: Callable[[], Result]) -> Result:
        """What `work` returns, run in the model's thread between two batches."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                result = work()
            except Exception as error:
                loop.call_soon_threadsafe(_fail, future, error)
            else:
                loop.call_soon_threadsafe(_finish, future, result)

        with self._changed:
            self.refuse_if_full(0)
            self._calls.append(run)
            self._changed.notify()
        return await future

    async def vectors(self, encoder: DirectEncoder, texts: Sequence[ReadText]) -> np.ndarray:
        """[texts, dimension]: the vectors of a request. Cancelled, its texts leave the queue.

        Raises:
            QueueFull: if there is no room.
            PassFailed: if the model raised an error for one of the texts.
        """
        tokens = sum(text.read for text in texts)
        loop, now = asyncio.get_running_loop(), time.monotonic()
        job = _Job(encoder, loop.create_future(), loop, len(texts), tokens, now, now)
        with self._changed:
            self.refuse_if_full(tokens)
            self._tokens += tokens
            self._jobs.add(job)
            waiting = self._waiting.setdefault(encoder, [])
            waiting.extend(_Waiting(job, place, text) for place, text in enumerate(texts))
            waiting.sort(key=_length, reverse=True)
            self._changed.notify()
        try:
            return await job.future
        finally:
            if not job.future.done() or job.future.cancelled():
                self._forget(job)

    def refuse_if_full(self, tokens: int) -> None:
        """Raise `QueueFull` if so many tokens cannot be taken now."""
        over = self._tokens + tokens - self.room
        if self._closed or (self._tokens and over > 0):
            raise QueueFull(over / self.speed if self.speed else 1.0)

    def _forget(self, job: _Job) -> None:
        """Take a request's texts out of the queue; those in the model are finished for nothing."""
        with self._changed:
            if job in self._jobs:
                self._end(job)
                waiting = self._waiting[job.encoder]
                waiting[:] = [one for one in waiting if one.job is not job]

    def _end(self, job: _Job) -> None:
        self._jobs.remove(job)
        self._tokens -= job.tokens

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._calls or self._closed or any(self._waiting.values())):
                    self._changed.wait()
                call = self._calls.popleft() if self._calls else None
                if call is None:
                    self._wait_for_more()
                    batch = self._take()
                    if not batch and self._closed:
                        return
            if call is not None:
                call()
            elif batch:
                self._pass(batch)

    def _wait_for_more(self) -> None:
        """Patience: until the batch is full, nobody comes any more, or the first has waited long enough."""
        end = time.monotonic() + self.patience
        while self._coming and not self._closed and not self._calls:
            longest = max((waiting[0].text.read for waiting in self._waiting.values() if waiting), default=0)
            left = end - time.monotonic()
            if left <= 0 or longest * sum(map(len, self._waiting.values())) >= self.budget:
                return
            self._changed.wait(left)

    def _take(self) -> list[_Waiting]:
        """The next batch, out of the queue."""
        some = [waiting for waiting in self._waiting.values() if waiting]
        if not some:
            return []
        oldest, now = min(self._jobs, key=_served), time.monotonic()
        if now - oldest.served > self.age:
            waiting = self._waiting[oldest.encoder]
            first = next(place for place, one in enumerate(waiting) if one.job is oldest)
        else:
            waiting, first = max(some, key=lambda part: part[0].text.read), 0
        lengths = [one.text.read for one in waiting[first:]]
        end = first + best_size(lengths, self.budget, self.pass_tokens)
        batch = waiting[first:end]
        del waiting[first:end]
        for job in {one.job for one in batch}:
            if not job.begun:
                job.begun = True
                self._watch.begun(now - job.came)
            job.served = now
        return batch

    def _pass(self, batch: list[_Waiting]) -> None:
        texts = [one.text for one in batch]
        tokens = sum(text.read for text in texts)
        start = time.monotonic()
        try:
            vectors = batch[0].job.encoder.vectors(texts)
            if len(vectors) != len(texts):
                raise ValueError(f"the model gave {len(vectors)} vectors for {len(texts)} texts")
        except Exception as error:
            self._watch.failed(error)
            if _is_final(error):
                self.broken = error
            self._retry(batch, error)
            return
        seconds = time.monotonic() - start
        self._watch.batch(len(batch), tokens, len(batch) * max(text.read for text in texts), seconds)
        speed = tokens / max(seconds, 1e-6)
        self.speed = speed if not self.speed else 0.8 * self.speed + 0.2 * speed
        finished = []
        with self._changed:
            for one, vector in zip(batch, vectors, strict=True):
                job = one.job
                if job.vectors is None:
                    job.vectors = np.empty((job.missing, len(vector)), dtype=vectors.dtype)
                job.vectors[one.place] = vector
                job.missing -= 1
                if not job.missing and job in self._jobs:
                    self._end(job)
                    finished.append(job)
        # One wake-up of the event loop for all of them.
        for loop in {job.loop for job in finished}:
            loop.call_soon_threadsafe(_finish_all, [job for job in finished if job.loop is loop])

    def _retry(self, batch: list[_Waiting], error: Exception) -> None:
        """Halves of a batch that failed, until the text that fails is alone: others are not to suffer for it."""
        batch = [one for one in batch if one.job in self._jobs]
        if len(batch) > 1 and self.broken is None:
            _release_memory()
            middle = len(batch) // 2
            self._pass(batch[:middle])
            self._pass(batch[middle:])
            return
        for one in batch:
            self._forget(one.job)
            one.job.loop.call_soon_threadsafe(_fail, one.job.future, PassFailed(one.place, error))


def best_size(lengths: Sequence[int], budget: int, pass_tokens: int) -> int:
    """How many of the longest texts make a batch, given the lengths of all that wait, longest first.

    As many as the budget holds, or fewer if the shorter ones are cheaper in a pass of their own, which costs
    `pass_tokens` besides its tokens.

    >>> best_size([100, 90, 10, 10], 1000, 64)
    2
    >>> best_size([100, 90, 80], 1000, 64)
    3
    >>> best_size([100, 90, 80], 200, 64)
    2
    """
    width = max(1, lengths[0])
    most = max(1, min(len(lengths), budget // width))
    # What fits is split once at most; the rest is split when it is its turn.
    costs = [width * most, *(width * size + pass_tokens + lengths[size] * (most - size) for size in range(1, most))]
    best = min(range(most), key=costs.__getitem__)
    return best or most


def _length(one: _Waiting) -> int:
    return one.text.read


def _served(job: _Job) -> float:
    return job.served


def _finish_all(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        assert job.vectors is not None
        _finish(job.future, job.vectors)


def _finish(future: asyncio.Future[Result], result: Result) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Result], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _is_final(error: Exception) -> bool:
    """Whether no later pass can succeed: after such an error CUDA refuses everything until the process ends."""
    return "CUDA error" in str(error)


def _release_memory() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
