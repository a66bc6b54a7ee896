"""What several verbs take, and reading what was typed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from fairspan.errors import DesignError

Window = Annotated[int | None, typer.Option(help="The longest text the model is to read, in tokens.")]
Out = Annotated[
    Path | None,
    typer.Option(help="The run's folder. Default: one in fairspan-runs that belongs to this command."),
]
StoreFile = Annotated[Path | None, typer.Option(help="The file that keeps vectors. Default: in your cache folder.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, mps.")]
Dtype = Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")]
BatchTokens = Annotated[int | None, typer.Option(help="Tokens in a batch, padding included.")]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Measure again though the run is complete.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

# Commas inside brackets belong to a value, as in paper+layers=[1,3].
_COMMA = re.compile(r",(?![^\[{]*[\]}])")


def words(text: str | None) -> list[str] | None:
    """ "en, de" as ["en", "de"]; None stays None."""
    return None if text is None else [word.strip() for word in _COMMA.split(text) if word.strip()]


def numbers(name: str, text: str | None) -> list[int] | None:
    """ "3,4" as [3, 4]; None stays None."""
    found = words(text)
    if found is None:
        return None
    if not found or not all(word.isascii() and word.isdecimal() for word in found):
        raise DesignError(f"--{name} takes whole numbers such as 3,4,5, got {text!r}.")
    return [int(word) for word in found]


def decimals(name: str, text: str | None) -> list[float] | None:
    """ "1,0.9" as [1.0, 0.9]; None stays None."""
    found = words(text)
    try:
        return None if found is None else [float(word) for word in found]
    except ValueError:
        raise DesignError(f"--{name} takes numbers such as 1.0,0.9,0.8, got {text!r}.") from None


def positive(name: str, value: int | None) -> int | None:
    """A whole number above 0; None stays None."""
    if value is not None and value < 1:
        raise DesignError(f"--{name} takes a whole number of at least 1, got {value}.")
    return value
