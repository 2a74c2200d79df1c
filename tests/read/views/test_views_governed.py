"""Views and traces of proposals and votes (spec/audit.md, A-37g, A-37h)."""

from __future__ import annotations

from functools import cache

import pytest

from aos.errors import BadUsage
from aos.read.trace.render import lines, plain
from aos.read.trace.trace import trace
from aos.read.views.journal_view import journal
from aos.read.views.proposal_view import proposal, proposals
from aos.read.views.view import View
from aos.values.digests import hash_text
from tests.core.governed import act, apply, governed, propose, report, version
from tests.core.snapshot.test_governed_snapshot import busy
from tests.memory_world import OPERATOR, MemoryWorld
from tests.prove.journals import store_of


@cache
def world() -> MemoryWorld:
    return busy()


def view() -> View:
    return View(world().state, store_of(world()))


def opened() -> int:
    return next(each.seq for each in world().state.proposals.open.values() if each.mode)


def test_an_open_proposal_has_its_votes_and_reports() -> None:
    known = world().state.proposals.open[opened()]

    found = proposal(view(), opened())

    assert found | {"votes": [], "reports": [], "at_ns": 0} == {
        "proposal": opened(), "status": "open", "quorum": 2, "approvers": ["ann", "bob", "cat"],
        "shadow_records": 0, "principal": OPERATOR.name, "base": hash_text(known.base),
        "document": hash_text(known.document.hash), "patch": hash_text(known.patch.hash),
        "mode": "pin", "leaves": [], "note": "with everything", "at_ns": 0, "votes": [],
        "reports": [],
    }  # fmt: skip
    seen = hash_text(next(iter(known.reports)))
    votes = [(each["approver"], each["vote"], each["seen"]) for each in found["votes"]]
    assert votes == [("bob", "approve", seen), ("ann", "reject", None)]
    first, second = found["reports"]
    assert first["hash"] == seen
    assert first["records"] == first["to"] - first["from"]
    assert second["to"] == opened() - 1


def test_closed_proposals_are_read_from_the_journal() -> None:
    rows = {each["proposal"]: each for each in proposals(view())}
    closed = world().state.proposals.closed

    assert {seq: rows[seq]["status"] for seq in closed} == dict(closed)
    assert [*rows] == sorted([*closed, *world().state.proposals.open])
    applied = next(seq for seq, status in closed.items() if status == "applied")
    votes = proposal(view(), applied)["votes"]
    assert [(each["approver"], each["vote"]) for each in votes] == [
        ("ann", "approve"), ("bob", "approve"),
    ]  # fmt: skip
    assert all(each["at_ns"] for each in votes)
    assert "votes" not in rows[applied]


def test_a_number_that_no_proposal_has_is_refused_as_the_kernel_refuses_it() -> None:
    with pytest.raises(BadUsage, match=r"no proposal is record 1 \(see aos gov list\)"):
        proposal(view(), 1)


def test_the_journal_is_listed_in_words() -> None:
    """A-37g."""
    small = governed("ann")
    new = version(2, "ann")
    number = propose(small, new, note="why")
    seen = report(small, number)
    act(small, "approve", number, by="ann", seen=seen)
    apply(small, new, proposal=number)
    small.seal()
    shown = View(small.state, store_of(small))

    records = journal(shown, kinds=("governance", "manifest"), limit=10)["records"]

    document, base = hash_text(new.effective.hash)[:15], records[1]["base"][:15]
    assert [each["summary"] for each in records[1:]] == [
        f"propose {number} by operator · {document}… in the place of {base}… · why",
        f"report {number} by operator · report {hash_text(seen)[:15]}…",
        f"approve {number} by ann · has seen {hash_text(seen)[:15]}…",
        f"{document}… by operator · proposal {number}",
    ]
    assert records[1]["mode"] == "strict"
    assert records[2]["mode"] is None
    assert "proposal" not in records[0]
    [root] = trace(shown, [str(number)]).roots
    assert (root.kind, root.subject, root.status) == ("governance", "propose", "recorded")
    text = "\n".join(plain(lines(trace(shown, [str(number)]))))
    assert f"governance {number}: propose {number} by operator" in text
