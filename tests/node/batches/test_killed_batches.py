"""Batches over kills of the front and the kernel process: each cell's action once (BA-5)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Control, Event, slot_bytes
from aos.host.folder.reader import open_reader
from aos.values.cbor import decode_record
from tests.cli.shell import Result, here
from tests.cli.test_commands import GARBAGE, send
from tests.host import puppet
from tests.host.conftest import template, world
from tests.node.test_node_process import started, wait_until
from tests.run_seed import rotated
from tests.tools import long_form

__all__ = ["template", "world"]

CELLS = 100
KILLS = 30 if long_form() else 6
EVENT = json.dumps({"key": {"$cell": "key"}, "out": None, "trap": None})
ORDERS = {
    "retry": ("retry",),
    "cancel": ("cancel-effects", "--workflow", "puppet"),
    "send": ("send", puppet.DO, EVENT, "--workflow", "puppet"),
}


def make_cells(path: Path, action: str) -> None:
    out = GARBAGE if action == "retry" else puppet.asks("one") if action == "cancel" else None
    send(path, *(puppet.do(f"k-{n:03}", out) for n in range(CELLS)))


def acted_on(path: Path, action: str, after: int) -> Counter[object]:
    """How often each cell, or each effect, was acted on since record ``after``."""
    found: Counter[object] = Counter()
    with open_reader(path) as reader:
        for frame in reader.store.frames(after + 1):
            for record in map(from_bytes, frame.records):
                if isinstance(record, Control):
                    found[record.cell or record.intent] += 1
                elif isinstance(record, Event) and action == "send":
                    assert record.submission_id is not None
                    assert record.submission_id.startswith("batch:killed:")
                    value: Any = decode_record(slot_bytes(record.value, reader.store.blob))
                    found[value["key"]] += 1
    return found


def shown(path: Path) -> Result:
    return here("batch", "show", "killed", "--json", "--world", path)


@pytest.mark.long
@pytest.mark.parametrize("action", rotated(sorted(ORDERS)))
def test_each_item_is_acted_on_once(world: Path, tmp_path: Path, action: str) -> None:
    """BA-4, BA-5"""
    chosen = random.Random(f"{action} {KILLS}")
    make_cells(world, action)
    with open_reader(world) as reader:
        before = reader.seq
    key = world / "keys" / "operator.key"
    with contextlib.ExitStack() as stack:
        options = ("--operator-key", key)
        node = stack.enter_context(started(world, tmp_path / "node-0", *options))
        words = (*ORDERS[action], "--rate", "60/s", "--id", "killed")
        wait_until(lambda: here("batch", *words, "--world", world).code == 0)
        for kill in range(KILLS):
            time.sleep(chosen.uniform(0, 0.4))
            if kill % 3 < 2:  # a node ends whose front dies five times in a row
                wait_until(node.fronts)
                for pid in node.fronts():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            else:
                stack.close()
                log = tmp_path / f"node-{kill + 1}"
                node = stack.enter_context(started(world, log, *options))
        wait_until(lambda: shown(world).code == 0 and shown(world).json["status"] == "done")
        found = shown(world).json

    assert (found["total"], found["done"], found["refused"]) == (CELLS, CELLS, 0)
    times = acted_on(world, action, before)
    assert (len(times), set(times.values())) == (CELLS, {1})
