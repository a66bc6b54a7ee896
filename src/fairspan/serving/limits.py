"""`Limits`: how much a server takes at a time."""

from __future__ import annotations

from dataclasses import dataclass, fields

from fairspan.errors import require_whole


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a server takes at a time.

    Attributes:
        max_batch_tokens: tokens per batch with padding. By default 4096 on a CPU, otherwise 16384.
        max_inputs: largest number of texts in a request.
        max_request_tokens: largest number of tokens in a request.
        max_request_bytes: largest number of bytes in a request. By default 16 per token, at least 1
            MB.
        max_queue_tokens: largest number of tokens in the queue; further requests get 429.
    """

    max_batch_tokens: int | None = None
    max_inputs: int = 2048
    max_request_tokens: int = 300_000
    max_request_bytes: int | None = None
    max_queue_tokens: int = 1_000_000

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if value is not None:
                require_whole(limit.name, value)

    @property
    def body_bytes(self) -> int:
        return self.max_request_bytes or max(16 * self.max_request_tokens, 10**6)
