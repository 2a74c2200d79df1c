"""The workflow f/run@1 of src/lib.rs in Python: it interprets a program, which is its input. The
flows that it calls and spawns are in Rust."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, ClassVar

from aos.flow import (
    Break,
    Continue,
    Critical,
    Cx,
    FlowError,
    Nat,
    Retry,
    Rollback,
    effect,
    flow,
    other_flow,
    schema,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WITHOUT = "later"
"""The flag of nodes that are not in this version."""


@schema("f/Node@1")
class Node:
    op: str
    name: str
    number: Annotated[int, Nat]
    span: timedelta
    limit: timedelta | None
    text: str
    flags: set[str]
    every: Annotated[int, Nat]
    keep: Annotated[int, Nat]
    nodes: list[Annotated[int, Nat]]


@schema("f/Run@1")
class Run:
    id: str
    nodes: list[Node]
    body: list[Annotated[int, Nat]]


@schema("f/Part@1")
class Part:
    """Starts a program as the child of another one."""

    id: str
    nodes: list[Node]
    body: list[Annotated[int, Nat]]


@schema("f/Note@1")
class Note:
    id: str
    text: str


@schema("f/Bell@1")
class Bell:
    id: str
    text: str


@schema("f/Told@1")
class Told:
    text: str


@schema("f/Done@1")
class Done:
    note: str


@effect("f/do@1", executor="f")
class Do:
    receipt: ClassVar[type[Done]]
    what: str


@effect("f/undo@1", executor="f")
class Undo:
    receipt: ClassVar[type[Done]]
    what: str


WORKER = other_flow("f/part@1", input=Part, output=str, key="id")


@flow("f/run@1", key="id", listens=[Note, Bell], calls=[WORKER])
async def run(cx: Cx, program: Run) -> str:
    return await body(cx, program, program.body, "")


async def body(cx: Cx, program: Run, numbers: list[int], around: str) -> str:
    """Run nodes one after another. ``around`` counts the iterations around them: ``.0.2``."""
    text = ""
    for node in nodes_of(program, numbers):
        if node.op == "return":
            break
        try:
            text += await operation(cx, program, node, around)
        except FlowError as error:
            if "catch" not in node.flags:
                raise
            text += told(error)
        text += ";"
    return text


def nodes_of(program: Run, numbers: list[int]) -> list[Node]:
    nodes = [program.nodes[number] for number in numbers]
    return [node for node in nodes if WITHOUT not in node.flags]


def told(error: FlowError) -> str:
    """A failure in words: ``!kind.code@path[causes]``."""
    causes = "".join([told(cause) for cause in error.causes])
    return f"!{error.kind}.{error.code}@{error.path}[{causes}]"


def started_at() -> datetime:
    """The time of the flow's start. Source files may not read the clock, so a test puts this in."""
    raise Critical("program", "no clock")


def nanoseconds(span: timedelta) -> int:
    return (span.days * 86_400 + span.seconds) * 10**9 + span.microseconds * 1_000


async def operation(cx: Cx, program: Run, node: Node, around: str) -> str:
    label = f"{node.name}{around}"
    started = started_at()
    match node.op:
        case "step":
            return await step(cx, node, label)
        case "local":
            return await cx.local(
                node.name, lambda local: f"{label}={nanoseconds(local.now - started)}"
            )
        case "emit":
            await cx.emit(node.name, Told(label))
        case "sleep":
            await cx.sleep(node.name, node.span)
        case "sleep_until":
            await cx.sleep(node.name, started + node.span)
        case "fail":
            if "rollback" in node.flags:
                raise Rollback(node.text, "told to")
            raise Critical(node.text, "told to")
        case "join":
            parts = branches(program, node, around)
            values = await cx.join(node.name, at_most=node.number, **parts)
            return "|".join(list(values.values()))
        case "race":
            parts = branches(program, node, around)
            rolls_back = "rollback_losers" in node.flags
            branch, value = await cx.race(node.name, rollback_losers=rolls_back, **parts)
            return f"{branch}={value}"
        case "scope":
            return await cx.scope(node.name, lambda cx: body(cx, program, node.nodes, around))
        case "loop":
            return await repeat(cx, program, node, around)
        case "checkpoint":
            await cx.checkpoint(node.name)
        case "rollback_to":
            await cx.rollback_to(node.name, node.text)
        case "commit":
            await cx.commit(node.name)
        case "version":
            return str(await cx.version(node.name, node.number))
        case "removed":
            await cx.removed(node.name, "step")
        case "call":
            undo = Undo if "rollback" in node.flags else None
            return await cx.call(node.name, WORKER, child(program, node, around), rollback=undo)
        case "spawn":
            await cx.spawn(node.name, WORKER, child(program, node, around))
        case _:
            return await listen(cx, node, started + node.span)
    return ""


async def step(cx: Cx, node: Node, label: str) -> str:
    done = await cx.step(
        node.name,
        Do(label),
        retry=Retry(node.number, node.span, "1m"),
        retry_timeouts="retry_timeouts" in node.flags,
        timeout=node.limit,
        rollback=(lambda done: Undo(done.note)) if "rollback" in node.flags else None,
        rollback_unknown=Undo(f"?{label}") if "rollback_unknown" in node.flags else None,
    )
    return done.note


async def listen(cx: Cx, node: Node, until: datetime) -> str:
    match node.op:
        case "listen":
            return (await cx.listen(node.name, Note)).text
        case "listen_either":
            return (await cx.listen(node.name, [Note, Bell])).text
        case "listen_n":
            return texts(await cx.listen(node.name, Note, most=node.number))
        case "listen_with_timeout":
            return perhaps(await cx.listen(node.name, Note, timeout=node.span))
        case "listen_until":
            return perhaps(await cx.listen(node.name, Bell, timeout=until))
        case "listen_n_with_timeout":
            most = node.number
            return texts(await cx.listen(node.name, [Note, Bell], most=most, timeout=node.span))
        case "listen_n_until":
            return texts(await cx.listen(node.name, Note, most=node.number, timeout=until))
    raise Critical("program", f"no operation {node.op}")


def texts(messages: list[Note | Bell]) -> str:
    return "+".join([message.text for message in messages])


def perhaps(message: Note | Bell | None) -> str:
    return "none" if message is None else message.text


def child(program: Run, node: Node, around: str) -> Part:
    return Part(f"{program.id}/{node.text}{around}", program.nodes, node.nodes)


def branches(program: Run, node: Node, around: str) -> dict:
    return {part.name: branch(program, part, around) for part in nodes_of(program, node.nodes)}


def branch(program: Run, part: Node, around: str) -> Callable[[Cx], Awaitable[str]]:
    return lambda cx: body(cx, program, part.nodes, around)


async def repeat(cx: Cx, program: Run, node: Node, around: str) -> str:
    async def once(cx: Cx, so_far: dict) -> Continue | Break:
        count, text = so_far["count"], so_far["text"]
        text += await body(cx, program, node.nodes, f"{around}.{count}")
        if count + 1 >= node.number:
            return Break(text)
        return Continue({"count": count + 1, "text": text})

    first = {"count": 0, "text": ""}
    return await cx.loop(node.name, first, once, history_every=node.every, history_keep=node.keep)
