"""The events that workflows emit, for the outside (spec/node-api.md, N-117)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Manifest, Step
from aos.manifest.effective import Effective
from aos.manifest.named import is_document
from aos.read.lens.lens import Lens
from aos.read.lens.manifests import IS_MANIFEST
from aos.read.views.view import View


def unknown_schemas(view: View, schemas: Collection[str]) -> set[str]:
    """Return the schemas that no manifest of the world has: neither the one in force nor an earlier
    one, whose events are in the journal."""
    state, unknown = view.state, set(schemas)
    if state.manifest is not None:
        unknown -= set(state.manifest.schemas)
    for hash in sorted(state.pinned) if unknown else ():
        data = view.journal.blob(hash)
        if is_document(data):
            unknown -= set(Effective.from_document(data).schemas)
    return unknown


def emitted(
    view: View, schemas: Collection[str], first: int, last: int
) -> Iterator[tuple[int, int, dict[str, object]]]:
    """Yield (record, place in it, document) of each event of these schemas that a step emitted."""
    lens: Lens = view.full_lens
    names = [schema.encode() for schema in schemas]
    for frame in view.journal.frames(first, last):
        for seq, data in enumerate(frame.records, frame.header.first):
            if not first <= seq <= last:
                continue
            record = from_bytes(data) if _may_matter(data, names) else None
            if isinstance(record, Manifest):
                manifest = Effective.from_document(view.journal.blob(record.document.hash))
                view.manifests.add(seq, manifest)
            if not isinstance(record, Step):
                continue
            for index, event in enumerate(record.events):
                if event.schema in schemas:
                    yield (
                        seq,
                        index,
                        {
                            "seq": seq,
                            "index": index,
                            "schema": event.schema,
                            "value": lens.event(event.schema, event.value, seq=seq),
                            "workflow": record.cell[0],
                            "key": lens.key(record.cell, seq=seq),
                        },
                    )


def _may_matter(data: bytes, names: list[bytes]) -> bool:
    return IS_MANIFEST in data or any(name in data for name in names)
