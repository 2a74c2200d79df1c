"""The tree of headers against RFC 6962, written a second time (spec/proofs.md, PF-1 to PF-8)."""

from __future__ import annotations

import random
from functools import cache
from hashlib import sha256

import pytest

from aos.prove.headerlog.header_tree import (
    EMPTY,
    consistency,
    inclusion,
    is_consistent,
    leaf_hash,
    root,
    root_from,
)
from aos.prove.headerlog.tiles import Growth, Tile, TiledLog

SIZE_MAX = 70


def headers(size: int) -> list[bytes]:
    return [f"header {i}".encode() for i in range(size)]


LEAVES = headers(SIZE_MAX)


@cache
def tree_hash(begin: int, end: int) -> bytes:
    """RFC 6962, 2.1: MTH of the leaves from ``begin`` to ``end``."""
    if begin == end:
        return sha256(b"").digest()
    if end - begin == 1:
        return sha256(b"\x00" + LEAVES[begin]).digest()
    k = begin + split(end - begin)
    return sha256(b"\x01" + tree_hash(begin, k) + tree_hash(k, end)).digest()


def audit_path(m: int, begin: int, end: int) -> list[bytes]:
    """RFC 6962, 2.1.1: PATH."""
    if end - begin == 1:
        return []
    k = split(end - begin)
    if m < k:
        return [*audit_path(m, begin, begin + k), tree_hash(begin + k, end)]
    return [*audit_path(m - k, begin + k, end), tree_hash(begin, begin + k)]


def sub_proof(m: int, begin: int, end: int, is_whole: bool) -> list[bytes]:
    """RFC 6962, 2.1.2: SUBPROOF."""
    if m == end - begin:
        return [] if is_whole else [tree_hash(begin, end)]
    k = split(end - begin)
    if m <= k:
        return [*sub_proof(m, begin, begin + k, is_whole), tree_hash(begin + k, end)]
    return [*sub_proof(m - k, begin + k, end, False), tree_hash(begin, begin + k)]


def split(size: int) -> int:
    k = 1
    while k * 2 < size:
        k *= 2
    return k


def node(height: int, index: int) -> bytes:
    end = (index + 1) << height
    assert end <= SIZE_MAX
    return tree_hash(index << height, end)


def test_roots_are_those_of_rfc_6962_for_all_sizes() -> None:
    assert root(0, node) == EMPTY == tree_hash(0, 0)
    for size in range(1, SIZE_MAX + 1):
        assert root(size, node) == tree_hash(0, size)


def test_paths_are_those_of_rfc_6962_for_all_leaves_and_sizes() -> None:
    for size in range(1, SIZE_MAX + 1):
        expected = tree_hash(0, size)
        for index in range(size):
            path = inclusion(index, size, node)
            leaf = leaf_hash(LEAVES[index])

            assert path == audit_path(index, 0, size)
            assert root_from(leaf, index, size, path) == expected
            assert root_from(leaf, index, size, [*path, EMPTY]) is None
            assert root_from(leaf, size, size, path) is None
            if path:
                assert root_from(leaf, index, size, path[:-1]) is None
                assert root_from(leaf, index, size, [EMPTY, *path[1:]]) != expected


def test_consistency_is_that_of_rfc_6962_for_all_pairs_of_sizes() -> None:
    roots = [tree_hash(0, size) for size in range(SIZE_MAX + 1)]
    for size in range(1, SIZE_MAX + 1):
        for old in range(1, size + 1):
            path = consistency(old, size, node)

            assert path == sub_proof(old, 0, size, True)
            assert is_consistent(old, roots[old], size, roots[size], path)
            assert not is_consistent(old, roots[old - 1], size, roots[size], path)
            assert not is_consistent(old, roots[old], size, roots[size - 1], path)
            assert not is_consistent(old, roots[old], size, roots[size], [*path, EMPTY])
            at = (size + old) % max(1, len(path))
            changed = [*path[:at], EMPTY, *path[at + 1 :]]
            assert path == [] or not is_consistent(old, roots[old], size, roots[size], changed)


