"""A retry or skip gives its own stamp to the mail that it resumes (spec/kernel.md, K-101b)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Literal

import pytest

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Control, Step
from aos.core.state.fold import fold
from aos.errors import Damage
from aos.prove.replay.replay import replay
from aos.values.cbor import decode_record, encode
from tests.core.decide.test_control import rule_of
from tests.core.decide.test_isolation import same
from tests.core.decide.test_owed import folded
from tests.core.desk import ARMS, DESK, cell_id, log_of, nodes, tell
from tests.memory_world import START_NS, Envelope, MemoryWorld, air, event_of, route, state_of
from tests.prove.journals import head_of, runner

HOUR_NS: Final = 3600 * 10**9

OLD_JOURNAL: Final = "fe2218b14b9134f7f77da512e4daec4dd602d7dacc488d7226562bc9d57ad5d5"
"""The hash of the last frame of ``retried(restamp=None)``, sealed by the release before K-101b."""


def timed(envelope: Envelope) -> Envelope:
    """Log the hour of each step; fail in the first hour of the journal clock, as if a service that
    the module needs had come up only then. ``pass on`` tells cell ``b``, too."""
    ctx: Any = decode_record(envelope["ctx"])
    if ctx["logical_now_ns"] < START_NS + HOUR_NS:
        return {"fault": {"kind": "down", "message": "until one o'clock"}}
    hour = (ctx["now_ns"] - START_NS) // HOUR_NS
    note = event_of(envelope)["$value"]["note"]
    logged = {"state": encode([*(state_of(envelope) or []), f"{hour} h: {note}"])}
    if note != "pass on":
        return logged
    passed = {"schema": "t/Tell@1", "value": encode({"key": "b", "asks": [], "note": "passed on"})}
    return {**logged, "domain_events": [passed]}


def failed() -> MemoryWorld:
    """Cell ``a`` failed on its first event, with two more behind it; then five hours passed."""
    subscribed = [route("t/Tell@1", DESK, "key")]
    world = MemoryWorld(
        air(nodes(ARMS, context="sys/WorkflowContext@1"), subscribed), {DESK: timed}
    )
    for note in ("first", "pass on", "third"):
        world.now_ns += 60 * 10**9
        tell(world, "a", note=note)
    world.now_ns += 5 * HOUR_NS
    return world


def retried(*, restamp: Literal[True] | None) -> MemoryWorld:
    world = failed()
    assert isinstance(world.control("retry", cell=cell_id("a"), restamp=restamp), Admitted)
    world.run()
    world.seal()
    return world


def replayed(world: MemoryWorld) -> Any:
    return replay(world.frames, world.read, runner(world), head=head_of(world.frames))


def test_the_mail_that_a_retry_resumes_has_the_time_of_the_retry() -> None:
    """Also the mail behind the entry that failed, and what their steps cause in other cells."""
    world = retried(restamp=True)

    assert log_of(world, "a") == ["5 h: first", "5 h: pass on", "5 h: third"]
    assert log_of(world, "b") == ["5 h: passed on"]
    same(folded(world), world.state)
    replayed(world)


def test_an_input_causes_the_same_records_as_before_but_for_their_time() -> None:
    """K-45: cause and depth stay."""
    causes = [
        [(each.root, each.depth, each.entry) for each in world.records() if isinstance(each, Step)]
        for world in (retried(restamp=True), retried(restamp=None))
    ]
    assert causes[0] == causes[1]
    assert len(causes[0]) == 4


def test_mail_that_arrives_after_the_retry_has_its_own_time() -> None:
    world = retried(restamp=True)
    world.now_ns += HOUR_NS

    tell(world, "a", note="later")

    assert log_of(world, "a")[-1] == "6 h: later"


def test_a_retry_that_fails_again_is_restamped_by_the_next() -> None:
    world = failed()
    world.now_ns -= 5 * HOUR_NS
    world.control("retry", cell=cell_id("a"), restamp=True)
    world.run()
    assert world.cell(DESK, "a").fault is not None
    world.now_ns += 7 * HOUR_NS

    world.control("retry", cell=cell_id("a"), restamp=True)
    world.run()

    assert log_of(world, "a")[0] == "7 h: first"


def test_the_time_goes_back_too_if_the_clock_was_ahead() -> None:
    """K-109b: the stamps of the retry count, not the highest ones."""
    world = failed()
    world.now_ns += 100 * HOUR_NS
    tell(world, "a", note="ahead")
    world.now_ns -= 100 * HOUR_NS

    world.control("retry", cell=cell_id("a"), restamp=True)
    world.run()

    assert log_of(world, "a")[-1] == "5 h: ahead"


def test_a_journal_of_an_earlier_release_replays_unchanged() -> None:
    """Its retries lack ``restamp``: the mail keeps the stamps of its admission."""
    world = retried(restamp=None)

    assert world.sealed[-1].tip.frame.hex() == OLD_JOURNAL
    assert log_of(world, "a") == ["0 h: first", "0 h: pass on", "0 h: third"]
    replayed(world)


@pytest.mark.parametrize(("restamp", "hour"), [(True, 5), (None, 0)])
def test_the_mail_behind_a_skipped_entry_has_the_time_of_the_skip(
    restamp: Literal[True] | None, hour: int
) -> None:
    """Skips of earlier releases lack ``restamp``, too."""
    world = failed()
    assert isinstance(world.control("skip", cell=cell_id("a"), restamp=restamp), Admitted)
    world.run()
    world.seal()

    assert log_of(world, "a") == [f"{hour} h: pass on", f"{hour} h: third"]
    assert log_of(world, "b") == [f"{hour} h: passed on"]
    same(folded(world), world.state)
    replayed(world)


@pytest.mark.parametrize("action", ["unpin", "remove"])
def test_only_commands_that_resume_an_instance_restamp(action: str) -> None:
    world = failed()

    answer = world.control(action, cell=cell_id("a"), restamp=True)

    assert rule_of(answer) is Rule.CONTROL_IS_INVALID
    assert isinstance(answer, Refusal)
    assert answer.message == f"{action}: expected cell and nothing else"


@pytest.mark.parametrize(("signed", "sent"), [(True, None), (None, True)])
def test_the_signature_of_the_operator_covers_it(
    signed: Literal[True] | None, sent: Literal[True] | None
) -> None:
    """J-42a."""
    world = failed()

    answer = world.control("retry", cell=cell_id("a"), restamp=signed, forge={"restamp": sent})

    assert rule_of(answer) is Rule.CONTROL_SIGNATURE_IS_WRONG


def test_a_record_that_restamps_and_resumes_nothing_is_damage() -> None:
    """K-2."""
    world = failed()
    world.control("skip", cell=cell_id("a"))
    world.seal()
    *_, skip = world.records()
    assert isinstance(skip, Control)
    again = replace(
        skip, seq=world.state.next_seq, serial=world.state.controls, action="unpin", restamp=True
    )
    with pytest.raises(Damage, match="resumes no instance, and restamps its mail"):
        fold(world.state, again, world.read)


def test_the_record_has_true_or_nothing() -> None:
    """J-12, J-14."""
    world = retried(restamp=True)
    retry = next(each for each in world.records() if isinstance(each, Control))
    data = to_bytes(retry)
    assert from_bytes(data) == retry
    fields = decode_record(data)
    assert isinstance(fields, dict)
    assert fields["restamp"] is True

    for wrong in (False, None, 1, "true"):
        with pytest.raises(Damage, match="where true belongs, or nothing"):
            from_bytes(encode({**fields, "restamp": wrong}))
