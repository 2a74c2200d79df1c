"""A host that is killed in the middle of its work, again and again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from threading import Timer

from aos.core.decide.answers import Admitted, Answer, Refusal, Rule
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Control, Event, Receipt, Record, Step
from aos.errors import Unavailable
from aos.host.door.remote import ask_running
from aos.host.door.writer import Writer, open_writer
from aos.host.folder.reader import open_reader
from aos.values.cbor import encode
from aos.values.digests import Hash
from tests.host.puppet import PUPPET, asks, do
from tests.host.rig import eventually

ROOT = Path(__file__).parents[2]
ROUNDS = 4


def start(world: Path, log: Path, *flags: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'kernel'}:{ROOT}"}
    command = [sys.executable, "-m", "tests.host.crash_host", str(world), str(log), *flags]
    return subprocess.Popen(command, env=environment, cwd=ROOT)


def lines(log: Path, word: str) -> list[str]:
    found = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [line[1] for line in found if line[0] == word and len(line) > 1]


def records(world: Path) -> list[Record]:
    with open_reader(world) as reader:
        return [from_bytes(data) for frame in reader.store.frames() for data in frame.records]


def open_intents(world: Path) -> list[str]:
    with open_reader(world) as reader:
        return [intent.hex() for intent in reader.state.intents]


def test_acknowledged_inputs_survive_a_killed_host_and_effects_keep_their_identity(
    world: Path, tmp_path: Path
) -> None:
    """H-21, H-30, H-42"""
    acknowledged: dict[str, int] = {}
    settled: set[str] = set()
    random = Random(7)
    for round_ in range(ROUNDS):
        log = tmp_path / f"log{round_}"
        before = open_intents(world)
        host = start(world, log)
        try:
            eventually(lambda log=log: "started" in (log.read_text() if log.exists() else ""), "up")  # type: ignore[misc]
            # Exactly what was open is published again, before anything new.
            again = lines(log, "published")[: len(before)]
            assert sorted(again) == sorted(before)
            until = time.monotonic() + 0.2 + random.random() * 0.4
            number = 0
            with open_writer(world) as writer, contextlib.suppress(Unavailable):
                while number < 2 or time.monotonic() < until:
                    name = f"r{round_}-{number}"
                    item = do(f"k{number % 11}", asks("x") if number % 2 else None, name)
                    [answer] = writer.send([item])
                    assert isinstance(answer, Admitted)
                    acknowledged[name] = answer.seq
                    number += 1
        finally:
            host.send_signal(signal.SIGKILL)
            host.wait()
        # An effect that an executor was told is settled stays settled and is not published again.
        assert not settled & set(lines(log, "published"))
        settled |= set(lines(log, "settled"))
        assert not settled & set(open_intents(world))

    last = tmp_path / "last"
    assert start(world, last, "--until-idle").wait(120) == 0
    assert not settled & set(lines(last, "published"))
    assert not open_intents(world)
    whole = records(world)
    names = {each.submission_id: each.seq for each in whole if isinstance(each, Event)}
    assert len(acknowledged) > ROUNDS
    assert {name: names.get(name) for name in acknowledged} == acknowledged
    opened = [intent.intent for each in whole if isinstance(each, Step) for intent in each.intents]
    receipts = Counter(each.intent for each in whole if isinstance(each, Receipt))
    assert len(set(opened)) == len(opened) > 0
    assert receipts == {Hash(intent): 1 for intent in opened}


def test_a_command_is_journaled_once_or_not_at_all_when_the_host_is_killed(
    world: Path, tmp_path: Path
) -> None:
    """K-100, H-59b: before its answer, the operator cannot know which of the two it was, and gives
    the command again."""
    random = Random(11)
    keys = [f"k{number}" for number in range(25 * ROUNDS)]
    with open_writer(world) as writer:
        answers = list(writer.send(do(key, asks("x")) for key in keys))
    assert all(isinstance(each, Admitted) for each in answers)
    host = start(world, tmp_path / "first", "--silent")
    try:
        eventually(lambda: len(lines(tmp_path / "first", "published")) == len(keys), "published")
    finally:
        host.kill()
        host.wait()
    with open_reader(world) as reader:
        intents = {each.cell: each.intent for each in reader.state.intents.values()}
    left = [*keys]
    acknowledged: dict[str, int] = {}
    unknown = 0
    while left:
        host = start(world, tmp_path / f"log{unknown}", "--silent")
        killer = Timer(random.random() * 0.01, host.kill)
        alive = len(left) - random.randint(15, 40)
        try:
            with open_writer(world) as writer, contextlib.suppress(Unavailable):
                while left and host.poll() is None:
                    if len(left) == alive:
                        killer.start()
                    answer = command(writer, left[0], intents)
                    if isinstance(answer, Admitted):
                        acknowledged[left[0]] = answer.seq
                    else:
                        # It was journaled, and its answer was lost with the host.
                        assert isinstance(answer, Refusal)
                        assert answer.rule in (Rule.CELL_HAS_ENDED, Rule.INTENT_IS_NOT_OPEN)
                    left.pop(0)
        finally:
            killer.cancel()
            host.kill()
            host.wait()
        unknown += 1

    assert unknown > 1, "no host was killed"
    given = [each for each in records(world) if isinstance(each, Control)]
    assert len(given) == len({each.cell or each.intent for each in given}) == len(keys)
    journaled = {each.seq for each in given}
    assert set(acknowledged.values()) <= journaled
    assert len(journaled) - len(acknowledged) < unknown
    assert not open_intents(world)


def command(writer: Writer, key: str, intents: dict[CellId, Hash]) -> Answer:
    """End the instance of every second key, and settle the effect of the others."""
    cell = PUPPET, encode(key)
    if int(key[1:]) % 2:
        return writer.control("end", cell=cell, status="completed", reason=key)
    return writer.control(
        "settle", intent=intents[cell], status="ok", payload=encode({"word": "x"})
    )


def test_a_host_that_is_told_to_stop_ends_with_success_and_loses_nothing(
    world: Path, tmp_path: Path
) -> None:
    """H-82"""
    log = tmp_path / "log"
    host = start(world, log)
    try:
        eventually(lambda: log.exists() and "started" in log.read_text(), "it is up")
        with open_writer(world) as writer:
            answers: list[Answer] = list(writer.send(do("a", asks("x")) for _ in range(40)))
        assert ask_running(world, "status")["open_intents"] >= 0
        host.send_signal(signal.SIGINT)
        assert host.wait(120) == 0
    finally:
        host.kill()
        host.wait()
    assert not (world / "aos.sock").exists()
    last = answers[-1]
    assert isinstance(last, Admitted)
    assert start(world, tmp_path / "last", "--until-idle").wait(120) == 0
    with open_reader(world) as reader:
        assert reader.seq >= last.seq
        assert not reader.state.intents
        cell = reader.state.cells[PUPPET, encode("a")]
        assert cell.fault is None
        assert not cell.mailbox