def test_every_tree_continues_the_empty_one() -> None:
    seven = tree_hash(0, 7)
    assert is_consistent(0, EMPTY, 7, seven, [])
    assert not is_consistent(0, EMPTY, 7, seven, [EMPTY])
    assert not is_consistent(0, tree_hash(0, 1), 7, seven, [])
    assert not is_consistent(8, EMPTY, 7, EMPTY, [])


def test_a_path_that_is_too_long_is_refused_before_it_is_used() -> None:
    long = [EMPTY] * 65

    assert root_from(EMPTY, 0, 1 << 65, long) is None
    assert not is_consistent(1, EMPTY, 1 << 65, EMPTY, long)


SIZES = [1, 2, 255, 256, 257, 511, 512, 513, 1000, 65_537]


@pytest.fixture(scope="module")
def grown() -> tuple[list[bytes], dict[int, dict[Tile, bytes]]]:
    """Leaves, and the tiles of logs of these sizes, each of which continues the one before."""
    leaves = [i.to_bytes(3, "big") for i in range(SIZES[-1])]
    found: dict[int, dict[Tile, bytes]] = {}
    tiles: dict[Tile, bytes] = {}
    before = 0
    for size in SIZES:
        growth = Growth(tiles.__setitem__, TiledLog(before, tiles.__getitem__) if before else None)
        for each in leaves[before:size]:
            growth.add(each, leaf_hash(each))
        growth.finish()
        assert growth.size == size
        found[size] = dict(tiles)
        before = size
    return leaves, found


@pytest.mark.parametrize("size", SIZES)
def test_tiles_hold_the_tree_whatever_size_they_were_extended_from(
    grown: tuple[list[bytes], dict[int, dict[Tile, bytes]]], size: int
) -> None:
    leaves, tiles = grown
    log = TiledLog(size, tiles[size].__getitem__)
    expected = tree_of(leaves[:size])

    assert root(size, log.node) == expected
    some = random.Random(size)
    for index in {0, size - 1, size // 2, *(some.randrange(size) for _ in range(9))}:
        path = inclusion(index, size, log.node)
        assert log.header(index) == leaves[index]
        assert root_from(leaf_hash(leaves[index]), index, size, path) == expected
    for old in {1, size, min(size, 256), some.randrange(1, size + 1)}:
        path = consistency(old, size, log.node)
        assert is_consistent(old, tree_of(leaves[:old]), size, expected, path)


def test_tiles_are_the_same_whatever_sizes_a_log_had_before(
    grown: tuple[list[bytes], dict[int, dict[Tile, bytes]]],
) -> None:
    leaves, tiles = grown
    last: dict[Tile, bytes] = {}
    growth = Growth(last.__setitem__)
    for each in leaves:
        growth.add(each, leaf_hash(each))
    growth.finish()

    assert last == {tile: tiles[SIZES[-1]][tile] for tile in last}


def tree_of(leaves: list[bytes]) -> bytes:
    level = [leaf_hash(each) for each in leaves]
    while len(level) > 1:
        pairs = [
            sha256(b"\x01" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)
        ]
        level = [*pairs, level[-1]] if len(level) & 1 else pairs
    return level[0]


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 0, 256), "tile/0/000"),
        (Tile(0, 67, 256), "tile/0/067"),
        (Tile(0, 1_234_067, 256), "tile/0/x001/x234/067"),
        (Tile(2, 1000, 17), "tile/2/x001/000.p/17"),
        (Tile(-1, 999, 1), "tile/entries/999.p/1"),
        (Tile(-1, 256_000, 256), "tile/entries/x256/000"),
    ],
)
def test_a_tile_has_the_path_that_c2sp_gives_it(tile: Tile, path: str) -> None:
    assert "/".join(tile.path) == path
