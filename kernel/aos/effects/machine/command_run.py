"""``sys/host.exec@1``: run a program in a session, and report its end and its output."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from aos.effects.machine.contained_paths import ITSELF
from aos.effects.machine.guarded_command import (
    MARK,
    CommandOrder,
    GuardedCommand,
    StreamCapture,
    exit_signal,
)
from aos.effects.machine.host_outputs import (
    ERROR,
    INLINE_BYTES_MAX,
    LOST,
    OK,
    SIGNALED,
    TIMEOUT,
    Declined,
    HostOutput,
    invalid,
    mode_of,
    output,
)
from aos.effects.machine.machine_host import SECOND_NS, HostSession, MachineHost, check_env
from aos.worker import EffectContext
from aos.worker.results import WithBlobs

TIMEOUT_DEFAULT_NS: Final = 3600 * SECOND_NS
TIMEOUT_MAX_NS: Final = 23 * 3600 * SECOND_NS
GRACE_S: Final = 2.0
"""Between SIGTERM and SIGKILL."""

ENDING_S: Final = 30.0
"""The rest of the effect's own timeout that is kept for the end of the command, in seconds."""

ARGV_BYTES_MAX: Final = 1024 * 1024
PROGRESS_S: Final = 1.0
PROGRESS_KIND: Final = "host.exec.progress"
NO_EXIT: Final = -1
INHERITED: Final = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
PATH_DEFAULT: Final = "/usr/local/bin:/usr/bin:/bin"


async def run_command(
    host: MachineHost, params: dict[str, Any], ctx: EffectContext, stdin: bytes
) -> WithBlobs:
    """The receipt of an exec whose first process was started and has ended.

    Raises:
        Declined: Nothing was started, or the result of an earlier attempt is lost.
    """
    started_ns = time.time_ns()
    if host.sessions.has_begun(params["session_id"], ctx.intent):
        raise lost_command()
    session = host.sessions.active(params["session_id"])
    mode = mode_of(params)
    argv = _argv(params["argv"])
    patch = params.get("env_patch") or {}
    check_env(patch)
    timeout_ns = min(params.get("timeout_ns") or TIMEOUT_DEFAULT_NS, TIMEOUT_MAX_NS)
    left_ns = ctx.deadline_ns - started_ns - int(ENDING_S * SECOND_NS)
    timeout_s = max(0.0, min(timeout_ns, left_ns) / SECOND_NS)
    with host.root.resolve(session.workdir, params.get("cwd") or ITSELF) as file_place:
        folder = os.open(
            file_place.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=file_place.folder
        )
        env = _environment(host, session, patch, file_place.parts) | {MARK: ctx.intent}
    try:
        if not await asyncio.to_thread(host.sessions.begin, session, ctx.intent):
            raise lost_command()
        command = await host.commands.start(
            CommandOrder(argv=argv, env=env, folder=folder, network=session.network, stdin=stdin),
            session.id,
        )
    finally:
        os.close(folder)
    is_late = await _until_gone(command, ctx, timeout_s)
    return _receipt(command, mode, started_ns, None if not is_late else timeout_s)


async def _until_gone(command: GuardedCommand, ctx: EffectContext, timeout_s: float) -> bool:
    """Wait until no process is left, and return whether it took too long. Ends the command if the
    effect is canceled."""
    telling = asyncio.ensure_future(_tell_progress(command, ctx))
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await command.is_gone.wait()
        is_late = not command.is_gone.is_set() and command.exit_code is None
        if not command.is_gone.is_set():
            command.end(GRACE_S)
            await command.is_gone.wait()
    except asyncio.CancelledError:
        # The guard needs its time; the answer to the cancellation does not wait for it.
        command.end(GRACE_S)
        raise
    finally:
        telling.cancel()
    return is_late


