"""Views of receipts of the core, streams, attempts, commands and erased values
(spec/audit.md, A-30 to A-39, A-50 to A-68)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.records import Attempt, Control, KernelReceipt, Receipt, Stream
from aos.errors import BadUsage
from aos.read.views.cell_selection import CellSelection
from aos.read.views.cell_view import cell, cells, faults
from aos.read.views.diagnosis import diagnose
from aos.read.views.intent_view import FRAMES_SHOWN, intent, intents
from aos.read.views.journal_view import KINDS, journal, record, value
from aos.read.views.record_view import summary
from aos.read.views.view import View
from aos.read.views.world_view import world as world_document
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash, hash_text
from tests.core.desk import (
    DESK,
    ONCE,
    PAY,
    TIMER,
    TIMER_CANCEL,
    cancel,
    cell_id,
    desks,
    pay,
    tell,
    timer,
    wish,
)
from tests.memory_world import WORLD_KEY, MemoryWorld
from tests.prove.desks import Desk, every_kind, long_event, only, told_long
from tests.prove.journals import store_of

SECOND = 10**9
ERASED = long_event("erased")


@cache
def a_desk() -> Desk:
    """One world for all tests that do not change it."""
    return every_kind()


def view_of(world: MemoryWorld) -> View:
    return View(world.state, store_of(world), now_ns=world.now_ns + 12 * SECOND)


@cache
def view() -> View:
    return view_of(a_desk())


def shown(kind: type, place: int = 0) -> dict[str, Any]:
    return record(view(), only(a_desk(), kind, place).seq)


def test_every_kind_has_a_document_and_a_line() -> None:
    """A-30."""
    found = journal(view(), first=1, limit=1000)["records"]

    assert {each["kind"] for each in found} == set(KINDS) - {"governance", "snapshot", "fork"}
    for each in found:
        assert json.loads(json.dumps(each)) == each
        assert each["summary"] == summary(each)
        assert "\n" not in each["summary"]


def test_a_receipt_of_the_core_says_what_ended_it() -> None:
    """A-37a."""
    canceled, own, lost, _, given_up = (shown(KernelReceipt, place) for place in range(5))

    assert list(canceled)[2:] == [
        "intent", "cell", "effect", "status", "payload", "payload_schema", "root", "depth", "by",
        "outcome", "problem", "abandoned", "values",
    ]  # fmt: skip
    assert (canceled["effect"], canceled["status"], canceled["by"]) == (
        TIMER, "canceled", own["intent"],
    )  # fmt: skip
    assert canceled["payload"]["code"] == "canceled"
    assert canceled["cell"] == {"workflow": DESK, "key": "canceled"}
    assert summary(canceled).endswith(f" · by {own['intent'][:15]}…")
    assert summary(own).endswith(" · answered by the core")
    assert (lost["payload"]["code"], lost["by"]) == ("unknown_outcome", None)
    assert summary(lost).endswith(f" · by record {only(a_desk(), Attempt, 2).seq}")
    assert given_up["root"] == only(a_desk(), Control, 2).seq


def test_a_stream_frame_is_decoded_where_it_can_be() -> None:
    """A-37b."""
    first, second = shown(Stream), shown(Stream, 1)

    assert list(first)[2:] == [
        "at_ns", "intent", "cell", "effect", "attempt", "frame_seq", "frame_kind", "payload",
        "payload_ref", "executor", "key_id", "values",
    ]  # fmt: skip
    assert (first["frame_seq"], first["frame_kind"], first["payload"]) == (0, "progress", 0)
    assert (second["frame_seq"], second["frame_kind"]) == (3, "token")
    assert second["payload"] == {"$bytes": "/w=="}
    assert second["payload_ref"] == hash_text(content_hash(b"x"))
    assert first["key_id"] == f"ed25519:{bytes(WORLD_KEY.verify_key).hex()}"
    assert "· progress 0 0 ·" in summary(first)


def test_an_attempt_and_a_command_say_what_they_are_about() -> None:
    """A-37c, A-37d."""
    attempt, retry, cancel, erase = shown(Attempt), *(shown(Control, i) for i in (0, 2, 3))

    assert (attempt["attempt"], attempt["phase"], attempt["problem"]) == (2, "begun", None)
    assert summary(attempt).startswith(f"attempt 2 begun for {DESK} streamed · blake3:")
    assert (retry["action"], retry["principal"], retry["serial"]) == ("retry", "operator", 0)
    assert retry["cell"] == {"workflow": DESK, "key": "failed"}
    assert (retry["intent"], retry["value"]) == (None, None)
    assert summary(retry) == f"retry {DESK} failed by operator"
    assert summary(cancel) == f"cancel {cancel['intent'][:15]}… by operator"
    assert summary(erase) == f"erase {hash_text(ERASED)[:15]}… by operator"


def test_a_receipt_says_its_place_in_a_batch() -> None:
    """A-37."""
    assert shown(Receipt)["batch"] is None
    assert shown(Receipt, 2)["batch"] == {"index": 1, "size": 3}


def test_the_journal_is_filtered_by_the_new_kinds() -> None:
    """A-38."""
    found = journal(view(), first=1, kinds=("control", "attempt"), limit=100)["records"]
    of_cell = journal(view(), first=1, workflow="desk", key="failed", limit=100)["records"]

    assert [each["kind"] for each in found] == ["attempt"] * 3 + ["control"] * 4
    assert [each["kind"] for each in of_cell] == [
        "event", "fault", "event", "control", "fault", "control", "step",
    ]  # fmt: skip


# Intents.


def of_cell(key: str, world: MemoryWorld | None = None, status: str | None = None) -> Any:
    found = view() if world is None else view_of(world)
    [row] = intents(found, status=status, key_prefix=key)["intents"]
    return intent(found, row["intent"])


def test_an_intent_shows_its_attempts_and_its_stream() -> None:
    """A-67."""
    found = of_cell("streamed")

    assert [(each["attempt"], each["phase"]) for each in found["attempts"]] == [(2, "begun")]
    assert found["frames"] == 2
    assert [each["frame_seq"] for each in found["last_frames"]] == [0, 3]
    assert (found["attempts_max"], found["delivery"], found["attempt"]) == (
        1, "at_least_once", None,
    )  # fmt: skip
    assert found["receipt"]["attempt"] == 2


def test_an_intent_that_was_canceled_says_by_whom() -> None:
    """A-67."""
    found = of_cell("given-up")

    assert (found["status"], found["receipt_status"]) == ("settled", "canceled")
    assert [each["principal"] for each in found["cancels"]] == ["operator"]
    assert found["receipt"]["kind"] == "kernel_receipt"
    assert found["receipt"]["root"] == found["cancels"][0]["seq"]


def test_an_intent_whose_run_was_lost_says_so() -> None:
    """A-67."""
    found = of_cell("lost")

    assert (found["delivery"], found["receipt_status"]) == ("at_most_once", "error")
    assert [each["phase"] for each in found["attempts"]] == ["begun", "lost"]
    assert found["receipt"]["payload"]["code"] == "unknown_outcome"


def test_the_last_frames_of_a_long_stream_are_shown() -> None:
    """A-67."""
    world = desks()
    tell(world, "a", pay("p"))
    (paying,) = world.open()
    for number in range(FRAMES_SHOWN + 3):
        assert isinstance(world.stream(paying, number), Admitted)
    world.run()

    found = of_cell("a", world)

    assert (found["frames"], len(found["last_frames"])) == (FRAMES_SHOWN + 3, FRAMES_SHOWN)
    assert found["last_frames"][-1]["frame_seq"] == FRAMES_SHOWN + 2


# Why it waits.


def reason_of(world: MemoryWorld, key: str) -> Any:
    (found,) = cell(view_of(world), "desk", key)["reasons"]
    return found


def test_a_retried_effect_shows_its_attempt() -> None:
    """A-51."""
    world = desks()
    tell(world, "a", pay("p"))
    (paying,) = world.open()
    assert ": no answer for 12 s" in reason_of(world, "a")["text"]
    assert "attempt" not in reason_of(world, "a")["text"]
    world.attempt(paying, 2)
    world.seal()

    found = reason_of(world, "a")

    assert found["text"].endswith("; attempt 2 of 2")
    assert found["next"] == (
        f"run the world with an executor named test that has a function for "
        f"{paying.effect.name}: "
        "aos run --executors MODULE:ATTRIBUTE; "
        f"or cancel it: aos effects cancel {paying.intent.hex()[:12]}"
    )
    assert of_cell("a", world)["attempt"] == 2


def test_a_timer_is_no_open_work_of_an_executor() -> None:
    """A-61."""
    mixed, alone = desks(), desks()
    tell(mixed, "a", pay("p"), timer(mixed, "t"))
    tell(alone, "a", timer(alone, "t"))

    found = world_document(view_of(mixed))["intents"]
    only_timers = world_document(view_of(alone))["intents"]

    opened_ns = found["oldest_open_ns"]
    assert (found["open"], list(found["by_executor"])) == (2, ["test"])
    assert found["by_executor"]["test"]["open"] == 1
    assert found["timers"] == {"open": 1, "oldest_open_ns": opened_ns}
    assert (only_timers["open"], only_timers["by_executor"]) == (1, {})


def test_an_effect_that_may_run_only_once_shows_whether_it_has_begun() -> None:
    """A-51."""
    world = desks()
    tell(world, "a", wish(ONCE, {"n": 1}))
    (once,) = world.open()
    before = reason_of(world, "a")
    world.attempt(once, 1)
    world.seal()
    begun = reason_of(world, "a")

    assert before["text"].endswith("; it may run only once, and has not begun")
    assert before["next"].startswith("run the world with an executor named test")
    assert begun["text"].endswith(
        "; it may run only once, and has begun: it is unknown whether it still runs"
    )
    assert begun["next"].startswith(
        "wait for the process that runs it; if that process is gone, aos run settles it as "
        "unknown_outcome"
    )


@pytest.mark.parametrize("why", ["cancel", "loss", "answer"])
def test_a_receipt_that_the_core_owes_is_shown_as_such(why: str) -> None:
    """A-51: between the record that asks for a receipt and the receipt itself."""
    world = desks()
    if why == "answer":
        world.send("t/Tell@1", {"key": "a", "asks": [wish(INTROSPECT_HEAD, {})], "note": ""})
        world.step()
        said = "the kernel itself answers it"
    elif why == "cancel":
        tell(world, "a", pay("p"))
        world.control("cancel", intent=world.open()[0].intent)
        said = "an operator canceled it"
    else:
        tell(world, "a", wish(ONCE, {"n": 1}))
        world.attempt(world.open()[0], 1)
        world.attempt(world.open()[0], 1, "lost")
        said = "its only run was lost, and it may not run again"
    world.seal()

    found = reason_of(world, "a")

    assert (found["kind"], found["is_stuck"]) == ("core", False)
    assert found["text"].startswith("waits for the kernel, which owes it a receipt for ")
    assert found["text"].endswith(f": {said}")
    assert found["next"].endswith("when the world runs next, or is written to: aos run")


INTROSPECT_HEAD = "sys/introspect.journal_head@1"


def failed(**limits: int) -> MemoryWorld:
    world = desks(limits={"world": limits}) if limits else desks()
    tell(world, "a b", note="fail")
    for number in range(3):
        tell(world, "a b", note=f"{number}")
    return world


def test_a_failed_cell_shows_the_commands_that_resume_it() -> None:
    """A-52, A-65."""
    world = failed()
    found = reason_of(world, "a b")
    [row] = faults(view_of(world))["faults"]

    retry = f"aos cells retry {DESK} 'a b'"
    assert found["next"].endswith(
        f"; then {retry} (or, to skip the entry that failed: {retry} --skip)"
    )
    assert row["retry"] == retry
    assert found["text"].endswith("; blocked in its mailbox until it is resumed: 3 events")


def test_mail_past_the_limit_is_told_from_mail_that_is_kept() -> None:
    """A-52, K-44."""
    world = failed(mailbox=2)
    found = cell(view_of(world), "desk", "a b")

    assert (found["mailbox"], found["mail_uncounted"]) == (2, 2)
    assert found["reasons"][0]["text"].endswith(
        "; blocked in its mailbox until it is resumed: 1 event; not delivered because its mailbox "
        "is full, only journaled: 2 events"
    )


def test_a_cell_that_failed_on_no_entry_has_nothing_to_skip() -> None:
    """A-52, K-101."""
    world = desks()
    tell(world, "a", pay("p"))
    world.settle(world.open()[0], {"ref": 5})
    world.run()

    found = reason_of(world, "a")

    assert found["next"].endswith(f"; then aos cells retry {DESK} a")
    assert "mail" not in found["text"]


def test_a_stream_frame_in_a_mailbox_is_shown() -> None:
    """A-64."""
    world = desks()
    tell(world, "a", pay("p"))
    (paying,) = world.open()
    world.stream(paying, 0, frame_kind="token", payload=encode("hel"))
    world.seal()

    [mail] = cell(view_of(world), "desk", "a")["mail"]

    assert mail["kind"] == "stream"
    assert (mail["effect"], mail["frame_kind"], mail["frame_seq"]) == (PAY, "token", 0)
    assert (mail["payload"], mail["intent"]) == ("hel", hash_text(paying.intent))


def test_a_cell_that_is_diagnosed_without_commands_names_none() -> None:
    """A-50: an idle one."""
    world = desks()
    tell(world, "a", note="1")
    (found,) = diagnose(world.state, cell_id("a"), "a", world.read, now_ns=world.now_ns)

    assert (found.kind, found.next) == ("idle", None)


def test_an_instance_that_canceled_its_only_timer_itself_is_flagged() -> None:
    """A-50"""
    world = desks()
    tell(world, "a", timer(world, "t"))
    tell(world, "a", cancel(ref="t", of=TIMER_CANCEL))

    found = reason_of(world, "a")

    assert (found["kind"], found["is_stuck"]) == ("idle", True)
    assert found["text"].startswith("idle: its only timer was canceled (record ")


def test_an_instance_whose_only_timer_an_operator_canceled_is_flagged() -> None:
    """A-50, A-63: and one that took a later event is not."""
    world = desks()
    tell(world, "a", timer(world))
    (waits,) = world.open()
    assert not cells(view_of(world))["cells"][0]["is_idle"]
    world.control("cancel", intent=waits.intent)
    world.run()

    [row] = cells(view_of(world))["cells"]
    assert (row["status"], row["is_idle"]) == ("running", True)
    found = reason_of(world, "a")
    assert (found["kind"], found["is_stuck"]) == ("idle", True)
    assert found["text"].startswith("idle: its only timer was canceled (record ")

    tell(world, "a", note="1")
    assert not reason_of(world, "a")["is_stuck"]


def test_cells_are_listed_with_their_fault() -> None:
    """A-63."""
    [row] = cells(view_of(failed()), CellSelection(status="failed"))["cells"]

    assert row["fault"]["kind"] == "guest"


# Values outside of their records.


def test_an_erased_value_is_shown_as_such() -> None:
    """A-3, K-104."""
    [event] = [each for each in journal(view(), first=1, limit=100)["records"]
               if each["kind"] == "event" and each["to"][0]["key"] == "erased"]  # fmt: skip

    assert event["value"]["$erased"] == hash_text(ERASED)
    by = only(a_desk(), Control, 3).seq
    assert event["value"]["why"] == f"the value {hash_text(ERASED)} was erased by record {by}"


def test_a_record_names_the_values_that_lie_outside_of_it() -> None:
    """A-38."""
    world = Desk()
    hash_ = told_long(world, "a")
    event, step = (record(view_of(world), seq) for seq in (4, 5))

    [outside] = event["values"]
    assert (outside["where"], outside["value"]) == ("value", hash_text(hash_))
    assert outside["size"] > 1024
    assert [each["where"] for each in step["values"]] == ["state"]
    assert record(view_of(world), 2)["values"][0]["where"] == "document"
    assert record(view_of(world), 3)["values"] == []


def test_a_value_says_where_it_is_held_and_what_became_of_it() -> None:
    """A-68."""
    world = Desk()
    hash_ = told_long(world, "a")
    before = value(view_of(world), hash_text(hash_))
    world.command("erase", value=hash_)
    after = value(view_of(world), hash_.hex())

    assert list(before) == ["value", "size", "is_there", "erased_by", "records", "total"]
    assert (before["is_there"], before["erased_by"], before["total"]) == (True, [], 1)
    assert before["records"] == [{"record": 4, "kind": "event", "where": "value", "cell": None}]
    assert (after["is_there"], after["erased_by"], after["size"]) == (False, [6], before["size"])
    state = record(view_of(world), 5)["values"][0]["value"]
    [held] = value(view_of(world), state)["records"]
    assert (held["where"], held["cell"]) == ("state", {"workflow": DESK, "key": "a"})


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("blake3:1234", "expected blake3: and 64 lower-case hex digits"),
        ("A" * 64, "expected blake3: and 64 lower-case hex digits"),
        ("0" * 64, f"blake3:{'0' * 64}: the world holds no such value"),
    ],
)
def test_a_hash_that_is_no_value_of_the_world_is_refused(word: str, message: str) -> None:
    """A-68."""
    with pytest.raises(BadUsage, match=message):
        value(view(), word)


def test_a_module_is_a_value_that_no_record_refers_to() -> None:
    """A-68."""
    module: Hash = a_desk().effective.workflows[DESK].module.hash

    found = value(view(), hash_text(module))

    assert (found["is_there"], found["records"], found["size"]) == (True, [], None)
