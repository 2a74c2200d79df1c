"""The process that runs a world, as documents: its work, and its part of ``aos inspect world``
(spec/audit.md, A-61)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aos.read.views.record_view import Document
from aos.values.digests import hash_text


def work_document(work: Mapping[str, Any]) -> Document:
    """Return the socket's ``work`` (H-53) as a document."""
    return {
        "effects": sorted(work.get("effects", ())),
        "executors": {
            executor: {
                phase: {"number": number, "since_ns": since_ns}
                for phase, (number, since_ns) in phases.items()
            }
            for executor, phases in work.get("executors", {}).items()
        },
        "tasks": [
            {
                "intent": hash_text(intent),
                "phase": phase,
                "attempt": attempt,
                "since_ns": since_ns,
            }
            for intent, phase, attempt, since_ns in work.get("tasks", ())
        ],
    }


def process_document(status: Mapping[str, Any], work: Mapping[str, Any] | None) -> Document:
    """Return the process that runs a world, as ``aos inspect world`` shows it, from the answers to
    ``status`` and ``work``; ``work`` is None if it was not answered."""
    return {
        **{name: status[name] for name in ("pid", "steps", "queued", "no_room")},
        "executors": work_document(work or {})["executors"],
    }


def with_process(
    world: Document, process: Document | None, origin: str | None, *, path: str | None
) -> Document:
    """Return the document of a world with the process that runs it, how the world came here, and
    its folder, if the reader may know that."""
    return {"path": path, **world, "process": process, "origin": origin}
