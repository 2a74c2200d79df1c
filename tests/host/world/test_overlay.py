"""Blobs on their way to the disk: held until they are there, gone when they are erased (H-14)."""

from __future__ import annotations

import pytest

from aos.errors import Damage, Erased
from aos.host.world.unit import Overlay
from aos.values.digests import Hash, content_hash, hash_text

DATA = b"a value"
HASH = content_hash(DATA)


class Below:
    """A store's blobs."""

    def __init__(self) -> None:
        self.blobs: dict[Hash, bytes] = {}

    def read(self, hash: Hash, /) -> bytes:
        if hash not in self.blobs:
            raise Damage("missing")
        return self.blobs[hash]


@pytest.fixture
def below() -> Below:
    return Below()


@pytest.fixture
def overlay(below: Below) -> Overlay:
    return Overlay(below.read)


def test_a_blob_is_held_until_its_last_frame_is_durable(overlay: Overlay, below: Below) -> None:
    overlay.hold({HASH: DATA}, until=3)
    overlay.hold({HASH: DATA}, until=7)
    assert (overlay.has(HASH), overlay.read(HASH)) == (True, DATA)

    overlay.drop([HASH], durable=3)
    assert overlay.read(HASH) == DATA
    below.blobs[HASH] = DATA
    overlay.drop([HASH], durable=7)
    assert (overlay.has(HASH), len(overlay), overlay.read(HASH)) == (False, 0, DATA)


def test_an_erased_blob_is_gone_before_the_disk_knows(overlay: Overlay, below: Below) -> None:
    """K-104: whether it is on its way or there already."""
    below.blobs[HASH] = DATA
    overlay.hold({HASH: DATA}, until=3)
    overlay.erase(HASH, by=5)

    assert (overlay.has(HASH), overlay.is_erased(HASH), len(overlay)) == (False, True, 0)
    with pytest.raises(Erased) as caught:
        overlay.read(HASH)
    assert str(caught.value) == f"the value {hash_text(HASH)} was erased by record 5"

    overlay.drop([HASH], durable=4)
    assert overlay.is_erased(HASH)
    del below.blobs[HASH]
    overlay.drop([], durable=5)
    assert not overlay.is_erased(HASH)
    with pytest.raises(Damage, match="missing"):
        overlay.read(HASH)


def test_an_erased_blob_that_comes_again_is_there_again(overlay: Overlay) -> None:
    """ST-23."""
    overlay.erase(HASH, by=5)
    overlay.hold({HASH: DATA}, until=6)
    assert (overlay.has(HASH), overlay.is_erased(HASH), overlay.read(HASH)) == (True, False, DATA)

    overlay.drop([], durable=5)
    assert overlay.read(HASH) == DATA
