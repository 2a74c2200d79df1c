"""``sys/host.exec@1`` (AG-103 to AG-109), with commands that do not want to end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aos.effects.machine import guarded_command
from aos.effects.machine.command_guard import IS_LINUX, descendants
from aos.effects.machine.guarded_command import KEPT_BYTES_MAX
from tests.effects.machine.bench import Bench, is_alive, status, tagged, until

TAG = f"AOS_TEST_TAG=machine-{os.getpid()}"


@pytest.fixture(autouse=True)
def no_process_is_left() -> Any:
    """AG-105: after every test here."""
    yield
    end = time.monotonic() + 60
    while tagged(TAG) and time.monotonic() < end:
        time.sleep(0.02)
    assert tagged(TAG) == []


def tag() -> dict[str, str]:
    name, value = TAG.split("=")
    return {name: value}


def descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def run(bench: Bench, script: str, **params: Any) -> Any:
    async def body() -> Any:
        return await bench.sh(await bench.open(env=tag()), script, **params)

    return bench.run(body)


def run_until_late(bench: Bench, script: str, *, has_begun: Callable[[Any], bool]) -> Any:
    """The receipt of a script that is ended by its timeout, but not before it has begun: on a busy
    machine that takes longer."""
    for timeout_ns in (300_000_000, 2_000_000_000, 10_000_000_000, 60_000_000_000):
        receipt = run(bench, script, timeout_ns=timeout_ns)
        if has_begun(receipt):
            return receipt
    pytest.fail("the script did not begin within a minute")


def test_a_command_runs_in_the_workdir_and_its_output_is_in_the_receipt(bench: Bench) -> None:
    """AG-103, AG-108."""
    (bench.root / "in").mkdir()

    async def body() -> Any:
        session = await bench.open(workdir="in", env={"A": "1", "B": "2"})
        return await bench.sh(
            session, "pwd; echo $A$B$C; echo oops >&2; exit 3", env_patch={"B": "3", "C": "4"}
        )

    receipt = bench.run(body)

    assert status(receipt) == ("ok", None)
    assert receipt["exit_code"] == 3
    assert bench.text(receipt["stdout"]) == f"{bench.root / 'in'}\n134\n"
    assert bench.text(receipt["stderr"]) == "oops\n"
    assert receipt["started_at_ns"] <= receipt["ended_at_ns"]


def test_a_program_gets_no_variable_of_the_executor(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AG-103."""
    monkeypatch.setenv("AOS_HOST_ROOT", "/x")
    monkeypatch.setenv("BANK_TOKEN", "secret")
    found = bench.one("exec", argv=["env"])
    names = {line.partition("=")[0] for line in bench.text(found["stdout"]).splitlines()}

    assert names <= {"PATH", "HOME", "PWD", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "HOST_EXEC_ID"}
    assert {"PATH", "HOME", "PWD"} <= names


def test_stdin_is_a_blob_and_otherwise_empty(bench: Bench) -> None:
    """AG-103."""
    data = b"x" * 300_000

    assert bench.text(bench.one("exec", argv=["wc", "-c"])["stdout"]).strip() == "0"
    found = bench.one("exec", argv=["wc", "-c"], stdin_ref=bench.put(data))
    assert bench.text(found["stdout"]).strip() == "300000"
    unread = bench.one("exec", argv=["true"], stdin_ref=bench.put(data))
    assert status(unread) == ("ok", None)
    missing = bench.one("exec", argv=["cat"], stdin_ref="blake3:" + 64 * "9")
    assert status(missing) == ("error", "blob_missing")


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"argv": []}, ("error", "invalid_params")),
        ({"argv": ["a\0b"]}, ("error", "invalid_params")),
        ({"argv": ["true"], "output_mode": "loud"}, ("error", "invalid_params")),
        ({"argv": ["true"], "env_patch": {"A=B": "x"}}, ("error", "invalid_params")),
        ({"argv": ["no-such-program"]}, ("not_found", "program_not_found")),
        ({"argv": ["./plain"]}, ("error", "program_not_started")),
        ({"argv": ["true"], "cwd": "../.."}, ("forbidden", "path_outside")),
        ({"argv": ["true"], "cwd": "none"}, ("not_found", "not_found")),
        ({"argv": ["true"], "cwd": "plain"}, ("error", "not_a_directory")),
    ],
)
def test_a_command_that_cannot_start_has_a_receipt(
    bench: Bench, params: dict[str, Any], expected: tuple[str, str]
) -> None:
    """AG-62, AG-103."""
    (bench.root / "plain").write_text("no program")

    receipt = bench.one("exec", **params)

    assert status(receipt) == expected
    assert receipt["exit_code"] == -1
    assert receipt["error_message"]