async def _tell_progress(command: GuardedCommand, ctx: EffectContext) -> None:
    begun_ns = time.monotonic_ns()
    reported_size = 0
    while True:
        await asyncio.sleep(PROGRESS_S)
        size = command.stdout.size + command.stderr.size
        if size == reported_size:
            continue
        reported_size = size
        frame = {
            "exec_id": ctx.intent,
            "elapsed_ns": time.monotonic_ns() - begun_ns,
            "stdout_delta": command.stdout.take_recent(),
            "stderr_delta": command.stderr.take_recent(),
            "stdout_bytes": command.stdout.size,
            "stderr_bytes": command.stderr.size,
        }
        await ctx.progress(PROGRESS_KIND, frame)


def _receipt(
    command: GuardedCommand, mode: str, started_ns: int, late_s: float | None
) -> WithBlobs:
    status, code, message = _end_of(command, late_s)
    cut: list[str] = []
    streams = {
        "stdout": _stream("stdout", command.stdout, mode, cut),
        "stderr": _stream("stderr", command.stderr, mode, cut),
    }
    if cut and code is None:
        code, message = "output_truncated", "; ".join(cut)
    exit_code = NO_EXIT if command.exit_code is None else command.exit_code
    value = {
        "exit_code": exit_code,
        "status": status,
        "stdout": streams["stdout"].value,
        "stderr": streams["stderr"].value,
        "started_at_ns": started_ns,
        "ended_at_ns": max(started_ns, time.time_ns()),
        "error_code": code,
        "error_message": message,
    }
    blobs = tuple(blob for stream in streams.values() for blob in stream.blobs)
    return WithBlobs(value=value, blobs=blobs)


def _end_of(command: GuardedCommand, late_s: float | None) -> tuple[str, str | None, str | None]:
    """Status, error code and message of a command of which no process is left."""
    if command.processes_left:
        return ERROR, "processes_left", f"{command.processes_left} processes could not be ended"
    if late_s is not None:
        return TIMEOUT, "timeout", f"it ran longer than {late_s:g} s, and was ended"
    if command.exit_code is None:
        return LOST, "guard_lost", "the process that watched it was ended"
    if command.exit_code < 0:
        return SIGNALED, None, f"{exit_signal(command.exit_code)} ended it"
    return OK, None, None


def _stream(name: str, stream: StreamCapture, mode: str, cut: list[str]) -> HostOutput:
    """The output of a command never fails it: with mode ``inline``, its beginning is reported."""
    captured = bytes(stream.beginning)
    if mode == "inline":
        captured = _whole_characters(captured[:INLINE_BYTES_MAX])
    if len(captured) < stream.size:
        cut.append(f"{name}: the first {len(captured)} of {stream.size} bytes")
    return output(captured, mode)


def _whole_characters(data: bytes) -> bytes:
    """Without an incomplete character of UTF-8 at the end, if the rest is UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            return data[: error.start]
    return data


def _argv(argv: list[str]) -> list[str]:
    if not argv or not argv[0]:
        raise invalid("argv: expected a program and its arguments, found none")
    if any("\0" in argument for argument in argv):
        raise invalid("argv: expected no NUL in an argument")
    size = sum(len(argument.encode()) + 1 for argument in argv)
    if size > ARGV_BYTES_MAX:
        raise invalid(f"argv: expected at most {ARGV_BYTES_MAX} bytes, found {size}")
    return argv


def _environment(
    host: MachineHost, session: HostSession, patch: Mapping[str, str], parts: tuple[str, ...]
) -> dict[str, str]:
    """Nothing of the executor's own environment but its search path and language (AG-103)."""
    root = str(host.root.path)
    return {
        "PATH": os.environ.get("PATH", PATH_DEFAULT),
        **{name: os.environ[name] for name in INHERITED if name in os.environ},
        "HOME": root,
        "PWD": "/".join((root.rstrip("/"), *parts)) or "/",
        **session.env,
        **patch,
    }


def lost_command() -> Declined:
    return Declined(
        LOST,
        "exec_lost",
        "an earlier attempt had begun the command, and its result is lost: find out what it did "
        "before you request it again",
    )
