"""A lane and a model chain whose answers are right, late, stale, lost or wrong, whose blocks are
reorganised, and on which strangers have the same key. ``lane_law`` checks each transition."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.gateway.reducers.cell import TIMER, Cell
from tests.gateway.reducers.inputs import GWEI, POLICY, STUDIO
from tests.gateway.reducers.lanes import (
    QUOTE,
    RECEIPT,
    SIGNER,
    SUBMIT,
    cancel_requested,
    new_lane,
    order,
    request,
    submitted,
)
from tests.gateway.reducers.laws import lane_law, owner_of
from tests.gateway.reducers.model_chain import ModelChain, ModelNode, Transaction, transaction
from tests.run_seed import examples
from tests.tools import long_form

CONF: Final = 3
SHALLOW: Final = CONF - 1
"""The most blocks that a reorganisation may replace above depth."""
POLICIES: Final = st.sampled_from(
    [
        POLICY | {"conf": CONF},
        POLICY | {"conf": CONF, "retries": 0, "stall_cycles": 0},
        POLICY | {"conf": CONF, "retries": 1, "bump_after": 1, "max_fee": 40 * GWEI},
    ]
)
FATES: Final = st.sampled_from(
    ["Accepted", "Known", "NonceUsed", "Underpriced", "NoFunds", "Refused", "Unknown", "NoKey"]
)
HOW: Final = st.sampled_from([Cell.timeout, Cell.reject, Cell.cancel])


class LaneMachine(RuleBasedStateMachine):
    """``is_deep``: a reorganisation has taken back blocks at depth, so older
    outcomes may no longer hold. Still no request lands twice."""

    lane: Cell

    @initialize(policy=POLICIES)
    def begin(self, policy: dict[str, int]) -> None:
        self.chain, self.policy = ModelChain(), policy
        self.lane, self.is_deep = new_lane(), False
        self.lane.law = lane_law
        self.count, self.strangers, self.seen = 0, 0, 0
        self.settled: dict[tuple[str, int], Any] = {}
        self.chain.mine()
        self.request("a")

    # The owners

    @rule(owner=st.sampled_from("ab"))
    def request(self, owner: str) -> None:
        self.count += 1
        data = f"data {self.count}".encode()
        guard = {"to": STUDIO, "data": data, "undone": bytes(32)}
        self.lane.send(*request(self.count, owner, data=data, guard=guard, policy=self.policy))
        self.look()

    @rule(number=st.integers(1, 8), owner=st.sampled_from("ab"))
    def cancel(self, number: int, owner: str) -> None:
        self.lane.send(*cancel_requested(number, owner))
        self.look()

    @rule(what=st.sampled_from(["Park", "Resume", "Resume", "Cancel", "Reconcile"]))
    def order(self, what: str) -> None:
        order(self.lane, what)
        self.look()

    # The chain

    @rule(blocks=st.integers(1, CONF + 1))
    def mine(self, blocks: int) -> None:
        for _ in range(blocks):
            self.chain.mine()

    @rule(depth=st.integers(1, SHALLOW), keep=st.booleans())
    def reorganise(self, depth: int, keep: bool) -> None:
        self.chain.reorganise(depth, keep=keep)

    @rule(depth=st.integers(CONF, CONF + 4), keep=st.booleans(), happens=st.integers(0, 7))
    def reorganise_deeply(self, depth: int, keep: bool, happens: int) -> None:
        if happens == 0 and self.count > 1:  # otherwise most runs would be of this kind
            self.is_deep = True
            self.chain.reorganise(depth, keep=keep)

    @rule()
    def drop(self) -> None:
        self.chain.pool.clear()

    @rule(fee=st.sampled_from([5, 10, 10, 30, 60]))
    def price(self, fee: int) -> None:
        self.chain.base_fee = fee * GWEI

    @rule(at=st.integers(0, 1))
    def stranger(self, at: int) -> None:
        """Another sender with this key takes the next nonce, or the one after it."""
        self.strangers += 1
        data = f"stranger {self.strangers}".encode()
        nonce = self.chain.nonce(SIGNER) + at
        new = Transaction(SIGNER, nonce, STUDIO, data, "0", 1, 10**12, 10**11)
        if at:
            self.chain.send(new)
        else:
            self.chain.mine(new)

    # The answers

    def honest(self, lag: int = 0) -> Any:
        node, params = ModelNode(self.chain, lag), self.lane.params
        match self.lane.effect:
            case "evm/tx.quote@1":
                return node.quote(params)
            case "evm/tx.submit@1":
                return node.submit(params)
            case _:
                return node.receipt(params)

    def is_asked(self) -> bool:
        return self.lane.effect in (QUOTE, SUBMIT, RECEIPT)

    @precondition(lambda self: self.lane.open)
    @rule(times=st.integers(1, 5))
    def answer(self, times: int) -> None:
        for _ in range(times):
            self.answer_once()

    def answer_once(self) -> None:
        if self.lane.effect == TIMER:
            self.lane.fire()
        elif self.is_asked():
            self.lane.answer(self.honest())
        self.look()

    @precondition(lambda self: self.lane.effect in (QUOTE, RECEIPT))
    @rule(lag=st.integers(1, 4))
    def answer_as_a_node_behind(self, lag: int) -> None:
        self.lane.answer(self.honest(lag))
        self.look()

    @precondition(lambda self: self.is_asked())
    @rule(how=HOW, happens=st.booleans())
    def lose_the_answer(self, how: Any, happens: bool) -> None:
        if happens:
            self.honest()
        how(self.lane)
        self.look()

    @precondition(lambda self: self.is_asked())
    @rule(code=st.sampled_from(["unavailable", "wrong_chain", "block_unknown"]))
    def fail(self, code: str) -> None:
        self.lane.fail(code)
        self.look()

    @precondition(lambda self: self.lane.effect == SUBMIT)
    @rule(fate=FATES, happens=st.booleans())
    def lie(self, fate: str, happens: bool) -> None:
        """The node says anything about a transaction that it has sent, or has not."""
        hash = transaction(self.lane.params).hash
        if happens:
            self.honest()
        self.lane.answer(submitted(fate, hash))
        self.look()

    @rule(back=st.integers(1, 6), how=HOW)
    def answer_again(self, back: int, how: Any) -> None:
        """An answer to what was asked before: it changes nothing."""
        old = [ref for ref in self.lane.asked if ref not in self.lane.open][-back:]
        before = self.lane.state
        for ref in old[:1]:
            how(self.lane, ref=ref)
            assert self.lane.state == before | {"updated_at": self.lane.now_ns}

    # Laws

    def look(self) -> None:
        for schema, value in self.lane.events[self.seen :]:
            assert schema == "gw/WorkTxSettled@1"
            name = owner_of(value), value["request"]
            assert name not in self.settled, "a request is settled once"
            self.settled[name] = value["outcome"]
            if not self.is_deep:
                self.check_outcome(value)
        self.seen = len(self.lane.events)
        for data, count in self.chain.head.counts.items():
            assert count == 1 or data == b"", "a request lands at most once"
        if self.lane.effect == SUBMIT and not self.is_deep:
            deep = ModelNode(self.chain).at_depth(CONF).nonces.get(SIGNER, 0)
            assert self.lane.params["nonce"] <= deep, "a nonce is left before it is consumed"

    def check_outcome(self, value: dict[str, Any]) -> None:
        """The chain has at depth what the lane tells."""
        deep = ModelNode(self.chain).at_depth(CONF)
        outcome, tries = value["outcome"], value["attempts"]
        has_landed = deep.counts.get(f"data {value['request']}".encode(), 0) == 1
        name = outcome["$tag"]
        assert has_landed == (name in ("Confirmed", "Done"))
        if tries:
            found = self.chain.find(SIGNER, tries[0]["nonce"])
            assert found is not None
            assert found[0].number <= deep.number
            hash = found[1].transaction.hash
            is_ours = hash in [each["hash"] for each in tries]
            assert is_ours == (name != "Foreign")
            if name == "Canceled":
                assert found[1].transaction.is_empty
            else:
                assert outcome["$value"]["hash"] == hash
        else:
            assert name in ("Canceled", "Done", "NoFunds", "WouldRevert", "LaneFull", "Invalid")

    def teardown(self) -> None:
        """When all works again, every request is settled."""
        if not hasattr(self, "lane"):
            return
        self.chain.base_fee = 5 * GWEI
        order(self.lane, "Resume")
        for _ in range(60 + 15 * self.count):
            if len(self.settled) == self.count:
                assert self.lane.state["current"] is None
                return
            if not self.lane.open:
                order(self.lane, "Resume")
            self.answer_once()
            self.chain.mine()
        raise AssertionError(f"it does not end: {self.lane.state}")


LaneMachine.TestCase.settings = settings(
    max_examples=examples(7), stateful_step_count=50 if long_form() else 20, deadline=None
)

TestLane = LaneMachine.TestCase
