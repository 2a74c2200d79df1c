"""A governed world in a test: it votes by itself, or as the test says (spec/testing.md, T-15c)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.errors import BadUsage
from aos.manifest.keys import key_text
from aos.manifest.load import load
from aos.testing import InputRefused, ProposalSeen, World
from aos.testing.sources import approver_key, signing_key
from tests.testing.stage import CHARGE, DO, MODULES, charge, nodes, out


def block(*names: str, quorum: int = 1, **more: int) -> dict[str, Any]:
    people = [
        {"name": name, "public_key": key_text(bytes(SigningKey(bytes([n]) * 32).verify_key))}
        for n, name in enumerate(names, 1)
    ]
    return {"approvers": people, "quorum": quorum, **more}


def version(number: int, *names: str, **more: int) -> list[dict[str, object]]:
    return nodes(version=number, governance=block(*names or ("ann", "bob", "cat"), **more))


def governed(*, core: str | None = None, **more: int) -> World:
    return World(version(1, **more), modules=MODULES, core=core)


def test_approvers_have_keys_of_the_test() -> None:
    """T-3."""
    world = governed()
    governance = world.manifest.governance
    assert governance is not None
    assert governance.key("ann") == bytes(approver_key("ann").verify_key)
    assert approver_key("ann") != signing_key("ann")


def test_a_manifest_of_a_governed_world_is_proposed_and_approved_by_itself() -> None:
    """T-15."""
    world = governed(quorum=2, shadow_records=5)
    before = world.manifest.governance
    assert before is not None
    world.send(DO, {"key": "a"})
    world.run()

    world.apply(version(2, quorum=2), modules=MODULES)

    assert world.manifest.governance == replace(before, shadow_records=0)
    world.apply(nodes(version=3), modules=MODULES)
    assert "governance" not in str(world.manifest.document)
    world.apply(nodes(version=4), modules=MODULES)
    world.replay()


def test_a_test_votes_as_it_wants() -> None:
    world = governed(quorum=2)
    proposal = world.propose(version(2, quorum=2), modules=MODULES, by="ann", note="why")

    world.approve(proposal, "bob")
    assert world.proposal(proposal) == ProposalSeen(seq=proposal, status="open", approved=("bob",))
    with pytest.raises(InputRefused, match="expected the approval of 2 of 3") as problem:
        world.apply(version(2, quorum=2), modules=MODULES, proposal=proposal)
    assert problem.value.rule == "proposal_lacks_quorum"
    world.reject(proposal, "bob")
    world.approve(proposal)
    assert world.proposal(proposal) == ProposalSeen(
        seq=proposal, status="approved", approved=("ann", "cat"), rejected=("bob",)
    )
    world.apply(version(2, quorum=2), modules=MODULES, proposal=proposal)

    assert world.proposal(proposal).status == "applied"
    other = world.propose(version(3, quorum=2), modules=MODULES)
    world.reject(other, "ann", "bob")
    assert world.proposal(other) == ProposalSeen(seq=other, status="rejected")
    gone = world.propose(version(3, quorum=2), modules=MODULES)
    world.withdraw(gone)
    assert world.proposal(gone).status == "withdrawn"
    with pytest.raises(InputRefused) as refused:
        world.approve(gone, "ann")
    assert refused.value.rule == "proposal_is_closed"


def test_a_blocked_apply_leaves_its_proposal_approved() -> None:
    """GV-41: the same call passes later."""
    world = governed()
    world.send(DO, {"key": "a", "out": out(effects=((CHARGE, charge(), None),))})
    world.run()

    with pytest.raises(InputRefused, match="not quiescent"):
        world.apply(version(2), modules=MODULES)
    world.effect("t/charge@1").answer({"ref": "x", "data": None})
    world.run()
    world.apply(version(2), modules=MODULES)

    kinds = [line for line in world.trace().splitlines() if "governance" in line]
    assert len(kinds) == 2, kinds


def test_proposals_survive_a_restart_and_a_snapshot() -> None:
    world = governed(quorum=2)
    proposal = world.propose(version(2, quorum=2), modules=MODULES)
    world.approve(proposal, "cat")

    world.restart()
    world.snapshot()

    assert world.proposal(proposal).approved == ("cat",)
    world.apply(version(2, quorum=2), modules=MODULES)
    assert world.proposal(proposal).status == "applied"
    world.replay()


def test_words_that_are_no_one_and_worlds_that_are_not_governed_are_told() -> None:
    world = governed()
    proposal = world.propose(version(2), modules=MODULES)
    with pytest.raises(BadUsage, match="expected operator or ann or bob or cat, found eve"):
        world.approve(proposal, "eve")
    with pytest.raises(BadUsage, match="no proposal is record 99: expected 3"):
        world.proposal(99)
    with pytest.raises(InputRefused) as refused:
        world.approve(99)
    assert refused.value.rule == "proposal_is_unknown"
    with pytest.raises(BadUsage, match="mode: expected one of"):
        world.propose(version(2), modules=MODULES, mode="fast")
    plain = World(nodes(), modules=MODULES)
    with pytest.raises(BadUsage, match="the world is not governed"):
        plain.propose(version(2), modules=MODULES)
    with pytest.raises(BadUsage, match="the world is not governed"):
        plain.approve(1)


def test_no_one_can_vote_in_a_manifest_that_was_loaded_elsewhere() -> None:
    """T-3."""
    files = {"m.air.json": json.dumps(version(1)).encode()}
    named = [each for each in version(1) if each["$kind"] == "defmodule"]
    [(_, wasm)] = MODULES.items()
    for each in named:
        base, _, number = str(each["name"]).partition("/")
        files[f"modules/{base}.{number}.wasm"] = wasm
    world = World(load(files))
    proposal = world.propose(version(2), modules=MODULES)

    with pytest.raises(InputRefused) as refused:
        world.approve(proposal, "ann")

    assert refused.value.rule == "governance_signature_is_wrong"
