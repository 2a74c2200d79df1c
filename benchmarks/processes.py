"""Processes that a benchmark starts, and ends by their ids whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Self

from aos.errors import Unavailable

ROOT: Final = Path(__file__).resolve().parent.parent
END_S: Final = 10.0
LAST_LINES: Final = 12


class Children:
    """Processes that are ended when the block ends: asked first, killed after 10 s."""

    def __init__(self) -> None:
        self._running: list[tuple[subprocess.Popen[bytes], signal.Signals]] = []

    def start(
        self,
        command: Sequence[str | Path],
        *,
        log: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: str | None = None,
        end: signal.Signals = signal.SIGTERM,
    ) -> subprocess.Popen[bytes]:
        """``end`` is the signal that asks it to end. Without ``log`` it writes where we do."""
        with contextlib.ExitStack() as stack:
            out = None if log is None else stack.enter_context(log.open("ab"))
            process = subprocess.Popen(
                [str(each) for each in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=None if out is None else subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                # Ctrl-C is for us: we end them.
                start_new_session=True,
                user=user,
                group=user,
                extra_groups=None if user is None else (),
            )
        self._running.append((process, end))
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process, end in reversed(self._running):
            if process.poll() is None:
                process.send_signal(end)
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def run_child(
    spec: Mapping[str, Any],
    folder: Path,
    *,
    timeout_s: float,
    module: str = "benchmarks.child",
    env: Mapping[str, str] | None = None,
) -> Any:
    """Run a module that takes ``spec`` as JSON and return what it wrote to the ``out`` in it.

    Raises:
        Unavailable: It failed, or took longer than ``timeout_s``.
    """
    out = folder / "found.json"
    given = json.dumps({**spec, "out": str(out)}, default=str)
    command = [sys.executable, "-m", module, given]
    wait_for(command, folder=folder, timeout_s=timeout_s, env=env)
    return json.loads(out.read_text())


def wait_for(
    command: Sequence[str | Path],
    *,
    folder: Path,
    timeout_s: float,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a command in the repository's folder until it ends.

    Raises:
        Unavailable: It failed, or took longer than ``timeout_s``.
    """
    # Compiled modules of this run are kept apart from the node's own.
    own = {"PYTHONPATH": _path(ROOT), "AOS_CACHE_DIR": str(folder / "cache"), **(env or {})}
    with Children() as children:
        process = children.start(command, log=log, env=own, cwd=ROOT)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Unavailable(
                f"`{_short(command)}` took longer than {timeout_s:.0f} s{_last_words(log)}"
            ) from None
    if code != 0:
        raise Unavailable(f"`{_short(command)}` ended with {code}{_last_words(log)}")


def _path(*first: Path) -> str:
    """Where a child looks for packages: there first, and then where we do."""
    return os.pathsep.join(filter(None, (*map(str, first), os.environ.get("PYTHONPATH"))))


def _short(command: Sequence[str | Path]) -> str:
    return " ".join(str(each)[:60] for each in command[:4])


def _last_words(log: Path | None) -> str:
    if log is None or not log.exists():
        return ""
    lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    return "".join(f"\n  {line}" for line in lines)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM ends the program as Ctrl-C does: its processes are ended, its folders removed."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    assert threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
