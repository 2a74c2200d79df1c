"""``kill -9`` at random moments, of the process that runs the orders world and of who sends to it.

Nothing may be lost by it, and nothing done twice. The checker believes neither the kernel nor its
state: it reads the exported journal, record by record, and the shop's own books.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import cbor2
import pytest

from aos.core.journal.identity import idempotency_key
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Event, Intent, Receipt, Record, Step, slot_bytes
from aos.errors import Unavailable
from aos.host.door.remote import ask_running
from aos.host.folder.folder import open_folder
from aos.values.digests import Hash, hash_text
from tests.cli.shell import ROOT, here, start
from tests.modules.guests import shop_module
from tests.run_seed import run_seed
from tests.tools import long_form

ROUNDS = 24 if long_form() else 5
ROUNDS_MAX = 3 * ROUNDS
"""If too few kills met something that was going on, there are more rounds."""

KILLS_MIN = 12 if long_form() else 4
KILLING_S = 75.0 if long_form() else 20.0
"""On a slow machine there are fewer rounds, but never fewer kills than ``KILLS_MIN``."""

ORDERS = 240 if long_form() else 120
CHUNK = 40
SEED = 2024
STARTS_S = 120.0
ENDS_S = 150.0

ORDERS_FOLDER = ROOT / "manifests" / "orders"
EXECUTORS = f"{ORDERS_FOLDER / 'effects.py'}:shop"

books = shop_module("books")
make_orders = shop_module("make_orders")


@dataclass
class Killer:
    """A world that is run and sent to by processes that are killed."""

    world: Path
    url: str
    random: Random
    acknowledged: dict[str, int] = field(default_factory=dict)
    kills: int = 0
    left_open: list[int] = field(default_factory=list)

    def start_run(self, *flags: str) -> subprocess.Popen[bytes]:
        return start(
            "run", "--executors", EXECUTORS, *flags, "--world", self.world,
            env={"SHOP_URL": self.url}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            self.kills += 1
        process.kill()
        process.wait()

    def round(self, chunk: Path) -> bool:
        """Run the world, send a chunk, kill; whether the chunk was acknowledged whole."""
        process = self.start_run()
        answers = chunk.with_suffix(f".{self.kills}.answers")
        try:
            if self.random.random() < 0.2:
                time.sleep(self.random.uniform(0.2, 0.9))  # in the middle of its start
                return False
            wait_until_it_answers(self.world, process)
            with answers.open("wb") as out:
                sender = start(
                    "send", "--jsonl", chunk, "--json", "--world", self.world,
                    stdout=out, stderr=subprocess.DEVNULL,
                )  # fmt: skip
                try:
                    if self.random.random() < 0.5:  # in the middle of the work
                        wait_until_answered(answers, sender)
                    time.sleep(self.random.uniform(0.1, 1.6))
                    if self.random.random() < 0.3:
                        self.kill(sender)
                    self.kill(process)
                    code = sender.wait(ENDS_S)
                finally:
                    sender.kill()
                    sender.wait()
        finally:
            self.kill(process)
            self.take(chunk, answers)
            self.left_open.append(open_intents(self.world))
        return code == 0

    def take(self, chunk: Path, answers: Path) -> None:
        """Note acknowledged inputs. A line that a killed sender did not finish does not count."""
        if not answers.exists():
            return
        ids = [json.loads(line)["submission_id"] for line in chunk.read_text().splitlines()]
        for line in answers.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                answer = json.loads(line)
                assert answer["answer"] in ("admitted", "duplicate"), answer
                name = ids[answer["number"] - 1]
                assert self.acknowledged.setdefault(name, answer["seq"]) == answer["seq"]


def wait_until_it_answers(world: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the process that runs the world answers, at most ``STARTS_S``."""
    deadline = time.monotonic() + STARTS_S
    while time.monotonic() < deadline:
        assert process.poll() is None, f"it ended with {process.returncode}"
        with contextlib.suppress(Unavailable):
            if ask_running(world, "status"):
                return
        time.sleep(0.05)
    raise TimeoutError


def wait_until_answered(answers: Path, sender: subprocess.Popen[bytes]) -> None:
    """Wait until the sender has an answer or has ended, at most ``STARTS_S``."""
    deadline = time.monotonic() + STARTS_S
    while time.monotonic() < deadline and sender.poll() is None and not answers.stat().st_size:
        time.sleep(0.05)


def open_intents(world: Path) -> int:
    """Counted by hand: asked for, not answered, not abandoned."""
    found: set[Hash] = set()
    for record in journal(world):
        match record:
            case Step():
                found |= {each.intent for each in record.intents}
                found -= set(record.abandoned)
            case Receipt():
                found -= {record.intent, *record.abandoned}
    return len(found)


def journal(world: Path) -> list[Record]:
    with open_folder(world).open_store(readonly=True) as store:
        return [from_bytes(data) for frame in store.frames() for data in frame.records]


