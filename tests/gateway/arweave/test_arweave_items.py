"""Items, bundles and data roots against Arweave's own packages, and against hostile bytes."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.values.digests import content_hash, hash_text
from aos_gateway.arweave.base64url import (
    decode_base64url,
    encode_base64url,
    is_anchor,
    is_id,
)
from aos_gateway.arweave.bundle_transaction import data_root
from aos_gateway.arweave.confirmation import content_of
from aos_gateway.arweave.data_item import (
    BUNDLE_OVERHEAD_BYTES_MAX,
    OVERHEAD_BYTES_MAX,
    BundleProblem,
    ItemTag,
    encode_tags,
    find_item,
    pack_bundle,
    read_item,
    sign_item,
    tag_problem,
)
from aos_gateway.arweave.deep_hash import deep_hash
from tests.gateway.arweave.lab import content_of_size, hash_of, vectors

SEED = bytes(range(32))
TAGS = (ItemTag("Content-Type", "text/plain"),)
ITEM = sign_item(b"some content", TAGS, SEED)
BUNDLE = pack_bundle(ITEM)

VECTORS = vectors()


@pytest.mark.parametrize("vector", VECTORS["items"], ids=lambda each: str(each["size"]))
def test_an_item_and_its_bundle_are_those_of_the_package_arbundles(vector: dict[str, Any]) -> None:
    """AW-11 to AW-13."""
    tags = [ItemTag(name, value) for name, value in vector["tags"]]

    item = sign_item(content_of_size(vector["size"]), tags, bytes.fromhex(VECTORS["seed"]))

    assert item.id == vector["id"]
    assert sha256(item.raw).hexdigest() == vector["item_sha256"]
    assert sha256(pack_bundle(item)).hexdigest() == vector["bundle_sha256"]


@pytest.mark.parametrize(("size", "root"), VECTORS["roots"].items())
def test_a_data_root_is_that_of_the_package_arweave(size: str, root: str) -> None:
    """AW-14: sizes around a chunk, and around the last two chunks that share their bytes."""
    assert data_root(content_of_size(int(size))).hex() == root


def test_a_deep_hash_covers_the_shape_of_the_tree() -> None:
    """AW-10."""
    trees: list[Any] = [b"", b"ab", [b"ab"], [b"a", b"b"], [[b"a"], b"b"], [[b"a", b"b"]], []]

    assert len({deep_hash(tree) for tree in trees}) == len(trees)
    assert all(len(deep_hash(tree)) == 48 for tree in trees)


@given(
    st.binary(max_size=300),
    st.lists(
        st.tuples(st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9)), max_size=5
    ),
)
def test_an_item_is_read_back_as_it_was_signed(content: bytes, tags: list[tuple[str, str]]) -> None:
    item = sign_item(content, [ItemTag(*tag) for tag in tags], SEED)

    assert read_item(item.raw) == item
    assert item.is_authentic()
    assert find_item(pack_bundle(item), item.id) == item.raw


def test_the_overhead_of_a_bundle_is_bounded_by_its_longest_tags() -> None:
    """AW-8: a quote counts so much."""
    value = "v" * 3072
    tags = [
        ItemTag("a", value),
        ItemTag("b", "v" * (4096 - len(encode_tags([ItemTag("a", value)])) - 4)),
    ]
    item = sign_item(b"", tags, SEED)

    assert tag_problem(tags) is None
    assert len(encode_tags(tags)) == 4096
    assert len(item.raw) == OVERHEAD_BYTES_MAX
    assert len(pack_bundle(item)) == BUNDLE_OVERHEAD_BYTES_MAX


@pytest.mark.parametrize(
    ("tags", "problem"),
    [
        ([ItemTag("", "v")], "tags[0].name: expected 1 to 1024 bytes, found 0"),
        ([ItemTag("n", "")], "tags[0].value: expected 1 to 3072 bytes, found 0"),
        (
            [ItemTag("n", "v"), ItemTag("n" * 1025, "v")],
            "tags[1].name: expected 1 to 1024 bytes, found 1025",
        ),
        ([ItemTag("n", "ü" * 1537)], "tags[0].value: expected 1 to 3072 bytes, found 3074"),
        ([ItemTag("n", "v")] * 129, "tags: expected at most 128, found 129"),
        ([ItemTag("n", "v" * 2100)] * 2, "tags: expected at most 4096 bytes in Avro, found 4210"),
    ],
)
def test_tags_that_no_item_can_have_are_named(tags: list[ItemTag], problem: str) -> None:
    """AW-12."""
    assert tag_problem(tags) == problem


def test_the_content_of_the_right_item_is_its_hash_as_a_blob() -> None:
    """AW-31."""
    assert content_of(BUNDLE, ITEM.id) == hash_of(b"some content")


def test_every_flipped_bit_of_a_bundle_is_noticed() -> None:
    """AW-31: whatever a gateway changes, it proves nothing or gives a hash of no content."""
    right = content_of(BUNDLE, ITEM.id)
    unnoticed = []
    for at in range(len(BUNDLE)):
        other = bytearray(BUNDLE)
        other[at] ^= 1
        try:
            if content_of(bytes(other), ITEM.id) == right:
                unnoticed.append(at)
        except BundleProblem:
            pass

    assert unnoticed == []


def test_every_cut_bundle_proves_nothing() -> None:
    """AW-30."""
    for size in range(len(BUNDLE)):
        with pytest.raises(BundleProblem):
            find_item(BUNDLE[:size], ITEM.id)


@pytest.mark.parametrize(
    "hostile",
    [
        b"\xff" * 32,
        (2**255).to_bytes(32, "little") + BUNDLE[32:],
        (3).to_bytes(32, "little") + bytes(64),
        (1).to_bytes(32, "little") + (2**200).to_bytes(32, "little") + bytes(32) + bytes(100),
        (1).to_bytes(32, "little") + (101).to_bytes(32, "little") + bytes(32) + bytes(100),
        (2).to_bytes(32, "little") + 2 * ((60).to_bytes(32, "little") + bytes(32)) + bytes(100),
        (0).to_bytes(32, "little") + b"more",
        BUNDLE + b"\x00",
    ],
)
def test_counts_and_lengths_that_lead_elsewhere_are_refused(hostile: bytes) -> None:
    """AW-30."""
    with pytest.raises(BundleProblem):
        find_item(hostile, ITEM.id)


def test_a_bundle_without_the_item_has_a_content_that_no_blob_has() -> None:
    """AW-31: also where the bytes that came are the content itself, or a bundle of it."""
    stranger = pack_bundle(sign_item(b"some content", TAGS, bytes(32)))
    empty = bytes(32)

    found = {content_of(stranger, ITEM.id), content_of(empty, ITEM.id)}

    assert len(found) == 2
    assert not found & {hash_of(b"some content"), hash_text(content_hash(stranger)), hash_of(empty)}


def test_an_item_under_the_id_of_another_is_not_believed() -> None:
    """AW-31: the directory of a bundle is not signed."""
    stranger = sign_item(b"some content", TAGS, bytes(32))
    forged = pack_bundle(stranger)[:64] + BUNDLE[64:96] + stranger.raw

    assert find_item(forged, ITEM.id) == stranger.raw
    assert content_of(forged, ITEM.id) != hash_of(b"some content")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        (1).to_bytes(2, "little") + ITEM.raw[2:],
        ITEM.raw[:98] + b"\x02" + ITEM.raw[99:],
        ITEM.raw[:99] + b"\x01" + ITEM.raw[100:],
        ITEM.raw[:100] + (2**63).to_bytes(8, "little") + ITEM.raw[108:],
        ITEM.raw[:108] + (4097).to_bytes(8, "little") + ITEM.raw[116:],
        ITEM.raw[:100] + bytes(8) + ITEM.raw[108:],
        ITEM.raw[:120],
    ],
)
def test_an_item_of_another_form_is_not_read(raw: bytes) -> None:
    assert read_item(raw) is None


@given(st.binary(max_size=400))
def test_any_bytes_are_an_item_or_none(raw: bytes) -> None:
    item = read_item(raw)

    assert item is None or not item.is_authentic()


@given(st.binary(max_size=300))
def test_any_bytes_are_a_bundle_or_a_problem(raw: bytes) -> None:
    with suppress(BundleProblem):
        assert find_item(raw, ITEM.id) is None


@given(st.binary(max_size=100))
def test_base64url_has_one_text_for_each_value(data: bytes) -> None:
    text = encode_base64url(data)

    assert decode_base64url(text) == data
    assert decode_base64url(text + "=") is None


@pytest.mark.parametrize("text", ["A", "AB", "ab+/", "a b=", "ü", "AAA\n", "AA=="])
def test_other_texts_are_no_base64url(text: str) -> None:
    assert decode_base64url(text) is None


def test_ids_have_32_bytes_and_anchors_32_or_48() -> None:
    texts = [encode_base64url(bytes(size)) for size in (31, 32, 33, 47, 48, 49)]

    assert [is_id(text) for text in texts] == [False, True, False, False, False, False]
    assert [is_anchor(text) for text in texts] == [False, True, False, False, True, False]
    assert not is_id(None)
