"""Counters and gauges of a front, in the text format of Prometheus (spec/node-api.md, N-119).

No key and no name of an instance is a label.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from aos.core.journal.records import Faulted, KernelReceipt, Receipt, Record
from aos.core.state.state import State
from aos.host.door.following import ReplicaPlace
from aos.host.stamps import now_ns
from aos.read.views.clock_view import ahead_ns

if TYPE_CHECKING:
    from aos.node.services import Services
from aos.node.tracing.span_poster import SpanPoster

_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Counters:
    """Counts records and requests since the front started. A listener of the follower.

    ``figures`` are the last figures of the kernel process, ``heard_at`` the monotonic time in
    seconds at which they came; None before the first.
    """

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        self.receipts: Counter[tuple[str, str]] = Counter()
        self.faults: Counter[str] = Counter()
        self.requests: Counter[tuple[str, str]] = Counter()
        self._seconds: Counter[float] = Counter()
        self._seconds_sum = 0.0
        self.figures: Any = None
        self.heard_at: float | None = None

    def rebased(self, state: State) -> None:
        """Records that the follower passed over are not counted."""

    def on_record(self, record: Record, state: State) -> None:  # noqa: ARG002  # a listener's
        """Count a record."""
        self.records[record.KIND] += 1
        match record:
            case Receipt() | KernelReceipt():
                self.receipts[record.effect, record.status] += 1
            case Faulted():
                self.faults[record.fault.kind.value] += 1

    def note_figures(self, figures: object) -> None:
        """Take new figures of the kernel process."""
        self.figures = figures
        self.heard_at = time.monotonic()

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[operation, str(status)] += 1
        self._seconds_sum += seconds
        for bound in _BUCKETS_S:
            if seconds <= bound:
                self._seconds[bound] += 1
                return
        self._seconds[float("inf")] += 1

    def duration_buckets(self) -> tuple[list[tuple[str, float]], float]:
        """Return the cumulative buckets of all requests, and the sum of their seconds."""
        buckets, total = [], 0
        for bound in (*_BUCKETS_S, float("inf")):
            total += self._seconds[bound]
            buckets.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
        return buckets, self._seconds_sum


class _Collector(Collector):
    def __init__(self, services: Services) -> None:
        self._services = services

    def collect(self) -> Iterator[Any]:
        yield from _world(self._services)
        yield from _intents(self._services.follower.state)
        yield from _counted(self._services.counters)
        yield from _process(self._services.counters)
        yield from _front(self._services)
        yield from _replica(self._services.link.place)


def metrics_text(services: Services) -> bytes:
    """Return all metrics of this moment."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(services))
    return generate_latest(registry)


def _gauge(name: str, help: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"aos_{name}", help, value=value)


def _world(services: Services) -> Iterator[Any]:
    state, store = services.follower.state, services.follower.store
    head = store.head()
    last = 0 if head is None else head.seq
    yield _gauge("journal_records", "Last durable record.", last)
    yield _gauge(
        "follower_lag_records", "Durable records that the front has not read yet.",
        max(0, last - services.follower.seq),
    )  # fmt: skip
    yield _gauge("journal_clock_seconds", "The journal's clock.", state.clock_ns / 1e9)
    yield _gauge(
        "journal_clock_ahead_seconds",
        "How far the journal's clock is ahead of the machine's, if by more than a minute.",
        ahead_ns(state.clock_ns, now_ns()) / 1e9,
    )
    yield _gauge("store_bytes", "Size of the store on the disk.", store.size_bytes())
    yield _gauge("cells", "Instances.", len(state.cells))
    yield _gauge("ready_cells", "Instances that run next.", len(state.ring))
    age = 0 if state.snapshot is None else state.next_seq - 1 - state.snapshot.at
    yield _gauge("snapshot_age_records", "Records since the last snapshot.", age)


def _intents(state: State) -> Iterator[Any]:
    intents = state.intents
    open_intents = GaugeMetricFamily("aos_open_intents", "Open intents.", labels=["effect"])
    since = GaugeMetricFamily(
        "aos_oldest_open_intent_timestamp_seconds", "When the oldest open intent was opened.",
        labels=["effect"],
    )  # fmt: skip
    for effect, number in sorted((+intents.counts).items()):
        open_intents.add_metric([effect], number)
        oldest = intents.oldest(effect)
        if oldest is not None:
            since.add_metric([effect], oldest.opened_ns / 1e9)
    yield open_intents
    yield since
    yield _gauge("halted_intents", "Open intents that were held or parked.", len(state.halts))


