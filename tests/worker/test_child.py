"""Effects in a real process: its life, its deaths, what the node makes of them (X-50 to X-58)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

import aos
from aos.core.decide.answers import Answer, Refusal, Rule
from aos.core.journal.inputs import ReceiptInput
from aos.core.journal.signing import is_signed
from aos.errors import BadUsage, Damage
from aos.host.errors import Busy
from aos.host.executors import child, life, outbox, supervisor
from aos.host.executors.child import ChildExecutor
from aos.host.executors.life import Life
from aos.host.executors.python import PythonExecutor
from aos.host.executors.task import LEASE_LOOK_S, ExecutorStats, TaskExecutor
from aos.values.cbor import encode
from aos.worker.outcome import Outcome, StreamFrame
from aos.worker.wire import FD_VARIABLE, PROTOCOL, frame
from tests.answers import LATE, SETTLED, TAKEN, refused
from tests.running_process import is_running
from tests.worker.effects.actors import ENDLESS_S
from tests.worker.stage import (
    WORLD,
    Attempt,
    Journal,
    act,
    effective,
    error_code,
    intent_of,
    payload,
    task,
)

ACTORS: Final = f"{Path(__file__).parent / 'effects' / 'actors.py'}:actors"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "BACKOFF_S", 0.01)


def actors(journal: Journal) -> PythonExecutor:
    return PythonExecutor(ACTORS, world=WORLD, report=journal.report)


def of(spec: str) -> Callable[[Journal], PythonExecutor]:
    return lambda journal: PythonExecutor(spec, world=WORLD, report=journal.report)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of an end in order, for which a busy machine may need longer than a node waits."""
    monkeypatch.setattr(child, "DRAIN_S", 60.0)
    monkeypatch.setattr(life, "END_S", 60.0)


@pytest.mark.usefixtures("patient")
def test_tasks_run_in_a_process_and_what_it_prints_is_passed_on_with_its_name() -> None:
    """X-4, X-53."""

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        assert (executor.name, executor.signer) == ("actors", None)
        assert "test/echo@1" in executor.effects
        executor.publish([task(1), task(2, "test/other@1"), task(101)])
        executor.publish([task(200, "test/other@1"), task(106)])
        await journal.wait(5)
        await asyncio.sleep(0)
        assert executor.stats() == ExecutorStats(running=0, queued=0, settled=5)

    journal = act(actors, play)

    assert [journal.of(n).status for n in (1, 2, 101, 200)] == ["ok", "ok", "ok", "error"]
    assert payload(journal.of(200)) == {
        "code": "declined",
        "message": "no funds",
        "retryable": False,
    }
    assert payload(journal.of(106))["n"] != os.getpid()
    unsigned = journal.of(1)
    assert (unsigned.executor, unsigned.key_id, unsigned.signature) == ("node", None, None)
    assert journal.lines[0].endswith("actors.py:actors] setup entered")
    assert "[actors] printed by a function" in journal.lines
    assert journal.lines[-1] == "[actors] and not ended by a line feedsetup left"


def test_tasks_wait_for_a_manifest() -> None:
    async def scene() -> None:
        journal = Journal()
        executor = actors(journal)
        try:
            await executor.start(journal)
            executor.publish([task(1)])
            await asyncio.sleep(0.02)
            assert (executor.stats().queued, journal.outcomes) == (1, [])
            executor.use(effective())
            await journal.wait(1)
        finally:
            await executor.stop()

    asyncio.run(scene())


def test_a_task_in_the_queue_waits_for_the_lease() -> None:  # CL-89
    async def play(executor: PythonExecutor, journal: Journal) -> None:
        holds_lease = False
        executor.holds_lease = lambda: holds_lease
        executor.publish([task(1), task(2)])
        await asyncio.sleep(3 * LEASE_LOOK_S)
        assert (executor.stats().queued, journal.outcomes) == (2, [])
        executor.cancel([intent_of(2)])
        await journal.wait(1)
        assert journal.of(2).status == "canceled", "that needs no lease"
        holds_lease = True
        await journal.wait(2)

    journal = act(actors, play)

    assert journal.of(1).status == "ok"


def test_after_a_death_the_open_tasks_run_again_as_the_next_attempt() -> None:
    """X-56."""

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(104), task(1)])
        await journal.wait(2)

    journal = act(actors, play)

    assert (journal.of(104).status, journal.of(104).attempt) == ("ok", 2)
    assert journal.of(1).status == "ok"
    assert "executor actors: its process died (exit code 4); it is started again" in (
        journal.printed
    )


