"""Approvers and operators of a governed world: they propose, report, vote and withdraw, mostly as
they should (SIM-4). The signed bytes are written from spec/governance.md."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from nacl.signing import SigningKey

from aos.core.state.proposals import Proposal
from aos.manifest.effective import Effective
from aos.manifest.patching import patch_between
from aos.values.digests import Hash, content_hash
from tests.memory_world import OPERATOR, OPERATOR_KEY
from tests.sim.model import Given
from tests.sim.model_governance import governance_message
from tests.sim.naive import cbor
from tests.sim.plan import VERSIONS, Plan, approver_key, key_named
from tests.sim.world import SimWorld

Chance = random.Random

NOTES: Final = (None, None, "because", "é" * 512)


def is_governed(world: SimWorld) -> bool:
    return bool(world.version) and world.state.effective.governance is not None


def key_of(world: SimWorld, name: str) -> SigningKey:
    """The key of a name: of the operator, of an approver of some version, or of a stranger."""
    if name == OPERATOR.name:
        return OPERATOR_KEY
    return approver_key(world.seed, name) if len(name) == 1 else key_named(name)


def _names(world: SimWorld) -> list[str]:
    block = world.state.effective.governance
    return [] if block is None else [each.name for each in block.approvers]


@cache
def _patch(base: bytes, document: bytes) -> bytes:
    old, new = Effective.from_document(base), Effective.from_document(document)
    return patch_between(old, new).document


def propose(
    world: SimWorld, chance: Chance, plan: Plan, *, mode: str | None, leaves: tuple[str, ...]
) -> None:
    """A proposal of a version, as it should be or with one thing wrong."""
    base = world.state.effective
    if plan.document == base.document:
        return
    world.modules.add(plan)
    given: Given = {
        "action": "propose", "principal": chance.choice([OPERATOR.name, *_names(world)]),
        "proposal": None, "serial": world.state.proposals.count, "base": base.hash,
        "document": plan.document, "patch": _patch(base.document, plan.document),
        "mode": mode or "strict", "leaves": leaves, "report": None, "seen": None,
        "note": chance.choice(NOTES),
    }  # fmt: skip
    if chance.random() < 0.15:
        given |= chance.choice(_wrong_proposals(world, given))
    _submit(world, chance, given, given, _modules_of(world, given["document"]))


def _modules_of(world: SimWorld, document: bytes | None) -> Mapping[Hash, bytes]:
    """The modules of the version that has this document; none if no version has it."""
    plans = [plan for plan in world.plans.made() if plan.document == document]
    return plans[0].loaded.modules if plans else {}


def _wrong_proposals(world: SimWorld, given: Given) -> list[Given]:
    versions = [world.plans[number] for number in range(1, VERSIONS + 1)]
    others = [plan for plan in versions if plan.document != given["document"]]
    return [
        {"serial": given["serial"] + 1}, {"serial": None}, {"base": content_hash(b"another")},
        {"document": others[0].document}, {"document": b"\xf6"}, {"document": None},
        {"patch": None},
        {"patch": b"\xa0"}, {"patch": given["patch"][:-1]}, {"mode": "fast"},
        {"leaves": ("s/w0@1", "s/w0@1")}, {"note": ""}, {"note": "n" * 1025},
        {"principal": "mallory"}, {"report": b"x"}, {"seen": bytes(32)}, {"proposal": 3},
        {"document": world.state.effective.document},
        {"patch": given["patch"].replace(b"blake3:", b"blake2:", 1)},
    ]  # fmt: skip


def some_proposal(world: SimWorld, chance: Chance) -> int:
    """Mostly an open one; also one that is closed, or none."""
    known = world.state.proposals
    some = [*known.open] * 8 + [*known.closed][-2:] + [world.state.next_seq - 1]
    return chance.choice(some)


def report(world: SimWorld, chance: Chance, proposal: int) -> None:
    """A shadow report, which the model does not need to be true beyond its head."""
    state = world.state
    known = state.proposals.open.get(proposal)
    if known is None:
        return
    last = state.next_seq - 1
    first = chance.choice([state.manifest_seq, chance.randint(state.manifest_seq, last)])
    head: dict[str, Any] = {
        "format": "aos-shadow/1", "world": world.id, "base": known.base,
        "document": known.document.hash, "mode": known.mode or "strict",
        "leaves": list(known.leaves), "from": first,
        "to": chance.choice([last, max(first, known.seq - 1)]), "frame": state.tip.frame,
        "cells": [], "note": chance.randrange(3),
    }  # fmt: skip
    if chance.random() < 0.2:
        head |= chance.choice(
            [
                {"world": bytes(32)}, {"base": bytes(32)}, {"document": bytes(32)}, {"mode": "x"},
                {"leaves": ["s/w0@1"]}, {"from": last + 1}, {"to": last + 10}, {"from": 0},
                {"format": "aos-shadow/2"}, {"frame": b""}, {"to": True},
            ]
        )  # fmt: skip
    data = chance.choices([cbor(head), b"\xff", bytes(3000)], [30, 1, 1])[0]
    _act(world, chance, "report", proposal, report=data)


def vote(world: SimWorld, chance: Chance, proposal: int, action: str) -> None:
    known = world.state.proposals.open.get(proposal)
    reports = [] if known is None else list(known.reports)
    seen = chance.choice([*reports * 4, None, content_hash(b"another")] if reports else [None])
    if chance.random() < 0.03:
        seen = content_hash(b"another")
    names = _names(world) or ["a"]
    who = chance.choices(
        [chance.choice(names), OPERATOR.name, chance.choice("abcd"), "mallory"], [30, 1, 2, 1]
    )[0]
    _act(world, chance, action, proposal, by=who, seen=seen)


def withdraw(world: SimWorld, chance: Chance, proposal: int) -> None:
    known = world.state.proposals.open.get(proposal)
    who = None if known is None or chance.random() < 0.2 else known.principal
    _act(world, chance, "withdraw", proposal, by=who)


def _act(
    world: SimWorld, chance: Chance, action: str, proposal: int, *, by: str | None = None,
    **about: Any,
) -> None:  # fmt: skip
    known = world.state.proposals.open.get(proposal)
    given: Given = {
        "action": action,
        "principal": by or chance.choice([OPERATOR.name, *(_names(world) or ["a"])]),
        "proposal": proposal, "serial": None, "base": None, "document": None, "patch": None,
        "mode": "strict", "leaves": (), "report": None, "seen": None,
        "note": chance.choice(NOTES), **about,
    }  # fmt: skip
    if chance.random() < 0.05:
        given |= chance.choice(
            [{"serial": 0}, {"mode": "pin"}, {"note": ""}, {"action": "dance"}, {"report": b"x"}]
        )
    change: Given = given if known is None else _change_of(known)
    _submit(world, chance, given, change, {})


def _change_of(proposal: Proposal) -> Given:
    return {
        "base": proposal.base, "document": proposal.document.hash, "patch": proposal.patch.hash,
        "mode": proposal.mode or "strict", "leaves": proposal.leaves,
    }  # fmt: skip


def _submit(
    world: SimWorld, chance: Chance, given: Given, change: Given, blobs: Mapping[Hash, bytes]
) -> None:
    signer = "mallory" if chance.random() < 0.03 else given["principal"]
    message = governance_message(world.id, given, change)
    given["signature"] = key_of(world, signer).sign(message).signature
    if chance.random() < 0.04:
        given |= chance.choice([{"note": "forged"}, {"signature": bytes(64)}, {"signature": b""}])
    world.history.made.append(("governance", dict(given), blobs))
    world.submit("governance", given, blobs)


def approved(world: SimWorld, chance: Chance, wanted: bytes) -> int | None:
    """The record that an apply of this document names: mostly an open proposal of it, with votes
    or without; now and then another, or none."""
    known = world.state.proposals
    same = [seq for seq, each in known.open.items() if each.document.hash == wanted]
    if not same or chance.random() < 0.05:
        same = [*same, *known.open, *list(known.closed)[-1:], world.state.next_seq]
    return None if chance.random() < 0.04 else chance.choice(same)


def push(
    world: SimWorld, chance: Chance, plan: Plan, *, mode: str | None, leaves: tuple[str, ...]
) -> None:
    """Propose a version and collect votes for it, mostly as many as it needs."""
    propose(world, Chance(chance.getrandbits(32)), plan, mode=mode, leaves=leaves)
    found = [
        seq
        for seq, each in world.state.proposals.open.items()
        if each.document.hash == plan.loaded.effective.hash
    ]
    block = world.state.effective.governance
    if not found or block is None:
        return
    if block.shadow_records or chance.random() < 0.3:
        report(world, chance, found[-1])
    for each in block.approvers[: block.quorum + chance.choice([0, 0, 0, 1, -1])]:
        known = world.state.proposals.open.get(found[-1])
        reports = [] if known is None else list(known.reports)
        _act(
            world, Chance(chance.getrandbits(32)), "approve", found[-1], by=each.name,
            seen=chance.choice(reports) if reports else None,
        )  # fmt: skip
