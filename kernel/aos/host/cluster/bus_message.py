"""The messages of the bus: requests and replies in pieces (spec/cluster.md, CL-121).

    put      ["aos/bus/1", "put", request, hash, size, index, count, bytes]
    get      ["aos/bus/1", "get", request, index]

    piece    ["aos/bus/1", "piece", hash, size, index, count, bytes]
    more     ["aos/bus/1", "more"]
    wait     ["aos/bus/1", "wait"]
    unknown  ["aos/bus/1", "unknown"]
    full     ["aos/bus/1", "full", text]

The asker sends ``put`` and ``get``; each gets one of the other messages. ``request`` is 16 random
bytes. ``hash`` and ``size`` are those of the whole request or reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from aos.host.cluster.signed_value import value_in
from aos.host.door.protocol import MESSAGE_BYTES_MAX, MIB, STAGED_BYTES_MAX
from aos.values.cbor import Value, encode, is_nat
from aos.values.digests import HASH_BYTES, Hash, content_hash

FORM: Final = "aos/bus/1"
REQUEST_BYTES: Final = 16

WHOLE_BYTES_MAX: Final = STAGED_BYTES_MAX + MESSAGE_BYTES_MAX
"""The longest request or reply: a manifest with all the modules that it may bring."""

PIECE_BYTES_MAX: Final = MIB
PIECES_MAX: Final = 65_536

FIELDS_BYTES: Final = 160
"""Room for the fields around the bytes of a piece."""

_TEXT_MAX: Final = 1024


class Shape(NamedTuple):
    """The hash, the length and the number of pieces of one request or reply."""

    hash: Hash
    size: int
    pieces: int


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of a request or a reply; ``index`` counts from 0."""

    shape: Shape
    index: int
    content: bytes

    @property
    def cost(self) -> int:
        """The memory that it takes, in bytes, about: empty pieces are not free."""
        return len(self.content) + FIELDS_BYTES

    def fields(self) -> list[Value]:
        shape = self.shape
        return [shape.hash, shape.size, self.index, shape.pieces, self.content]


@dataclass(frozen=True, slots=True)
class Put:
    """A piece of the request with this id."""

    request: bytes
    piece: Piece

    def to_bytes(self) -> bytes:
        return encode([FORM, "put", self.request, *self.piece.fields()])


@dataclass(frozen=True, slots=True)
class Get:
    """Ask for a piece of the reply to a request."""

    request: bytes
    index: int

    def to_bytes(self) -> bytes:
        return encode([FORM, "get", self.request, self.index])


@dataclass(frozen=True, slots=True)
class ReplyPiece:
    """A piece of the reply."""

    piece: Piece

    def to_bytes(self) -> bytes:
        return encode([FORM, "piece", *self.piece.fields()])


@dataclass(frozen=True, slots=True)
class BusWord:
    """A message of one word. ``more``: pieces of the request are missing. ``wait``: the request is
    whole, and not answered yet. ``unknown``: no such request is here."""

    word: str

    def to_bytes(self) -> bytes:
        return encode([FORM, self.word])


MORE: Final = BusWord("more")
WAIT: Final = BusWord("wait")
UNKNOWN_REQUEST: Final = BusWord("unknown")
_WORDS: Final = {word.word: word for word in (MORE, WAIT, UNKNOWN_REQUEST)}


@dataclass(frozen=True, slots=True)
class Full:
    """A limit is reached: the piece was not kept. ``reason`` is a sentence."""

    reason: str

    def to_bytes(self) -> bytes:
        return encode([FORM, "full", self.reason[:_TEXT_MAX]])


BusQuestion: TypeAlias = Put | Get
BusAnswer: TypeAlias = ReplyPiece | BusWord | Full


def read_question(data: bytes) -> BusQuestion | None:
    """Read a message of an asker; None if it makes no sense."""
    match value_in(data):
        case [str(form), "put", bytes(request), *fields] if _is_request(form, request):
            piece = _piece(fields)
            return None if piece is None else Put(request, piece)
        case [str(form), "get", bytes(request), index] if _is_request(form, request):
            return Get(request, index) if is_nat(index) and index < PIECES_MAX else None
    return None


def read_bus_answer(data: bytes) -> BusAnswer | None:
    """Read an answer to an asker; None if it makes no sense."""
    match value_in(data):
        case [str(form), "piece", *fields] if form == FORM:
            piece = _piece(fields)
            return None if piece is None else ReplyPiece(piece)
        case [str(form), str(word)] if form == FORM:
            return _WORDS.get(word)
        case [str(form), "full", str(reason)] if form == FORM:
            return Full(reason[:_TEXT_MAX])
    return None


def _is_request(form: str, request: bytes) -> bool:
    return form == FORM and len(request) == REQUEST_BYTES


def _piece(fields: Sequence[Value]) -> Piece | None:
    match fields:
        case [bytes(hash_bytes), size, index, count, bytes(content)] if (
            len(hash_bytes) == HASH_BYTES
            and is_nat(size)
            and is_nat(index)
            and is_nat(count)
            and size <= WHOLE_BYTES_MAX
            and index < count <= PIECES_MAX
            and len(content) <= min(PIECE_BYTES_MAX, size)
        ):
            return Piece(Shape(Hash(hash_bytes), size, count), index, content)
    return None


def pieces_of(message: bytes, piece_bytes: int) -> list[Piece]:
    """Cut a request or a reply into pieces of at most so many bytes."""
    starts = range(0, len(message), piece_bytes) or range(1)
    shape = Shape(content_hash(message), len(message), len(starts))
    return [
        Piece(shape, index, message[start : start + piece_bytes])
        for index, start in enumerate(starts)
    ]


class Assembly:
    """The pieces of one request or reply that have arrived, in any order. Those of another shape
    belong to another one."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.cost = 0
        """The memory of the pieces that have arrived, about."""
        self._contents: dict[int, bytes] = {}

    def lacks(self, index: int) -> bool:
        """Whether this piece has not arrived yet."""
        return index not in self._contents

    def add(self, piece: Piece) -> None:
        """Add a piece that has not arrived yet."""
        self._contents[piece.index] = piece.content
        self.cost += piece.cost

    def missing(self) -> list[int]:
        """The indices of the pieces that have not arrived."""
        return [index for index in range(self.shape.pieces) if index not in self._contents]

    @property
    def is_complete(self) -> bool:
        """Whether all pieces have arrived."""
        return len(self._contents) == self.shape.pieces

    def whole(self) -> bytes | None:
        """Join all pieces; None if they do not have the hash."""
        message = b"".join(self._contents[index] for index in range(self.shape.pieces))
        is_whole = len(message) == self.shape.size and content_hash(message) == self.shape.hash
        return message if is_whole else None
