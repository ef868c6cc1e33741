"""What a server counts and times, for Prometheus."""

from __future__ import annotations

import math

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE

from redunet.serve.batching import Answerer
from redunet.serve.model_store import Served

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

__all__ = ["CONTENT_TYPE", "Measures"]


class Measures:
    """The counters of one server, apart from those of others in the same process.

    Parameters
    ----------
    served : Served
    answerer : Answerer
    """

    def __init__(self, served: Served, answerer: Answerer) -> None:
        own = self._registry = CollectorRegistry()
        self.requests = Counter(
            "redunet_requests", "Requests answered.", ["path", "status"], registry=own
        )
        self.seconds = Histogram(
            "redunet_request_seconds", "Time to answer.", ["path"], buckets=_SECONDS, registry=own
        )
        self.changes = Counter("redunet_changes", "Changes in the file.", ["what"], registry=own)
        self.samples = Counter("redunet_answered_samples", "Samples labelled.", registry=own)
        gauges = {
            "redunet_model_version": ("Version stored.", lambda: served.stored.number),
            "redunet_model_version_answering": (
                "Version that answers.",
                lambda: 0 if served.answering is None else served.answering.number,
            ),
            "redunet_model_classes": ("Classes.", lambda: len(served.stored.model.moments_)),
            "redunet_model_samples": (
                "Samples learnt.",
                lambda: sum(served.stored.model.moments_.counts),
            ),
            "redunet_build_seconds": (
                "Time that the last network took to build.",
                lambda: (
                    math.nan
                    if served.answering is None
                    else served.answering.facts["build_seconds"]
                ),
            ),
            "redunet_waiting_questions": (
                "Requests that wait for an answer.",
                lambda: len(answerer),
            ),
        }
        for name, (about, value) in gauges.items():
            Gauge(name, about, registry=own).set_function(value)

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self._registry)
