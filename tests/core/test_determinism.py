"""The same inputs and drains give the same bytes in every process (K-7)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from aos.core.journal.records import Receipt
from tests.core.decide.test_effects import BUYER, PAID, buyers, order
from tests.core.decide.test_isolation import folded, same, settle, shopper

ROOT = Path(__file__).parent.parent.parent


def journal() -> str:
    """The frame hashes of a world that uses most features of the core."""
    world = buyers(shopper)
    for i in range(40):
        world.send("t/Buy@1", {"key": f"k{i % 7}", "n": i % 4}, submission_id=f"s{i % 30}")
        if i % 5 == 0:
            world.run()
        for intent in world.open()[::3]:
            settle(world, intent)
        if i % 11 == 10 and world.open():
            world.settle(world.open()[0], {"ref": 5})
    world.run()
    return "\n".join(frame.hash.hex() for frame in world.frames)


def test_journals_are_the_same_under_every_hash_seed() -> None:
    code = "from tests.core.test_determinism import journal; print(journal())"
    found = set()
    for seed in ["0", "1", "4242"]:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT}:{ROOT}/kernel"}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, check=True
        )
        found.add(done.stdout)
    assert len(found) == 1
    assert found == {f"{journal()}\n".encode()}


def test_the_same_entropy_and_clock_are_drawn_nowhere_else() -> None:
    assert journal() == journal()


def test_a_restart_continues_as_if_nothing_had_happened() -> None:
    """Fold after any frame, then continue: the journal is the same as without a restart (K-2)."""
    straight, broken = buyers(), buyers()
    for i in range(6):
        for world in (straight, broken):
            order(world, f"k{i % 3}", i)
            if i % 2:
                world.settle(world.open()[0], PAID)
        state = folded(broken)
        pending = broken.kernel.pending_records
        if pending == 0:
            same(broken.state, state)
            broken.restart()
    for world in (straight, broken):
        world.run()

    assert [frame.to_bytes() for frame in straight.frames] == [
        frame.to_bytes() for frame in broken.frames
    ]
    assert any(isinstance(each, Receipt) for each in broken.records())
    assert broken.cell(BUYER, "k1").status in ("running", "waiting")
