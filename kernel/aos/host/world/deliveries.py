"""Admit the events that other worlds deliver, each at most once (spec/world-send.md, WS-20 to
WS-24).

The kernel forgets a submission id after some time, and a delivery may come again later than that.
The store forgets none (ST-30): it has a row for each id that was ever admitted, as long as the
record itself is there. Only pruning removes rows (RT-4). So a delivery without a row was admitted
before only if its record was pruned, and then it was opened before the snapshot to which the
journal was pruned.

All of this runs on the core's thread, just before the kernel decides.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.core.journal.identity import DELIVERY_PREFIX, submission_hash
from aos.core.journal.inputs import EventInput
from aos.core.journal.records import Stamp
from aos.core.kernel_protocol import KernelProtocol
from aos.host.package_checks import admit_from_outside
from aos.manifest.effective import Effective
from aos.store.store import Store
from aos.values.cbor import decode_record
from aos.values.digests import Hash, content_hash
from aos.values.errors import ValueProblem, quoted
from aos.values.spelling import time_text

AHEAD_NS: Final = 60 * 10**9
"""A delivery that claims to be opened by more than this in the future is admitted later."""

NEVER_NS: Final = -AHEAD_NS - 1
"""Earlier than every delivery was opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryInput(EventInput):
    """An event that another world sends; its id is that of ``delivery_id``. ``opened_ns`` is when
    the intent to send it was opened, by the journal clock of that world."""

    opened_ns: int


def refused_sender(event: EventInput) -> Refusal | None:
    """Refuse an event of a sender whose id is that of a delivery, so that no sender can take the
    place of one (WS-24)."""
    id = event.submission_id
    if id is None or not id.startswith(DELIVERY_PREFIX):
        return None
    return Refusal(
        rule=Rule.SUBMISSION_ID_IS_INVALID,
        message=f"submission_id {quoted(id)}: ids that begin with {DELIVERY_PREFIX} belong to "
        "events that other worlds deliver (choose another id)",
    )


@dataclass(frozen=True, slots=True)
class _Admission:
    """A delivery of this process: its record, and its submission hash if that is known."""

    seq: int
    payload: Hash | None


class Deliveries:
    """Which deliveries a world has admitted. ``durable_seq`` returns the last durable record."""

    def __init__(self, store: Store, durable_seq: Callable[[], int]) -> None:
        self._store = store
        self._durable_seq = durable_seq
        self._on_way: OrderedDict[str, _Admission] = OrderedDict()
        """Admitted here, and not yet known as durable: the store may not have their rows."""
        self._forgotten_ns: int | None = None

    def earlier(
        self, delivery: DeliveryInput, manifest: Effective | None
    ) -> Duplicate | Refusal | None:
        """The answer to a delivery that was admitted before, also if the kernel has forgotten it or
        would refuse it now (WS-21); None for any other.

        Two events under one id are compared as long as the manifest has the schema of the second.
        """
        assert delivery.submission_id is not None, "a delivery has an id"
        admission = self._admission(delivery.submission_id)
        if admission is None:
            return None
        payload = _payload(delivery, manifest)
        if payload is None or admission.payload in (None, payload):
            return Duplicate(seq=admission.seq)
        return Refusal(
            rule=Rule.SUBMISSION_ID_IS_TAKEN,
            message=f"record {admission.seq} is another event that the same world has delivered "
            "under this idempotency key (a key names one event: choose a new one)",
        )

    def admit(self, kernel: KernelProtocol, delivery: DeliveryInput, stamp: Stamp) -> Answer:
        """Admit a delivery for which ``earlier`` has no answer, unless it may have been admitted
        and forgotten (WS-22), or comes from the future (WS-23).

        Raises:
            Damage: As ``KernelProtocol.admit``, or the snapshot to which the journal was pruned
                cannot be read.
        """
        assert delivery.submission_id is not None, "a delivery has an id"
        refusal = self._refused(delivery, stamp)
        if refusal is not None:
            return refusal
        manifest = kernel.manifest
        event = EventInput(
            schema=delivery.schema, value=delivery.value, submission_id=delivery.submission_id
        )
        answer = admit_from_outside(kernel, event, stamp)
        if isinstance(answer, Admitted):
            admission = _Admission(answer.seq, _payload(delivery, manifest))
            self._on_way[delivery.submission_id] = admission
        return answer

    def _refused(self, delivery: DeliveryInput, stamp: Stamp) -> Refusal | None:
        if delivery.opened_ns > stamp.ns + AHEAD_NS:
            ahead_s = (delivery.opened_ns - stamp.ns) // 10**9
            return Refusal(
                rule=Rule.WORLD_IS_BUSY,
                message=f"the delivery was opened {ahead_s:,} s ahead of this machine's clock",
            )
        if self._forgotten_ns is None:
            self._forgotten_ns = forgotten_ns(self._store)
        if delivery.opened_ns > self._forgotten_ns + AHEAD_NS:
            return None
        return Refusal(
            rule=Rule.DELIVERY_IS_TOO_OLD,
            message=f"the delivery was opened at {time_text(delivery.opened_ns)}, and the journal "
            "of this world was pruned since: it is not known whether it was admitted",
        )

    def _admission(self, id: str) -> _Admission | None:
        durable_seq = self._durable_seq()
        while self._on_way and next(iter(self._on_way.values())).seq <= durable_seq:
            self._on_way.popitem(last=False)
        admission = self._on_way.get(id)
        if admission is not None:
            return admission
        row = self._store.submission(id)
        return None if row is None else _Admission(row.seq, row.payload)


def _payload(delivery: EventInput, manifest: Effective | None) -> Hash | None:
    """The submission hash of an event; None if the manifest does not have such events."""
    schema = None if manifest is None else manifest.schemas.get(delivery.schema)
    if manifest is None or schema is None:
        return None
    try:
        data = schema.from_ingress(delivery.value, max_bytes=manifest.limits.event_bytes)
    except ValueProblem:
        return None
    return submission_hash(delivery.schema, content_hash(data))


def forgotten_ns(store: Store) -> int:
    """The latest time, by the journal clock, of a record whose row of a submission was removed;
    ``NEVER_NS`` if none was.

    Pruning removes the rows of the ids that the snapshot has forgotten, which are all older than
    the oldest id that it remembers; it remembers one if there ever was one. The window time only
    falls behind the journal clock (K-12a), so the difference between the two in the snapshot bounds
    that of each earlier record, unless an operator has set the clock back since (WS-25).

    Raises:
        Damage: The snapshot cannot be read.
    """
    cut = store.cut()
    if cut is None:
        return NEVER_NS
    document: Any = decode_record(store.blob(cut.document))
    if not document["submissions"]:
        return NEVER_NS
    _, first_chunk, _ = document["submissions"][0]
    rows: Any = decode_record(store.blob(first_chunk))
    _, _, _, oldest_ns = rows[0]
    clock_ns: int = document["clock_ns"]
    behind_ns = clock_ns - document.get("window_ns", clock_ns)
    return int(oldest_ns + behind_ns)
