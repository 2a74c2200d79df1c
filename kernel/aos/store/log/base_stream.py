"""A base in a stream of its own: the rows of a node's store, for nodes that join (spec/cluster.md,
CL-130 to CL-134).

    ["aos/base/1", "rows", table, [key, value, …]]        as often as need be
    ["aos/base/1", "end", world, log, position, entry, seq, frame, rows, hash, signature]

Each is an entry in the sense of LG-5: it has the BLAKE3 of its bytes as its name, and travels in
parts. ``hash`` is that over the names of all entries of rows, in order. ``log``, ``position`` and
``entry`` are the place in the log that the store had, ``seq`` and ``frame`` the end of its journal.
The key of the world signs the last entry, and nothing of a base counts without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from blake3 import blake3
from nacl.signing import SigningKey

from aos.core.journal.frame import Head, Tip, follow, read_frame
from aos.core.journal.signing import SIGNATURE_BYTES, is_signed
from aos.errors import AosError, Damage, Refused, Unavailable
from aos.store.cut import Cut
from aos.store.environment import HOME_KEY
from aos.store.lmdb_store import LOG_PLACE
from aos.store.log.entry import ENTRY_BYTES_MAX, EntryPart, parts_of
from aos.store.log.log import AfterWrongPosition, Log, LogMessage, LogUnreachable
from aos.store.log.logged_store import LogEnd, LogPlace
from aos.store.log.patience import Patience
from aos.store.row_copy import BLOBS, CUT_KEY, FRAMES, HEAD_KEY, META, PACK, SYSTEM, StoredRow
from aos.values.cbor import Value, decode_record, encode, is_nat
from aos.values.digests import HASH_BYTES, Hash, content_hash
from aos.values.errors import ValueProblem

FORM: Final = "aos/base/1"
ROWS: Final = "rows"
END: Final = "end"

GROUP_BYTES: Final = 4 * 1024 * 1024
"""An entry of rows has at most so many bytes, or one row."""

Advance = Callable[[int], None]
"""Called with the number of bytes read or written so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEnd:
    """The last entry of a base: the store that its ``rows`` rows are of, whose ``hash`` is that
    over the names of the entries."""

    world: Hash
    place: LogPlace
    seq: int
    frame: Hash
    rows: int
    hash: Hash
    signature: bytes = b""

    @property
    def end(self) -> LogEnd:
        """The end of the log in that store."""
        return LogEnd(position=self.place.position, seq=self.seq, frame=self.frame)

    def signed(self, key: SigningKey) -> BaseEnd:
        """Return the entry with the signature of the world's key."""
        return replace(self, signature=key.sign(encode(self._fields())).signature)

    def is_signed_by(self, world_key: bytes) -> bool:
        """Whether the key of the world has signed this."""
        return is_signed(encode(self._fields()), self.signature, world_key)

    def to_bytes(self) -> bytes:
        """The entry as the stream has it."""
        return encode([*self._fields(), self.signature])

    def _fields(self) -> list[Value]:
        place = self.place
        return [
            FORM, END, self.world, place.stream, place.position, place.entry, self.seq, self.frame,
            self.rows, self.hash,
        ]  # fmt: skip


class RowChecker:
    """Checks the rows of a store as they pass: each blob has its hash, each frame follows the one
    before it, and the head that the world's key signed is over the last one (CL-132)."""

    def __init__(self, world_key: bytes) -> None:
        self._world_key = world_key
        self._head: Head | None = None
        self._cut: Cut | None = None
        self._tip: Tip | None = None

    def take(self, row: StoredRow) -> bool:
        """Check a row; return whether it is of the base: a row of this machine is not, and neither
        is a frame that was pruned and not removed yet.

        Raises:
            Damage: It is not as it says.
        """
        if row.table == META or (row.table == SYSTEM and row.key == HOME_KEY):
            return False
        if row.table == SYSTEM and row.key == HEAD_KEY:
            self._head = Head.from_bytes(row.value)
        elif row.table == SYSTEM and row.key == CUT_KEY:
            self._cut = Cut.from_bytes(row.value)
        elif row.table in (BLOBS, PACK) and content_hash(row.value) != row.key:
            raise Damage(f"the value {row.key.hex()[:16]} is altered", hint="run aos verify")
        elif row.table == FRAMES:
            return self._follow(row)
        return True

    def head(self) -> Head:
        """The head, after the last row.

        Raises:
            Damage: The journal does not end as it says, or the world's key has not signed it.
        """
        head, tip = self._head, self._tip
        if head is None:
            raise Damage("the rows have no head: the store has no journal")
        if tip is None and self._cut is not None:
            tip = self._cut.tip(head.world)
        if tip is None or Head.of(tip).message() != head.message():
            raise Damage(
                "the journal does not end as its head says",
                expected=f"record {head.seq}",
                actual="no frame" if tip is None else f"record {tip.seq}",
            )
        if not head.is_signed_by(self._world_key):
            raise Damage(f"the head at record {head.seq} is not signed by the world's key")
        return head

    def _follow(self, row: StoredRow) -> bool:
        frame = read_frame(row.value)
        if self._cut is not None and frame.header.last <= self._cut.seq:
            return False
        if self._tip is None:
            world, cut = frame.header.world, self._cut
            self._tip = Tip(world=world) if cut is None else cut.tip(world)
        self._tip = follow(self._tip, frame)
        return True


