"""The changes between two manifests of a journal (spec/audit.md, A-62a; manifest.md, M-60)."""

from __future__ import annotations

from aos.audit.views.record_view import Document
from aos.audit.views.view import View
from aos.errors import BadUsage, sentence
from aos.host.apply.report import changes_document
from aos.manifest.difference import difference
from aos.manifest.effective import Effective
from aos.values.digests import hash_text


def manifest_changes(view: View, since: int) -> Document:
    """Return the changes from the manifest that was in force after record ``since`` to the one in
    force now, or in the past that the view is of.

    Raises:
        BadUsage: One of the two is missing, or ``since`` is no record before the end.
    """
    manifest, last = view.state.manifest, view.state.next_seq - 1
    if manifest is None:
        raise BadUsage("this world has no manifest yet (apply one: aos apply PATH)")
    if since > last:
        raise BadUsage(sentence("since", expected=f"a record, 1 to {last}", found=str(since)))
    before = view.manifests.at(since + 1)
    if before is None:
        raise BadUsage(
            sentence(
                f"no manifest was in force after record {since}",
                hint="aos inspect journal --kind manifest lists the records of manifests",
            )
        )
    return {
        "since": _named(before, view.manifests.seq_at(since + 1)),
        "now": _named(manifest, view.state.manifest_seq),
        "changes": changes_document(difference(before, manifest)),
    }


def _named(manifest: Effective, record: int | None) -> Document:
    return {"record": record, "hash": hash_text(manifest.hash)}
