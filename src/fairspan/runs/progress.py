"""`Progress`: what a run reports while it works, and what shows it."""

from typing import Any


class Progress:
    """Shows progress: in a terminal, in a notebook, or not at all."""

    def stage(self, name: str) -> None:
        """Something else begins."""

    def start(self, total: int) -> None:
        """Counted work begins, in tokens or in bytes of the input; a total of 0 is not known."""

    def advance(self, amount: float) -> None:
        """Report more finished work."""

    def say(self, result: str) -> None:
        """What has come out so far, beside how much is done."""

    def stop(self) -> None:
        """Counted work is over."""


class Silent(Progress):
    """Shows nothing."""


class TqdmProgress(Progress):
    """A bar of tqdm: in a notebook a widget, elsewhere a line on stderr."""

    def __init__(self) -> None:
        from tqdm.auto import tqdm

        self._make = tqdm
        self._stage = ""
        # Shows nothing until `start` makes one with a total.
        self._bar: Any = tqdm(disable=True)

    def stage(self, name: str) -> None:
        self._stage = name
        self._bar.set_description(name)

    def start(self, total: int) -> None:
        self.stop()
        self._bar = self._make(
            total=total or None, desc=self._stage, unit="", unit_scale=True, leave=False
        )

    def advance(self, amount: float) -> None:
        self._bar.update(amount)

    def say(self, result: str) -> None:
        self._bar.set_postfix_str(result)

    def stop(self) -> None:
        self._bar.close()


def as_progress(progress: bool | Progress) -> Progress:
    """True for a bar, False for none, or whatever shows it."""
    if isinstance(progress, bool):
        return TqdmProgress() if progress else Silent()
    return progress