def write_base(
    rows: Iterable[StoredRow],
    log: Log,
    key: SigningKey,
    *,
    part_bytes: int,
    place: LogPlace | None = None,
    advance: Advance = lambda _: None,
) -> BaseEnd:
    """Write the rows of a node's store as a base into an empty stream. On return it is whole and
    durable. ``place`` is its place in the log, by default the one that the store has.

    Raises:
        Damage: The store is damaged.
        Refused: Another program writes to the stream.
        LogUnreachable: The servers do not answer for ``PATIENCE_S``.
    """
    writer = _Writer(log, part_bytes, advance)
    checker = RowChecker(key.verify_key.encode())
    names, count = blake3(), 0
    stored_place: LogPlace | None = None

    def put(table: str, group: list[Value]) -> None:
        names.update(writer.put(encode([FORM, ROWS, table, group])))

    table, group, size = "", list[Value](), 0
    for row in rows:
        if row.table == META and row.key == LOG_PLACE.encode():
            stored_place = LogPlace.from_bytes(row.value)
        if not checker.take(row):
            continue
        row_bytes = len(row.key) + len(row.value)
        if group and (row.table != table or size + row_bytes > GROUP_BYTES):
            put(table, group)
            group, size = [], 0
        table = row.table
        group += [row.key, row.value]
        size += row_bytes
        count += 1
    if group:
        put(table, group)
    head = checker.head()
    place = place or stored_place
    assert place is not None, "the store of a replicated world"
    end = BaseEnd(
        world=head.world, place=place, seq=head.seq, frame=head.frame, rows=count,
        hash=Hash(names.digest()),
    ).signed(key)  # fmt: skip
    writer.put(end.to_bytes())
    return end


class _Writer:
    """Writes entries to a stream that no other program may write to."""

    def __init__(self, log: Log, part_bytes: int, advance: Advance) -> None:
        self._log = log
        self._part_bytes = part_bytes
        self._advance = advance
        self._position = 0
        self._bytes = 0

    def put(self, data: bytes) -> Hash:
        """Write an entry; return its name."""
        parts = parts_of(data, self._part_bytes)
        first = self._position
        patience = Patience()
        while self._position < first + len(parts):
            try:
                self._log.append(parts[self._position - first :], self._position)
                self._position = first + len(parts)
            except (LogUnreachable, AfterWrongPosition) as problem:
                # The stream says how much is written: each part was only taken in its place.
                patience.wait(problem)
                self._read_position(first, len(parts), patience)
        self._bytes += len(data)
        self._advance(self._bytes)
        return parts[0].entry

    def _read_position(self, first: int, count: int, patience: Patience) -> None:
        try:
            tail = self._log.tail()
        except LogUnreachable as problem:
            patience.wait(problem)
            return
        if tail > first + count:
            raise Refused(
                "another program writes to the stream of this base",
                expected=f"{first + count} messages",
                actual=str(tail),
                hint="run the command again: it makes another stream",
            )
        if tail > self._position:
            patience.renew()
        self._position = max(self._position, tail)


