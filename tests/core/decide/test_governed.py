"""Proposals, reports, votes, and manifests that need them (spec/governance.md)."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.core.journal.governing import ProposedChange
from aos.core.journal.records import Governance, Manifest
from aos.core.journal.shadow_report import REPORT_BYTES_MAX
from aos.core.journal.vocabulary import GOVERNANCE_ACTIONS
from aos.core.snapshot.take import take
from aos.core.state.proposals import CLOSED_KEPT, PROPOSALS_MAX, REPORTS_MAX
from aos.manifest.keys import key_text
from aos.values.cbor import encode
from aos.values.digests import content_hash
from tests.core.desk import cell_id, pay, tell, timer
from tests.core.governed import (
    NAMES,
    act,
    action_input,
    apply,
    block,
    governed,
    head_of,
    key_of,
    manifest,
    proposal_input,
    propose,
    report,
    report_of,
    signed,
    version,
)
from tests.memory_world import OPERATOR, WORLD_KEY, MemoryWorld

ANN, BOB, CAT, DAN = NAMES


def rule(answer: Answer) -> str:
    """The rule that refused; ``admitted`` or ``duplicate``."""
    return answer.rule.value if isinstance(answer, Refusal) else type(answer).__name__.lower()


def status(world: MemoryWorld, proposal: int) -> str:
    known = world.state.proposals
    if proposal in known.closed:
        return known.closed[proposal]
    governance = world.effective.governance
    assert governance is not None
    return known.open[proposal].status(governance)


def untouched(world: MemoryWorld, do: Callable[[], Answer]) -> Answer:
    """The answer to ``do``, which must have changed nothing if it is no admission."""
    world.seal()
    before = take(world.state, content_hash).document
    answer = do()
    if not isinstance(answer, Admitted):
        assert world.kernel.pending_records == 0
        assert take(world.state, content_hash).document == before
    return answer


# From the first proposal to the manifest


def test_a_manifest_comes_into_force_with_its_quorum_and_not_before() -> None:
    """GV-40: nothing goes round the quorum."""
    world = governed(ANN, BOB, CAT, quorum=2)
    new = version(2, ANN, BOB, CAT, quorum=2)

    assert rule(apply(world, new)) == "manifest_needs_proposal"
    proposal = propose(world, new, note="another module")
    assert rule(apply(world, new, proposal=proposal)) == "proposal_lacks_quorum"
    assert rule(act(world, "approve", proposal, by=ANN)) == "admitted"
    assert status(world, proposal) == "open"
    assert rule(apply(world, new, proposal=proposal)) == "proposal_lacks_quorum"
    assert rule(act(world, "approve", proposal, by=CAT)) == "admitted"
    assert status(world, proposal) == "approved"
    assert rule(apply(world, new)) == "manifest_needs_proposal"
    assert rule(apply(world, new, proposal=proposal)) == "admitted"

    assert world.effective == new.effective
    assert status(world, proposal) == "applied"
    world.seal()
    kinds = [each for each in world.records() if isinstance(each, Governance | Manifest)]
    assert [each.KIND for each in kinds] == ["manifest", *["governance"] * 3, "manifest"]
    assert isinstance(kinds[-1], Manifest)
    assert kinds[-1].proposal == proposal


def test_a_blocked_apply_leaves_the_votes() -> None:
    """GV-41: the same command passes later."""
    world = governed(ANN)
    new = version(2, ANN)
    tell(world, "a", pay())
    proposal = propose(world, new)
    act(world, "approve", proposal, by=ANN)

    blocked = apply(world, new, proposal=proposal)
    assert rule(blocked) == "world_is_not_quiescent"
    assert isinstance(blocked, Refusal)
    assert blocked.blockers
    assert status(world, proposal) == "approved"
    world.settle(world.open()[0], {"ref": "x"})
    world.run()

    assert rule(apply(world, new, proposal=proposal)) == "admitted"


def test_a_mode_and_left_workflows_are_those_that_were_approved() -> None:
    world = governed(ANN)
    tell(world, "a", timer(world))
    new = version(2, ANN)
    proposal = propose(world, new, mode="pin")
    act(world, "approve", proposal, by=ANN)

    assert rule(apply(world, new, proposal=proposal)) == "proposal_differs"
    assert rule(apply(world, version(3, ANN), proposal=proposal, mode="pin")) == "proposal_differs"
    assert rule(apply(world, new, proposal=proposal, mode="pin", leaves=("t/x@1",))) == (
        "proposal_differs"
    )
    assert rule(apply(world, new, proposal=proposal, mode="pin")) == "admitted"


def test_the_block_itself_changes_only_with_the_quorum_in_force() -> None:
    """GV-42: neither a lower quorum, nor other approvers, nor no block at all."""
    world = governed(ANN, BOB, CAT, quorum=2)
    for new in (
        manifest(block(ANN, quorum=1)),
        manifest(block(ANN, BOB, CAT, quorum=1)),
        manifest(block(DAN, quorum=1)),
        manifest(None),
    ):
        assert rule(apply(world, new)) == "manifest_needs_proposal"
        proposal = propose(world, new)
        act(world, "approve", proposal, by=ANN)
        assert rule(act(world, "approve", proposal, by=DAN)) == "governance_principal_is_unknown"
        assert rule(apply(world, new, proposal=proposal)) == "proposal_lacks_quorum"

    last = proposal
    act(world, "approve", last, by=BOB)
    assert rule(apply(world, manifest(None), proposal=last)) == "admitted"
    assert rule(apply(world, version(5))) == "admitted"
    assert rule(untouched(world, lambda: act(world, "approve", last, by=ANN))) == (
        "world_is_not_governed"
    )


def test_a_world_becomes_governed_by_a_plain_apply() -> None:
    """GV-3."""
    world = MemoryWorld(manifest(None), {})
    assert rule(apply(world, version(2), proposal=1)) == "world_is_not_governed"

    assert rule(apply(world, version(2, ANN))) == "admitted"

    assert rule(apply(world, version(3, ANN))) == "manifest_needs_proposal"


def test_of_two_proposals_from_one_base_the_second_is_stale() -> None:
    """GV-26: never a lost update."""
    world = governed(ANN)
    first, second = version(2, ANN), version(3, ANN)
    one, two = propose(world, first), propose(world, second)
    act(world, "approve", one, by=ANN)
    act(world, "approve", two, by=ANN)

    assert rule(apply(world, first, proposal=one)) == "admitted"

    assert (status(world, one), status(world, two)) == ("applied", "stale")
    assert rule(apply(world, second, proposal=two)) == "proposal_is_stale"
    assert rule(apply(world, second, proposal=one)) == "proposal_is_closed"
    assert rule(act(world, "approve", two, by=ANN)) == "proposal_is_stale"
    again = propose(world, second)
    assert status(world, again) == "open"


# The table of actions, a second time


STATUSES = ("unknown", "open", "approved", "rejected", "withdrawn", "applied", "stale")
PRINCIPALS = ("operator", "proposer", "approver", "voter", "removed", "stranger")
WHO = {
    "operator": OPERATOR.name, "proposer": ANN, "approver": BOB, "voter": CAT, "removed": DAN,
    "stranger": "eve",
}  # fmt: skip


def in_status(wanted: str) -> tuple[MemoryWorld, int, ProposedChange]:
    """A world of ann, bob, cat (quorum 2), and a proposal of ann in that status. cat has approved
    it wherever a vote is possible; dan was an approver of an earlier manifest."""
    world = governed(ANN, BOB, CAT, DAN, quorum=1)
    first = propose(world, version(2, ANN, BOB, CAT, quorum=2))
    act(world, "approve", first, by=DAN)
    apply(world, version(2, ANN, BOB, CAT, quorum=2), proposal=first)
    new = version(3, ANN, BOB, CAT, quorum=2)
    proposal = propose(world, new, by=ANN)
    change = world.state.proposals.open[proposal].change
    act(world, "approve", proposal, by=CAT)
    if wanted == "withdrawn":
        act(world, "withdraw", proposal, by=ANN)
    elif wanted == "rejected":
        act(world, "reject", proposal, by=CAT)
        act(world, "reject", proposal, by=ANN)
    elif wanted in ("approved", "applied"):
        act(world, "approve", proposal, by=ANN)
    elif wanted == "stale":
        other = propose(world, version(4, ANN, BOB, CAT, quorum=2))
        act(world, "approve", other, by=BOB)
        act(world, "approve", other, by=ANN)
        apply(world, version(4, ANN, BOB, CAT, quorum=2), proposal=other)
    if wanted == "applied":
        apply(world, new, proposal=proposal)
    if wanted != "unknown":
        assert status(world, proposal) == wanted
    return world, 999 if wanted == "unknown" else proposal, change


def expected(action: str, of: str, who: str) -> str:
    """The specification's table, written a second time."""
    may = {
        "propose": {"operator", "proposer", "approver", "voter"},
        "report": {"operator", "proposer", "approver", "voter"},
        "approve": {"proposer", "approver", "voter"},
        "reject": {"proposer", "approver", "voter"},
        "withdraw": {"proposer"},
    }[action]
    is_open = of in ("open", "approved")
    if action == "withdraw" and not is_open:
        may = {"operator", "proposer", "approver", "voter"}
    if who not in may:
        return "governance_principal_is_unknown"
    if action == "propose":
        return "admitted"
    if of == "unknown":
        return "proposal_is_unknown"
    if of == "stale":
        return "proposal_is_stale"
    if not is_open:
        return "proposal_is_closed"
    has_approved = who == "voter" or (who == "proposer" and of == "approved")
    if action == "approve" and has_approved:
        return "vote_is_taken"
    return "admitted"


