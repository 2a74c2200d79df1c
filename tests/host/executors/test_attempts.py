"""Attempts and at-most-once under kill -9 of node and worker (K-95 to K-97, X-12 to X-14)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cbor2
import pytest

import aos
from aos.core.decide.answers import Admitted
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import (
    Attempt,
    KernelReceipt,
    Receipt,
    Record,
    Step,
    Stream,
    slot_bytes,
)
from aos.host.door.writer import open_writer
from aos.host.folder.reader import open_reader
from aos.manifest.load import Loaded, load
from aos.values.cbor import encode
from aos.values.digests import hash_text
from tests.host import attempt_host
from tests.host.puppet import PUPPET, asks, do, files
from tests.run_seed import in_turns

ONCE, RETRIED, PLAIN = "host/once@1", "host/retried@1", "host/plain@1"
RUN_S = 120.0


def manifest() -> Loaded:
    """The puppet with an effect that may run once, one that is retried, and an arm for streams."""
    given = files(effects=(ONCE, RETRIED, PLAIN))
    nodes: list[dict[str, Any]] = json.loads(given["m.air.json"])
    by_name = {node.get("name"): node for node in nodes}
    by_name[ONCE]["delivery"] = "at_most_once"
    by_name[RETRIED]["retry"] = {"attempts": 3, "base_ms": 1, "cap_ms": 2}
    by_name["host/Event@1"]["type"]["variant"]["Told"] = {"ref": "sys/EffectStreamFrame@1"}
    return load({**given, "m.air.json": json.dumps(nodes).encode()})


@dataclass
class Ran:
    """A world after its runs, and the notes of its effects."""

    world: Path
    folder: Path

    def lines(self, name: str) -> list[tuple[str, int]]:
        file = self.folder / name
        found = file.read_text().splitlines() if file.exists() else []
        return [(line.split()[0], int(line.split()[1])) for line in found]

    def records(self) -> list[Record]:
        with open_reader(self.world) as reader:
            return [from_bytes(data) for frame in reader.store.frames() for data in frame.records]

    def answers(self) -> list[tuple[str, int | None, str | None]]:
        """(status, attempt, error code) of everything that settled an intent."""
        found: list[tuple[str, int | None, str | None]] = []
        with open_reader(self.world) as reader:
            for record in self.records():
                if isinstance(record, Receipt | KernelReceipt):
                    payload = cbor2.loads(slot_bytes(record.payload, reader.store.blob))
                    attempt = record.attempt if isinstance(record, Receipt) else None
                    found.append((record.status, attempt, payload.get("code")))
        return found

    def attempts(self) -> list[tuple[str, int]]:
        return [(each.phase, each.attempt) for each in self.records() if isinstance(each, Attempt)]


@pytest.fixture
def asked(world: Path) -> Path:
    with open_writer(world) as writer:
        assert isinstance(writer.apply(manifest()).answer, Admitted)
    return world


def send(world: Path, *words: str, effect: str, key: str = "a") -> None:
    with open_writer(world) as writer:
        (answer,) = writer.send([do(key, asks(*words, effect=effect))])
    assert isinstance(answer, Admitted)


def host_here(world: Path, folder: Path, plan: str) -> list[str]:
    """Run the world in this process until it is idle; return its report."""
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTEMPTS_FOLDER", str(folder))
        patch.setenv("ATTEMPTS_PLAN", plan)
        ended = asyncio.run(asyncio.wait_for(attempt_host.host(world, report=lines.append), RUN_S))
    assert ended.is_idle
    assert ended.refused == {}
    assert not any("refused" in line for line in lines), lines
    return lines


def host_once(world: Path, folder: Path, plan: str, point: str = "never", who: str = "node") -> int:
    """Run the world in a process of its own until it is idle or killed; its exit code."""
    roots = [Path(aos.__file__).parents[1], Path(__file__).parents[3]]
    done = subprocess.run(
        [sys.executable, "-m", "tests.host.attempt_host", world, point, who],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, roots)),
            "ATTEMPTS_FOLDER": str(folder),
            "ATTEMPTS_PLAN": plan,
        },
        capture_output=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode


UNKNOWN = ("error", None, "unknown_outcome")
OK = ("ok", 1, None)


@dataclass(frozen=True)
class Kill:
    """A process to kill, the point, and the result: runs of the effect and the answer."""

    who: str
    plan: str
    point: str
    happened: int
    answer: tuple[str, int | None, str | None]


KILLS = [
    Kill("node", "ok", "before-begin", 1, OK),
    Kill("node", "ok", "after-begin", 0, UNKNOWN),
    Kill("node", "before:node", "never", 0, UNKNOWN),
    Kill("node", "after:node", "never", 1, UNKNOWN),
    Kill("node", "ok", "before-settle", 1, UNKNOWN),
    Kill("node", "ok", "after-settle", 1, OK),
    Kill("child", "ok", "before-begin", 1, OK),
    Kill("child", "ok", "after-begin", 0, UNKNOWN),
    Kill("child", "before:child", "never", 0, UNKNOWN),
    Kill("child", "after:child", "never", 1, UNKNOWN),
    Kill("child", "ok", "before-settle", 1, OK),
    Kill("child", "ok", "after-settle", 1, OK),
]


@pytest.mark.long
@pytest.mark.parametrize(
    "kill", in_turns(3, KILLS), ids=lambda kill: f"{kill.who}-{kill.plan}-{kill.point}"
)
def test_an_effect_that_may_run_once_happens_at_most_once_and_is_answered_once(
    asked: Path, tmp_path: Path, kill: Kill
) -> None:
    """K-97: wherever the node or its worker is killed."""
    send(asked, "x", effect=ONCE)

    code = host_once(asked, tmp_path, kill.plan, kill.point, kill.who)
    assert code == (-signal.SIGKILL if kill.who == "node" else 0)
    if code:
        host_here(asked, tmp_path, kill.plan)

    ran = Ran(asked, tmp_path)
    assert len(ran.lines("done")) == kill.happened
    assert len(ran.lines("runs")) <= 1
    assert ran.answers() == [kill.answer]
    lost = [("lost", 1)] if kill.answer == UNKNOWN else []
    assert ran.attempts() == [("begun", 1), *lost]
    with open_reader(asked) as reader:
        assert reader.state.intents == {}
        told = sum(isinstance(each, Stream) for each in ran.records())
        # One step asked, one took the answer, one each stream frame.
        assert reader.state.cells[PUPPET, encode("a")].state == encode(2 + told)


def test_attempts_and_their_budget_survive_kills_of_the_node(asked: Path, tmp_path: Path) -> None:
    """K-95, K-96, X-13: numbers never go down, and a crash repeats an attempt."""
    plan = "fail,after:node,fail,before:node,ok"
    send(asked, "x", effect=RETRIED)

    codes = [host_once(asked, tmp_path, plan) for _ in range(3)]

    ran = Ran(asked, tmp_path)
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert [attempt for _, attempt in ran.lines("runs")] == [1, 2, 2, 3, 3]
    assert ran.attempts() == [("begun", 2), ("begun", 3)]
    assert ran.answers() == [("ok", 3, None)]
    assert [each.problem for each in ran.records() if isinstance(each, Attempt)] == [
        "transport: ConnectionError: as planned"
    ] * 2
    frames = [each for each in ran.records() if isinstance(each, Stream)]
    numbers = [each.frame_seq for each in frames]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] >> 32 == 3


def test_an_intent_is_run_no_more_often_than_attempts_and_crashes_allow(
    asked: Path, tmp_path: Path
) -> None:
    plan = "fail,fail,after:node,after:child,after:node,fail"
    send(asked, "x", effect=RETRIED)

    codes = [host_once(asked, tmp_path, plan) for _ in range(3)]

    ran = Ran(asked, tmp_path)
    runs = [attempt for _, attempt in ran.lines("runs")]
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert runs == [1, 2, 3, 3, 4, 4]
    assert len(runs) <= 3 + 3
    assert [attempt for _, attempt in ran.attempts()] == [2, 3, 4]
    assert ran.answers() == [("error", 4, "transport")]


def test_many_that_were_lost_are_settled_and_the_others_run(asked: Path, tmp_path: Path) -> None:
    send(asked, *"abcdef", effect=ONCE)
    assert host_once(asked, tmp_path, "ok,ok,after:node") == -signal.SIGKILL
    send(asked, *"uvw", effect=RETRIED, key="b")
    host_here(asked, tmp_path, "ok")

    ran = Ran(asked, tmp_path)
    single = {
        hash_text(intent.intent)
        for record in ran.records()
        if isinstance(record, Step)
        for intent in record.intents
        if intent.effect == ONCE
    }
    happened = Counter(intent for intent, _ in ran.lines("done"))
    assert len(single) == 6
    assert max(happened[intent] for intent in single) == 1
    assert len(set(happened) - single) == 3
    answers = Counter(ran.answers())
    assert answers.total() == 9
    assert set(answers) == {OK, UNKNOWN}
    # The one that was killed, and those whose receipt was on its way.
    assert 1 <= answers[UNKNOWN] <= 3
