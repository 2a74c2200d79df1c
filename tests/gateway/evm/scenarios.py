"""Stories of a signer on a chain, which run on the fake node and on anvil alike.

A story gets a ``Ground``: the four effects, an account of its own with nonce 0, the contract, and
the controls of the node. Blocks are mined by the story alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from eth_account import Account
from eth_utils.crypto import keccak

from tests.gateway.evm.stage import ETHER, GWEI, Stage
from tests.gateway.evm.studio import calldata, commitment, custom, panic, read_result, required

Control: TypeAlias = Callable[..., Any]
"""A method of the node and its params -> its result."""


@dataclass
class Ground:
    """The place of one story. Its keys are made from its name, so no two stories share one."""

    name: str
    effects: Stage
    control: Control
    studio: str

    def __post_init__(self) -> None:
        keys = [keccak(text=f"{self.name} {role}") for role in ("signer", "other")]
        self.signer, self.other = (str(Account.from_key(key).address).lower() for key in keys)
        self.effects.secret = ",".join(key.hex() for key in keys)
        self.work = keccak(text=self.name)
        self.epoch = int.from_bytes(self.work[:4])
        for each in (self.signer, self.other):
            self.control("anvil_setBalance", each, hex(100 * ETHER))
        self.control("evm_setAutomine", False)
        self.mine(1)

    @property
    def submit_work(self) -> bytes:
        return calldata("submitWork(bytes32,uint64,string)", self.work, self.epoch, "ar-1")

    @property
    def head(self) -> int:
        return int(self.control("eth_blockNumber"), 16)

    def mine(self, blocks: int = 1) -> None:
        for _ in range(blocks):
            self.control("evm_mine")

    async def submit(self, **changes: Any) -> dict[str, Any]:
        given = {"signer": self.signer, "to": self.studio, "data": self.submit_work, **changes}
        return await self.effects.submit(**{"gas": 400_000, **given})

    async def sent(self, **changes: Any) -> str:
        receipt = await self.submit(**changes)
        assert receipt["fate"] == {"$tag": "Accepted"}, receipt
        return str(receipt["hash"])

    async def fate(self, *hashes: str, **changes: Any) -> tuple[str, Any]:
        given = {"signer": self.signer, "to": self.studio, "data": self.submit_work, **changes}
        return await self.effects.fate(*hashes, **{"conf": 2, **given})

    async def quote(self, **changes: Any) -> tuple[str, Any]:
        given = {"signer": self.signer, "to": self.studio, "data": self.submit_work, **changes}
        quote = (await self.effects.quote(**{"conf": 2, **given}))["quote"]
        return quote["$tag"], quote["$value"]

    async def call(self, data: bytes, depth: int = 1) -> tuple[str, Any]:
        block = {"$tag": "Depth", "$value": depth}
        result = (await self.effects.call(block, to=self.studio, data=data))["result"]
        return result["$tag"], result["$value"]

    async def view(self, signature: str, *arguments: Any, depth: int = 1) -> Any:
        tag, returned = await self.call(calldata(signature, *arguments), depth)
        assert tag == "Returned", returned
        return read_result(signature, returned)

    def cancel(self, **fees: int) -> dict[str, Any]:
        """Changes that make a transaction an empty one of the signer to itself."""
        return {"to": self.signer, "data": b"", "gas": 21_000, **fees}


async def lands(ground: Ground) -> None:
    """Quoted, sent, in a block, deep enough; the same bytes change nothing at any time."""
    arm, quoted = await ground.quote()
    assert (arm, quoted["nonce"]) == ("Ready", 0)
    assert quoted["gas"] > 50_000

    ours = await ground.sent(gas=quoted["gas"])
    again = await ground.submit(gas=quoted["gas"])
    assert (again["hash"], again["fate"]) == (ours, {"$tag": "Known"})
    assert await ground.fate(ours) == ("Pending", {"depth": 0})

    ground.mine()
    assert await ground.fate(ours) == ("Pending", {"depth": 1})
    landed = ground.head
    late = await ground.submit(gas=quoted["gas"])
    assert (late["hash"], late["fate"]) == (ours, {"$tag": "NonceUsed"})

    ground.mine()
    arm, value = await ground.fate(ours)
    assert (arm, value["hash"], value["block"]) == ("Confirmed", ours, landed)
    assert await ground.view("submitterOf(bytes32)", ground.work) == (ground.signer,)
    assert await ground.view("submitterOf(bytes32)", ground.work, depth=3) == ("0x" + 40 * "0",)


async def lands_after_a_wait(ground: Ground) -> None:
    ours = await ground.sent()
    ground.effects.clock.on_pause = ground.mine

    assert (await ground.fate(ours, conf=4, wait_ms=15_000))[0] == "Confirmed"

    assert ground.effects.clock.pauses == 4


async def is_done_already(ground: Ground) -> None:
    """The guard answers at depth; before that, the transaction would revert at the tip alone."""
    guard = {
        "to": ground.studio,
        "data": calldata("submitterOf(bytes32)", ground.work),
        "undone": bytes(32),
    }
    await ground.sent()
    ground.mine()

    arm, value = await ground.quote(guard=guard, signer=ground.other)
    assert (arm, value["at_depth"]) == ("Reverted", False)
    assert value["cause"]["data"] == custom("AlreadySubmitted", ground.work, ground.signer).data

    ground.mine()
    arm, value = await ground.quote(guard=guard, signer=ground.other)
    assert (arm, value["returned"][12:]) == ("Done", bytes.fromhex(ground.signer[2:]))
    arm, value = await ground.quote(signer=ground.other)
    assert (arm, value["at_depth"]) == ("Reverted", True)


async def a_race_is_lost(ground: Ground) -> None:
    """A stranger's same submission comes first: ours reverts, with the contract's reason."""
    ours = await ground.sent()
    theirs = await ground.sent(signer=ground.other, max_fee=90 * GWEI, max_tip=50 * GWEI)
    ground.mine(2)

    arm, value = await ground.fate(ours)
    assert (arm, value["hash"]) == ("Reverted", ours)
    block = ground.control("eth_getBlockByNumber", hex(value["block"]), False)
    assert block["transactions"].index(theirs) < block["transactions"].index(ours)
    revert = custom("AlreadySubmitted", ground.work, ground.other).data
    assert value["cause"] == {"kind": {"$tag": "Custom"}, "text": "", "data": revert}


async def it_reverts(ground: Ground) -> None:
    close = calldata("closeEpoch(uint64)", ground.epoch)
    ours = await ground.sent(data=close)
    ground.mine(2)

    arm, value = await ground.fate(ours, data=close)

    assert (arm, value["hash"]) == ("Reverted", ours)
    assert value["cause"] == {
        "kind": {"$tag": "Custom"},
        "text": "",
        "data": custom("EpochEmpty", ground.epoch).data,
    }


async def fees_are_raised(ground: Ground) -> None:
    first = await ground.sent()
    cheap = await ground.submit(max_fee=3 * GWEI - 1)
    assert cheap["fate"] == {"$tag": "Underpriced"}
    second = await ground.sent(max_fee=6 * GWEI, max_tip=3 * GWEI)
    ground.mine(2)

    arm, value = await ground.fate(first, cheap["hash"], second)

    assert (arm, value["hash"]) == ("Confirmed", second)


async def it_is_dropped_and_sent_again(ground: Ground) -> None:
    ours = await ground.sent()
    ground.control("anvil_dropTransaction", ours)
    assert await ground.fate(ours) == ("NotFound", None)
    ground.mine(2)
    assert await ground.fate(ours) == ("NotFound", None)

    assert await ground.sent() == ours
    ground.mine(2)

    assert (await ground.fate(ours))[0] == "Confirmed"


async def it_is_canceled(ground: Ground) -> None:
    ours = await ground.sent()
    cancel = await ground.sent(**ground.cancel(max_fee=6 * GWEI, max_tip=3 * GWEI))
    ground.mine(2)

    assert await ground.fate(ours, cancel) == (
        "Canceled",
        {"hash": cancel, "block": ground.head - 1},
    )


async def a_stranger_takes_the_nonce(ground: Ground) -> None:
    ours = await ground.sent()
    theirs = await ground.sent(
        to=ground.other, data=b"", value="7", gas=21_000, max_fee=6 * GWEI, max_tip=3 * GWEI
    )
    ground.mine()
    assert await ground.fate(ours) == ("Pending", {"depth": 1})
    ground.mine()

    foreign = ("Foreign", {"hash": theirs, "block": ground.head - 1})
    assert await ground.fate(ours, since=ground.head - 5) == foreign
    ground.control("anvil_mine", "0x12c")
    assert await ground.fate(ours) == foreign


async def its_hash_is_lost(ground: Ground) -> None:
    lost = await ground.sent()
    ground.mine(2)

    arm, value = await ground.fate()

    assert (arm, value["hash"]) == ("Confirmed", lost)


async def a_block_is_taken_back(ground: Ground) -> None:
    ours = await ground.sent()
    ground.mine()
    assert await ground.fate(ours) == ("Pending", {"depth": 1})
    ground.control("anvil_reorg", 1, [])
    # The controls differ in whether the transaction returns to the pool.
    assert (await ground.fate(ours))[0] in ("NotFound", "Pending")

    assert (await ground.submit())["fate"]["$tag"] in ("Accepted", "Known")
    ground.mine(2)

    assert (await ground.fate(ours))[0] == "Confirmed"
    assert await ground.view("submitterOf(bytes32)", ground.work) == (ground.signer,)


async def a_block_at_depth_is_taken_back(ground: Ground) -> None:
    """A reorganisation below the depth: an earlier transaction is missing."""
    first = await ground.sent()
    ground.mine()
    second = await ground.sent(nonce=1, data=calldata("registerWork(bytes32)", ground.work))
    ground.control("anvil_reorg", 1, [])
    for hash in (first, second):
        ground.control("anvil_dropTransaction", hash)

    assert await ground.fate(second, nonce=1) == ("Gap", {"nonce": 0})


async def funds_are_missing(ground: Ground) -> None:
    ground.control("anvil_setBalance", ground.signer, "0x5")
    ground.mine()

    arm, value = await ground.quote()
    assert (arm, value["balance"]) == ("NoFunds", "5")
    assert int(value["needed"]) > 5
    assert (await ground.submit())["fate"] == {"$tag": "NoFunds"}
    assert (await ground.quote(to=ground.other, data=b"", value=str(ETHER)))[0] == "NoFunds"


async def reasons_are_read(ground: Ground) -> None:
    no_scores = calldata("submitScore(bytes32,address,uint16[])", ground.work, ground.signer, ())
    for data, kind, text, revert in (
        (
            calldata("closeEpoch(uint64)", ground.epoch),
            "Custom",
            "",
            custom("EpochEmpty", ground.epoch).data,
        ),
        (no_scores, "Error", "expected 1 to 32 scores", required("expected 1 to 32 scores").data),
        (calldata("registration(uint256)", 2**200), "Panic", "0x32", panic(0x32).data),
        (b"\x00\x01\x02\x03", "Empty", "", b""),
        (b"", "Empty", "", b""),
    ):
        arm, value = await ground.call(data)
        assert (arm, value) == (
            "Reverted",
            {"kind": {"$tag": kind}, "text": text, "data": revert},
        ), data


async def the_contract_is_used(ground: Ground) -> None:
    """Each function once, and the views that tell about it."""
    score = (ground.work, ground.signer, ground.other)
    scores, salt = (80, 90), b"\x07" * 32
    committed = commitment(*score, scores, salt)
    nonces = {ground.signer: 0, ground.other: 0}

    async def done(signature: str, *arguments: Any, by: str) -> None:
        data = calldata(signature, *arguments)
        hash = await ground.sent(signer=by, nonce=nonces[by], data=data)
        ground.mine()
        fate = await ground.fate(hash, signer=by, nonce=nonces[by], data=data, conf=1)
        assert fate[0] == "Confirmed", (signature, fate)
        nonces[by] += 1

    register = "registerWork(bytes32)"
    await done(
        "submitWork(bytes32,uint64,string)", ground.work, ground.epoch, "ar-1", by=ground.signer
    )
    await done(register, ground.work, by=ground.signer)
    await done(register, ground.work, by=ground.signer)
    await done("commitScore(bytes32,address,bytes32)", *score[:2], committed, by=ground.other)
    assert await ground.view("scoreStatusOf(bytes32,address,address)", *score) == (1,)
    assert await ground.view("commitmentOf(bytes32,address,address)", *score) == (committed,)
    opens, closes = await ground.view("revealWindowOf(bytes32,address,address)", *score)
    assert opens < closes
    ground.control("evm_setNextBlockTimestamp", opens + 1)
    await done(
        "revealScore(bytes32,address,uint16[],bytes32)", *score[:2], scores, salt, by=ground.other
    )
    await done("registerValidator(bytes32,address,address)", *score, by=ground.other)
    await done("closeEpoch(uint64)", ground.epoch, by=ground.other)

    assert await ground.view("workOf(bytes32)", ground.work) == (
        ground.signer, ground.epoch, "ar-1",
    )  # fmt: skip
    for view, arguments, expected in (
        ("registrationsOf(bytes32,address)", (ground.work, ground.signer), 2),
        ("scoreStatusOf(bytes32,address,address)", score, 2),
        ("scoresOf(bytes32,address,address)", score, scores),
        ("validatorRegistrationsOf(bytes32,address,address)", score, 1),
        ("closerOf(uint64)", (ground.epoch,), ground.other),
        ("worksIn(uint64)", (ground.epoch,), 1),
    ):
        assert await ground.view(view, *arguments) == (expected,), view
    arm, value = await ground.call(calldata("closeEpoch(uint64)", ground.epoch))
    assert (arm, value["data"]) == ("Reverted", custom("EpochClosed", ground.epoch).data)


SCENARIOS: Final[tuple[Callable[[Ground], Awaitable[None]], ...]] = (
    lands,
    lands_after_a_wait,
    is_done_already,
    a_race_is_lost,
    it_reverts,
    fees_are_raised,
    it_is_dropped_and_sent_again,
    it_is_canceled,
    a_stranger_takes_the_nonce,
    its_hash_is_lost,
    a_block_is_taken_back,
    a_block_at_depth_is_taken_back,
    funds_are_missing,
    reasons_are_read,
    the_contract_is_used,
)
