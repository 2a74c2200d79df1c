"""The second kernel reads and writes records, frames and values as the reference, in its words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.core.journal.frame import Head, Tip, read_frame, seal
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Record
from aos.errors import Damage
from aos.fastcore.buffer import ProbeRefused
from aos.fastcore.fold_core import FoldCore
from aos.values.cbor import Value, decode_ingress, decode_record, encode
from aos.values.digests import Hash
from aos.values.errors import ValueProblem
from tests.core.record_values import EMPTY, FULL, records
from tests.fastcore.owned import made_core, on_owner

VALUE, INGRESS_VALUE, RECORD, FRAME, HEAD = 100, 101, 102, 103, 104
"""Numbers of ``probes.rs``."""


@pytest.fixture(scope="module")
def core() -> FoldCore:
    return made_core()


def probe(core: FoldCore, number: int, data: bytes) -> bytes | str:
    """The canonical bytes, or the words of the problem."""
    try:
        return on_owner(lambda: core._core.call("probe", number, data))
    except ProbeRefused as problem:
        return str(problem)


def reference(read: Callable[[bytes], bytes], data: bytes) -> bytes | str:
    try:
        return read(data)
    except (Damage, ValueProblem) as problem:
        return str(problem)


def _frame(data: bytes) -> bytes:
    frame = read_frame(data)
    return frame.hash + frame.to_bytes()


READERS: Final[dict[int, Callable[[bytes], bytes]]] = {
    VALUE: lambda data: encode(decode_record(data)),
    INGRESS_VALUE: lambda data: encode(decode_ingress(data)),
    RECORD: lambda data: to_bytes(from_bytes(data)),
    FRAME: _frame,
    HEAD: lambda data: Head.from_bytes(data).to_bytes(),
}


def agree(core: FoldCore, number: int, data: bytes) -> None:
    assert probe(core, number, data) == reference(READERS[number], data)


@pytest.mark.parametrize("record", FULL + EMPTY, ids=lambda record: record.KIND)
def test_a_record_is_read_and_written(core: FoldCore, record: Record) -> None:
    data = to_bytes(record)
    assert probe(core, RECORD, data) == data


@pytest.mark.parametrize("record", FULL, ids=lambda record: record.KIND)
def test_a_changed_field_is_damage_in_the_same_words(core: FoldCore, record: Record) -> None:
    """Each field left out, and with a value of each other type."""
    whole = decode_record(to_bytes(record))
    assert isinstance(whole, dict)
    others: list[Value] = [
        None, True, -1, 1 << 63, "gremlin", b"gremlin", [], [1], {}, {"hash": 1}, ["a", b""],
        {"hash": bytes(32), "size": -1}, {"ns": 1, "entropy": b""}, [0, -1], [{}], [b""],
        {"kind": "gremlin", "message": ""}, {"kind": "trap", "message": "", "detail": 1},
        {"kind": "trap", "message": "m", "detail": b""}, {"a": 1}, {1: "a"}, [bytes(32)], ["a"],
    ]  # fmt: skip
    for name in whole:
        left_out: dict[str | int, Value] = {k: v for k, v in whole.items() if k != name}
        agree(core, RECORD, encode(left_out))
        for value in others:
            agree(core, RECORD, encode({**whole, name: value}))
    for extra in ("more", "éxtra\n", 7, -7):
        agree(core, RECORD, encode({**whole, extra: 1, "zzz": 2}))


@given(record=records, data=st.data())
def test_damaged_bytes_are_damage_in_the_same_words(
    core: FoldCore, record: Record, data: st.DataObject
) -> None:
    whole = bytearray(to_bytes(record))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(whole) - 1))
        match data.draw(st.sampled_from(["set", "cut", "put"])):
            case "set":
                whole[at] = data.draw(st.integers(0, 255))
            case "cut":
                del whole[at:]
                whole += b"\x00"
            case _:
                whole.insert(at, data.draw(st.integers(0, 255)))
    agree(core, RECORD, bytes(whole))


INTEGERS = st.integers(-(1 << 64), (1 << 64) - 1)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.binary(max_size=40) | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(max_size=9) | INTEGERS, inner, max_size=5)
    ),
    max_leaves=30,
)


@given(value=VALUES, data=st.data())
def test_values_agree_at_both_gates(core: FoldCore, value: Value, data: st.DataObject) -> None:
    whole = bytearray(encode(value))
    agree(core, VALUE, bytes(whole))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    agree(core, VALUE, bytes(whole))
    agree(core, INGRESS_VALUE, bytes(whole))


@given(data=st.binary(max_size=200))
def test_any_bytes_agree_at_both_gates(core: FoldCore, data: bytes) -> None:
    agree(core, VALUE, data)
    agree(core, INGRESS_VALUE, data)


def test_frames_and_heads_agree(core: FoldCore) -> None:
    written = [to_bytes(record) for record in FULL]
    frame, tip = seal(Tip(world=Hash(bytes(32))), written, bytes(range(32)))
    head = Head.of(tip)
    signed = Head(
        world=head.world, seq=head.seq, frame=head.frame, log_root=head.log_root,
        frames=head.frames, signature=bytes(64),
    )  # fmt: skip
    agree(core, FRAME, frame.to_bytes())
    agree(core, HEAD, signed.to_bytes())
    agree(core, HEAD, head.to_bytes())
    whole = decode_record(frame.to_bytes())
    assert isinstance(whole, dict)
    header = whole["header"]
    assert isinstance(header, dict)
    others: list[Value] = [None, True, 0, -1, 2, (1 << 64) - 1, "a", b"", bytes(32), [], [b"a"], {}]
    for name in [*whole, "more"]:
        for value in others:
            agree(core, FRAME, encode({**whole, name: value}))
    for name in [*header, "more", 3]:
        left_out: dict[str | int, Value] = {k: v for k, v in header.items() if k != name}
        agree(core, FRAME, encode({**whole, "header": left_out}))
        for value in others:
            agree(core, FRAME, encode({**whole, "header": {**header, name: value}}))
