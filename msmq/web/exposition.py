"""The text of C{/metrics}, in the exposition format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from msmq.control.authentication.token_file import TokenExpiry
from msmq.interfaces.archive import IArchive
from msmq.interfaces.bridges import IBridges
from msmq.interfaces.drains import IDrains
from msmq.interfaces.security.tls import EndpointCertificate
from msmq.interfaces.shadows import IShadows
from msmq.interfaces.storage import IStoreVerification
from msmq.manager.administration.inspection import ManagerInspection
from msmq.manager.administration.measurements import Measurements, QueueMeasurement
from msmq.manager.administration.metered_store import MeteredStore
from msmq.manager.administration.store_summary import summarize_store
from msmq.web.metrics import (
    ARCHIVE_METRICS,
    BRIDGE_METRICS,
    CERTIFICATES,
    COMMIT_BUCKETS,
    COMMIT_SECONDS,
    DRAIN_METRICS,
    INFO,
    OUTGOING_METRICS,
    QUEUE_METRICS,
    RELOADS,
    SERVER_METRICS,
    SHADOW_METRICS,
    STANDBY,
    STORE_BYTES,
    STORE_CAPACITY_BYTES,
    STORE_COMMITS,
    STORE_DAMAGED,
    STORE_FAILURES,
    STORE_FREE_BYTES,
    STORE_VERIFIED,
    TOKENS,
    TURN_BUCKETS,
    TURN_SECONDS,
    WINDOWS_METRICS,
    Metric,
    MetricKind,
    Samples,
)
from msmq.wire.guid import format_guid

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

FRESH: Final = 1.0
"""Seconds for which the text is cached, so that more requests do not cost more."""

SLICE: Final = 500
"""Queues that are measured in one iteration of the reactor: a few milliseconds."""

LINES: Final = 5000
"""Samples of queues that are written in one iteration: a few milliseconds."""

_T = TypeVar("_T")


class Instruments:
    """Instruments of a running server; created before its store opens.

    @ivar store: the message store, whose commits a histogram observes.
    @ivar turn_seconds: records the delay of due calls of the reactor.
    """

    def __init__(self, store: MeteredStore) -> None:
        self._verification = IStoreVerification(store, None)
        self.registry = registry = CollectorRegistry()
        self.store = store
        store.observe(_histogram(COMMIT_SECONDS, COMMIT_BUCKETS, registry).observe)
        self.turn_seconds = _histogram(TURN_SECONDS, TURN_BUCKETS, registry)
        ProcessCollector(registry=registry)

    def store_samples(self) -> Iterator[tuple[Metric, Samples]]:
        """The samples of L{msmq.web.metrics.STORE_METRICS}."""
        yield STORE_COMMITS, [((), self.store.commits)]
        yield STORE_FAILURES, [((), self.store.failures)]
        store = summarize_store(self.store)
        if store.bytes is not None:
            yield STORE_BYTES, [((), store.bytes)]
        if store.free_bytes is not None:
            yield STORE_FREE_BYTES, [((), store.free_bytes)]
        if store.capacity_bytes is not None:
            yield STORE_CAPACITY_BYTES, [((), store.capacity_bytes)]
        if self._verification is not None:
            yield STORE_VERIFIED, [((), self._verification.verified_bytes())]
            yield STORE_DAMAGED, [((), self._verification.damaged())]


class Exposition:
    """Writes the metrics of one queue manager.

    Samples are written in slices of a few milliseconds each, between which the server continues its work.
    Without a running queue manager only C{msmq_info}, the instruments and the process metrics are exported.

    @param windows_names: whether to add the names of windows_exporter.
    @param reloads: the number of configuration reloads, by result.
    @param bridges: the routes to other brokers.
    @param drains: the queues that are drained.
    @param archive: the archive of the server.
    @param shadows: the queues with a shadow.
    @param certificates: returns the TLS certificates of the endpoints.
    """

    def __init__(
        self,
        manager: ManagerInspection,
        instruments: Instruments,
        reactor: IReactorTime,
        *,
        windows_names: bool,
        reloads: Mapping[str, int],
        bridges: IBridges,
        drains: IDrains,
        archive: IArchive,
        shadows: IShadows,
        certificates: Callable[[], Sequence[EndpointCertificate]],
        tokens: Callable[[], Sequence[TokenExpiry]],
    ) -> None:
        self._tokens = tokens
        self._certificates = certificates
        self._shadows = shadows
        self._archive = archive
        self._bridges = bridges
        self._drains = drains
        self._reloads = reloads
        self._manager = manager
        self._instruments = instruments
        self._reactor = reactor
        self._windows_names = windows_names
        self._text = b""
        self._written: float | None = None
        self._waiting: list[Deferred[bytes]] | None = None

    def text(self) -> Deferred[bytes]:
        """The metrics, at most L{FRESH} seconds old; concurrent requests share one text."""
        done: Deferred[bytes] = Deferred()
        if self._waiting is not None:
            self._waiting.append(done)
        elif self._written is not None and 0 <= self._reactor.seconds() - self._written < FRESH:
            done.callback(self._text)
        else:
            self._waiting = [done]
            Deferred.fromCoroutine(self._write()).addBoth(self._finish)
        return done

    def _finish(self, result: bytes | Failure) -> None:
        waiting, self._waiting = self._waiting or [], None
        if isinstance(result, bytes):
            self._text, self._written = result, self._reactor.seconds()
        for done in waiting:
            done.callback(result) if isinstance(result, bytes) else done.errback(result)

    async def _write(self) -> bytes:
        parts: list[bytes] = []
        measurements = self._manager.measurements
        parts.append(exposed(INFO, [(self._identity(), 1)]))
        # A server that waits has another site.
        parts += [exposed(metric, [((), 0)]) for metric in STANDBY]
        if measurements.is_running:
            await self._write_queues(measurements, parts)
        if measurements.is_running:
            outgoing = measurements.outgoing()
            for metric, read in OUTGOING_METRICS.items():
                await self._turn()
                samples = [((queue.queue, queue.state), read(queue)) for queue in outgoing]
                await self._write_slices(metric, samples, parts)
        await self._turn()
        if measurements.is_running:
            for metric, find in SERVER_METRICS.items():
                parts.append(exposed(metric, find(measurements)))
        parts.append(exposed(RELOADS, [((result,), n) for result, n in sorted(self._reloads.items())]))
        ends = [((each.endpoint,), each.remaining) for each in self._certificates()]
        parts.append(exposed(CERTIFICATES, ends))
        parts.append(exposed(TOKENS, [((each.token,), each.remaining) for each in self._tokens()]))
        parts += _of_each(BRIDGE_METRICS, self._bridges.summaries(), lambda route: route.name)
        if (archive := self._archive.summary()) is not None:
            for archive_metric, find_figure in ARCHIVE_METRICS.items():
                if (value := find_figure(archive)) is not None:
                    parts.append(exposed(archive_metric, [((), value)]))
        if measurements.is_running:
            parts += _of_each(DRAIN_METRICS, self._drains.summaries(), lambda drain: drain.queue)
        parts += _of_each(SHADOW_METRICS, self._shadows.summaries(), lambda shadow: shadow.queue)
        for metric, found in self._instruments.store_samples():
            parts.append(exposed(metric, found))
        parts += map(without_creation, self._instruments.registry.collect())
        return b"".join(parts)

    async def _write_queues(self, measurements: Measurements, parts: list[bytes]) -> None:
        queues = []
        for some in _slices(measurements.local_queues()):
            queues += [measurements.queue(queue) for queue in some if not queue.is_deleted]
            await self._turn()
        now = measurements.now()
        labels = await self._labels("queue", [queue.path for queue in queues])
        for metric, read in QUEUE_METRICS.items():
            values = [read(queue, now) for queue in queues]
            await self._write_lines(metric, labels, values, parts)
        if self._windows_names:
            labels = await self._labels("name", [self._windows_name(queue) for queue in queues])
            for metric, read_windows in WINDOWS_METRICS.items():
                await self._write_lines(metric, labels, [read_windows(queue) for queue in queues], parts)

    async def _labels(self, label: str, names: Sequence[str]) -> list[str]:
        """The label of each queue as text, which all its samples share."""
        labels: list[str] = []
        for some in _slices(names, LINES):
            labels += [f'{{{label}="{_escaped(name)}"}}' for name in some]
            await self._turn()
        return labels

    async def _write_lines(
        self, metric: Metric, labels: Sequence[str], values: Sequence[float | None], parts: list[bytes]
    ) -> None:
        """Write a sample for each queue; C{None} leaves a queue out.

        As L{generate_latest} writes them, at a tenth of its cost: a server may have ten thousand queues.
        """
        head = exposed(metric, [(("",), 0)]).split(b"\n", 2)[:2] if labels else []
        name, has_samples = metric.name, False
        for start in range(0, len(labels), LINES):
            some = zip(labels[start : start + LINES], values[start : start + LINES], strict=True)
            text = "".join([f"{name}{label} {+value}\n" for label, value in some if value is not None])
            if text and not has_samples:
                has_samples = True
                parts += [*(line + b"\n" for line in head)]
            parts.append(text.encode("utf-8"))
            await self._turn()

    def _windows_name(self, queue: QueueMeasurement) -> str:
        """C{alpha\\private$\\orders}, the queue name in the performance counters of Windows."""
        return f"{self._identity()[2]}{queue.path[1:]}".lower()

    def _identity(self) -> tuple[str, str, str]:
        identity = self._manager.identity
        return identity.version, format_guid(identity.identifier), identity.name

    async def _write_slices(
        self, metric: Metric, samples: Sequence[tuple[tuple[str, ...], float]], parts: list[bytes]
    ) -> None:
        head = True
        for some in _slices(samples):
            text = exposed(metric, some)
            # HELP and TYPE occur once, before all samples of a metric.
            parts.append(text if head else text.split(b"\n", 2)[2])
            head = False
            await self._turn()

    def _turn(self) -> Deferred[None]:
        return deferLater(self._reactor, 0)


def _slices(values: Sequence[_T], size: int = SLICE) -> Iterator[Sequence[_T]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def _escaped(text: str) -> str:
    """The value of a label, in the text format of Prometheus."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class _OneFamily:
    """A registry of one metric family, for the text writer of prometheus_client."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterable[Family]:
        """The family."""
        return (self._family,)


def exposed(metric: Metric, samples: Samples) -> bytes:
    """The lines of one metric; empty without samples."""
    make: Callable[..., GaugeMetricFamily | CounterMetricFamily] = (
        CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    )
    family = make(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return generate_latest(_OneFamily(family)) if family.samples else b""


def _of_each(
    metrics: Mapping[Metric, Callable[[_T], float]], measured: Sequence[_T], label: Callable[[_T], str]
) -> Iterator[bytes]:
    """The text of metrics with one sample for each object, by this label; none without objects."""
    if measured:
        for metric, read in metrics.items():
            yield exposed(metric, [((label(each),), read(each)) for each in measured])


def without_creation(family: Family) -> bytes:
    """The lines of a family without its C{_created} samples, which would be a separate metric."""
    family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
    return generate_latest(_OneFamily(family))


def _histogram(metric: Metric, buckets: Sequence[float], registry: CollectorRegistry) -> Histogram:
    return Histogram(metric.name, metric.help, buckets=buckets, registry=registry)
