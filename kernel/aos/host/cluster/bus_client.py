"""Send requests to the owner of a world over the bus, whichever node that is (spec/cluster.md,
CL-125 to CL-127).

    request ──▶ find the owner ──▶ put its pieces ──▶ get the pieces of the reply
                    ▲                     │ surely not whole there, or safe to repeat
                    └─────────────────────┘
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from aos.errors import Damage, Unavailable
from aos.host.cluster.beat import read_beat
from aos.host.cluster.beating import owner_key
from aos.host.cluster.bus_message import (
    MORE,
    REQUEST_BYTES,
    UNKNOWN_REQUEST,
    WAIT,
    Assembly,
    BusAnswer,
    BusQuestion,
    Full,
    Get,
    Piece,
    Put,
    ReplyPiece,
    pieces_of,
    read_bus_answer,
)
from aos.host.cluster.bus_server import piece_bytes
from aos.host.door.protocol import error_fields, pack
from aos.host.errors import Busy
from aos.store.log.bucket import Bucket
from aos.store.log.messaging import Messaging, NoAnswer, NoListener
from aos.values.digests import Hash

PATIENCE_S: Final = 30.0
"""Seconds for which an owner that can be reached is looked for."""

LOOK_AGAIN_S: Final = 0.25
"""Pause before the next look, in seconds."""

WINDOW: Final = 4
"""Pieces of a request or a reply that are on their way at the same time."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that owns the world, as its beat says, and the subject at which to ask it."""

    node: str
    instance: bytes
    subject: str


def owner_finder(
    bucket: Bucket,
    *,
    stream: Callable[[], str],
    world: Hash,
    world_key: bytes | None,
    subject: Callable[[str], str],
) -> Callable[[], Owner | None]:
    """Return a function that finds the owner of a world by its beat in ``bucket``; None if there is
    none, or it has released the world. Without ``world_key``, the beat is not checked: whoever may
    write to the bucket is trusted. ``stream`` returns that of the log, which changes when the world
    goes to another one. ``subject`` makes that of the requests from an inbox.

    The function raises BucketUnreachable.
    """

    def find_owner() -> Owner | None:
        try:
            entry = bucket.get(owner_key(stream()))
        except Damage:  # the bucket is gone: the next owner makes it again
            return None
        beat = None if entry is None else read_beat(entry.value, world, world_key)
        if beat is None or beat.released:
            return None
        return Owner(beat.node, beat.instance, subject(beat.inbox))

    return find_owner


class NotCarriedOut(Unavailable):
    """The request did not reach the owner as a whole, so nothing came of it."""

    is_unsent = True


class NotKnown(Unavailable):
    """It is not known whether the request was carried out."""


class OwnerSilent(NotKnown):
    """The owner does not answer, and no other process owns the world."""


class BusReply(NamedTuple):
    """The reply to a request. ``is_repeated``: an earlier attempt may have been carried out."""

    messages: bytes
    is_repeated: bool


@dataclass(slots=True)
class _Delivery:
    """One message to an owner, sent until it is answered. ``may_have_arrived``: the owner has it,
    or one of the attempts had no answer."""

    may_have_arrived: bool = False


