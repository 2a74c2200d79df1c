"""A registration has one form, and one program after the other changes it (spec/cluster.md, CL-103
to CL-106)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nacl.signing import SigningKey

from aos.errors import Damage, Refused
from aos.host.cluster.registration import (
    BaseRef,
    WorldRegistration,
    find_registration,
    read_registration,
    register,
)
from aos.store.log.bucket import Bucket
from aos.store.log.logged_store import LogEnd
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.values.cbor import encode
from aos.values.digests import content_hash
from tests.host.cluster.owner_process import WORLD
from tests.memory_world import WORLD_KEY

KEY = bytes(WORLD_KEY.verify_key)
BASE = BaseRef(stream="AOS-BASE-1", end=LogEnd(position=7, seq=12, frame=content_hash(b"frame")))
SHOP = WorldRegistration(name="shop", world=WORLD, stream="AOS-1")


def bucket() -> Bucket:
    return MemoryBucket(SharedBucket())


@pytest.mark.parametrize("base", [None, BASE])
def test_a_registration_that_is_read_is_the_one_that_was_written(base: BaseRef | None) -> None:
    registration = replace(SHOP, base=base).signed(WORLD_KEY)  # CL-103
    assert read_registration(registration.to_bytes()) == registration
    assert registration.is_of(KEY)


def test_only_the_key_of_the_world_signs() -> None:  # CL-104
    assert not SHOP.signed(SigningKey(b"x" * 32)).is_of(KEY)
    signed = SHOP.signed(WORLD_KEY)
    for changed in (
        replace(signed, name="other"), replace(signed, stream="AOS-2"),
        replace(signed, world=content_hash(b"other")), replace(signed, base=BASE),
    ):  # fmt: skip
        assert not changed.is_of(KEY)


def test_other_bytes_are_no_registration() -> None:
    data = SHOP.signed(WORLD_KEY).to_bytes()
    short_base = encode(["aos/registration/1", "shop", WORLD, "AOS-1", ["AOS-BASE"], bytes(64)])
    for other in (b"", data[:-1], data + b"\x00", encode([]), short_base):
        with pytest.raises(Damage):
            read_registration(other)
    names = bucket()
    names.create("shop", replace(SHOP, name="other").signed(WORLD_KEY).to_bytes())
    with pytest.raises(Damage, match="cannot be read"):
        find_registration(names, "shop")


@pytest.mark.parametrize("stream", ["", "A.B", "A>", "A*", "A B", "A\r\nPUB x 0\r\n", "A" * 256])
def test_the_name_of_a_stream_cannot_change_a_request(stream: str) -> None:  # CL-103
    """It is a part of subjects: with a line end, others could send commands as this program."""
    other = replace(BASE, stream=stream)
    for registration in (replace(SHOP, stream=stream), replace(SHOP, base=other)):
        with pytest.raises(Damage, match="cannot be read"):
            read_registration(registration.signed(WORLD_KEY).to_bytes())


def test_a_name_belongs_to_the_world_that_was_first() -> None:  # CL-105, CL-106
    names, first = bucket(), SHOP.signed(WORLD_KEY)
    assert find_registration(names, "shop") is None
    revision = register(names, first)
    assert register(names, first) == revision, "the same one again"
    other = replace(SHOP, world=content_hash(b"other")).signed(WORLD_KEY)
    with pytest.raises(Refused, match="another program has registered this name"):
        register(names, other)
    assert find_registration(names, "shop") == (first, revision)


def test_a_change_needs_the_revision_that_it_replaces() -> None:  # CL-105
    names = bucket()
    revision = register(names, SHOP.signed(WORLD_KEY))
    changed = replace(SHOP, base=BASE).signed(WORLD_KEY)
    assert register(names, changed, revision) > revision
    assert find_registration(names, "shop") == (changed, register(names, changed, revision))
    with pytest.raises(Refused, match="another program"):
        register(names, replace(SHOP, stream="AOS-2").signed(WORLD_KEY), revision)
