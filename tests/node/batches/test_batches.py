"""Batches as operators use them: counted first, refused with reasons, stopped (BA-1 to BA-8)."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.host.folder.folder import open_folder
from aos.node.batches.batch import BatchFiles, BatchItem, BatchJob, BatchOrder, stop_batches
from aos.node.batches.batch_runner import with_key
from tests.cli.shell import Result, here
from tests.cli.test_commands import GARBAGE, send
from tests.cli.test_node_commands import served
from tests.host import puppet
from tests.host.conftest import template, world

__all__ = ["template", "world"]

EVENT = json.dumps({"key": {"$cell": "key"}, "out": None, "trap": None})


@pytest.fixture
def lived_in(world: Path) -> Path:
    """Three instances have failed, one is idle, four wait for two effects each."""
    send(
        world,
        *(puppet.do(f"f-{n}", GARBAGE) for n in range(3)), puppet.do("idle"),
        *(puppet.do(f"w-{n}", puppet.asks("one", "two")) for n in range(4)),
    )  # fmt: skip
    return world


@pytest.fixture
def node(lived_in: Path) -> Iterator[Path]:
    with served(lived_in, "--operator-key", lived_in / "keys" / "operator.key"):
        yield lived_in


def batch(path: Path, *words: str) -> Result:
    return here("batch", *words, "--world", path)


def statuses(path: Path) -> dict[str, str]:
    rows = here("inspect", "cells", "--json", "--world", path).json["cells"]
    return {row["key"]: row["status"] for row in rows}


def test_a_dry_run_counts_and_changes_nothing(node: Path) -> None:
    """BA-2"""
    before = statuses(node)

    retried = batch(node, "retry", "--dry-run", "--json")
    one = batch(node, "retry", "--workflow", "puppet", "--where", "key ^= f-1", "--dry-run")
    effects = batch(node, "cancel-effects", "--effect", "echo", "--dry-run", "--json")
    sent = batch(node, "send", puppet.DO, EVENT, "--workflow", "puppet", "--dry-run", "--json")

    assert retried.json["total"] == 3
    assert [each["key"] for each in retried.json["first"]] == ["f-0", "f-1", "f-2"]
    assert "1 item; nothing was changed" in one.err
    assert one.out == f'{puppet.PUPPET} "f-1"\n'
    assert effects.json["total"] == 8
    assert all(each["intent"].startswith("blake3:") for each in effects.json["first"])
    assert sent.json["total"] == 8
    assert statuses(node) == before
    assert batch(node, "list").err == "0 batches\n"


def test_a_batch_is_for_the_cells_of_one_fault(lived_in: Path) -> None:
    """BA-2, SE-5"""
    rows = here("inspect", "faults", "--json", "--world", lived_in).json["faults"]
    record, message = rows[-1]["record"], json.dumps(rows[0]["message"])
    with served(lived_in):

        def total(where: str) -> int:
            words = ("retry", "--workflow", "puppet", "--dry-run", "--json", "--where", where)
            found: int = batch(lived_in, *words).json["total"]
            return found

        assert total(f"fault_message = {message} and fault_record <= {record}") == 1
        assert total(f"fault_message = {message}") == 3
        assert total(f"fault_record < {record}") == 0


def test_each_action_is_done_for_its_cells(node: Path) -> None:
    """BA-1 to BA-4"""
    skipped = batch(node, "skip", "--where", "fault = output_malformed", "--wait", "--json")
    canceled = batch(node, "cancel-effects", "--where", "key = w-1", "--wait", "--json")
    words = ("--workflow", "puppet", "--where", "key in (idle, f-0)", "--id", "sent", "--wait")
    sent = batch(node, "send", puppet.DO, EVENT, *words, "--json")
    unpinned = batch(node, "unpin", "--wait", "--json")

    assert (skipped.code, skipped.json["done"], skipped.json["status"]) == (0, 3, "done"), skipped
    assert (canceled.code, canceled.json["done"]) == (0, 2)
    assert (sent.code, sent.json["done"], sent.json["refused"]) == (0, 1, 0)
    assert (unpinned.code, unpinned.json["total"]) == (0, 0)
    assert not {"f-0", "f-1", "f-2"} & set(statuses(node))  # they had nothing but that entry
    shown = here("inspect", "intents", "--json", "--world", node).json
    assert Counter(each["key"] for each in shown["intents"]) == {"w-0": 2, "w-2": 2, "w-3": 2}
    assert [each["id"] for each in batch(node, "list", "--json").json["batches"]][1] == "sent"
    assert batch(node, "show", "sent").out.splitlines()[2] == "status  done: 1 of 1 done"


def test_refusals_of_the_world_are_counted_with_their_reasons(node: Path) -> None:
    """BA-6"""
    first = batch(node, "retry", "--where", "key = f-0", "--wait", "--json")
    again = batch(node, "retry", "--wait", "--rate", "100/s")

    # The entry that failed fails again, so the cell can be retried again.
    assert (first.code, first.json["done"]) == (0, 1)
    assert again.code == 0
    assert "3 of 3 done" in again.out
    bad = json.dumps({"key": {"$cell": "key"}, "out": 5})
    misfit = batch(node, "send", puppet.DO, bad, "--workflow", "puppet")
    assert (misfit.code, misfit.out) == (1, "")
    assert "out" in misfit.err
    taken = json.dumps({"key": {"$cell": "key"}})
    given = ("send", puppet.DO, taken, "--workflow", "puppet", "--id", "x", "--wait", "--json")
    assert batch(node, *given).json["done"] == 8


def test_one_id_is_one_batch(node: Path) -> None:
    """BA-7"""
    words = ("retry", "--where", "key = f-0", "--id", "once", "--wait", "--json")
    first, again = batch(node, *words), batch(node, *words)
    other = batch(node, "skip", "--id", "once")

    assert again.json == first.json
    assert (other.code, "once is another batch" in other.err) == (1, True)
    assert batch(node, "show", "never").code in (1, 2)
    assert "there is no batch never" in batch(node, "show", "never").err


def test_a_stopped_batch_leaves_the_rest(node: Path) -> None:
    """BA-4, BA-8"""
    # A stop that waited for the next item would be too late for its client.
    words = ("--workflow", "puppet", "--rate", "1/h", "--id", "slow")
    batch(node, "send", puppet.DO, EVENT, *words)
    stopped = batch(node, "stop", "slow", "--json").json

    assert stopped["status"] == "stopped"
    assert 0 <= stopped["done"] < 8
    assert stopped["done"] + stopped["left"] == 8
    assert batch(node, "stop", "slow", "--json").json == stopped
    assert batch(node, "show", "slow", "--wait").code == 1


def test_a_batch_that_does_not_fit_is_refused_with_the_reason(node: Path) -> None:
    """BA-1, BA-2, BA-3"""
    wrong: list[tuple[tuple[str, ...], str]] = [
        (("cancel-effects",), "expected at least one of workflow, where and effect"),
        (("retry", "--where", "nothing = 1"), "where, column 1"),
        (("retry", "--workflow", "nothing"), "nothing"),
        (("retry", "--rate", "fast"), "rate: expected text such as"),
        (("retry", "--id", "a/b"), "id"),
        (("send", puppet.DO, '{"key": {"$cell": "name"}}', "--workflow", "puppet"), "$cell"),
        (("send", "no/Such@1", "{}", "--workflow", "puppet"), "no/Such@1"),
        (("send", puppet.DO, "{", "--workflow", "puppet"), "VALUE"),
        (("cancel-effects", "--effect", "never"), "never"),
        (("retry", "--dry-run", "--wait"), "--dry-run begins no batch"),
    ]
    for words, expected in wrong:
        found = batch(node, *words)
        assert found.code in (1, 2), words
        assert expected in found.err, (words, found.err)
    assert batch(node, "list").err == "0 batches\n"


def test_without_a_key_of_an_operator_only_events_go(lived_in: Path) -> None:
    """BA-1"""
    with served(lived_in):
        refused = batch(lived_in, "retry")
        sent = batch(lived_in, "send", puppet.DO, EVENT, "--workflow", "puppet", "--wait")

    assert (refused.code, "--operator-key" in refused.err) == (1, True), refused
    assert sent.code == 0
    assert "8 of 8 done" in sent.out


def test_a_batch_waits_for_the_key_of_an_operator(lived_in: Path) -> None:
    """BA-5, BA-6: a node without it keeps the batch, and the next one with it continues."""
    key = lived_in / "keys" / "operator.key"
    with served(lived_in, "--operator-key", key):
        batch(lived_in, "retry", "--rate", "2/min", "--id", "slow")
    with served(lived_in):
        until = time.monotonic() + 90
        while (found := batch(lived_in, "show", "slow", "--json").json)["problem"] is None:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert found["status"] == "running"
        assert "--operator-key" in found["problem"]
        assert batch(lived_in, "stop", "slow", "--json").json["status"] == "stopped"


def test_damaged_files_end_a_batch_and_no_other(lived_in: Path) -> None:
    """BA-8"""
    key = lived_in / "keys" / "operator.key"
    folder = lived_in / "node" / "batches"
    with served(lived_in, "--operator-key", key):
        for name in ("a", "b", "c"):
            batch(lived_in, "retry", "--rate", "1/h", "--id", name)
    (folder / "a" / "items").write_text('["x"]\n')
    (folder / "b" / "batch.json").write_text("{}")
    row = json.loads((folder / "c" / "batch.json").read_text())
    assert row["status"] == "running"
    (folder / "c" / "batch.json").write_text(json.dumps(row | {"seq": 10**9}))
    with served(lived_in, "--operator-key", key):
        ends = {each: batch(lived_in, "show", each, "--wait", "--json") for each in "ac"}
        gone = batch(lived_in, "show", "b")

    assert {each.json["status"] for each in ends.values()} == {"failed"}
    assert "damaged" in ends["a"].json["problem"]
    assert "older backup" in ends["c"].json["problem"]
    assert "there is no batch b" in gone.err


def test_adopting_a_copy_stops_its_batches(world: Path) -> None:
    """BA-8"""
    folder = open_folder(world)
    files = BatchFiles(folder)
    item = BatchItem((puppet.PUPPET, b"\x61a"))
    given: Any = {"order": BatchOrder(action="retry"), "created_ns": 1, "token": "t", "seq": 1}
    files.begin(BatchJob(id="open", total=1, **given), [item.to_line()])
    files.begin(BatchJob(id="over", total=0, status="done", **given), [])

    stop_batches(folder, 5)

    found, damaged = files.load()
    assert damaged == []
    assert {each.id: each.status for each in found} == {"open": "stopped", "over": "done"}
    assert files.items(found[0]) == [item]
    assert found[0].ended_ns == 5


def test_keys_are_put_into_values() -> None:
    """BA-3"""
    other = {"$cell": "key", "e": 1}
    value = {"a": [{"$cell": "key"}, 1], "b": {"c": {"$cell": "key"}}, "d": other}

    found = with_key(value, {"k": 1})

    assert found == {"a": [{"k": 1}, 1], "b": {"c": {"k": 1}}, "d": other}
