"""``sys/host.session.open@1`` and ``sys/host.session.signal@1``."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any, Final

from aos.effects.machine.contained_paths import ITSELF
from aos.effects.machine.declined import (
    ALREADY_EXITED,
    ERROR,
    NOT_FOUND,
    READY,
    SIGNALED,
    Declined,
    invalid,
)
from aos.effects.machine.host_sessions import (
    HOST_NETWORK,
    NO_NETWORK,
    SECOND_NS,
    TTL_DEFAULT_NS,
    TTL_MAX_NS,
    HostSession,
    check_env,
    session_id,
    unknown_session,
)
from aos.effects.machine.machine_host import MachineHost
from aos.worker import EffectContext

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
