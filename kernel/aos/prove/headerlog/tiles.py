"""Tiles: the files that hold a header log, as C2SP tlog-tiles lays them out (PF-20 to PF-24).

    tile/L/N          the hashes of 256 nodes of height 8 * L, from node 256 * N on
    tile/entries/N    256 headers, from header 256 * N on: the length (2 bytes, big-endian) of each
                      and the header
    ….p/W             the same, with only the first W of them: the end of the log

``N`` is written with three digits for each part of the path, all but the last after an ``x``:
tile 1,234,067 is ``x001/x234/067``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from aos.errors import Damage
from aos.prove.headerlog.header_tree import HASH_BYTES, node_hash

HEIGHT: Final = 8
WIDTH: Final = 1 << HEIGHT
ENTRY_BYTES_MAX: Final = (1 << 16) - 1
BUNDLE_BYTES_MAX: Final = WIDTH * (2 + ENTRY_BYTES_MAX)
_KEPT: Final = 64
_ENTRIES: Final = -1


class DamagedTile(Damage):
    """A tile is missing, cut short or altered: it can be written again from the journal."""


@dataclass(frozen=True, slots=True, order=True)
class Tile:
    """One file of the log: ``level`` -1 holds headers, the others hashes. ``width`` is how many."""

    level: int
    index: int
    width: int

    @property
    def is_full(self) -> bool:
        return self.width == WIDTH

    @property
    def path(self) -> tuple[str, ...]:
        """The parts of its path below the log (PF-21)."""
        assert self.index >= 0
        level = "entries" if self.level == _ENTRIES else str(self.level)
        *above, last = _groups(self.index)
        names = [f"x{group:03}" for group in above]
        if self.is_full:
            return ("tile", level, *names, f"{last:03}")
        return ("tile", level, *names, f"{last:03}.p", str(self.width))


ReadTile: TypeAlias = Callable[[Tile], bytes]
"""Returns the bytes of a tile.

Raises:
    DamagedTile: The tile is missing.
    Damage: Something else has its name.
