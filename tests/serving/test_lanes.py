"""`Batcher` and its lanes: what shares a batch and in which order, with a model that waits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from fairspan.encoding.stopping import Stopped
from fairspan.serving.batcher import Batcher
from fairspan.serving.lane import Waiting
from fairspan.serving.metrics import Metrics
from fairspan.serving.protocol import Refusal

SOON = 20.0


@dataclass(frozen=True)
class Text:
    read: int
    name: str = ""


@dataclass(eq=False)
class Model:
    """A text's vector is its length and a hash of its name; each pass waits until it may go on."""

    go: threading.Event = field(default_factory=threading.Event)
    inside: threading.Event = field(default_factory=threading.Event)
    batches: list[list[str]] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    fails: Callable[[Sequence[Text]], Exception | None] = lambda batch: None
    during: dict[str, Callable[[], object]] = field(default_factory=dict)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def vectors(self, batch: Sequence[Text], is_over: Callable[[], bool]) -> np.ndarray:
        self.batches.append([text.name for text in batch])
        self.threads.add(threading.get_ident())
        self.inside.set()
        assert self.go.wait(SOON)
        for text in batch:
            self.loop.call_soon_threadsafe(self.during.get(text.name, lambda: None))
        error = self.fails(batch)
        if error is not None:
            raise error
        return np.array([vector(text) for text in batch])


def vector(text: Text) -> list[float]:
    return [float(text.read), float(hash(text.name) % 1000)]


def ask(batcher: Batcher, model: Model, *texts: Text) -> asyncio.Task[np.ndarray]:
    lengths = [text.read for text in texts]
    return asyncio.ensure_future(batcher.vectors(model, texts, lengths))


def make(*, size: int = 1000, pass_tokens: int = 0, room: int = 10**6) -> Batcher:
    return Batcher(Metrics(), size=size, room=room, speed=10.0, pass_tokens=pass_tokens)


@asynccontextmanager
async def held(model: Model, **options: Any) -> AsyncIterator[Batcher]:
    """A batcher whose model is busy with another text, so that all that comes has to wait."""
    batcher = make(**options)
    first = ask(batcher, model, Text(1, "first"))
    await asyncio.to_thread(model.inside.wait, SOON)
    try:
        yield batcher
        await first
    finally:
        model.go.set()
        batcher.close()


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def limited(**given: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**given), SOON))

    return limited


def texts(*lengths: int, name: str = "") -> list[Text]:
    return [Text(length, f"{name}{length}") for length in lengths]


@in_a_loop
async def test_requests_share_a_batch_and_get_their_own_vectors() -> None:
    """But not where their prompts differ."""
    model, other = Model(), Model()
    other.go.set()
    async with held(model, pass_tokens=1000) as batcher:
        asked = [texts(30, 10, name="a"), texts(20, name="b"), texts(10, 40, 20, name="c")]
        waiting = [ask(batcher, model, *some) for some in asked]
        elsewhere = ask(batcher, other, *texts(15, 25))
        await asyncio.sleep(0)
        assert batcher.tokens == 1 + 40 + 20 + 70 + 40
        model.go.set()
        for some, vectors in zip(asked, await asyncio.gather(*waiting), strict=True):
            assert_own(vectors, *some)
        assert_own(await elsewhere, *texts(15, 25))
        names = ["a10", "a30", "b20", "c10", "c20", "c40"]
        assert [sorted(batch) for batch in model.batches] == [["first"], names]
        assert other.batches == [["25", "15"]]
        assert batcher.tokens == 0


@in_a_loop
async def test_longest_first_within_the_budget_and_little_padding() -> None:
    model = Model()
    async with held(model, size=200, pass_tokens=20) as batcher:
        waiting = ask(batcher, model, *texts(5, 90, 100, 6, 95))
        await asyncio.sleep(0)
        model.go.set()
        await waiting
        # 6, padded to 90, would cost more than another pass.
        assert model.batches[1:] == [["100", "95"], ["90"], ["6", "5"]]


