"""Several processes on one world, and the ways in which one ends (C-1, C-10, C-25, C-38)."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aos.errors import Unavailable
from aos.host.door.remote import ask_running
from aos.host.door.writer import open_writer
from tests.cli.shell import Aos, run, start
from tests.host import puppet

TIMEOUT_S = 90.0


def eventually(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := holds()):
        assert time.monotonic() < deadline, f"it took too long until {what}"
        time.sleep(0.1)
    return found


@contextlib.contextmanager
def running(world: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """``aos run``, once it answers on its socket."""
    process = start("run", *words, "--world", world, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        eventually(lambda: process.poll() is not None or answers(world), "the world runs")
        yield process
    finally:
        process.kill()
        process.communicate()


def answers(world: Path) -> bool:
    with contextlib.suppress(Unavailable):
        return bool(ask_running(world, "status"))
    return False


def test_a_running_world_is_written_through_its_socket_and_read_in_parallel(
    aos: Aos, world: Path, manifest: Path, echoes: str
) -> None:
    """C-10, C-22, C-25"""
    with running(world, "--executors", echoes) as process:
        second = aos("run", "--until-idle", world=world)
        sent = aos("send", puppet.DO, '{"key": "ada"}', world=world)
        applied = aos("apply", manifest, world=world)
        eventually(
            lambda: aos("inspect", "cell", "puppet", "ada", "--json", world=world).json["state"],
            "the event is run",
        )
        shown = aos("inspect", "world", "--json", world=world).json
        verified = aos("verify", world=world)
        replayed = aos("replay", world=world)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=TIMEOUT_S)

    assert second.code == 4
    assert second.out == ""
    assert f"the world is written by pid {process.pid} on " in second.err
    assert (sent.code, sent.out) == (0, "4  → host/puppet@1 ada\n")
    assert (applied.code, applied.out.splitlines()[0]) == (0, "nothing changes")
    assert shown["process"]["pid"] == process.pid
    assert (verified.code, replayed.code) == (0, 0)
    assert process.returncode == 0
    assert out.startswith(b"stopped at record ")


def test_ctrl_c_stops_a_run_cleanly(world: Path) -> None:
    """C-1, C-25"""
    with running(world) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 0
    assert out == b"stopped at record 3: 0 steps, 0 receipts, 0 effects open\n"
    assert err.decode().splitlines() == [
        f"running {world} from record 2 (Ctrl-C stops it)",
        "this process cannot run these effects, which stay open:",
        "  host/echo@1: no executor (--executors MODULE:ATTR)",
    ]


COMMAND_INTERRUPTED_IN_EXEC = """
import sys, types
main = types.ModuleType("aos_cli.main")
main.main = lambda: exec("raise KeyboardInterrupt")
sys.modules["aos_cli.main"] = main
"""


def test_ctrl_c_within_an_exec_of_text_ends_a_command_as_any_other(tmp_path: Path) -> None:
    """C-1: it comes while a module that makes dataclasses is imported, for example."""
    (tmp_path / "sitecustomize.py").write_text(COMMAND_INTERRUPTED_IN_EXEC)

    ended = run("run", env={"PYTHONPATH": str(tmp_path)})

    assert (ended.code, ended.err) == (130, "aos: interrupted\n")


def test_after_kill_9_the_world_resumes_from_its_last_durable_record(
    aos: Aos, world: Path, echoes: str
) -> None:
    """C-1, C-25"""
    with running(world) as process:
        sent = aos("send", puppet.DO, '{"key": "ada"}', "--id", "once", world=world)
        process.kill()
        process.wait()

    after_kill = aos("inspect", "world", "--json", world=world).json
    again = aos("send", puppet.DO, '{"key": "ada"}', "--id", "once", world=world)
    run = aos("run", "--until-idle", "--executors", echoes, world=world)

    assert sent.code == 0
    assert after_kill["process"] is None
    assert again.out == f"{sent.out.split()[0]}  sent before\n"
    assert run.code == 0
    assert aos("inspect", "cell", "puppet", "ada", "--json", world=world).json["state"] == 1
    assert aos("replay", world=world).code == 0
    assert aos("verify", world=world).code == 0


def test_a_followed_journal_tells_what_comes_until_ctrl_c(aos: Aos, world: Path) -> None:
    """C-38"""
    process = start(
        "inspect", "journal", "--follow", "--workflow", "puppet", "--key", "bob", "--json",
        "--world", world, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        lines = []
        for number in range(2):
            aos("send", puppet.DO, '{"key": "ada"}', world=world)
            aos("send", puppet.DO, '{"key": "bob"}', world=world)
            if number == 0:
                # It may have begun after these records: it prints the earlier ones as well.
                lines.append(json.loads(process.stdout.readline()))
        lines.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()

    assert [each["seq"] for each in lines] == [4, 6]
    assert (process.returncode, rest, err) == (0, b"", b"")


SLOW = """
import asyncio
from aos.worker import Executors, effect

@effect("host/echo@1", concurrency=1, timeout_s=3600)
async def echo(params, ctx):
    await asyncio.sleep(3600)

slow = Executors("slow", [echo])
"""


def phases_of(world: Any) -> dict[str, int] | None:
    """The numbers of the executor's tasks; None before it has both, one after the other."""
    work = world["process"]["executors"].get("test", {})
    return {phase: each["number"] for phase, each in work.items()} if len(work) == 2 else None


def test_the_work_of_executors_is_shown_while_a_process_runs_the_world(
    aos: Aos, world: Path, tmp_path: Path
) -> None:
    """C-31, A-51a: one effect runs, the other is queued."""
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    with open_writer(world) as writer:
        list(writer.send([puppet.do(key, puppet.asks(key)) for key in ("one", "two")]))

    with running(world, "--executors", f"{file}:slow"):
        shown = eventually(
            lambda: phases_of(aos("inspect", "world", "--json", world=world).json),
            "one effect runs, the other is queued",
        )
        text = aos("inspect", "world", world=world).out
        rows = aos("inspect", "intents", "--json", world=world).json["intents"]
        why = [aos("inspect", "intent", each["intent"], world=world).out for each in rows]

    assert shown == {"running": 1, "queued": 1}
    assert re.search(
        r"^  executor test\t2 open, the oldest for .*; 1 queued, the oldest for .*; "
        r"1 running, the oldest for ",
        text,
        re.MULTILINE,
    )
    assert re.search(r"; in its first attempt, since .*, limit 1 h ▸ to cancel it: ", why[0])
    assert "; the process that runs the world has it queued ▸ to cancel it: " in why[1]
    assert not any("aos run" in each for each in why)
    after = aos("inspect", "world", "--json", world=world).json
    assert after["process"] is None
    assert after["intents"]["by_executor"]["test"]["open"] == 2