@contextlib.contextmanager
def shop(file: Path) -> Iterator[str]:
    """The payment and warehouse service, in a process of its own; its URL."""
    service = subprocess.Popen(
        [sys.executable, ORDERS_FOLDER / "service.py", "--books", file, "--seed", "3",
         "--fail-rate", "0.08", "--stall-rate", "0.02", "--stall-ms", "1200"],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert service.stdout is not None
        yield service.stdout.readline().decode().strip()
    finally:
        service.terminate()
        service.communicate()


def chunks(folder: Path) -> list[Path]:
    """The orders, in files of some lines each; cancels and copies come in other chunks, too."""
    lines = [
        json.dumps(line) + "\n"
        for line in make_orders.orders(
            count=ORDERS, seed=SEED, customers=25, hasty=0.03, repeated=0.05, cancelled=0.05
        )
    ]
    found = []
    for at in range(0, len(lines), CHUNK):
        file = folder / f"orders-{at:03}.jsonl"
        file.write_text("".join(lines[at : at + CHUNK]))
        found.append(file)
    return found


@pytest.mark.long
def test_nothing_acknowledged_is_lost_and_nothing_is_done_twice_however_often_it_is_killed(
    tmp_path: Path,
) -> None:
    """K-12, K-20, K-21, K-53, H-21, H-30, H-42, C-22, C-25"""
    world, shop_books = tmp_path / "world", tmp_path / "books.jsonl"
    assert here("init", world).code == 0
    assert here("apply", ORDERS_FOLDER, "--world", world).code == 0
    todo = chunks(tmp_path)
    every_chunk = list(todo)

    with shop(shop_books) as url:
        killer = Killer(world, url, Random(run_seed()))
        until = time.monotonic() + KILLING_S
        for number in range(1, ROUNDS_MAX + 1):
            if killer.round(todo[0]) and len(todo) > 1:
                todo.pop(0)
            is_over = number >= ROUNDS or time.monotonic() > until
            if is_over and killer.kills >= KILLS_MIN and sum(killer.left_open) > 0:
                break
        for chunk in every_chunk:
            answers = chunk.with_suffix(".last.answers")
            answers.write_text(here("send", "--jsonl", chunk, "--json", "--world", world).out)
            killer.take(chunk, answers)
        last = killer.start_run("--until-idle")
        try:
            assert last.wait(ENDS_S) == 0
        finally:
            killer.kill(last)

    assert killer.kills >= KILLS_MIN
    assert sum(killer.left_open) > 0, "none of the kills met an open effect"
    check_journal(world, killer.acknowledged, every_chunk)
    check_books(world, shop_books)
    replayed = here("replay", "--json", "--world", world)
    verified = here("verify", "--json", "--world", world)
    assert (replayed.code, replayed.json["identical"]) == (0, True)
    assert (verified.code, verified.json["findings"]) == (0, [])


def check_journal(world: Path, acknowledged: dict[str, int], files: list[Path]) -> None:
    """Every event once, where it was acknowledged; every intent settled once, or abandoned."""
    records = journal(world)
    assert [each.seq for each in records] == list(range(1, len(records) + 1))

    events = [each for each in records if isinstance(each, Event)]
    sent = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert Counter(each.submission_id for each in events) == {
        each["submission_id"]: 1 for each in sent
    }
    assert {str(each.submission_id): each.seq for each in events} == acknowledged

    asked = [intent for step, intent in asked_for(records)]
    receipts = Counter(each.intent for each in records if isinstance(each, Receipt))
    abandoned = {
        each
        for record in records
        if isinstance(record, Step | Receipt)
        for each in record.abandoned
    }
    assert len({intent.intent for intent in asked}) == len(asked)
    assert set(receipts) <= {intent.intent for intent in asked}
    assert set(receipts.values()) == {1}
    assert {intent.intent for intent in asked} - set(receipts) <= abandoned


def check_books(world: Path, file: Path) -> None:
    """Assert that the shop did each thing once, and only what the journal requested and settled."""
    entries = books.read_entries(file)
    totals = books.total(entries)
    assert totals.wrong() == []
    assert totals.orders_charged_twice == totals.keys_booked_twice == 0
    assert totals.charges > ORDERS / 2

    records = journal(world)
    keys = {idempotency(world, step, intent) for step, intent in asked_for(records)}
    assert {entry.key for entry in entries} <= keys, "something was done that is in no record"

    by_key = {entry.key: entry for entry in entries}
    by_intent = {intent.intent: (step, intent) for step, intent in asked_for(records)}
    with open_folder(world).open_store(readonly=True) as store:
        for receipt in records:
            if isinstance(receipt, Receipt) and is_done(receipt):
                entry = by_key[idempotency(world, *by_intent[receipt.intent])]
                assert cbor2.loads(slot_bytes(receipt.payload, store.blob)) == entry.answer
        told = [
            (event.schema, cbor2.loads(slot_bytes(event.value, store.blob)))
            for record in records
            if isinstance(record, Step)
            for event in record.events
        ]
    for schema, cents, kind in (
        ("shop/OrderCharged@1", "amount_cents", books.CHARGED),
        ("shop/OrderRefunded@1", "amount_cents", books.REFUNDED),
        ("shop/OrderShipped@1", "value_cents", books.SHIPPED),
    ):
        moved: dict[str, Any] = {
            value["order_id"]: value[cents] for name, value in told if name == schema
        }
        assert len(moved) == sum(name == schema for name, _ in told), f"{schema} came twice"
        assert moved == {
            entry.order_id: entry.cents for entry in entries if entry.kind == kind and entry.cents
        }


def is_done(receipt: Receipt) -> bool:
    return receipt.status == "ok" and receipt.effect.startswith("shop/")


def asked_for(records: list[Record]) -> list[tuple[Step, Intent]]:
    return [
        (record, intent)
        for record in records
        if isinstance(record, Step)
        for intent in record.intents
    ]


def idempotency(world: Path, step: Step, intent: Intent) -> str:
    """Return the ``Idempotency-Key`` that the shop received."""
    if intent.key is None:
        return hash_text(intent.intent)
    return idempotency_key(
        world=open_folder(world).world, cell=step.cell, effect=intent.effect, key=intent.key,
        scope="cell",
    )  # fmt: skip
