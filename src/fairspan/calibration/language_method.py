"""`LanguageMethod`: how what a vector says about its language is taken away, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fairspan.errors import CalibrationError

METHODS = ("centre", "subspace", "shift", "lir")
_WRITTEN = re.compile(r"(centre|shift|subspace|lir)(?:-([1-9]\d*))?")


@dataclass(frozen=True, slots=True)
class LanguageMethod:
    """One of `METHODS`; `rank` is how many directions a subspace or LIR removes, None for the usual number.

    >>> LanguageMethod.read("lir-2")
    LanguageMethod(name='lir', rank=2)
    """

    name: str
    rank: int | None = None

    @classmethod
    def read(cls, given: Any) -> LanguageMethod:
        """A method as it is written: "centre", "subspace", "subspace-3", "shift", "lir" or "lir-2"."""
        found = _WRITTEN.fullmatch(given) if isinstance(given, str) else None
        if found is None or (found[2] and found[1] in ("centre", "shift")):
            raise CalibrationError(
                f"languages must be one of {', '.join(METHODS)}, or as in subspace-3 and lir-2, got {given!r}."
            )
        return cls(found[1], int(found[2]) if found[2] else None)

    def __str__(self) -> str:
        return self.name if self.rank is None else f"{self.name}-{self.rank}"

    @property
    def needs_language(self) -> bool:
        """Whether the language of a text has to be known; a subspace is removed from every vector."""
        return self.name != "subspace"
