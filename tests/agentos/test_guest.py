"""``modules/agentos-guest`` in a world with the real executors."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from aos.host.folder.folder import open_folder
from aos.values.digests import content_hash
from aos.values.sha256 import parse_sha256, sha256_text
from tests.agentos.world import CASE, CLOCK, COUNTER, ECHO, TALE
from tests.cli.shell import Aos
from tests.copies import copied

HELLO, WORLD = (f"sha256:{hashlib.sha256(data).hexdigest()}" for data in (b"hello", b"world"))


def state(aos: Aos, world: Path, *cell: str) -> Any:
    return aos("inspect", "cell", *cell, "--json", world=world).json["state"]


def test_modules_that_do_not_say_get_the_abi_of_the_command(aos: Aos, ran: Path) -> None:
    """AG-2."""
    modules = aos("inspect", "manifest", "--json", world=ran).json["modules"]

    assert [each["abi"] for each in modules] == ["agentos"]


def test_an_unknown_abi_is_refused(aos: Aos, folder: Path, tmp_path: Path) -> None:
    """AG-2."""
    refused = aos("apply", folder, "--abi", "aos/9", world=tmp_path / "none")

    assert refused.code == 2
    assert "--abi: expected aos/1 or agentos, found 'aos/9'" in refused.err


def test_a_counter_counts_and_its_state_is_shown_by_its_schema(aos: Aos, ran: Path) -> None:
    """AG-3, AG-10, AG-13: its fields are not in canonical order."""
    assert state(aos, ran, COUNTER) == {"pc": {"$tag": "Done"}, "remaining": 0}


def test_a_timer_fires_in_its_older_form(aos: Aos, ran: Path) -> None:
    """AG-4, AG-8: with the cap slot of an older SDK, and an option left out."""
    assert state(aos, ran, CLOCK) == {"pc": {"$tag": "Done"}, "deadline_ns": 1000}


def test_a_blob_is_put_and_got_by_its_sha256(aos: Aos, ran: Path) -> None:
    """AG-31, AG-32: the guest has hashed both by itself."""
    assert state(aos, ran, ECHO) == {"pc": {"$tag": "Done"}, "name": HELLO}


def test_a_blob_is_inspected_by_its_sha256(aos: Aos, ran: Path) -> None:
    """A-68."""
    name = f"blake3:{content_hash(b'hello').hex()}"
    by_name, by_hash = (
        aos("inspect", "value", each, "--json", world=ran) for each in (HELLO, name)
    )
    unknown = aos("inspect", "value", "sha256:" + "0" * 64, world=ran)
    short = aos("inspect", "value", HELLO[:20], world=ran)

    assert by_name.json == by_hash.json
    assert by_name.json["value"] == name
    assert aos("inspect", "value", HELLO, "--raw", world=ran).out == "hello"
    assert (unknown.code, short.code) == (2, 2)
    assert "no blob of this world has this name" in unknown.err
    assert "expected sha256: and 64 lower-case hex digits" in short.err


def test_a_keyed_case_finds_its_handles_again(aos: Aos, ran: Path) -> None:
    """AG-5 to AG-7, AG-24: keys in the SDK's form, and receipts found by the hash of params."""
    found = state(aos, ran, CASE, "abc")

    assert found["pending"] == {}
    assert sorted(found["settled"]) == [
        "sys/blob.get@1",
        "sys/blob.put@1",
        "sys/introspect.list_cells@1",
        "sys/timer.set@1",
    ]
    assert found["blob"] == WORLD


def test_an_event_from_one_module_reaches_the_other(aos: Aos, ran: Path) -> None:
    """AG-20, AG-21, AG-33: the event is a map without a length, its arm ``{Arm: value}``."""
    assert state(aos, ran, TALE, "abc") == {"name": WORLD, "size": 5}


def test_a_case_is_closed_by_null(aos: Aos, ran: Path, tmp_path: Path) -> None:
    world = copied(ran, tmp_path / "world")
    assert aos("send", "agentos/Close@1", '{"id": "abc"}', world=world).code == 0
    assert aos("run", "--until-idle", world=world).code == 0

    assert [each["workflow"] for each in cells(aos, world)].count(CASE) == 0


