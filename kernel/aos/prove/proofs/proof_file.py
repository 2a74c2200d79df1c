"""The file of a proof, ``aos-proof/1`` (spec/proofs.md, PF-40 to PF-49).

Reading accepts one spelling of each value: lower-case hex, base64 without a second spelling, no
unknown, missing or repeated field. Whether the proof holds is for ``checking`` to decide.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NoReturn, TypeAlias, TypeVar

from aos.core.journal.identity import world_id
from aos.core.journal.records import Fork, Genesis
from aos.errors import Damage, excerpt
from aos.prove.headerlog.header_tree import PATH_MAX
from aos.prove.headerlog.signed_note import strict_base64
from aos.values.cbor import INTEGER_MAX
from aos.values.digests import HASH_BYTES, Hash
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json

FORMAT: Final = "aos-proof/1"
PROOF_BYTES_MAX: Final = 64 * 1024 * 1024
WORLDS_MAX: Final = 64
_DEPTH_MAX: Final = 16

Kind: TypeAlias = Literal["record", "intent", "cell", "consistency"]

ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "record": ("record",),
    "intent": ("asked", "settled", "manifest"),
    "cell": ("last", "snapshot"),
    "consistency": (),
}
"""The records that a proof of each kind may show, by their roles."""

_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldKey:
    """The nonce and the key of a world, which its id commits to (J-3)."""

    nonce: bytes
    key: bytes

    @property
    def world(self) -> Hash:
        return world_id(self.nonce, self.key)

    @classmethod
    def of(cls, record: Genesis | Fork) -> WorldKey:
        """The world that begins with ``record``."""
        return cls(nonce=record.nonce, key=record.world_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFrame:
    """The place of a frame in the tree of the anchor. ``header`` is there for a checkpoint."""

    index: int
    header: bytes | None
    path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRecord:
    """A record, and its place in its frame (J-25 to J-27)."""

    seq: int
    data: bytes
    salt: bytes
    index: int
    count: int
    path: tuple[bytes, ...]
    frame: ShownFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAnchor:
    """A checkpoint, with its cosignatures, and a time-stamp over it."""

    note: str
    timestamp: bytes | None = None


@dataclass(frozen=True, slots=True)
class HeadAnchor:
    """The bytes of a stored head (J-33)."""

    head: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One proof. ``worlds`` begins with the world of the anchor; the others are its ancestors
    whose frames are shown. ``intent``, ``workflow`` and ``key`` name what the proof is about."""

    kind: Kind
    worlds: tuple[WorldKey, ...]
    anchor: CheckpointAnchor | HeadAnchor
    records: Mapping[str, ShownRecord] = field(default_factory=dict)
    values: tuple[bytes, ...] = ()
    intent: bytes | None = None
    workflow: str | None = None
    key: bytes | None = None
    nodes: tuple[bytes, ...] | None = None
    """The nodes of the index of a snapshot, from its root down (CI-14)."""
    old: str | None = None
    path: tuple[bytes, ...] | None = None
    """The old checkpoint, and the path to the new one."""


def write_proof(proof: Proof) -> bytes:
    """The bytes of the file: JSON, one field a line at the top."""
    return (json.dumps(_document(proof), indent=1) + "\n").encode()


def read_proof(data: bytes) -> Proof:
    """Read a proof.

    Raises:
        Damage: The bytes are not those of a proof.
    """
    if len(data) > PROOF_BYTES_MAX:
        _refuse(f"at most {PROOF_BYTES_MAX} bytes", f"{len(data)}")
    try:
        value = parse_json(data.decode(), max_bytes=PROOF_BYTES_MAX, max_depth=_DEPTH_MAX)
    except (UnicodeDecodeError, ValueProblem) as problem:
        raise Damage(f"this is no proof: it is not JSON: {excerpt(str(problem))}") from None
    reader = _Fields(value, "the proof")
    if reader.take("format", _text) != FORMAT:
        _refuse(FORMAT, "another format")
    return _proof(reader)


def _proof(top: _Fields) -> Proof:
    claim = _Fields(top.take("claim", _any), "claim")
    kind: Any = claim.take("kind", _text)
    if kind not in ROLES:
        _refuse("a claim of a known kind", repr(excerpt(kind)))
    records = _Fields(top.take("records", _any), "records")
    is_snapshot = kind == "cell" and records.has("snapshot")
    is_consistency = kind == "consistency"
    proof = Proof(
        kind=kind,
        worlds=tuple(map(_world, top.take("worlds", _list(WORLDS_MAX)))),
        anchor=_anchor(_Fields(top.take("anchor", _any), "anchor")),
        records={
            role: _record(_Fields(records.take(role, _any), role))
            for role in ROLES[kind]
            if records.has(role)
        },
        values=tuple(map(_base64, top.take("values", _list()))),
        intent=claim.take("intent", _hash) if kind == "intent" else None,
        workflow=claim.take("workflow", _text) if kind == "cell" else None,
        key=claim.take("key", _hex) if kind == "cell" else None,
        nodes=tuple(map(_base64, top.take("nodes", _list(PATH_MAX)))) if is_snapshot else None,
        old=top.take("old", _text) if is_consistency else None,
        path=_path(top.take("path", _any)) if is_consistency else None,
    )
    for fields in (claim, records, top):
        fields.end()
    return proof


def _world(value: object) -> WorldKey:
    fields = _Fields(value, "worlds")
    key = WorldKey(nonce=fields.take("nonce", _hex), key=fields.take("key", _hash))
    if fields.take("world", _hash) != key.world:
        raise Damage("the id of a world is not the one that its nonce and key give")
    fields.end()
    return key


