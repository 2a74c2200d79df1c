"""A governed world in memory: desks, with approvers who propose, report and vote.

world = governed("ann", "bob", "cat", quorum=2)
proposal = propose(world, version(world, 2))
vote(world, "approve", proposal, by="ann")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Answer
from aos.core.journal.governing import GovernanceInput, ProposedChange
from aos.core.journal.inputs import STRICT, ManifestInput
from aos.core.journal.shadow_report import ReportHead
from aos.core.state.proposals import Proposal
from aos.manifest.effective import Effective
from aos.manifest.keys import key_text
from aos.manifest.load import Loaded
from aos.manifest.patching import patch_between
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash
from tests.core.desk import ARMS, DESK, desk, nodes
from tests.memory_world import OPERATOR, OPERATOR_KEY, MemoryWorld, air, route

NAMES: Final = ("ann", "bob", "cat", "dan")
NO_CHANGE: Final = ProposedChange(Hash(bytes(32)), Hash(bytes(32)), Hash(bytes(32)), None, ())


def key_of(name: str) -> SigningKey:
    """The key of an approver, or of the operator."""
    return OPERATOR_KEY if name == OPERATOR.name else SigningKey(content_hash(name.encode()))


def block(*names: str, quorum: int, **more: int) -> dict[str, Any]:
    """A governance block of a manifest with these approvers."""
    people = [
        {"name": name, "public_key": key_text(bytes(key_of(name).verify_key))} for name in names
    ]
    return {"approvers": people, "quorum": quorum, **more}


def manifest(governance: Mapping[str, Any] | None, version: int = 1, **more: Any) -> Loaded:
    """A manifest of desks; each version has another module."""
    fields: dict[str, Any] = more if governance is None else {"governance": governance, **more}
    return air(nodes(ARMS), [route("t/Tell@1", DESK, "key")], version=version, **fields)


def governed(*names: str, quorum: int = 1, seed: str = "seed", **more: int) -> MemoryWorld:
    """A world whose first manifest names these approvers."""
    return MemoryWorld(version(1, *names, quorum=quorum, **more), {DESK: desk}, seed=seed)


@cache
def version(number: int, *names: str, quorum: int = 1, **more: int) -> Loaded:
    """The manifest with another module, and approvers; without names, it is not governed."""
    return manifest(block(*names, quorum=quorum, **more) if names else None, number)


def proposal_input(
    world: MemoryWorld, new: Loaded, *, by: str = OPERATOR.name, mode: str = STRICT,
    leaves: tuple[str, ...] = (), note: str | None = None, forge: Mapping[str, Any] | None = None,
) -> GovernanceInput:  # fmt: skip
    """A signed proposal; ``forge`` replaces fields before it is signed."""
    base = world.effective
    fields = {
        "action": "propose",
        "principal": by,
        "signature": b"",
        "serial": world.state.proposals.count,
        "base": base.hash,
        "document": new.effective.document,
        "patch": _patch(base.document, new.effective.document),
        "mode": mode,
        "leaves": leaves,
        "note": note,
        **(forge or {}),
    }
    given = GovernanceInput(**fields)
    return signed(world, given, given.change or NO_CHANGE, by)


@cache
def _patch(base: bytes, new: bytes) -> bytes:
    if base == new:
        return b""
    old = Effective.from_document(base)
    return patch_between(old, Effective.from_document(new)).document


def signed(
    world: MemoryWorld, given: GovernanceInput, change: ProposedChange, by: str
) -> GovernanceInput:
    message = given.message(world.state.world, change)
    return replace(given, signature=key_of(by).sign(message).signature)


def propose(world: MemoryWorld, new: Loaded, **fields: Any) -> int:
    """Propose a manifest; return the record that names the proposal."""
    answer = world.kernel.admit(proposal_input(world, new, **fields), world.stamp())
    assert isinstance(answer, Admitted), answer
    return answer.seq


def action_input(
    world: MemoryWorld, action: str, proposal: int, *, by: str,
    change: ProposedChange | None = None, forge: Mapping[str, Any] | None = None, **fields: Any,
) -> GovernanceInput:  # fmt: skip
    """A signed report, vote or withdrawal. ``change`` is what is signed if the proposal is not
    open; ``forge`` replaces fields after signing."""
    given = GovernanceInput(action=action, principal=by, signature=b"", proposal=proposal, **fields)
    known = world.state.proposals.open.get(proposal)
    found = change or (NO_CHANGE if known is None else known.change)
    return replace(signed(world, given, found, by), **(forge or {}))


def act(world: MemoryWorld, action: str, proposal: int, *, by: str, **fields: Any) -> Answer:
    return world.kernel.admit(action_input(world, action, proposal, by=by, **fields), world.stamp())


def head_of(world: MemoryWorld, proposal: Proposal, /, **fields: Any) -> ReportHead:
    """The head of a true report of the whole journal since the base; ``fields`` replaces some."""
    return ReportHead(
        **{
            "world": world.state.world,
            "base": proposal.base,
            "document": proposal.document.hash,
            "mode": proposal.mode or STRICT,
            "leaves": proposal.leaves,
            "first": world.state.manifest_seq,
            "last": world.state.next_seq - 1,
            "frame": world.state.tip.frame,
            **fields,
        }
    )


def report_of(head: ReportHead, **more: Value) -> bytes:
    fields: dict[str | int, Value] = {**head.fields(), "cells": []}
    fields.update(more)
    return encode(fields)


def report(world: MemoryWorld, proposal: int, /, *, by: str = OPERATOR.name, **fields: Any) -> Hash:
    """Journal a report of a proposal; return its hash."""
    found = report_of(head_of(world, world.state.proposals.open[proposal], **fields))
    answer = act(world, "report", proposal, by=by, report=found)
    assert isinstance(answer, Admitted), answer
    return content_hash(found)


def manifest_input(
    world: MemoryWorld, new: Effective, *, proposal: int | None = None, mode: str = STRICT,
    leaves: tuple[str, ...] = (),
) -> ManifestInput:  # fmt: skip
    serial = world.state.serial
    message = ManifestInput.message(
        world.state.world, serial, new.hash, mode=mode, leaves=leaves, proposal=proposal
    )
    return ManifestInput(
        document=new.document, principal=OPERATOR.name, serial=serial, mode=mode, leaves=leaves,
        signature=OPERATOR_KEY.sign(message).signature, proposal=proposal,
    )  # fmt: skip


def apply(world: MemoryWorld, new: Loaded, **fields: Any) -> Answer:
    """Apply a manifest, with its ``proposal``; its modules do what those of version 1 do."""
    modules = MemoryWorld.by_hash(new, {DESK: desk})
    world.runner.modules = {**world.runner.modules, **modules}
    return world.kernel.admit(manifest_input(world, new.effective, **fields), world.stamp())
