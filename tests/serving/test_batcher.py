"""`Batcher`: which texts share a batch and in which order, with a model that a test can stop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import numpy as np
import pytest

from fairspan.serving.batcher import Batcher
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

    def vectors(self, batch: Sequence[Text]) -> np.ndarray:
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


def make(**options: Any) -> Batcher:
    sizes = {"budget": 1000, "room": 10**6, "pass_tokens": 0, "age": SOON}
    return Batcher(Metrics(), **{**sizes, **options})


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
    model = Model()
    async with held(model, pass_tokens=1000) as batcher:
        asked = [texts(30, 10, name="a"), texts(20, name="b"), texts(10, 40, 20, name="c")]
        waiting = [ask(batcher, model, *some) for some in asked]
        await asyncio.sleep(0)
        assert batcher.tokens == 1 + 40 + 20 + 70
        model.go.set()
        for some, found in zip(asked, await asyncio.gather(*waiting), strict=True):
            np.testing.assert_array_equal(found, [vector(text) for text in some])
        assert model.batches == [["first"], ["c40", "a30", "b20", "c20", "a10", "c10"]]
        assert batcher.tokens == 0


@in_a_loop
async def test_longest_first_within_the_budget_and_little_padding() -> None:
    model = Model()
    async with held(model, budget=200, pass_tokens=20) as batcher:
        waiting = ask(batcher, model, *texts(5, 90, 100, 6, 300, 95))
        await asyncio.sleep(0)
        model.go.set()
        await waiting
        # 300 runs alone; 6, padded to 90, would cost more than another pass.
        assert model.batches[1:] == [["300"], ["100", "95"], ["90"], ["6", "5"]]


@pytest.mark.parametrize(("age", "second"), [(SOON, "long"), (0.0, "short")])
@in_a_loop
async def test_a_request_does_not_wait_forever_behind_longer_ones(age: float, second: str) -> None:
    model = Model()
    async with held(model, age=age, budget=100) as batcher:
        waiting = [ask(batcher, model, Text(10, "short")), ask(batcher, model, Text(100, "long"))]
        await asyncio.sleep(0.001)
        model.go.set()
        await asyncio.gather(*waiting)
        assert model.batches[1] == [second]


@in_a_loop
async def test_batches_of_a_slow_model_are_smaller() -> None:
    """Half a second, and at least 32 times the fixed cost of a pass."""
    batcher = make(budget=1000, pass_tokens=10)
    sizes = []
    for speed in (0.0, 10_000.0, 1000.0, 100.0):
        batcher.speed = speed
        sizes.append(batcher.size)
    assert sizes == [1000, 1000, 500, 320]
    batcher.close()


@in_a_loop
async def test_a_short_request_waits_for_one_batch_of_large_ones_at_most() -> None:
    """And large ones for one of short requests, however many of these come."""
    model = Model()
    async with held(model, age=0.0, budget=100) as batcher:
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
    assert [names[start + n] for n in (1, 3, 5)] == ["s0", "s1", "s2"]
    assert {names[start + n][0] for n in (2, 4)} <= {"a", "b"}


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
        np.testing.assert_array_equal(await stays, [vector(text) for text in texts(10, 20)])
        assert model.batches[1:] == [["20", "10"]]


@in_a_loop
async def test_a_batch_is_taken_without_a_walk_through_the_queue() -> None:
    """The event loop has other work: of 200,000 waiting texts few are looked at."""
    model = Model()
    async with held(model, room=10**9, pass_tokens=32) as batcher:
        lengths = [5 + n % 40 for n in range(2000)]
        waiting = [ask(batcher, model, *map(Text, lengths)) for _ in range(100)]
        await asyncio.sleep(0)
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            taken.append((len(batcher._take(1000)), time.perf_counter() - start))
        # 1,000 tokens of the longest texts, which have 44.
        assert [count for count, _ in taken] == [22] * 5
        # 60 to 70 ms if every text is looked at, and 1 otherwise.
        assert min(seconds for _, seconds in taken) < 0.015
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        model.go.set()


@in_a_loop
async def test_a_full_queue_refuses_and_says_for_how_long() -> None:
    model = Model()
    async with held(model, room=100) as batcher:
        fits = ask(batcher, model, Text(99))
        await asyncio.sleep(0)
        batcher.speed = 10.0
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
        for n, one in enumerate(good):
            expected = [vector(text) for text in texts(10 + n, 20 + n)]
            np.testing.assert_array_equal(await one, expected)
        assert (batcher.tokens, batcher.broken) == (0, None)


@in_a_loop
async def test_an_error_of_the_device_is_final() -> None:
    model = Model(fails=lambda batch: RuntimeError("CUDA error: device-side assert triggered"))
    model.go.set()
    batcher = make()
    with pytest.raises(Refusal, match="device-side assert"):
        await ask(batcher, model, *texts(*range(10, 18)))
    assert len(model.batches) == 1
    assert batcher.broken is not None
    batcher.close()


@in_a_loop
async def test_calls_run_in_the_models_thread_between_batches() -> None:
    model, seen = Model(), list[int]()

    def work() -> str:
        seen.extend([len(model.batches), threading.get_ident()])
        return "done"

    def fail() -> None:
        raise ValueError("no")

    async with held(model, budget=100) as batcher:
        waiting = ask(batcher, model, *(Text(100) for _ in range(3)))
        called = asyncio.wrap_future(batcher.submit(work))
        await asyncio.sleep(0)
        model.go.set()
        assert await called == "done"
        assert seen == [1, *model.threads]
        with pytest.raises(ValueError, match="no"):
            await asyncio.wrap_future(batcher.submit(fail))
        await waiting
