"""Requests over the bus, with messages that are lost, doubled, late and reordered
(spec/cluster.md, CL-120 to CL-127)."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aos.core.decide.answers import Admitted, Duplicate, Refusal, Rule
from aos.errors import BadUsage, Unavailable
from aos.host.cluster.bus_asking import BusRequest, ask_owner
from aos.host.cluster.bus_client import BusClient, NotCarriedOut, NotKnown, Owner
from aos.host.cluster.bus_message import (
    WHOLE_BYTES_MAX,
    BusWord,
    Full,
    Get,
    Piece,
    Put,
    ReplyPiece,
    Shape,
    pieces_of,
    read_bus_answer,
)
from aos.host.cluster.bus_server import (
    BusLimits,
    BusServer,
    client_subject,
    inbox_of,
    listening,
    node_subject,
)
from aos.host.door.protocol import answer_fields, bodies_of, pack, unpack
from aos.host.errors import NotOwner
from aos.message_fields import Message
from aos.store.log.memory_log import Fate
from aos.store.log.memory_messaging import MemoryMessaging, SharedMessages
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash

WORLD = Hash(b"w" * 32)
LIMITS = BusLimits(hold_s=0.01, finish_s=60)
DOCUMENT = b"document"


def inbox(node: str) -> str:
    return inbox_of(WORLD, node.encode().ljust(16, b"."))


def owner(node: str) -> Owner:
    return Owner(node, node.encode().ljust(16, b"."), node_subject(inbox(node)))


@dataclass
class World:
    """The journal that all owners share: admitted events by id, commands by serial."""

    admitted: dict[str, int] = field(default_factory=dict)
    commands: list[bytes] = field(default_factory=list)
    requests: int = 0

    def answer(self, request: Message) -> dict[str, Any]:
        self.requests += 1
        match request["op"]:
            case "send":
                return {"answers": [self._event(item) for item in request["items"]]}
            case "control" | "apply" if "signature" in request:
                return {"answer": answer_fields(self._command(request))}
            case "manifest":
                return {"document": None}
            case "find":
                if request["signature"] not in self.commands:
                    return {"answer": None}
                seq = 1 + self.commands.index(request["signature"])
                return {"answer": answer_fields(Admitted(seq=seq, to=()))}
        return {"op": request["op"]}

    def _event(self, item: Message) -> dict[str | int, Any]:
        id = item["id"]
        if id in self.admitted:
            return answer_fields(Duplicate(seq=self.admitted[id]))
        self.admitted[id] = len(self.admitted) + 1
        return answer_fields(Admitted(seq=self.admitted[id], to=()))

    def _command(self, request: Message) -> Admitted | Refusal:
        if request["serial"] != len(self.commands):
            rule = (
                Rule.CONTROL_SERIAL_IS_WRONG
                if request["op"] == "control"
                else Rule.MANIFEST_SERIAL_IS_WRONG
            )
            return Refusal(rule=rule, message="too late", blockers=())
        self.commands.append(request["signature"])
        return Admitted(seq=len(self.commands), to=())


@dataclass
class Bus:
    """A world, its owner, and the messages between owner and askers."""

    world: World = field(default_factory=World)
    shared: SharedMessages = field(default_factory=SharedMessages)
    owner: str | None = "a"
    fate: Callable[[], Fate] = lambda: Fate.ANSWERED
    before_answer: Callable[[], None] = lambda: None
    after_answer: Callable[[], None] = lambda: None

    async def answer(self, messages: bytes) -> bytes:
        self.before_answer()
        reply = b"".join(pack(self.world.answer(unpack(body))) for body in bodies_of(messages))
        self.after_answer()
        return reply

    @contextlib.asynccontextmanager
    async def serving(self, node: str = "a", limits: BusLimits = LIMITS) -> AsyncIterator[None]:
        messaging = MemoryMessaging(self.shared)
        async with listening(messaging, inbox(node), self.answer, limits=limits):
            yield

    def client(self, patience_s: float = 60.0) -> BusClient:
        return BusClient(
            MemoryMessaging(self.shared, self._fate),
            lambda: None if self.owner is None else owner(self.owner),
            patience_s=patience_s,
            look_again_s=0.001,
        )

    def _fate(self) -> Fate:
        return self.fate()

    def takes_over(self, node: str) -> None:
        """The owner is killed, and another node owns the world."""
        for subject in (node_subject, client_subject):
            self.shared.listeners.pop(subject(inbox(str(self.owner))), None)
        self.owner = node


def events(*ids: str | None, value: bytes = b"v") -> bytes:
    items: list[Value] = [
        {"schema": "t/A@1", "value": value, **({} if id is None else {"id": id})} for id in ids
    ]
    return pack({"op": "send", "items": items})


def command(op: str, serial: int = 0) -> bytes:
    fields: dict[str, Value] = {
        "op": op, "serial": serial, "principal": "ann", "signature": b"s%d" % serial,
    }  # fmt: skip
    return pack({**fields, "document": DOCUMENT} if op == "apply" else fields)


def only(messages: bytes) -> Message:
    [body] = bodies_of(messages)
    return unpack(body)


def run(job: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(120):
            await job

    asyncio.run(within())


@pytest.mark.parametrize("size", [0, 1, 700, 1024, 100_000])
def test_a_request_of_any_size_gets_its_reply(size: int) -> None:
    """CL-121: pieces in both directions."""

    async def story() -> None:
        bus = Bus()

        async def echo(messages: bytes) -> bytes:
            return messages * 2

        async with listening(MemoryMessaging(bus.shared), inbox("a"), echo, limits=LIMITS):
            message = pack({"op": "status", "filler": b"x" * size})
            reply = await bus.client().ask(message, answer_s=60, is_repeatable=True)

        assert reply == (message * 2, False)

    run(story())


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([1, 3000, 9000]))
def test_an_event_is_admitted_once_however_often_messages_are_lost(seed: int, size: int) -> None:
    """CL-121, CL-126: lost, doubled, late and reordered pieces, and owners that are killed."""
    chance = random.Random(seed)

    async def story() -> None:
        bus = Bus()
        fates = [Fate.ANSWERED, Fate.ANSWERED, *Fate]
        bus.fate = lambda: chance.choice(fates)
        bus.after_answer = lambda: (
            bus.takes_over("b") if bus.owner == "a" and chance.random() < 0.3 else None
        )
        async with bus.serving("a"), bus.serving("b"):
            for number in range(3):
                reply = await ask_owner(bus.client(), events(f"e{number}", None, value=b"x" * size))
                answers = only(reply)["answers"]
                assert all(answer.keys() & {"duplicate", "seq"} for answer in answers)
                bus.fate = lambda: Fate.ANSWERED
                await bus.shared.arrive()
                bus.fate = lambda: chance.choice(fates)
        assert len(bus.world.admitted) == 6

    run(story())


def test_a_short_request_is_one_message_with_its_answer() -> None:
    """CL-121"""

    async def story() -> None:
        bus = Bus()
        count = 0

        def fate() -> Fate:
            nonlocal count
            count += 1
            return Fate.ANSWERED

        bus.fate = fate
        async with bus.serving():
            await ask_owner(bus.client(), events("e"))
        assert count == 1

    run(story())


def test_the_next_owner_is_asked_when_the_first_is_killed_before_it_answers() -> None:
    """CL-126"""

    async def story() -> None:
        bus = Bus()
        bus.after_answer = lambda: bus.takes_over("b") if bus.owner == "a" else None
        bus.fate = lambda: Fate.UNANSWERED if bus.owner == "a" else Fate.ANSWERED
        async with bus.serving("a"), bus.serving("b"):
            reply = await ask_owner(bus.client(), events("e"))
        assert only(reply)["answers"] == [{"duplicate": 1}]
        assert bus.world.requests == 2

    run(story())


@pytest.mark.parametrize("op", ["settle", "control"])
def test_a_request_that_is_not_safe_to_repeat_is_not_repeated(op: str) -> None:
    """CL-126: whether it was carried out is not known. The owner itself would sign a command
    without a signature, each time for another number."""

    async def story() -> None:
        bus = Bus()
        bus.after_answer = lambda: bus.takes_over("b") if bus.owner == "a" else None
        bus.fate = lambda: Fate.UNANSWERED if bus.owner == "a" else Fate.ANSWERED
        async with bus.serving("a"), bus.serving("b"):
            with pytest.raises(NotKnown, match="unknown whether the request was accepted"):
                await ask_owner(bus.client(), pack({"op": op}))
        assert bus.world.requests == 1

    run(story())


@pytest.mark.parametrize("op", ["apply", "control"])
def test_a_command_is_carried_out_once(op: str) -> None:
    """CL-127: the next owner has its record."""

    async def story() -> None:
        bus = Bus()
        bus.after_answer = lambda: bus.takes_over("b") if bus.owner == "a" else None
        bus.fate = lambda: Fate.UNANSWERED if bus.owner == "a" else Fate.ANSWERED
        async with bus.serving("a"), bus.serving("b"):
            reply = await ask_owner(bus.client(), command(op))
            assert only(reply)["answer"] == {"seq": 1, "to": []}
        assert bus.world.commands == [b"s0"]

    run(story())


def test_a_command_that_was_not_carried_out_is_sent_again() -> None:
    """CL-127: the first owner was killed before it took the command."""

    async def story() -> None:
        bus = Bus()
        bus.fate = lambda: Fate.LOST if bus.owner == "a" else Fate.ANSWERED
        client = bus.client()
        async with bus.serving("a"), bus.serving("b"):
            asking = asyncio.create_task(ask_owner(client, command("control")))
            await asyncio.sleep(0.05)
            bus.takes_over("b")
            assert only(await asking)["answer"]["seq"] == 1
        assert bus.world.commands == [b"s0"]

    run(story())


def test_a_command_whose_number_another_one_took_is_refused() -> None:
    """CL-127: the first owner was killed before it took the command."""

    async def story() -> None:
        bus = Bus()
        bus.fate = lambda: Fate.LOST if bus.owner == "a" else Fate.ANSWERED
        async with bus.serving("a"), bus.serving("b"):
            asking = asyncio.create_task(ask_owner(bus.client(), command("control")))
            await asyncio.sleep(0.05)
            bus.world.commands.append(b"of another operator")
            bus.takes_over("b")
            answer = only(await asking)["answer"]
        assert answer["rule"] == Rule.CONTROL_SERIAL_IS_WRONG.value
        assert bus.world.commands == [b"of another operator"]

    run(story())


def test_a_command_of_another_operator_is_not_taken_for_this_one() -> None:
    """CL-127: a refusal of the first attempt is the answer."""

    async def story() -> None:
        bus = Bus()
        async with bus.serving():
            await ask_owner(bus.client(), command("control"))
            reply = await ask_owner(bus.client(), command("control"))
        assert only(reply)["answer"]["rule"] == Rule.CONTROL_SERIAL_IS_WRONG.value

    run(story())


def test_an_owner_that_was_deposed_is_no_answer_to_an_event() -> None:
    """CL-126: its reply says that it owns the world no more."""

    async def story() -> None:
        bus = Bus()

        def deposed() -> None:
            if bus.owner == "a":
                bus.owner = "b"
                raise NotOwner("another node owns the world now")

        bus.before_answer = deposed
        async with bus.serving("a"), bus.serving("b"):
            reply = await ask_owner(bus.client(), events("e"))
        assert only(reply)["answers"] == [{"seq": 1, "to": []}]

    run(story())


@pytest.mark.parametrize("node", [None, "nobody"])
def test_without_an_owner_that_listens_the_asker_looks_for_one_and_gives_up(
    node: str | None,
) -> None:
    """CL-125"""

    async def story() -> None:
        bus = Bus(owner=node)
        with pytest.raises(NotCarriedOut) as refusal:
            await ask_owner(bus.client(patience_s=0.1), events("e"))
        assert refusal.value.exit_code == Unavailable.exit_code

        bus.owner = "a"
        async with bus.serving():
            await ask_owner(bus.client(), events("e"))
        assert list(bus.world.admitted) == ["e"]

    run(story())


def test_an_owner_that_comes_within_the_patience_is_asked() -> None:
    """CL-125"""

    async def story() -> None:
        bus = Bus(owner=None)
        async with bus.serving():
            asking = asyncio.create_task(ask_owner(bus.client(patience_s=60), events("e")))
            await asyncio.sleep(0.05)
            bus.owner = "a"
            assert only(await asking)["answers"] == [{"seq": 1, "to": []}]

    run(story())


def test_many_requests_at_the_same_time() -> None:
    """CL-123"""

    async def story() -> None:
        bus = Bus()
        client = bus.client()
        async with bus.serving():
            replies = await asyncio.gather(
                *(ask_owner(client, events(f"e{n}", value=b"x" * 3000)) for n in range(200))
            )
        assert len(bus.world.admitted) == 200
        assert {only(reply)["answers"][0]["seq"] for reply in replies} == set(range(1, 201))

    run(story())


def test_the_owner_takes_some_requests_alone() -> None:
    """CL-124, CL-185: neither streams nor what ends the owner; of others, no command without a
    signature, and no value."""

    async def story() -> None:
        bus = Bus()
        messaging = MemoryMessaging(bus.shared)
        others = BusClient(
            messaging, lambda: Owner("a", b"", client_subject(inbox("a"))), patience_s=0.1
        )
        async with bus.serving():
            for op in ("follow", "stop", "collect", "nonsense"):
                for client in (bus.client(), others):
                    error = only(await ask_owner(client, pack({"op": op})))["error"]
                    assert error["kind"] == "usage"
            for unsigned in (
                pack({"op": "control", "action": "retry"}),
                pack({"op": "try", "document": b""}),
            ):
                error = only(await ask_owner(others, unsigned))["error"]
                assert (error["kind"], "--operator-key" in error["message"]) == ("refused", True)
            for op in ("settle", "attempt", "tell", "http", "hand_over", "blob", "head"):
                error = only(await ask_owner(others, pack({"op": op})))["error"]
                assert error["kind"] == "usage"
            assert bus.world.requests == 0
            await ask_owner(others, command("control"))
        assert bus.world.commands == [b"s0"]

    run(story())


def test_bytes_that_are_no_messages_are_refused() -> None:
    """CL-122"""

    async def story() -> None:
        bus = Bus()
        async with bus.serving():
            for messages in (b"", b"\x00\x00\x00\x05abc", b"\x00\x00\x00\x01\xff", b"\xff" * 9):
                with pytest.raises(BadUsage):
                    await ask_owner(bus.client(), messages)
                reply = await bus.client().ask(messages, answer_s=60, is_repeatable=True)
                if messages:
                    assert only(reply.messages)["error"]["kind"] == "usage"
        assert bus.world.requests == 0

    run(story())


# The serving side alone


class Serving:
    """A server whose clock does not move, and which answers each request with its length."""

    def __init__(self, limits: BusLimits = LIMITS) -> None:
        self.now_s = 0.0
        self.requests: list[bytes] = []
        self.lines: list[str] = []
        self.problem: Exception | None = None
        self.server = BusServer(
            self._answer, piece_bytes=self._piece_bytes, limits=limits,
            report=self.lines.append, now_s=lambda: self.now_s,
        )  # fmt: skip

    async def _answer(self, request: bytes) -> bytes:
        self.requests.append(request)
        if self.problem is not None:
            raise self.problem
        return b"r" * len(request)

    async def _piece_bytes(self) -> int:
        return 1000

    async def tell(self, question: Put | Get) -> object:
        data = await self.server.take(question.to_bytes())
        assert data is not None
        return read_bus_answer(data)


def id_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_garbage_is_ignored_and_others_are_served() -> None:
    """CL-121"""

    async def story() -> None:
        serving = Serving()
        pieces = pieces_of(b"x" * 2500, 1000)
        assert await serving.tell(Put(id_of(1), pieces[0])) == BusWord("more")
        shape = pieces[0].shape
        garbage: list[Value] = [
            None, 7, [], ["aos/bus/1"], ["aos/bus/1", "put"], ["aos/bus/2", "get", id_of(1), 0],
            ["aos/bus/1", "get", b"short", 0], ["aos/bus/1", "get", id_of(1), -1],
            ["aos/bus/1", "put", id_of(1), shape.hash, 2500, 3, 3, b"x"],
            ["aos/bus/1", "put", id_of(1), shape.hash, 2500, 0, 70_000, b"x"],
            ["aos/bus/1", "put", id_of(2), shape.hash, WHOLE_BYTES_MAX + 1, 0, 1, b"x"],
            ["aos/bus/1", "put", id_of(2), shape.hash, 1, 0, 1, b"xx"],
        ]  # fmt: skip
        for value in garbage:
            assert await serving.server.take(encode(value)) is None
        for data in (b"", b"\xff", b"\x9f", bytes(5000)):
            assert await serving.server.take(data) is None

        assert await serving.tell(Put(id_of(1), pieces[2])) == BusWord("more")
        assert await serving.tell(Put(id_of(1), pieces[2])) == BusWord("more")
        answer = await serving.tell(Put(id_of(1), pieces[1]))
        assert isinstance(answer, ReplyPiece)
        assert serving.requests == [b"x" * 2500]

    run(story())


def test_pieces_of_another_request_and_of_wrong_bytes_carry_nothing_out() -> None:
    """CL-121"""

    async def story() -> None:
        serving = Serving()
        first, second = pieces_of(b"x" * 2000, 1000)
        [other] = pieces_of(b"y", 1000)
        wrong = Piece(second.shape, 1, b"z" * 1000)

        assert await serving.tell(Put(id_of(1), first)) == BusWord("more")
        assert await serving.tell(Put(id_of(1), other)) == BusWord("unknown")
        assert await serving.tell(Put(id_of(1), wrong)) == BusWord("unknown")
        assert await serving.tell(Get(id_of(1), 0)) == BusWord("unknown")
        assert serving.requests == []

        assert await serving.tell(Put(id_of(1), first)) == BusWord("more")
        assert isinstance(await serving.tell(Put(id_of(1), second)), ReplyPiece)
        assert serving.requests == [b"x" * 2000]

    run(story())


def test_a_repeated_piece_runs_nothing_again() -> None:
    """CL-121: not while the reply is kept."""

    async def story() -> None:
        serving = Serving()
        [piece] = pieces_of(b"x" * 900, 1000)
        answers = await asyncio.gather(*(serving.tell(Put(id_of(1), piece)) for _ in range(5)))
        serving.now_s += LIMITS.keep_s
        answers.append(await serving.tell(Put(id_of(1), piece)))
        assert len({answer.to_bytes() for answer in answers}) == 1  # type: ignore[attr-defined]
        assert len(serving.requests) == 1

        serving.now_s += LIMITS.keep_s
        await serving.tell(Put(id_of(2), piece))
        assert await serving.tell(Get(id_of(1), 0)) == BusWord("unknown")
        assert await serving.tell(Get(id_of(2), 7)) == BusWord("unknown")

    run(story())


def test_memory_is_bounded() -> None:
    """CL-123: requests, their bytes, and replies; a silent asker makes room for others."""

    async def story() -> None:
        limits = BusLimits(
            requests_max=3, bytes_max=5000, replies_max=2, reply_bytes_max=4000, hold_s=0.01
        )
        serving = Serving(limits)
        pieces = pieces_of(b"x" * 2000, 1000)
        for number in range(3):
            assert await serving.tell(Put(id_of(number), pieces[0])) == BusWord("more")
        assert isinstance(await serving.tell(Put(id_of(9), pieces[0])), Full)

        serving.now_s += limits.silence_s + 1
        assert await serving.tell(Put(id_of(9), pieces[0])) == BusWord("more")
        assert await serving.tell(Get(id_of(0), 0)) == BusWord("unknown")

        large = pieces_of(b"y" * 6000, 1000)
        answers = [await serving.tell(Put(id_of(10), piece)) for piece in large]
        assert isinstance(answers[-1], Full)
        assert serving.requests == []

        serving.now_s += limits.silence_s + 1
        for number in range(20, 24):
            for piece in pieces_of(b"z" * 1500, 1000):
                answer = await serving.tell(Put(id_of(number), piece))
            assert isinstance(answer, ReplyPiece)
        states = [await serving.tell(Get(id_of(number), 1)) for number in range(20, 24)]
        assert [isinstance(state, ReplyPiece) for state in states] == [False, False, True, True]

        empty = Shape(content_hash(b""), 0, 65_536)
        answers = [await serving.tell(Put(id_of(30), Piece(empty, n, b""))) for n in range(100)]
        assert isinstance(answers[-1], Full), "empty pieces take memory as well"

    run(story())


def test_a_request_larger_than_the_limit_is_refused_by_the_owner() -> None:
    """CL-123"""

    async def story() -> None:
        bus = Bus()
        async with bus.serving(limits=BusLimits(bytes_max=10_000, hold_s=0.01)):
            reply = await ask_owner(bus.client(), events("large", value=b"x" * 20_000))
            assert only(reply)["error"]["kind"] == "busy"
            await ask_owner(bus.client(), events("small"))
        assert list(bus.world.admitted) == ["small"]

    run(story())


def test_a_bug_ends_its_own_request_alone() -> None:
    """CL-123"""

    async def story() -> None:
        serving = Serving()
        serving.problem = RuntimeError("a bug")
        answer = await serving.tell(Put(id_of(1), pieces_of(b"x", 1000)[0]))
        assert isinstance(answer, ReplyPiece)
        assert only(answer.piece.content)["error"]["kind"] == "unavailable"
        assert len(serving.lines) == 1
        serving.problem = None
        assert isinstance(await serving.tell(Put(id_of(2), pieces_of(b"x", 1000)[0])), ReplyPiece)

    run(story())


def test_an_owner_that_stops_answers_the_requests_under_way_first() -> None:
    """CL-123: and takes no new one."""

    async def story() -> None:
        bus = Bus()
        has_begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(messages: bytes) -> bytes:
            has_begun.set()
            await go_on.wait()
            return pack({"filler": b"x" * 5000})

        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(
                listening(MemoryMessaging(bus.shared), inbox("a"), slow, limits=LIMITS)
            )
            asking = asyncio.create_task(
                bus.client().ask(events("e"), answer_s=60, is_repeatable=False)
            )
            await has_begun.wait()
            stopping = asyncio.create_task(stack.pop_all().aclose())
            await asyncio.sleep(0.05)
            late = BusClient(
                MemoryMessaging(bus.shared), lambda: owner("a"), patience_s=0.05, look_again_s=0.01
            )
            with pytest.raises(NotCarriedOut, match="no more requests"):
                await late.ask(events("late"), answer_s=60, is_repeatable=False)
            go_on.set()
            assert only((await asking).messages)["filler"] == b"x" * 5000
            await stopping

    run(story())


def test_each_event_gets_an_id_and_keeps_its_own() -> None:
    """CL-126: the random ones are none of those that deliveries have."""
    request = BusRequest.of(events("mine", None, "aos:reserved", None))
    ids = [item["id"] for item in only(request.messages)["items"]]
    assert (ids[0], ids[2], request.is_repeatable) == ("mine", "aos:reserved", True)
    assert BusRequest.of(pack({"op": "try", "document": b""})).is_repeatable
    assert len(set(ids)) == 4
    assert not any(id.startswith("aos:") for id in (ids[1], ids[3]))
    assert BusRequest.of(events("mine")).messages == events("mine")
