"""Traces of cancels, losses, streams, attempts, retries (spec/audit.md, A-40 to A-48)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.records import Attempt, Control, KernelReceipt, Stream
from aos.read.trace import tree_growth as growing
from aos.read.trace.render import lines, plain
from aos.read.trace.trace import trace
from aos.read.trace.trace_tree import Node, Trace
from aos.read.views.view import View
from tests.core.desk import DESK, ONCE, PAY, TIMER, cell_id, desks, pay, tell
from tests.memory_world import MemoryWorld
from tests.prove.desks import Desk, every_kind, only
from tests.prove.journals import store_of

RETRIED, SKIPPED, CANCELED = range(3)
WHY = "the mail server is down"


@cache
def a_desk() -> Desk:
    """One world for all tests that do not change it."""
    return every_kind()


def view_of(world: MemoryWorld) -> View:
    return View(world.state, store_of(world), now_ns=world.now_ns)


@cache
def view() -> View:
    return view_of(a_desk())


def traced(*words: object) -> Trace:
    return trace(view(), [str(word) for word in words])


def nodes(root: Node) -> list[Node]:
    found = [root]
    for node in found:
        found.extend(node.children)
    return found


def of_kind(found: Trace, kind: str) -> list[Node]:
    return [node for root in found.roots for node in nodes(root) if node.kind == kind]


def event_of(key: str) -> int:
    """The first event that reached a cell."""
    found: int = next(
        each.seq for each in a_desk().records() if cell_id(key) in getattr(each, "to", ())
    )
    return found


def test_a_receipt_of_the_core_hangs_under_its_intent() -> None:
    """A-40, A-42."""
    found = traced(event_of("canceled"))

    [receipt] = of_kind(found, "kernel_receipt")
    asked = next(each for each in of_kind(found, "intent") if each.subject == TIMER)
    assert asked.children == (receipt,)
    assert (asked.status, receipt.status) == ("canceled", "delivered")
    assert receipt.note == "canceled, by its cell"
    assert asked.took_ns == a_desk_ns(6) - a_desk_ns(4)
    assert receipt.at_ns == a_desk_ns(6)
    text = plain(lines(found))
    assert any("(the kernel's receipt 8: delivered, by its cell)" in line for line in text)


def a_desk_ns(seq: int) -> int:
    stamped: Any = a_desk().records()[seq - 1]
    found: int = stamped.stamp.ns
    return found


@pytest.mark.parametrize(
    ("place", "note"),
    [
        (1, "ok, answered by the core"),
        (2, "error, its only run was lost (record 32)"),
        (3, "ok, answered by the core"),
        (4, "canceled, by operator (record 48)"),
    ],
)
def test_a_receipt_of_the_core_says_why_it_was_made(place: int, note: str) -> None:
    """A-41. Above the target are the intent and the step that requested it."""
    record = only(a_desk(), KernelReceipt, place)

    found = traced(record.seq)

    [receipt] = of_kind(found, "kernel_receipt")
    assert (receipt.is_target, receipt.note) == (True, note)
    assert found.roots[0].kind == "event"
    [step] = receipt.children
    assert step.kind == "step"


def test_attempts_and_frames_hang_under_their_intent() -> None:
    """A-40."""
    found = traced(event_of("streamed"))

    [asked] = of_kind(found, "intent")
    assert [(each.kind, each.status) for each in asked.children] == [
        ("stream", "delivered"), ("stream", "delivered"), ("attempt", "begun"),
        ("receipt", "delivered"),
    ]  # fmt: skip
    frame = asked.children[1]
    assert (frame.subject, frame.note, frame.value) == (PAY, "token 3", {"$bytes": "/w=="})
    assert [child.kind for child in frame.children] == ["step"]
    text = plain(lines(found))
    assert f"frame 15: {PAY} " in text[5]
    assert text[7].strip().startswith("├─ attempt 2 begun (record 18) · 2023-")
    assert text[-1].strip().startswith("└─ step 20: ")


@pytest.mark.parametrize(
    ("halted", "note"), [(WHY, ""), ("another", f" · attempt 1 failed: {WHY}"), (None, "")]
)
def test_the_problem_of_an_attempt_is_shown_once(halted: str | None, note: str) -> None:
    """A-48a: the record that begins the next attempt repeats it."""

    def attempt(seq: int, phase: str, number: int, problem: str | None) -> Node:
        document = {"attempt": number, "problem": problem}
        said = None if problem is None else f"no_mail: {problem}" if phase == "held" else problem
        return Node(
            kind="attempt", seq=seq, status=phase, value=document, note=said, intent="blake3:00"
        )

    roots = (
        *([attempt(7, "held", 1, halted)] if halted else []),
        attempt(8, "begun", 2, WHY if halted else None),
    )
    for trees in (roots, (Node(kind="intent", seq=5, status="open", children=roots),)):
        drawn = plain(lines(Trace(target="", roots=trees, earlier=0, cases=())))
        begun = next(line for line in drawn if "attempt 2 begun" in line)
        assert begun.endswith(f"attempt 2 begun (record 8){note}")
        assert sum(WHY in line for line in drawn) == (1 if halted else 0)


def test_a_frame_is_shown_under_its_causes_and_the_intent_as_it_is_now() -> None:
    """A-40."""
    frame, attempt = only(a_desk(), Stream), only(a_desk(), Attempt)

    streamed, begun = traced(frame.seq), traced(attempt.seq)

    [target] = of_kind(streamed, "stream")
    assert target.is_target
    assert [child.seq for child in target.children] == [16]
    for found in (streamed, begun):
        assert of_kind(found, "intent")[0].status == "ok"
    assert of_kind(begun, "attempt")[0].children == ()


def test_a_step_that_a_frame_caused_is_shown_under_it() -> None:
    """A-40."""
    found = traced(16)

    assert [node.kind for node in nodes(found.roots[0])] == [
        "event", "step", "intent", "stream", "step",
    ]  # fmt: skip


def test_the_first_frames_of_a_long_stream_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A-46."""
    monkeypatch.setattr(growing, "FRAMES_MAX", 2)
    world = desks()
    tell(world, "a", pay("p"))
    (paying,) = world.open()
    for number in range(5):
        assert isinstance(world.stream(paying, number), Admitted)
    world.run()

    found = trace(view_of(world), ["3"])

    [asked] = of_kind(found, "intent")
    assert (len(asked.children), asked.left_out, asked.status) == (2, 3, "open")