@dataclass(slots=True)
class BaseReader:
    """Reads a base from a stream. ``rows`` yields its rows; they count once it has ended without an
    exception, and ``end`` has the last entry then."""

    log: Log
    world_key: bytes
    advance: Advance = lambda _: None
    end: BaseEnd | None = None
    _names: blake3 = field(default_factory=blake3)
    _count: int = 0
    _bytes: int = 0

    def rows(self) -> Iterator[StoredRow]:
        """Yield the rows of the base, each with the hash of its entry checked, and their journal.

        Raises:
            Damage: The stream is no whole base, or another key than the world's has signed it.
            Refused: A newer release has written it.
            LogUnreachable: The servers do not answer for ``PATIENCE_S``.
        """
        checker = RowChecker(self.world_key)
        for entry, data in self._entries():
            value = _read(data)
            match value:
                case [_, str(kind), str(table), list(group)] if kind == ROWS:
                    self._names.update(entry)
                    for row in _rows(table, group):
                        self._count += 1
                        if not checker.take(row):
                            raise _no_base(f"a row of one machine alone, in {row.table}")
                        yield row
                case [_, str(kind), *fields] if kind == END:
                    self.end = self._checked_end(fields, checker)
                    return
                case _:
                    raise _no_base("an entry of another kind")
        raise _no_base("no last entry: it was not finished", is_half=True)

    def check(self) -> BaseEnd:
        """Read all of it for its end alone. Raises as ``rows``."""
        for _ in self.rows():
            pass
        assert self.end is not None, "rows raises without an end"
        return self.end

    def _checked_end(self, fields: list[Value], checker: RowChecker) -> BaseEnd:
        end = _end(fields)
        if end is None or not end.is_signed_by(self.world_key):
            raise _no_base("a last entry that the key of the world has not signed")
        if (end.rows, end.hash) != (self._count, self._names.digest()):
            raise _no_base(f"{self._count} rows, and not the {end.rows} that its end names")
        head = checker.head()
        if (end.world, end.seq, end.frame) != (head.world, head.seq, head.frame):
            raise _no_base("a journal with another end than its last entry names")
        return end

    def _entries(self) -> Iterator[tuple[Hash, bytes]]:
        """Yield each entry with its name, from the first message on."""
        position, patience = 0, Patience()
        while True:
            try:
                parts: list[EntryPart] = []
                for message in self.log.read(position):
                    parts.append(_part(message, parts))
                    patience.renew()
                    if len(parts) == parts[0].total:
                        yield parts[0].entry, self._joined(position + 1, parts)
                        position, parts = message.position, []
            except LogUnreachable as problem:
                patience.wait(problem)
            else:
                return

    def _joined(self, first: int, parts: list[EntryPart]) -> bytes:
        data = b"".join(part.data for part in parts)
        if content_hash(data) != parts[0].entry:
            # One copy may be damaged, and another one not (LG-13).
            again = self.log.read_again(first, first + len(parts) - 1)
            data = b"".join(message.part.data for message in again if message.part is not None)
        if content_hash(data) != parts[0].entry:
            raise _no_base(f"altered bytes, in the entry at position {first}")
        self._bytes += len(data)
        self.advance(self._bytes)
        return data


def last_entry(log: Log, world_key: bytes) -> BaseEnd | None:
    """Return the last entry of a base, if it is whole; nothing before it is read.

    Raises:
        LogUnreachable: The servers do not answer.
        Damage: The stream was removed.
    """
    tail = log.tail()
    message = next(iter(log.read(tail - 1)), None) if tail else None
    if message is None or message.part is None or message.part.total > 1:
        return None
    try:
        value = decode_record(message.part.data)
    except ValueProblem:
        return None
    match value:
        case [str(form), str(kind), *fields] if (form, kind) == (FORM, END):
            end = _end(fields)
            return end if end is not None and end.is_signed_by(world_key) else None
    return None


def _part(message: LogMessage, before: list[EntryPart]) -> EntryPart:
    """The part in a message, if it continues the parts of its entry. Raises Damage."""
    part = message.part
    if part is None or part.number != len(before) + 1:
        raise _no_base(f"something else, at position {message.position}")
    if before and (part.entry, part.total) != (before[0].entry, before[0].total):
        raise _no_base(f"a part of another entry, at position {message.position}")
    return part


def _read(data: bytes) -> list[Value]:
    try:
        value = decode_record(data, max_bytes=ENTRY_BYTES_MAX)
    except ValueProblem as problem:
        raise _no_base(f"an entry that is not canonical CBOR ({problem})") from problem
    match value:
        case [str(form), *_] if form == FORM:
            return value
        case [str(form), *_] if form.startswith("aos/base/"):
            raise Refused(
                "a newer release made this base",
                expected=FORM,
                actual=form,
                hint="use that release",
            )
    raise _no_base("an entry of another form")


def _rows(table: str, group: list[Value]) -> Iterator[StoredRow]:
    if len(group) % 2:
        raise _no_base("a row without a value")
    for index in range(0, len(group), 2):
        key, value = group[index], group[index + 1]
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise _no_base("a row that is none")
        yield StoredRow(table, key, value)


def _end(fields: list[Value]) -> BaseEnd | None:
    match fields:
        case [
            bytes(world), str(log), position, entry, seq, bytes(frame), rows, bytes(hash),
            bytes(signature),
        ] if (
            is_nat(position) and is_nat(seq) and is_nat(rows)
            and len(world) == len(frame) == len(hash) == HASH_BYTES
            and len(signature) == SIGNATURE_BYTES
        ):  # fmt: skip
            place = LogPlace.of(log, position, entry)
            if place is not None:
                return BaseEnd(
                    world=Hash(world), place=place, seq=seq, frame=Hash(frame), rows=rows,
                    hash=Hash(hash), signature=signature,
                )  # fmt: skip
    return None


class HalfBase(Unavailable):
    """A base whose last entry is missing: its making was interrupted, or is in progress."""


def _no_base(actual: str, *, is_half: bool = False) -> AosError:
    kind: type[AosError] = HalfBase if is_half else Damage
    return kind(
        "the base cannot be used",
        expected="rows, and a last entry with their number, their hash and a signature",
        actual=actual,
        hint="make a new one on a node: aos cluster base",
    )
