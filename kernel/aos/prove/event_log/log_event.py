"""The event that every format of an event log is written from: its objects, and the scalar fields
of values that are its attributes (spec/exports.md, EX-20 to EX-29)."""

from __future__ import annotations

import time
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from aos.core.journal.records import Emitted, Event, Intent, KernelReceipt, Manifest, Receipt
from aos.core.state.state import State
from aos.manifest.effective import Effective
from aos.manifest.judging import judge
from aos.read.lens.lens import Lens, Manifests
from aos.read.lens.ports import Journal

Scalar: TypeAlias = str | int | bool

CELL: Final = 0
INTENT: Final = 1
WORLD: Final = 2
"""The kinds of objects, in the order in which they are written."""

WORLD_TYPE: Final = "world"

FIELDS_MAX: Final = 64
"""How many fields of a value become attributes."""

TEXT_MAX: Final = 1024
"""The longest text that becomes an attribute, in characters."""

_SECOND: Final = 10**9
_YEAR_10000: Final = 253_402_300_800

_INTEGER_MAX: Final = 2**63 - 1


class LogLink(NamedTuple):
    """An object that an event names, and why: ``qualifier`` is one of EX-24. ``key`` tells the
    object from others of its kind and type: the CBOR of a cell's key, or an intent's hash."""

    kind: int
    type: str
    key: bytes
    id: str
    qualifier: str


class LogEvent(NamedTuple):
    """Event ``event_index`` of record ``seq``. ``activity`` is its type."""

    seq: int
    event_index: int
    time_ns: int
    activity: str
    links: tuple[LogLink, ...]
    attributes: tuple[tuple[str, Scalar], ...] = ()

    @property
    def id(self) -> str:
        """Its name in the log. The order of the names as text is that of the journal."""
        return f"{self.seq:012}-{self.event_index:04}"


class Move(NamedTuple):
    """One effect of a record on one object, for ``ObjectMoves``.

    ``group`` is a cell's workflow, else empty. The meaning of ``word`` and ``extra`` depends on
    ``op``: see ``CellStatuses`` and ``intent_statuses``.
    """

    kind: int
    group: str
    key: bytes
    time_ns: int
    op: str
    word: str | None = None
    extra: int | str | None = None


def iso_time(ns: int) -> str:
    """Return a time in RFC 3339, UTC, with microseconds, which every reader of logs takes."""
    seconds, fraction_ns = divmod(min(max(ns, 0), _YEAR_10000 * _SECOND - 1), _SECOND)
    return f"{_second(seconds)}.{fraction_ns // 1000:06}Z"


@lru_cache(1024)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class ScalarValues:
    """Reads the scalar fields of values with the manifest in force, as attributes of events
    (EX-27). A value that is erased, unreadable or over 4 KiB has no attributes."""

    def __init__(self, journal: Journal, cut_state: State | None = None) -> None:
        self._journal = journal
        self._lens = self._lens_of(None, 0)
        if cut_state is not None and cut_state.manifest is not None:
            self._lens = self._lens_of(cut_state.manifest, cut_state.manifest_seq)

    def put_in_force(self, record: Manifest) -> None:
        """Read later values with this manifest. Raises ``Damage``."""
        manifest = judge(self._journal.blob(record.document.hash))
        self._lens = self._lens_of(manifest, record.seq)

    def event(self, event: Event | Emitted, seq: int) -> tuple[tuple[str, Scalar], ...]:
        """The scalars of an event's value, by dotted name."""
        return scalars(self._lens.event(event.schema, event.value, seq=seq))

    def params(self, intent: Intent, seq: int) -> tuple[tuple[str, Scalar], ...]:
        """The scalars of an effect's parameters, by dotted name."""
        return scalars(self._lens.params(intent.effect, intent.params, seq=seq))

    def payload(self, record: Receipt | KernelReceipt) -> tuple[tuple[str, Scalar], ...]:
        return scalars(self._lens.payload(record))

    def _lens_of(self, manifest: Effective | None, seq: int) -> Lens:
        # A new one each time, so that only the manifest in force is in memory.
        manifests = Manifests()
        if manifest is not None:
            manifests.add(seq, manifest)
        return Lens(manifests, self._journal.blob)


def scalars(value: object) -> tuple[tuple[str, Scalar], ...]:
    """Return the scalar fields of a value as JSON: of a record, its texts, numbers and booleans; of
    any other value, itself as ``value``."""
    if not isinstance(value, dict):
        return (("value", _attribute(value)),) if _is_scalar(value) else ()
    first = next(iter(value), "")
    if first.startswith("$") and first != "$tag":
        return ()  # it marks a value that cannot be shown
    fields = (
        (f"value.{name}", _attribute(field_value))
        for name, field_value in value.items()
        if _is_scalar(field_value)
    )
    return tuple(islice(fields, FIELDS_MAX))


def _is_scalar(value: object) -> bool:
    return isinstance(value, bool | int) or (isinstance(value, str) and len(value) <= TEXT_MAX)


def _attribute(value: object) -> Scalar:
    assert isinstance(value, str | int)
    is_long = type(value) is int and not -_INTEGER_MAX <= value <= _INTEGER_MAX
    return str(value) if is_long else value