def test_a_command_that_takes_too_long_is_ended(bench: Bench) -> None:
    """AG-104: it may end in its own way."""
    script = "trap 'echo bye; exit 7' TERM; echo hi; sleep 60 & wait"

    receipt = run_until_late(
        bench, script, has_begun=lambda receipt: "hi" in bench.text(receipt["stdout"])
    )

    assert status(receipt) == ("timeout", "timeout")
    assert receipt["exit_code"] == 7
    assert bench.text(receipt["stdout"]) == "hi\nbye\n"


def test_a_command_that_ignores_sigterm_is_killed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AG-104."""
    monkeypatch.setattr("aos.effects.machine.command_run.GRACE_S", 0.2)

    receipt = run_until_late(
        bench, "trap '' TERM INT HUP; : > begun; sleep 60; sleep 60",
        has_begun=lambda _: (bench.root / "begun").exists(),
    )  # fmt: skip

    assert status(receipt) == ("timeout", "timeout")
    assert receipt["exit_code"] == -signal.SIGKILL


def test_a_process_that_left_its_session_and_its_parent_is_ended(bench: Bench) -> None:
    """AG-105: a daemon, which holds the pipes open and ignores SIGTERM."""
    script = (
        'setsid sh -c \'trap "" TERM; (setsid sh -c "trap \\"\\" TERM; echo \\$\\$ > pid; '
        "sleep 60; sleep 60; echo > over\" &) ' & until [ -s pid ]; do sleep 0.01; done; echo done"
    )

    receipt = run(bench, script)

    assert status(receipt) == ("ok", None)
    assert bench.text(receipt["stdout"]) == "done\n"
    assert not is_alive(int((bench.root / "pid").read_text()))
    assert not (bench.root / "over").exists(), "the receipt did not wait for its end"


def test_a_command_that_closes_its_output_is_waited_for(bench: Bench) -> None:
    """AG-105."""
    receipt = run(bench, "exec >&- 2>&-; sleep 0.3; exit 5")

    assert (status(receipt), receipt["exit_code"]) == (("ok", None), 5)


def test_many_processes_that_fork_again_are_ended(bench: Bench) -> None:
    """AG-105."""
    fork = "f() { sleep 60 & sleep 60 & (sleep 60 & setsid sleep 60 &) ; }"
    script = f"{fork}; for i in 1 2 3 4 5 6; do f; done; wait"

    receipt = run(bench, script, timeout_ns=500_000_000)

    assert status(receipt) == ("timeout", "timeout")


def test_a_flood_of_output_is_kept_to_a_limit_and_marked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AG-108."""
    monkeypatch.setattr(guarded_command, "KEPT_BYTES_MAX", 100_000)

    receipt = run(bench, "head -c 30000000 /dev/zero | tr '\\0' x; echo end >&2")

    assert status(receipt) == ("ok", "output_truncated")
    assert receipt["error_message"] == "stdout: the first 100000 of 30000000 bytes"
    assert len(bench.text(receipt["stdout"])) == 100_000
    assert bench.text(receipt["stderr"]) == "end\n"
    assert KEPT_BYTES_MAX == 4 * 1024 * 1024


def test_an_endless_flood_ends_with_its_timeout(bench: Bench) -> None:
    """AG-104, AG-108."""
    receipt = run_until_late(bench, "yes", has_begun=lambda receipt: bool(receipt["stdout"]))

    assert status(receipt) == ("timeout", "timeout")
    assert 0 < receipt["stdout"]["$value"]["size_bytes"] <= KEPT_BYTES_MAX


