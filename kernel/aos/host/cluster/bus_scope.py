"""The requests that the owner of a world takes over the bus, from nodes and from others
(spec/cluster.md, CL-124)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aos.errors import BadUsage, Refused
from aos.host.door.protocol import SIGNED_FIELDS, bodies_of, unpack
from aos.message_fields import Message

CLIENT_OPS: Final = frozenset(
    {
        *(
            "send",
            "deliver",
            "module",
            "apply",
            "try",
            "control",
            "governance",
            "find",
            "snapshot",
            "retry",
        ),
        *("manifest", "status", "work"),
    }
)
"""Requests of any program that may publish to the inbox for clients. The key of another world signs
a delivery."""

NODE_OPS: Final = CLIENT_OPS | {
    *("blob", "head", "settle", "attempt", "tell", "http", "hand_over"),
}
"""Requests of the nodes of the world."""

_COMMANDS: Final = frozenset({"apply", "try", "control", "governance"})

Answer = Callable[[bytes], Awaitable[bytes]]


def answer_of_nodes(answer: Answer) -> Answer:
    """Answer the requests of nodes. They are as trusted as the clients of the owner's socket."""

    def check(request: Message) -> None:
        _check_op(request, NODE_OPS)

    return _checked(answer, check)


def answer_of_clients(answer: Answer) -> Answer:
    """Answer the requests of others. Their commands are signed by an operator: the owner signs none
    for them."""

    def check(request: Message) -> None:
        op = _check_op(request, CLIENT_OPS)
        if op in _COMMANDS and not request.keys() & SIGNED_FIELDS:
            raise Refused(
                f"{op}: a command that is not signed is refused here",
                expected="the signature of an operator",
                hint="name the operator's key: --operator-key FILE",
            )

    return _checked(answer, check)


def _checked(answer: Answer, check: Callable[[Message], None]) -> Answer:
    async def answer_checked(messages: bytes) -> bytes:
        for body in bodies_of(messages):
            check(unpack(body))
        return await answer(messages)

    return answer_checked


def _check_op(request: Message, ops: frozenset[str]) -> str:
    op = request.get("op")
    if not isinstance(op, str) or op not in ops:
        raise BadUsage(
            "op: not a request that the owner takes over the bus",
            expected=f"one of {', '.join(sorted(ops))}",
            actual=f"{op!r:.40}",
        )
    return op
