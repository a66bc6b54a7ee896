"""`Batcher`: texts of many requests, in batches, through one model in one thread."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from typing import Any, Protocol, TypeVar

import numpy as np

from fairspan.errors import first_line
from fairspan.serving.metrics import Metrics
from fairspan.serving.protocol import busy, failed

Result = TypeVar("Result")

# How long a pass should take at most, and how many times its fixed cost it takes at least.
_PASS_SECONDS = 0.5
_LEAST_PASSES = 32
_log = logging.getLogger("fairspan.serving")


class BatchEncoder(Protocol):
    """What embeds texts, in whatever form it reads them."""

    def vectors(self, batch: Sequence[Any], /) -> Iterable[np.ndarray]: ...


@dataclass(slots=True, eq=False)
class _Request:
    """A request that has had `spent` tokens, a text of it last at `served`.

    Attributes:
        queue: its texts that wait, the longest first.
    """

    encoder: BatchEncoder
    came: float
    served: float
    spent: int = 0
    queue: list[_Waiting] = field(default_factory=list)

    def place(self, longest: int) -> int:
        """Where in the queue texts of up to that many tokens begin."""
        return bisect_left(self.queue, -longest, key=lambda item: -item.tokens)

    def texts(self, longest: int) -> Iterator[_Waiting]:
        """The texts that wait, from those of up to that many tokens on."""
        return islice(self.queue, self.place(longest), None)

    def take(self, first: _Waiting, count: int) -> None:
        """Take as many texts out of the queue, from the first of the length of `first` on."""
        place = self.place(first.tokens)
        del self.queue[place : place + count]


@dataclass(slots=True, eq=False)
class _Waiting:
    """The text with number `place` of a request."""

    request: _Request
    place: int
    text: Any
    tokens: int
    vector: asyncio.Future[np.ndarray]


class _Pass:
    """The model's work on a batch, after `seconds` of steps, and of others `beside` it."""

    def __init__(self, batch: list[_Waiting]) -> None:
        encoder = batch[0].request.encoder
        texts = [item.text for item in batch]
        self.batch = batch
        self.steps: Any = (encoder.vectors(batch) for batch in [texts])
        self.seconds = 0.0
        self.beside = 0.0


