"""Operator commands: retry, cancel, erase (C-26 to C-28)."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aos.errors import Unavailable
from aos.host.door.writer import Writer, open_writer
from aos.host.folder.folder import open_folder
from aos.prove.replay.replay_store import replay_store
from aos.prove.verify.verify import verify_store
from aos.store.lmdb_store import LmdbStore
from aos.values.cbor import encode
from aos.values.digests import content_hash, hash_text
from aos_cli import chosen_cells
from aos_cli.open_writing import NamedCell
from tests.cli.shell import AOS, Aos, environment, in_silence
from tests.copies import copied
from tests.host import puppet

GARBAGE = b"\xff"
HEALTHY = NamedCell(puppet.PUPPET, "c", (puppet.PUPPET, encode("c")))


def send(world: Path, *items: Any) -> None:
    with open_writer(world) as writer:
        list(writer.send(items))
    assert in_silence("run", "--until-idle", "--world", world) == 0


@contextlib.contextmanager
def running(world: Path) -> Iterator[None]:
    """A process of its own that runs the world."""
    process = subprocess.Popen(
        [*AOS, "run", "--world", str(world)], env=environment(), stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith("running "):
                break
        # Keep reading, so that the process can continue to print.
        rest = threading.Thread(target=process.stderr.read)
        rest.start()
        yield
    finally:
        process.terminate()
        process.wait(90)
        rest.join(90)
        process.stderr.close()


@pytest.fixture
def failed(world: Path) -> Path:
    """Two cells have failed; one of them has mail behind it."""
    send(world, puppet.do("a", GARBAGE), puppet.do("a"), puppet.trap("b"), puppet.do("c"))
    return world


def statuses(aos: Aos, world: Path) -> dict[str, str]:
    rows = aos("inspect", "cells", "--json", world=world).json["cells"]
    return {row["key"]: row["status"] for row in rows}


def is_sound(world: Path) -> None:
    with open_folder(world).open_store(readonly=True) as store:
        assert verify_store(store).is_sound
        assert replay_store(store).identical


# retry


def test_a_failed_cell_is_retried_and_skipped(aos: Aos, failed: Path) -> None:
    """C-26"""
    retried = aos("cells", "retry", "puppet", "a", world=failed)
    again = aos("cells", "retry", "puppet", "a", world=failed)
    send(failed)
    skipped = aos("cells", "retry", "puppet", '"a"', "--skip", world=failed)
    send(failed)

    seq = int(retried.out.rpartition("record ")[2].rstrip(")\n"))
    assert retried == (
        0, f"host/puppet@1 a resumes with the entry that failed (record {seq})\n", "",
    )  # fmt: skip
    assert again == (1, "", "aos: no fault has failed host/puppet@1: its status is running\n")
    assert skipped.out.startswith("host/puppet@1 a resumes after the entry that failed (record ")
    assert statuses(aos, failed) == {"a": "running", "b": "failed", "c": "running"}
    is_sound(failed)


def test_all_that_failed_are_retried_with_a_record_each(aos: Aos, failed: Path) -> None:
    """C-26"""
    before = aos("inspect", "world", "--json", world=failed).json["journal"]["records"]

    retried = aos("cells", "retry", "--all-failed", "--skip", world=failed)
    none = aos("cells", "retry", "--all-failed", "--json", world=failed)
    send(failed)

    assert retried == (
        0, f"2 cells of 2 resume (records {before + 1} to {before + 2})\n", "",
    )  # fmt: skip
    assert aos("cells", "retry", "--all-failed", world=failed).out == "no cell has failed\n"
    assert none.json == {"action": "retry", "admitted": 0, "refused": 0, "cells": []}
    assert set(statuses(aos, failed).values()) == {"running"}
    is_sound(failed)


def test_retry_as_json(aos: Aos, failed: Path) -> None:
    """C-26"""
    document = aos(
        "cells", "retry", "--all-failed", "--workflow", "puppet", "--json", world=failed
    ).json

    assert (document["action"], document["admitted"], document["refused"]) == ("retry", 2, 0)
    assert [(each["workflow"], each["key"], each["refused"]) for each in document["cells"]] == [
        ("host/puppet@1", "a", None), ("host/puppet@1", "b", None),
    ]  # fmt: skip
    first, second = (each["seq"] for each in document["cells"])
    assert second == first + 1


def test_a_refused_retry_does_not_stop_the_others_and_is_exit_1(
    aos: Aos, failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-26"""
    one = aos("cells", "retry", "puppet", "c", "--json", world=failed)
    failed_cells = chosen_cells.failed

    def with_a_healthy_one(*given: Any) -> list[NamedCell]:
        cells = failed_cells(*given)
        return [*cells[:1], HEALTHY, *cells[1:]]

    monkeypatch.setattr(chosen_cells, "failed", with_a_healthy_one)
    text = aos("cells", "retry", "--all-failed", world=failed)

    assert (one.code, one.out) == (1, "")
    assert text.code == 1
    assert text.out.startswith("2 cells of 3 resume, 1 refused (records ")
    assert text.err == (
        "aos: host/puppet@1 c: no fault has failed host/puppet@1: its status is running\n"
    )
    document = aos("cells", "retry", "--all-failed", "--json", world=failed)
    assert (document.code, document.json["refused"]) == (1, 1)
    assert document.json["cells"][0]["refused"]["rule"] == "cell_has_not_failed"