@pytest.mark.parametrize("of", STATUSES)
def test_every_action_in_every_status_by_every_principal(of: str) -> None:
    """GV-20 to GV-26."""
    world, proposal, change = in_status(of)
    before = copy.deepcopy(world.state.proposals)
    for action, who in itertools.product(GOVERNANCE_ACTIONS, PRINCIPALS):
        world.state.proposals = copy.deepcopy(before)

        found = rule(untouched(world, partial(_try, world, action, proposal, WHO[who], change)))

        assert found == expected(action, of, who), (action, of, who)


def _try(world: MemoryWorld, action: str, proposal: int, by: str, change: ProposedChange) -> Answer:
    if action == "propose":
        given = proposal_input(world, version(9, ANN, quorum=1), by=by)
        return world.kernel.admit(given, world.stamp())
    fields: dict[str, Any] = {}
    if action == "report":
        known = world.state.proposals.open.get(proposal)
        fields["report"] = b"" if known is None else report_of(head_of(world, known))
    return act(world, action, proposal, by=by, change=change, **fields)


# Every order of votes against a naive count


def naive(votes: list[tuple[str, str]], people: int, quorum: int) -> tuple[list[str], str]:
    """Count votes as a person would: the answers to each, and the status at the end."""
    held: dict[str, str] = {}
    answers, closed = [], False
    for who, vote in votes:
        if closed:
            answers.append("proposal_is_closed")
            continue
        if who in held and (held[who], vote) != ("approve", "reject"):
            answers.append("vote_is_taken")
            continue
        held[who] = vote
        answers.append("admitted")
        closed = people - list(held.values()).count("reject") < quorum
    if closed:
        return answers, "rejected"
    return answers, "approved" if list(held.values()).count("approve") >= quorum else "open"


