"""Child processes: a fork for code that may crash, a program for tests that kill it."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parent.parent.parent


def in_child(act: Callable[[], str]) -> str:
    """Run ``act`` in a fork of this process; return its result, or how the child ended.

    An exception is returned as ``Name: text``, a signal as ``signal N``.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            try:
                text = act()
            except Exception as error:  # noqa: BLE001  # the parent judges it
                text = f"{type(error).__name__}: {error}"
            os.write(write, text.encode()[:60_000])
        except BaseException:  # noqa: BLE001  # the child must not continue the test run
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else text


def spawn(module: str, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """``python -m tests.store.MODULE ARGUMENTS`` with pipes, perhaps under another program."""
    return subprocess.Popen(
        [*before, sys.executable, "-m", f"tests.store.{module}", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'kernel'}{os.pathsep}{ROOT}"},
    )


def say(*words: object) -> None:
    """One line to the parent."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def line(pipe: IO[str] | None) -> str:
    assert pipe is not None
    return pipe.readline().strip()


def ask(child: subprocess.Popen[str], text: str) -> str:
    """Send one line, return the one that comes back."""
    assert child.stdin is not None
    child.stdin.write(text + "\n")
    child.stdin.flush()
    return line(child.stdout)


def end(child: subprocess.Popen[str]) -> str:
    """Kill the child; return what is left in its output."""
    child.kill()
    out, _ = child.communicate()
    return out