def test_many_refusals_are_counted(aos: Aos, failed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-26"""
    monkeypatch.setattr(chosen_cells, "failed", lambda *_: [HEALTHY] * 12)

    found = aos("cells", "retry", "--all-failed", world=failed)

    assert found.out == "0 cells of 12 resume, 12 refused\n"
    assert len(found.err.splitlines()) == 11
    assert found.err.endswith("and 2 more were refused (--json lists them all)\n")


def test_commands_go_through_the_process_that_runs_the_world(aos: Aos, failed: Path) -> None:
    """C-26, C-27: the process runs the retried cells immediately."""
    send(failed, puppet.do("wait", puppet.asks("hello")))
    [intent] = aos("inspect", "intents", "--json", world=failed).json["intents"]
    with running(failed):
        retried = aos("cells", "retry", "--all-failed", "--skip", world=failed)
        canceled = aos("effects", "cancel", intent["intent"], world=failed)
        is_erased = aos("erase", "0" * 64, "--yes", world=failed)
    found = aos("inspect", "intent", intent["intent"], "--json", world=failed).json

    assert (retried.code, canceled.code, is_erased.code) == (0, 0, 2)
    assert retried.out.startswith("2 cells of 2 resume")
    assert found["receipt_status"] == "canceled"
    # Nothing was left of "b" once what it failed on was skipped.
    assert statuses(aos, failed) == {"a": "running", "c": "running", "wait": "running"}
    is_sound(failed)


# cancel


def test_an_open_effect_is_canceled_and_settled_at_once(
    aos: Aos, lived_in: Path, tmp_path: Path
) -> None:
    """C-27: while no process runs the world."""
    world = tmp_path / "w"
    copied(lived_in, world)
    [row] = aos("inspect", "intents", "--json", world=world).json["intents"]

    canceled = aos("effects", "cancel", row["intent"][7:20], world=world)
    again = aos("effects", "cancel", row["intent"], world=world)

    assert canceled.code == 0
    assert canceled.out == (
        f"record 14 cancels host/echo@1 of host/puppet@1 wait\n  {row['intent']}\n"
    )
    assert canceled.err == "the effect may have run already; only its executor can tell\n"
    assert again == (1, "", f"aos: intent {row['intent']} is not open (it may be settled)\n")
    said = aos("inspect", "intent", row["intent"], world=world).out.splitlines()
    assert "status\tsettled canceled" in said
    assert "canceled\tby operator, record 14" in said
    assert "settled\trecord 15" in said
    assert "receipt\tcanceled, by record 14" in said
    assert "signed by\tno executor: the kernel made it" in said
    is_sound(world)


def test_cancel_as_json(aos: Aos, lived_in: Path, tmp_path: Path) -> None:
    """C-27"""
    world = tmp_path / "w"
    copied(lived_in, world)
    [row] = aos("inspect", "intents", "--json", world=world).json["intents"]

    document = aos("effects", "cancel", row["intent"], "--json", world=world).json

    assert document == {
        "intent": row["intent"], "effect": "host/echo@1",
        "cell": {"workflow": "host/puppet@1", "key": "wait"}, "seq": 14,
    }  # fmt: skip


# erase

LONG = "x" * 900
VALUE = hash_text(content_hash(encode({"key": LONG, "out": GARBAGE * 300, "trap": None})))


@pytest.fixture
def personal(world: Path) -> Path:
    """An event too long for its record has come in, has failed its cell and was skipped."""
    send(world, puppet.do(LONG, GARBAGE * 300))
    assert in_silence("cells", "retry", "--all-failed", "--skip", "--world", world) == 0
    return world


def bytes_of(world: Path) -> bytes:
    return (world / "store" / "data.mdb").read_bytes()


def test_a_value_is_erased_from_the_world_and_its_file(aos: Aos, personal: Path) -> None:
    """C-28"""
    assert GARBAGE * 300 in bytes_of(personal)

    found = aos("erase", VALUE, "--yes", world=personal)

    first, second, *rest = found.out.splitlines()
    assert (found.code, found.err) == (0, "")
    assert first.startswith(f"{VALUE}, 1,")
    assert second == "  value in record 3, event"
    assert rest == [
        "erased by record 7; every hash and signature stays valid",
        "its bytes have left the store's file",
    ]
    assert GARBAGE * 300 not in bytes_of(personal)
    is_sound(personal)


def test_replay_and_inspection_show_erased_values_as_erased(aos: Aos, personal: Path) -> None:
    """C-28, C-40, C-41"""
    aos("erase", VALUE, "--yes", world=personal)

    replayed = aos("replay", world=personal)
    verified = aos("verify", world=personal)
    record = aos("inspect", "record", "3", "--json", world=personal).json
    shown = aos("inspect", "value", VALUE, world=personal).out

    assert replayed.code == verified.code == 0
    assert "  2 records taken as recorded: what they need was erased\n" in replayed.out
    assert f"    {VALUE}, erased by record 7: 3, 5\n" in replayed.out
    assert "  1 value erased, each by a record of an operator\n" in verified.out
    assert record["value"]["$erased"] == VALUE
    assert "bytes\tnot there\nerased by\trecord 7\n" in shown
    raw = aos("inspect", "value", VALUE, "--raw", world=personal)
    assert (raw.code, raw.out) == (3, "")
    assert "erased by record 7" in raw.err


def test_the_bytes_of_a_stored_value_are_written_to_stdout(aos: Aos, personal: Path) -> None:
    """C-38a"""
    found = subprocess.run(
        [*AOS, "inspect", "value", VALUE, "--raw", "--world", str(personal)],
        env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=True,
    )  # fmt: skip
    unknown = aos("inspect", "value", f"blake3:{'0' * 64}", "--raw", world=personal)
    both = aos("inspect", "value", VALUE, "--raw", "--json", world=personal)

    assert hash_text(content_hash(found.stdout)) == VALUE
    assert "the world holds no such value" in unknown.err
    assert (unknown.code, both.code) == (2, 2)


def test_erasing_again_compacts_the_file_and_says_who_did_it(aos: Aos, personal: Path) -> None:
    """C-28"""
    with running(personal):
        erased = aos("erase", VALUE[7:], "--yes", world=personal)
    text = aos("erase", VALUE, world=personal)
    document = aos("erase", VALUE, "--json", world=personal).json

    assert erased.out.splitlines()[-1] == (
        "its bytes stay in the store's file until other data overwrites them; to remove them "
        "now, run the same command while no process runs the world"
    )
    seq = document["erased_by"][0]
    assert text == (
        0, f"erased already, by record {seq}\nits bytes have left the store's file\n", "",
    )  # fmt: skip
    assert (document["seq"], document["compacted"], document["is_there"]) == (None, True, False)
    assert GARBAGE * 300 not in bytes_of(personal)


def test_erase_as_json(aos: Aos, personal: Path) -> None:
    """C-28"""
    document = aos("erase", VALUE, "--yes", "--json", world=personal).json

    assert list(document) == [
        "value", "size", "is_there", "erased_by", "records", "total", "seq", "compacted",
    ]  # fmt: skip
    assert (document["seq"], document["compacted"], document["total"]) == (7, True, 1)


def test_a_value_that_is_still_needed_is_not_erased(aos: Aos, world: Path) -> None:
    """C-28, K-104"""
    send(world, puppet.do(LONG, GARBAGE * 300))

    found = aos("erase", VALUE, "--yes", world=world)

    assert found.code == 1
    assert found.err == (
        f"aos: value {VALUE} is mail of a cell of host/puppet@1 (it can be erased once nothing "
        "needs it)\n"
    )
    assert GARBAGE * 300 in bytes_of(world)


def test_nothing_is_erased_without_a_yes(aos: Aos, personal: Path) -> None:
    """C-28"""
    found = aos("erase", VALUE, world=personal)

    assert found.code == 2
    assert found.err == (
        "aos: erase: erased bytes cannot be restored: expected --yes, or a terminal\n"
    )
    assert GARBAGE * 300 in bytes_of(personal)


@pytest.mark.parametrize(("typed", "code"), [(b"n\n", 1), (b"\n", 1), (b"y\n", 0)])
def test_on_a_terminal_it_asks(personal: Path, typed: bytes, code: int) -> None:
    """C-28"""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed)
        done = subprocess.run(
            [*AOS, "erase", VALUE, "--world", str(personal)], env=environment(), stdin=theirs,
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)

    assert done.returncode == code
    assert "erase it for good? [y/N]:" in done.stderr
    assert ("nothing was erased" in done.stderr) == (code == 1)
    assert (GARBAGE * 300 in bytes_of(personal)) == (code == 1)


def test_a_file_that_cannot_be_compacted_is_told_and_the_value_is_erased(
    aos: Aos, personal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-28"""

    def full(_: LmdbStore) -> None:
        raise Unavailable("no room for the copy")

    monkeypatch.setattr(LmdbStore, "compact", full)

    found = aos("erase", VALUE, "--yes", world=personal)

    assert found.code == 0
    assert found.err == "the store's file could not be compacted: no room for the copy\n"
    assert "erased by record 7" in found.out
    assert aos("inspect", "value", VALUE, "--json", world=personal).json["is_there"] is False


def test_a_command_of_no_operator_is_refused(aos: Aos, failed: Path) -> None:
    """C-26, H-59a"""
    key = failed / "keys" / "operator.key"
    key.write_text("ab" * 32)

    found = aos("cells", "retry", "puppet", "a", world=failed)

    assert found.code == 1
    assert found.err.startswith("aos: this key may not command this world: expected operator's ")


def test_a_command_that_came_in_between_is_no_reason_to_fail(
    aos: Aos, failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-59b"""
    about = Writer.signed_state
    looks: list[int] = []

    def outdated(self: Writer) -> Any:
        found = about(self)
        looks.append(found.controls)
        return replace(found, controls=found.controls + 1) if len(looks) == 1 else found

    monkeypatch.setattr(Writer, "signed_state", outdated)

    assert aos("cells", "retry", "puppet", "a", world=failed).code == 0
    assert len(looks) == 2
