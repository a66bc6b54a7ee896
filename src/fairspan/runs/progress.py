"""`Progress`: what a run reports while it works, and who shows it."""

from typing import Any


class Progress:
    """Whoever shows progress: a terminal, a notebook, nobody."""

    def stage(self, name: str) -> None:
        """Something else begins."""

    def start(self, total: int) -> None:
        """Counted work begins, in tokens or in bytes of the input; a total of 0 is not known."""

    def advance(self, amount: float) -> None:
        """So much more is done."""

    def say(self, found: str) -> None:
        """What has come out so far, beside how much is done."""

    def stop(self) -> None:
        """Counted work is over."""


class Silent(Progress):
    """Shows nothing."""


class TqdmProgress(Progress):
    """A bar of tqdm: in a notebook a widget, elsewhere a line on stderr."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._stage = ""

    def stage(self, name: str) -> None:
        self._stage = name
        if self._bar is not None:
            self._bar.set_description(name)

    def start(self, total: int) -> None:
        from tqdm.auto import tqdm

        self.stop()
        self._bar = tqdm(total=total or None, desc=self._stage, unit="", unit_scale=True, leave=False)

    def advance(self, amount: float) -> None:
        if self._bar is not None:
            self._bar.update(amount)

    def say(self, found: str) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(found)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None


def as_progress(given: bool | Progress) -> Progress:
    """True for a bar, False for none, or whatever shows it."""
    if isinstance(given, bool):
        return TqdmProgress() if given else Silent()
    return given
