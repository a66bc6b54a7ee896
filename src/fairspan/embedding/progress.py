"""What embedding reports while it works: how much of the input is done, and how many tokens and rows that were."""

from __future__ import annotations

import time
from typing import Protocol

from fairspan.runs.progress import Progress, Silent, TqdmProgress


class RowProgress(Progress, Protocol):
    """Whoever shows it.

    `start` and `advance` count bytes or rows of the input that are left to do; a total of 0 is not known.
    """

    def count(self, rows: int, tokens: int) -> None:
        """So many rows are on disk, and so many tokens were read since `start`."""


class SilentRows(Silent):
    """Shows nothing."""

    def count(self, rows: int, tokens: int) -> None: ...


class TqdmRows(TqdmProgress):
    """A bar of tqdm over the input, with rows and tokens per second behind it."""

    def start(self, total: int) -> None:
        from tqdm.auto import tqdm

        self.stop()
        self._began = time.monotonic()
        self._bar = tqdm(total=total or None, desc=self._stage, unit="", unit_scale=True, leave=False)

    def count(self, rows: int, tokens: int) -> None:
        if self._bar is not None:
            speed = tokens / max(1e-9, time.monotonic() - self._began)
            self._bar.set_postfix_str(f"{rows:,} rows, {speed:,.0f} tokens/s")


def as_row_progress(given: bool | RowProgress) -> RowProgress:
    """True for a bar, False for none, or whatever shows it."""
    if isinstance(given, bool):
        return TqdmRows() if given else SilentRows()
    return given


class Meter:
    """Adds up what was done, for whoever shows it."""

    def __init__(self, shown: RowProgress, total: int, rows: int) -> None:
        self._shown, self._rows, self._tokens = shown, rows, 0
        self._amount, self._said = 0.0, 0
        shown.start(total)

    def advance(self, tokens: int, amount: float) -> None:
        """So many tokens were read, for so much of the input."""
        self._tokens += tokens
        self._amount += amount
        whole = int(self._amount)
        self._shown.advance(whole - self._said)
        self._said = whole
        self._shown.count(self._rows, self._tokens)

    def finish(self, rows: int) -> None:
        """So many rows more are on disk."""
        self._rows += rows
        self._shown.count(self._rows, self._tokens)
