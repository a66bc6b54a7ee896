"""`Batcher`: texts of many requests, in batches, through one model in one thread."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from fairspan.errors import first_line
from fairspan.serving.metrics import Metrics
from fairspan.serving.protocol import busy, failed

Result = TypeVar("Result")

_log = logging.getLogger("fairspan.serving")


class BatchEncoder(Protocol):
    """What embeds texts, in whatever form it reads them."""

    def vectors(self, batch: Sequence[Any], /) -> Iterable[np.ndarray]: ...


@dataclass(slots=True, eq=False)
class _Request:
    """A request of which `left` texts are in `queue`; `served` is when one was last taken."""

    encoder: BatchEncoder
    queue: list[_Waiting]
    later: bool
    left: int
    came: float
    served: float


@dataclass(slots=True, eq=False)
class _Waiting:
    """The text with number `place` of a request."""

    request: _Request
    place: int
    text: Any
    tokens: int
    vector: asyncio.Future[np.ndarray]


class Batcher:
    """Runs one model in one thread, on batches of texts of any requests.

    The longest texts go first, with others of about their length, so that little is padded. A
    request without progress for `age` seconds goes before longer ones, and one for `later` when no
    others wait. The queue belongs to the event loop; only the model runs in the thread.

    Attributes:
        budget: tokens in a batch, padding included. A longer text is a batch of its own.
        room: tokens that may wait or be in the model at a time; a single request may have more.
        pass_tokens: what a pass costs besides its tokens, in tokens; padding up to that is cheaper.
        speed: tokens per second of recent passes; 0 before the first one.
        broken: the error after which the device takes nothing more.
    """

    def __init__(
        self, metrics: Metrics, *, budget: int, room: int, age: float = 0.1, pass_tokens: int = 0
    ) -> None:
        """A batcher without requests."""
        self.metrics = metrics
        self.budget = budget
        self.room = room
        self.age = age
        self.pass_tokens = pass_tokens
        self.requests = 0
        self.tokens = 0
        self.speed = 0.0
        self.broken: Exception | None = None
        metrics.watch_queue(lambda: self.requests, lambda: self.tokens)
        self._queues: dict[tuple[BatchEncoder, bool], list[_Waiting]] = {}
        self._waiting: set[_Request] = set()
        self._passes: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "model")

    def close(self) -> None:
        """Take no more; what is in the model is finished."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        """What `work` returns, run in the model's thread between two batches."""
        return self._thread.submit(work)

    async def vectors(
        self,
        encoder: BatchEncoder,
        texts: Sequence[Any],
        lengths: Sequence[int],
        *,
        later: bool = False,
    ) -> np.ndarray:
        """[texts, dimension]: the vectors of a request. Cancelled, its texts leave the queue.

        The lengths are in tokens. With `later`, the request takes none of the others' room.
        """
        tokens = 0 if later else sum(lengths)
        if not later:
            self.refuse_if_full(tokens)
        now = time.monotonic()
        queue = self._queues.setdefault((encoder, later), [])
        request = _Request(encoder, queue, later, len(texts), now, now)
        future = asyncio.get_running_loop().create_future
        items = enumerate(zip(texts, lengths, strict=True))
        waiting = [_Waiting(request, place, *item, future()) for place, item in items]
        queue.extend(waiting)
        queue.sort(key=lambda item: item.tokens, reverse=True)
        self._waiting.add(request)
        if self._passes is None or self._passes.done():
            self._passes = asyncio.create_task(self._run_passes())
        self.requests += 1
        self.tokens += tokens
        try:
            return np.stack(await asyncio.gather(*(item.vector for item in waiting)))
        finally:
            self.requests -= 1
            self.tokens -= tokens
            for item in waiting:
                item.vector.cancel()
            self._leave(request)

    def _leave(self, request: _Request) -> None:
        """Take a request's texts out of the queue."""
        if request in self._waiting:
            self._waiting.remove(request)
            request.queue[:] = [item for item in request.queue if item.request is not request]

    def refuse_if_full(self, tokens: int) -> None:
        """Raise if that many tokens do not fit now, and say when to try again."""
        over = self.tokens + tokens - self.room
        if self.tokens and over > 0:
            seconds = max(1, math.ceil(over / self.speed)) if self.speed else 1
            raise busy("The queue is full", seconds)

    async def _run_passes(self) -> None:
        """Run batches until nothing waits."""
        while self._waiting:
            await self._pass(self._take())

    def _take(self) -> list[_Waiting]:
        """The next batch, out of the queue."""
        now = time.monotonic()
        requests = [request for request in self._waiting if not request.later]
        requests = requests or list(self._waiting)
        oldest = min(requests, key=lambda request: request.served)
        queue = max((request.queue for request in requests), key=lambda queue: queue[0].tokens)
        first = 0
        if now - oldest.served > self.age:
            queue = oldest.queue
            first = next(n for n, item in enumerate(queue) if item.request is oldest)
        lengths = [item.tokens for item in queue[first:]]
        end = first + best_size(lengths, self.budget, self.pass_tokens)
        batch = queue[first:end]
        del queue[first:end]
        for item in batch:
            request = item.request
            if request.served == request.came:
                self.metrics.queue_seconds.observe(now - request.came)
            request.served = now
            request.left -= 1
            if not request.left:
                self._waiting.remove(request)
        return batch

    async def _pass(self, batch: list[_Waiting]) -> None:
        """Run the model on a batch, and hand the vectors to their requests."""
        encoder = batch[0].request.encoder
        texts = [item.text for item in batch]

        def timed() -> tuple[list[np.ndarray], float]:
            start = time.monotonic()
            return list(encoder.vectors(texts)), time.monotonic() - start

        try:
            vectors, seconds = await asyncio.wrap_future(self.submit(timed))
            computed = list(zip(batch, vectors, strict=True))
        except Exception as error:
            await self._retry(batch, error)
            return
        self._measure([item.tokens for item in batch], seconds)
        for item, vector in computed:
            if not item.vector.done():
                item.vector.set_result(vector)

    def _measure(self, lengths: Sequence[int], seconds: float) -> None:
        """Count a pass over texts of these lengths."""
        tokens = sum(lengths)
        self.metrics.texts.inc(len(lengths))
        self.metrics.tokens.inc(tokens)
        self.metrics.batch_texts.observe(len(lengths))
        self.metrics.batch_tokens.observe(len(lengths) * max(lengths))
        self.metrics.model_seconds.observe(seconds)
        speed = tokens / max(seconds, 1e-6)
        self.speed = 0.8 * self.speed + 0.2 * speed if self.speed else speed

    async def _retry(self, batch: list[_Waiting], error: Exception) -> None:
        """Halve a failed batch until the failing text is alone, so that the others succeed."""
        reason = first_line(error)
        self.metrics.failures.inc()
        _log.error("a pass of the model failed: %s", reason)
        # After such an error CUDA refuses everything until the process ends.
        if "CUDA error" in str(error):
            self.broken = error
        batch = [item for item in batch if not item.vector.done()]
        if len(batch) > 1 and self.broken is None:
            import torch  # which the model has imported

            torch.cuda.empty_cache()
            middle = len(batch) // 2
            await self._pass(batch[:middle])
            await self._pass(batch[middle:])
            return
        code = "out_of_memory" if "memory" in reason.lower() else "model_failed"
        for item in batch:
            message = f"The model failed on 'input[{item.place}]', of {item.tokens:,} tokens: "
            item.vector.set_exception(failed(message + reason, code))
            self._leave(item.request)


def best_size(lengths: Sequence[int], budget: int, pass_tokens: int) -> int:
    """How many of the texts that wait, longest first, make a batch.

    As many as the budget holds, or fewer if the shorter ones are cheaper in a pass of their own.

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
    costs = {most: width * most}
    for size in range(1, most):
        costs[size] = width * size + pass_tokens + lengths[size] * (most - size)
    return min(costs, key=costs.__getitem__)