@pytest.mark.parametrize(
    ("people", "quorum"), [(n, q) for n in range(1, 5) for q in range(1, n + 1)]
)
def test_every_order_of_votes_is_counted_as_a_person_counts(people: int, quorum: int) -> None:
    """GV-24, GV-25: each approver votes once, in every order and way; then some vote again."""
    names = NAMES[:people]
    new = version(2, *names, quorum=quorum)
    world = governed(*names, quorum=quorum)
    proposal = propose(world, new)
    before = copy.deepcopy(world.state.proposals)
    given = {
        (who, vote): action_input(world, vote, proposal, by=who)
        for who, vote in itertools.product(names, ("approve", "reject"))
    }
    for order in itertools.permutations(names):
        for ways in itertools.product(("approve", "reject"), repeat=people):
            votes = [*zip(order, ways, strict=True), (order[0], "reject"), (order[0], "approve")]
            world.state.proposals = copy.deepcopy(before)

            found = [rule(world.kernel.admit(given[each], world.stamp())) for each in votes]

            assert (found, status(world, proposal)) == naive(votes, people, quorum), votes


# Signatures


def test_no_signature_of_another_time_or_place_is_a_vote() -> None:
    """GV-21, GV-22: another world, proposal, document or report; after a reject; when stale."""
    world = governed(ANN, BOB)
    elsewhere = governed(ANN, BOB, seed="elsewhere")
    elsewhere.fork()
    one = propose(world, version(2, ANN, BOB))
    two = propose(world, version(3, ANN, BOB))
    seen = report(world, one)
    change = world.state.proposals.open[one].change
    approval = action_input(world, "approve", one, by=ANN)
    foreign = action_input(elsewhere, "approve", one, by=ANN, change=change)
    with_seen = action_input(world, "approve", one, by=ANN, seen=seen)
    other_document = replace(change, document=content_hash(b"another"))
    other_patch = replace(change, patch=content_hash(b"another"))

    for given in (
        foreign,
        replace(approval, proposal=two),
        replace(approval, action="reject"),
        replace(approval, seen=seen),
        replace(approval, note="more"),
        replace(with_seen, seen=None),
        replace(approval, signature=bytes(64)),
        replace(approval, signature=b""),
        action_input(world, "approve", one, by=ANN, change=other_document),
        action_input(world, "approve", one, by=ANN, change=other_patch),
        replace(action_input(world, "approve", one, by=BOB), principal=ANN),
    ):
        found = untouched(world, lambda: world.kernel.admit(given, world.stamp()))  # noqa: B023
        assert rule(found) == "governance_signature_is_wrong"

    assert rule(world.kernel.admit(approval, world.stamp())) == "admitted"
    act(world, "reject", one, by=ANN)
    assert rule(world.kernel.admit(approval, world.stamp())) == "vote_is_taken"
    act(world, "approve", two, by=BOB)
    apply(world, version(3, ANN, BOB), proposal=two)
    assert rule(world.kernel.admit(approval, world.stamp())) == "proposal_is_stale"


