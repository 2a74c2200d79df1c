"""Messages of the world's socket and of the worker's (spec/host.md, H-50 to H-59; X-50 to X-56)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aos import message_fields as fields_module
from aos.core.decide.answers import Admitted, Answer, Blocker, Duplicate, Refusal, Rule
from aos.core.journal.inputs import EventInput
from aos.errors import AosError, BadUsage
from aos.host.door import protocol
from aos.values.cbor import Value, encode
from aos.worker.wire import FrameReader, WireProblem, frame

RUNS: Final = 2_500
TOKENS: Final = (
    b"\x61v\x01", b"\x65items", b"\x66schema", b"\x65value", b"\x62id", b"\x65error", b"\x64kind",
    b"\x67message", b"\x63seq", b"\x62to", b"\x64rule", b"\x68blockers", b"\x69duplicate",
    b"\x62op", b"\x66action", b"\x69principal", b"\x66serial", b"\x69signature",
    b"\x64cell", b"\x66intent", b"\xa1", b"\x80", b"\x82", b"\x40",
)  # fmt: skip


def target(data: bytes) -> None:
    """Any bytes of a socket are a message, or raise BadUsage, for the worker WireProblem."""
    _worker(data)
    try:
        message = protocol.unpack(data)
    except BadUsage:
        return
    items = message.get("items")
    if isinstance(items, list):
        _events(items)
    _control(message)
    _answer(message)
    for found in message.get("answers", ()) if isinstance(message.get("answers"), list) else ():
        _answer(found)
    _error(message)


def _events(items: list[object]) -> None:
    try:
        events = protocol.read_events(items)
    except BadUsage:
        return
    assert len(events) == len(items)
    written: list[Value] = [protocol.event_fields(each) for each in events]
    assert protocol.read_events(written) == events


def _control(message: fields_module.Message) -> None:
    try:
        command = protocol.read_control(message)
    except BadUsage:
        return
    assert protocol.read_control(dict(protocol.control_fields(command))) == command


def _answer(fields: object) -> None:
    try:
        answer = protocol.read_answer(fields)
    except BadUsage:
        return
    assert protocol.read_answer(protocol.answer_fields(answer)) == answer


def _error(message: fields_module.Message) -> None:
    raised = False
    try:
        protocol.raise_error(message)
    except AosError:
        raised = True
    assert raised == (message.get("error") is not None)


def _worker(data: bytes) -> None:
    whole, parts = FrameReader(), FrameReader()
    try:
        expected = whole.feed(data)
    except WireProblem:
        return
    found = []
    for at in range(len(data)):
        found += parts.feed(data[at : at + 1])
    assert found == expected
    assert FrameReader().feed(b"".join(map(frame, expected))) == expected


def seeds() -> Iterator[bytes]:
    events: list[Value] = [
        protocol.event_fields(EventInput(schema="t/A@1", value=b"\xa0")),
        protocol.event_fields(EventInput(schema="t/A@1", value=b"", submission_id="one")),
    ]
    blocker = Blocker(kind="mail", cell=("t/w@1", b"\x61a"), detail="2 entries")
    answers: list[Answer] = [
        Admitted(seq=7, to=(("t/w@1", b"\x61a"), ("t/x@1", b""))),
        Duplicate(seq=3),
        Refusal(rule=Rule.WORLD_IS_BUSY, message="later", blockers=(blocker,)),
    ]
    about: dict[str | int, Value] = {
        "action": "retry",
        "principal": "ann",
        "serial": 3,
        "signature": bytes(64),
    }
    bodies: list[dict[str | int, Value]] = [
        {"v": 1, "op": "send", "items": events, "manifest": bytes(32)},
        {"v": 1, "answers": protocol.answers_fields(answers)},
        *({"v": 1, **protocol.answer_fields(each)} for each in answers),
        {"v": 1, "error": protocol.error_fields(BadUsage("no such world"))["error"]},
        {"v": 1, "error": {"kind": "manifest_changed", "message": "x"}},
        {"v": 2},
        {"v": 1, "op": "control", **about, "cell": ["t/w@1", b"\x61a"]},
        {"v": 1, "op": "control", **about, "intent": bytes(32), "value": bytes(32)},
    ]
    for body in bodies:
        yield encode(body)
    yield frame({"op": "hello", "protocol": 1}) + frame({"op": "ack", "intent": bytes(32)})
    yield frame({"op": "done"})[:-1]
