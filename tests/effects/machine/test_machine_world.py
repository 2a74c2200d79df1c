"""A world whose workflow uses this machine: ``aos run --host-root`` (AG-60, AG-106, AG-107)."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aos.author.world_child import Order, _executors
from aos.effects.machine.command_guard import descendants
from aos.errors import BadUsage
from aos.host.executors.enclosures import no_blobs
from aos.host.executors.python import PythonExecutor
from aos.values.digests import content_hash
from aos.worker.host_root import host_environment, with_machine
from tests.cli.shell import Result, here, run, start
from tests.effects.machine.bench import inline, tagged
from tests.host.puppet import DO, asks_for, files

OPEN, EXEC = "sys/host.session.open@1", "sys/host.exec@1"
WRITE, READ = "sys/host.fs.write_file@1", "sys/host.fs.read_file@1"
TAG = f"AOS_TEST_TAG=machine-world-{os.getpid()}"


class MachineWorld:
    """A world and a root next to it."""

    def __init__(self, folder: Path) -> None:
        self.world, self.root = folder / "world", folder / "root"
        self.root.mkdir()
        manifest = folder / "manifest"
        manifest.mkdir()
        for name, data in files(effects=(OPEN, EXEC, WRITE, READ)).items():
            (manifest / name).write_bytes(data)
        assert here("init", self.world).code == 0
        assert here("apply", manifest, "--world", self.world).code == 0

    def request(self, key: str, out: bytes) -> None:
        value = json.dumps({"key": key, "out": base64.b64encode(out).decode()})
        assert here("send", DO, value, "--world", self.world).code == 0

    def run(self) -> Result:
        where = ("--host-root", self.root, "--world", self.world)
        done = here("run", "--until-idle", "--max-wait", "60s", "--json", *where)
        assert done.code == 0, done.err
        return done

    def open(self, **target: Any) -> str:
        """Let the workflow open a session; return its id."""
        self.request("opens", asks_for((OPEN, local(**target))))
        self.run()
        return str(self.receipts(OPEN)[-1]["session_id"])

    def settled(self, effect: str, params: Any) -> Any:
        """Let the workflow request an effect of the running world; wait for its receipt."""
        before = len(self.receipts(effect))
        self.request(effect, asks_for((effect, params)))
        _until(lambda: len(self.receipts(effect)) > before)
        return self.receipts(effect)[-1]

    def receipts(self, effect: str) -> list[Any]:
        """The payloads of an effect's receipts, each of which the world settled as ``ok``."""
        where = ("--kind", "receipt", "--limit", "100", "--world", self.world)
        shown = here("inspect", "journal", "--json", *where).lines
        found = [each for each in shown if each["effect"] == effect]
        assert {each["status"] for each in found} <= {"ok"}
        return [each["payload"] for each in found]


@pytest.fixture
def world(tmp_path: Path) -> MachineWorld:
    return MachineWorld(tmp_path)


def local(**changes: Any) -> Any:
    return {"target": {"$tag": "local", "$value": {"network_mode": "host", **changes}}}


def test_a_workflow_opens_writes_runs_and_reads(world: MachineWorld) -> None:
    """AG-60, AG-62. The world verifies and replays without the machine."""
    text = "echo hello $WHO > out.txt; echo ran; exit 3\n"
    process = start("run", "--host-root", world.root, "--world", world.world)
    try:
        opened = world.settled(OPEN, local(env={"WHO": "you"}))
        session = {"session_id": opened["session_id"]}
        wrote = world.settled(WRITE, {**session, "path": "hello.sh", "content": inline(text)})
        argv = ["/bin/sh", "hello.sh"]
        ran = world.settled(EXEC, {**session, "argv": argv, "output_mode": "blob"})
        read = world.settled(READ, {**session, "path": "out.txt"})
    finally:
        process.terminate()
        assert process.wait(120) == 0

    assert wrote["created"] is True
    assert (ran["status"], ran["exit_code"], ran["error_code"]) == ("ok", 3, None)
    blob = ran["stdout"]["$value"]["blob_ref"]
    assert run("inspect", "value", blob, "--raw", "--world", world.world).out == "ran\n"
    assert read["content"] == inline("hello you\n")
    assert here("verify", "--world", world.world).code == 0
    assert here("replay", "--world", world.world).code == 0


