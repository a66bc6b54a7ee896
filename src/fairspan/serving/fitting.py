"""The longest text that fits into memory, found before a server takes requests."""

from __future__ import annotations

from pathlib import Path

import torch

from fairspan.encoding.direct import DirectEncoder
from fairspan.encoding.fill import is_out_of_memory
from fairspan.model.transformer import calibrated_transformers

# Of free memory; the rest is for other requests.
_SHARE = 0.8


def most_tokens(encoder: DirectEncoder, longest: int, least: int) -> int:
    """How many tokens of one text fit: `longest`, or fewer, but at least `least`.

    On a GPU such a text is read. On a CPU that would take minutes: what fits follows from what a
    token of a long text in tiles needs. Where that or the free memory is not known, all fits.
    """
    tokens = longest
    if encoder.model.device.type != "cpu":
        while tokens > least and not _fits(encoder, tokens):
            torch.cuda.empty_cache()
            tokens //= 2
        return max(least, tokens)
    free = free_bytes()
    for module in calibrated_transformers(encoder.model):
        if free is not None and module.tiling is not None:
            tokens = min(tokens, int(_SHARE * free) // module.token_bytes)
    return max(least, tokens)


def _fits(encoder: DirectEncoder, tokens: int) -> bool:
    """Whether the model reads a text of so many tokens."""
    try:
        encoder.vectors(encoder.read(["a " * tokens]))
    except RuntimeError as error:
        if is_out_of_memory(error):
            return False
        raise
    return True


def free_bytes(root: Path = Path("/")) -> int | None:
    """Memory that this process can still take, in its container if it has one; None if unknown."""
    machine = _entries(root / "proc/meminfo")
    if "MemAvailable:" not in machine:
        return None
    free = machine["MemAvailable:"] * 1024
    group = root / "sys/fs/cgroup"
    limit = group / "memory.max"
    if limit.is_file() and limit.read_text().strip().isdecimal():
        taken = int((group / "memory.current").read_text())
        # Of what is taken, cached files make room.
        taken -= _entries(group / "memory.stat").get("inactive_file", 0)
        free = min(free, int(limit.read_text()) - taken)
    return max(0, free)


def _entries(file: Path) -> dict[str, int]:
    """The numbers of a file of lines with a name and a number."""
    lines = file.read_text().splitlines() if file.is_file() else []
    return {name: int(number) for name, number, *_ in map(str.split, lines)}