@in_a_loop
async def test_a_short_request_waits_for_one_batch_of_large_ones_at_most() -> None:
    model = Model()
    async with held(model, size=100) as batcher:
        waiting = [
            ask(batcher, model, *(Text(100, f"{name}{n}") for n in range(9))) for name in "ab"
        ]
        for before, name in (("b3", "s0"), ("s0", "s1"), ("s1", "s2")):
            short = Text(10, name)
            model.during[before] = lambda short=short: waiting.append(ask(batcher, model, short))
        await asyncio.sleep(0.001)
        model.go.set()
        while len(waiting) < 5 or not all(task.done() for task in waiting):
            await asyncio.sleep(0.001)
    names = [name for (name,) in model.batches]
    start = names.index("b3")
    assert names[start + 1 : start + 4] == ["s0", "s1", "s2"]
    # Large requests take turns.
    large = [name for name in names if name[0] in "ab"]
    assert large == [f"{name}{n}" for n in range(9) for name in "ab"]


@in_a_loop
async def test_a_large_request_goes_on_beside_small_ones_without_end() -> None:
    """It has a 32nd of the tokens at least, as if 31 others were there."""
    model = Model()
    async with held(model, size=100) as batcher:
        large = ask(batcher, model, *(Text(100, f"large{n}") for n in range(3)))
        small: list[asyncio.Task[np.ndarray]] = []

        def come() -> None:
            if not large.done():
                small.append(ask(batcher, model, Text(100, "small")))
                small[-1].add_done_callback(lambda task: come())

        for _ in range(20):
            come()
        await asyncio.sleep(0)
        model.go.set()
        await large
        await asyncio.gather(*small)
    names = [name for (name,) in model.batches]
    places = [names.index(f"large{n}") for n in range(3)]
    # As many more as waited already; one fewer if a small one comes after the next batch is taken.
    assert 31 <= places[1] - places[0] <= 32 + 20
    assert 31 <= places[2] - places[1] <= 32 + 20


@in_a_loop
async def test_a_long_text_holds_up_no_short_one() -> None:
    """It is in a thread of its own, where long texts take turns."""
    long_model, model = Model(), Model()
    model.go.set()
    batcher = make(size=100)
    asked = [Text(500, f"long{n}") for n in range(2)]
    long = [ask(batcher, long_model, text) for text in asked]
    await asyncio.to_thread(long_model.inside.wait, SOON)
    for n in range(3):
        short = Text(100, f"short{n}")
        assert_own(await ask(batcher, model, short), short)
    long_model.go.set()
    for text, vectors in zip(asked, await asyncio.gather(*long), strict=True):
        assert_own(vectors, text)
    both = [Text(500, "long"), Text(50, "short")]
    assert_own(await ask(batcher, model, *both), *both)
    assert (len(long_model.threads), len(model.threads)) == (1, 2)
    assert batcher.tokens == 0
    batcher.close()


class Stoppable(Model):
    """Ends a pass that nobody waits for any more."""

    def vectors(self, batch: Sequence[Text], is_over: Callable[[], bool]) -> np.ndarray:
        self.inside.set()
        end = time.monotonic() + SOON
        while not self.go.is_set():
            assert time.monotonic() < end
            if is_over():
                raise Stopped
            time.sleep(0.001)
        return super().vectors(batch, is_over)


@in_a_loop
async def test_a_pass_ends_when_its_client_leaves() -> None:
    model = Stoppable()
    batcher = make(size=100)
    leaves = ask(batcher, model, Text(500, "leaves"))
    stays = ask(batcher, model, Text(500, "stays"))
    await asyncio.to_thread(model.inside.wait, SOON)
    leaves.cancel()
    await asyncio.wait([leaves])
    assert batcher.tokens == 500
    await asyncio.sleep(0.01)
    model.go.set()
    assert_own(await stays, Text(500, "stays"))
    assert model.batches == [["stays"]]
    batcher.close()


@in_a_loop
async def test_a_cancelled_request_leaves_its_batch() -> None:
    model = Model()
    async with held(model, pass_tokens=1000) as batcher:
        stays = ask(batcher, model, *texts(10, 20))
        leaves = ask(batcher, model, *texts(15, 25, name="gone"))
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.wait([leaves])
        assert batcher.tokens == 1 + 30
        model.go.set()
        assert_own(await stays, *texts(10, 20))
        assert model.batches[1:] == [["20", "10"]]


