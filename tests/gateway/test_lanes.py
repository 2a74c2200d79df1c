"""Lanes of signers in worlds that run as processes on a real node, under an operator's commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mischief import Mischief, Place

from tests.gateway.checker.history import tag
from tests.gateway.living import SOON_S, Living, until
from tests.gateway.matrix.controls import manifest_with
from tests.gateway.matrix.scenes import OTHER, SIGNER
from tests.gateway.matrix.site import Site
from tests.gateway.matrix.verdict import Verdict, end_of
from tests.gateway.matrix.zygote import ROOT

SEND = "eth_sendRawTransaction"


def ends(world: Living, found: Verdict) -> dict[str, str]:
    """How each request ended, where no law is broken."""
    assert found.code == 0
    assert [str(each) for each in found.findings] == []
    return {each.name: end_of(found.history.records[each.key]) for each in world.asked}


def has_sent(lane: Any) -> bool:
    return lane["current"] is not None and bool(lane["current"]["attempts"])


def test_the_transactions_of_two_signers_are_in_flight_together(site: Site, tmp_path: Path) -> None:
    """GW-2"""
    world = Living(site, tmp_path, "all")
    world.hold_mining()
    world.start()
    sent = world.in_pool(3)
    assert len({each["from"] for each in sent}) == 3
    for each in (SIGNER, OTHER):
        assert has_sent(world.state(world.lane(each)))
    world.mine()
    assert set(ends(world, world.end()).values()) == {"COMPLETED"}


def test_a_stuck_transaction_is_bumped_at_its_nonce_and_frees_the_next(
    site: Site, tmp_path: Path
) -> None:
    """GW-43"""
    world = Living(site, tmp_path, "works")
    world.hold_mining()
    world.start()
    [first] = world.in_pool(1)
    seen = {first["hash"]}
    for _ in until(SOON_S):
        seen |= {each["hash"] for each in world.in_pool(1)}
        if len(seen) == 3:
            break
    world.mine()
    found = world.end()
    assert set(ends(world, found).values()) == {"COMPLETED"}
    bumped = found.history.settlements[0].attempts
    assert len(bumped) > 2
    assert {each["nonce"] for each in bumped} == {0}
    assert [tag(each["fate"]) for each in bumped].count("Confirmed") == 1
    assert seen <= {each["hash"] for each in bumped}
    fees = [each["max_fee"] for each in bumped]
    assert fees[1:] == [-(-each * 9 // 8) for each in fees[:-1]]


def test_a_request_that_is_canceled_in_the_queue_is_never_sent(site: Site, tmp_path: Path) -> None:
    """GW-46, GW-53"""
    world = Living(site, tmp_path, "works")
    world.hold_mining()
    world.start()
    lane = world.eventually(world.lane(SIGNER), lambda lane: has_sent(lane) and lane["queued"] == 1)
    [waiting] = [
        each for each in world.asked if each.key != lane["current"]["request"]["owner"]["$value"]
    ]
    world.gateway("cancel", waiting.key)
    assert world.eventually(waiting.key, lambda it: tag(it["state"]) == "FAILED")
    world.mine()
    found = world.end()
    assert sorted(ends(world, found).values()) == ["CANCELED", "COMPLETED"]
    assert {each.nonce for each in found.chain.of(world.chain.accounts[SIGNER].address)} == {0, 1}


def test_a_request_that_is_canceled_while_it_is_quoted_is_never_sent(
    site: Site, tmp_path: Path
) -> None:
    """GW-46"""
    world = Living(site, tmp_path, "epoch")
    with Mischief(world.chain.url) as mischief:
        world.url = mischief.url
        quote = mischief.hold("eth_estimateGas", Place.BEFORE_FORWARD)
        world.start()
        assert quote.wait()
        [epoch] = world.asked
        world.gateway("cancel", epoch.key)
        world.eventually(epoch.key, lambda it: tag(it["state"]) == "FAILED")
        quote.release()
        found = world.end()
        assert SEND not in mischief.counts()
    assert ends(world, found) == {"epoch": "CANCELED"}


def test_a_sent_transaction_is_canceled_by_an_empty_one_at_its_nonce(
    site: Site, tmp_path: Path
) -> None:
    """GW-46, GW-53"""
    world = Living(site, tmp_path, "epoch")
    world.hold_mining()
    world.start()
    [sent] = world.in_pool(1)
    [epoch] = world.asked
    world.gateway("cancel", epoch.key)
    for _ in until(SOON_S):
        [last] = world.in_pool(1)
        if last["hash"] != sent["hash"]:
            break
    assert (last["nonce"], last["input"], last["to"]) == (sent["nonce"], "0x", sent["from"])
    world.mine()
    found = world.end()
    assert ends(world, found) == {"epoch": "CANCELED"}
    [landed] = found.chain.of(world.chain.accounts[OTHER].address)
    assert landed.hash == last["hash"]
    [settled] = found.history.settlements
    assert tag(settled.outcome) == "Canceled"


def test_a_canceled_transaction_that_lands_first_completes_its_record(
    site: Site, tmp_path: Path
) -> None:
    """GW-46, GW-53"""
    world = Living(site, tmp_path, "epoch")
    with Mischief(world.chain.url) as mischief:
        world.url = mischief.url
        world.hold_mining()
        world.start()
        world.in_pool(1)
        empty = mischief.hold(SEND, Place.BEFORE_FORWARD)
        world.gateway("cancel", world.asked[0].key)
        assert empty.wait()
        world.mine()
        empty.release()
        found = world.end()
    assert ends(world, found) == {"epoch": "COMPLETED"}
    [settled] = found.history.settlements
    assert tag(settled.outcome) == "Confirmed"
    assert [each["is_cancel"] for each in settled.attempts] == [False, True]


def test_a_lane_waits_for_a_key_that_is_gone_and_sends_when_it_is_back(
    site: Site, tmp_path: Path
) -> None:
    """GW-44"""
    world = Living(site, tmp_path, "epoch", policy={"retries": 400, "retry_cap_ms": 200})
    world.write_keys([SIGNER])
    world.start()
    waiting = world.eventually(
        world.lane(OTHER), lambda it: it["error"] is not None and it["error"]["code"] == "NO_KEY"
    )
    nonce = waiting["current"]["nonce"]
    assert world.chain.rpc("txpool_status")["pending"] == "0x0"
    world.write_keys([SIGNER, OTHER])
    found = world.end()
    assert ends(world, found) == {"epoch": "COMPLETED"}
    [settled] = found.history.settlements
    assert {each["nonce"] for each in settled.attempts} == {nonce}
    text = (tmp_path / "log").read_text() + (tmp_path / "world.aos").read_bytes().hex()
    assert world.chain.accounts[OTHER].key[2:] not in text


def another_build(folder: Path) -> Path:
    """The manifest with another build of the module, which does the same."""
    module = folder / "other.wasm"
    section = bytes([0, 6, 5]) + b"other"
    module.write_bytes((ROOT / "modules/gateway/gateway.wasm").read_bytes() + section)
    return manifest_with(module, folder)


def test_a_strict_apply_is_refused_until_all_is_parked_and_all_continues_after_a_resume(
    site: Site, tmp_path: Path
) -> None:
    """GW-47, GW-51, GW-52"""
    world = Living(site, tmp_path, "all")
    manifest = str(another_build(tmp_path))
    world.hold_mining()
    world.start()
    world.in_pool(3)
    refused = world.aos("apply", manifest)
    assert refused.code == 1
    assert "in flight" in refused.out + refused.err
    world.gateway("park", "--all", "--why", "a new version")
    world.idle()
    world.gateway("list", "--stalled")
    assert world.aos("apply", manifest).code == 0
    world.mine()
    world.gateway("resume", "--all")
    world.start()
    assert set(ends(world, world.end()).values()) == {"COMPLETED"}
