"""Every mutant is built from these sources, and a test of the reducers catches it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest

from aos.author.errors import ToolMissing
from aos.author.toolchain import find_toolchain
from aos.manifest.load import Loaded
from tests.gateway.mutants.compiling import is_comparable
from tests.gateway.mutants.loading import BY_NAME, gateway_with
from tests.gateway.mutants.sources import HERE, MUTANTS, Mutant, StalePatch, facts_of, recorded
from tests.gateway.reducers.cell import Cell
from tests.gateway.reducers.inputs import (
    EPOCH_KEY,
    POLICY,
    epoch_requested,
    gateway,
    settled,
)
from tests.gateway.reducers.lanes import LANE, SIGNER, request, submitted
from tests.gateway.reducers.laws import lane_law, record_law
from tests.gateway.reducers.model_chain import ModelChain, ModelNode, transaction
from tests.gateway.reducers.way import NO_ONE, attempt, called, confirmed, error_of, word
from tests.tools import long_form, missing

CONF: Final = 3


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_mutant_is_what_its_record_says(mutant: Mutant) -> None:
    assert recorded()[mutant.name] == facts_of(mutant, mutant.wasm.read_bytes()), (
        "the sources of the gateway have changed: run tests/gateway/mutants/build"
    )


def test_the_record_has_exactly_the_mutants() -> None:
    assert recorded().keys() == BY_NAME.keys()
    assert {file.stem for file in HERE.glob("*.wasm")} == BY_NAME.keys()
    assert len({each.wasm.read_bytes() for each in MUTANTS}) == len(MUTANTS)


def test_a_patch_that_does_not_fit_is_refused() -> None:
    with pytest.raises(StalePatch, match="expected the replaced text 2 times"):
        BY_NAME["reads_at_the_tip"].applied("conf: 1,\n")


@pytest.mark.long
@pytest.mark.skipif(not long_form(), reason="it compiles the module once for each mutant")
def test_the_mutants_can_be_built_again_with_the_same_bytes() -> None:
    try:
        toolchain = find_toolchain()
    except ToolMissing:
        missing("no Rust compiler can build the mutants again")
    if not is_comparable(toolchain):
        missing("the Rust compiler is another than in modules/BUILD.json")
    call = [sys.executable, str(HERE / "build"), "--check"]
    ran = subprocess.run(call, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


# --- Each is caught -------------------------------------------------------------------------------


class Stage:
    """A lane of this module, and a chain that mines only on request."""

    def __init__(self, source: Loaded) -> None:
        self.chain = ModelChain()
        self.chain.mine()
        self.lane = Cell(source, "gw/signer@1", LANE, lane_law)
        self.lane.send(*request(1, data=b"data 1", guard=None, policy=POLICY | {"conf": CONF}))
        self.answer()

    def answer(self) -> Any:
        node, params = ModelNode(self.chain), self.lane.params
        acts: dict[str | None, Callable[[dict[str, Any]], Any]] = {
            "evm/tx.quote@1": node.quote,
            "evm/tx.submit@1": node.submit,
            "evm/tx.receipt@1": node.receipt,
        }
        if self.lane.effect in acts:
            return self.lane.answer(acts[self.lane.effect](params))
        return self.lane.fire()

    def end(self) -> tuple[str, dict[str, Any]]:
        """Mine and answer until the request is settled; its outcome, and what it has landed."""
        for _ in range(60):
            self.chain.mine()
            told = self.lane.emitted("WorkTxSettled")
            if told:
                [value] = told
                return value["outcome"]["$tag"], value
            self.answer()
        raise AssertionError("it does not end")

    def lands_once(self) -> None:
        name, value = self.end()
        for _ in range(CONF + 1):
            self.chain.mine()
        count = self.chain.head.counts.get(b"data 1", 0)
        assert count == (name == "Confirmed"), f"{name}, and it has landed {count} times"
        if name == "Confirmed":
            hashes = [each["hash"] for each in value["attempts"]]
            assert value["outcome"]["$value"]["hash"] in hashes


def not_found(source: Loaded) -> None:
    """The pool of one node has lost the transaction, and another node still mines it."""
    stage = Stage(source)
    sent = transaction(stage.lane.params)
    stage.answer()
    stage.chain.pool.clear()
    stage.answer()  # not found
    stage.chain.send(sent)
    stage.lands_once()


def refused(source: Loaded) -> None:
    """The node takes the transaction, and says that it refuses it."""
    stage = Stage(source)
    sent = transaction(stage.lane.params)
    stage.chain.send(sent)
    stage.lane.answer(submitted("Refused", sent.hash))
    stage.lands_once()


def tip(source: Loaded) -> None:
    """The block with the transaction is taken back before it is deep enough."""
    stage = Stage(source)
    stage.answer()
    stage.chain.mine()
    stage.answer()
    if not stage.lane.emitted("WorkTxSettled"):
        stage.lands_once()
        return
    stage.chain.reorganise(1, keep=False)
    assert stage.chain.head.counts.get(b"data 1", 0) == 1, "confirmed, and taken back"


def bump(source: Loaded) -> None:
    """The transaction stays in the pool until its fees are raised."""
    stage = Stage(source)
    sent = transaction(stage.lane.params)
    stage.answer()
    stage.chain.base_fee = 10**12
    for _ in range(POLICY["bump_after"]):
        stage.answer()
    stage.answer()  # the bump
    stage.chain.base_fee = 1
    stage.chain.pool[SIGNER, sent.nonce] = sent  # a miner has the first one
    stage.lands_once()


def landed_block(source: Loaded) -> None:
    """At the block in which the transaction landed, the contract does not have its effect."""
    record = Cell(source, "gw/epoch@1", EPOCH_KEY, record_law)
    record.send(*epoch_requested())
    for returned in (NO_ONE, word(3), NO_ONE):
        record.answer(called(returned))
    record.send(*settled("epoch", 1, confirmed(), [attempt()]))
    if record.open:
        record.answer(called(NO_ONE))
    assert error_of(record) == "INCONSISTENT"


CAUGHT_BY: Final[dict[str, Callable[[Loaded], None]]] = {
    "new_nonce_after_not_found": not_found,
    "settles_on_refused": refused,
    "reads_at_the_tip": tip,
    "bumps_at_another_nonce": bump,
    "forgets_a_hash": bump,
    "does_not_check_the_landed_block": landed_block,
}


@pytest.mark.parametrize(
    "scene", list(dict.fromkeys(CAUGHT_BY.values())), ids=lambda scene: scene.__name__
)
def test_the_gateway_passes_every_scene(scene: Callable[[Loaded], None]) -> None:
    scene(gateway())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
@pytest.mark.parametrize("has_laws", [True, False])
def test_every_mutant_is_caught_by_its_scene(
    mutant: Mutant, has_laws: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The laws of a transition catch most mutants; the outcome on the chain must catch them, too.
    if not has_laws:
        for law in ("lane_law", "record_law"):
            monkeypatch.setitem(globals(), law, None)

    with pytest.raises(AssertionError):
        CAUGHT_BY[mutant.name](gateway_with(mutant))