@in_a_loop
async def test_what_waits_at_the_end_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    model = Model()
    async with held(model) as batcher:
        waiting = ask(batcher, model, *texts(10, 20))
        await asyncio.sleep(0)
        batcher.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        model.go.set()
    assert model.batches == [["first"]]
    assert caplog.records == []


@in_a_loop
async def test_a_batch_is_taken_without_a_walk_through_the_queue() -> None:
    """The event loop has other work: of 20,000 waiting texts few are looked at."""
    model = Model()
    async with held(model, room=10**9, pass_tokens=32) as batcher:
        lengths = [5 + n % 40 for n in range(2000)]
        waiting = [ask(batcher, model, *map(Text, lengths)) for _ in range(10)]
        await asyncio.sleep(0)
        looked_at = 0
        done = Waiting.vector.__get__

        class Counted:
            def __get__(self, text: Any, kind: Any) -> Any:
                nonlocal looked_at
                looked_at += 1
                return done(text, kind)

        with patch.object(Waiting, "vector", Counted()):
            batches = [batcher.short.take() for _ in range(5)]
        # 1,000 tokens of the longest texts, which have 44, out of eight times as many.
        assert [len(batch) for batch in batches] == [22] * 5
        assert looked_at <= 5 * (8 * 1000 // 44 + 2)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        model.go.set()


def assert_own(vectors: np.ndarray, *texts: Text) -> None:
    np.testing.assert_array_equal(vectors, list(map(vector, texts)))


@in_a_loop
async def test_a_full_queue_refuses_and_says_for_how_long() -> None:
    model = Model()
    async with held(model, room=100) as batcher:
        fits = ask(batcher, model, Text(99))
        await asyncio.sleep(0)
        with pytest.raises(Refusal, match="The queue is full") as refused:
            await ask(batcher, model, Text(50))
        # 100 are there and 50 come: room for them in 50 tokens' time.
        assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "5"})
        model.go.set()
        await fits
        # An empty queue takes what is larger than it.
        await ask(batcher, model, Text(500))


@in_a_loop
async def test_only_the_request_whose_text_fails_is_failed() -> None:
    poison = ValueError("poison")
    model = Model(fails=lambda batch: poison if Text(12, "bad") in batch else None)
    async with held(model, pass_tokens=1000) as batcher:
        good = [ask(batcher, model, *texts(10 + n, 20 + n)) for n in range(3)]
        bad = ask(batcher, model, Text(15), Text(12, "bad"), Text(15))
        await asyncio.sleep(0)
        model.go.set()
        said = r"The model failed on 'input\[1\]', of 12 tokens: poison"
        with pytest.raises(Refusal, match=said) as failed:
            await bad
        assert failed.value.body["error"]["code"] == "model_failed"
        for n, task in enumerate(good):
            assert_own(await task, *texts(10 + n, 20 + n))
        assert (batcher.tokens, batcher.is_broken) == (0, False)


@in_a_loop
async def test_an_error_of_the_device_is_final() -> None:
    model = Model(fails=lambda batch: RuntimeError("CUDA error: device-side assert triggered"))
    model.go.set()
    batcher = make(pass_tokens=1000)
    with pytest.raises(Refusal, match="device-side assert"):
        await ask(batcher, model, *texts(*range(10, 18)))
    assert len(model.batches) == 1
    assert batcher.is_broken
    batcher.close()


@in_a_loop
async def test_calls_run_in_the_thread_of_short_texts() -> None:
    model, seen = Model(), list[int]()

    def work() -> str:
        seen.extend([len(model.batches), threading.get_ident()])
        return "done"

    def fail() -> None:
        raise ValueError("no")

    async with held(model, size=100) as batcher:
        waiting = ask(batcher, model, *(Text(100) for _ in range(3)))
        called = asyncio.wrap_future(batcher.submit(work))
        await asyncio.sleep(0)
        model.go.set()
        assert await called == "done"
        assert seen == [1, *model.threads]
        with pytest.raises(ValueError, match="no"):
            await asyncio.wrap_future(batcher.submit(fail))
        await waiting
