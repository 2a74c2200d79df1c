"""A kernel's state in plain values, as ``model_follow.view`` gives a model's."""

from __future__ import annotations

from typing import Any

from aos.core.journal.records import slot_bytes
from aos.core.state.state import State


def view(state: State, blobs: dict[bytes, bytes]) -> dict[str, Any]:
    def data(slot: Any) -> bytes | None:
        return None if slot is None else slot_bytes(slot, blobs.__getitem__)

    s = state.snapshot
    return {
        "clock": (state.clock_ns, state.window_ns),
        "seq": state.next_seq,
        "serials": (state.serial, state.controls),
        "manifest": (state.manifest and state.manifest.hash, state.manifest_seq),
        "revoked": sorted(state.revoked),
        "pinned": sorted(state.pinned),
        "snapshot": None if s is None else (s.seq, s.at, s.document),
        "ring": list(state.ring),
        "owed": [
            (
                o.intent, o.debt.value, o.root.seq, o.depth, o.canceled,
                o.settlement and (o.settlement.status, data(o.settlement.payload)),
            )
            for o in state.owed
        ],
        "open": [
            (
                i.intent, i.cell, i.workflow_hash, i.seq, i.index, i.effect.name, data(i.params),
                i.key, i.idempotency_key, i.issuer_ref,
            )
            for i in state.intents.values()
        ],
        "abandoned": list(state.abandoned),
        "attempts": {
            **state.attempts,
            **{i.intent: attempt for i, attempt in state.intents.in_order() if attempt is not None},
        },
        "halts": {
            hash: (h.phase, h.attempt, h.seq, h.since_ns, h.code, h.problem)
            for hash, h in state.halts.items()
        },
        "streams": {
            hash: (s.last, s.frames, s.since_ns, s.recent) for hash, s in state.streams.items()
        },
        "submissions": [(name, s.seq, s.at_ns) for name, s in state.submissions.items()],
        "world_keys": list(state.world_keys.items()),
        "counts": {
            name: (shelf.count, shelf.undeclared)
            for name, shelf in state.cells.shelves.items()
            if shelf.count
        },
        "proposals": {
            "proposed": state.proposals.count,
            "open": [
                (
                    p.seq, p.principal, p.base, p.document.hash, p.patch.hash, p.mode or "strict",
                    p.leaves, {name: (cast.vote, cast.seq) for name, cast in p.votes.items()},
                    {hash: (each.seq, each.size) for hash, each in p.reports.items()},
                )
                for p in state.proposals.open.values()
            ],
            "closed": dict(state.proposals.closed),
        },
        "cells": [
            {
                "id": c.id, "state": data(c.state), "declared": c.declared, "status": c.status,
                "fault": (c.fault and c.fault.kind.value, c.fault_seq),
                "last": (c.last_seq, c.last_active_ns), "uncounted": c.mail_uncounted,
                "inflight": list(c.inflight), "keys": list(c.keys.items()),
                "mail": [
                    (m.entry, m.root.seq, m.root.stamp.ns, m.root.steps, m.depth) for m in c.mailbox
                ],
            }
            for c in sorted(state.cells.values(), key=lambda cell: cell.id)
        ],
    }  # fmt: skip
