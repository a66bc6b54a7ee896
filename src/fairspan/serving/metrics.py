"""What a server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

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
        """Register every counter and histogram, and those of the process."""
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        count = partial(Counter, namespace="fairspan", registry=self.registry)
        sizes = partial(Histogram, namespace="fairspan", registry=self.registry)
        seconds = partial(sizes, buckets=_SECONDS)
        self.requests = count("requests", "Requests for embeddings.", ["status"])
        self.texts = count("texts", "Texts embedded.")
        self.tokens = count("tokens", "Tokens read by the model, padding aside.")
        self.truncated = count("truncated_texts", "Texts that were cut at the window.")
        left = "Requests whose client left before the reply."
        self.cancelled = count("cancelled_requests", left)
        self.unusable = count("unusable_vectors", "Vectors that were all zero or not numbers.")
        self.failures = count("failed_passes", "Passes of the model that raised an error.")
        self.batch_texts = sizes("batch_texts", "Texts in a batch.", buckets=_TEXTS)
        padded = "Tokens in a batch, padding included."
        self.batch_tokens = sizes("batch_tokens", padded, buckets=_TOKENS)
        self.model_seconds = seconds("model_seconds", "Seconds of the model for a batch.")
        self.queue_seconds = seconds(
            "queue_seconds", "Seconds that the first text of a batch waited."
        )
        whole = "Seconds from a whole request to its reply."
        self.request_seconds = seconds("request_seconds", whole)

    def watch_queue(self, requests: Callable[[], float], tokens: Callable[[], float]) -> None:
        """Show how much is waiting or in the model."""
        for name, count in (("requests", requests), ("tokens", tokens)):
            text = f"{name.capitalize()} not yet finished."
            gauge = Gauge(f"fairspan_queue_{name}", text, registry=self.registry)
            gauge.set_function(count)

    def count_batch(self, lengths: Sequence[int]) -> None:
        """Count a batch of texts of these lengths."""
        self.texts.inc(len(lengths))
        self.tokens.inc(sum(lengths))
        self.batch_texts.observe(len(lengths))
        self.batch_tokens.observe(len(lengths) * max(lengths))

    def text(self) -> bytes:
        return generate_latest(self.registry)
