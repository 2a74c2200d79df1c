"""The guard of one command: starts it, and leaves no process of it behind (AG-104 to AG-106).

    python -I -S command_guard.py      stdin is a socket

The first line of the socket is the order, a JSON object; one without ``argv`` only tries the
network. Later lines are ``{"signal": N}`` and ``{"end": SECONDS}``. The guard answers ``{"started":
PID}`` or ``{"failed": ERRNO}``, then ``{"exited": CODE}`` once the command's first process has
ended, and ``{"gone": NUMBER}`` once no process is left, with the number of those that could not be
ended. When the socket closes, because the executor ended in whatever way, the guard ends the
command.

It needs nothing but the standard library, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ORPHANED_GRACE_S = 1.0
"""Between SIGTERM and SIGKILL when the executor is gone."""

LEFT_BEHIND_GRACE_S = 0.5
"""The same for processes that outlive the command's first one."""

GIVING_UP_S = 10.0
"""After SIGKILL. A process that hangs in the kernel cannot be ended."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
IS_LINUX = sys.platform == "linux"


class CommandGuard:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._buffer = b""
        self._child: subprocess.Popen[bytes] | None = None
        self._kill_at: float | None = None
        self._killing_since: float | None = None
        self._is_cut_off = False
        self._woken, waking = os.pipe()
        for descriptor in (self._woken, waking):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # A handler, not SIG_IGN, which the command would inherit.
            signal.signal(number, lambda _number, _frame: None)

    def run(self) -> None:
        order = self._order()
        if order is None:
            return
        if IS_LINUX:
            LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            if order["network"] == "none":
                cut_off_network()
            if "argv" not in order:
                self._say(started=0)
                return
            os.fchdir(order["folder"])
            self._child = subprocess.Popen(  # noqa: S603  # the workflow chooses it
                order["argv"],
                env=order["env"],
                stdin=order["stdin"],
                stdout=order["stdout"],
                stderr=order["stderr"],
                start_new_session=True,
                preexec_fn=_die_with_guard if IS_LINUX else None,  # noqa: PLW1509  # one thread
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._say(failed=getattr(error, "errno", None) or 0)
            return
        finally:
            for name in ("folder", "stdin", "stdout", "stderr"):
                if name in order:
                    os.close(order[name])
        self._say(started=self._child.pid)
        self._watch(self._child)

    def _watch(self, child: subprocess.Popen[bytes]) -> None:
        has_exited = False
        while True:
            self._wait(None if self._kill_at is None else 0.02)
            _reap(child)
            code = child.poll()
            if code is not None and not has_exited:
                has_exited = True
                self._say(exited=code)
                self._end(LEFT_BEHIND_GRACE_S)
            pids = descendants(os.getpid(), child.pid)
            if has_exited and not pids:
                self._say(gone=0)
                return
            now = time.monotonic()
            if self._kill_at is not None and now >= self._kill_at:
                self._killing_since = self._killing_since or now
                self._send(signal.SIGKILL)
                if now - self._killing_since > GIVING_UP_S:
                    self._say(gone=len(pids))
                    return

    def _end(self, grace_s: float) -> None:
        """Ask every process to end, and kill it after ``grace_s`` or an earlier time that was set
        before."""
        kill_at = time.monotonic() + grace_s
        if self._kill_at is None or kill_at < self._kill_at:
            self._kill_at = kill_at
        self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        assert self._child is not None
        for pid in descendants(os.getpid(), self._child.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _wait(self, timeout_s: float | None) -> None:
        """Wait for a message, a signal or the timeout, and act on the messages."""
        sources = [self._woken] if self._is_cut_off else [self._woken, self._channel.fileno()]
        ready, _, _ = select.select(sources, [], [], timeout_s)
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 4096)
        if self._channel.fileno() not in ready:
            return
        for message in self._messages():
            if "signal" in message:
                self._send(message["signal"])
            else:
                self._end(message["end"])
        if self._is_cut_off:
            self._end(ORPHANED_GRACE_S)

    def _order(self) -> Any:
        while not self._is_cut_off:
            messages = self._messages(limit=1)
            if messages:
                return messages[0]
        return None

    def _messages(self, limit: int | None = None) -> list[Any]:
        """The whole lines that one read completes."""
        try:
            data = self._channel.recv(65536)
        except OSError:
            data = b""
        self._is_cut_off = not data
        lines = (self._buffer + data).split(b"\n", -1 if limit is None else limit)
        self._buffer = lines.pop()
        return [json.loads(line) for line in lines]

    def _say(self, **message: int) -> None:
        with contextlib.suppress(OSError):  # the executor is gone
            self._channel.sendall(json.dumps(message).encode() + b"\n")


def descendants(above: int, group: int) -> list[int]:
    """The processes below ``above``. On other systems than Linux, the group's first process, while
    any process is left in its group."""
    if not IS_LINUX:
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [-group]
    parents: dict[int, int] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parents[int(process.name)] = _parent(process)
    pids = {above}
    while True:
        children = {pid for pid, parent in parents.items() if parent in pids} - pids
        if not children:
            return sorted(pids - {above})
        pids |= children


def _parent(process: Path) -> int:
    """The parent of a process; 0 for one that is dead already."""
    state, parent = (process / "stat").read_bytes().rpartition(b")")[2].split()[:2]
    return 0 if state in (b"Z", b"X") else int(parent)


def _reap(child: subprocess.Popen[bytes]) -> None:
    """Take the ends of processes whose parents have ended before them. ``child`` keeps its own."""
    with contextlib.suppress(ChildProcessError):
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return
            if ended.si_pid != child.pid:
                os.waitpid(ended.si_pid, 0)
            elif child.poll() is None:
                return


def cut_off_network() -> None:
    """Enter a network without interfaces; as an ordinary user, inside a user namespace with the
    same ids. Raises ``OSError`` if this machine does not permit it."""
    if not IS_LINUX:
        raise OSError(38, "only Linux has network namespaces")
    if LIBC.unshare(CLONE_NEWNET) == 0:
        return
    user, group = os.getuid(), os.getgid()
    if LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path("/proc/self", name).write_text(text)


def _die_with_guard() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    sys.path.append(__file__.rsplit("/", 4)[0])  # ``-S`` leaves only the standard library
    from aos.private_memory import keep_memory_private

    keep_memory_private()
    CommandGuard(socket.socket(fileno=0)).run()
