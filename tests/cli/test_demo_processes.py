"""The demo's children end with it, whatever ends it (C-52)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from aos_cli.demo.processes import Children, Command
from tests.cli.shell import environment
from tests.cli.test_processes import eventually
from tests.running_process import is_running

CHILD: Final = "import sys, time; print(sys.argv[1], flush=True); time.sleep(600)"

PARENT: Final = """
import subprocess, sys, time
from aos_cli.demo.processes import Children, Command
command = Command(words=[sys.executable, "-c", sys.argv[1], "up"], display_words=[])
with Children() as children:
    child = children.start(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdout.readline() == b"up\\n"
    print(child.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of this")
def test_a_child_ends_when_the_demo_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], env=environment(), stdout=subprocess.PIPE
    )
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_running(child)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.communicate()

    eventually(lambda: not is_running(child), "the child has ended")


def test_a_child_is_the_command_itself_and_is_ended_at_the_end() -> None:
    command = Command(words=[sys.executable, "-c", CHILD, "with a space"], display_words=[])

    with Children() as children:
        child = children.start(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert child.stdout is not None
        assert child.stdout.readline() == b"with a space\n"
        if sys.platform == "linux":
            assert CHILD.encode() in Path(f"/proc/{child.pid}/cmdline").read_bytes().split(b"\0")

    assert child.returncode == -signal.SIGTERM


INTERRUPTED: Final = """
import os, signal, sys
from pathlib import Path
from aos_cli.demo import processes
child = "import os, signal, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(600)"
command = processes.Command(words=[sys.executable, "-c", child], display_words=["child"])
try:
    getattr(processes, sys.argv[1])(command)
except KeyboardInterrupt:
    print("children left:", Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc names the children")
@pytest.mark.parametrize("way", ["run", "ask"])
def test_a_command_that_the_demo_waits_for_has_ended_after_a_signal(way: str) -> None:
    interrupted = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, way], env=environment(), capture_output=True,
        text=True, timeout=240, check=False,
    )  # fmt: skip

    assert interrupted.returncode == 0, interrupted.stderr
    assert interrupted.stdout.splitlines()[-1].strip() == "children left:"


INTERRUPTED_START: Final = """
import os, signal, subprocess, sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from aos_cli.demo import processes

class Popen(subprocess.Popen):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        os.kill(os.getpid(), signal.Signals[sys.argv[1]])
        for _ in range(1000):
            pass  # here an exception from a signal would lose the process

subprocess.Popen = Popen
seconds = sys.argv[4]
command = processes.Command(words=[sys.executable, "-c", f"import time; time.sleep({seconds})"],
                            display_words=["child"])
start = getattr(import_module(sys.argv[2]), sys.argv[3])
try:
    with ExitStack() as stack, processes.stoppable():
        if sys.argv[3] == "Children":
            children = stack.enter_context(start())
            children.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        else:
            start(command)
except KeyboardInterrupt:
    print("children left:", Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc names the children")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    ("module", "start", "seconds"),
    [
        ("aos_cli.demo.processes", "run", "600"),
        ("aos_cli.demo.processes", "ask", "600"),
        ("aos_cli.demo.processes", "Children", "600"),
        ("aos_gateway.demo.chain", "_run_to_end", "0.5"),
    ],
)
def test_a_signal_while_a_process_is_started_leaves_none(
    name: str, module: str, start: str, seconds: str
) -> None:
    interrupted = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_START, name, module, start, seconds],
        env=environment(), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip

    assert interrupted.returncode == 0, interrupted.stderr
    assert interrupted.stdout.splitlines()[-1].strip() == "children left:"
