"""What a server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TEXTS = tuple(2**power for power in range(12))
_TOKENS = tuple(2**power for power in range(4, 20))


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self.requests = self._counter("requests", "Requests for embeddings.", ("status",))
        self.texts = self._counter("texts", "Texts embedded.")
        self.tokens = self._counter("tokens", "Tokens read by the model, padding aside.")
        self.truncated = self._counter("truncated_texts", "Texts that were cut at the window.")
        self.cancelled = self._counter(
            "cancelled_requests", "Requests whose client left before the reply."
        )
        self.unusable = self._counter(
            "unusable_vectors", "Vectors that were all zero or not numbers."
        )
        self.failures = self._counter("failed_passes", "Passes of the model that raised an error.")
        self.batch_texts = self._histogram("batch_texts", "Texts in a batch.", _TEXTS)
        self.batch_tokens = self._histogram(
            "batch_tokens", "Tokens in a batch, padding included.", _TOKENS
        )
        self.model_seconds = self._histogram("model_seconds", "Seconds of the model for a batch.")
        self.queue_seconds = self._histogram(
            "queue_seconds", "Seconds until a request's first batch."
        )
        self.request_seconds = self._histogram(
            "request_seconds", "Seconds from a whole request to its reply."
        )

    def watch_queue(self, requests: Callable[[], float], tokens: Callable[[], float]) -> None:
        """Show how much is waiting or in the model."""
        for name, count in (("requests", requests), ("tokens", tokens)):
            text = f"{name.capitalize()} not yet finished."
            gauge = Gauge(f"fairspan_queue_{name}", text, registry=self.registry)
            gauge.set_function(count)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"fairspan_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
        return Histogram(f"fairspan_{name}", text, buckets=buckets, registry=self.registry)
