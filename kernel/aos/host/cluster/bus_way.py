"""Write to a replicated world by its address: through the bus, to the node that owns it
(spec/cluster.md, CL-125, CL-128)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from nacl.signing import SigningKey

from aos.errors import BadUsage, Damage, Refused, Unavailable, located
from aos.host.cluster.bus_asking import ask_owner, joined
from aos.host.cluster.bus_client import PATIENCE_S, BusClient, owner_finder
from aos.host.cluster.bus_server import client_subject, node_subject
from aos.host.cluster.registration import (
    WorldRegistration,
    check_in_servers,
    find_registration,
)
from aos.host.door.protocol import bodies_of, raise_error, unpack
from aos.host.door.remote import RequestWay
from aos.host.door.way import BUSY_S, SignedState, WaitPatience, while_busy
from aos.host.door.writer import Writer
from aos.host.folder.folder import read_key
from aos.message_fields import Message
from aos.store.log.nats_address import NatsAccess, NatsAddress
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.rows import Forget
from aos.values.cbor import Value
from aos.values.digests import Hash

if TYPE_CHECKING:  # a client has no engine
    from aos.host.world.collecting import Begun


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedWorld:
    """A replicated world that is known by its address, without a folder. Its commands are signed
    with the key in ``key_file``."""

    address: NatsAddress
    world: Hash
    key_file: Path | None = None

    @property
    def path(self) -> Path:
        """The address, where messages name the folder of a world."""
        return Path(self.address.text)

    def operator_key(self) -> SigningKey:
        """Read the key.

        Raises:
            Refused: None was named.
            BadUsage, Refused: As ``read_key``.
        """
        if self.key_file is None:
            raise Refused(
                "a command needs the signature of an operator",
                location=self.address.text,
                hint="name the file with the key: --operator-key FILE",
            )
        return read_key(self.key_file)

    def remarks(self) -> list[str]:
        """None: there is no folder that others could write."""
        return []


class BusWay(RequestWay):
    """The ``Way`` to a replicated world by its address. It owns ``connection``, unless others use
    it too (``is_shared``). Used by one thread at a time."""

    def __init__(
        self,
        connection: NatsConnection,
        client: BusClient,
        world: Hash,
        *,
        address: NatsAddress,
        is_shared: bool = False,
        busy_s: float = BUSY_S,
        patience: WaitPatience | None = None,
    ) -> None:
        self.world = world
        self._address = address
        self._is_shared = is_shared
        self._connection = connection
        self._client = client
        self._busy_s = busy_s
        self._patience = patience

    def signed_state(self) -> SignedState:
        """As ``Way.signed_state``. Raises: Unavailable: Another world answered."""
        signed_state = super().signed_state()
        if signed_state.world != self.world:
            raise Unavailable(
                "the owner that answered has another world",
                location=self._address.text,
                expected=self.world.hex(),
                actual=signed_state.world.hex(),
            )
        return signed_state

    def ask(
        self,
        fields: Mapping[str, Value],
        *,
        answer_s: float | None = None,  # noqa: ARG002  # it depends on the request
    ) -> Message:
        """As ``RequestWay.ask``. The time that an answer may take is that of its request."""
        return self._ask([fields])

    def ask_with_modules(
        self,
        fields: Mapping[str, Value],
        modules: Iterable[bytes],
        *,
        answer_s: float,  # noqa: ARG002  # see ``ask``
    ) -> Message:
        """As ``RequestWay.ask_with_modules``, in one request."""
        return self._ask([*({"op": "module", "wasm": wasm} for wasm in modules), fields])

    def _ask(self, requests: list[Mapping[str, Value]]) -> Message:
        messages = joined(requests)

        def act() -> Message:
            replies = self._connection.run(ask_owner(self._client, messages))
            if self._patience is not None:
                self._patience.is_over(None)
            answer: Message = {}
            for body in bodies_of(replies):
                answer = unpack(body)
                raise_error(answer)
            return answer

        try:
            return while_busy(act, self._busy_s, self._patience)
        except Unavailable as problem:
            raise located(problem, self._address.text) from None

    def begin_marking(self) -> Begun:
        """Raises BadUsage: rows are removed in the folder of each node."""
        self._refuse_to_collect()

    def still_marking(self, token: int) -> None:  # noqa: ARG002  # as ``Way``
        """Raises as ``begin_marking``."""
        self._refuse_to_collect()

    def forget(self, token: int, rows: Forget) -> int:  # noqa: ARG002  # as ``Way``
        """Raises as ``begin_marking``."""
        self._refuse_to_collect()

    def end_marking(self, token: int) -> None:  # noqa: ARG002  # as ``Way``
        """Raises as ``begin_marking``."""
        self._refuse_to_collect()

    def compact(self) -> bool:
        """Return False: the store of a node is rewritten in its folder."""
        return False

    def _refuse_to_collect(self) -> NoReturn:
        raise BadUsage(
            "rows are removed in the folder of each node",
            location=self._address.text,
            hint="name the folder of a node: --world DIR",
        )

    def close(self) -> None:
        """End the connection, unless it is shared."""
        if not self._is_shared:
            self._connection.close()


def node_client(
    connection: NatsConnection,
    *,
    stream: Callable[[], str],
    world: Hash,
    world_key: bytes,
    patience_s: float = PATIENCE_S,
) -> BusClient:
    """The client of a node, which knows the key of its world. Its requests are as trusted as those
    on the owner's socket (CL-124). ``stream`` is as for ``owner_finder``."""
    return _client(connection, stream, world, world_key, WaitPatience(patience_s))


