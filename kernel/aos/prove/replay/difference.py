"""List the fields that differ between a recorded and a recomputed record, decoded
(spec/audit.md, A-13)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.core.journal.faults import Fault
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Batch, Emitted, Intent, Migrated, Principal, Record, Ref, Stamp
from aos.read.lens.lens import ALL_BYTES, Lens, Manifests
from aos.read.views.record_view import cell_document, fault_document
from aos.values.digests import HASH_BYTES, Hash, hash_text
from aos.values.schema import untyped_to_json

PLACES_MAX: Final = 16
"""How many places inside one value are listed."""


def _as_it_is(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingPlace:
    """One place inside a value that differs: ``$.items[2].qty``. An absent part is None, and so
    is null."""

    path: str
    recorded: object
    recomputed: object


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """One field of a record that differs, both sides as JSON-able values.

    ``places`` lists the first differing places inside it; it is empty for a value without parts.
    """

    field: str
    recorded: object
    recomputed: object
    places: tuple[DifferingPlace, ...] = ()

    def first(self) -> tuple[str, object, object]:
        """Return (where, recorded, recomputed) of the first place, for a report in one line."""
        if not self.places:
            return self.field, self.recorded, self.recomputed
        first_place = self.places[0]
        return (
            self.field + first_place.path.removeprefix("$"),
            first_place.recorded,
            first_place.recomputed,
        )

    def to_document(
        self, side: str = "recomputed", show: Callable[[object], object] = _as_it_is
    ) -> dict[str, object]:
        """Return it as JSON: ``recorded`` next to ``side``, each value as ``show`` returns it."""
        return {
            "field": self.field,
            "recorded": show(self.recorded),
            side: show(self.recomputed),
            "places": [
                {
                    "path": differing_place.path,
                    "recorded": show(differing_place.recorded),
                    side: show(differing_place.recomputed),
                }
                for differing_place in self.places
            ],
        }


def differences(
    recorded: Record,
    recomputed: Record,
    *,
    manifests: Manifests,
    read: BlobReader,
    blobs: Mapping[Hash, bytes],
) -> tuple[FieldDifference, ...]:
    """Compare two records field by field. ``manifests`` decode the values of both; ``blobs`` are
    those that ``read`` does not have.

    Records of different kinds differ in ``kind`` alone; a list differs in its first differing
    entry.
    """
    if type(recorded) is not type(recomputed):
        return (difference("kind", _kind_text(recorded), _kind_text(recomputed)),)

    def read_both(hash: Hash, /) -> bytes:
        blob = blobs.get(hash)
        return read(hash) if blob is None else blob

    lens = Lens(manifests, read_both, value_bytes_max=ALL_BYTES)
    return tuple(_fields(recorded, recomputed, "", _Showing(lens, recorded)))


def _kind_text(record: Record) -> str:
    """Return a record's kind, with the message if it is a fault."""
    fault = getattr(record, "fault", None)
    return f"fault {fault.kind.value}: {fault.message}" if fault else record.KIND


@dataclass(frozen=True, slots=True)
class _Showing:
    """Shows the parts of one record. Workflow, schema and effect are the recorded ones."""

    lens: Lens
    record: Any

    def __call__(self, field: str, value: Any, owner: Any) -> object:
        lens, seq, name = self.lens, self.record.seq, field.rpartition(".")[2]
        if value is None:
            return None
        if name == "value":
            return lens.event(owner.schema, value, seq=seq)
        if name == "params":
            return lens.params(owner.effect, value, seq=seq)
        if name == "state":
            return lens.state(self.record, value)
        if name == "ann":
            return lens.annotations(self.record, value)
        if name == "payload":
            return lens.payload(owner)
        return _plain(value, lens, seq)

    def json_pair(
        self, field: str, recorded: tuple[Any, Any], recomputed: tuple[Any, Any]
    ) -> tuple[object, object]:
        """Return two differing (value, owner) pairs as JSON; as raw bytes if both decode to the
        same."""
        recorded_json, recomputed_json = self(field, *recorded), self(field, *recomputed)
        if recorded_json != recomputed_json:
            return recorded_json, recomputed_json
        seq = self.record.seq
        return _plain(recorded[0], self.lens, seq), _plain(recomputed[0], self.lens, seq)


def _plain(value: Any, lens: Lens, seq: int) -> object:
    """Return a part of a record, shown by its own type."""
    match value:
        case Fault():
            return fault_document(value)
        case Ref():
            return {"hash": hash_text(value.hash), "size": value.size}
        case Stamp():
            return {"ns": value.ns, "entropy": value.entropy.hex()}
        case Principal() | Emitted() | Intent() | Batch() | Migrated():
            names = (field.name for field in dataclasses.fields(value))
            return {name: _plain(getattr(value, name), lens, seq) for name in names}
        case (str(), bytes()):
            return cell_document(value, lens, seq=seq)
        case tuple():
            return [_plain(element, lens, seq) for element in value]
        case bytes():
            return hash_text(Hash(value)) if len(value) == HASH_BYTES else value.hex()
        case _:
            return untyped_to_json(value)


def _fields(
    recorded: Any, recomputed: Any, under: str, show: _Showing
) -> Iterator[FieldDifference]:
    for attribute in dataclasses.fields(recorded):
        recorded_value, recomputed_value = (
            getattr(recorded, attribute.name),
            getattr(recomputed, attribute.name),
        )
        if recorded_value == recomputed_value and type(recorded_value) is type(recomputed_value):
            continue
        field = under + attribute.name
        if attribute.name in ("events", "intents"):
            yield from _entries(field, recorded_value, recomputed_value, show)
        else:
            yield difference(
                field,
                *show.json_pair(field, (recorded_value, recorded), (recomputed_value, recomputed)),
            )


def _entries(
    field: str, recorded: tuple[Any, ...], recomputed: tuple[Any, ...], show: _Showing
) -> Iterator[FieldDifference]:
    for index, (recorded_entry, recomputed_entry) in enumerate(
        zip(recorded, recomputed, strict=False)
    ):
        if recorded_entry != recomputed_entry:
            yield from _fields(recorded_entry, recomputed_entry, f"{field}[{index}].", show)
            return
    yield difference(field, len(recorded), len(recomputed))


def difference(field: str, recorded: object, recomputed: object) -> FieldDifference:
    """Return a difference between two values that are JSON already."""
    differing_places: list[DifferingPlace] = []
    if isinstance(recorded, dict | list) and type(recorded) is type(recomputed):
        for differing_place in _differing_places("$", recorded, recomputed):
            differing_places.append(differing_place)
            if len(differing_places) == PLACES_MAX:
                break
    return FieldDifference(
        field=field, recorded=recorded, recomputed=recomputed, places=tuple(differing_places)
    )


def _differing_places(path: str, recorded: object, recomputed: object) -> Iterator[DifferingPlace]:
    if isinstance(recorded, dict) and isinstance(recomputed, dict):
        for key in sorted({*recorded, *recomputed}, key=str):
            yield from _differing_places(f"{path}.{key}", recorded.get(key), recomputed.get(key))
    elif isinstance(recorded, list) and isinstance(recomputed, list):
        for index in range(max(len(recorded), len(recomputed))):
            yield from _differing_places(
                f"{path}[{index}]", _item(recorded, index), _item(recomputed, index)
            )
    elif recorded != recomputed or type(recorded) is not type(recomputed):
        yield DifferingPlace(path=path, recorded=recorded, recomputed=recomputed)


def _item(items: list[object], index: int) -> object:
    return items[index] if index < len(items) else None