class BusClient:
    """Asks the owner of a world. Used in one event loop, that of ``messaging``.

    ``find_owner`` reads the beat of the owner, in a thread; None if none owns the world now. It
    raises Unavailable if the beats cannot be read. ``on_wait`` gets the reason for each wait.
    """

    def __init__(
        self,
        messaging: Messaging,
        find_owner: Callable[[], Owner | None],
        *,
        patience_s: float = PATIENCE_S,
        look_again_s: float = LOOK_AGAIN_S,
        on_wait: Callable[[str], object] = lambda _: None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._messaging = messaging
        self._find_owner = find_owner
        self._patience_s = patience_s
        self._look_again_s = look_again_s
        self._on_wait = on_wait
        self._now_s = now_s
        self._owner: Owner | None = None

    @property
    def owner(self) -> Owner | None:
        """The owner that answered last."""
        return self._owner

    def look(self) -> Owner | None:
        """Read the beat of the owner now. Raises Unavailable."""
        return self._find_owner()

    async def ask(
        self,
        request: bytes,
        *,
        answer_s: float,
        is_repeatable: bool,
        is_away: Callable[[bytes], bool] = lambda _: False,
    ) -> BusReply:
        """Return the reply of the owner to a request.

        A request that surely was not carried out is sent again; if ``is_repeatable``, any other one
        too. So is one whose reply ``is_away``: it says that the owner has stopped.

        Raises:
            NotKnown: Whether it was carried out is not known.
            NotCarriedOut: No owner was reached within ``PATIENCE_S``.
            Refused: The servers refuse this program.
        """
        began_s = self._now_s()
        until_s, end_s = began_s + self._patience_s, began_s + self._patience_s + answer_s
        away: BusReply | None = None
        is_repeated = False
        reason: Unavailable = Unavailable("the owner of the world stops")
        while True:
            try:
                messages = await self._exchange(await self._current_owner(), request, answer_s)
                reply = BusReply(messages, is_repeated)
                if not (is_repeatable and is_away(messages)):
                    return reply
                away, is_repeated = reply, True
            except NotCarriedOut as problem:
                reason = problem
            except NotKnown as problem:
                if not is_repeatable or isinstance(problem, OwnerSilent):
                    raise
                reason, is_repeated = problem, True
                until_s = self._now_s() + self._patience_s
            self._owner = None
            if self._now_s() >= min(until_s, end_s):
                if away is not None:
                    return away
                if is_repeated and isinstance(reason, NotCarriedOut):
                    raise NotKnown(str(reason))
                raise reason
            self._on_wait(str(reason))
            await asyncio.sleep(self._look_again_s)

    async def _current_owner(self) -> Owner:
        """Raises: NotCarriedOut: There is none now, or the beats cannot be read."""
        if self._owner is None:
            self._owner = await self._look()
        if self._owner is None:
            raise NotCarriedOut("no node owns this world", hint="start one: aos run")
        return self._owner

    async def _look(self) -> Owner | None:
        try:
            return await asyncio.to_thread(self._find_owner)
        except Unavailable as problem:
            raise NotCarriedOut(str(problem)) from problem

    async def _exchange(self, owner: Owner, request: bytes, answer_s: float) -> bytes:
        """Send one request to one owner, and return its reply. Raises as ``ask``."""
        until_s = self._now_s() + answer_s
        id = secrets.token_bytes(REQUEST_BYTES)
        try:
            size = await piece_bytes(self._messaging)
        except Unavailable as problem:
            raise NotCarriedOut(str(problem)) from problem
        pieces = pieces_of(request, size)
        answer: BusAnswer = MORE
        while answer is MORE or answer is WAIT:
            if self._now_s() >= until_s:
                raise NotKnown(f"node {owner.node}: no answer in {answer_s:g} s")
            if answer is MORE:  # again, if the owner has given up the first pieces meanwhile
                answer = await self._put_all(owner, id, pieces, until_s)
            else:
                answer = await self._call(owner, Get(id, 0), until_s)
        match answer:
            case ReplyPiece(piece=piece):
                return await self._rest_of_reply(owner, id, piece, until_s)
            case Full(reason=reason):
                return pack(error_fields(Busy(reason)))
        raise NotKnown(f"node {owner.node} does not know the request any more")

    async def _put_all(
        self, owner: Owner, id: bytes, pieces: Sequence[Piece], until_s: float
    ) -> BusAnswer:
        """Send all pieces of a request; return the answer that says the most.

        Raises:
            NotCarriedOut: A piece surely did not arrive.
            NotKnown: The owner went away, or does not know the request.
        """
        deliveries = [_Delivery() for _ in pieces]

        async def put(index: int) -> BusAnswer:
            return await self._call(owner, Put(id, pieces[index]), until_s, deliveries[index])

        best: BusAnswer = MORE
        for start in range(0, len(pieces), WINDOW):
            indices = range(start, min(start + WINDOW, len(pieces)))
            answers = await asyncio.gather(*map(put, indices), return_exceptions=True)
            may_be_whole = all(delivery.may_have_arrived for delivery in deliveries)
            for answer in answers:
                if isinstance(answer, Unavailable):
                    raise answer if may_be_whole else NotCarriedOut(str(answer)) from answer
                if isinstance(answer, BaseException):
                    raise answer
                if answer is UNKNOWN_REQUEST:
                    text = f"node {owner.node} takes no more requests"
                    raise NotKnown(text) if may_be_whole else NotCarriedOut(text)
                if isinstance(answer, Full) and may_be_whole:
                    raise NotKnown(f"node {owner.node}: {answer.reason}")
                if answer is not MORE:
                    best = answer
            if isinstance(best, Full):
                break
        return best

    async def _rest_of_reply(self, owner: Owner, id: bytes, first: Piece, until_s: float) -> bytes:
        """Get the other pieces of a reply. Raises: NotKnown: The owner went away, or its pieces do
        not fit together."""
        assembly = Assembly(first.shape)
        assembly.add(first)
        missing = assembly.missing()
        for start in range(0, len(missing), WINDOW):
            answers = await asyncio.gather(*(
                self._call(owner, Get(id, index), until_s)
                for index in missing[start : start + WINDOW]
            ))  # fmt: skip
            for answer in answers:
                match answer:
                    case ReplyPiece(piece=piece) if piece.shape == first.shape and assembly.lacks(
                        piece.index
                    ):
                        assembly.add(piece)
        message_bytes = assembly.whole() if assembly.is_complete else None
        if message_bytes is None:
            raise NotKnown(f"node {owner.node}: its answer is not complete")
        return message_bytes

    async def _call(
        self,
        owner: Owner,
        question: BusQuestion,
        until_s: float,
        delivery: _Delivery | None = None,
    ) -> BusAnswer:
        """Send one message until it is answered, as long as the owner is the same.

        Raises:
            NotKnown: Another process owns the world.
            OwnerSilent: The owner does not answer for too long.
        """
        data, delivery = question.to_bytes(), delivery or _Delivery()
        give_up_s = min(until_s, self._now_s() + self._patience_s)
        while True:
            try:
                answer = read_bus_answer(await self._messaging.ask(owner.subject, data))
            except NoListener as problem:
                reason = str(problem)
            except NoAnswer as problem:
                delivery.may_have_arrived = True
                reason = str(problem)
            else:
                if answer is None or not (answer is UNKNOWN_REQUEST or isinstance(answer, Full)):
                    delivery.may_have_arrived = True
                if answer is not None:
                    return answer
                reason = "an answer that makes no sense"
            if self._now_s() >= give_up_s:
                raise OwnerSilent(
                    f"node {owner.node}, which owns this world, does not answer: {reason}"
                )
            if await self._is_replaced(owner):
                raise NotKnown(f"node {owner.node} does not own this world any more")
            self._on_wait(f"node {owner.node}, which owns this world, does not answer: {reason}")
            await asyncio.sleep(self._look_again_s)

    async def _is_replaced(self, owner: Owner) -> bool:
        """Whether the beats say that another process owns the world now, or none."""
        try:
            return await self._look() != owner
        except NotCarriedOut:
            return False
