"""Where a life ends: at a commit of the journal, or at a transaction that is being sent."""

from __future__ import annotations

import enum
import itertools
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from aos.core.journal.frame import Head
from aos.core.pending import Sealed
from aos.store.lmdb_store import LmdbStore
from aos.worker.outbox import Outbox
from aos.worker.outcome import Outcome
from aos_gateway.evm import fate_wait, tx_receipt
from aos_gateway.evm.chain_reads import ChainReads

SUBMIT: Final = "evm/tx.submit@1"


class Point(enum.Enum):
    """The moments at which a process kills itself with SIGKILL."""

    BEFORE_COMMIT = "before the commit"
    AFTER_COMMIT = "after the commit"
    BEFORE_SEND = "before the send"
    AFTER_SEND = "after the send"
    """The node has the transaction, and the worker has no answer."""
    AFTER_REPLY = "after the reply"
    """The worker has told its node the result."""
    AT_LOOK = "before the look"
    """The worker is about to look for the fate of a transaction."""


IN_WORKER: Final = (Point.BEFORE_SEND, Point.AFTER_SEND, Point.AFTER_REPLY, Point.AT_LOOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """``number`` is the record that the commit holds, or which send or look of this life it is,
    from 1.

    With ``is_whole`` the world and its workers die together, otherwise the worker alone.
    """

    point: Point
    number: int
    is_whole: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"point": self.point.value, "number": self.number, "is_whole": self.is_whole}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Self:
        return cls(**{**given, "point": Point(given["point"])})

    def __str__(self) -> str:
        who = "" if self.is_whole else ", the worker alone"
        return f"{self.point.value} {self.number}{who}"

    def strike(self) -> None:
        """Die, with all processes of this life or alone."""
        if self.is_whole:
            os.killpg(os.getpgid(0), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def die_at_commit(death: Death) -> None:
    """Let this process die at the commit that holds a record."""
    commit = LmdbStore.append

    def append(store: LmdbStore, group: Sequence[Sealed], head: Head, **more: Any) -> None:
        first, last = group[0].frame.header.first, head.seq
        is_it = first <= death.number <= last
        if is_it and death.point is Point.BEFORE_COMMIT:
            death.strike()
        commit(store, group, head, **more)
        if is_it and death.point is Point.AFTER_COMMIT:
            death.strike()

    _replace(LmdbStore, append=append)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prank:
    """Calls to the node that a worker makes right before it sends for the ``number``-th time: so
    the chain changes at the worst moment."""

    number: int
    calls: tuple[tuple[str, list[Any]], ...]

    def to_json(self) -> dict[str, Any]:
        return {"number": self.number, "calls": [list(each) for each in self.calls]}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Self:
        calls = tuple((method, params) for method, params in given["calls"])
        return cls(number=given["number"], calls=calls)


def interfere(death: Death | None, pranks: Sequence[Prank]) -> None:
    """Let this worker die at one of its sends or looks, and play pranks before its sends."""
    _at_send(death, pranks)
    if death is not None and death.point is Point.AFTER_REPLY:
        _after_reply(death)
    if death is not None and death.point is Point.AT_LOOK:
        _at_look(death)


def _at_send(death: Death | None, pranks: Sequence[Prank]) -> None:
    send, counting = ChainReads.send, itertools.count(1)

    async def sent(reads: ChainReads, raw: bytes) -> Any:
        number = next(counting)
        for prank in pranks:
            if prank.number == number:
                for method, params in prank.calls:
                    await reads.ask(method, params)
        if death is not None and (death.point, death.number) == (Point.BEFORE_SEND, number):
            death.strike()
        answer = await send(reads, raw)
        if death is not None and (death.point, death.number) == (Point.AFTER_SEND, number):
            death.strike()
        return answer

    _replace(ChainReads, send=sent)


def _after_reply(death: Death) -> None:
    put, counting = Outbox.put, itertools.count(1)

    def told(outbox: Outbox, result: Outcome, **more: Any) -> None:
        put(outbox, result, **more)
        if result.effect == SUBMIT and next(counting) == death.number:
            death.strike()

    _replace(Outbox, put=told)


def _at_look(death: Death) -> None:
    counting = itertools.count(1)

    async def looked(*given: Any) -> Any:
        if next(counting) == death.number:
            death.strike()
        return await tx_receipt.look(*given)

    _replace(fate_wait, look=looked)


def _replace(owner: object, **functions: Any) -> None:
    """Replace functions of a class or a module in this process."""
    for name, function in functions.items():
        setattr(owner, name, function)
