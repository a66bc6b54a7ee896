"""`Batcher`: texts of many requests, in batches, through one model in one thread."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fairspan.errors import first_line, require_whole
from fairspan.serving.metrics import Metrics
from fairspan.serving.protocol import Refusal, busy

if TYPE_CHECKING:
    from fairspan.encoding.direct import DirectEncoder, ReadText

Result = TypeVar("Result")

_log = logging.getLogger("fairspan.serving")
_MOST_ASIDES = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a server takes at a time.

    Attributes:
        batch_tokens: tokens of a batch, padding included; None for 4,096 on a CPU and 16,384 elsewhere.
        inputs: texts of a request.
        request_tokens: tokens of a request.
        request_bytes: bytes of a request's body; None for 16 per token that it may have, at least 1 MB.
        queue_tokens: tokens of all requests that wait or are in the model. One that comes first may have more.
    """

    batch_tokens: int | None = None
    inputs: int = 2048
    request_tokens: int = 300_000
    request_bytes: int | None = None
    queue_tokens: int = 1_000_000

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None:
                require_whole(f"max_{one.name}", value)

    @property
    def body_bytes(self) -> int:
        return self.request_bytes or max(16 * self.request_tokens, 10**6)


@dataclass(slots=True, eq=False)
class _Job:
    """The texts of one request, and their vectors as they come."""

    encoder: DirectEncoder
    future: asyncio.Future[Refusal | None]
    vectors: dict[int, np.ndarray]
    missing: int
    tokens: int
    came: float
    served: float


@dataclass(slots=True, eq=False)
class _Waiting:
    job: _Job
    place: int
    text: ReadText


