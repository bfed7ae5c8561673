"""Prometheus metrics of the plumbing, in a registry that the program owns.

One `Metrics` per program; its parts answer the protocols that queue, runner, informers and metered port declare, so that none
of these knows Prometheus. Label values come from code (kinds, verbs, worker names), never from objects, so that series stay
few.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import UnknownMetricFamily
from prometheus_client.registry import Collector

PREFIX = "volcano_federation"

FAST = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets in seconds for requests and reconciliations: an API server answers in milliseconds, ten seconds is the time-out."""

WAITING = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0)
"""Buckets in seconds for waiting in a queue."""


class Metrics:
    """All metrics of the plumbing, registered in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._requests = Counter(
            f"{PREFIX}_api_requests", "Requests to API servers.", ["server", "verb", "kind", "outcome"], registry=registry
        )
        self._request_seconds = Histogram(
            f"{PREFIX}_api_request_seconds",
            "Duration of requests to API servers, watches apart.",
            ["server", "verb"],
            registry=registry,
            buckets=FAST,
        )
        self._depth = Gauge(f"{PREFIX}_workqueue_depth", "Keys ready for a worker.", ["queue"], registry=registry)
        self._waited = Histogram(
            f"{PREFIX}_workqueue_wait_seconds",
            "Time a key was ready before a worker took it.",
            ["queue"],
            registry=registry,
            buckets=WAITING,
        )
        self._retries = Counter(f"{PREFIX}_workqueue_retries", "Keys put back after a failure.", ["queue"], registry=registry)
        self._reconciled = Counter(
            f"{PREFIX}_reconciliations", "Reconciliations by outcome.", ["worker", "outcome"], registry=registry
        )
        self._reconcile_seconds = Histogram(
            f"{PREFIX}_reconcile_seconds", "Duration of reconciliations.", ["worker"], registry=registry, buckets=FAST
        )
        self._objects = Gauge(
            f"{PREFIX}_informer_listed_objects", "Objects in the last complete list.", ["server", "kind"], registry=registry
        )
        self._events = Counter(f"{PREFIX}_informer_events", "Watch events.", ["server", "kind", "type"], registry=registry)
        self._failures = Counter(
            f"{PREFIX}_informer_failures", "Lists and watches that failed.", ["server", "kind", "reason"], registry=registry
        )
        self._broken = Counter(
            f"{PREFIX}_informer_unreadable_objects", "Objects that could not be read.", ["server", "kind"], registry=registry
        )
        self._leading = Gauge(f"{PREFIX}_leading", "1 while this process leads, else 0.", ["lease"], registry=registry)
        self._counters: dict[str, Counter] = {}
        self._named: dict[str, _Named] = {}
        self._latencies: dict[str, Histogram] = {}
        self._gauges: dict[str, Gauge] = {}

    def count(self, name: str, documentation: str, *, by: float = 1.0, **labels: str) -> None:
        """One more (or `by`) of something that a role counts, under exactly the name that the field knows it by."""
        if not name.endswith("_total"):
            if name not in self._named:
                self._named[name] = _Named(name, documentation, registry=self.registry)
            self._named[name].count(by, labels)
            return
        if name not in self._counters:
            self._counters[name] = Counter(name, documentation, sorted(labels), registry=self.registry)
        (self._counters[name].labels(**labels) if labels else self._counters[name]).inc(by)

    def took(self, name: str, documentation: str, *, value: float, buckets: tuple[float, ...], **labels: str) -> None:
        """One more duration of something that a role measures, in the unit that its name says."""
        if name not in self._latencies:
            self._latencies[name] = Histogram(name, documentation, sorted(labels), registry=self.registry, buckets=buckets)
        (self._latencies[name].labels(**labels) if labels else self._latencies[name]).observe(value)

    def gauge(self, name: str, documentation: str, *, value: float, **labels: str) -> None:
        """How much there is now of something that a role keeps count of."""
        if name not in self._gauges:
            self._gauges[name] = Gauge(name, documentation, sorted(labels), registry=self.registry)
        (self._gauges[name].labels(**labels) if labels else self._gauges[name]).set(value)

    def forget(self, name: str, **labels: str) -> None:
        """What the labels named has gone: its gauge goes too."""
        if name in self._gauges:
            with contextlib.suppress(KeyError):
                self._gauges[name].remove(*(labels[each] for each in sorted(labels)))

    def queue(self, name: str) -> _Queue:
        """For `WorkQueue(metrics=…)`."""
        return _Queue(self._depth.labels(name), self._waited.labels(name), self._retries.labels(name))

    def server(self, name: str) -> _Server:
        """For `MeteredPort(metrics=…)` and `Informers(metrics=…)`; `name` is "hub" or "member"."""
        return _Server(self, name)

    def reconciled(self, name: str, *, seconds: float, outcome: str) -> None:
        """For `run_workers(metrics=…)`."""
        self._reconciled.labels(name, outcome).inc()
        self._reconcile_seconds.labels(name).observe(seconds)

    def leading(self, lease: str, *, leads: bool) -> None:
        """For `Elector(metrics=…)`."""
        self._leading.labels(lease).set(1.0 if leads else 0.0)


class _Named(Collector):
    """A counter whose name does not end in `_total`: the client library would add that, and upstream's dashboards would find
    nothing. Its type is shown as unknown, which queries do not look at."""

    def __init__(self, name: str, documentation: str, *, registry: CollectorRegistry) -> None:
        self._name, self._documentation = name, documentation
        self._counts: dict[tuple[tuple[str, str], ...], float] = {}
        registry.register(self)

    def count(self, by: float, labels: dict[str, str]) -> None:
        series = tuple(sorted(labels.items()))
        self._counts[series] = self._counts.get(series, 0.0) + by

    def collect(self) -> Iterator[UnknownMetricFamily]:
        family = UnknownMetricFamily(self._name, self._documentation)
        for series, count in list(self._counts.items()):
            family.add_sample(self._name, dict(series), count)
        yield family


@dataclass(frozen=True, slots=True)
class _Queue:
    depth: Gauge
    waited: Histogram
    retries: Counter

    def queued(self, depth: int) -> None:
        self.depth.set(depth)

    def taken(self, depth: int, waited: float) -> None:
        self.depth.set(depth)
        self.waited.observe(waited)

    def retried(self) -> None:
        self.retries.inc()


class _Server:
    """Looking up the series of a request or an event costs more than counting it, so that each is looked up once. They are
    few: verbs, kinds and outcomes are named in code."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._metrics = metrics
        self._name = name
        self._requests: dict[tuple[str, str, str], Counter] = {}
        self._seconds: dict[str, Histogram] = {}
        self._events: dict[tuple[str, str], Counter] = {}

    def requested(self, verb: str, kind: str, *, outcome: str, seconds: float) -> None:
        requests = self._requests.get((verb, kind, outcome))
        if requests is None:
            requests = self._metrics._requests.labels(self._name, verb, kind, outcome)
            self._requests[verb, kind, outcome] = requests
        requests.inc()
        if verb == "watch":
            return
        duration = self._seconds.get(verb)
        if duration is None:
            duration = self._seconds[verb] = self._metrics._request_seconds.labels(self._name, verb)
        duration.observe(seconds)

    def listed(self, kind: str, *, objects: int) -> None:
        self._metrics._objects.labels(self._name, kind).set(objects)

    def event(self, kind: str, *, type: str) -> None:
        events = self._events.get((kind, type))
        if events is None:
            events = self._events[kind, type] = self._metrics._events.labels(self._name, kind, type)
        events.inc()

    def failed(self, kind: str, *, reason: str) -> None:
        self._metrics._failures.labels(self._name, kind, reason).inc()

    def broken(self, kind: str) -> None:
        self._metrics._broken.labels(self._name, kind).inc()
