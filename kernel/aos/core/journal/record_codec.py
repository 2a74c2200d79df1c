"""Records <-> their canonical bytes, which are hashed (spec/journal.md, J-10 to J-19).

Reading is the record gate: an unknown field, a missing one or another type is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.records import (
    HASH_BYTES,
    Attempt,
    Batch,
    CellId,
    Control,
    Emitted,
    EntryId,
    Event,
    Faulted,
    Fork,
    Genesis,
    Governance,
    Intent,
    KernelReceipt,
    Manifest,
    Migrated,
    Principal,
    Receipt,
    Record,
    Ref,
    Slot,
    Snapshot,
    Stamp,
    Start,
    Step,
    Stream,
)
from aos.core.journal.vocabulary import (
    ACTIONS,
    CELL_STATUSES,
    CONTROL_STATUSES,
    GOVERNANCE_ACTIONS,
    MODES,
    OPEN_WORK,
    OUTCOMES,
    PHASES,
    STATUSES,
)
from aos.errors import Damage
from aos.values.cbor import (
    Value,
    decode_record,
    encode,
    encode_bytes,
    encode_integer,
    encode_key,
    encode_text,
    head,
)
from aos.values.codec import read_bytes, read_nat, read_text
from aos.values.digests import Hash
from aos.values.errors import ValueProblem, quoted
from aos.values.show import describe

RECORD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest record that a reader accepts: four times the largest output of a step."""


def to_bytes(record: Record, *, max_bytes: int = RECORD_BYTES_MAX) -> bytes:
    """The canonical bytes of a record, which are hashed."""
    data = _write_fields(record)
    # Stop before storing a record that no reader accepts.
    assert len(data) <= max_bytes, f"record {record.seq} is too large: {len(data)} bytes"
    return data


def from_bytes(data: bytes) -> Record:
    """Read a record at the record gate.

    Raises:
        Damage: The bytes are not what ``to_bytes`` writes.
    """
    if len(data) <= RECORD_BYTES_MAX:
        try:
            return _quickly(data)
        except (IndexError, ValueError):
            pass  # the complete reader below finds out what it is
    try:
        value = decode_record(data, max_bytes=RECORD_BYTES_MAX)
    except ValueProblem as error:
        raise Damage(f"a record is not canonical CBOR: {error}") from error
    fields = _map(value)
    kind = fields.pop("kind", None)
    cls = _KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        name = quoted(kind) if isinstance(kind, str) else describe(kind)
        raise Damage(
            f"record kind {name} is unknown: a newer release wrote this journal, or it is damaged"
        )
    record: Record = _read_fields(cls, fields)
    return record


@dataclass(frozen=True, slots=True)
class _Type:
    """How values of one type are written and read."""

    write: Callable[[Any], bytes]
    read: Callable[[Value], Any]
    quick: Callable[[bytes, int], tuple[Any, int]]


class _Miss(ValueError):
    """These bytes are not canonical, or too rare for the quick reader."""


def _carefully(_: bytes, __: int) -> tuple[Any, int]:
    raise _Miss


def _map(value: Value) -> dict[Any, Value]:
    if not isinstance(value, dict):
        raise Damage(f"a record holds {describe(value)} where a map belongs")
    return dict(value)


def _array(value: Value, size: int | None = None) -> list[Value]:
    if not isinstance(value, list) or (size is not None and len(value) != size):
        raise Damage(
            f"a record holds {describe(value)} where an array of {size or 'items'} belongs"
        )
    return value


def _exactly(kind: type, noun: str) -> Callable[[Value], Any]:
    def read(value: Value) -> Any:
        if type(value) is not kind:
            raise Damage(f"a record holds {describe(value)} where {noun} belongs")
        return value

    return read


def _read_nat(value: Value) -> int:
    if type(value) is not int or value < 0:
        raise Damage(f"a record holds {describe(value)} where a natural number belongs")
    return value


