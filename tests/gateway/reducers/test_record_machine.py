"""A record, and any order of receipts, errors, timers, commands, settlements and duplicates: right
ones, stale ones and nonsense. ``record_law`` is checked after each."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.gateway.evm.studio import custom
from tests.gateway.reducers import inputs
from tests.gateway.reducers.cell import TIMER, Cell
from tests.gateway.reducers.inputs import MINUTE, POLICY
from tests.gateway.reducers.laws import ENDED
from tests.gateway.reducers.test_outcomes import OUTCOMES, would_revert
from tests.gateway.reducers.way import (
    CALL,
    DATA_HASH,
    EVIDENCE_HASH,
    LANDED,
    OF_SCORE,
    OPEN_WINDOW,
    STORED,
    TX_STEPS,
    WAYS,
    address,
    attempt,
    begin,
    called,
    cause,
    confirmed,
    done_word,
    kind_of,
    order,
    priced,
    reverted_call,
    settle,
    status,
    uploaded,
    word,
)
from tests.run_seed import examples
from tests.tools import long_form

CODES: Final = st.sampled_from(
    ["unavailable"] * 6
    + ["wrong_chain", "block_unknown", "evm_bad_request", "arweave_bad_request", "blob_missing"]
)
WORDS: Final = st.sampled_from(
    [
        *(word(number) for number in (0, 1, 2, 3, 2**256 - 1)),
        *(address(each) for each in (inputs.WORKER, inputs.STRANGER)),
        *(OPEN_WINDOW[1], word(2**64 - 1) * 2, b"", bytes(31)),
    ]
)
CALLED: Final = st.one_of(WORDS.map(called), st.just(reverted_call()))
UPLOADED: Final = st.builds(
    uploaded,
    st.sampled_from(["Posted", "Known", "Unknown", "NoFunds", "Rejected", "NoKey"]),
    item=st.sampled_from(["one", "one", None]),
    bundle=st.sampled_from(["b-1", "b-2", None]),
)
STATUS: Final = st.builds(
    status,
    st.sampled_from(["Confirmed", "Confirmed", "Pending", "NotFound", "Rejected"]),
    content=st.sampled_from([EVIDENCE_HASH, EVIDENCE_HASH, "blake3:" + "0" * 64]),
)
ANSWERS: Final[dict[str, st.SearchStrategy[Any]]] = {
    "sys/blob.put@1": st.just(STORED),
    "arweave/quote@1": st.builds(priced, balance=st.sampled_from([1, 10**12])),
    "arweave/upload@1": UPLOADED,
    "arweave/status@1": STATUS,
    CALL: CALLED,
}
CAUSES: Final = st.sampled_from(
    [
        cause("Empty"),
        cause("Custom", custom("UnknownWork", DATA_HASH).data),
        cause("Custom", custom("NotCommitted", *OF_SCORE).data),
        cause("Custom", custom("WindowNotOpen", 2**64 - 1).data),
        cause("Custom", custom("WindowNotOpen", 1).data),
        cause("Custom", custom("EpochClosed", 7).data),
    ]
)
SETTLEMENTS: Final = st.one_of(
    st.sampled_from(list(OUTCOMES.values())),
    st.builds(lambda because, deep: would_revert(because, at_depth=deep), CAUSES, st.booleans()),
)
MORE: Final = st.lists(
    st.builds(attempt, st.sampled_from(["", LANDED[:-1] + "0"]), st.integers(0, 9)), max_size=2
)
POLICIES: Final = st.sampled_from(
    [POLICY, POLICY | {"retries": 0, "stall_cycles": 1}, POLICY | {"retries": 1, "conf": 0}]
)
HERE: Final = st.sampled_from([0] * 6 + [1, 2, 3])
"""The open effect (0), or one of the last that were requested."""


class RecordMachine(RuleBasedStateMachine):
    cell: Cell

    @initialize(kind=st.sampled_from(inputs.KINDS), policy=POLICIES)
    def create(self, kind: str, policy: dict[str, int]) -> None:
        self.cell = begin(kind, policy=policy)
        self.kind = kind

    # Receipts

    def ref(self, back: int) -> str:
        """The open effect, or a stale one."""
        if back == 0 and self.cell.open:
            return self.cell.ref
        asked = list(self.cell.asked)
        return asked[-min(back, len(asked)) if back else -1]

    @rule(back=HERE, data=st.data())
    def answer(self, back: int, data: st.DataObject) -> None:
        ref = self.ref(back)
        effect = self.cell.asked[ref].effect
        if effect == TIMER:
            self.fire(ref)
        else:
            self.cell.answer(data.draw(ANSWERS[effect]), ref=ref)

    def fire(self, ref: str) -> None:
        """A timer ends: at its time, or before it if it is far away."""
        due = self.cell.asked[ref].params["deliver_at_ns"]
        if due < self.cell.now_ns + 400 * 86_400 * inputs.SECOND:
            self.cell.now_ns = max(self.cell.now_ns, due)
        self.cell.answer(ref=ref)

    @rule(times=st.integers(1, 6))
    def lead(self, times: int) -> None:
        """Give the answers of an honest world, so that the record gets far."""
        for _ in range(times):
            self.lead_once()

    def lead_once(self) -> None:
        cell = self.cell
        if cell.state["at_lane"] is not None and not cell.open:
            settle(cell, confirmed())
        elif cell.effect == TIMER:
            self.fire(cell.ref)
        elif cell.effect == CALL:
            cell.answer(called(self.leading_word()))
        elif cell.effect is not None:
            honest = {"arweave/quote@1": priced(), "arweave/upload@1": uploaded()}
            honest |= {"arweave/status@1": status(), "sys/blob.put@1": STORED}
            cell.answer(honest[cell.effect])

    def leading_word(self) -> bytes:
        state = self.cell.state
        match state["doing"]:
            case {"$tag": "Checking", "$value": {"$tag": "Submitter"}}:
                return address(inputs.WORKER)
            case {"$tag": "Checking", "$value": {"$tag": "Window"}}:
                return OPEN_WINDOW[1]
            case {"$tag": "Checking", "$value": {"$tag": "Works"}}:
                return word(2)
        for step in WAYS[self.kind]:
            if state["step"]["$tag"] == step:
                return TX_STEPS[step].undone
            if state["step"]["$tag"] == TX_STEPS[step].awaits:
                return done_word(self.cell, step)
        return word(0)

    @rule(back=HERE, code=CODES, times=st.sampled_from([1, 1, 1, 20]))
    def fail(self, back: int, code: str, times: int) -> None:
        for _ in range(times):
            if self.cell.effect == TIMER and times > 1:
                self.fire(self.cell.ref)
            self.cell.fail(code, ref=self.ref(back))

    @rule(back=HERE, how=st.sampled_from([Cell.timeout, Cell.reject, Cell.cancel]))
    def end(self, back: int, how: Any) -> None:
        how(self.cell, ref=self.ref(back))

    # Events

    @rule(what=st.sampled_from(["Park", "Resume", "Resume", "Cancel", "Reconcile", "Reconcile"]))
    def order(self, what: str) -> None:
        order(self.cell, what)

    @rule(outcome=SETTLEMENTS, off=st.sampled_from([0] * 8 + [-1, 1]), more=MORE)
    def settle(self, outcome: Any, off: int, more: list[Any]) -> None:
        """The lane settles the request that is open, or another one, perhaps for a second time."""
        number = max(0, self.cell.state["requests"] + off)
        settle(self.cell, outcome, *more, attempt(), request=number)

    @rule()
    def request_again(self) -> None:
        before = self.cell.state
        self.cell.send(*inputs.requested(self.kind, policy=POLICY | {"conf": 5}))
        assert self.cell.state == before | {"updated_at": self.cell.now_ns}

    @rule(minutes=st.integers(0, 3))
    def wait(self, minutes: int) -> None:
        self.cell.now_ns += minutes * MINUTE

    def teardown(self) -> None:
        """A record can be led to its end from everywhere."""
        if not hasattr(self, "cell"):
            return
        assert kind_of(self.cell) == self.kind
        order(self.cell, "Resume")
        for _ in range(40):
            if self.cell.state["state"]["$tag"] in ENDED:
                return
            if not self.cell.open and self.cell.state["at_lane"] is None:
                order(self.cell, "Resume")
            self.lead_once()
            if self.cell.effect == TIMER and self.is_far():
                return  # a window that a hostile chain has named
        raise AssertionError(f"it does not end: {self.cell.state}")

    def is_far(self) -> bool:
        return bool(self.cell.wait_ns > 300 * 86_400 * inputs.SECOND)


RecordMachine.TestCase.settings = settings(
    max_examples=examples(6), stateful_step_count=40 if long_form() else 14, deadline=None
)

TestRecord = RecordMachine.TestCase