"""


def _groups(index: int) -> list[int]:
    groups = [index % 1000]
    while index := index // 1000:
        groups.insert(0, index % 1000)
    return groups


def entries_tile(index: int, size: int) -> Tile:
    """The tile of a log of ``size`` headers that holds header ``index``."""
    return _tile_of(_ENTRIES, index, size)


def tiles_of(size: int) -> Iterator[Tile]:
    """The tiles at the end of a log of ``size`` headers: those that are not full, and on each level
    the last full one where none is partial."""
    yield from _last(_ENTRIES, size)
    level, count = 0, size
    while count:
        yield from _last(level, count)
        level, count = level + 1, count >> HEIGHT


def _last(level: int, count: int) -> Iterator[Tile]:
    if count:
        yield _tile_of(level, count - 1, count)


def _tile_of(level: int, index: int, count: int) -> Tile:
    tile = index >> HEIGHT
    return Tile(level, tile, min(WIDTH, count - (tile << HEIGHT)))


def bundle_bytes(headers: Sequence[bytes]) -> bytes:
    """The content of a tile of headers (PF-22)."""
    assert all(len(header) <= ENTRY_BYTES_MAX for header in headers)
    return b"".join(len(header).to_bytes(2, "big") + header for header in headers)


def read_bundle(data: bytes, width: int) -> list[bytes]:
    """The headers in a tile.

    Raises:
        Damage: They are not ``width`` headers.
    """
    headers: list[bytes] = []
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        headers.append(data[at + 2 : end])
        at = end
    if at != len(data) or len(headers) != width:
        raise Damage(f"expected {width} headers, found {len(headers)}, or bytes that are none")
    return headers


class TiledLog:
    """The log of ``size`` headers in tiles that ``read`` returns.

    Nothing here is trusted: a caller compares the root with a checkpoint, and a path with the root.
    A few tiles are kept in memory.
    """

    def __init__(self, size: int, read: ReadTile) -> None:
        self.size = size
        self._read = read
        self._hashes: OrderedDict[Tile, list[bytes]] = OrderedDict()
        self._bundles: OrderedDict[Tile, list[bytes]] = OrderedDict()

    def node(self, height: int, index: int) -> bytes:
        """The hash of a node: see ``header_tree.ReadNode``.

        Raises:
            Damage: A tile is missing or not of its length.
        """
        level, above = divmod(height, HEIGHT)
        first, count = index << above, 1 << above
        tile = _tile_of(level, first, self.size >> HEIGHT * level)
        start = first % WIDTH
        hashes = self.hashes(tile)[start : start + count]
        while len(hashes) > 1:
            hashes = [node_hash(hashes[i], hashes[i + 1]) for i in range(0, len(hashes), 2)]
        return hashes[0]

    def header(self, index: int) -> bytes:
        """The header of frame ``index``, counted from 0.

        Raises:
            Damage: Its tile is missing or has another form.
        """
        return self.headers(entries_tile(index, self.size))[index % WIDTH]

    def hashes(self, tile: Tile) -> list[bytes]:
        """The hashes in a tile. Raises as ``node``."""
        return _cached(self._hashes, tile, self._read_hashes)

    def headers(self, tile: Tile) -> list[bytes]:
        """The headers in a tile. Raises as ``header``."""
        return _cached(self._bundles, tile, lambda tile: _bundle(tile, self._read(tile)))

    def _read_hashes(self, tile: Tile) -> list[bytes]:
        data = self._read(tile)
        if len(data) != tile.width * HASH_BYTES:
            raise _damaged(tile, f"{tile.width * HASH_BYTES} bytes", f"{len(data)} bytes")
        return [data[at : at + HASH_BYTES] for at in range(0, len(data), HASH_BYTES)]


def _bundle(tile: Tile, data: bytes) -> list[bytes]:
    try:
        return read_bundle(data, tile.width)
    except Damage as problem:
        raise _damaged(tile, f"{tile.width} headers", f"{len(data)} bytes of something else") from (
            problem
        )


def _cached(
    cache: OrderedDict[Tile, list[bytes]], tile: Tile, make: Callable[[Tile], list[bytes]]
) -> list[bytes]:
    entries = cache.get(tile)
    if entries is None:
        entries = cache[tile] = make(tile)
        if len(cache) > _KEPT:
            cache.popitem(last=False)
    else:
        cache.move_to_end(tile)
    return entries


def _damaged(tile: Tile, expected: str, actual: str) -> DamagedTile:
    return DamagedTile(
        "a tile of the header log was altered or cut short",
        location="/".join(tile.path),
        expected=expected,
        actual=actual,
        hint="aos checkpoint --rebuild writes the log again from the journal",
    )


class Growth:
    """A log that headers are added to, and the tiles that this makes.

    ``put`` receives each tile that becomes full, and ``finish`` those at the end.
    """

    def __init__(
        self, put: Callable[[Tile, bytes], None], earlier_log: TiledLog | None = None
    ) -> None:
        """Continue ``earlier_log``, or begin a log."""
        self.size = 0
        self._put = put
        self._headers: list[bytes] = []
        self._levels: list[list[bytes]] = []
        if earlier_log is not None and earlier_log.size:
            self._continue(earlier_log)

    def _continue(self, earlier_log: TiledLog) -> None:
        self.size = earlier_log.size
        for tile in tiles_of(earlier_log.size):
            if tile.level == _ENTRIES:
                self._headers = [] if tile.is_full else list(earlier_log.headers(tile))
            else:
                self._levels.append([] if tile.is_full else list(earlier_log.hashes(tile)))

    def add(self, header: bytes, leaf: bytes) -> None:
        """Add the next header; ``leaf`` is its hash."""
        index = self.size
        self.size += 1
        self._headers.append(header)
        if len(self._headers) == WIDTH:
            self._put(Tile(_ENTRIES, index >> HEIGHT, WIDTH), bundle_bytes(self._headers))
            self._headers = []
        self._grow(0, index, leaf)

    def finish(self) -> None:
        """Put the tiles that are not full."""
        if self._headers:
            tile = entries_tile(self.size - 1, self.size)
            self._put(tile, bundle_bytes(self._headers))
        for level, hashes in enumerate(self._levels):
            if hashes:
                count = self.size >> HEIGHT * level
                self._put(_tile_of(level, count - 1, count), b"".join(hashes))

    def _grow(self, level: int, index: int, digest: bytes) -> None:
        if level == len(self._levels):
            self._levels.append([])
        hashes = self._levels[level]
        hashes.append(digest)
        if len(hashes) < WIDTH:
            return
        self._put(Tile(level, index >> HEIGHT, WIDTH), b"".join(hashes))
        self._levels[level] = []
        while len(hashes) > 1:
            hashes = [node_hash(hashes[i], hashes[i + 1]) for i in range(0, len(hashes), 2)]
        self._grow(level + 1, index >> HEIGHT, hashes[0])
