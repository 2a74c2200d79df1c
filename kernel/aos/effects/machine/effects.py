"""The twelve effects: each checks its session, does its work, and always has a receipt (AG-62). Two
of them, ``sys/host.session.open@1`` and ``sys/host.session.signal@1``, make and end a session.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aos.effects.machine.command_run import NO_EXIT, lost_command, run_command
from aos.effects.machine.contained_paths import ITSELF, Parts
from aos.effects.machine.file_access import file_exists, read_file, stat_file, write_file
from aos.effects.machine.file_edits import EditPlace, apply_patch, create_file, edit_file
from aos.effects.machine.folder_walk import find_files, list_folder
from aos.effects.machine.host_outputs import (
    ALREADY_EXITED,
    ERROR,
    NOT_FOUND,
    READY,
    SIGNALED,
    Declined,
    HostOutput,
    invalid,
)
from aos.effects.machine.machine_host import (
    HOST_NETWORK,
    NO_NETWORK,
    SECOND_NS,
    TTL_DEFAULT_NS,
    TTL_MAX_NS,
    HostSession,
    MachineHost,
    check_env,
    machine_host,
    opened_machine,
    session_id,
    unknown_session,
)
from aos.effects.machine.text_search import search_text
from aos.worker import EffectContext, EffectFailed, Executors, effect
from aos.worker.results import WithBlobs

Params = dict[str, Any]
Receipt = dict[str, Any]

COMMANDS: Final = 16
FILES: Final = 4
EXEC_S: Final = 24 * 3600
FILE_S: Final = 60

GRACE_DEFAULT_NS: Final = 2 * SECOND_NS
GRACE_MAX_NS: Final = 60 * SECOND_NS
KILL_S: Final = 15.0
"""How long a guard may take after SIGKILL, in seconds."""

_NETWORKS: Final = {
    "none": NO_NETWORK,
    "disabled": NO_NETWORK,
    "host": HOST_NETWORK,
    "egress": HOST_NETWORK,
}
CLOSING: Final = ("TERM", "TERMINATE", "CLOSE", "KILL")
PASSED_ON: Final = {
    "INT": signal.SIGINT,
    "HUP": signal.SIGHUP,
    "QUIT": signal.SIGQUIT,
    "USR1": signal.SIGUSR1,
    "USR2": signal.SIGUSR2,
    "STOP": signal.SIGSTOP,
    "CONT": signal.SIGCONT,
}


@effect("sys/host.session.open@1", concurrency=FILES, timeout_s=FILE_S)
async def session_open(params: Params, ctx: EffectContext) -> Receipt:
    """Open a session in a folder of the root."""
    host = machine_host(ctx)
    now_ns = time.time_ns()
    return await _answered(
        open_session(host, params, ctx), "error_message", session_id="", started_at_ns=now_ns
    )


@effect("sys/host.session.signal@1", concurrency=FILES, timeout_s=120)
async def session_signal(params: Params, ctx: EffectContext) -> Receipt:
    """Signal the commands of a session, or close it."""
    return await _answered(signal_session(machine_host(ctx), params, ctx), "error_message")


@effect("sys/host.exec@1", concurrency=COMMANDS, timeout_s=EXEC_S)
async def host_exec(params: Params, ctx: EffectContext) -> Receipt | WithBlobs:
    """Run a program; its output is in the receipt, and in progress reports before."""
    host = machine_host(ctx)
    started_ns = time.time_ns()
    try:
        if host.sessions.has_begun(params["session_id"], ctx.intent):
            raise lost_command()
        stdin = b"" if params.get("stdin_ref") is None else await _blob(ctx, params["stdin_ref"])
        return await run_command(host, params, ctx, stdin)
    except Declined as problem:
        ended_ns = max(started_ns, time.time_ns())
        return {
            **_declined(problem, "error_message"),
            "exit_code": NO_EXIT,
            "started_at_ns": started_ns,
            "ended_at_ns": ended_ns,
        }


@effect("sys/host.fs.read_file@1", concurrency=FILES, timeout_s=FILE_S)
async def fs_read_file(params: Params, ctx: EffectContext) -> Receipt | WithBlobs:
    """Read a file or a part of it."""
    return await _listing(params, ctx, "content", _in_thread(read_file), "error_message")


@effect("sys/host.fs.write_file@1", concurrency=FILES, timeout_s=FILE_S)
async def fs_write_file(params: Params, ctx: EffectContext) -> Receipt:
    """Write a whole file."""
    host = machine_host(ctx)

    async def write() -> Receipt:
        data = await _input(ctx, params["content"])
        if params.get("mode") == "create_new":
            return await _edited(host, params, ctx, lambda at: create_file(at, params, data))
        return await _changed(
            host, params, lambda workdir: write_file(host.root, workdir, params, data)
        )

    return await _answered(write(), None)


@effect("sys/host.fs.edit_file@1", concurrency=FILES, timeout_s=FILE_S)
async def fs_edit_file(params: Params, ctx: EffectContext) -> Receipt:
    """Replace a text in a file."""
    host = machine_host(ctx)
    edited = _edited(host, params, ctx, lambda at: edit_file(at, params))
    return await _answered(edited, "summary_text", applied=False)


@effect("sys/host.fs.apply_patch@1", concurrency=FILES, timeout_s=FILE_S)
async def fs_apply_patch(params: Params, ctx: EffectContext) -> Receipt:
    """Change several files, all or none."""
    host = machine_host(ctx)

    async def patch() -> Receipt:
        text = await _input(ctx, params["patch"])
        return await _edited(host, params, ctx, lambda at: apply_patch(at, params, text))

    receipt = await _answered(patch(), "summary_text")
    return {**receipt, "errors": [receipt["summary_text"]]} if "error_code" in receipt else receipt


@effect("sys/host.fs.grep@1", concurrency=FILES, timeout_s=FILE_S)
async def fs_grep(params: Params, ctx: EffectContext) -> Receipt | WithBlobs:
    """Find the lines of files that match a pattern."""
    return await _listing(params, ctx, "matches", search_text)


@effect("sys/host.fs.glob@1", concurrency=FILES, timeout_s=FILE_S)
async def fs_glob(params: Params, ctx: EffectContext) -> Receipt | WithBlobs:
    """Find the files whose paths match a pattern."""
    return await _listing(params, ctx, "paths", _in_thread(find_files))


@effect("sys/host.fs.list_dir@1", concurrency=FILES, timeout_s=FILE_S)
async def fs_list_dir(params: Params, ctx: EffectContext) -> Receipt | WithBlobs:
    """List the names in a folder."""
    return await _listing(params, ctx, "entries", _in_thread(list_folder))


@effect("sys/host.fs.stat@1", concurrency=FILES, timeout_s=FILE_S)
async def fs_stat(params: Params, ctx: EffectContext) -> Receipt:
    """Size, time and kind of a file."""
    host = machine_host(ctx)
    lookup = _in_session(host, params, lambda workdir: stat_file(host.root, workdir, params))
    return await _answered(lookup, None)


@effect("sys/host.fs.exists@1", concurrency=FILES, timeout_s=FILE_S)
async def fs_exists(params: Params, ctx: EffectContext) -> Receipt:
    """Whether there is a file or folder."""
    host = machine_host(ctx)
    lookup = _in_session(host, params, lambda workdir: file_exists(host.root, workdir, params))
    return await _answered(lookup, None)


ReceiptAndOutput = tuple[Receipt, HostOutput]


def _in_thread(
    find: Callable[[Any, Parts, Params], ReceiptAndOutput],
) -> Callable[[Any, Parts, Params], Awaitable[ReceiptAndOutput]]:
    async def find_in_thread(root: Any, workdir: Parts, params: Params) -> ReceiptAndOutput:
        return await asyncio.to_thread(find, root, workdir, params)

    return find_in_thread


async def _listing(
    params: Params,
    ctx: EffectContext,
    field: str,
    find: Callable[[Any, Parts, Params], Awaitable[ReceiptAndOutput]],
    message_field: str = "summary_text",
) -> Receipt | WithBlobs:
    """A receipt with an output in ``field``."""
    host = machine_host(ctx)
    try:
        session = await asyncio.to_thread(host.sessions.active, params["session_id"])
        value, host_output = await find(host.root, session.workdir, params)
    except Declined as problem:
        return _declined(problem, message_field)
    return WithBlobs(value={**value, field: host_output.value}, blobs=host_output.blobs)


async def _in_session(
    host: MachineHost, params: Params, look: Callable[[Parts], Receipt]
) -> Receipt:
    session = await asyncio.to_thread(host.sessions.active, params["session_id"])
    return await asyncio.to_thread(look, session.workdir)


async def _changed(
    host: MachineHost, params: Params, change: Callable[[Parts], Receipt]
) -> Receipt:
    """One change at a time: what a change has read stays until it has written."""

    def changed(workdir: Parts) -> Receipt:
        with host.changing:
            return change(workdir)

    return await _in_session(host, params, changed)


async def _edited(
    host: MachineHost, params: Params, ctx: EffectContext, edit: Callable[[EditPlace], Receipt]
) -> Receipt:
    plan_file = host.sessions.changes_file(params["session_id"], ctx.intent)
    return await _changed(
        host,
        params,
        lambda workdir: edit(EditPlace(root=host.root, workdir=workdir, plan_file=plan_file)),
    )


async def _answered(
    work: Awaitable[Receipt], message_field: str | None, **otherwise: object
) -> Receipt:
    """The receipt of ``work``, or that of its refusal, with ``otherwise``."""
    try:
        return await work
    except Declined as problem:
        return {**otherwise, **_declined(problem, message_field)}


def _declined(problem: Declined, message_field: str | None) -> Receipt:
    receipt: Receipt = {"status": problem.status, "error_code": problem.code}
    if message_field is not None:
        receipt[message_field] = problem.message
    return receipt


async def _input(ctx: EffectContext, content: dict[str, Any]) -> bytes:
    """The bytes of a ``sys/HostFileContentInput@1`` or ``sys/HostPatchInput@1``."""
    value = content["$value"]
    if content["$tag"] == "blob_ref":
        return await _blob(ctx, value["blob_ref"])
    data: bytes = value["text"].encode() if content["$tag"] == "inline_text" else value["bytes"]
    return data


async def _blob(ctx: EffectContext, hash: str) -> bytes:
    try:
        return await ctx.read_blob(hash)
    except EffectFailed as problem:
        raise Declined(ERROR, problem.code, problem.message) from None


machine = Executors(
    "machine",
    (
        session_open, session_signal, host_exec, fs_read_file, fs_write_file, fs_edit_file,
        fs_apply_patch, fs_grep, fs_glob, fs_list_dir, fs_stat, fs_exists,
    ),
    setup=opened_machine,
)  # fmt: skip


async def open_session(
    host: MachineHost, params: dict[str, Any], ctx: EffectContext
) -> dict[str, Any]:
    """The receipt of an open session; a second attempt finds the first one's.

    Raises:
        Declined: The target is none that this machine has, or its workdir is no folder of the root.
    """
    session = host.sessions.find(session_id(ctx.intent))
    if session is None:
        session = await _new_session(host, params, ctx.intent)
        await asyncio.to_thread(host.sessions.add, session)
    return {
        "session_id": session.id,
        "status": READY,
        "started_at_ns": session.started_ns,
        "expires_at_ns": session.expires_ns,
    }


async def _new_session(host: MachineHost, params: dict[str, Any], intent: str) -> HostSession:
    target = params["target"]
    if target["$tag"] != "local":
        raise _unsupported("a sandbox: expected the target local")
    local = target["$value"]
    if local.get("mounts"):
        raise _unsupported("mounts: expected none, because the root is the only folder")
    network = _NETWORKS.get(local["network_mode"])
    if network is None:
        words = ", ".join(_NETWORKS)
        raise _unsupported(f"network_mode {local['network_mode'][:40]!r}: expected {words}")
    if network == NO_NETWORK and not await host.commands.can_cut_off_network():
        raise _unsupported("network_mode none: this machine permits no network namespace")
    env = local.get("env") or {}
    check_env(env)
    with host.root.resolve((), local.get("workdir") or ITSELF) as file_place:
        os.close(os.open(file_place.name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=file_place.folder))
        workdir = () if file_place.path_in_root == ITSELF else file_place.parts
    ttl_ns = params.get("session_ttl_ns")
    now_ns = time.time_ns()
    return HostSession(
        id=session_id(intent),
        workdir=workdir,
        env=env,
        network=network,
        started_ns=now_ns,
        expires_ns=now_ns + min(TTL_DEFAULT_NS if ttl_ns is None else ttl_ns, TTL_MAX_NS),
    )


async def signal_session(
    host: MachineHost, params: dict[str, Any], ctx: EffectContext
) -> dict[str, Any]:
    """Signal the commands of a session. TERM and KILL close it, and return once they have ended.

    Raises:
        Declined: There is no such session or signal, or it has expired.
    """
    word = params["signal"].upper().removeprefix("SIG")
    if word not in CLOSING and word not in PASSED_ON:
        words = ", ".join(signal_name.lower() for signal_name in (*CLOSING, *PASSED_ON))
        raise invalid(f"signal: expected {words}, found {params['signal'][:40]!r}")
    session = host.sessions.find(params["session_id"])
    if session is None:
        unknown = unknown_session(params["session_id"])
        raise Declined(NOT_FOUND, unknown.code, unknown.message)
    is_over = session.closed_ns is not None or time.time_ns() >= session.expires_ns
    if is_over and session.closed_by != ctx.intent:
        return {"status": ALREADY_EXITED, "ended_at_ns": session.ended_ns}
    if word in PASSED_ON:
        for command in host.commands.of(session.id):
            command.signal(PASSED_ON[word])
        return {"status": SIGNALED}
    if not is_over:
        session = await asyncio.to_thread(host.sessions.close, session, intent=ctx.intent)
    given_ns = params.get("grace_timeout_ns")
    grace_ns = min(GRACE_DEFAULT_NS if given_ns is None else given_ns, GRACE_MAX_NS)
    await _end_commands(host, session.id, 0 if word == "KILL" else grace_ns / SECOND_NS)
    return {"status": SIGNALED, "ended_at_ns": session.ended_ns}


async def _end_commands(host: MachineHost, session: str, grace_s: float) -> None:
    commands = host.commands.of(session)
    for command in commands:
        command.end(grace_s)
    waiting = [asyncio.ensure_future(ending.is_gone.wait()) for ending in commands]
    if waiting:
        await asyncio.wait(waiting, timeout=grace_s + KILL_S)


def _unsupported(problem: str) -> Declined:
    return Declined(ERROR, "target_unsupported", problem)