def _read_hash(value: Value) -> Hash:
    if type(value) is not bytes or len(value) != HASH_BYTES:
        raise Damage(f"a record holds {describe(value)} where a hash of {HASH_BYTES} bytes belongs")
    return Hash(value)


def _quick_hash(data: bytes, at: int) -> tuple[Hash, int]:
    end = at + 2 + HASH_BYTES
    # A slice beyond the end would be a shorter hash, without an error.
    if data[at : at + 2] != b"\x58\x20" or end > len(data):
        raise _Miss
    return Hash(data[at + 2 : end]), end


def _write_ref(value: Ref) -> bytes:
    return b"\xa2\x64hash" + encode_bytes(value.hash) + b"\x64size" + encode_integer(value.size)


def _quick_ref(data: bytes, at: int) -> tuple[Ref, int]:
    if not data.startswith(b"\xa2\x64hash", at):
        raise _Miss
    hash, at = _quick_hash(data, at + 6)
    if not data.startswith(b"\x64size", at):
        raise _Miss
    size, at = read_nat(data, at + 5)
    return Ref(hash, size), at


def _write_slot(value: Slot) -> bytes:
    return encode_bytes(value) if isinstance(value, bytes) else _write_ref(value)


def _quick_slot(data: bytes, at: int) -> tuple[Slot, int]:
    return read_bytes(data, at) if data[at] < 0x60 else _quick_ref(data, at)


def _read_slot(value: Value) -> Slot:
    if isinstance(value, bytes):
        return value
    fields = _map(value)
    if set(fields) != {"hash", "size"}:
        raise Damage("a record holds a reference that is not {hash, size}")
    return Ref(_read_hash(fields["hash"]), _read_nat(fields["size"]))


def _read_ref(value: Value) -> Ref:
    slot = _read_slot(value)
    if not isinstance(slot, Ref):
        raise Damage("a record holds bytes where a reference belongs")
    return slot


def _read_stamp(value: Value) -> Stamp:
    fields = _map(value)
    entropy = fields.get("entropy")
    if set(fields) != {"entropy", "ns"} or type(entropy) is not bytes or len(entropy) != 64:
        raise Damage("a record holds a stamp that is not {ns, 64 bytes of entropy}")
    return Stamp(_read_nat(fields["ns"]), entropy)


def _write_stamp(value: Stamp) -> bytes:
    return b"\xa2\x62ns" + encode_integer(value.ns) + b"\x67entropy" + encode_bytes(value.entropy)


def _quick_stamp(data: bytes, at: int) -> tuple[Stamp, int]:
    if not data.startswith(b"\xa2\x62ns", at):
        raise _Miss
    ns, at = read_nat(data, at + 4)
    end = at + 10 + 64
    if not data.startswith(b"\x67entropy\x58\x40", at) or end > len(data):
        raise _Miss
    return Stamp(ns, data[at + 10 : end]), end


def _write_cell(value: CellId) -> bytes:
    return b"\x82" + encode_text(value[0]) + encode_bytes(value[1])


def _quick_cell(data: bytes, at: int) -> tuple[CellId, int]:
    if data[at] != 0x82:
        raise _Miss
    workflow, at = read_text(data, at + 1)
    key, at = read_bytes(data, at)
    return (workflow, key), at


def _read_cell(value: Value) -> CellId:
    workflow, key = _array(value, 2)
    if type(workflow) is not str or type(key) is not bytes:
        raise Damage("a record names a cell that is not [workflow, key bytes]")
    return workflow, key


def _read_entry(value: Value) -> EntryId:
    seq, index = _array(value, 2)
    return _read_nat(seq), _read_nat(index)


def _write_entry(value: EntryId) -> bytes:
    return b"\x82" + encode_integer(value[0]) + encode_integer(value[1])


