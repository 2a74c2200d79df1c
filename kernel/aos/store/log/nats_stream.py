"""The streams of JetStream that AOS uses: their settings, which are checked on each connect, and
their state (spec/cluster.md, CL-11 to CL-18).

A setting that differs can lose what was acknowledged: a limit of size drops messages, and a copy in
memory ends with its server. So a stream with any other setting is refused, and never changed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from aos.errors import Damage, Refused, excerpt
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_errors import (
    NAME_TAKEN,
    NO_STREAM,
    JetStreamError,
    Unanswered,
)
from aos.values.digests import Hash

REPLICAS: Final = (1, 3)
"""How many replicas a stream of a world may have."""

STREAMS_MAX: Final = 100_000
"""So many names of streams are read."""

FREE_SETTINGS: Final = frozenset(
    {"compression", "consumer_limits", "description", "duplicate_window", "metadata", "placement"}
)
"""Settings that may have any value: they change no message and lose none."""

OFF: Final[tuple[Any, ...]] = (None, False, 0, "", [], {})
"""The values of a setting that is off."""

_TIME: Final = re.compile(r"([0-9T:-]{19})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})")

PEER_SILENCE_NS_MAX: Final = 3_000_000_000
"""A replica that the leader heard of in the last three seconds counts for its quorum. Replicas
answer the leader's heartbeat, once a second."""


def new_stream_name(world: Hash) -> str:
    """Return a name for the stream of a world, which no other stream ever had (CL-11)."""
    return f"AOS-{world.hex()[:16]}-{secrets.token_hex(8)}"


def log_subject(stream: str) -> str:
    """The subject of the messages of a stream of a world: ``aos.log.WORLD.NONCE`` (CL-11)."""
    return f"aos.log.{stream.removeprefix('AOS-').replace('-', '.')}"


def log_settings(stream: str, replicas: int) -> dict[str, Any]:
    """The settings of the stream of a world (CL-12)."""
    return {
        "name": stream,
        "subjects": [log_subject(stream)],
        "storage": "file",
        "num_replicas": replicas,
        "retention": "limits",
        "discard": "new",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "deny_delete": True,
        "deny_purge": False,
        "allow_rollup_hdrs": False,
        "allow_direct": False,
        "mirror_direct": False,
    }


def bucket_stream(bucket: str) -> str:
    """The name of the stream of a bucket."""
    return f"KV_{bucket}"


def bucket_settings(bucket: str, replicas: int, *, in_memory: bool) -> dict[str, Any]:
    """The settings of the stream of a bucket: the last value of each key (CL-25)."""
    return {
        **log_settings(bucket_stream(bucket), replicas),
        "subjects": [f"$KV.{bucket}.>"],
        "storage": "memory" if in_memory else "file",
        "max_msgs_per_subject": 1,
    }


class NatsPeer(NamedTuple):
    """A replica of a stream other than the leader, as the leader knows it: the name of the server,
    for how long it has not been heard of, and the number of its operations that are missing there.
    """

    name: str
    is_offline: bool
    is_current: bool
    silent_ns: int
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsStreamState:
    """A stream as its leader has it. ``first`` is the position of the first message that is there,
    ``tail`` that of the last one that was written; 0 before the first. ``messages`` and ``bytes``
    are there. ``created`` tells a stream from a later one of the same name. ``leader`` and
    ``replicas`` are names of servers; the leader is among them, ``peers`` are the others, and
    ``has_quorum`` is whether it has heard of enough of them lately. ``server_ns`` is the server's
    time of this answer, in ns since 1970; 0 if it is not known."""

    created: str
    first: int
    tail: int
    messages: int
    bytes: int
    leader: str
    peers: tuple[NatsPeer, ...]
    has_quorum: bool
    server_ns: int
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the stream."""
        return str(self.settings.get("name"))

    @property
    def replicas(self) -> tuple[str, ...]:
        """The names of the servers that have the stream."""
        return (self.leader, *(peer.name for peer in self.peers))

    @property
    def replica_count(self) -> int:
        """The number of replicas in its settings. Raises: Refused: It is not 1 or 3."""
        count = self.settings.get("num_replicas")
        if count not in REPLICAS:
            raise _differs(self.name, "num_replicas", "1 or 3", repr(count))
        return int(count)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> NatsStreamState:
        """Read an answer of ``STREAM.INFO``. Raises: Unanswered: It is none."""
        try:
            state, settings = document["state"], document["config"]
            cluster = document.get("cluster") or {}
            peers = tuple(map(_peer, cluster.get("replicas") or []))
            seen = sum(map(_is_seen, peers))
            return cls(
                created=str(document["created"]),
                first=int(state["first_seq"]),
                tail=int(state["last_seq"]),
                messages=int(state.get("messages", 0)),
                bytes=int(state.get("bytes", 0)),
                leader=str(cluster.get("leader", "")),
                peers=peers,
                has_quorum=1 + seen > int(settings["num_replicas"]) // 2
                or _is_new_leader(cluster, document),
                server_ns=time_ns(str(document["ts"])) if "ts" in document else 0,
                settings=dict(settings),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise Unanswered(f"no state of a stream: {problem!r}") from None


def _peer(document: Mapping[str, Any]) -> NatsPeer:
    return NatsPeer(
        name=str(document["name"]),
        is_offline=bool(document.get("offline")),
        is_current=bool(document.get("current")),
        silent_ns=int(document.get("active", 0)),
        lag=int(document.get("lag", 0)),
    )


def _is_seen(peer: NatsPeer) -> bool:
    return not peer.is_offline and 0 < peer.silent_ns <= PEER_SILENCE_NS_MAX


def time_ns(text: str) -> int:
    """Read a time of a server, RFC 3339 with up to nine digits of a second, as ns since 1970.
    Raises ValueError."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"not a time: {excerpt(text)!r}")
    zone = "+00:00" if match[3] == "Z" else match[3]
    seconds = int(datetime.fromisoformat(match[1] + zone).timestamp())
    return seconds * 1_000_000_000 + int((match[2] or "0").ljust(9, "0"))