def test_a_removed_approver_has_no_vote() -> None:
    world = governed(ANN, BOB)
    first = propose(world, version(2, BOB))
    act(world, "approve", first, by=ANN)
    apply(world, version(2, BOB), proposal=first)
    proposal = propose(world, version(3, BOB))

    assert rule(act(world, "approve", proposal, by=ANN)) == "governance_principal_is_unknown"
    assert rule(act(world, "approve", proposal, by=OPERATOR.name)) == (
        "governance_principal_is_unknown"
    )


def test_an_approver_with_the_name_of_an_operator_votes_with_the_own_key() -> None:
    """GV-22: one name, two keys."""
    named = {"name": OPERATOR.name, "public_key": key_text(bytes(key_of(ANN).verify_key))}
    world = MemoryWorld(manifest({"approvers": [named], "quorum": 1}), {})
    new = manifest({"approvers": [named], "quorum": 1}, 2)
    proposal = propose(world, new)

    assert rule(act(world, "approve", proposal, by=OPERATOR.name)) == (
        "governance_signature_is_wrong"
    )
    unsigned = action_input(world, "approve", proposal, by=OPERATOR.name)
    change = world.state.proposals.open[proposal].change
    ours = signed(world, unsigned, change, ANN)
    assert rule(world.kernel.admit(ours, world.stamp())) == "admitted"


# Hostile proposals and reports


