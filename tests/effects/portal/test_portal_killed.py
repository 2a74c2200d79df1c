"""Two real worlds, and ``kill -9`` of the one that sends: the other one gets the event once."""

from __future__ import annotations

import base64
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Event, Receipt, Record, slot_bytes
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.manifest.load import load
from aos.values.cbor import decode_record, encode
from tests.cli.shell import here, run, start
from tests.effects.portal.test_portal import HERE, given
from tests.host.puppet import DO, asks_for, files

SEND: Final = "sys/portal.send@1"
STOPPING: Final = f"{Path(__file__).parent / 'stopping_portal.py'}:portal"
PORTAL: Final = "portal"
WAIT_S: Final = 120.0


@pytest.fixture
def worlds(tmp_path: Path) -> tuple[Path, Path]:
    """The sender, and the world that it sends to."""
    sender, receiver = tmp_path / "sender", tmp_path / "receiver"
    for path in (sender, receiver):
        init_world(path)
        with open_writer(path) as writer:
            assert isinstance(writer.apply(load(files(effects=(SEND,)))).answer, Admitted)
    params = given(schema=DO, value_cbor=encode({"key": "from afar", "out": None, "trap": None}))
    out = base64.b64encode(asks_for((SEND, params))).decode()
    sent = here("send", DO, f'{{"key": "asks", "out": "{out}"}}', "--world", sender)
    assert sent.code == 0, sent
    return sender, receiver


@contextmanager
def ran(*words: str | Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed at the end, if it still runs."""
    process = start("run", *words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline_s, "it did not happen"
        time.sleep(0.05)


def records(world: Path) -> tuple[list[Record], Callable[..., bytes]]:
    with open_folder(world).open_store() as store:
        found = [from_bytes(data) for frame in store.frames() for data in frame.records]
        blobs = {
            each.payload: slot_bytes(each.payload, store.blob)
            for each in found
            if isinstance(each, Receipt)
        }
    return found, lambda slot: blobs[slot]


def of_portal(world: Path) -> list[Event]:
    found, _ = records(world)
    return [
        each
        for each in found
        if isinstance(each, Event) and (each.submission_id or "").startswith("portal:")
    ]


def receipts(world: Path) -> list[Any]:
    found, read = records(world)
    return [
        (each.status, decode_record(read(each.payload)))
        for each in found
        if isinstance(each, Receipt)
    ]


def test_a_sender_that_is_killed_before_its_receipt_sends_once(
    tmp_path: Path, worlds: tuple[Path, Path]
) -> None:
    """AG-85, AG-89: neither attempts that found no process, nor those before and after the kill
    make a second event."""
    sender, receiver = worlds
    marker = tmp_path / "sent"
    env = {"AOS_PORTAL_WORLDS": f"{HERE}={receiver}", "SENT_FILE": str(marker)}
    with ran("--world", sender, "--executors", STOPPING, **env) as process:
        until(lambda: '"attempt"' in here("inspect", "journal", "--json", "--world", sender).out)
        assert of_portal(receiver) == []
        with ran("--world", receiver):
            until(marker.exists)
            process.kill()
            process.wait()
            assert receipts(sender) == []

            again = run("run", "--until-idle", "--world", sender, "--executors", PORTAL, env=env)
            assert again.code == 0, again

    [event] = of_portal(receiver)
    [(status, receipt)] = receipts(sender)
    assert status == "ok"
    assert receipt["message_id"] == marker.read_text()
    assert decode_record(receipt["enqueued_seq"]) == event.seq
    assert here("verify", "--world", sender).code == 0
    assert here("replay", "--world", receiver).code == 0
