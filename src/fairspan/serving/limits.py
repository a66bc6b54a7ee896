"""`Limits`: how much a server takes at a time."""

from dataclasses import dataclass, fields

from fairspan.errors import DesignError, require_whole


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a server takes at a time.

    Attributes:
        batch_tokens: tokens of a batch, padding included; None for 4,096 on a CPU and 16,384 elsewhere.
        inputs: texts of a request.
        request_tokens: tokens of a request.
        request_bytes: bytes of a request's body.
        queue_tokens: tokens of all requests that wait or are in the model.
        patience_ms: for how many milliseconds a batch waits for requests that are being read.
    """

    batch_tokens: int | None = None
    inputs: int = 2048
    request_tokens: int = 300_000
    request_bytes: int = 16 * 2**20
    queue_tokens: int = 1_000_000
    patience_ms: int = 2

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None:
                least = 0 if one.name == "patience_ms" else 1
                require_whole(f"max_{one.name}" if least else one.name, value, least=least)
        if self.request_tokens > self.queue_tokens:
            raise DesignError(
                f"[[max_request_tokens={self.request_tokens}]] is more than the [[max_queue_tokens]] of "
                f"{self.queue_tokens}: such a request would never be taken."
            )