WRONG_PROPOSALS: list[tuple[str, dict[str, Any], str]] = [
    ("another serial", {"serial": 1}, "governance_serial_is_wrong"),
    ("no serial", {"serial": None}, "governance_serial_is_wrong"),
    ("true for a serial", {"serial": False}, "governance_serial_is_wrong"),
    ("another base", {"base": content_hash(b"x")}, "proposal_is_stale"),
    ("a short base", {"base": b"x"}, "proposal_is_invalid"),
    ("no base", {"base": None}, "proposal_is_invalid"),
    ("no document", {"document": None}, "proposal_is_invalid"),
    ("a document that is none", {"document": b"\xa0"}, "proposal_is_invalid"),
    ("no patch", {"patch": None}, "proposal_is_invalid"),
    ("a patch that is none", {"patch": encode({"$kind": "patch"})}, "proposal_is_invalid"),
    ("a patch that is no CBOR", {"patch": b"\xff"}, "proposal_is_invalid"),
    ("an unknown mode", {"mode": "fast"}, "proposal_is_invalid"),
    ("leaves out of order", {"leaves": ("t/b@1", "t/a@1")}, "proposal_is_invalid"),
    ("leaves that stay", {"leaves": ("t/desk@1",)}, "proposal_is_invalid"),
    ("a proposal that names another", {"proposal": 1}, "proposal_is_invalid"),
    ("a report", {"report": b"x"}, "proposal_is_invalid"),
    ("a report that was seen", {"seen": content_hash(b"x")}, "proposal_is_invalid"),
    ("an empty note", {"note": ""}, "proposal_is_invalid"),
    ("a long note", {"note": "é" * 513}, "proposal_is_invalid"),
]


@pytest.mark.parametrize(
    ("forge", "refused_as"), [each[1:] for each in WRONG_PROPOSALS],
    ids=[each[0] for each in WRONG_PROPOSALS],
)  # fmt: skip
def test_a_proposal_that_is_none_changes_nothing(forge: dict[str, Any], refused_as: str) -> None:
    world = governed(ANN)
    given = proposal_input(world, version(2, ANN), forge=forge)

    assert rule(untouched(world, lambda: world.kernel.admit(given, world.stamp()))) == refused_as


def test_text_that_is_not_unicode_is_refused() -> None:
    world = governed(ANN)
    given = replace(proposal_input(world, version(2, ANN)), note="\ud800")

    assert rule(world.kernel.admit(given, world.stamp())) == "proposal_is_invalid"


def test_a_patch_must_lead_from_the_base_to_the_document() -> None:
    """GV-27: what people read is what they vote on."""
    world = governed(ANN)
    other = proposal_input(world, version(3, ANN)).patch
    given = proposal_input(world, version(2, ANN), forge={"patch": other})

    answer = world.kernel.admit(given, world.stamp())

    assert isinstance(answer, Refusal)
    assert answer.rule is Rule.PROPOSAL_IS_INVALID
    assert "the patch leads to another manifest" in answer.message


def test_a_proposal_that_changes_nothing_is_refused() -> None:
    world = governed(ANN)
    forge = {
        "document": world.effective.document,
        "patch": proposal_input(world, version(2, ANN)).patch,
    }

    answer = world.kernel.admit(proposal_input(world, version(2, ANN), forge=forge), world.stamp())

    assert rule(answer) == "proposal_is_invalid"


@pytest.mark.parametrize("owner", ["world", "revoked"])
def test_a_key_with_another_owner_is_no_approvers(owner: str) -> None:
    """GV-1: the world's own key, or one that an earlier manifest revoked."""
    key = WORLD_KEY if owner == "world" else key_of("gone")
    revoked: dict[str, Any] = {
        "executors": [
            {"name": "node", "public_key": key_text(bytes(WORLD_KEY.verify_key)),
             "effects": ["t/pay@1", "t/once@1", "sys/timer.set@1"]},
            {"name": "test", "public_key": key_text(bytes(key_of("new").verify_key)),
             "effects": ["t/pay@1", "t/once@1"],
             "revoked_keys": [key_text(bytes(key_of("gone").verify_key))]},
        ]
    }  # fmt: skip
    world = MemoryWorld(manifest(None, **revoked), {})
    who = {"approvers": [{"name": ANN, "public_key": key_text(bytes(key.verify_key))}], "quorum": 1}

    assert rule(apply(world, manifest(who, 2))) == "manifest_is_invalid"
    apply(world, version(2, BOB))
    given = proposal_input(world, manifest(who, 3))
    assert rule(world.kernel.admit(given, world.stamp())) == "proposal_is_invalid"


