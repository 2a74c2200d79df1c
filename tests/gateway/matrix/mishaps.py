"""Things that happen to the chain: while a world is down, while it runs, and right before it sends.

A world that was killed between a submit and its settlement finds one of these when it returns.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import httpx

from tests.gateway.matrix.deaths import Prank
from tests.gateway.matrix.runs import Action, Stage
from tests.gateway.matrix.scenes import (
    EPOCH,
    LAST_EPOCH,
    RIVAL,
    SIGNER,
    calldata,
    close_epoch,
    strange,
    submit_work,
)
from tests.gateway.matrix.site import BLOCK_GAS

SEND: Final = "eth_sendTransaction"
ETHER: Final = 10**18
HOLD: Final = ("evm_setAutomine", [False])
LOOK_S: Final = 0.05
LATER_S: Final = 0.8

BLOCKS_BEFORE: Final = 3
"""Blocks that a scene needs before its world begins: with the contract, and an earlier work."""

BLOCK_S: Final = 0.06
REORG_BLOCKS: Final = 8
ANCHOR_BLOCKS: Final = 50


# --- while down: each leaves a node that mines again


def mined(stage: Stage) -> None:
    stage.chain.rpc("evm_setAutomine", [True])
    stage.chain.rpc("evm_mine")


def nothing(_: Stage) -> None:
    """Another action on a thread does all."""


def dropped(stage: Stage) -> None:
    stage.chain.rpc("anvil_dropAllTransactions")
    mined(stage)


def reverted(stage: Stage) -> None:
    """The epoch closes before the works of the same block."""
    stage.chain.rpc(SEND, _dear(close_epoch(stage.chain, EPOCH, RIVAL)))
    mined(stage)


def replaced(stage: Stage) -> None:
    """Another holder of the key sends something else with the same nonce and higher fees."""
    nonce = stage.chain.rpc(
        "eth_getTransactionCount", [stage.chain.accounts[SIGNER].address, "latest"]
    )
    params = _dear(strange(stage.chain, SIGNER))
    stage.chain.rpc(SEND, [{**params[0], "nonce": nonce}])
    mined(stage)


def nonce_taken(stage: Stage) -> None:
    stage.chain.rpc("anvil_dropAllTransactions")
    stage.chain.rpc(SEND, strange(stage.chain, SIGNER))
    mined(stage)


def submitted_by_another(stage: Stage) -> None:
    for hash in work_hashes(stage):
        stage.chain.rpc(SEND, _dear(submit_work(stage.chain, hash, EPOCH, RIVAL)))
    mined(stage)


def epoch_closed(stage: Stage) -> None:
    stage.chain.rpc("anvil_dropAllTransactions")
    stage.chain.rpc(SEND, close_epoch(stage.chain, EPOCH, RIVAL))
    mined(stage)


def reorganised(stage: Stage) -> None:
    """Take back every transaction of the world, although blocks were deep enough for its policy."""
    mined(stage)
    stage.chain.rpc("anvil_reorg", [stage.chain.head() - BLOCKS_BEFORE, []])


def funds_drained(stage: Stage) -> None:
    stage.chain.rpc("anvil_dropAllTransactions")
    _fund(stage, 0)
    mined(stage)


def pool_lost(stage: Stage) -> None:
    """``kill -9`` of the node: its blocks stay, its pool does not."""
    stage.chain.restart()


def unreachable(stage: Stage) -> None:
    mined(stage)
    assert stage.mischief is not None
    stage.mischief.outage = True


def anchors_aged(stage: Stage) -> None:
    """Arweave mines so many blocks that a quote from before has no valid anchor."""
    with httpx.Client() as client:
        blocks = {"blocks": ANCHOR_BLOCKS + 1}
        client.post(f"{stage.chain.arweave_url}/stub/mine", json=blocks).raise_for_status()


def _dear(params: list[Any]) -> list[Any]:
    """With fees above those of any lane, so that it comes first in its block."""
    return [{**params[0], "maxFeePerGas": hex(500 * 10**9), "maxPriorityFeePerGas": hex(10**11)}]


def _fund(stage: Stage, wei: int) -> None:
    stage.chain.rpc("anvil_setBalance", [stage.chain.accounts[SIGNER].address, hex(wei)])


def work_hashes(stage: Stage) -> list[str]:
    return [each.value["data_hash"] for each in stage.asked if each.name.startswith("work")]


# --- after the world is parked


def funded(stage: Stage) -> None:
    _fund(stage, 100 * ETHER)


def reachable(stage: Stage) -> None:
    assert stage.mischief is not None
    stage.mischief.outage = False


# --- while the world runs


def mine_later(stage: Stage) -> None:
    """Mine once the pool has had two transactions, one after the other: the fees were raised."""
    seen: set[str] = set()
    while len(seen) < 2 and not stage.over.wait(LOOK_S):
        seen |= {each["hash"] for each in _pool(stage)}
    mined(stage)


def _pool(stage: Stage) -> list[dict[str, Any]]:
    pool = stage.chain.rpc("txpool_content")["pending"]
    return [each for of_sender in pool.values() for each in of_sender.values()]


def mine_slowly(stage: Stage) -> None:
    """Mine a block now and then, and none for a transaction."""
    _mine_by_hand(stage)


def mine_and_reorganise(stage: Stage) -> None:
    """Mine slowly, and replace the last two blocks now and then."""
    _mine_by_hand(stage, reorg_blocks=REORG_BLOCKS)


def _mine_by_hand(
    stage: Stage, *, before: Action = nothing, reorg_blocks: int | None = None
) -> None:
    """Do ``before`` and mine, again and again.

    A node that mines by its own clock leaves holes in its chain when it is also told to mine, to
    reorganise or to begin again.
    """
    stage.chain.rpc(*HOLD)
    for number in itertools.count(1):
        if stage.over.wait(BLOCK_S):
            break
        before(stage)
        stage.chain.rpc("evm_mine")
        if reorg_blocks is not None and number % reorg_blocks == 0:
            stage.chain.rpc("anvil_reorg", [2, []])
    mined(stage)


def drop_the_cheap(stage: Stage) -> None:
    """Mine slowly, as a node whose prices rise: what a nonce is sent with first is soon too cheap,
    and the node drops it without a word."""
    prices: dict[tuple[str, str], int] = {}

    def drop(stage: Stage) -> None:
        for each in _pool(stage):
            fee = int(each["maxFeePerGas"], 16)
            if fee < prices.setdefault((each["from"], each["nonce"]), fee * 5 // 4):
                stage.chain.rpc("anvil_dropTransaction", [each["hash"]])

    _mine_by_hand(stage, before=drop)


def raise_the_limit(stage: Stage) -> None:
    """Let blocks have room again, after ``refuse``."""
    while not stage.over.wait(LATER_S):
        stage.chain.rpc("evm_setBlockGasLimit", [hex(BLOCK_GAS)])


# --- right before a send


def hold_mining(_: Stage, number: int) -> tuple[Prank, ...]:
    """From this send on, nothing is mined."""
    return (Prank(number=number, calls=(HOLD,)),)


def refuse(_: Stage, number: int) -> tuple[Prank, ...]:
    """The node refuses this send: the transaction does not fit into a block."""
    return (Prank(number=number, calls=(("evm_setBlockGasLimit", [hex(30_000)]),)),)


def race(stage: Stage, number: int) -> tuple[Prank, ...]:
    """A stranger does the same first."""
    chain, names = stage.chain, {each.name for each in stage.asked}
    calls: list[tuple[str, list[Any]]] = []
    if "work 1" in names:
        calls += [(SEND, submit_work(chain, each, EPOCH, RIVAL)) for each in work_hashes(stage)]
    elif "epoch" in names:
        calls += [(SEND, close_epoch(chain, LAST_EPOCH, RIVAL))]
    return (Prank(number=number, calls=tuple(calls)),)


def share(stage: Stage, number: int, *, what: str) -> tuple[Prank, ...]:
    """Another holder of the signer's key takes the nonce: with a payment, with an empty transaction
    as a wallet sends it to cancel, or with the same work."""
    own = stage.chain.accounts[SIGNER].address
    calls = [(SEND, strange(stage.chain, SIGNER, to=own if what == "empty" else None))]
    if what == "same":
        calls = [
            (SEND, strange(stage.chain, SIGNER, to=stage.chain.studio, data=register(each)))
            for each in work_hashes(stage)
        ]
    return (Prank(number=number, calls=tuple(calls)),)


def register(hash: str) -> str:
    return calldata("registerWork(bytes32)", bytes.fromhex(hash[2:]))
