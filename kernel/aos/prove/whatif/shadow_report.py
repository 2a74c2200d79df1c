"""The report of a shadow: ``aos-shadow/1`` (spec/shadow.md, SH-50 to SH-58).

A report is one canonical CBOR map without a wall clock, so everyone with the journal gets the same
bytes. Its first fields are those that the kernel reads (GV-30).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from aos.core.decide.answers import Blocker
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId
from aos.core.journal.shadow_report import REPORT_BYTES_MAX, ReportHead
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.core.state.version import manifest_under, runs_under
from aos.errors import Refused
from aos.manifest.effective import Effective
from aos.prove.whatif.shadow import Shadow
from aos.prove.whatif.shadow_course import SHADOW_CLASSES, CellNote, Observed
from aos.prove.whatif.step_comparison import DIFFERENCES_KEPT
from aos.read.lens.lens import ALL_BYTES, Lens, Manifests
from aos.values.cbor import INTEGER_MAX, INTEGER_MIN, encode
from aos.values.digests import Hash, content_hash, hash_text

Fields: TypeAlias = dict[Any, Any]
"""A map of a report: its keys are texts, its values JSON and, at the top, hashes as bytes."""

PENDING_MAX: Final = 1_000
"""How many intents that are open at the end are listed."""

BLOCKERS_MAX: Final = 100

SHOWN_BYTES_MAX: Final = 2_048
"""A longer value is shown by its hash and size."""


def blocked_report(
    head: ReportHead, standing: Iterable[Blocker], answers: Hash | None, lens: Lens
) -> bytes:
    """The report of a shadow that could not run: something that the world holds at its beginning
    does not fit the manifest."""
    return encode(
        {**head.fields(), "answers": answers, "same": False, "blocked": True,
         **_blockers(standing, lens, head.first + 1)}
    )  # fmt: skip


def shadow_report(
    head: ReportHead,
    shadow: Shadow,
    proposed: Effective,
    manifests: Manifests,
    *,
    standing: Iterable[Blocker],
    answers: Hash | None,
    read: BlobReader,
) -> bytes:
    """The report of a shadow that was finished: canonical CBOR of at most 1 MiB."""
    lens = Lens(manifests, read, value_bytes_max=ALL_BYTES)
    cells = _differing(shadow)
    pending = _pending(shadow, lens)
    fields: Fields = {
        **head.fields(),
        "answers": answers,
        "clock_ns": shadow.recorded.clock_ns,
        "same": not cells,
        "blocked": False,
        **_blockers(standing, lens, head.first + 1),
        "steps": _steps(shadow),
        "inputs": {"admitted": shadow.tally.admitted, "refused": shadow.tally.refused},
        "by_class": {
            class_name: shadow.tally.by_class[class_name] for class_name in SHADOW_CLASSES
        },
        "cells": _cells(shadow, cells),
        "effects": {
            "recorded": _observed(shadow.tally.recorded),
            "shadow": _observed(shadow.tally.shadow),
        },
        "answered": {
            source: shadow.tally.answered[source] for source in ("timers", "blobs", "core", "file")
        },
        "instances": {
            "recorded": _instances(shadow.recorded),
            "shadow": _instances(shadow.state),
        },
        "allowlists": _allowlists(shadow.recorded.effective, proposed),
        "pending": {
            "recorded": len(shadow.recorded.intents),
            "shadow": len(shadow.state.intents),
        },
    }
    showing = _Showing(shadow, lens)
    cell_documents = [showing.cell(id, note) for id, note in cells[:DIFFERENCES_KEPT]]
    return _fitted(fields, cell_documents, len(cells), pending)


def _fitted(
    fields: Fields, cell_documents: list[Fields], cells: int, pending: list[Fields]
) -> bytes:
    """Leave out listed cells and intents until the report is small enough, and then what the two
    manifests allow alike.

    Raises:
        Refused: It is too long without all of that.
    """
    while True:
        report = {
            **fields,
            "differences": cell_documents,
            "left_out": cells - len(cell_documents),
            "open": pending,
        }
        data = encode(report)
        if len(data) <= REPORT_BYTES_MAX:
            return data
        if cell_documents and len(cell_documents) >= len(pending) // 10:
            cell_documents = cell_documents[: len(cell_documents) // 2]
        elif pending:
            pending = pending[: len(pending) // 2]
        else:
            differing = _different_lists(fields["allowlists"])
            if differing == fields["allowlists"]:
                raise Refused(
                    f"the report has {len(data):,} bytes without its lists: expected at most "
                    f"{REPORT_BYTES_MAX:,} (shadow manifests with fewer workflows and effects)"
                )
            fields = {**fields, "allowlists": differing}


def _blockers(standing: Iterable[Blocker], lens: Lens, seq: int) -> Fields:
    blockers = sorted(standing, key=lambda blocker: (blocker.cell, blocker.kind, blocker.detail))
    return {
        "blockers": {
            "total": len(blockers),
            "first": [
                {
                    "kind": blocker.kind,
                    "cell": _cell(blocker.cell, lens, seq),
                    "detail": blocker.detail,
                }
                for blocker in blockers[:BLOCKERS_MAX]
            ],
        }
    }


def _steps(shadow: Shadow) -> Fields:
    tally = shadow.tally
    return {
        "compared": tally.compared,
        "different": tally.different,
        "missing": tally.missing,
        "extra": tally.extra,
        "erased": tally.erased,
        "environmental": tally.environmental,
    }


def _differing(shadow: Shadow) -> list[tuple[CellId, CellNote]]:
    """The cells that differ, by where they do first."""
    cells = list(shadow.tally.cells.items())
    return sorted(cells, key=lambda pair: (pair[1].first.at, pair[0]))


def _cells(shadow: Shadow, differing: list[tuple[CellId, CellNote]]) -> Fields:
    looked_at = Counter(id[0] for id in shadow.course.touched)
    different = Counter(id[0] for id, _ in differing)
    classes: dict[str, Counter[str]] = {}
    for id, note in differing:
        classes.setdefault(id[0], Counter()).update(note.classes)
        if id not in shadow.course.touched:
            looked_at[id[0]] += 1
    return {
        name: {
            "same": looked_at[name] - different[name],
            "different": different[name],
            "by_class": dict(classes.get(name, {})),
        }
        for name in looked_at
    }


def _observed(observed: Observed) -> Fields:
    effects: dict[str, Fields] = {
        name: {"asked": requests, "receipts": {}} for name, requests in observed.requests.items()
    }
    for (name, status), count in observed.statuses.items():
        effects.setdefault(name, {"asked": 0, "receipts": {}})["receipts"][status] = count
    return effects


def _instances(state: State) -> Fields:
    return {
        name: {status: count for status, count in statuses.items() if count}
        for name in state.cells.shelves
        if (statuses := state.cells.statuses(name)).total()
    }


def _allowlists(base: Effective, proposed: Effective) -> Fields:
    """The effects that each workflow may ask for, in the base and in the proposed manifest."""

    def of(manifest: Effective, name: str) -> list[str] | None:
        workflow = manifest.workflows.get(name)
        return None if workflow is None else sorted(workflow.effects_emitted)

    return {
        name: {"recorded": of(base, name), "shadow": of(proposed, name)}
        for name in {*base.workflows, *proposed.workflows}
    }


def _different_lists(lists: Fields) -> Fields:
    return {name: sides for name, sides in lists.items() if sides["recorded"] != sides["shadow"]}


def _pending(shadow: Shadow, lens: Lens) -> list[Fields]:
    """The intents of the shadow that are open at the end, in the order of opening."""
    rows: list[Fields] = []
    for intent in shadow.state.intents.values():
        if len(rows) == PENDING_MAX:
            break
        rows.append(
            {
                "effect": intent.effect.name,
                "cell": _cell(intent.cell, lens, shadow.course.at),
                "params": hash_text(intent.params_hash),
                "recorded": not shadow.course.is_alone(intent.intent),
            }
        )
    return rows


class _Showing:
    """Shows cells that differ."""

    def __init__(self, shadow: Shadow, lens: Lens) -> None:
        self._shadow = shadow
        self._lens = lens

    def cell(self, id: CellId, note: CellNote) -> Fields:
        shadow, first = self._shadow, note.first
        return {
            "cell": _cell(id, self._lens, first.at),
            "classes": [class_name for class_name in SHADOW_CLASSES if class_name in note.classes],
            "first": {
                "record": first.at,
                "on": first.on,
                "classes": list(first.classes),
                "differences": [
                    difference.to_document("shadow", _bounded) for difference in first.differences
                ],
            },
            "last": {
                "recorded": self._last(shadow.recorded, id),
                "shadow": self._last(shadow.state, id),
            },
        }

    def _last(self, state: State, id: CellId) -> Fields | None:
        cell: Cell | None = state.cells.get(id)
        if cell is None:
            return None
        state_slot = cell.state
        manifest = manifest_under(state, runs_under(state, cell))
        return {
            "status": cell.status,
            "state": None if state_slot is None else _bounded(
                self._lens.state_of(id[0], manifest, state_slot)
            ),
            "fault": None if cell.fault is None else cell.fault.kind.value,
        }  # fmt: skip


def _cell(id: CellId, lens: Lens, seq: int) -> Fields:
    return {"workflow": id[0], "key": _bounded(lens.key(id, seq=seq))}


def _bounded(value: object) -> Any:
    """JSON that CBOR can hold, of bounded size."""
    plain = _plain(value)
    data = encode(plain)
    if len(data) <= SHOWN_BYTES_MAX:
        return plain
    return {"$large": hash_text(content_hash(data)), "size": len(data)}


def _plain(value: object) -> Any:
    match value:
        case Mapping():
            return {str(name): _plain(member) for name, member in value.items()}
        case list() | tuple():
            return [_plain(element) for element in value]
        case bool() | None:
            return value
        case int():
            return value if INTEGER_MIN <= value <= INTEGER_MAX else str(value)
        case str():
            return value
        case _:
            return str(value)