def test_sixteen_proposals_are_open_at_most() -> None:
    assert PROPOSALS_MAX == 16
    world = governed(ANN)
    first, *_ = [propose(world, version(2 + number, ANN)) for number in range(PROPOSALS_MAX)]
    given = proposal_input(world, version(99, ANN))

    assert rule(untouched(world, lambda: world.kernel.admit(given, world.stamp()))) == (
        "too_many_proposals"
    )
    act(world, "withdraw", first, by=OPERATOR.name)
    assert rule(world.kernel.admit(given, world.stamp())) == "admitted"


def test_a_world_forgets_the_oldest_closed_proposals() -> None:
    """GV-26: a forgotten one is unknown, and stays closed."""
    world = governed(ANN)
    first = propose(world, version(2, ANN))
    change = world.state.proposals.open[first].change
    act(world, "withdraw", first, by=OPERATOR.name)
    for number in range(CLOSED_KEPT):
        if number % 16 == 0 or number == CLOSED_KEPT - 1:
            assert rule(act(world, "approve", first, by=ANN, change=change)) == "proposal_is_closed"
        act(world, "withdraw", propose(world, version(2, ANN)), by=OPERATOR.name)

    assert rule(act(world, "approve", first, by=ANN, change=change)) == "proposal_is_unknown"
    assert world.state.proposals.count == CLOSED_KEPT + 1


LIES: list[tuple[str, dict[str, Any]]] = [
    ("another world", {"world": content_hash(b"x")}),
    ("another base", {"base": content_hash(b"x")}),
    ("another document", {"document": content_hash(b"x")}),
    ("another mode", {"mode": "pin"}),
    ("left workflows", {"leaves": ("t/x@1",)}),
    ("before the base", {"first": 1}),
    ("backwards", {"first": 4, "last": 3}),
    ("records to come", {"last": 10**6}),
    ("no record", {"first": 0}),
]


@pytest.mark.parametrize("lie", [each[1] for each in LIES], ids=[each[0] for each in LIES])
def test_a_report_that_lies_is_refused(lie: dict[str, Any]) -> None:
    """GV-31."""
    world = governed(ANN)
    proposal = propose(world, version(2, ANN))
    found = report_of(head_of(world, world.state.proposals.open[proposal], **lie))

    assert rule(
        untouched(world, lambda: act(world, "report", proposal, by=ANN, report=found))
    ) == "report_is_invalid"  # fmt: skip


def test_bytes_that_are_no_report_are_refused() -> None:
    world = governed(ANN)
    proposal = propose(world, version(2, ANN))
    head = head_of(world, world.state.proposals.open[proposal])
    fields = head.fields()
    for data in (
        b"",
        b"\xff",
        encode([]),
        encode({**fields, "format": "aos-shadow/2"}),
        encode({**fields, "from": True}),
        encode({**fields, "frame": b"short"}),
        encode({**fields, "leaves": [1]}),
        encode({name: each for name, each in fields.items() if name != "to"}),
        report_of(head, padding=bytes(REPORT_BYTES_MAX)),
    ):
        found = act(world, "report", proposal, by=ANN, report=data)
        assert rule(found) == "report_is_invalid"