def cells(aos: Aos, world: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = aos("inspect", "cells", "--json", world=world).json["cells"]
    return found


def test_it_is_replayed_and_verified(aos: Aos, ran: Path) -> None:
    """AG-14, AG-35."""
    replayed = aos("replay", "--core", "both", world=ran)
    verified = aos("verify", world=ran)

    assert (replayed.code, verified.code) == (0, 0), replayed.err + verified.err


def test_the_trace_shows_an_opaque_state(aos: Aos, ran: Path) -> None:
    """AG-13."""
    shown = aos("trace", CASE, "abc", world=ran)

    assert shown.code == 0
    assert f':"{WORLD[:20]}' in shown.out


def test_a_world_comes_back_from_a_snapshot(aos: Aos, ran: Path, tmp_path: Path) -> None:
    """AG-14: cells at rest keep their bytes."""
    world = copied(ran, tmp_path / "world")
    assert aos("snapshot", world=world).code == 0
    assert aos("send", "agentos/CounterEvent@1", '{"Start": {"target": 1}}', world=world).code == 0
    assert aos("run", "--until-idle", world=world).code == 0

    assert state(aos, world, COUNTER)["remaining"] == 1
    assert state(aos, world, CASE, "abc")["blob"] == WORLD
    assert aos("replay", "--core", "both", world=world).code == 0
    assert aos("verify", world=world).code == 0


def named(world: Path, text: str) -> bytes | None:
    """Return the blob with this SHA-256 name in the store; None if there is none."""
    with open_folder(world).open_store(readonly=True) as store:
        name = parse_sha256(text)
        assert name is not None
        blob = store.hash_by_sha256(name)
        return None if blob is None else store.blob(blob)


def test_blobs_that_a_state_names_survive_pruning_and_collecting(
    aos: Aos, ran: Path, tmp_path: Path
) -> None:
    """AG-34: then states say of the blobs, and that instances were told of them."""
    world = copied(ran, tmp_path / "world")
    assert aos("snapshot", world=world).code == 0
    with open_folder(world).open_store(readonly=True) as store:
        taken = store.snapshot_before()
    assert taken is not None
    before = ("--before", str(taken.at), "--archive", tmp_path / "old.aos")
    pruned = aos("journal", "prune", *before, world=world)
    assert pruned.code == 0, pruned.err
    assert aos("gc", world=world).code == 0

    assert (named(world, HELLO), named(world, WORLD)) == (b"hello", b"world")
    again = {"id": "abc", "how": {"Named": WORLD}}
    assert aos("send", "agentos/Told@1", json.dumps(again), world=world).code == 0
    assert aos("run", "--until-idle", world=world).code == 0
    assert state(aos, world, TALE, "abc") == {"name": WORLD, "size": 5}
    assert aos("verify", world=world).code == 0


def test_a_bundle_takes_the_names_along(aos: Aos, ran: Path, tmp_path: Path) -> None:
    """AG-36."""
    file, world = tmp_path / "world.aos", tmp_path / "imported"
    assert aos("export", file, world=ran).code == 0
    assert aos("verify", file).code == 0
    assert aos("replay", file, "--core", "both").code == 0
    assert aos("import", file, world).code == 0

    assert (named(world, HELLO), named(world, WORLD)) == (b"hello", b"world")
    assert aos("verify", world=world).code == 0


def test_a_fork_takes_the_names_along(aos: Aos, ran: Path, tmp_path: Path) -> None:
    """AG-36."""
    fork = tmp_path / "fork"
    with open_folder(ran).open_store(readonly=True) as store:
        head = store.head()
    assert head is not None
    forked = aos("fork", fork, "--at", str(head.seq), world=ran)
    assert forked.code == 0, forked.err

    assert (named(fork, HELLO), named(fork, WORLD)) == (b"hello", b"world")


@pytest.mark.parametrize("data", [b"hello", b"world"])
def test_the_receipt_holds_what_the_executor_signed(aos: Aos, ran: Path, data: bytes) -> None:
    """AG-31: replay reads the name from the receipt and does not compute it again."""
    journal = aos("inspect", "journal", "--json", "--limit", "100", world=ran)

    assert sha256_text(data) in journal.out