def test_a_task_that_ends_the_process_each_time_is_parked_and_the_others_run() -> None:
    """X-57."""
    stranded: list[int] = []

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.on_stranded = lambda: stranded.append(len(executor.stranded()))
        executor.publish([task(n) for n in (1, 2, 100, 3, 4)])
        await journal.wait(4)
        await journal.until(lambda: bool(executor.stranded()))
        assert set(executor.stranded()) == {intent_of(100)}
        executor.publish([task(5)])
        await journal.wait(5)
        executor.cancel([intent_of(100)])
        await journal.wait(6)

    journal = act(actors, play)

    assert {payload(journal.of(n))["n"] for n in range(1, 6)} == set(range(1, 6))
    assert (journal.of(100).status, journal.of(100).attempt) == ("canceled", 3)
    assert stranded == [1, 1], "once when it is parked, and when the journal has that"
    [(intent, attempt, why)] = journal.halts
    assert (intent, attempt, why.phase, why.code) == (intent_of(100), 3, "parked", "executor_died")
    assert "was running in 3 deaths of the process, the last time alone (exit code 3)" in (
        journal.printed
    )


def test_a_process_that_dies_again_and_again_is_given_up_and_its_tasks_stay_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X-58: each time right after it was ready."""
    monkeypatch.setattr(supervisor, "QUICK_DEATHS_MAX", 3)
    monkeypatch.setattr(supervisor, "QUICK_S", 60.0)

    def make(journal: Journal) -> ChildExecutor:
        until_ready = LIAR.partition("while True:")[0].replace("liar", "mortal")
        command = [sys.executable, "-c", f"{until_ready}os._exit(7)"]
        return ChildExecutor(label="mortal", command=command, world=None, report=journal.report)

    async def play(executor: ChildExecutor, journal: Journal) -> None:
        await journal.until(lambda: "died 3 times in a row" in journal.printed)
        executor.publish([task(1)])
        assert set(executor.stranded()) == {intent_of(1)}

    journal = act(make, play)

    assert journal.outcomes == []
    assert (
        "executor mortal: its process died 3 times in a row, each time within 60 s of its start "
        "(exit code 7); it is not started again, and 0 tasks stay open until the world is run again"
    ) in journal.lines


def test_a_function_that_blocks_the_loop_costs_its_own_task_only() -> None:
    """X-49."""

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(300, "test/quick@1")])
        executor.publish([task(102)])
        await journal.wait(1)
        await journal.until(lambda: "blocks the event loop" in journal.printed)
        executor.publish([task(301, "test/quick@1"), task(1)])
        await journal.wait(3)
        executor.cancel([intent_of(102)])
        await journal.wait(4)

    journal = act(actors, play)

    assert (journal.of(300).status, error_code(journal.of(300))) == ("timeout", "timeout")
    assert (journal.of(301).status, journal.of(1).status) == ("ok", "ok")
    assert (journal.of(102).status, journal.of(102).attempt) == ("canceled", 2)
    assert "died" not in journal.printed


def test_plain_calls_that_never_end_are_ended_with_their_process() -> None:
    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(400, "test/retried@1"), task(401, "test/retried@1")])
        await journal.wait(2)

    journal = act(actors, play)

    assert (journal.of(400).status, journal.of(400).attempt) == ("timeout", 1)
    assert journal.of(401).status == "ok"
    assert "all 1 slots of test/retried@1 are held by calls" in journal.printed


@pytest.mark.parametrize("number", [103, 109])
def test_leaving_and_closing_the_streams_does_not_end_the_process(number: int) -> None:
    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(number)])
        await journal.until(lambda: bool(journal.halts))
        executor.publish([task(1)])
        await journal.wait(1)

    journal = act(actors, play)

    [(_, _, why)] = journal.halts
    assert (why.phase, why.code) == ("parked", "exception")
    assert "died" not in journal.printed


def test_running_and_queued_tasks_are_canceled() -> None:
    """X-6."""

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(102)])
        executor.publish([task(n) for n in range(1000, 1008)])
        executor.cancel([intent_of(n) for n in range(1000, 1008)])
        await journal.wait(8)
        assert executor.stats() == ExecutorStats(running=1, queued=0, settled=8)
        executor.cancel([intent_of(102), intent_of(5)])
        await journal.wait(9)

    journal = act(actors, play)

    assert {each.status for each in journal.outcomes} == {"canceled"}


def test_a_result_that_could_not_be_settled_is_given_again_and_not_made_again() -> None:
    """X-55."""

    async def answer(outcome: Outcome) -> Answer:
        answers.append(outcome.intent)
        if len(answers) == 1:
            raise Damage("no journal")
        return SETTLED if len(answers) < 4 else refused(message="text")

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(105)])
        await journal.until(lambda: "its receipt was not taken" in journal.printed)
        executor.publish([task(105)])
        await journal.wait(1)
        await asyncio.sleep(0.02)  # the acknowledgement goes out
        executor.publish([task(105)])
        await journal.wait(2)
        executor.publish([task(1)])
        await journal.wait(3)

    answers: list[bytes] = []
    journal = act(actors, play, answer=answer)

    assert [payload(each)["n"] for each in journal.outcomes] == [1, 2, 1]
    assert "Damage('no journal')" in journal.printed
    assert "was refused: receipt_effect_differs: text (the intent stays open)" in journal.printed


@pytest.fixture
def quick_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "RETRY_S", 0.01)


@pytest.mark.usefixtures("quick_retry")
def test_a_result_is_kept_while_the_world_is_full_whatever_becomes_of_the_process() -> None:
    """X-5, X-55."""
    tries: list[Outcome] = []
    many = asyncio.Event()

    async def answer(outcome: Outcome) -> Answer:
        tries.append(outcome)
        if len(tries) > 8:
            many.set()
        if is_full:
            raise Busy("nothing is admitted until there is room on the disk")
        return SETTLED

    is_full = True

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        nonlocal is_full
        executor.publish([task(105), task(1)])
        await journal.until(lambda: "its receipt waits: nothing is admitted" in journal.printed)
        executor.publish([task(105)])
        executor.publish([task(104)])  # ends the process
        await journal.until(lambda: "its process died (exit code 4)" in journal.printed)
        await asyncio.wait_for(many.wait(), 60)
        assert executor.stats().settled == 0
        is_full = False
        await journal.wait(3)
        executor.publish([task(105)])
        await journal.wait(4)

    journal = act(actors, play, answer=answer)

    assert [payload(each)["n"] for each in journal.outcomes if each.intent == intent_of(105)] == [
        1,
        1,
    ], "the first was kept; the second is of a new process, which counts from 1"
    assert journal.of(104).attempt == 2
    assert len({each.started_ns for each in tries if each.intent == intent_of(1)}) == 1


# Attempts in the journal


def test_before_a_task_runs_again_its_attempt_is_journaled() -> None:
    gate = asyncio.Event()

    async def attempt(given: Attempt) -> Answer:
        await gate.wait()
        return TAKEN

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(104)])
        await journal.until(lambda: "is started again" in journal.printed)
        executor.publish([task(1)])
        await journal.wait(1)  # the new process is at work
        await asyncio.sleep(0.02)
        assert executor.stats() == ExecutorStats(running=1, queued=0, settled=1)
        gate.set()
        await journal.wait(2)

    journal = act(actors, play, attempt=attempt)

    assert journal.attempts == [
        ("begun", intent_of(104), 2, "the process that ran it died (exit code 4)")
    ]
    assert (journal.of(104).status, journal.of(104).attempt) == ("ok", 2)


@pytest.mark.usefixtures("quick_retry")
def test_an_attempt_waits_while_the_world_is_unavailable() -> None:
    tries: list[int] = []

    async def attempt(given: Attempt) -> Answer:
        tries.append(given.number)
        if len(tries) < 4:
            raise Busy("the world is busy")
        return TAKEN

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(1, "test/once@1"), task(2, "test/quick-retried@1")])
        await journal.wait(2)

    journal = act(actors, play, attempt=attempt)

    assert {each[:3] for each in journal.attempts} == {
        ("begun", intent_of(1), 1),
        ("begun", intent_of(2), 2),
    }
    assert sum("its attempt waits: the world is busy" in line for line in journal.lines) == 1
    assert journal.of(2).attempt == 2


@pytest.mark.parametrize(
    ("refusal", "is_told"),
    [
        (refused(Rule.RECEIPT_INTENT_IS_UNKNOWN), False),
        (refused(Rule.ATTEMPT_IS_OLD), True),
    ],
)
def test_an_attempt_that_the_journal_refuses_does_not_run_whatever_its_message_quotes(
    refusal: Refusal, is_told: bool
) -> None:
    """X-12: both messages name every rule, ``receipt_intent_is_unknown`` too."""

    async def attempt(given: Attempt) -> Answer:
        return refusal

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(1, "test/once@1"), task(2, "test/quick-retried@1")])
        await journal.wait(1)
        await journal.until(lambda: bool(executor.stranded()))
        assert set(executor.stranded()) == {intent_of(1)}

    journal = act(actors, play, attempt=attempt)

    (failed,) = journal.outcomes
    assert (failed.intent, failed.status, failed.attempt) == (intent_of(2), "error", 1)
    assert (f"attempt 1 was refused: {refusal.text}" in journal.printed) == is_told


def test_an_at_most_once_task_runs_once_and_only_after_its_attempt_is_journaled() -> None:
    gate = asyncio.Event()

    async def attempt(given: Attempt) -> Answer:
        await gate.wait()
        return TAKEN

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(1, "test/once@1"), task(1)])
        executor.publish([task(2, "test/echo@1")])
        await journal.wait(1)
        assert journal.of(2).status == "ok"
        await asyncio.sleep(0.02)
        assert len(journal.outcomes) == 1
        gate.set()
        await journal.wait(2)

    journal = act(actors, play, attempt=attempt)

    assert journal.attempts == [("begun", intent_of(1), 1, None)]
    assert (journal.of(1).status, journal.of(1).attempt) == ("ok", 1)


def test_an_at_most_once_task_is_lost_with_its_process_and_the_others_continue() -> None:
    """X-14, K-97."""

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(500, "test/once@1"), task(102)])
        await journal.until(
            lambda: journal.attempts[-1:] != [] and journal.attempts[-1][0] == "lost"
        )
        executor.cancel([intent_of(500)])  # the core settled it
        executor.publish([task(1, "test/once@1")])
        await journal.wait(1)
        await asyncio.sleep(0.02)
        assert executor.stats() == ExecutorStats(running=1, queued=0, settled=1)
        executor.cancel([intent_of(102)])
        await journal.wait(2)

    journal = act(actors, play)

    ending = "the process that ran it died (exit code 6)"
    assert ("lost", intent_of(500), 1, ending) in journal.attempts
    assert [each[:3] for each in journal.attempts if each[1] == intent_of(500)] == [
        ("begun", intent_of(500), 1),
        ("lost", intent_of(500), 1),
    ]
    assert {each.intent for each in journal.outcomes} == {intent_of(1), intent_of(102)}
    assert payload(journal.of(1))["n"] == 1
    assert journal.of(102).attempt == 2


def test_an_at_most_once_task_in_a_process_that_we_end_is_lost_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(501, "test/once@1")])
        await journal.until(lambda: bool(journal.attempts))
        executor.publish([task(300, "test/quick@1")])
        await journal.until(lambda: len(journal.attempts) == 2)

    journal = act(actors, play)

    assert journal.attempts[1] == (
        "lost",
        intent_of(501),
        1,
        "the process that ran it was ended: it was stuck",
    )


@pytest.mark.usefixtures("patient")
def test_a_task_that_is_journaled_while_the_node_stops_still_runs() -> None:
    """Afterwards the journal could not prove that it did not run."""

    async def attempt(given: Attempt) -> Answer:
        asked.set()
        await asyncio.sleep(0.1)
        return TAKEN

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(1, "test/once@1")])
        await asked.wait()

    asked = asyncio.Event()
    journal = act(actors, play, attempt=attempt)

    assert [each.status for each in journal.outcomes] == ["ok"]


def test_a_retry_asks_for_its_attempt_and_tells_why() -> None:
    """X-13."""

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(0, "test/quick-retried@1")])
        await journal.wait(1)

    journal = act(actors, play)

    assert journal.attempts == [("begun", intent_of(0), 2, "transport: ConnectionError: busy")]
    assert journal.outcomes[0].attempt == 2


# Tasks that no instance waits for


@pytest.mark.parametrize("answer", [LATE, refused()])
@pytest.mark.parametrize("is_canceled", [True, False])
def test_any_answer_to_the_outcome_of_a_canceled_task_is_accepted(
    answer: Answer, is_canceled: bool
) -> None:
    async def settle(_: Outcome) -> Answer:
        return answer

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        if is_canceled:
            executor.publish([task(102), task(103)])
            executor.cancel([intent_of(102), intent_of(103)])
            await journal.wait(2)
        else:
            executor.publish([task(1)])
            await journal.wait(1)
        await asyncio.sleep(0.01)
        assert executor.stats() == ExecutorStats(running=0, queued=0, settled=0)

    journal = act(actors, play, answer=settle)

    told = [line for line in journal.lines if "its receipt" in line]
    assert len(told) == (0 if is_canceled else 1)
    if told and answer is LATE:
        assert told[0].endswith("its receipt came late: the intent was settled without it")


# How far a task is


def taken_by_the_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChildExecutor, "_has_taker", lambda *_: True)


def test_progress_of_a_function_is_sent_before_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_by_the_workflow(monkeypatch)
    orders: list[int] = []

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([replace(task(3, "test/quick-retried@1"), next_frame=1 << 32 | 7)])
        await journal.wait(1)
        assert executor.stats().dropped == 0

    async def answer(outcome: Outcome) -> Answer:
        orders.append(len(frames))
        return SETTLED

    frames: list[StreamFrame] = []
    journal = Journal(answer)
    journal.frames = frames
    asyncio.run(played_by(journal, play))

    assert orders == [6]
    assert [(each.attempt, each.frame_seq) for each in frames] == [
        *((1, (1 << 32) + 7 + n) for n in range(3)),
        *((2, (2 << 32) + n) for n in range(3)),
    ]
    first = frames[0]
    assert (first.frame_kind, first.payload) == ("done", encode({"n": 0, "attempt": 1}))
    assert (first.intent, first.effect) == (intent_of(3), "test/quick-retried@1")
    assert (first.blob, first.executor, first.key_id, first.signature) == (
        b"a blob",
        "node",
        None,
        None,
    )


async def played_by(
    journal: Journal, play: Callable[[PythonExecutor, Journal], Awaitable[None]]
) -> None:
    executor = actors(journal)
    try:
        await executor.start(journal)
        executor.use(effective())
        await play(executor, journal)
    finally:
        await executor.stop()


def test_frames_that_are_refused_are_counted_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """X-74."""
    taken_by_the_workflow(monkeypatch)

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        journal.frame_answer = refused(Rule.STREAM_IS_TOO_FAST, "expected at most 100")
        executor.publish([task(3, "test/quick-retried@1"), task(2, "test/quick-retried@1")])
        await journal.wait(2)
        await asyncio.sleep(0.01)
        assert executor.stats().dropped == 10

    journal = act(actors, play)

    assert {each.status for each in journal.outcomes} == {"ok"}
    (line,) = [line for line in journal.lines if "progress" in line]
    assert line.endswith(
        "test/quick-retried@1: progress is dropped: stream_is_too_fast: expected at most 100 "
        "(only progress; this is reported once)"
    )


def test_frames_that_no_workflow_takes_do_not_leave_the_worker() -> None:
    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(3, "test/quick-retried@1"), task(2, "test/quick-retried@1")])
        await journal.wait(2)
        assert executor.stats().dropped == 10

    journal = act(actors, play)

    assert journal.frames == []
    (line,) = [line for line in journal.lines if "progress" in line]
    assert "progress is dropped: test/flow@1 has no arm for sys/EffectStreamFrame@1" in line


def test_signals_of_a_terminal_do_not_end_the_process() -> None:
    """X-52."""

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(106)])
        await journal.wait(1)
        pid = payload(journal.of(106))["n"]
        assert os.getsid(pid) == pid
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid, number)
        executor.publish([task(1)])
        await journal.wait(2)

    assert "died" not in act(actors, play).printed


def test_a_death_is_seen_although_a_grandchild_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "LAST_WORDS_S", 0.1)

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(107)])
        await journal.wait(1)

    journal = act(actors, play)
    said = next(line for line in journal.lines if "grandchild " in line)
    os.kill(int(said.rpartition(" ")[2]), signal.SIGKILL)

    assert (journal.of(107).status, journal.of(107).attempt) == ("ok", 2)


@pytest.mark.usefixtures("patient")
def test_running_effects_may_end_while_the_node_stops() -> None:
    """X-11."""

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(108), *(task(n) for n in range(1000, 1010))])
        await journal.wait(1)

    journal = act(actors, play)

    assert journal.of(108).status == "ok"


def test_an_effect_that_does_not_end_is_left_open_when_the_node_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child, "DRAIN_S", 0.05)
    monkeypatch.setattr(life, "END_S", 60.0)

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        executor.publish([task(102)])
        await asyncio.sleep(0.05)

    begun = time.monotonic()
    journal = act(actors, play)

    assert time.monotonic() - begun < ENDLESS_S / 2
    assert journal.outcomes == []
    assert journal.lines[-1] == "[actors] setup left"


def test_the_process_ends_when_the_node_is_killed(tmp_path: Path) -> None:
    """X-52."""
    script = tmp_path / "node.py"
    script.write_text(
        f"""
