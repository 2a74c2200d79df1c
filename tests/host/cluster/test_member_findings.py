"""The findings of ``aos cluster check`` about members (spec/cluster.md, CL-241)."""

from __future__ import annotations

import pytest

from aos.host.cluster.beat import Beat
from aos.host.cluster.findings import ClusterReport
from aos.host.cluster.lease import LEASE_NS
from aos.host.cluster.member_overview import (
    MemberOverview,
    MembersOverview,
    add_member_findings,
)
from aos.host.cluster.member_values import MemberBeat
from aos.host.cluster.overview import STANDBY, NodeOverview, WorldOverview
from aos.host.cluster.registration import WorldRegistration
from aos.store.log.logged_store import LogEnd
from aos.values.digests import Hash
from tests.host.cluster.owner_process import WORLD

OTHER = Hash(b"o" * 32)


def member(
    name: str,
    *,
    seen: tuple[str, ...] = ("m1", "m2"),
    worlds: tuple[Hash, ...] = (WORLD,),
    standbys: int = 1,
    age_ns: int = 0,
    is_draining: bool = False,
) -> MemberOverview:
    beat = MemberBeat(
        name=name, instance=bytes(16), standbys=standbys, worlds=worlds, seen=seen
    )  # fmt: skip
    return MemberOverview(beat=beat, age_ns=age_ns, is_draining=is_draining)


def world(*nodes: tuple[str, str, int], taken_by: str | None = None) -> WorldOverview:
    """The world ``shop`` with the beats (role, node, age) of its nodes."""
    return WorldOverview(
        registration=WorldRegistration(
            name="shop", world=WORLD, stream="AOS-1", taken_by=taken_by
        ),
        signature="valid",
        nodes=tuple(
            NodeOverview(
                role=role,
                beat=Beat(
                    signature=b"", world=WORLD, node=node, instance=bytes(16), inbox="i",
                    end=LogEnd(position=1, seq=1, frame=OTHER),
                ),
                signature="valid",
                age_ns=age_ns,
            )
            for role, node, age_ns in nodes
        ),
        other_keys=(),
        log=None,
        problem=None,
    )  # fmt: skip


BOTH = world(("owner", "m1", 0), (STANDBY, "m2", 0))


def findings(
    *members: MemberOverview, of: WorldOverview = BOTH, preferences: dict[Hash, str] | None = None
) -> tuple[int, dict[str, str]]:
    """The exit code, and the text of each kind of finding."""
    report = ClusterReport()
    overview = MembersOverview(members=members, preferences=preferences or {})
    add_member_findings(report, overview, [of])
    return report.exit_code, {finding.kind.value: finding.text for finding in report.findings}


def test_members_that_agree_and_have_all_worlds_are_no_finding() -> None:
    assert findings(member("m1"), member("m2")) == (0, {})
    assert findings() == (0, {}), "without members, nodes are placed by hand"
    alone = member("m1", seen=("m1",), standbys=0)
    assert findings(alone, of=world(("owner", "m1", 0))) == (0, {})


def test_members_that_do_not_see_one_another_are_found() -> None:
    code, texts = findings(member("m1"), member("m2", seen=("m2",)))
    assert (code, [*texts]) == (4, ["member_view"])
    assert "expected m1, m2, found m1 sees m1, m2; m2 sees m2" in texts["member_view"]
    silent = member("m2", age_ns=LEASE_NS + 1)
    code, texts = findings(member("m1", seen=("m1",)), silent, of=world(("owner", "m1", 0)))
    assert (code, [*texts]) == (4, ["standbys_few"]), "a silent member is seen by no other"


def test_members_with_different_numbers_of_standbys_are_found() -> None:
    code, texts = findings(member("m1"), member("m2", standbys=0))
    assert (code, [*texts]) == (1, ["member_view"])
    assert "m1: 1, m2: 0" in texts["member_view"]


def test_a_member_without_the_key_of_a_world_is_found() -> None:
    code, texts = findings(member("m1"), member("m2", worlds=(OTHER,)))
    assert (code, [*texts]) == (1, ["member_key"])
    assert "found m2" in texts["member_key"]
    assert "FOLDER/shop" in texts["member_key"]


@pytest.mark.parametrize(
    "member_of_none",
    [
        member("m1", seen=("m1",), is_draining=True),
        member("m1", seen=("m1",), worlds=()),
        member("m1", age_ns=LEASE_NS + 1),
    ],
)
def test_a_world_that_no_member_can_own_is_found(member_of_none: MemberOverview) -> None:
    code, texts = findings(member_of_none)
    assert "member_missing" in texts
    assert code in (1, 4)
    assert "world shop" in texts["member_missing"]
    embedded = world(taken_by="a/1")
    assert "member_missing" not in findings(member_of_none, of=embedded)[1]


def test_a_world_with_few_standbys_is_found() -> None:
    for nodes in ([("owner", "m1", 0)], [("owner", "m1", 0), (STANDBY, "m2", LEASE_NS + 1)]):
        code, texts = findings(member("m1"), member("m2"), of=world(*nodes))
        assert (code, [*texts]) == (4, ["standbys_few"])
        assert "expected 1, found 0" in texts["standbys_few"]


def test_a_world_that_an_operator_has_moved_to_another_node_has_an_owner() -> None:
    """CL-229, CL-239: the members have its standbys."""
    moved = world(("owner", "outside", 0), (STANDBY, "m1", 0))
    assert findings(member("m1"), member("m2"), of=moved, preferences={WORLD: "outside"}) == (0, {})