def _quick_entry(data: bytes, at: int) -> tuple[EntryId, int]:
    if data[at] != 0x82:
        raise _Miss
    seq, at = read_nat(data, at + 1)
    index, at = read_nat(data, at)
    return (seq, index), at


def _write_fault(fault: Fault) -> bytes:
    value: dict[str | int, Value] = {"kind": fault.kind.value, "message": fault.message}
    if fault.detail is not None:
        value["detail"] = fault.detail
    return encode(value)


def _read_fault(value: Value) -> Fault:
    fields = _map(value)
    kind, message, detail = fields.get("kind"), fields.get("message"), fields.get("detail")
    if not set(fields) <= {"kind", "message", "detail"}:
        raise Damage("a record holds a fault that is not {kind, message, detail?}")
    if type(kind) is not str or type(message) is not str:
        raise Damage("a record holds a fault whose kind or message is not text")
    if kind not in _FAULTS:
        raise Damage(
            f"fault kind {quoted(kind)} is unknown: a newer release wrote this journal, or it is "
            "damaged"
        )
    if "detail" in fields and type(detail) is not bytes:
        raise Damage("a record holds a fault whose detail is not bytes")
    assert detail is None or isinstance(detail, bytes)
    return Fault(kind=_FAULTS[kind], message=message, detail=detail)


def _word(noun: str, words: tuple[str, ...]) -> _Type:
    """Text of a closed set. The quick way compares encodings, so that nothing is decoded."""
    encoded = {encode_text(word): word for word in words}

    def read(value: Value) -> str:
        if type(value) is not str:
            raise Damage(f"a record holds {describe(value)} where text belongs")
        if value not in words:
            raise Damage(
                f"{noun} {quoted(value)} is unknown: a newer release wrote this journal, or it is "
                "damaged"
            )
        return value

    def quick(data: bytes, at: int) -> tuple[str, int]:
        end = at + 1 + (data[at] & 0x1F)
        word = encoded.get(data[at:end])
        if word is None:
            raise _Miss
        return word, end

    return _Type(encode_text, read, quick)


def _read_true(value: Value) -> Literal[True]:
    if value is not True:
        raise Damage(f"a record holds {describe(value)} where true belongs, or nothing")
    return True


def _read_key(value: Value) -> str | bytes:
    if type(value) not in (str, bytes):
        raise Damage("a record holds an idempotency key that is neither text nor bytes")
    assert isinstance(value, str | bytes)
    return value


def _write_key(value: str | bytes) -> bytes:
    return encode_text(value) if isinstance(value, str) else encode_bytes(value)


def _quick_key(data: bytes, at: int) -> tuple[str | bytes, int]:
    return read_bytes(data, at) if data[at] < 0x60 else read_text(data, at)


