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
        self.registry = own = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=own)
        self.requests = Counter("fairspan_requests", "Requests for embeddings.", ["status"], registry=own)
        self.texts = Counter("fairspan_texts", "Texts embedded.", registry=own)
        self.tokens = Counter("fairspan_tokens", "Tokens read by the model, padding aside.", registry=own)
        self.truncated = Counter("fairspan_truncated_texts", "Texts that were cut at the window.", registry=own)
        self.cancelled = Counter(
            "fairspan_cancelled_requests", "Requests whose client left before the reply.", registry=own
        )
        self.unusable = Counter(
            "fairspan_unusable_vectors", "Vectors that were all zero or not numbers.", registry=own
        )
        self.failures = Counter("fairspan_failed_passes", "Passes of the model that raised an error.", registry=own)
        self.batch_texts = Histogram("fairspan_batch_texts", "Texts in a batch.", buckets=_TEXTS, registry=own)
        self.batch_tokens = Histogram(
            "fairspan_batch_tokens", "Tokens in a batch, padding included.", buckets=_TOKENS, registry=own
        )
        self.model_seconds = Histogram(
            "fairspan_model_seconds", "Seconds of the model for a batch.", buckets=_SECONDS, registry=own
        )
        self.queue_seconds = Histogram(
            "fairspan_queue_seconds", "Seconds until a request's first batch.", buckets=_SECONDS, registry=own
        )
        self.request_seconds = Histogram(
            "fairspan_request_seconds", "Seconds from a whole request to its reply.", buckets=_SECONDS, registry=own
        )

    def watch_queue(self, requests: Callable[[], float], tokens: Callable[[], float]) -> None:
        """Show how much is waiting or in the model."""
        for name, count in (("requests", requests), ("tokens", tokens)):
            gauge = Gauge(f"fairspan_queue_{name}", f"{name.capitalize()} not yet finished.", registry=self.registry)
            gauge.set_function(count)

    def text(self) -> bytes:
        return generate_latest(self.registry)
