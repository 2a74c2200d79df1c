"""The twelve effects: each checks its session, does its work, and always has a receipt (AG-62)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aos.effects.machine.command_run import NO_EXIT, lost_command, run_command
from aos.effects.machine.contained_paths import Parts
from aos.effects.machine.declined import ERROR, Declined
from aos.effects.machine.file_access import file_exists, read_file, stat_file, write_file
from aos.effects.machine.file_edits import EditPlace, apply_patch, create_file, edit_file
from aos.effects.machine.folder_walk import find_files, list_folder
from aos.effects.machine.host_outputs import HostOutput
from aos.effects.machine.machine_host import MachineHost, machine_host, opened_machine
from aos.effects.machine.session_effects import open_session, signal_session
from aos.effects.machine.text_search import search_text
from aos.worker import EffectContext, EffectFailed, Executors, effect
from aos.worker.results import WithBlobs

Params = dict[str, Any]
Receipt = dict[str, Any]

COMMANDS: Final = 16
FILES: Final = 4
EXEC_S: Final = 24 * 3600
FILE_S: Final = 60


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