def _counted(counters: Counters) -> Iterator[Any]:
    records = CounterMetricFamily("aos_records", "Records by kind.", labels=["kind"])
    for kind, number in sorted(counters.records.items()):
        records.add_metric([kind], number)
    yield records
    receipts = CounterMetricFamily(
        "aos_receipts", "Receipts by effect and status.", labels=["effect", "status"]
    )
    for labels, number in sorted(counters.receipts.items()):
        receipts.add_metric(labels, number)
    yield receipts
    faults = CounterMetricFamily("aos_faults", "Faults by kind.", labels=["kind"])
    for kind, number in sorted(counters.faults.items()):
        faults.add_metric([kind], number)
    yield faults


def _process(counters: Counters) -> Iterator[Any]:
    figures = counters.figures
    if figures is None:
        return
    yield _gauge("inbox_inputs", "Inputs that wait in the inbox.", figures.queued)
    yield _gauge("inbox_bytes", "Their bytes.", figures.queued_bytes)
    yield _gauge("waiting_frames", "Frames that wait for the disk.", figures.frames)
    yield _gauge("commit_seconds", "Time of recent commits.", figures.commit_ns / 1e9)
    yield _gauge("disk_has_room", "1 if records can be written.", figures.no_room is None)


def _front(services: Services) -> Iterator[Any]:
    requests = CounterMetricFamily(
        "aos_http_requests", "Requests by operation and status.", labels=["operation", "status"]
    )
    for labels, number in sorted(services.counters.requests.items()):
        requests.add_metric(labels, number)
    yield requests
    buckets, total = services.counters.duration_buckets()
    yield HistogramMetricFamily(
        "aos_http_request_seconds", "Duration of requests.", buckets=buckets, sum_value=total
    )
    for kind in ("stream", "poll", "wait"):
        yield _gauge(
            f"open_{kind}s", f"Open requests of the kind {kind}.", services.sessions.count(kind)
        )
    if services.work is not None:
        figures = services.work.figures()
        yield _gauge("tasks_leased", "Tasks that a worker holds.", figures.leased)
        yield _gauge("tasks_offered", "Tasks that wait for a worker.", figures.offered)
        yield _gauge("tasks_parked", "Tasks that no worker gets until a retry.", figures.parked)
        lost = CounterMetricFamily("aos_leases_lost", "Leases that were lost.")
        lost.add_metric([], figures.lost)
        yield lost
    yield from _webhooks(services)
    yield from _spans(services.spans, services.follower.seq)


def _replica(place: ReplicaPlace | None) -> Iterator[Any]:
    """Of a node of a replicated world."""
    if place is None:
        return
    yield _gauge("replica_is_owner", "1 if this node owns the world.", place.term is not None)
    yield _gauge("replica_lag_messages", "Messages of the log that this node is behind.", place.lag)
    if (reference := place.reference) is not None:
        yield _gauge(
            "replica_reference_differs",
            "1 if the reference kernel has found a difference in the journal of this node.",
            reference.differs,
        )
        yield _gauge(
            "replica_reference_lag_records", "Records that the reference kernel is behind.",
            reference.behind,
        )  # fmt: skip


def _spans(poster: SpanPoster | None, seq: int) -> Iterator[Any]:
    """Without spans, the names alone."""
    spans = CounterMetricFamily("aos_spans", "Spans by outcome.", labels=["outcome"])
    failed = CounterMetricFamily("aos_span_requests_failed", "Requests that were repeated.")
    lag = GaugeMetricFamily("aos_span_lag_records", "Records that are not exported yet.")
    if poster is not None:
        spans.add_metric(["exported"], poster.exported)
        spans.add_metric(["refused"], poster.refused)
        failed.add_metric([], poster.failed)
        lag.add_metric([], max(0, seq + 1 - poster.position))
    yield from (spans, failed, lag)


def _webhooks(services: Services) -> Iterator[Any]:
    posts = CounterMetricFamily(
        "aos_webhook_posts", "Posts of a webhook by outcome.", labels=["webhook", "outcome"]
    )
    lag = GaugeMetricFamily(
        "aos_webhook_lag_records", "Records whose events are not posted yet.", labels=["webhook"]
    )
    for webhook in services.webhooks:
        name = webhook.webhook.name
        posts.add_metric([name, "accepted"], webhook.posted)
        posts.add_metric([name, "failed"], webhook.failed)
        lag.add_metric([name], max(0, services.follower.seq + 1 - webhook.position))
    yield posts
    yield lag
