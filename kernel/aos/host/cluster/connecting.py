"""Connect to the buckets and streams of NATS servers (spec/cluster.md, CL-164)."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Callable, Iterator, Sequence

from aos.errors import BadUsage, Damage, Refused
from aos.host.cluster.base import WorldServers
from aos.store.log.log import LogUnreachable
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_durability import check_durable
from aos.store.log.nats_errors import Unanswered
from aos.store.log.nats_stream import REPLICAS, stream_state
from aos.store.log.nats_streams import NatsStreams
from aos.store.log.patience import patiently


@contextlib.contextmanager
def connected_servers(
    address: NatsAddress, access: NatsAccess, *, replicas: int | None = None
) -> Iterator[WorldServers]:
    """Connect to servers. With ``replicas``, 1 or 3, the buckets are made if they are not there;
    otherwise the streams of bases get as many replicas as the bucket ``AOS`` has.

    Raises:
        BadUsage: The client of NATS is not installed, or ``replicas`` is another number.
        Refused: The servers refuse this program, have other buckets, or have none.
        Unavailable: They do not answer.
    """
    if replicas is not None and replicas not in REPLICAS:
        raise BadUsage("replicas of a stream", expected="1 or 3", actual=str(replicas))
    with NatsConnection(address, access) as connection:
        count = replicas or patiently(lambda: bucket_replicas(connection))
        yield WorldServers(
            worlds=patiently(lambda: NatsBucket(connection, WORLDS, replicas=count)),
            beats=patiently(lambda: NatsBucket(connection, BEATS, replicas=count)),
            streams=NatsStreams(connection, replicas=count),
        )


def durability_check(
    servers: WorldServers, monitors: Sequence[str], *, is_unverified: bool
) -> Callable[[str], None]:
    """Return a check of a stream's servers: they sync what they acknowledge (CL-27), unless
    ``is_unverified``. It raises Refused."""
    streams = servers.streams
    assert isinstance(streams, NatsStreams), "servers of NATS"

    def check(stream: str) -> None:
        if not is_unverified:
            log = patiently(lambda: streams.log(stream))
            check_durable(monitors, log.state.replicas)

    return check


def machine_name() -> str:
    """The name of this machine, in the form of the name of a node."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname()).strip("-")[:64] or "node"


def bucket_replicas(connection: NatsConnection) -> int:
    """Return how many replicas the bucket ``AOS`` has.

    Raises:
        Refused: There is none.
        LogUnreachable: The servers do not answer.
    """
    try:
        return connection.run(stream_state(connection, f"KV_{WORLDS}")).replica_count
    except Unanswered as problem:
        raise LogUnreachable(f"the servers do not answer: {problem}") from problem
    except Damage:
        raise Refused(
            "no world is registered at these servers",
            location=connection.address.text,
            hint="check the address, or make the world: aos init DIR --store URL",
        ) from None
