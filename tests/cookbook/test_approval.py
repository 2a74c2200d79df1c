"""manifests/cookbook/approval: one of several persons decides, and a deadline passes without."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from aos.testing import Fail, InputRefused, World, like
from tests.cookbook.worlds import executors, recipe

REQUEST, ASK = "approval/request@1", "approval/ask@1"


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("approval")) as world:
        world.on(ASK, {"message_id": "m"})
        yield world


def ask(world: World, name: str = "r-1", approvers: tuple[str, ...] = ("ann", "bob")) -> None:
    world.send(
        "approval/Requested@1",
        {
            "request_id": name,
            "what": "a laptop",
            "approvers": list(approvers),
            "chief": "cleo",
            "patience": "2d",
        },
    )
    world.run()


def approve(world: World, by: str, name: str = "r-1") -> None:
    world.send("approval/Approved@1", {"request_id": name, "by": by})
    world.run()


def deny(world: World, by: str, reason: str = "no") -> None:
    world.send("approval/Denied@1", {"request_id": "r-1", "by": by, "reason": reason})
    world.run()


def settled(world: World) -> list[tuple[str, str | None]]:
    events = world.events("approval/Settled@1")
    return [(each["verdict"]["$tag"], each["by"]) for each in events]


def ignored(world: World) -> list[tuple[str, str]]:
    return [(each["by"], each["why"]) for each in world.events("approval/Ignored@1")]


def asked(world: World) -> list[tuple[str, bool]]:
    return [(each.params["person"], each.params["is_escalation"]) for each in world.asked(ASK)]


def test_every_approver_is_asked_and_the_first_decision_settles_the_request(world: World) -> None:
    ask(world)
    approve(world, "bob")
    deny(world, "ann")

    assert asked(world) == [("ann", False), ("bob", False)]
    assert settled(world) == [("Approved", "bob")]
    assert ignored(world) == [("ann", "the request is settled")]
    assert world.status(REQUEST, "r-1") == "completed"
    assert world.timers() == [], "the deadline is canceled"


def test_a_denial_settles_the_request_with_its_reason(world: World) -> None:
    ask(world)
    deny(world, "ann", "too expensive")

    assert world.events("approval/Settled@1") == [
        like({"verdict": {"Denied": "too expensive"}, "by": "ann"})
    ]


@pytest.mark.parametrize("person", ["cleo", "eve", ""])
def test_no_one_else_may_decide(world: World, person: str) -> None:
    ask(world)
    approve(world, person)

    assert settled(world) == []
    assert ignored(world) == [(person, "this person may not decide")]
    assert world.status(REQUEST, "r-1") == "waiting"


@pytest.mark.parametrize("person", ["ann", "cleo"])
def test_after_the_deadline_the_chief_may_decide_too(world: World, person: str) -> None:
    ask(world)
    world.advance("2d")
    assert asked(world)[2:] == [("cleo", True)]

    approve(world, person)

    assert settled(world) == [("Approved", person)]
    assert world.timers() == []


def test_a_request_expires_after_the_second_deadline(world: World) -> None:
    ask(world)
    world.advance("95h")
    assert settled(world) == []

    world.advance("1h")
    approve(world, "ann")

    assert settled(world) == [("Expired", None)]
    assert ignored(world) == [("ann", "the request is settled")]


def test_a_request_can_be_withdrawn_once(world: World) -> None:
    ask(world)
    for _ in range(2):
        world.send("approval/Withdrawn@1", {"request_id": "r-1"})
        world.run()

    assert settled(world) == [("Withdrawn", None)]


def test_mails_that_cannot_be_sent_hold_up_nothing(world: World) -> None:
    world.on(ASK, Fail("mail_server_down"))
    ask(world)
    world.advance("2d")
    approve(world, "cleo")

    assert settled(world) == [("Approved", "cleo")]


@pytest.mark.parametrize(
    ("schema", "more"),
    [("Approved", {"by": "ann"}), ("Denied", {"by": "ann", "reason": ""}), ("Withdrawn", {})],
)
def test_a_decision_about_an_unknown_request_creates_nothing(
    world: World, schema: str, more: dict[str, str]
) -> None:
    ask(world, "r-1")

    with pytest.raises(InputRefused) as refused:
        world.send(f"approval/{schema}@1", {"request_id": "r-11", **more})

    assert refused.value.rule == "instance_is_unknown"
    assert "r-1" in refused.value.message
    assert [cell.key for cell in world.cells()] == ["r-1"]


def test_a_request_that_is_sent_twice_asks_once(world: World) -> None:
    ask(world)
    ask(world)

    assert len(asked(world)) == 2
    assert len(world.timers()) == 1


def test_two_requests_side_by_side_have_their_own_deadlines(world: World) -> None:
    ask(world, "r-1")
    world.advance("1d")
    ask(world, "r-2")
    approve(world, "ann", "r-2")
    world.advance("1d")

    assert [each["request_id"] for each in world.events("approval/Settled@1")] == ["r-2"]
    assert world.state(REQUEST, "r-1") == like({"phase": "Escalated"})


def test_the_trace_of_a_test_has_times_and_durations_as_text(world: World) -> None:
    """T-33, A-48."""
    ask(world)

    found = world.trace()

    assert '"patience":"2d"' in found
    assert re.search(r'asks sys/timer.set@1 \{.*"deliver_at_ns":"20\d\d-\d\d-\d\dT[\d:.]+Z"', found)
    assert "000000" not in found


def test_a_deadline_survives_a_crash(world: World) -> None:
    ask(world)
    world.advance("1d")
    world.restart()
    world.advance("1d")

    assert world.state(REQUEST, "r-1") == like({"phase": "Escalated"})


def test_a_stored_request_without_a_comment_continues_on_the_second_release(world: World) -> None:
    """K-71d, K-75."""
    ask(world)
    world.apply(recipe("approval") / "release-2")
    assert "comment" not in world.state(REQUEST, "r-1")

    world.send("approval/Approved@1", {"request_id": "r-1", "by": "ann", "comment": "fine"})
    world.run()

    assert world.events("approval/Settled@1") == [like({"by": "ann", "comment": "fine"})]


def test_a_request_that_is_pinned_takes_decisions_without_the_comment_of_a_later_release(
    world: World,
) -> None:
    """K-73a: a decision with a comment would lose it."""
    ask(world)
    world.apply(recipe("approval") / "release-3", mode="pin")
    decision = {"request_id": "r-1", "by": "ann"}

    with pytest.raises(InputRefused, match="comment: unknown field that is not null"):
        world.send("approval/Approved@1", {**decision, "comment": "fine"})
    world.send("approval/Approved@1", decision)
    world.run()

    assert settled(world) == [("Approved", "ann")]


def test_the_third_release_needs_two_approvals_by_different_persons() -> None:
    with World(recipe("approval") / "release-3") as world:
        world.on(ASK, {"message_id": "m"})
        ask(world)
        approve(world, "ann")
        approve(world, "ann")
        assert settled(world) == []
        assert ignored(world) == [("ann", "this person has approved already")]

        approve(world, "bob")
        assert settled(world) == [("Approved", "bob")]


def test_with_its_own_executor_each_person_gets_a_mail(capsys: pytest.CaptureFixture[str]) -> None:
    with World(recipe("approval"), executors=[executors("approval", "desk")]) as world:
        ask(world)
        world.advance("2d")

    assert capsys.readouterr().out.splitlines() == [
        "to ann: a laptop waits for a decision",
        "to bob: a laptop waits for a decision",
        "to cleo: a laptop waits for a decision, and no one has decided in time",
    ]