class Batcher:
    """Runs one model in one thread, on batches of texts that came with any request.

    What comes while a batch runs waits. Of what waits, the longest texts go first, with others of about their length,
    so that little is padded. A request without progress for `age` seconds goes before longer ones. The queue
    belongs to the event loop; only the model runs in the thread.

    Args:
        budget: tokens in a batch, padding included. A longer text is a batch of its own.
        room: tokens that may wait or be in the model at a time.
        age: for how many seconds a request waits behind longer ones.
        pass_tokens: what a pass costs besides its tokens, in tokens. Padding up to that is cheaper than another pass.

    Attributes:
        tokens: of texts that wait or are in the model.
        speed: tokens of a second, lately; 0 before the first pass.
        broken: the error after which the device takes nothing more.
    """

    def __init__(
        self,
        *,
        budget: int = 8192,
        room: int = 1_000_000,
        age: float = 0.1,
        pass_tokens: int = 64,
        metrics: Metrics | None = None,
    ) -> None:
        self.budget, self.room, self.age = budget, room, age
        self.pass_tokens, self.speed, self.tokens = pass_tokens, 0.0, 0
        self.broken: Exception | None = None
        self.metrics = metrics or Metrics()
        self.metrics.watch_queue(lambda: self.requests, lambda: self.tokens)
        self._waiting: dict[DirectEncoder, list[_Waiting]] = {}
        self._jobs: set[_Job] = set()
        self._passes: asyncio.Task[None] | None = None
        # Whoever runs the model holds it.
        self._model, self._calls, self._asides = threading.Lock(), 0, 0
        self._thread, self._aside_thread = (
            ThreadPoolExecutor(1, "model"),
            ThreadPoolExecutor(1, "aside"),
        )

    @property
    def requests(self) -> int:
        """Requests that wait or are in the model."""
        return len(self._jobs)

    def close(self) -> None:
        """Take no more; what is in the model is finished."""
        for thread in (self._thread, self._aside_thread):
            thread.shutdown(wait=False, cancel_futures=True)

    async def call(self, work: Callable[[], Result]) -> Result:
        """What `work` returns, run in the model's thread between two batches."""
        self._calls += 1
        try:
            return await asyncio.wrap_future(self.submit(work))
        finally:
            self._calls -= 1

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        return self._thread.submit(self._run, work)

    def _run(self, work: Callable[[], Result]) -> Result:
        with self._model:
            return work()

    async def aside(self, work: Callable[[Callable[[int], None]], Result]) -> Result:
        """What `work` returns, run in a thread while no request waits, one at a time.

        Args:
            work: is given a function to call between its steps, with any number. It waits for requests that came
                meanwhile, and raises an error once no client waits for `work`.

        Raises:
            Refusal: if too many wait already.
        """
        if self._asides == _MOST_ASIDES:
            raise busy("Too many documents are waiting for the page", 10)
        left = threading.Event()

        def pause(done: int = 0) -> None:
            self._model.release()
            while (self._jobs or self._calls) and not left.wait(0.01):
                pass
            self._model.acquire()
            if left.is_set():
                raise CancelledError

        def run() -> Result:
            pause()
            return work(pause)

        self._asides += 1
        try:
            return await asyncio.wrap_future(self._aside_thread.submit(self._run, run))
        finally:
            self._asides -= 1
            left.set()

    async def vectors(self, encoder: DirectEncoder, texts: Sequence[ReadText]) -> np.ndarray:
        """[texts, dimension]: the vectors of a request. Cancelled, its texts leave the queue.

        Raises:
            Refusal: if there is no room, or the model raised an error for one of the texts.
        """
        tokens = sum(text.read for text in texts)
        self.refuse_if_full(tokens)
        now = time.monotonic()
        job = _Job(
            encoder, asyncio.get_running_loop().create_future(), {}, len(texts), tokens, now, now
        )
        self.tokens += tokens
        self._jobs.add(job)
        waiting = self._waiting.setdefault(encoder, [])
        waiting.extend(_Waiting(job, place, text) for place, text in enumerate(texts))
        waiting.sort(key=lambda one: one.text.read, reverse=True)
        if self._passes is None or self._passes.done():
            self._passes = asyncio.create_task(self._run_passes())
        try:
            refusal = await job.future
        finally:
            self._forget(job)
        if refusal is not None:
            raise refusal
        return np.stack([job.vectors[place] for place in range(len(texts))])

    def refuse_if_full(self, tokens: int) -> None:
        """Raise if that many tokens do not fit now, and say when to try again."""
        over = self.tokens + tokens - self.room
        if self.tokens and over > 0:
            raise busy(
                "The queue is full", max(1, math.ceil(over / self.speed)) if self.speed else 1
            )

    def _forget(self, job: _Job) -> None:
        """Take a request's texts out of the queue; those in the model are finished for nothing."""
        if job in self._jobs:
            self._jobs.remove(job)
            self.tokens -= job.tokens
            waiting = self._waiting[job.encoder]
            if job.missing:
                waiting[:] = [one for one in waiting if one.job is not job]

    async def _run_passes(self) -> None:
        """Run batches until nothing waits."""
        while any(self._waiting.values()):
            await self._pass(self._take())

    def _take(self) -> list[_Waiting]:
        """The next batch, out of the queue."""
        oldest, now = min(self._jobs, key=lambda job: job.served), time.monotonic()
        if now - oldest.served > self.age:
            waiting = self._waiting[oldest.encoder]
            first = next(place for place, one in enumerate(waiting) if one.job is oldest)
        else:
            waiting = max(filter(None, self._waiting.values()), key=lambda part: part[0].text.read)
            first = 0
        lengths = [one.text.read for one in waiting[first:]]
        end = first + best_size(lengths, self.budget, self.pass_tokens)
        batch = waiting[first:end]
        del waiting[first:end]
        for job in {one.job for one in batch}:
            if job.served == job.came:
                self.metrics.queue_seconds.observe(now - job.came)
            job.served = now
        return batch

    async def _pass(self, batch: list[_Waiting]) -> None:
        encoder, texts = batch[0].job.encoder, [one.text for one in batch]

        def timed() -> tuple[np.ndarray, float]:
            start = time.monotonic()
            return encoder.vectors(texts), time.monotonic() - start

        try:
            vectors, seconds = await self.call(timed)
            found = list(zip(batch, vectors, strict=True))
        except Exception as error:
            await self._retry(batch, error)
            return
        tokens = sum(text.read for text in texts)
        self.metrics.texts.inc(len(texts))
        self.metrics.tokens.inc(tokens)
        self.metrics.batch_texts.observe(len(texts))
        self.metrics.batch_tokens.observe(len(texts) * max(text.read for text in texts))
        self.metrics.model_seconds.observe(seconds)
        speed = tokens / max(seconds, 1e-6)
        self.speed = speed if not self.speed else 0.8 * self.speed + 0.2 * speed
        for one, vector in found:
            job = one.job
            job.vectors[one.place] = vector
            job.missing -= 1
            if not job.missing:
                self._end(job)

    async def _retry(self, batch: list[_Waiting], error: Exception) -> None:
        """Halve a failed batch until the failing text is alone, so that the others succeed."""
        self.metrics.failures.inc()
        _log.error("a pass of the model failed: %s", first_line(error))
        # After such an error CUDA refuses everything until the process ends.
        if "CUDA error" in str(error):
            self.broken = error
        batch = [one for one in batch if one.job in self._jobs]
        if len(batch) > 1 and self.broken is None:
            import torch  # which the model has imported

            torch.cuda.empty_cache()
            middle = len(batch) // 2
            await self._pass(batch[:middle])
            await self._pass(batch[middle:])
            return
        for one in batch:
            reason = first_line(error)
            refusal = Refusal(
                500,
                f"The model failed on 'input[{one.place}]', of {one.text.read:,} tokens: {reason}",
                kind="server_error",
                param="input",
                code="out_of_memory" if "memory" in reason.lower() else "model_failed",
            )
            self._end(one.job, refusal)

    def _end(self, job: _Job, refusal: Refusal | None = None) -> None:
        self._forget(job)
        if not job.future.done():
            job.future.set_result(refusal)


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
    costs = [
        width * most,
        *(width * size + pass_tokens + lengths[size] * (most - size) for size in range(1, most)),
    ]
    best = min(range(most), key=costs.__getitem__)
    return best or most
