"""What a server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import prometheus_client as prometheus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TEXTS = tuple(2**power for power in range(12))
_TOKENS = tuple(2**power for power in range(4, 20))


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = own = prometheus.CollectorRegistry()
        for collector in (
            prometheus.ProcessCollector,
            prometheus.PlatformCollector,
            prometheus.GCCollector,
        ):
            collector(registry=own)
        count, sizes = (
            partial(prometheus.Counter, registry=own),
            partial(prometheus.Histogram, registry=own),
        )
        seconds = partial(sizes, buckets=_SECONDS)
        self.requests = count("fairspan_requests", "Requests for embeddings.", ["status"])
        self.texts = count("fairspan_texts", "Texts embedded.")
        self.tokens = count("fairspan_tokens", "Tokens read by the model, padding aside.")
        self.truncated = count("fairspan_truncated_texts", "Texts that were cut at the window.")
        self.cancelled = count(
            "fairspan_cancelled_requests", "Requests whose client left before the reply."
        )
        self.unusable = count(
            "fairspan_unusable_vectors", "Vectors that were all zero or not numbers."
        )
        self.failures = count("fairspan_failed_passes", "Passes of the model that raised an error.")
        self.batch_texts = sizes("fairspan_batch_texts", "Texts in a batch.", buckets=_TEXTS)
        self.batch_tokens = sizes(
            "fairspan_batch_tokens", "Tokens in a batch, padding included.", buckets=_TOKENS
        )
        self.model_seconds = seconds("fairspan_model_seconds", "Seconds of the model for a batch.")
        self.queue_seconds = seconds(
            "fairspan_queue_seconds", "Seconds until a request's first batch."
        )
        self.request_seconds = seconds(
            "fairspan_request_seconds", "Seconds from a whole request to its reply."
        )

    def watch_queue(self, requests: Callable[[], float], tokens: Callable[[], float]) -> None:
        """Show how much is waiting or in the model."""
        for name, count in (("requests", requests), ("tokens", tokens)):
            shown = f"fairspan_queue_{name}", f"{name.capitalize()} not yet finished."
            prometheus.Gauge(*shown, registry=self.registry).set_function(count)

    def text(self) -> bytes:
        return prometheus.generate_latest(self.registry)
