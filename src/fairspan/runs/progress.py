"""What long work tells about itself while it runs."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Whoever shows progress: a terminal, a notebook, nobody."""

    def stage(self, name: str) -> None:
        """Something else begins."""

    def start(self, total: int) -> None:
        """Counted work begins; `total` is in tokens."""

    def advance(self, amount: int) -> None:
        """So many tokens are dealt with."""

    def stop(self) -> None:
        """Counted work is over."""


class Silent:
    """Shows nothing."""

    def stage(self, name: str) -> None: ...

    def start(self, total: int) -> None: ...

    def advance(self, amount: int) -> None: ...

    def stop(self) -> None: ...
