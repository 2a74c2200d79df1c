"""Events from one replicated world to another, with processes of ``aos run`` on real servers
(spec/cluster.md, CL-250 to CL-254)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted
from aos.core.journal.records import Event, Receipt
from aos.errors import AosError, Refused
from aos.host.cluster.registered_worlds import RegisteredSources
from aos.host.cluster.registration import WorldRegistration, register
from aos.host.door.writer import Item, open_writer
from aos.manifest.names import WORLD_SEND
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.values.cbor import decode_record
from aos.values.digests import Hash
from tests.host import puppet
from tests.host.cluster.node_processes import NodeProcess, joined, journal, made, send, waits
from tests.host.test_world_send import sends
from tests.nats_servers import Servers

Run = Callable[..., NodeProcess]


def fields(value: object) -> Any:
    assert isinstance(value, bytes), "short enough to be in its record"
    return decode_record(value)


def delivered(folder: Path) -> list[str]:
    """The keys of the events that other worlds have delivered, in the order of the journal."""
    return [
        fields(record.value)["key"]
        for record in journal(folder)
        if isinstance(record, Event) and (record.submission_id or "").startswith("aos:")
    ]


def receipts(folder: Path) -> list[tuple[str, Any]]:
    return [
        (record.status, fields(record.payload))
        for record in journal(folder)
        if isinstance(record, Receipt)
    ]


def has_receipts(folder: Path, count: int) -> bool:
    return len(receipts(folder)) >= count


def sent(folder: Path, item: Item) -> None:
    """Send an event with an id to a node whose role may change meanwhile."""

    def is_sent() -> bool:
        try:
            [answer] = send(folder, [item])
        except AosError:
            return False
        return isinstance(answer, Admitted)

    waits(is_sent)


def two_nodes(top: Path, servers: Servers, run: Run, *, count: int = 2) -> list[NodeProcess]:
    """Start the nodes of a new world of puppets; the first one owns it."""
    top.mkdir()
    first = top / "a"
    assert made(servers, first, replicas=1).code == 0
    folders = [first, *(joined(first, top / name, name) for name in "bc"[: count - 1])]
    owner = run(first, "--neighbours")
    owner.wait(lambda: owner.owns)
    with open_writer(first) as writer:
        assert isinstance(writer.apply(puppet.manifest(effects=(WORLD_SEND,))).answer, Admitted)
    others = [run(folder, "--neighbours") for folder in folders[1:]]
    for node in others:
        waits(partial(getattr, node, "follows"))
    return [owner, *others]


def test_events_arrive_once_and_in_order_whichever_owners_are_killed(
    tmp_path: Path, three: Servers, run: Run
) -> None:
    """CL-250, CL-251: the owners of source and target are killed while events are under way."""
    shop = two_nodes(tmp_path / "deliver-shop", three, run)
    bank = two_nodes(tmp_path / "deliver-bank", three, run)
    keys = [f"k{number}" for number in range(40)]
    out = sends("deliver-bank", *keys)
    sent(shop[0].folder, puppet.do("ada", out, submission_id="one"))
    waits(lambda: len(delivered(bank[0].folder)) > 2)
    bank[0].kill()
    bank[1].wait(lambda: bank[1].owns)
    waits(lambda: len(delivered(bank[1].folder)) > 5)
    shop[0].kill()
    shop[1].wait(lambda: len(receipts(shop[1].folder)) == len(keys))

    assert delivered(bank[1].folder) == keys
    assert {status for status, _ in receipts(shop[1].folder)} == {"ok"}
    seqs = {
        record.seq
        for record in journal(bank[1].folder)
        if isinstance(record, Event) and record.submission_id
    }
    assert {payload["seq"] for _, payload in receipts(shop[1].folder)} == seqs


def test_a_target_that_is_not_there_is_told_and_one_without_an_owner_is_waited_for(
    tmp_path: Path, three: Servers, run: Run
) -> None:
    """CL-250, CL-252: the event waits in the world of the sender."""
    [shop] = two_nodes(tmp_path / "wait-shop", three, run, count=1)
    [bank] = two_nodes(tmp_path / "wait-bank", three, run, count=1)
    for number, name in enumerate(("nowhere", "wait-shop", "no/name")):
        sent(shop.folder, puppet.do("ada", sends(name, "x"), submission_id=str(number)))
        waits(partial(has_receipts, shop.folder, number + 1))
    assert bank.stop() == 0
    sent(shop.folder, puppet.do("bob", sends("wait-bank", "y"), submission_id="y"))
    shop.wait(lambda: "to wait-bank waits: no node owns this world" in shop.output)
    bank = run(bank.folder, "--neighbours")
    waits(lambda: len(receipts(shop.folder)) == 4)

    told = receipts(shop.folder)
    assert [payload.get("code") for _, payload in told] == ["world_unknown"] * 3 + [None]
    words = [payload["message"] for _, payload in told[:3]]
    assert "no world is called nowhere" in words[0]
    assert "wait-shop is the world itself" in words[1]
    assert "not a name of a world" in words[2]
    assert delivered(bank.folder) == ["y"]


def test_a_source_must_have_the_registration_that_it_names() -> None:
    """CL-253: another key, another name, a world that was taken out."""
    shared = SharedBucket()
    bucket = MemoryBucket(shared)
    key, other_key = SigningKey(bytes(31) + b"1"), SigningKey(bytes(31) + b"2")
    source, own = Hash(b"s" * 32), bytes(key.verify_key)

    def registered(name: str, world: Hash, signer: SigningKey, taken_by: str | None = None) -> None:
        register(
            bucket,
            WorldRegistration(name=name, world=world, stream="AOS-1", taken_by=taken_by).signed(
                signer
            ),
        )

    registered("shop", source, key)
    registered("forged", source, other_key)
    registered("other", Hash(b"o" * 32), key)
    registered("out", source, key, taken_by="a/00")
    sources = RegisteredSources(bucket)
    asyncio.run(sources.check(source, own, "shop"))
    for name in ("forged", "other", "out", "none", "no name", "", None):
        with pytest.raises(Refused, match="is no neighbour"):
            asyncio.run(sources.check(source, own, name))
    with pytest.raises(Refused, match="is no neighbour"):
        asyncio.run(sources.check(source, bytes(other_key.verify_key), "shop"))
