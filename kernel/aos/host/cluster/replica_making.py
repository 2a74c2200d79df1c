"""Make a replicated world: its folder, its stream, and its registration (spec/cluster.md, CL-107).

    name is free ─▶ stream, durable ─▶ genesis: log, store ─▶ replica.json, world.json ─▶ registered

A kill may come at any point. A folder that is not finished is made again, with another stream; one
that is finished and not registered is registered.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from aos.core.journal.frame import NO_FRAME, Head, Tip
from aos.errors import AosError, BadUsage, Refused, Unavailable
from aos.host.cluster.beat import NODE
from aos.host.cluster.registration import WorldRegistration, find_registration, register
from aos.host.folder.folder import (
    STORE,
    WORLD_FILE,
    WorldFolder,
    is_replicated,
    open_folder,
)
from aos.host.folder.making import check_names, finish, make_keys, making, new_folder, new_genesis
from aos.host.folder.replica_file import ReplicaFile, replica_of
from aos.host.stamps import Sources
from aos.store.log.bucket import BucketUnreachable
from aos.store.log.log import LogUnreachable
from aos.store.log.logged_store import LogAway, LoggedStore
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_durability import check_durable
from aos.store.log.nats_errors import JetStreamError, Unanswered
from aos.store.log.nats_log import NatsLog
from aos.store.log.nats_stream import REPLICAS, log_settings, make_stream, new_stream_name

ANSWER_S: Final = 10.0
"""Seconds for which servers that elect a leader are asked again."""

_PAUSE_S: Final = 0.1

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlan:
    """A replicated world to make: its address, its stream's ``replicas``, the ``monitors`` of the
    servers, and the name of its first node. ``executors`` get keys, as for ``init_world``."""

    address: NatsAddress
    replicas: int = 3
    node: str
    monitors: tuple[str, ...] = ()
    unverified_durability: bool = False
    operator: str = "operator"
    executors: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises: BadUsage: A field is invalid."""
        check_names(self.operator, self.executors)
        check_node(self.node)
        if self.replicas not in REPLICAS:
            raise BadUsage("--replicas", expected="1 or 3", actual=str(self.replicas))
        if not (self.monitors or self.unverified_durability):
            raise BadUsage(
                "it is not known whether the servers sync what they acknowledge",
                expected="--monitor URL for each server, such as http://10.0.0.1:8222",
                actual="none",
                hint="or accept the loss of acknowledged records: --unverified-durability",
            )

    def file(self, stream: str) -> ReplicaFile:
        """The ``replica.json`` of the first node."""
        return ReplicaFile(
            address=self.address,
            stream=stream,
            node=self.node,
            monitors=self.monitors,
            unverified_durability=self.unverified_durability,
        )


def check_node(name: str) -> None:
    """Raises: BadUsage: The name is not one of a node (CL-70)."""
    if not NODE.fullmatch(name):
        raise BadUsage(
            "not a name of a node",
            expected="at most 64 letters, digits, _ and -",
            actual=repr(name),
        )