def _is_new_leader(cluster: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """Whether the leader was elected just now, by a quorum, and may have heard of none since."""
    try:
        since, now = (
            datetime.fromisoformat(str(text)[:19])
            for text in (cluster["leader_since"], document["ts"])
        )
    except (KeyError, ValueError):
        return False
    return 0 <= (now - since).total_seconds() * 1e9 < PEER_SILENCE_NS_MAX


async def make_stream(connection: NatsConnection, settings: Mapping[str, Any]) -> NatsStreamState:
    """Make a stream, unless it is there with these settings.

    Raises:
        Refused: It has another setting, or there are fewer servers than replicas. Nothing changed.
        Unanswered: No answer came; ask again.
    """
    name = settings["name"]
    try:
        await connection.api(f"STREAM.CREATE.{name}", settings)
    except JetStreamError as problem:
        if problem.code != NAME_TAKEN:
            raise problem.as_error(f"stream {name}") from None
    state = await stream_state(connection, name)
    check_settings(state, settings)
    return state


async def stream_state(connection: NatsConnection, name: str) -> NatsStreamState:
    """Ask the leader of a stream for its state.

    Raises:
        Damage: There is no such stream.
        Unanswered: No answer came: there is no leader now, or it does not reach a quorum.
    """
    return NatsStreamState.of(await stream_document(connection, name))


async def stream_document(
    connection: NatsConnection, name: str, request: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Ask the leader of a stream for what ``STREAM.INFO`` tells. Raises as ``stream_state``."""
    try:
        document = await connection.api(f"STREAM.INFO.{name}", request)
    except JetStreamError as problem:
        if problem.code != NO_STREAM or name in await stream_names(connection):
            raise Unanswered(f"stream {name}: {problem}") from None
        raise Damage(
            "the stream is missing",
            location=", ".join(connection.address.servers),
            expected=f"the stream {name}",
            hint="it was deleted, or these are other servers, or another account of them",
        ) from None
    state = NatsStreamState.of(document)
    # While there is no leader, any replica answers; a former leader that is cut off answers, too,
    # with the messages that it had.
    if not state.leader:
        raise Unanswered(f"stream {name}: the servers elect a leader")
    if not state.has_quorum:
        raise Unanswered(
            f"stream {name}: its leader {state.leader} does not hear of enough replicas"
        )
    return document


async def stream_names(connection: NatsConnection) -> list[str]:
    """Return the names of all streams of the account, at most ``STREAMS_MAX``, as the leader of all
    servers knows them. A server that starts may not have them yet. Raises Unanswered."""
    names: list[str] = []
    while len(names) < STREAMS_MAX:
        try:
            document = await connection.api("STREAM.NAMES", {"offset": len(names)})
        except JetStreamError as problem:
            raise Unanswered(f"the names of all streams: {problem}") from None
        page = document.get("streams") or []
        names += map(str, page)
        if not page or len(names) >= int(document.get("total", 0)):
            break
    return names


def check_settings(state: NatsStreamState, settings: Mapping[str, Any]) -> None:
    """Check that a stream has these settings and no other (CL-13).

    Raises:
        Refused: One differs, or one is on that AOS does not use.
    """
    name = settings["name"]
    actual = state.settings
    for field in sorted({*settings, *actual} - FREE_SETTINGS):
        value = actual.get(field)
        if actual.get("sealed") is True and field in ("sealed", "deny_purge"):
            continue  # readers read a sealed stream to its end; writers learn it by an error
        if field in settings and value != settings[field]:
            raise _differs(name, field, repr(settings[field]), repr(value))
        if field not in settings and value not in OFF:
            raise _differs(name, field, "no such setting", repr(value))


def _differs(name: str, field: str, expected: str, actual: str) -> Refused:
    return Refused(
        f"the setting {field} of a stream differs",
        location=f"stream {name}",
        expected=expected,
        actual=actual,
        hint="a stream that AOS made has the settings of rule CL-12; it is not changed here",
    )
