"""A cell at rest as its workflow's index holds it (spec/state.md, SN-12).

entry = [key, state hash, state size, last_active_ns, last_seq, workflow hash, module hash, more]
more  = {"keys"?: hash of its idempotency keys, "kept"?: true, "status"?: declared status,
         "version"?: record of a manifest}
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aos.core.journal.ports import BlobReader
from aos.core.journal.records import Ref, slot_hash
from aos.core.journal.vocabulary import TERMINAL
from aos.core.state.cell import Cell
from aos.errors import Damage
from aos.values.cbor import Value, decode_record, encode, is_nat
from aos.values.codec import read_bytes, read_nat
from aos.values.digests import HASH_BYTES, Hash, content_hash
from aos.values.errors import ValueProblem

_EIGHT: Final = 0x88
_NO_OPTIONS: Final = b"\xa0"

_Parts: TypeAlias = tuple[bytes, bytes, int, int, int, bytes, bytes, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Entry:
    """The bytes of an entry."""

    data: bytes

    def to_cell(self, workflow: str, read: BlobReader, *, keys: bytes | None = None) -> Cell:
        """Decode the cell, as clean. Pass ``keys``, the bytes of its idempotency keys, if ``read``
        may not find them yet.

        Raises:
            Damage: These are not the bytes of an entry, or its keys cannot be read.
        """
        key, state, size, last_active_ns, last_seq, workflow_hash, module_hash, options = (
            self._parts()
        )
        cell = Cell(
            id=(workflow, key),
            workflow_hash=Hash(workflow_hash),
            module_hash=Hash(module_hash),
            state=Ref(Hash(state), size),
            declared=options.get("status"),
            last_seq=last_seq,
            last_active_ns=last_active_ns,
            version=options.get("version", 0),
            is_kept="kept" in options,
        )
        keys_hash = options.get("keys")
        if keys_hash is not None:
            cell.keys = read_keys(read(Hash(keys_hash)) if keys is None else keys)
        return cell

    def references(self) -> tuple[Hash, ...]:
        """The blobs that the entry names: its state, and its keys if it has any.

        Raises:
            Damage: These are not the bytes of an entry.
        """
        _, state, *_, options = self._parts()
        keys = options.get("keys")
        return (Hash(state),) if keys is None else (Hash(state), Hash(keys))

    def _parts(self) -> _Parts:
        try:
            return _quickly(self.data)
        except (IndexError, ValueError):
            pass  # the complete reader below finds out what it is
        try:
            value = decode_record(self.data)
        except ValueProblem as problem:
            raise Damage(f"a cell's entry is not canonical CBOR: {problem}") from problem
        match value:
            case [
                bytes(key), bytes(state), size, active, seq, bytes(of), bytes(module), dict(more),
            ] if (
                all(len(hash_bytes) == HASH_BYTES for hash_bytes in (state, of, module))
                and is_nat(size)
                and is_nat(active)
                and is_nat(seq)
                and _are_options(more)
            ):  # fmt: skip
                return (
                    key,
                    state,
                    size,
                    active,
                    seq,
                    of,
                    module,
                    {str(k): v for k, v in more.items()},
                )
        raise Damage("a cell's entry is not one that is written")


def _quickly(data: bytes) -> _Parts:
    """Read an entry without options, as nearly all are.

    Raises:
        ValueError, IndexError: These are other bytes, which may still be a valid entry.
    """
    if data[0] != _EIGHT:
        raise ValueError("not an entry without options")
    key, at = read_bytes(data, 1)
    state, at = _quick_hash(data, at)
    size, at = read_nat(data, at)
    active, at = read_nat(data, at)
    seq, at = read_nat(data, at)
    of, at = _quick_hash(data, at)
    module, at = _quick_hash(data, at)
    if data[at:] != _NO_OPTIONS:
        raise ValueError("not an entry without options")
    return key, state, size, active, seq, of, module, {}


def _quick_hash(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2 + HASH_BYTES
    if data[at : at + 2] != b"\x58\x20" or end > len(data):
        raise ValueError("not an entry without options")
    return data[at + 2 : end], end


def _are_options(options: Mapping[str | int, Value]) -> bool:
    status, keys = options.get("status", "completed"), options.get("keys", bytes(HASH_BYTES))
    version = options.get("version", 1)
    return (
        set(options) <= {"status", "keys", "version", "kept"}
        and status in TERMINAL
        and type(version) is int
        and version > 0
        and options.get("kept", True) is True
        and isinstance(keys, bytes)
        and len(keys) == HASH_BYTES
    )


def entry_of(cell: Cell) -> Entry:
    """Encode the entry of a cell, which must have a state."""
    assert cell.state is not None, "a cell without a state has no entry"
    options: dict[str | int, Value] = {}
    if cell.declared is not None:
        options["status"] = cell.declared
    keys = pack_keys(cell.keys)
    if keys is not None:
        options["keys"] = content_hash(keys)
    if cell.version:
        options["version"] = cell.version
    if cell.is_kept:
        options["kept"] = True
    size = cell.state.size if isinstance(cell.state, Ref) else len(cell.state)
    return Entry(
        encode(
            [
                cell.id[1], slot_hash(cell.state), size, cell.last_active_ns, cell.last_seq,
                cell.workflow_hash, cell.module_hash, options,
            ]
        )
    )  # fmt: skip


def entry_references(cell: Cell) -> tuple[Hash, ...]:
    """The blobs that a cell's entry names or would name: its state, and its keys if any."""
    state = () if cell.state is None else (slot_hash(cell.state),)
    keys = pack_keys(cell.keys)
    return state if keys is None else (*state, content_hash(keys))


def pack_keys(keys: OrderedDict[str, Hash]) -> bytes | None:
    """Encode idempotency keys and the hashes of their params, newest last; None if empty."""
    if not keys:
        return None
    return encode([[name, params] for name, params in keys.items()])


def read_keys(data: bytes) -> OrderedDict[str, Hash]:
    """Inverse of ``pack_keys``.

    Raises:
        Damage: These are not the bytes that ``pack_keys`` writes.
    """
    try:
        rows = decode_record(data)
    except ValueProblem as problem:
        raise Damage(f"a cell's keys are not canonical CBOR: {problem}") from problem
    keys: OrderedDict[str, Hash] = OrderedDict()
    for row in rows if isinstance(rows, list) else [None]:
        match row:
            case [str(name), bytes(params)] if len(params) == HASH_BYTES and name not in keys:
                keys[name] = Hash(params)
            case _:
                raise Damage("a cell's keys are not [key, hash of params] each")
    return keys
