"""`Lane`: texts of many requests, in batches, through the model in one thread."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol

import numpy as np

from fairspan.encoding.fill import batches
from fairspan.encoding.stopping import Stopped
from fairspan.errors import first_line
from fairspan.serving.metrics import Metrics
from fairspan.serving.protocol import failed

# See `Lane`: a request waits as if it shared the lane with this many others.
_SHARES = 32
# A batch is chosen from the texts of this many batches, so that its lengths are similar.
_CANDIDATES = 8
_log = logging.getLogger("fairspan.serving")


class BatchEncoder(Protocol):
    """What embeds texts, in whatever form it reads them; it may stop when `is_over` says so."""

    def vectors(
        self, batch: Sequence[Any], is_over: Callable[[], bool], /
    ) -> Sequence[np.ndarray] | np.ndarray: ...


@dataclass(slots=True, eq=False)
class Waiting:
    """A text that waits for its vector, with its number in its request.

    Attributes:
        came: when its request came, in seconds.
    """

    encoder: BatchEncoder
    number: int
    text: Any
    tokens: int
    vector: asyncio.Future[np.ndarray]
    came: float = field(default_factory=time.monotonic)


class Lane:
    """A thread of the model, and a queue of texts, which belongs to the event loop.

    Requests are served by tokens. A text is due when, since its request came, the lane has read 32
    times as many tokens as its request has before it. So a small request goes before most of a
    large one, small ones cannot stop a large one, and two large ones take turns.
    A batch is the text that is due first, with others of about its length, so that little is
    padded.

    Attributes:
        size: most tokens in a batch, padding included.
        pass_tokens: what a pass costs besides its tokens, in tokens.
        broken: the error after which the device takes nothing more.
    """

    def __init__(self, name: str, metrics: Metrics, size: int, pass_tokens: int) -> None:
        """A lane without texts; its thread has the name."""
        self.metrics = metrics
        self.size = size
        self.pass_tokens = pass_tokens
        self.broken: Exception | None = None
        self.thread = ThreadPoolExecutor(1, name)
        self._read = 0
        self._numbers = count()
        self._queue: list[tuple[int, int, Waiting]] = []
        self._passes: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Take no more, and drop what waits; a pass that has begun is finished."""
        for _, _, text in self._queue:
            text.vector.cancel()
        self.thread.shutdown(wait=False, cancel_futures=True)

    def add(self, texts: Sequence[Waiting]) -> None:
        """Queue the texts of a request, the longest first."""
        before = 0
        for text in sorted(texts, key=lambda text: text.tokens, reverse=True):
            heappush(self._queue, (self._read + _SHARES * before, next(self._numbers), text))
            before += text.tokens
        if self._queue and (self._passes is None or self._passes.done()):
            self._passes = asyncio.create_task(self._run_passes())

    async def _run_passes(self) -> None:
        while batch := self.take():
            await self._run(batch)

    def take(self) -> list[Waiting]:
        """The next batch, taken from the queue; empty if nothing waits."""
        candidates: list[tuple[int, int, Waiting]] = []
        others: list[tuple[int, int, Waiting]] = []
        tokens = 0
        while self._queue and tokens < _CANDIDATES * self.size:
            entry = heappop(self._queue)
            text = entry[2]
            if text.vector.done():  # its client left
                continue
            is_first = not candidates
            fits = is_first or text.encoder is candidates[0][2].encoder
            (candidates if fits else others).append(entry)
            tokens += text.tokens
        if not candidates:
            return []
        lengths = [text.tokens for _, _, text in candidates]
        formed = batches(lengths, self.size, pass_tokens=self.pass_tokens)
        chosen = set(next(batch for batch in formed if 0 in batch))
        others += [entry for number, entry in enumerate(candidates) if number not in chosen]
        for entry in others:
            heappush(self._queue, entry)
        batch = [candidates[number][2] for number in sorted(chosen)]
        self._read += sum(text.tokens for text in batch)
        self.metrics.queue_seconds.observe(time.monotonic() - batch[0].came)
        return batch

    async def _run(self, batch: Sequence[Waiting]) -> None:
        """Hand out the vectors of a batch."""

        def is_over() -> bool:
            return all(text.vector.done() for text in batch)

        def embed() -> Sequence[np.ndarray] | np.ndarray:
            with self.metrics.model_seconds.time():
                return batch[0].encoder.vectors([text.text for text in batch], is_over)

        try:
            vectors = await asyncio.get_running_loop().run_in_executor(self.thread, embed)
        except Stopped:
            return
        except Exception as error:
            await self._retry(batch, error)
            return
        self.metrics.count_batch([text.tokens for text in batch])
        for text, vector in zip(batch, vectors, strict=True):
            if not text.vector.done():
                text.vector.set_result(vector)

    async def _retry(self, batch: Sequence[Waiting], error: Exception) -> None:
        """Halve a failed batch until the failing text is alone, so that the others succeed."""
        reason = first_line(error)
        self.metrics.failures.inc()
        _log.error("a pass of the model failed: %s", reason)
        # After such an error CUDA refuses everything until the process ends.
        if "CUDA error" in str(error):
            self.broken = error
        batch = [text for text in batch if not text.vector.done()]
        if len(batch) > 1 and self.broken is None:
            import torch  # which the model has imported

            torch.cuda.empty_cache()
            middle = len(batch) // 2
            await self._run(batch[:middle])
            await self._run(batch[middle:])
            return
        code = "out_of_memory" if "memory" in reason.lower() else "model_failed"
        for text in batch:
            place = f"'input[{text.number}]', of {text.tokens:,} tokens"
            text.vector.set_exception(failed(f"The model failed on {place}: {reason}", code))
