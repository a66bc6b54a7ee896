"""`Batcher`: requests through one model, short texts in one thread and long ones in another."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import numpy as np

from fairspan.serving.lane import BatchEncoder, Lane, Waiting
from fairspan.serving.metrics import Metrics
from fairspan.serving.protocol import busy

Result = TypeVar("Result")


class Batcher:
    """Embeds the texts of requests in two lanes, so that no short text waits for a long one.

    Attributes:
        size: tokens in a batch of short texts; longer texts are in the other lane.
        room: tokens that may wait or be in the model at a time; a single request may have more.
        speed: tokens per second that are expected.
    """

    def __init__(
        self, metrics: Metrics, *, size: int, room: int, speed: float, pass_tokens: int
    ) -> None:
        """A batcher without requests."""
        self.size = size
        self.room = room
        self.speed = speed
        self.short = Lane("short", metrics, size, pass_tokens)
        self.long = Lane("long", metrics, size, pass_tokens)
        self.requests = 0
        self.tokens = 0
        metrics.watch_queue(lambda: self.requests, lambda: self.tokens)

    @property
    def is_broken(self) -> bool:
        """Whether the device takes nothing more."""
        return self.short.broken is not None or self.long.broken is not None

    def close(self) -> None:
        """Take no more; passes that have begun are finished."""
        self.short.close()
        self.long.close()

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        """What `work` returns, run between two batches of short texts."""
        return self.short.thread.submit(work)

    async def vectors(
        self, encoder: BatchEncoder, texts: Sequence[Any], lengths: Sequence[int]
    ) -> np.ndarray:
        """[texts, dimension]: the vectors of a request. Cancelled, its texts leave the queue.

        The lengths are in tokens.
        """
        tokens = sum(lengths)
        self.refuse_if_full(tokens)
        future = asyncio.get_running_loop().create_future
        waiting = [
            Waiting(encoder, number, text, length, future())
            for number, (text, length) in enumerate(zip(texts, lengths, strict=True))
        ]
        self.short.add([text for text in waiting if text.tokens <= self.size])
        self.long.add([text for text in waiting if text.tokens > self.size])
        self.requests += 1
        self.tokens += tokens
        try:
            return np.stack(await asyncio.gather(*(text.vector for text in waiting)))
        finally:
            self.requests -= 1
            self.tokens -= tokens
            for text in waiting:
                text.vector.cancel()

    def refuse_if_full(self, tokens: int) -> None:
        """Raise if that many tokens do not fit now, and say when to try again."""
        over = self.tokens + tokens - self.room
        if self.tokens and over > 0:
            raise busy("The queue is full", math.ceil(over / self.speed))