@pytest.mark.parametrize(
    ("mode", "size", "tag", "code"),
    [
        (None, 0, None, None),
        (None, 16384, "inline_text", None),
        (None, 16385, "blob", None),
        ("auto", 16385, "blob", None),
        ("inline", 16384, "inline_text", None),
        ("require_inline", 16385, "inline_text", "output_truncated"),
        ("blob", 1, "blob", None),
    ],
)
def test_output_is_inline_or_a_blob(
    bench: Bench, mode: str | None, size: int, tag: str | None, code: str | None
) -> None:
    """AG-67, AG-108."""
    found = bench.one("exec", argv=["head", "-c", str(size), "/dev/zero"], output_mode=mode)

    assert status(found) == ("ok", code)
    assert (found["stdout"] and found["stdout"]["$tag"]) == tag


def test_output_that_is_no_text_is_bytes(bench: Bench) -> None:
    """AG-67."""
    found = bench.one("exec", argv=["printf", "\\377"])

    assert found["stdout"] == {"$tag": "inline_bytes", "$value": {"bytes": b"\xff"}}


def test_a_signal_that_ends_a_command_is_reported(bench: Bench) -> None:
    """AG-103."""
    receipt = run(bench, "kill -9 $$")

    assert status(receipt) == ("signaled", None)
    assert receipt["exit_code"] == -9


def test_output_is_reported_while_the_command_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AG-109."""
    monkeypatch.setattr("aos.effects.machine.command_run.PROGRESS_S", 0.1)

    def has_reported(stdout: int, stderr: int) -> bool:
        return (stdout, stderr) in [
            (frame["stdout_bytes"], frame["stderr_bytes"]) for _, frame in bench.frames
        ]

    async def body() -> None:
        script = (
            "echo one; until [ -e second ]; do sleep 0.01; done; echo two >&2; "
            "until [ -e third ]; do sleep 0.01; done; head -c 100000 /dev/zero; "
            "until [ -e over ]; do sleep 0.01; done"
        )
        command = asyncio.ensure_future(bench.sh(await bench.open(env=tag()), script))
        for name, counts in (("second", (4, 0)), ("third", (4, 4)), ("over", (100_004, 4))):
            await until(lambda counts=counts: has_reported(*counts))  # type: ignore[misc]
            (bench.root / name).touch()
        await command

    bench.run(body)

    assert {kind for kind, _ in bench.frames} == {"host.exec.progress"}
    assert len(bench.frames) <= 10
    first, *_, last = [frame for _, frame in bench.frames]
    assert (first["stdout_delta"], first["stdout_bytes"]) == (b"one\n", 4)
    assert (last["stdout_bytes"], last["stderr_bytes"]) == (100_004, 4)
    assert b"".join(frame["stderr_delta"] for _, frame in bench.frames) == b"two\n"
    assert max(len(frame["stdout_delta"]) for _, frame in bench.frames) == 8192


def test_a_canceled_command_is_ended(bench: Bench) -> None:
    """AG-104."""

    async def body() -> None:
        session = await bench.open(env=tag())
        task = asyncio.ensure_future(bench.sh(session, "sleep 60 & sleep 60"))
        await until(lambda: len(tagged(TAG)) >= 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not tagged(TAG))

    bench.run(body)


@pytest.mark.parametrize("after_s", [0, 0.001, 0.005, 0.01, 0.02, 0.04])
def test_a_command_that_is_canceled_while_it_starts_is_ended(bench: Bench, after_s: float) -> None:
    """AG-104."""

    async def body() -> None:
        session = await bench.open(env=tag())
        before = descriptors()
        for _ in range(3):
            task = asyncio.ensure_future(bench.sh(session, "sleep 60 & sleep 60"))
            await asyncio.sleep(after_s)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await asyncio.sleep(0.2)
        await until(lambda: not tagged(TAG))
        await until(lambda: descriptors() <= before)

    bench.run(body)


def test_a_second_attempt_does_not_run_a_command_again(bench: Bench) -> None:
    """AG-107: also in a new process of the executor."""
    intent = "blake3:" + 64 * "e"

    async def first() -> str:
        session = await bench.open()
        await bench.sh(session, "echo x >> ran", intent=intent)
        return session

    session = bench.run(first)
    again = bench.run(lambda: bench.sh(session, "echo x >> ran", intent=intent))

    assert status(again) == ("lost", "exec_lost")
    assert again["exit_code"] == -1
    assert (bench.root / "ran").read_text() == "x\n"


FAITHLESS = """
import os, signal, sys, time
def nameless():  # without the environment of the command, in a session of its own
    code = "import time; open(%r, 'w').write(str(os.getpid())); time.sleep(600)" % sys.argv[1]
    os.execve(sys.executable, [sys.executable, "-c", "import os;" + code], {})