def address_client(
    connection: NatsConnection, *, stream: str, world: Hash, patience: WaitPatience | None = None
) -> BusClient:
    """The client of a program that does not know the key of the world (CL-124, CL-125). ``stream``
    is that of the registration."""
    return _client(connection, lambda: stream, world, None, patience)


def open_bus_writer(
    address: NatsAddress,
    access: NatsAccess,
    *,
    operator_key: Path | None = None,
    busy_s: float = BUSY_S,
    patience: WaitPatience | None = None,
    connection: NatsConnection | None = None,
) -> Writer:
    """Open the world at an address for writing. ``operator_key`` is the file with the key that
    signs commands. ``connection`` and errors are as for ``open_bus_way``."""
    way = open_bus_way(address, access, busy_s=busy_s, patience=patience, connection=connection)
    world = AddressedWorld(address=address, world=way.world, key_file=operator_key)
    return Writer(world, way, is_direct=False)


def open_bus_way(
    address: NatsAddress,
    access: NatsAccess,
    *,
    busy_s: float = BUSY_S,
    patience: WaitPatience | None = None,
    connection: NatsConnection | None = None,
) -> BusWay:
    """Connect to the servers of an address, and look up its world. No owner is needed yet.
    ``connection`` is one of the caller to these servers, which stays open.

    Raises:
        Refused: There is no world of this name, a node has taken it out of the servers, or the
            servers refuse this program.
        NameOfGroup: A group has the name.
        BadUsage: The client of NATS is not installed.
        Damage: The registration of the world cannot be read.
        Unavailable: The servers do not answer.
    """
    opened = NatsConnection(address, access) if connection is None else connection
    try:
        registration = registered_world(opened, address)
        client = address_client(
            opened, stream=registration.stream, world=registration.world, patience=patience
        )
        return BusWay(
            opened, client, registration.world, address=address,
            is_shared=connection is not None, busy_s=busy_s, patience=patience,
        )  # fmt: skip
    except BaseException:
        if connection is None:
            opened.close()
        raise


def _client(
    connection: NatsConnection,
    stream: Callable[[], str],
    world: Hash,
    world_key: bytes | None,
    patience: WaitPatience | None,
) -> BusClient:
    from aos.store.log.nats_messaging import NatsMessaging  # noqa: PLC0415  # see its connection

    finder = owner_finder(
        NatsBucket(connection, BEATS, replicas=None), stream=stream, world=world,
        world_key=world_key, subject=client_subject if world_key is None else node_subject,
    )  # fmt: skip
    patience = patience or WaitPatience(PATIENCE_S)
    return BusClient(
        NatsMessaging(connection),
        finder,
        patience_s=patience.timeout_s,
        on_wait=patience.is_over,
    )


def registered_world(connection: NatsConnection, address: NatsAddress) -> WorldRegistration:
    """Return the registration of the world at an address; its signature is not checked (CL-125).
    Raises as ``open_bus_way``."""
    try:
        entry = find_registration(NatsBucket(connection, WORLDS, replicas=None), address.name)
    except Damage as problem:
        if _has_worlds(connection):
            raise
        raise _no_world(address) from problem
    if entry is None:
        raise _no_world(address)
    check_in_servers(entry.registration)
    return entry.registration


def _has_worlds(connection: NatsConnection) -> bool:
    try:
        NatsBucket(connection, WORLDS, replicas=None).get("-")
    except Damage:
        return False
    return True


def _no_world(address: NatsAddress) -> Refused:
    return Refused(
        "these servers have no world of this name",
        location=address.text,
        hint="look at the name and the servers, and at the account of the credentials; aos init "
        "DIR --store ADDRESS makes a world",
    )