def test_a_fault_that_was_retried_is_followed_by_what_came_of_it() -> None:
    """A-40."""
    found = traced(event_of("failed"))

    root = found.roots[0]
    assert [(each.kind, each.seq) for each in root.children] == [("fault", 40), ("fault", 43)]
    assert root.status == "delivered", "it was skipped: it waits no more"


def test_an_event_whose_cell_failed_again_waits_behind_it() -> None:
    """A-42."""
    world = desks()
    tell(world, "a", note="fail")
    world.control("retry", cell=cell_id("a"))
    world.run()

    root = trace(view_of(world), ["3"]).roots[0]

    assert [each.kind for each in root.children] == ["fault", "fault"]
    assert root.status == "delivered"


def test_a_command_is_traced_to_what_came_of_it() -> None:
    """A-40."""
    retry, skip, cancel, erase = (only(a_desk(), Control, place).seq for place in range(4))

    retried, skipped, canceled, erased = map(traced, (retry, skip, cancel, erase))

    assert [(each.kind, each.seq) for each in retried.roots[0].children] == [("fault", 43)]
    assert [(each.kind, each.seq) for each in skipped.roots[0].children] == [("step", 45)]
    assert [(each.kind, each.seq) for each in canceled.roots[0].children] == [
        ("kernel_receipt", 49)
    ]
    assert [child.kind for child in canceled.roots[0].children[0].children] == ["step"]
    assert erased.roots[0].children == ()
    text = plain(lines(retried))[0]
    assert text.startswith(f"command 42: retry {DESK} failed by operator · 2023-")
    assert (retried.roots[0].subject, retried.roots[0].status) == ("retry", "recorded")


def test_the_timeline_of_a_cell_has_everything_that_was_said_of_it() -> None:
    """A-45."""
    streamed, failed, given_up = (traced("desk", key) for key in ("streamed", "failed", "given-up"))

    assert [(root.kind, root.seq) for root in streamed.roots] == [
        ("event", 12), ("stream", 14), ("stream", 15), ("attempt", 18), ("receipt", 19),
    ]  # fmt: skip
    assert [child.seq for root in streamed.roots for child in root.children] == [13, 16, 17, 20]
    assert [(root.kind, root.seq) for root in failed.roots] == [
        ("event", 39), ("event", 41), ("control", 42), ("control", 44),
    ]  # fmt: skip
    assert [child.seq for child in failed.roots[0].children] == [40, 43]
    assert [child.seq for child in failed.roots[1].children] == [45]
    [asked] = of_kind(given_up, "intent")
    assert (asked.status, asked.children) == ("canceled", ())
    assert [root.kind for root in given_up.roots] == ["event", "kernel_receipt"]


def test_the_timeline_of_a_loss_reads_as_it_happened() -> None:
    """A-45, A-48."""
    text = plain(lines(traced("desk", "lost")))

    assert text[3].startswith("attempt 1 begun (record 31) · ")
    assert text[4].startswith("attempt 1 lost (record 32) · ")
    assert text[5].startswith(
        f'the kernel\'s receipt 33: {ONCE} delivered {{"code":"unknown_outcome"'
    )
    assert text[5].endswith(" · error, its only run was lost (record 32)")


def test_a_frame_that_no_step_has_taken_waits() -> None:
    """A-42."""
    world = desks()
    tell(world, "a", pay("p"))
    (paying,) = world.open()
    world.stream(paying, 0)
    world.seal()

    tree, line = trace(view_of(world), ["3"]), trace(view_of(world), ["desk", "a"])

    for found in (tree, line):
        [frame] = of_kind(found, "stream")
        assert (frame.status, frame.note) == ("waiting", f"waits in the mailbox of {DESK} a")
