"""``kill -9`` at random moments, of the process that runs a world of flows, while they start, get
messages, are cancelled, roll back and sleep.

The checker reads only the exported journal and the books of the service outside the world
(``books_service.py``): the model of ``model.py`` must agree with each turn, and the books must have
each effect under one idempotency key for each operation, and compensations in reverse.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from aos.core.decide.answers import Refusal, Rule
from aos.core.journal.identity import idempotency_key
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Event, Receipt, Record, Step, slot_bytes
from aos.errors import Unavailable
from aos.flow.flow_state import OTHER_SPELLINGS
from aos.host.door.writer import Item, open_writer
from aos.store.bundle.reader import Bundle, open_bundle
from aos.values.cbor import decode_record
from tests.cli.shell import ROOT, here, start
from tests.flow.books_service import AGAIN, DONE
from tests.flow.comparison import RUN, SCHEMAS, Comparison
from tests.flow.model import SECOND, TIME_MAX, Node
from tests.flow.programs import FOLDER, manifest_nodes, program_of
from tests.flow.test_programs import node
from tests.modules.guests import MODULES
from tests.run_seed import run_seed
from tests.test_kill import open_intents, wait_until_it_answers
from tests.tools import long_form

KILLS: Final = 30 if long_form() else 2
PROGRAMS: Final = 150 if long_form() else 15
TRIPS: Final = 50 if long_form() else 5
BOOKED_S: Final = 10.0
ENDS_S: Final = 120.0
FASTER: Final = 100
"""The programs sleep and pause this much shorter than in a world with a clock of its own."""

EXECUTORS: Final = f"{Path(__file__).parent / 'books_effects.py'}:programs"
TRIP_FLAGS: Final = ["rollback", "rollback_unknown"]
ENDED: Final = {"completed", "failed", "canceled"}
KEYS: Final = {f"p{number}" for number in range(PROGRAMS)} | {
    f"t{number}" for number in range(TRIPS)
}


@dataclass(frozen=True)
class Line:
    """A line of the books."""

    effect: str
    what: str
    key: str
    outcome: str


@dataclass(frozen=True)
class Operation:
    """One operation of a cell, whose attempts all have one idempotency key."""

    cell: tuple[str, bytes]
    effect: str
    path: str
    what: str


class Killed:
    """A world of flows whose process is killed while it is sent to."""

    def __init__(self, world: Path, books: Path, url: str, chance: Random) -> None:
        self.world = world
        self.books = books
        self.url = url
        self.chance = chance
        self.acknowledged: dict[str, int] = {}
        self.met_open = 0

    def start_run(self) -> subprocess.Popen[bytes]:
        return start(
            "run", "--executors", EXECUTORS, "--world", self.world, env={"BOOKS_URL": self.url},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def round(self, items: list[Item], *, in_its_start: bool) -> None:
        """Run the world, send to it, and kill it meanwhile."""
        process = self.start_run()
        if in_its_start:
            time.sleep(self.chance.uniform(0.2, 1.0))
            process.kill()
            process.wait()
            return
        wait_until_it_answers(self.world, process)
        killer = threading.Thread(
            target=self.kill_later,
            args=(process, self.chance.randint(1, 12), self.chance.uniform(0, 0.15)),
        )
        killer.start()
        try:
            self.send(items)
        except Unavailable:
            pass
        finally:
            killer.join()
            process.wait()
        self.met_open += open_intents(self.world) > 0

    def kill_later(self, process: subprocess.Popen[bytes], lines: int, pause_s: float) -> None:
        """Kill the process so long after so many more lines of the books."""
        deadline = time.monotonic() + BOOKED_S
        until = booked(self.books) + lines
        while booked(self.books) < until and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(pause_s)
        process.kill()

    def send(self, items: list[Item]) -> None:
        """Send items one by one; each is acknowledged with the same record every time."""
        with open_writer(self.world) as writer:
            for item, answer in zip(items, writer.send(items, batch_items=4), strict=True):
                if isinstance(answer, Refusal):  # for a flow that has not begun, or has ended
                    assert answer.rule in (Rule.INSTANCE_IS_UNKNOWN, Rule.CELL_HAS_ENDED)
                    continue
                assert item.submission_id is not None
                assert self.acknowledged.setdefault(item.submission_id, answer.seq) == answer.seq

    def document(self, *words: str) -> Any:
        found = here(*words, "--json", "--world", self.world)
        assert found.code == 0, found
        return found.json

    def finish(self, begun: set[str]) -> None:
        """Run the world, and send messages to the flows that wait, until all that were begun have
        ended, and their children."""
        process = self.start_run()
        try:
            wait_until_it_answers(self.world, process)
            deadline = time.monotonic() + ENDS_S
            while left := self.open_flows(begun):
                assert time.monotonic() < deadline, left
                assert process.poll() is None
                for key in left:
                    number = self.chance.randrange(10**9)
                    self.send([message(name, key, number) for name in ("Note", "Bell")])
                time.sleep(0.3)  # the world runs meanwhile
            process.send_signal(signal.SIGTERM)
            assert process.wait(ENDS_S) == 0
        finally:
            process.kill()
            process.wait()

    def open_flows(self, begun: set[str]) -> list[str]:
        rows = self.document("flow", "list", "--limit", "1000")["flows"]
        # A message makes pending instances of both workflows, also of one that has the key of a
        # child.
        open_or_ended = {row["key"]: row["status"] for row in rows if row["status"] != "pending"}
        assert "faulted" not in open_or_ended.values()
        left = [key for key in begun if key not in open_or_ended]
        return left + [key for key, each in open_or_ended.items() if each not in ENDED]


def booked(books: Path) -> int:
    return books.read_bytes().count(b"\n") if books.exists() else 0


def message(name: str, key: str, number: int) -> Item:
    value = {"id": key, "text": f"m{number}"}
    return Item(schema=f"f/{name}@1", value=value, submission_id=f"{name} {key} {number}")


def control(key: str, number: int, *, rollback: bool) -> Item:
    command = {"$tag": "Cancel", "$value": {"rollback": rollback}}
    value = {"instance": key, "command": command}
    return Item(schema="f/RunControl@1", value=value, submission_id=f"cancel {key} {number}")


def begin(program: dict[str, Any]) -> Item:
    return Item(schema="f/Run@1", value=program, submission_id=f"flow:{RUN}:{program['id']}")


def faster(program: dict[str, Any]) -> dict[str, Any]:
    for each in program["nodes"]:
        for name in ("span", "limit"):
            span = each[name]
            if span is not None and 0 < span < TIME_MAX:
                each[name] = span // FASTER
    return program


def trip(key: str, chance: Random) -> dict[str, Any]:
    """Steps one after another, each with a compensation, and a failure at the end of most."""
    count = chance.randint(2, 5)
    nodes: list[Node] = [
        node("step", name=f"{key}-{place}", number=3, span=SECOND // 100, flags=TRIP_FLAGS)
        for place in range(count)
    ]
    nodes.append(node("sleep", name="rest", span=chance.randrange(SECOND // 2)))
    body = [*range(count + 1)]
    if chance.random() < 3 / 4:
        nodes.append(node("fail", text="no"))
        body.append(count + 1)
    return {"id": key, "nodes": nodes, "body": body}


def items_of(chance: Random) -> list[Item]:
    """Starts, messages and cancels, mixed; the messages of a flow may come before its start."""
    found = []
    for number in range(PROGRAMS):
        key = f"p{number}"
        found.append(begin(faster(program_of(chance, key=key, mark=f"{key}."))))
        found += [
            message(chance.choice(["Note", "Bell"]), key, place)
            for place in range(chance.randint(0, 3))
        ]
        if chance.random() < 1 / 4:
            found.append(control(key, 0, rollback=chance.random() < 3 / 4))
    for number in range(TRIPS):
        key = f"t{number}"
        found.append(begin(trip(key, chance)))
        if number % 4 == 3:
            found.append(control(key, 0, rollback=True))
    chance.shuffle(found)
    return found


@contextlib.contextmanager
def service(books: Path) -> Iterator[str]:
    """The service in a process of its own; its URL."""
    words = [sys.executable, "-m", "tests.flow.books_service", str(books), str(run_seed())]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip()
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture
def world(tmp_path: Path) -> Path:
    folder = tmp_path / "air"
    folder.mkdir()
    (folder / "m.air.json").write_text(json.dumps(manifest_nodes()))
    (folder / "flow-programs.wasm").write_bytes((MODULES / f"{FOLDER}.wasm").read_bytes())
    path = tmp_path / "world"
    assert here("init", path).code == 0
    assert here("apply", folder, "--world", path).code == 0
    return path


@pytest.mark.long
def test_kills_at_any_moment_change_no_outcome_of_a_flow(world: Path, tmp_path: Path) -> None:
    """FL-1, FL-13, FL-33, FL-61"""
    chance = Random(run_seed())
    items = items_of(chance)
    books_file = tmp_path / "books.jsonl"
    with service(books_file) as url:
        killed = Killed(world, books_file, url, chance)
        for round in range(KILLS):
            sent = items[: len(items) * (round + 1) // KILLS]
            killed.round(sent[-20:], in_its_start=round % 5 == 4)
        killed.send(items)
        killed.finish(KEYS)
    bundle_file = tmp_path / "bundle"
    assert here("export", bundle_file, "--world", world).code == 0

    books = [Line(**json.loads(line)) for line in books_file.read_text().splitlines()]
    assert killed.met_open > 0, "no kill met an open effect"
    with open_bundle(bundle_file) as bundle:
        check(bundle, books, killed.acknowledged)
    replayed = killed.document("replay")
    verified = killed.document("verify")
    assert replayed["identical"]
    assert verified["findings"] == []


def check(bundle: Bundle, books: list[Line], acknowledged: dict[str, int]) -> None:
    records = [from_bytes(data) for frame in bundle.frames() for data in frame.records]
    events = [each for each in records if isinstance(each, Event)]
    assert {str(each.submission_id): each.seq for each in events} == acknowledged
    assert len(events) == len(acknowledged)

    ends = check_turns(bundle, records)
    operations = check_keys(bundle, records, books)
    by_run: dict[str, list[Line]] = defaultdict(list)
    for line in books:
        workflow, key = operations[line.key].cell
        if workflow == RUN:
            by_run[str(decode_record(key))].append(line)
    for number in range(TRIPS):
        check_reverse(ends[f"t{number}"], by_run[f"t{number}"])


def check_turns(bundle: Bundle, records: list[Record]) -> dict[str, str]:
    """Every turn and every end is that of the model. Return the ends of the runs by key.

    A part may have the key of a run: a message makes an instance of each.
    """
    comparison = Comparison(bundle.blob)
    comparison.follow(records)
    comparison.compare_states()
    ends: dict[tuple[str, str], str] = {
        (workflow, str(decode_record(key))): OTHER_SPELLINGS.get(flow.status, flow.status)
        for (workflow, key), flow in comparison.flows.items()
        if workflow in SCHEMAS
    }
    assert set(ends.values()) <= ENDED | {"pending"}
    return {key: status for (workflow, key), status in ends.items() if workflow == RUN}


def check_keys(bundle: Bundle, records: list[Record], books: list[Line]) -> dict[str, Operation]:
    """Each operation has one key in the books, and is there if the journal has its result."""
    operations: dict[str, Operation] = {}
    by_intent: dict[bytes, str] = {}
    for step in records:
        if not isinstance(step, Step):
            continue
        for intent in step.intents:
            if not intent.effect.startswith("f/"):
                continue
            assert intent.key is not None
            assert intent.issuer_ref is not None
            params: Any = decode_record(slot_bytes(intent.params, bundle.blob))
            path = intent.issuer_ref.removeprefix("flow:").rpartition("#")[0]
            found = Operation(step.cell, intent.effect, path, params["what"])
            key = idempotency_key(
                world=bundle.header.world, cell=step.cell, effect=intent.effect, key=intent.key,
                scope="cell",
            )  # fmt: skip
            assert operations.setdefault(key, found) == found, "two operations have one key"
            by_intent[intent.intent] = key
    assert len(set(operations.values())) == len(operations), "an operation has two keys"

    done = Counter(line.key for line in books if line.outcome == DONE)
    for line in books:
        asked = operations[line.key]
        assert (line.effect, line.what) == (asked.effect, asked.what)
        assert line.outcome != AGAIN or done[line.key] == 1
    assert set(done.values()) == {1}
    answered = {
        by_intent[each.intent]
        for each in records
        if isinstance(each, Receipt) and each.status == "ok" and each.intent in by_intent
    }
    assert answered <= set(done), "the journal has a result of something that was not done"
    return operations


def check_reverse(end: str, lines: list[Line]) -> None:
    """All that a trip has done is undone in reverse if it failed, and stays if it completed."""
    done = [each.what for each in lines if each.outcome == DONE and each.effect == "f/do@1"]
    undone = [
        each.what.removeprefix("?")
        for each in lines
        if each.outcome == DONE and each.effect == "f/undo@1"
    ]
    if end == "completed":
        assert undone == []
    elif end == "failed":
        assert undone == done[::-1]
    else:
        assert end == "canceled"
        # A step that was in flight when the cancel came may be done, undone, neither or both.
        last = max([*done, *undone], default="")
        assert [each for each in undone if each != last] == [
            each for each in done[::-1] if each != last
        ]
