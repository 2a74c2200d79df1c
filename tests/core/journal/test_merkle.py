"""Trees in the shape of RFC 6962, against a second implementation that is only obvious (J-20)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.core.journal.merkle import EMPTY, Tree, node, proof, root, root_from
from aos.values.digests import Hash, content_hash, digest

SIZES = range(34)


def leaves(size: int) -> list[Hash]:
    return [content_hash(b"leaf %d" % n) for n in range(size)]


def split(size: int) -> int:
    """RFC 6962, 2.1: the largest power of two smaller than ``size``."""
    power = 1
    while power * 2 < size:
        power *= 2
    return power


def naive_root(hashes: list[Hash]) -> Hash:
    if not hashes:
        return digest("aos/empty/1")
    if len(hashes) == 1:
        return hashes[0]
    k = split(len(hashes))
    return digest("aos/node/1", naive_root(hashes[:k]), naive_root(hashes[k:]))


def naive_proof(hashes: list[Hash], index: int) -> list[Hash]:
    """RFC 6962, 2.1.1: PATH(m, D[n])."""
    if len(hashes) == 1:
        return []
    k = split(len(hashes))
    if index < k:
        return [*naive_proof(hashes[:k], index), naive_root(hashes[k:])]
    return [*naive_proof(hashes[k:], index - k), naive_root(hashes[:k])]


@pytest.mark.parametrize("size", SIZES)
def test_the_root_is_that_of_the_rfc(size: int) -> None:
    """J-20."""
    assert root(leaves(size)) == naive_root(leaves(size))


def test_small_roots_are_what_they_look_like() -> None:
    """J-20, J-21."""
    a, b, c = leaves(3)
    assert root([]) == EMPTY == digest("aos/empty/1")
    assert root([a]) == a
    assert root([a, b]) == node(a, b) == digest("aos/node/1", a, b)
    assert root([a, b, c]) == node(node(a, b), c)


@pytest.mark.parametrize("size", SIZES)
def test_a_tree_that_grows_is_the_tree_that_was_built(size: int) -> None:
    """J-22: and an append keeps every complete subtree, one for each bit of the size."""
    tree = Tree()
    for n in range(size):
        assert tree == Tree.of(leaves(n))
        assert len(tree.peaks) == n.bit_count()
        assert tree.root() == naive_root(leaves(n))
        tree = tree.append(leaves(size)[n])
    assert tree.size == size


@pytest.mark.parametrize("size", SIZES)
def test_every_leaf_is_proved_and_only_where_it_is(size: int) -> None:
    """J-23: all indices, and at each index every other leaf, place and size is refused."""
    hashes = leaves(size)
    whole = naive_root(hashes)
    for index, hash in enumerate(hashes):
        path = proof(hashes, index)

        assert path == naive_proof(hashes, index)
        assert len(path) <= (size - 1).bit_length()
        assert root_from(hash, index, size, path) == whole
        for other in range(size):
            if other != index:
                assert root_from(hash, other, size, path) != whole
                assert root_from(hashes[other], index, size, path) != whole


@pytest.mark.parametrize("size", SIZES)
def test_a_path_that_is_longer_shorter_or_altered_proves_nothing(size: int) -> None:
    """J-23."""
    hashes = leaves(size)
    whole = naive_root(hashes)
    foreign = content_hash(b"foreign")
    for index, hash in enumerate(hashes):
        path = proof(hashes, index)
        assert root_from(hash, index, size, [*path, foreign]) is None
        assert root_from(hash, index, size, [foreign, *path]) is None
        for cut in range(len(path)):
            assert root_from(hash, index, size, path[:cut]) is None
            altered = [*path[:cut], foreign, *path[cut + 1 :]]
            assert root_from(hash, index, size, altered) != whole


def test_there_is_no_leaf_outside_the_tree() -> None:
    hashes = leaves(5)
    for index in (-1, 5, 6):
        assert root_from(hashes[0], index, 5, proof(hashes, 0)) is None
        with pytest.raises(IndexError):
            proof(hashes, index)
    assert root_from(hashes[0], 0, 0, []) is None
    with pytest.raises(IndexError):
        proof([], 0)


@given(st.integers(34, 400), st.data())
def test_larger_trees_agree_too(size: int, data: st.DataObject) -> None:
    hashes = leaves(size)
    index = data.draw(st.integers(0, size - 1))
    path = proof(hashes, index)
    assert path == naive_proof(hashes, index)
    assert root_from(hashes[index], index, size, path) == root(hashes) == naive_root(hashes)


@given(st.lists(st.binary(min_size=32, max_size=32).map(Hash), min_size=1, max_size=12))
def test_two_lists_of_leaves_of_one_length_have_two_roots(hashes: list[Hash]) -> None:
    """J-21: order counts, and a leaf that repeats is no other tree."""
    assert root(hashes) == naive_root(hashes)
    if hashes != hashes[::-1]:
        assert root(hashes) != root(hashes[::-1])
    assert root([*hashes, hashes[-1]]) != root(hashes)


def test_a_proof_for_a_huge_log_is_short() -> None:
    """J-23: for any claimed size, a verifier needs at most 64 steps."""
    leaf = content_hash(b"leaf")
    size = 2**64 - 1
    assert root_from(leaf, 0, size, [leaf] * 64) is not None
    assert root_from(leaf, 0, size, [leaf] * 63) is None
    assert root_from(leaf, size - 1, size, [leaf] * 63) is not None
