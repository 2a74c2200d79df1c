"""The tables of the index, and the bytes of their keys and rows (spec/index.md, IX-10 to IX-22).

All numbers are big-endian, so that keys compare as their numbers do.

    number    5 bytes   of a cell, in the order in which cells are first named; from 1
    word      2 bytes   of a name of a workflow or effect; from 1
    record    6 bytes   sequence of a record
    index     3 bytes   of an event or intent in its record
    place     record, index
    ns        8 bytes
    inputs    4 bytes   how many inputs of a cell there were so far
    order     a cell's key; from one of more than 400 bytes its first 368 and its hash
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from aos.core.journal.records import EntryId
from aos.core.journal.vocabulary import CELL_STATUSES, STATUSES
from aos.values.digests import HASH_BYTES, Hash, content_hash

NUMBER_BYTES: Final = 5
WORD_BYTES: Final = 2
RECORD_BYTES: Final = 6
INDEX_BYTES: Final = 3
PLACE_BYTES: Final = RECORD_BYTES + INDEX_BYTES
NS_BYTES: Final = 8
NS_MAX: Final = 2 ** (8 * NS_BYTES) - 1
COUNT_BYTES: Final = 8
INPUTS_BYTES: Final = 4

INTENT_BYTES: Final = 16
"""Bytes of an intent's hash that find it."""

WORDS_MAX: Final = 2 ** (8 * WORD_BYTES) - 1
ORDER_BYTES_MAX: Final = 400
"""LMDB's keys have at most 511 bytes; a cell's key has at most 1,024."""

CUT_BYTES: Final = ORDER_BYTES_MAX - HASH_BYTES


class IndexTable(enum.IntEnum):
    """The tables; the value is the number that the checksum of a row begins with."""

    WORDS = 1
    """word → name"""
    CELLS = 2
    """number → status, ns of the last activity, word of the workflow, reasons, key"""
    KEYS = 3
    """word, order → number"""
    BY_KEY = 4
    """word, status, order → number: no deleted cell"""
    BY_ACTIVITY = 5
    """word, status, ns, order → number: no deleted cell"""
    STALE = 6
    """number → nothing: cells whose rows are older than the last record of the index"""
    TOUCH = 7
    """number, record → inputs"""
    TOOK = 8
    """entry as a place, number, record → nothing"""
    ASKED = 9
    """place of the intent → hash of the intent, number, word of the effect, status, record of the
    receipt or 0"""
    INTENTS = 10
    """first 16 bytes of the intent's hash → place"""
    BY_STATUS = 11
    """status, word of the effect, place → nothing"""
    TALLY = 13
    """0, word, status → cells; 1, minute, kind → records; 3, word, status, word
    of a reason → cells; 4, status, word of an effect → intents"""
    VERSIONS = 14
    """record → hash of the manifest's document"""
    ABOUT = 15
    """place of the intent, record → nothing: an attempt, a stream frame or a command"""
    SETTLED = 16
    """status of the receipt, word of the effect, record of the receipt → place of the intent"""


OF_CELLS: Final = b"\x00"
OF_MINUTES: Final = b"\x01"
OF_REASONS: Final = b"\x03"
OF_INTENTS: Final = b"\x04"
"""The parts of ``TALLY``."""

MINUTE_NS: Final = 60 * 10**9
MINUTE_BYTES: Final = 5

GONE: Final = len(CELL_STATUSES)
"""The status of a deleted cell, and of one that was never made: its past has rows."""

_REASONS_AT: Final = 1 + NS_BYTES + WORD_BYTES

ASKED_STATUSES: Final = ("open", "abandoned", *STATUSES)
"""``abandoned`` is the status of an intent that no cell waits for, until its receipt comes."""


def number_key(number: int) -> bytes:
    """The bytes of a cell's number."""
    return number.to_bytes(NUMBER_BYTES, "big")


def record_key(seq: int) -> bytes:
    """The bytes of a record's sequence."""
    return seq.to_bytes(RECORD_BYTES, "big")


def place_key(position: EntryId) -> bytes:
    """The bytes of a record's sequence and of the index of an event or intent in it."""
    return position[0].to_bytes(RECORD_BYTES, "big") + position[1].to_bytes(INDEX_BYTES, "big")


def entry_of_key(data: bytes) -> EntryId:
    """The opposite of ``place_key``."""
    return number_of(data[:RECORD_BYTES]), number_of(data[RECORD_BYTES:PLACE_BYTES])


def number_of(data: bytes) -> int:
    """The number that big-endian bytes encode."""
    return int.from_bytes(data, "big")


def order_key(key: bytes) -> bytes:
    """The bytes by which a cell is sorted among those of its workflow."""
    if len(key) <= ORDER_BYTES_MAX:
        return key
    return key[:CUT_BYTES] + content_hash(key)


def after_prefix(prefix: bytes) -> bytes | None:
    """The least key that is greater than every key with this prefix; None if there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


@dataclass(frozen=True, slots=True)
class StoredCell:
    """A row of ``CELLS``. ``status`` is an index of ``CELL_STATUSES``, or ``GONE``; ``reasons`` are
    the words of what the cell waits for and how it ended (A-63)."""

    status: int
    last_active_ns: int
    word: int
    key: bytes
    reasons: tuple[int, ...] = ()

    def to_bytes(self) -> bytes:
        """The bytes of the row."""
        return b"".join(
            (
                bytes([self.status]),
                self.last_active_ns.to_bytes(NS_BYTES, "big"),
                self.word.to_bytes(WORD_BYTES, "big"),
                len(self.reasons).to_bytes(WORD_BYTES, "big"),
                *(reason.to_bytes(WORD_BYTES, "big") for reason in self.reasons),
                self.key,
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> StoredCell:
        """The opposite of ``to_bytes``."""
        at = _REASONS_AT + WORD_BYTES
        end = at + WORD_BYTES * number_of(data[_REASONS_AT:at])
        reasons = tuple(
            number_of(data[offset : offset + WORD_BYTES]) for offset in range(at, end, WORD_BYTES)
        )
        return cls(
            status=data[0],
            last_active_ns=number_of(data[1 : 1 + NS_BYTES]),
            word=number_of(data[1 + NS_BYTES : 1 + NS_BYTES + WORD_BYTES]),
            key=data[end:],
            reasons=reasons,
        )


@dataclass(frozen=True, slots=True)
class StoredIntent:
    """A row of ``ASKED``. ``status`` is an index of ``ASKED_STATUSES``; ``settled`` 0 is none."""

    intent: Hash
    number: int
    word: int
    status: int
    settled: int

    def to_bytes(self) -> bytes:
        """The bytes of the row."""
        return b"".join(
            (
                self.intent,
                number_key(self.number),
                self.word.to_bytes(WORD_BYTES, "big"),
                bytes([self.status]),
                record_key(self.settled),
            )
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> StoredIntent:
        """The opposite of ``to_bytes``."""
        at = HASH_BYTES + NUMBER_BYTES
        return cls(
            intent=Hash(data[:HASH_BYTES]),
            number=number_of(data[HASH_BYTES:at]),
            word=number_of(data[at : at + WORD_BYTES]),
            status=data[at + WORD_BYTES],
            settled=number_of(data[at + WORD_BYTES + 1 :]),
        )


def status_key(status: int, word: int, suffix: bytes) -> bytes:
    """A key of ``BY_STATUS`` or, with the record of a receipt as ``suffix``, of ``SETTLED``."""
    return bytes([status]) + word.to_bytes(WORD_BYTES, "big") + suffix
