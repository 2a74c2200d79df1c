"""Running a compiler: what it has to say goes where our own errors go (spec/authoring.md, AU-4)."""

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

from aos.authoring.errors import BuildFailed, ToolMissing

Report = Callable[[str], None]
"""Takes a line about what is going on."""

LOOK_S: Final = 0.1
ENDS_S: Final = 5.0
"""How long a compiler that is told to end may take."""


class Stopped(BuildFailed):
    """The build was given up before its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """Where a build tells what it does, and whether it is to be given up."""

    report: Report
    given_up: Event = field(default_factory=Event)


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    what: str,
    console: Console,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program to its end; return what it wrote to stdout. Its stderr is ours.

    It is in a process group of its own, which is ended with it: a build that is interrupted or
    given up leaves none of its processes behind.

    Raises:
        BuildFailed: It ended with another code than 0, after it said why.
        Stopped: The build was given up.
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
        raise ToolMissing(f"{command[0]}: it cannot be started: {error.strerror}") from error
    try:
        out = _output(child, console, what)
    except BaseException:
        _end(child)
        raise
    if child.returncode != 0:
        raise BuildFailed(_why(child.returncode, what))
    return out.decode(errors="replace")


def _output(child: subprocess.Popen[bytes], console: Console, what: str) -> bytes:
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=LOOK_S)[0]
        if console.given_up.is_set():
            raise Stopped(f"{what} was stopped")


def _why(code: int, what: str) -> str:
    if code < 0:
        return f"{what} was ended by {signal.Signals(-code).name}"
    return f"{what} refused (exit code {code}); see above"


def _end(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(child.pid, number)
            child.wait(ENDS_S)
    child.communicate()