def default_node() -> str:
    """The name of this machine, in the form of a node's name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname()).strip("-")[:64] or "node"


def init_replica(
    path: Path,
    plan: ReplicaPlan,
    access: NatsAccess,
    *,
    sources: Sources | None = None,
    keys_of: WorldFolder | None = None,
) -> WorldFolder:
    """Create a replicated world in an empty or new folder, or finish one whose creation was
    interrupted. ``keys_of`` is as for ``init_world``.

    Raises:
        BadUsage: The plan is invalid, or the client of NATS is not installed. Nothing has changed.
        Refused: The name has another world, the folder is not empty or has a world already, a
            server does not sync, or a bucket has other settings. Nothing has changed.
        Unavailable: The servers do not answer, or the folder cannot be written. The same call
            continues.
    """
    plan.check()
    with NatsConnection(plan.address, access) as connection:
        worlds = answered(lambda: NatsBucket(connection, WORLDS, replicas=plan.replicas))
        entry = answered(lambda: find_registration(worlds, plan.address.name))
        if (path / WORLD_FILE).exists():
            folder = _made_before(path, plan)
            if entry is not None and entry.registration.world == folder.world:
                raise Refused(f"{path}: there is a world already; nothing was changed")
        else:
            folder = None
        if entry is not None:
            raise Refused(
                "another world has this name",
                location=plan.address.text,
                expected="a name that no world has",
                actual=f"world {entry.registration.world.hex()[:16]}",
                hint="use another name"
                + ("" if folder is None else f", in another folder than {path}"),
            )
        answered(lambda: NatsBucket(connection, BEATS, replicas=plan.replicas))
        if folder is None:
            folder = _make(path, plan, connection, sources or Sources(), keys_of)
        stream, key = replica_of(path).stream, folder.world_key()
        registration = WorldRegistration(
            name=plan.address.name, world=folder.world, stream=stream
        ).signed(key)
        answered(lambda: register(worlds, registration))
    return folder


def _made_before(path: Path, plan: ReplicaPlan) -> WorldFolder:
    """The world of an interrupted creation. Raises: Refused: It is another world."""
    folder = open_folder(path)
    if not is_replicated(path):
        raise Refused(f"{path}: there is a world already; nothing was changed")
    replica = replica_of(path)
    if replica != plan.file(replica.stream) or set(folder.executors) != set(plan.executors):
        raise Refused(
            "there is a world already, which was made with other options; nothing was changed",
            location=str(path),
            expected=f"--store {replica.address.text} --node {replica.node} and its other options",
            actual=f"--store {plan.address.text} --node {plan.node}",
        )
    return folder


def _make(
    path: Path,
    plan: ReplicaPlan,
    connection: NatsConnection,
    sources: Sources,
    keys_of: WorldFolder | None,
) -> WorldFolder:
    with making(path):
        keys = make_keys(path, plan.operator, plan.executors, sources, keys_of=keys_of)
        sealed, stamp = new_genesis(keys, sources)
        stream = new_stream_name(sealed.tip.world)
        try:
            answered(
                lambda: connection.run(make_stream(connection, log_settings(stream, plan.replicas)))
            )
            log = answered(lambda: NatsLog(connection, stream))
            if not plan.unverified_durability:
                check_durable(plan.monitors, log.state.replicas)
            with LoggedStore.create(path / STORE) as store:
                store.begin(stream)
                tip = Tip(world=sealed.tip.world)
                part_bytes = answered(lambda: log.part_bytes)
                store.connect(log, stream=stream, tip=tip, key=keys.world, part_bytes=part_bytes)
                head = Head.of(sealed.tip).signed(keys.world)
                answered(lambda: store.append([sealed], head, expected=NO_FRAME))
            folder = new_folder(path, keys, sealed, stamp)
            with folder.open_plain() as plain:
                plan.file(stream).write(plain)
            finish(folder, keys.operators)
        except BaseException:
            _drop(connection, stream)
            raise
    return folder


def _drop(connection: NatsConnection, stream: str) -> None:
    """Remove the stream of a world that was not made. If that fails, it stays and is never used."""
    with contextlib.suppress(AosError):
        connection.run(connection.api(f"STREAM.DELETE.{stream}"))


def answered(ask: Callable[[], T]) -> T:
    """Ask servers until they answer, for up to ``ANSWER_S`` seconds: they may elect a leader.

    Raises:
        Unavailable: They do not answer.
    """
    until_s = time.monotonic() + ANSWER_S
    while True:
        try:
            return ask()
        except (LogUnreachable, BucketUnreachable, Unanswered, LogAway) as problem:
            if time.monotonic() >= until_s:
                raise Unavailable(
                    f"{problem}", hint="when the servers answer, the same command continues"
                ) from problem
        except JetStreamError as problem:
            raise problem.as_error("JetStream") from problem
        time.sleep(_PAUSE_S)
