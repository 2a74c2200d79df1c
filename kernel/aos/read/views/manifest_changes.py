"""The document of ``aos inspect manifest --since``: the changes between two manifests
(spec/audit.md, A-62a)."""

from __future__ import annotations

from typing import Any

from aos.errors import BadUsage
from aos.manifest.difference import Difference, difference
from aos.manifest.effective import Effective
from aos.read.lens.lens import manifest_records
from aos.read.views.record_view import Document
from aos.read.views.view import View
from aos.values.digests import hash_text


def manifest_changes(view: View, since: int) -> Document:
    """Return the changes from the manifest that was in force after record ``since`` to the one in
    force now, or in the past that the view is of (spec/audit.md, A-62a; manifest.md, M-60).
    ``since`` may come after this past: then they lead back.

    Raises:
        BadUsage: One of the two is missing, or ``since`` is no record of the journal.
    """
    manifest, last = view.state.manifest, view.state.next_seq - 1
    if manifest is None:
        if view.is_past:
            raise _no_manifest(last)
        raise BadUsage("this world has no manifest yet (apply one: aos apply PATH)")
    head = view.journal.head()
    end = last if head is None or not view.is_past else head.seq
    if since > end:
        raise BadUsage("since", expected=f"a record, 1 to {end}", actual=str(since))
    earlier_manifest, record = _in_force_after(view, since)
    if earlier_manifest is None:
        raise _no_manifest(since)
    return {
        "since": _manifest_document(earlier_manifest, record),
        "now": _manifest_document(manifest, view.state.manifest_seq),
        "changes": changes_document(difference(earlier_manifest, manifest)),
    }


def _in_force_after(view: View, seq: int) -> tuple[Effective | None, int | None]:
    """Return the manifest that was in force after a record of the journal, and its record."""
    last = view.state.next_seq - 1
    if seq <= last:
        return view.manifests.at(seq + 1), view.manifests.seq_at(seq + 1)
    in_force = view.state.manifest, view.state.manifest_seq
    for record, hash in manifest_records(view.journal, last + 1, seq):
        in_force = Effective.from_document(view.journal.blob(hash)), record
    return in_force


def _no_manifest(seq: int) -> BadUsage:
    return BadUsage(
        f"no manifest was in force after record {seq}",
        hint="aos inspect journal --kind manifest lists the records of manifests",
    )


def _manifest_document(manifest: Effective, record: int | None) -> Document:
    return {"record": record, "hash": hash_text(manifest.hash)}


def changes_document(changes: Difference) -> dict[str, Any]:
    """The changes of a manifest, each as a line that begins with ``+``, ``-`` or ``~``."""
    return {
        "definitions": [str(definition) for definition in changes.definitions],
        "routes": [str(route) for route in changes.routes],
        "routes_reordered": changes.reordered,
        "placements": [str(placement) for placement in changes.placements],
        "limits": [str(limit) for limit in changes.limits],
        "plans": [str(plan) for plan in changes.plans],
        "schedules": [str(schedule) for schedule in changes.schedules],
        "authority": [str(change) for change in changes.authority],
    }
