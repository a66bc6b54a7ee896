"""Timing and memory of callables, side by side."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one callable, and how they compare with the baseline's of the same round."""

    seconds: list[float]
    ratios: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def ratio(self) -> float:
        """The median of ratios within a round, which a slow spell of the machine hits on both
        sides."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.ratios), max(self.ratios)


def time_side_by_side(
    calls: dict[str, Callable[[], object]],
    baseline: str,
    rounds: int,
    rest: float = 0,
    clock: Callable[[], float] = time.perf_counter,
    warm_up: int = 1,
) -> dict[str, Timing]:
    """Run every callable once a round, in turning order, after rounds to warm up, and so many
    seconds apart."""
    names = list(calls)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-warm_up, rounds):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            time.sleep(rest)
            start = clock()
            calls[name]()
            if turn >= 0:
                seconds[name].append(clock() - start)
    plain = seconds[baseline]
    return {
        name: Timing(taken, [a / b for a, b in zip(taken, plain, strict=True)])
        for name, taken in seconds.items()
    }


def peak_bytes(call: Callable[[], object], device: str = "cpu") -> int:
    """The most bytes of tensors that `call` held at once on a device, above what was there
    before."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        call()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    changes = sorted(
        (event["ts"], event["args"]["Bytes"])
        for event in events
        if event.get("name") == "[memory]" and event["args"]["Device Type"] == 0
    )
    held = most = 0
    for _, size in changes:
        held += size
        most = max(most, held)
    return most


def short(value: float | None, form: str = ".3f") -> str:
    """A number without the 0 before its point, as in our tables."""
    return "" if value is None else f"{value:{form}}".replace("-", "−").replace("0.", ".", 1)


def with_few_colours(picture: bytes) -> bytes:
    """The same PNG in fewer bytes: drawings need few colours."""
    from PIL import Image

    smaller = BytesIO()
    drawn = Image.open(BytesIO(picture)).convert("RGB")
    drawn.quantize(128, dither=Image.Dither.NONE).save(smaller, "PNG", optimize=True)
    return smaller.getvalue()