def _many(item: _Type) -> _Type:
    def write(values: Sequence[Any]) -> bytes:
        return head(0x80, len(values)) + b"".join([item.write(value) for value in values])

    def quick(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        count = data[at] - 0x80
        if not 0 <= count < 24:
            raise _Miss
        at += 1
        values = []
        for _ in range(count):
            value, at = item.quick(data, at)
            values.append(value)
        return tuple(values), at

    return _Type(write, lambda value: tuple(item.read(element) for element in _array(value)), quick)


def _nested(cls: type) -> _Type:
    return _Type(
        lambda value: _write_fields(value),  # noqa: PLW0108  # it is defined further down
        lambda value: _read_fields(cls, _map(value)),
        lambda data, at: _quick_fields(cls, data, at),
    )


def _read_host(value: Value) -> tuple[tuple[str, str], ...]:
    fields = _map(value)
    if not all(type(k) is str and type(v) is str for k, v in fields.items()):
        raise Damage("a start record holds something that is not text")
    return tuple(sorted((str(k), str(v)) for k, v in fields.items()))


_FAULTS: Final[Mapping[Any, FaultKind]] = {kind.value: kind for kind in FaultKind}

_NAT = _Type(encode_integer, _read_nat, read_nat)

_TEXT = _Type(encode_text, _exactly(str, "text"), read_text)

_BYTES = _Type(encode_bytes, _exactly(bytes, "a byte string"), read_bytes)

_TRUE = _Type(encode, _read_true, _carefully)

_HASH = _Type(encode_bytes, _read_hash, _quick_hash)

_SLOT = _Type(_write_slot, _read_slot, _quick_slot)

_REF = _Type(_write_ref, _read_ref, _quick_ref)

_STAMP = _Type(_write_stamp, _read_stamp, _quick_stamp)

_CELL = _Type(_write_cell, _read_cell, _quick_cell)

_ENTRY = _Type(_write_entry, _read_entry, _quick_entry)

_FAULT = _Type(_write_fault, _read_fault, _carefully)

_KEY = _Type(_write_key, _read_key, _quick_key)

_MODE = _word("apply mode", MODES)

_CELL_STATUS = _word("step status", CELL_STATUSES)

_STATUS = _word("receipt status", STATUSES)

_OUTCOME = _word("receipt outcome", OUTCOMES)

_PHASE = _word("attempt phase", PHASES)

_OPEN_WORK = _word("open work of a fork", OPEN_WORK)

_ACTION = _word("control action", ACTIONS)

_CONTROL_STATUS = _word("control status", CONTROL_STATUSES)

_GOVERNANCE_ACTION = _word("governance action", GOVERNANCE_ACTIONS)

_HOST = _Type(lambda host: encode(dict(host)), _read_host, _carefully)

# Fields whose name ends in "?" are options: left out when None or empty.
_FIELDS: Final[Mapping[type, Mapping[str, _Type]]] = {
    Principal: {"name": _TEXT, "key": _BYTES},
    Genesis: {
        "seq": _NAT, "stamp": _STAMP, "nonce": _BYTES, "world_key": _BYTES,
        "operators": _many(_nested(Principal)), "semantics": _NAT, "signature": _BYTES,
    },
    Start: {"seq": _NAT, "stamp": _STAMP, "host": _HOST},
    Manifest: {
        "seq": _NAT, "stamp": _STAMP, "document": _REF, "principal": _TEXT, "serial": _NAT,
        "signature": _BYTES, "mode?": _MODE, "leaves?": _many(_TEXT),
        "migrated?": _many(_nested(Migrated)), "proposal?": _NAT,
    },
    Migrated: {"workflow": _TEXT, "root": _HASH, "count": _NAT},
    Event: {
        "seq": _NAT, "stamp": _STAMP, "schema": _TEXT, "value": _SLOT, "submission_id?": _TEXT,
        "to?": _many(_CELL), "overloaded?": _many(_CELL), "kept?": _many(_CELL),
    },
    Emitted: {
        "schema": _TEXT, "value": _SLOT, "to?": _many(_CELL), "overloaded?": _many(_CELL),
        "unknown?": _many(_CELL), "kept?": _many(_CELL),
    },
    Intent: {
        "intent": _HASH, "effect": _TEXT, "effect_hash": _HASH, "params": _SLOT, "key?": _KEY,
        "issuer_ref?": _TEXT,
    },
    Step: {
        "seq": _NAT, "cell": _CELL, "entry": _ENTRY, "root": _NAT, "depth": _NAT, "state?": _SLOT,
        "status": _CELL_STATUS, "events?": _many(_nested(Emitted)),
        "intents?": _many(_nested(Intent)),
        "abandoned?": _many(_HASH), "ann?": _SLOT, "fuel": _NAT, "pages": _NAT, "output": _HASH,
        "under?": _NAT, "fits?": _NAT,
    },
    Faulted: {
        "seq": _NAT, "cell": _CELL, "entry": _ENTRY, "root": _NAT, "depth": _NAT,
        "fault": _FAULT, "fuel": _NAT, "pages": _NAT, "output?": _HASH, "under?": _NAT,
    },
    Receipt: {
        "seq": _NAT, "stamp": _STAMP, "intent": _HASH, "cell": _CELL, "effect": _TEXT,
        "attempt": _NAT, "status": _STATUS, "payload": _SLOT, "payload_schema?": _TEXT,
        "started_ns": _NAT, "finished_ns": _NAT, "cost_cents?": _NAT, "executor": _TEXT,
        "key_id": _BYTES, "signature": _BYTES, "outcome": _OUTCOME, "problem?": _TEXT,
        "abandoned?": _many(_HASH), "batch?": _nested(Batch),
    },
    Batch: {"index": _NAT, "size": _NAT, "path?": _many(_HASH)},
    KernelReceipt: {
        "seq": _NAT, "intent": _HASH, "cell": _CELL, "effect": _TEXT, "status": _STATUS,
        "payload": _SLOT, "payload_schema?": _TEXT, "root": _NAT, "depth": _NAT, "by?": _HASH,
        "outcome": _OUTCOME, "problem?": _TEXT, "abandoned?": _many(_HASH),
    },
    Stream: {
        "seq": _NAT, "stamp": _STAMP, "intent": _HASH, "cell": _CELL, "effect": _TEXT,
        "attempt": _NAT, "frame_seq": _NAT, "frame_kind": _TEXT, "payload": _SLOT,
        "payload_ref?": _HASH, "executor": _TEXT, "key_id": _BYTES, "signature": _BYTES,
    },
    Attempt: {
        "seq": _NAT, "stamp": _STAMP, "intent": _HASH, "cell": _CELL, "attempt": _NAT,
        "phase": _PHASE, "problem?": _TEXT, "code?": _TEXT,
    },
    Fork: {
        "seq": _NAT, "stamp": _STAMP, "parent": _HASH, "at": _NAT, "frame": _HASH,
        "nonce": _BYTES, "world_key": _BYTES, "operators": _many(_nested(Principal)),
        "open_work": _OPEN_WORK, "erased?": _many(_HASH), "cut?": _HASH, "signature": _BYTES,
    },
    Snapshot: {
        "seq": _NAT, "stamp": _STAMP, "at": _NAT, "frame": _HASH, "document": _REF,
    },
    Control: {
        "seq": _NAT, "stamp": _STAMP, "action": _ACTION, "cell?": _CELL, "intent?": _HASH,
        "value?": _HASH, "principal": _TEXT, "serial": _NAT, "signature": _BYTES,
        "status?": _CONTROL_STATUS, "payload?": _SLOT, "why?": _TEXT, "restamp?": _TRUE,
        "dropped?": _NAT,
        "abandoned?": _many(_HASH),
    },
    Governance: {
        "seq": _NAT, "stamp": _STAMP, "action": _GOVERNANCE_ACTION, "principal": _TEXT,
        "signature": _BYTES, "proposal?": _NAT, "serial?": _NAT, "base?": _HASH,
        "document?": _REF, "patch?": _REF, "mode?": _MODE, "leaves?": _many(_TEXT),
        "report?": _REF, "seen?": _HASH, "note?": _TEXT,
    },
}  # fmt: skip

_KINDS: Final[Mapping[str, type]] = {
    cls.KIND: cls
    for cls in (
        Genesis, Start, Manifest, Event, Step, Faulted, Receipt, KernelReceipt, Stream, Attempt,
        Snapshot, Control, Fork, Governance,
    )
}  # fmt: skip

_KIND: Final = encode_key("kind")

_TUPLES: Final = frozenset(
    {
        "to",
        "overloaded",
        "unknown",
        "kept",
        "events",
        "intents",
        "abandoned",
        "path",
        "leaves",
        "migrated",
        "erased",
    }
)

_Plan: TypeAlias = tuple[tuple[str, bytes, bool, _Type], ...]
"""(name, encoded name, whether it is an option, type) of each field in the order of the map."""


def _plan(cls: type, fields: Mapping[str, _Type]) -> _Plan:
    plan_fields = [
        (name.removesuffix("?"), encode_key(name.removesuffix("?")), name.endswith("?"), kind)
        for name, kind in fields.items()
    ]
    for kind, of in _KINDS.items():
        if of is cls:
            # A field whose value is known: it is part of its encoded name.
            kind_type = _Type(lambda _: b"", lambda _: None, lambda _, at: (None, at))
            plan_fields.append(("KIND", _KIND + encode_text(kind), False, kind_type))
    return tuple(sorted(plan_fields, key=lambda field: field[1]))


_PLANS: Final = {cls: _plan(cls, fields) for cls, fields in _FIELDS.items()}


def _write_fields(record: object) -> bytes:
    parts = []
    for name, key, is_option, kind in _PLANS[type(record)]:
        value = getattr(record, name)
        if not is_option or (value is not None and value != ()):
            parts.append(key + kind.write(value))
    return head(0xA0, len(parts)) + b"".join(parts)


def _quickly(data: bytes) -> Record:
    kind, _ = read_text(data, data.find(_KIND) + len(_KIND))
    cls = _KINDS.get(kind)
    if cls is None:
        raise _Miss
    record, end = _quick_fields(cls, data, 0)
    if end != len(data):
        raise _Miss
    typed_record: Record = record
    return typed_record


def _quick_fields(cls: type, data: bytes, at: int) -> tuple[Any, int]:
    remaining = data[at] - 0xA0
    if not 0 <= remaining < 24:
        raise _Miss
    at += 1
    # Its slots are filled: calling a constructor with many keywords costs as much as decoding them.
    record: Any = object.__new__(cls)
    for key, size, is_option, quick, put, absent in _QUICK[cls]:
        if data.startswith(key, at):
            value, at = quick(data, at + size)
            remaining -= 1
            if is_option and value == ():
                raise _Miss
        elif is_option:
            value = absent
        else:
            raise _Miss
        put(record, value)
    if remaining:
        raise _Miss
    return record, at


_Put: TypeAlias = Callable[[Any, Any], None]

_Quick: TypeAlias = tuple[bytes, int, bool, Callable[[bytes, int], tuple[Any, int]], _Put, Any]
"""A field: (encoded name, its size, whether it is an option, its reader, its setter, its value if
absent)."""


def _quick(cls: type) -> tuple[_Quick, ...]:
    return tuple(
        [
            (
                key,
                len(key),
                is_option,
                kind.quick,
                _put(cls, name),
                () if name in _TUPLES else None,
            )
            for name, key, is_option, kind in _PLANS[cls]
        ]
    )


def _put(cls: type, name: str) -> _Put:
    if name == "KIND":
        return lambda _, __: None  # a constant of the class
    slot: _Put = cls.__dict__[name].__set__
    return slot


_QUICK: Final = {cls: _quick(cls) for cls in _PLANS}


def _read_fields(cls: type, fields: dict[Any, Value]) -> Any:
    arguments: dict[str, Any] = {}
    for name, is_option, read in _READERS[cls]:
        if name in fields:
            arguments[name] = read(fields.pop(name))
            if is_option and arguments[name] == ():
                raise Damage(f"{cls.__name__} record: {name} is empty, where it is left out")
        elif is_option:
            arguments[name] = () if name in _TUPLES else None
        else:
            raise Damage(f"{cls.__name__} record: {name} is missing")
    if fields:
        raise Damage(f"{cls.__name__} record: {min(map(str, fields))} is not a field of it")
    return cls(**arguments)


_READERS: Final = {
    cls: tuple(
        (name.removesuffix("?"), name.endswith("?"), kind.read) for name, kind in fields.items()
    )
    for cls, fields in _FIELDS.items()
}
