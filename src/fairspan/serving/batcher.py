"""`Batcher`: requests through one model, short texts in one thread and long ones in another."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import numpy as np

from fairspan.serving.lane import BatchEncoder, Lane, Pace, Waiting
from fairspan.serving.metrics import Metrics
from fairspan.serving.protocol import busy

Result = TypeVar("Result")


class Batcher:
    """Embeds the texts of requests in two lanes, so that no short text waits for a long one.

    Attributes:
        room: tokens that may wait or be in the model at a time; a single request may have more.
        longest: tokens of the longest text in the short lane; a batch, unless that takes long.
    """

    def __init__(self, metrics: Metrics, *, budget: int, room: int) -> None:
        """A batcher without requests."""
        self.room = room
        self.longest = budget
        self.short = Lane("short", metrics, Pace(budget))
        self.long = Lane("long", metrics, Pace(budget))
        self.requests = 0
        self.tokens = 0
        metrics.watch_queue(lambda: self.requests, lambda: self.tokens)

    def set_pace(self, speed: float, pass_tokens: int) -> None:
        """Expect that many tokens per second, and a fixed cost of passes in tokens."""
        for lane in (self.short, self.long):
            lane.pace.speed = speed
            lane.pace.pass_tokens = pass_tokens
        self.longest = self.short.pace.size

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
        self.short.add([text for text in waiting if text.tokens <= self.longest])
        self.long.add([text for text in waiting if text.tokens > self.longest])
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
            speed = self.short.pace.speed
            raise busy("The queue is full", max(1, math.ceil(over / speed)) if speed else 1)
