"""`Progress`: what a run reports while it works, and what shows it."""

import sys
from typing import Any

LINE_SECONDS = 10
"""Seconds between two lines of progress without a terminal, and until the speed is known."""


class Progress:
    """Shows progress: in a terminal, in a notebook, or not at all."""

    def stage(self, name: str) -> None:
        """Something else begins."""

    def start(self, total: int) -> None:
        """Counted work begins, in tokens or in bytes of the input; a total of 0 is not known."""

    def advance(self, amount: float, stored: bool = False) -> None:
        """Report more finished work; what was stored before says nothing about speed."""

    def say(self, result: str) -> None:
        """What has come out so far, beside how much is done."""

    def note(self, line: str) -> None:
        """What is shown in any case, such as what is sent to an endpoint."""
        self.stage(line)

    def stop(self) -> None:
        """Counted work is over."""


class Silent(Progress):
    """Shows nothing."""


class TqdmProgress(Progress):
    """A bar of tqdm: in a notebook a widget, elsewhere a line on stderr.

    In a file or a pipe it is written every ten seconds at most.
    """

    def __init__(self) -> None:
        """A bar that `start` begins."""
        from tqdm.auto import tqdm
        from tqdm.notebook import tqdm as widget

        self._make = tqdm
        self._seconds = 0.1
        if not issubclass(tqdm, widget) and not sys.stderr.isatty():
            self._seconds = LINE_SECONDS
        self._stage = ""
        # Shows nothing until `start` makes one with a total.
        self._bar: Any = tqdm(disable=True)

    def stage(self, name: str) -> None:
        self._stage = name
        self._bar.set_description(name, refresh=False)

    def start(self, total: int) -> None:
        """Replace the bar by a new one."""
        self.stop()
        self._bar = self._make(
            total=total or None,
            desc=self._stage,
            unit="",
            unit_scale=True,
            leave=False,
            mininterval=self._seconds,
        )

    def advance(self, amount: float, stored: bool = False) -> None:
        if stored and not self._bar.disable:
            self._bar.initial += amount
        self._bar.update(amount)

    def say(self, result: str) -> None:
        self._bar.set_postfix_str(result, refresh=False)

    def stop(self) -> None:
        self._bar.close()


def as_progress(progress: bool | Progress) -> Progress:
    """True for a bar, False for none, or whatever shows it."""
    if isinstance(progress, bool):
        return TqdmProgress() if progress else Silent()
    return progress
