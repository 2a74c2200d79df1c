"""Run a compiler; its messages go to our stderr (spec/authoring.md, AU-4)."""

# ruff: noqa: S603  # it runs compilers

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

from aos.author.errors import BuildFailed, ToolMissing

Report = Callable[[str], None]
"""Called with a line about the build's progress."""

LOOK_S: Final = 0.1
ENDS_S: Final = 5.0
"""Time that a compiler has to end after a signal."""


class Stopped(BuildFailed):
    """The build was canceled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """The output of a build, and the request to cancel it."""

    report: Report
    given_up: Event = field(default_factory=Event)


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    program: str,
    console: Console,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program to its end and return its stdout. It inherits our stderr.

    It has its own process group, which is ended with it: an interrupted or canceled build leaves no
    processes behind.

    Raises:
        BuildFailed: Its exit code is not 0; it has printed the reason.
        Stopped: The build was canceled.
        ToolMissing: It cannot be started.
    """
    try:
        child = subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise ToolMissing(f"{command[0]}: cannot be started: {error.strerror}") from error
    try:
        out = _output(child, console, program)
    except BaseException:
        _end(child)
        raise
    if child.returncode != 0:
        raise BuildFailed(_failure_text(child.returncode, program))
    return out.decode(errors="replace")


def _output(child: subprocess.Popen[bytes], console: Console, program: str) -> bytes:
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=LOOK_S)[0]
        if console.given_up.is_set():
            raise Stopped(f"{program} was stopped")


def _failure_text(code: int, program: str) -> str:
    if code < 0:
        return f"{program} was ended by {signal.Signals(-code).name}"
    return f"{program} failed (exit code {code}); see above"


def _end(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(child.pid, number)
            child.wait(ENDS_S)
    child.communicate()