class Batcher:
    """Runs one model in one thread, on batches of texts of any requests.

    The requests that have had the fewest tokens, give or take a batch, share the next one; those
    that have had more get every other batch at most. The longest texts go first, with others of
    about their length, so that little is padded, unless a request had no progress for `age`
    seconds. A text longer than a batch, or than about half a second, is read alone, in steps that
    take as much time as the batches between them.

    The queue belongs to the event loop; only the model runs in the thread.

    Attributes:
        budget: most tokens in a batch, padding included.
        room: tokens that may wait or be in the model at a time; a single request may have more.
        pass_tokens: what a pass costs besides its tokens, in tokens; padding up to that is cheaper.
        speed: tokens per second of recent passes; 0 before the first one.
        is_draining: whether the server is about to end, and long texts wait for all others.
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
        self.is_draining = False
        self.broken: Exception | None = None
        metrics.watch_queue(lambda: self.requests, lambda: self.tokens)
        # Those with texts that wait, as they came.
        self._queue: dict[_Request, None] = {}
        self._reading: _Pass | None = None
        self._last_spent = 0
        self._passes: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "model")

    def close(self) -> None:
        """Take no more; what is in the model is finished."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        """What `work` returns, run in the model's thread between two batches."""
        return self._thread.submit(work)

    async def vectors(
        self, encoder: BatchEncoder, texts: Sequence[Any], lengths: Sequence[int]
    ) -> np.ndarray:
        """[texts, dimension]: the vectors of a request. Cancelled, its texts leave the queue.

        The lengths are in tokens.
        """
        tokens = sum(lengths)
        self.refuse_if_full(tokens)
        now = time.monotonic()
        request = _Request(encoder, now, now)
        future = asyncio.get_running_loop().create_future
        items = enumerate(zip(texts, lengths, strict=True))
        waiting = [_Waiting(request, place, *item, future()) for place, item in items]
        request.queue = sorted(waiting, key=lambda item: item.tokens, reverse=True)
        self._queue[request] = None
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
            self._queue.pop(request, None)

    def refuse_if_full(self, tokens: int) -> None:
        """Raise if that many tokens do not fit now, and say when to try again."""
        over = self.tokens + tokens - self.room
        if self.tokens and over > 0:
            seconds = max(1, math.ceil(over / self.speed)) if self.speed else 1
            raise busy("The queue is full", seconds)

    @property
    def size(self) -> int:
        """Tokens in the next batch: fewer than the budget if the model is slow."""
        tokens = max(_LEAST_PASSES * self.pass_tokens, int(_PASS_SECONDS * self.speed))
        return min(self.budget, tokens) if self.speed else self.budget

    async def _run_passes(self) -> None:
        """Run batches, and steps of a long text between them, until nothing waits."""
        while self._queue or self._reading:
            self._reading = self._reading or self._take_long()
            reading = self._reading
            batch = []
            if reading is None or reading.seconds > reading.beside or self.is_draining:
                batch = self._take(self.budget)
            if batch:
                await self._run(batch)
            elif reading is not None and await self._step(reading):
                self._reading = None

    def _take(self, longest: int) -> list[_Waiting]:
        """The next batch of texts up to a length; empty if no request is to have one now."""
        requests = [request for request in self._queue if request.queue[-1].tokens <= longest]
        if not requests:
            return []
        now = time.monotonic()
        group, others = self._groups(requests, now)
        leaders = group
        if now - _oldest(group).served > self.age:
            leaders = [_oldest(group)]
        first = max(
            (next(request.texts(longest)) for request in leaders), key=lambda item: item.tokens
        )
        encoder = first.request.encoder
        self._last_spent = first.request.spent
        width = max(1, first.tokens)
        fitting = _longest_first(group, encoder, first.tokens)
        batch = list(islice(fitting, max(1, self.size // width)))
        size = best_size([item.tokens for item in batch], self.size, self.pass_tokens)
        # Up to the fixed cost of a pass, texts of other requests hardly make it longer.
        free = max(0, min(self.pass_tokens, self.budget) // width - size)
        more = _longest_first(others, encoder, first.tokens)
        batch = [*batch[:size], *islice(more, free)]
        self._start(batch, now)
        return batch

    def _groups(
        self, requests: list[_Request], now: float
    ) -> tuple[list[_Request], list[_Request]]:
        """Those whose turn it is, by the tokens they have had, and the others."""
        most = min(request.spent for request in requests) + self.budget
        small = [request for request in requests if request.spent <= most]
        large = [request for request in requests if request.spent > most]
        if large and self._last_spent <= most and now - _oldest(large).served > self.age:
            return large, small
        return small, large

    def _take_long(self) -> _Pass | None:
        """The text that is to be read in steps next: of the request with the fewest tokens."""
        longest = (request.queue[0] for request in self._queue)
        long = [item for item in longest if item.tokens > self.budget]
        if not long:
            return None
        item = min(long, key=lambda item: (item.request.spent, -item.tokens))
        self._start([item], time.monotonic())
        return _Pass([item])

    def _start(self, batch: Sequence[_Waiting], now: float) -> None:
        """Take texts out of the queue, and note that for their requests."""
        firsts = {item.request: item for item in reversed(batch)}
        for request, count in Counter(item.request for item in batch).items():
            request.take(firsts[request], count)
            if not request.queue:
                self._queue.pop(request, None)
        for item in batch:
            request = item.request
            if request.served == request.came:
                self.metrics.queue_seconds.observe(now - request.came)
            request.served = now
            request.spent += item.tokens

    async def _run(self, batch: list[_Waiting]) -> float:
        """Run all of a pass; between steps of a text that fills it, batches of shorter ones."""
        whole = _Pass(batch)
        while not await self._step(whole):
            others = []
            if batch[0].tokens > self.size and whole.seconds > whole.beside:
                others = self._take(self.size)
            if others:
                whole.beside += await self._run(others)
        if self._reading is not None:
            self._reading.beside += whole.seconds
        return whole.seconds

    async def _step(self, part: _Pass) -> bool:
        """Run one step of a pass, and after the last hand out the vectors; whether it was that.

        A pass that nobody waits for any more is dropped.
        """

        def timed() -> tuple[Iterable[np.ndarray] | None, float]:
            start = time.monotonic()
            return next(part.steps), time.monotonic() - start

        if all(item.vector.done() for item in part.batch):
            await asyncio.wrap_future(self.submit(part.steps.close))
            return True
        try:
            vectors, seconds = await asyncio.wrap_future(self.submit(timed))
            part.seconds += seconds
            if vectors is None:
                return False
            computed = list(zip(part.batch, vectors, strict=True))
        except Exception as error:
            await self._retry(part.batch, error)
            return True
        self._measure([item.tokens for item in part.batch], part.seconds)
        for item, vector in computed:
            if not item.vector.done():
                item.vector.set_result(vector)
        return True

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
            await self._run(batch[:middle])
            await self._run(batch[middle:])
            return
        code = "out_of_memory" if "memory" in reason.lower() else "model_failed"
        for item in batch:
            message = f"The model failed on 'input[{item.place}]', of {item.tokens:,} tokens: "
            item.vector.set_exception(failed(message + reason, code))
            self._queue.pop(item.request, None)


def _oldest(requests: Iterable[_Request]) -> _Request:
    return min(requests, key=lambda request: request.served)


def _longest_first(
    requests: Iterable[_Request], encoder: BatchEncoder, longest: int
) -> Iterator[_Waiting]:
    """The texts of up to `longest` tokens that wait for an encoder."""
    texts = [request.texts(longest) for request in requests if request.encoder is encoder]
    return merge(*texts, key=lambda item: item.tokens, reverse=True)


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
