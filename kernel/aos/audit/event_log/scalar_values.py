"""The scalar fields of values, as attributes of events (spec/exports.md, EX-27)."""

from __future__ import annotations

from itertools import islice
from typing import Final

from aos.audit.event_log.log_event import Scalar
from aos.audit.lens.lens import Lens
from aos.audit.lens.manifests import Manifests
from aos.audit.lens.ports import Journal
from aos.core.journal.records import Emitted, Event, Intent, KernelReceipt, Manifest, Receipt
from aos.core.state.state import State
from aos.manifest.effective import Effective

FIELDS_MAX: Final = 64
"""How many fields of a value become attributes."""

TEXT_MAX: Final = 1024
"""The longest text that becomes an attribute, in characters."""

_INTEGER_MAX: Final = 2**63 - 1


class ScalarValues:
    """Reads values with the manifest in force. A value that is erased, unreadable or over 4 KiB has
    no attributes."""

    def __init__(self, journal: Journal, cut_state: State | None = None) -> None:
        self._journal = journal
        self._lens = self._lens_of(None, 0)
        if cut_state is not None and cut_state.manifest is not None:
            self._lens = self._lens_of(cut_state.manifest, cut_state.manifest_seq)

    def put_in_force(self, record: Manifest) -> None:
        """Read later values with this manifest. Raises ``Damage``."""
        manifest = Effective.from_document(self._journal.blob(record.document.hash))
        self._lens = self._lens_of(manifest, record.seq)

    def event(self, event: Event | Emitted, seq: int) -> tuple[tuple[str, Scalar], ...]:
        return scalars(self._lens.event(event.schema, event.value, seq=seq))

    def params(self, intent: Intent, seq: int) -> tuple[tuple[str, Scalar], ...]:
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