guard = os.getppid()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        nameless()
    nameless_parent = os.execve("/bin/sleep", ["sleep", "600"], {})
while not os.path.exists(sys.argv[1]) or not os.path.getsize(sys.argv[1]):
    time.sleep(0.01)
os.kill(guard, signal.SIGKILL)
time.sleep(600)
"""


@pytest.mark.skipif(not IS_LINUX, reason="only Linux has subreapers")
@pytest.mark.parametrize("sweep_s", [guarded_command.SWEEP_S, 0.0], ids=["in time", "too late"])
def test_a_command_that_hides_and_ends_its_guard_leaves_no_process(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sweep_s: float
) -> None:
    """AG-106: it clears its environment and leaves its session, so that nothing names it; also if
    the executor gets no turn while its time for that is over."""
    monkeypatch.setattr(guarded_command, "SWEEP_S", sweep_s)
    file = tmp_path / "pid"

    async def body() -> Any:
        session = await bench.open()
        words = {"argv": [sys.executable, "-c", FAITHLESS, str(file)], "session_id": session}
        return await bench.call("exec", words)

    before = descendants(os.getpid(), 0)  # worlds and nodes that earlier tests share
    receipt = bench.run(body)
    assert status(receipt) == ("lost", "guard_lost")
    assert not is_alive(int(file.read_text()))
    assert set(descendants(os.getpid(), 0)) <= set(before)


def test_a_command_whose_guard_is_ended_is_lost(bench: Bench) -> None:
    """AG-106: the first process ends with the guard."""

    async def body() -> Any:
        return await bench.sh(await bench.open(env=tag()), "kill -9 $PPID; sleep 60")

    receipt = bench.run(body)

    assert status(receipt) == ("lost", "guard_lost")


def test_a_killed_executor_leaves_no_process(bench: Bench, tmp_path: Path) -> None:
    """AG-106: the processes ignore SIGTERM, and one has left the session."""
    script = tmp_path / "executor.py"
    script.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.effects.machine.bench import Bench\n"
        "bench = Bench(Path(sys.argv[1]))\n"
        "async def body():\n"
        "    session = await bench.open(env={sys.argv[2]: sys.argv[3]})\n"
        "    await bench.sh(session, \"trap '' TERM; setsid sleep 61 & sleep 62; sleep 63\")\n"
        "bench.run(body)\n"
    )

    async def body() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(script),
            str(tmp_path),
            *TAG.split("="),
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        )
        await until(lambda: len(tagged(TAG)) >= 3)
        process.kill()
        await process.wait()
        await until(lambda: not tagged(TAG))

    asyncio.run(body())


def test_a_command_without_network_reaches_nothing(bench: Bench) -> None:
    """AG-102."""

    async def body() -> Any:
        assert bench.host is not None
        if not await bench.host.commands.can_cut_off_network():
            pytest.skip("this machine permits no network namespace")
        session = await bench.open(network_mode="none")
        return await bench.sh(session, "cat /proc/net/dev; id -u")

    lines = bench.text(bench.run(body)["stdout"]).splitlines()

    assert [line.split(":")[0].strip() for line in lines[2:-1]] == ["lo"]
    assert lines[-1] == str(os.getuid())


def test_the_processes_below_a_process_are_found() -> None:
    """AG-105."""

    async def body() -> None:
        shell = await asyncio.create_subprocess_exec("/bin/sh", "-c", "sleep 60 & wait")
        await until(lambda: len(descendants(shell.pid, 0)) == 1)
        below = descendants(shell.pid, 0)
        assert shell.pid in descendants(os.getpid(), 0)
        shell.kill()
        await shell.wait()
        os.kill(below[0], signal.SIGKILL)

    asyncio.run(body())