def test_a_report_that_comes_again_is_the_first_one() -> None:
    world = governed(ANN)
    proposal = propose(world, version(2, ANN))
    found = report_of(head_of(world, world.state.proposals.open[proposal]))
    first = act(world, "report", proposal, by=ANN, report=found)
    assert isinstance(first, Admitted)

    assert act(world, "report", proposal, by=OPERATOR.name, report=found) == Duplicate(
        seq=first.seq
    )
    for number in range(REPORTS_MAX - 1):
        head = head_of(world, world.state.proposals.open[proposal])
        act(world, "report", proposal, by=ANN, report=report_of(head, number=number))
    more = report_of(head, number=-1)
    assert rule(act(world, "report", proposal, by=ANN, report=more)) == "too_many_reports"


# Shadow records


def test_an_approval_names_a_report_of_enough_records() -> None:
    """GV-32: of so many records, or of all from the base to the proposal."""
    world = governed(ANN, BOB, CAT, quorum=3, shadow_records=4)
    for number in range(6):
        tell(world, f"k{number}")
    base, last = world.state.manifest_seq, world.state.next_seq - 1
    proposal = propose(world, version(2, ANN, BOB, CAT, quorum=3))
    short = report(world, proposal, first=last - 3, last=last)
    enough = report(world, proposal, first=last - 4, last=last)
    whole = report(world, proposal, first=base, last=proposal - 1)

    assert rule(act(world, "approve", proposal, by=ANN)) == "report_is_needed"
    assert rule(act(world, "approve", proposal, by=ANN, seen=short)) == "report_is_needed"
    unknown = content_hash(b"never journaled")
    assert rule(act(world, "approve", proposal, by=ANN, seen=unknown)) == "report_is_needed"
    assert rule(act(world, "reject", proposal, by=CAT, seen=unknown)) == "report_is_needed"
    assert rule(act(world, "approve", proposal, by=ANN, seen=enough)) == "admitted"
    assert rule(act(world, "approve", proposal, by=BOB, seen=whole)) == "admitted"
    assert rule(act(world, "reject", proposal, by=CAT)) == "admitted"
    assert status(world, proposal) == "rejected"


def test_all_records_since_the_base_are_enough_however_few() -> None:
    world = governed(ANN, shadow_records=10**9)
    tell(world, "a")
    base = world.state.manifest_seq
    proposal = propose(world, version(2, ANN))
    too_few = (
        report(world, proposal, first=base, last=proposal - 2) if proposal - 2 >= base else None
    )
    whole = report(world, proposal, first=base, last=proposal - 1)

    if too_few is not None:
        assert rule(act(world, "approve", proposal, by=ANN, seen=too_few)) == "report_is_needed"
    assert rule(act(world, "approve", proposal, by=ANN, seen=whole)) == "admitted"
    assert rule(apply(world, version(2, ANN), proposal=proposal)) == "admitted"


# Erase and fork


def test_nothing_that_an_open_proposal_needs_can_be_erased() -> None:
    """K-104."""
    world = governed(ANN)
    new = version(2, ANN)
    proposal = propose(world, new)
    seen = report(world, proposal)
    open_ = world.state.proposals.open[proposal]
    [module] = [each.hash for each in new.effective.modules.values()]
    for value in (open_.document.hash, open_.patch.hash, module, seen):
        answer = world.control("erase", value=value)
        assert rule(answer) == "value_is_in_use"
        assert isinstance(answer, Refusal)
        assert f"of proposal {proposal}" in answer.message

    act(world, "withdraw", proposal, by=OPERATOR.name)
    for value in (open_.document.hash, open_.patch.hash, module, seen):
        assert rule(world.control("erase", value=value)) == "admitted"


def test_a_fork_keeps_the_quorum_and_closes_the_proposals() -> None:
    """K-111, K-114: votes for the parent are no votes here."""
    world = governed(ANN)
    new = version(2, ANN)
    proposal = propose(world, new)
    act(world, "approve", proposal, by=ANN)

    world.fork()

    assert status(world, proposal) == "stale"
    assert rule(apply(world, new)) == "manifest_needs_proposal"
    assert rule(apply(world, new, proposal=proposal)) == "proposal_is_stale"
    again = propose(world, new)
    act(world, "approve", again, by=ANN)
    assert rule(apply(world, new, proposal=again)) == "admitted"
    assert world.state.cells.get(cell_id("a")) is None