import asyncio, os, signal
from aos.host.executors.python import PythonExecutor
from tests.worker.stage import WORLD, Journal, effective, payload, task

async def scene():
    journal = Journal()
    executor = PythonExecutor({ACTORS!r}, world=WORLD, report=journal.report)
    await executor.start(journal)
    executor.use(effective())
    executor.publish([task(106)])
    await journal.wait(1)
    print(payload(journal.of(106))["n"], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(scene())
"""
    )
    root = Path(aos.__file__).parent.parent
    path = os.pathsep.join([str(root), str(Path(__file__).parent.parent.parent)])
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    pid = int(done.stdout)
    deadline = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


SIGNED: Final = """
from aos.worker import Executors, effect
@effect("test/echo@1")
async def echo(params, ctx): return params
shop = Executors("shop", [echo], key_file={key!r})
"""


def test_an_executor_with_a_key_signs_in_its_own_process(tmp_path: Path) -> None:
    """X-48."""
    key = tmp_path / "shop.key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    (tmp_path / "signing.py").write_text(SIGNED.format(key=str(key)))

    async def play(executor: PythonExecutor, journal: Journal) -> None:
        assert executor.signer is not None
        executor.publish([task(1)])
        await journal.wait(1)
        executor.publish([task(n) for n in range(2, 9)])
        executor.cancel([intent_of(n) for n in range(2, 9)])
        await journal.wait(8)

    journal = act(of(f"{tmp_path / 'signing.py'}:shop"), play)

    assert {each.status for each in journal.outcomes} == {"ok", "canceled"}
    assert journal.outcomes[0].batch is None
    assert {each.batch.size for each in journal.outcomes[1:] if each.batch} == {7}
    for each in journal.outcomes:
        assert each.key_id is not None
        assert each.signature is not None
        receipt = ReceiptInput(
            intent=each.intent,
            effect=each.effect,
            attempt=each.attempt,
            status=each.status,
            payload=each.payload,
            started_ns=each.started_ns,
            finished_ns=each.finished_ns,
            executor="shop",
            key_id=each.key_id,
            signature=each.signature,
            batch=each.batch,
        )
        message = receipt.signed_message(WORLD)
        assert message is not None
        assert each.executor == "shop"
        assert is_signed(message, each.signature, each.key_id)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("import os; os._exit(3)\n", "its process ended before it was ready (exit code 3;"),
        ("x = 5\n", "expected an Executors, a list of effects or one effect, found int"),
        (
            SIGNED.format(key="none.key").replace("shop =", "x ="),
            "executors 'shop': key_file none.key: cannot be read: No such file or directory",
        ),
        (
            SIGNED.format(key="")
            .replace("key_file=''", "setup=lambda: 1 / 0")
            .replace("shop =", "x ="),
            "executors 'shop': setup failed: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_functions_that_cannot_be_loaded_are_an_error_at_the_start(
    source: str, message: str, tmp_path: Path
) -> None:
    """X-51."""
    (tmp_path / "faulty.py").write_text(source)

    async def play(executor: TaskExecutor, journal: Journal) -> None:
        raise AssertionError("it cannot start")

    with pytest.raises(BadUsage) as caught:
        act(of(f"{tmp_path / 'faulty.py'}:x"), play)

    assert message in str(caught.value)


def test_an_executor_is_stopped_while_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "END_S", 0.1)
    (tmp_path / "slow.py").write_text("import time; time.sleep(60)\n")

    async def scene() -> None:
        journal = Journal()
        executor = of(f"{tmp_path / 'slow.py'}:x")(journal)
        starting = asyncio.ensure_future(executor.start(journal))
        await asyncio.sleep(0.05)
        await executor.stop()
        with pytest.raises(BadUsage, match="it was stopped before it was ready"):
            await starting

    asyncio.run(scene())


def test_a_command_that_is_not_there_is_an_error_at_the_start() -> None:
    async def play(executor: TaskExecutor, journal: Journal) -> None:
        raise AssertionError("it cannot start")

    def make(journal: Journal) -> ChildExecutor:
        return ChildExecutor(
            label="none", command=["/nowhere/none"], world=None, report=journal.report
        )

    with pytest.raises(BadUsage, match="none: its process cannot be started: "):
        act(make, play)


LIAR: Final = """
import os, signal, socket, sys
from aos.worker.wire import FrameReader, frame
channel = socket.socket(fileno=int(os.environ["AOS_WORKER_FD"]))
reader = FrameReader()
channel.sendall(frame({"op": "ready", "name": "liar", "key": None,
    "effects": [{"name": "test/echo@1", "concurrency": 9}]}))
while True:
    for message in reader.feed(channel.recv(65536) or sys.exit()):
        if message["op"] == "run":
            LIE
"""

DONE: Final = (
    '{"op": "done", "intent": message["intent"], "effect": "test/echo@1", "attempt": 1, '
    '"status": "ok", "payload": b"", "started_ns": 1, "finished_ns": 2'
)

TOLD: Final = (
    '{"op": "progress", "intent": message["intent"], "effect": "test/echo@1", "attempt": 1, '
    '"frame_seq": 0, "frame_kind": "k", "payload": b""'
)
ASKED: Final = '{"op": "attempt", "intent": message["intent"], "attempt": 2, "problem": "p"'


def liar(
    journal: Journal, lie: str, *, effect: str = "test/echo@1", stall_s: float = 30.0
) -> ChildExecutor:
    """A worker process that runs the code ``lie`` for each task, to send false messages."""
    source = LIAR.replace("LIE", lie).replace("test/echo@1", effect)
    command = [sys.executable, "-c", source]
    return ChildExecutor(
        label="liar", command=command, world=None, report=journal.report, stall_s=stall_s
    )


@pytest.mark.parametrize("effect", ["7", '{"name": 7, "concurrency": 9}', '{"name": "t/x@1"}'])
def test_a_process_that_is_ready_for_no_effect_is_ended(effect: str) -> None:
    """X-50."""
    source = LIAR.replace('{"name": "test/echo@1", "concurrency": 9}', effect)
    command = [sys.executable, "-c", source.replace("LIE", "pass")]

    def make(journal: Journal) -> ChildExecutor:
        return ChildExecutor(label="liar", command=command, world=None, report=journal.report)

    async def play(executor: ChildExecutor, journal: Journal) -> None:
        pass

    with pytest.raises(BadUsage, match="a ready message with an effect that is none"):
        act(make, play)


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ('channel.sendall(b"\\0\\0\\0\\1\\0")', "it broke the protocol: a frame is not a table"),
        ('channel.sendall(frame({"op": "done"}))', "message done does not say how its task ended"),
        (f'channel.sendall(frame({DONE}, "status": "odd"}}))', "message done has the status 'odd'"),
        (
            f'channel.sendall(frame({DONE}, "effect": "test/odd@1"}}))',
            "it is about test/odd@1: expected test/echo@1",
        ),
        (f'channel.sendall(frame({DONE}, "attempt": -1}}))', "message done has a number below 0"),
        (
            f'channel.sendall(frame({DONE}, "intent": 7}}))',
            "how its task ended: intent: ",
        ),
        (
            f'channel.sendall(frame({DONE}, "signature": b"s"}}))',
            "how its task ended: executor",
        ),
        (f'channel.sendall(frame({DONE}, "dropped": None}}))', "message done has no dropped"),
        (
            f'channel.sendall(frame({TOLD}, "frame_kind": 7}}))',
            "message progress does not say how far",
        ),
        (f'channel.sendall(frame({TOLD}, "signature": b"s"}}))', "message progress does not say"),
        (
            f'channel.sendall(frame({TOLD}, "frame_seq": -1}}))',
            "message progress has a number below 0",
        ),
        (f'channel.sendall(frame({ASKED}, "attempt": "2"}}))', "message attempt has no attempt"),
        ("channel.close(); import time; time.sleep(60)", "signal 9"),
    ],
)
def test_a_process_that_breaks_the_protocol_is_ended(
    lie: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "END_S", 0.1)

    async def play(executor: ChildExecutor, journal: Journal) -> None:
        executor.publish([task(1)])
        await journal.until(lambda: message in journal.printed)

    def make(journal: Journal) -> ChildExecutor:
        command = [sys.executable, "-c", LIAR.replace("LIE", lie)]
        return ChildExecutor(label="liar", command=command, world=None, report=journal.report)

    assert act(make, play).outcomes == []


HALF: Final = (
    'os.write(2, b"stops\\n"); '
    'channel.sendall(PART) if message["attempt"] == 1 else '
    f'channel.sendall(frame({DONE}, "attempt": 2, '
    '"payload": message["idempotency_key"].encode()})); '
    'message["attempt"] == 1 and os.kill(os.getpid(), signal.SIGSTOP)'
)


@pytest.mark.parametrize("part", [b"\0", b"\0\0\0\2", b"\0\0\0\2\xa1"])
def test_a_process_that_stops_in_the_middle_of_a_message_is_ended_and_its_tasks_run_again(
    part: bytes,
) -> None:
    """X-56a: with the same idempotency key, as after any death."""

    async def play(executor: ChildExecutor, journal: Journal) -> None:
        executor.publish([task(1)])
        await journal.wait(1)

    def make(journal: Journal) -> ChildExecutor:
        return liar(journal, HALF.replace("PART", repr(part)), stall_s=0.1)

    journal = act(make, play)

    assert journal.of(1).attempt == 2
    assert journal.of(1).payload == task(1).idempotency_key.encode()
    assert (
        "executor liar: its process died (it stopped in the middle of a message: "
        f"{len(part)} bytes of one came, and then nothing for 0.1 s); it is started again; "
        "open tasks: 1"
    ) in journal.lines
    assert journal.attempts[0].number == 2, "the second attempt is journaled before it begins"


def test_an_at_most_once_task_is_lost_with_a_process_that_stops_in_the_middle_of_a_message() -> (
    None
):
    """X-56a, X-14."""

    async def play(executor: ChildExecutor, journal: Journal) -> None:
        executor.publish([task(1, "test/once@1")])
        await journal.until(lambda: len(journal.attempts) == 2)

    def make(journal: Journal) -> ChildExecutor:
        lie = HALF.replace("PART", repr(b"\0"))
        return liar(journal, lie, effect="test/once@1", stall_s=0.1)

    journal = act(make, play)

    assert [each.phase for each in journal.attempts] == ["begun", "lost"]
    assert journal.outcomes == []


def test_a_process_that_is_silent_between_messages_is_left_alone() -> None:
    """X-56a: it may be busy with a long effect, whose own timeout holds."""

    async def play(executor: ChildExecutor, journal: Journal) -> None:
        executor.publish([task(1)])
        await journal.until(lambda: any("pid " in each for each in journal.lines))
        pid = next(int(each.split()[-1]) for each in journal.lines if "pid " in each)
        await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        assert executor._process.life is not None
        assert executor._process.life._link._stalling is None, "nothing is waited for"
        os.kill(pid, signal.SIGCONT)
        await journal.wait(1)

    def make(journal: Journal) -> ChildExecutor:
        lie = (
            'print("pid", os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGSTOP); '
            f"channel.sendall(frame({DONE}}}))"
        )
        return liar(journal, lie, stall_s=0.01)

    journal = act(make, play)

    assert journal.of(1).attempt == 1
    assert "started again" not in journal.printed


def test_a_done_of_a_task_that_does_not_run_is_passed_over() -> None:
    async def play(executor: ChildExecutor, journal: Journal) -> None:
        executor.publish([task(1)])
        await journal.wait(1)

    def make(journal: Journal) -> ChildExecutor:
        lie = f'channel.sendall(2 * frame({DONE}}}) + frame({DONE}, "intent": bytes(32)}}))'
        command = [sys.executable, "-c", LIAR.replace("LIE", lie)]
        return ChildExecutor(label="liar", command=command, world=None, report=journal.report)

    assert [each.intent for each in act(make, play).outcomes] == [intent_of(1)]


def test_long_lines_and_bytes_that_are_no_text_are_passed_on() -> None:
    """X-53."""
    lines: list[str] = []
    source = (
        "import sys; sys.stdout.buffer.write(b'a'*20_000 + b'\\n' + b'\\xff\\n'); "
        "print('err', file=sys.stderr)"
    )

    async def scene() -> None:
        process = Life(
            [sys.executable, "-c", source],
            label="x",
            report=lambda text: lines.extend(text.split("\n")),
            on_message=lambda _: None,
        )
        with pytest.raises(BadUsage):
            await process.begin(None)
        await process.end()

    asyncio.run(scene())

    text = "".join(line.removeprefix("[x] ") for line in lines)
    assert text.count("a") == 20_000
    assert text.endswith("\ufffderr") or text.startswith("err")
    assert max(map(len, lines)) < 70_000


def test_a_worker_started_by_hand_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "aos.worker.child", "x:y"],
        env={**os.environ, "PYTHONPATH": str(Path(aos.__file__).parent.parent)},
        capture_output=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == BadUsage.exit_code
    assert b"this process is started by the node" in done.stderr


def test_a_process_that_was_suspended_while_its_node_died_begins_nothing(tmp_path: Path) -> None:
    """W-3a: another process may have the tasks that it reads after that."""
    began, functions = tmp_path / "began", tmp_path / "once.py"
    functions.write_text(
        "import pathlib\n"
        "from aos.worker import effect\n\n\n"
        "@effect('test/once@1')\n"
        "def once(params, ctx):\n"
        f"    pathlib.Path({str(began)!r}).touch()\n"
        "    return params\n"
    )
    ours, theirs = socket.socketpair()
    environment = {
        **os.environ,
        FD_VARIABLE: str(theirs.fileno()),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "aos.worker.child", f"{functions}:once"],
        env=environment, pass_fds=[theirs.fileno()],
    ) as process:  # fmt: skip
        theirs.close()
        ours.sendall(frame({"op": "hello", "protocol": PROTOCOL, "world": WORLD}))
        assert ours.recv(65_536), "it is ready"
        os.kill(process.pid, signal.SIGSTOP)
        given = task(1, "test/once@1")
        ours.sendall(
            frame({"op": "manifest", "document": effective().document})
            + frame(
                {
                    "op": "run", "intent": given.intent, "effect": "test/once@1", "attempt": 1,
                    "spent": 0, "params": given.params, "idempotency_key": given.idempotency_key,
                    "workflow": given.workflow, "cell_key": given.cell_key,
                    "issuer_ref": given.issuer_ref, "blobs": {}, "next_frame": 0,
                    "has_taker": False,
                }
            )
        )  # fmt: skip
        ours.close()
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(120) == 0
    assert not began.exists()