def test_without_a_root_the_effect_waits_and_the_option_is_named(world: MachineWorld) -> None:
    """AG-60: with no executor, and with one that has no root. It runs once it has one."""
    world.request("a", asks_for((OPEN, local())))
    plain = here("run", "--until-waiting", "--json", "--world", world.world)
    spec = ("--executors", "aos.effects.machine:machine")
    held = here("run", "--until-waiting", "--json", *spec, "--world", world.world)

    assert "sys/host.session.open@1: no executor (--host-root DIR)" in plain.err
    assert (plain.json["waiting"], plain.json["halted"]) == ({OPEN: 1}, [])
    assert held.json["halted"] == [
        {"effect": OPEN, "phase": "held", "code": "host_root_missing", "count": 1}
    ]
    assert "restart it with --host-root DIR" in held.err
    trace = here("trace", "host/puppet@1", "a", "--world", world.world)
    outside = here("run", "--host-root", world.world.parent, "--world", world.world)
    assert world.run().json["open_intents"] == 0
    assert world.receipts(OPEN)[0]["status"] == "ready"
    assert "--host-root DIR" in trace.out
    assert (outside.code, "expected a folder apart from the world" in outside.err) == (2, True)


@pytest.mark.parametrize("root", ["none", "world", "world/x", "."])
def test_a_root_that_is_none_or_holds_the_world_is_refused(tmp_path: Path, root: str) -> None:
    """AG-60: the keys of the world are no files of its workflows."""
    (tmp_path / "world" / "x").mkdir(parents=True)

    with pytest.raises(BadUsage) as refused:
        host_environment(tmp_path / root, tmp_path / "world")

    assert str(refused.value).startswith(f"--host-root {tmp_path / root}: expected a folder")


def test_a_root_adds_the_executor_once(tmp_path: Path) -> None:
    """AG-60: and its process gets the root and the folder of sessions."""
    (tmp_path / "root").mkdir()

    found = host_environment(tmp_path / "root", tmp_path / "world")

    assert found is not None
    assert found["AOS_HOST_ROOT"] == str(tmp_path / "root")
    assert found["AOS_HOST_STATE"] == str(tmp_path / "world" / "machine")
    assert host_environment(None, tmp_path) is None
    assert with_machine(["a:b"], tmp_path) == ["a:b", "machine"]
    for spec in ("machine", "aos.effects.machine:machine"):
        assert with_machine([spec], tmp_path) == [spec]
    assert with_machine(["a:b"], None) == ["a:b"]


def test_a_scratch_world_may_have_a_root_too(tmp_path: Path) -> None:
    """AG-60: ``aos dev``."""
    (tmp_path / "root").mkdir()
    order = Order(
        world=str(tmp_path / "world"), executors=["a:b"], host_root=str(tmp_path / "root")
    )

    found = _executors(Order.from_text(order.to_text()), no_blobs, content_hash(b""))

    names = [each.name for each in found if isinstance(each, PythonExecutor)]
    assert names == ["a:b", "machine"]


def test_a_killed_executor_leaves_no_process_and_does_not_run_a_command_again(
    world: MachineWorld,
) -> None:
    """AG-106, AG-107: its next process answers."""
    name, value = TAG.split("=")
    session = world.open(env={name: value})
    script = "trap '' TERM; echo x >> ran; setsid sleep 61 & sleep 62; sleep 63"
    world.request("a", asks_for((EXEC, {"session_id": session, "argv": ["/bin/sh", "-c", script]})))
    where = ("--host-root", world.root, "--world", world.world)
    process = start("run", "--until-idle", *where, stderr=subprocess.PIPE)
    try:
        _until(lambda: len(tagged(TAG)) >= 3)
        (executor,) = (
            pid for pid in descendants(process.pid, 0) if "aos.worker.child" in _command(pid)
        )
        os.kill(executor, signal.SIGKILL)
        _, told = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    _until(lambda: not tagged(TAG))

    assert process.returncode == 0
    assert b"died" in told
    (receipt,) = world.receipts(EXEC)
    assert (receipt["status"], receipt["error_code"]) == ("lost", "exec_lost")
    assert (world.root / "ran").read_text() == "x\n"


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _until(holds: Callable[[], bool], within_s: float = 120) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