def _anchor(fields: _Fields) -> CheckpointAnchor | HeadAnchor:
    kind = fields.take("kind", _text)
    anchor: CheckpointAnchor | HeadAnchor
    if kind == "head":
        anchor = HeadAnchor(fields.take("head", _base64))
    elif kind == "checkpoint":
        stamp = fields.take("timestamp", _base64) if fields.has("timestamp") else None
        anchor = CheckpointAnchor(note=fields.take("note", _text), timestamp=stamp)
    else:
        _refuse("a checkpoint or a head as anchor", repr(excerpt(kind)))
    fields.end()
    return anchor


def _record(fields: _Fields) -> ShownRecord:
    frame = _Fields(fields.take("frame", _any), "frame")
    record = ShownRecord(
        seq=fields.take("seq", _nat),
        data=fields.take("bytes", _base64),
        salt=fields.take("salt", _hash),
        index=fields.take("index", _nat),
        count=fields.take("count", _nat),
        path=_path(fields.take("path", _any)),
        frame=ShownFrame(
            index=frame.take("index", _nat),
            header=frame.take("header", _base64) if frame.has("header") else None,
            path=_path(frame.take("path", _any)),
        ),
    )
    frame.end()
    fields.end()
    return record


class _Fields:
    """The fields of one JSON object, each of which is taken once."""

    def __init__(self, value: object, subject: str) -> None:
        if not isinstance(value, dict):
            _refuse(f"an object as {subject}", "something else")
        self._unread: dict[str, object] = dict(value)
        self._subject = subject

    def has(self, name: str) -> bool:
        return name in self._unread

    def take(self, name: str, read: Callable[[object], T]) -> T:
        if name not in self._unread:
            _refuse(f"a field {name} in {self._subject}", "none")
        return read(self._unread.pop(name))

    def end(self) -> None:
        """Refuse fields that no one took."""
        if self._unread:
            _refuse(f"no other field in {self._subject}", repr(excerpt(next(iter(self._unread)))))


def _any(value: object) -> object:
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        _refuse("text", type(value).__name__)
    return value


def _nat(value: object) -> int:
    # True is an integer to Python.
    if type(value) is not int or not 0 <= value <= INTEGER_MAX:
        _refuse("a natural number", excerpt(str(value)))
    return value


def _hex(value: object) -> bytes:
    text = _text(value)
    if not _HEX.fullmatch(text):
        _refuse("lower-case hex digits", repr(excerpt(text)))
    return bytes.fromhex(text)


def _hash(value: object) -> bytes:
    decoded = _hex(value)
    if len(decoded) != HASH_BYTES:
        _refuse(f"{2 * HASH_BYTES} hex digits", f"{2 * len(decoded)}")
    return decoded


def _base64(value: object) -> bytes:
    decoded = strict_base64(_text(value))
    if decoded is None:
        _refuse("base64 in its only spelling", "something else")
    return decoded


def _list(length_max: int | None = None) -> Callable[[object], list[object]]:
    def read(value: object) -> list[object]:
        if not isinstance(value, list):
            _refuse("a list", type(value).__name__)
        if length_max is not None and len(value) > length_max:
            _refuse(f"at most {length_max} elements", str(len(value)))
        return value

    return read


def _path(value: object) -> tuple[bytes, ...]:
    return tuple(map(_hash, _list(PATH_MAX)(value)))


def _refuse(expected: str, actual: str) -> NoReturn:
    raise Damage("this is no proof", expected=expected, actual=actual)


def _document(proof: Proof) -> dict[str, object]:
    claim: dict[str, object] = {"kind": proof.kind}
    if proof.intent is not None:
        claim["intent"] = proof.intent.hex()
    if proof.workflow is not None and proof.key is not None:
        claim |= {"workflow": proof.workflow, "key": proof.key.hex()}
    document: dict[str, object] = {
        "format": FORMAT,
        "claim": claim,
        "worlds": [
            {"world": world.world.hex(), "nonce": world.nonce.hex(), "key": world.key.hex()}
            for world in proof.worlds
        ],
        "anchor": _anchor_document(proof.anchor),
        "records": {role: _record_document(record) for role, record in proof.records.items()},
        "values": list(map(_base64_text, proof.values)),
    }
    if proof.nodes is not None:
        document["nodes"] = list(map(_base64_text, proof.nodes))
    if proof.old is not None and proof.path is not None:
        document |= {"old": proof.old, "path": [sibling.hex() for sibling in proof.path]}
    return document


def _anchor_document(anchor: CheckpointAnchor | HeadAnchor) -> dict[str, object]:
    if isinstance(anchor, HeadAnchor):
        return {"kind": "head", "head": _base64_text(anchor.head)}
    document: dict[str, object] = {"kind": "checkpoint", "note": anchor.note}
    if anchor.timestamp is not None:
        document["timestamp"] = _base64_text(anchor.timestamp)
    return document


def _record_document(record: ShownRecord) -> dict[str, object]:
    frame: dict[str, object] = {"index": record.frame.index}
    if record.frame.header is not None:
        frame["header"] = _base64_text(record.frame.header)
    frame["path"] = [sibling.hex() for sibling in record.frame.path]
    return {
        "seq": record.seq,
        "bytes": _base64_text(record.data),
        "salt": record.salt.hex(),
        "index": record.index,
        "count": record.count,
        "path": [sibling.hex() for sibling in record.path],
        "frame": frame,
    }


def _base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()
