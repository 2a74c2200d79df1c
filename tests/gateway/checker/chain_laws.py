"""The laws that compare the journal with the chain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from tests.gateway.checker.blocks import Chain, Transaction
from tests.gateway.checker.findings import Finding
from tests.gateway.checker.history import History, Settlement, tag
from tests.gateway.checker.lane_laws import SUBMIT
from tests.gateway.checker.record_laws import progress_of
from tests.gateway.checker.studio import Deed, deed_of, signer_of, tx_steps

TYPE_2: Final = 2


@dataclass(frozen=True)
class Comparison:
    """``strangers`` are hashes of transactions that another holder of a lane's key has sent. With
    ``is_deep_reorg``, the chain took back blocks that were at depth."""

    history: History
    chain: Chain
    strangers: frozenset[str] = field(default_factory=frozenset)
    is_deep_reorg: bool = False

    @cached_property
    def signers(self) -> dict[str, str]:
        """The lanes, by the address of their signer."""
        return {state["signer_address"]: key for key, state in self.history.lanes.items()}

    @cached_property
    def specified(self) -> set[tuple[Any, ...]]:
        """Every transaction that a journaled intent specifies."""
        names = ("chain", "signer", "nonce", "to", "data", "value", "gas", "max_fee", "max_tip")
        return {
            tuple(
                str(each.params[name]) if name == "value" else each.params[name] for name in names
            )
            for each in self.history.asked(SUBMIT)
        }

    def is_ours(self, found: Transaction) -> bool:
        """Whether a journaled intent specifies exactly this transaction."""
        essence = (
            found.chain, found.sender, found.nonce, found.to, found.data, str(found.value),
            found.gas, found.max_fee, found.max_tip,
        )  # fmt: skip
        return found.type == TYPE_2 and found.hash == found.real_hash and essence in self.specified

    def deed(self, found: Transaction) -> Deed:
        return deed_of(self.chain.id, found.sender, found.to, found.data)

    @cached_property
    def landed(self) -> dict[Deed, list[Transaction]]:
        """The successful transactions of each step of each record."""
        deeds: defaultdict[Deed, list[Transaction]] = defaultdict(list)
        for each in self.chain.transactions:
            if each.is_success:
                deeds[self.deed(each)].append(each)
        return dict(deeds)

    def findings(self) -> Iterator[Finding]:
        yield from self._journaled()
        yield from self._effects()
        yield from self._lists()
        yield from self._nonces()
        yield from self._outcomes()
        yield from self._hashes()

    # --- transactions

    def _journaled(self) -> Iterator[Finding]:
        """Each transaction of a lane's signer is what a journaled intent specifies, or is declared
        as a stranger's."""
        for each in self.chain.transactions:
            if each.sender not in self.signers or each.hash in self.strangers:
                continue
            if not self.is_ours(each):
                step, key = self.deed(each)
                message = f"{each.hash} (nonce {each.nonce}) is not what a journaled intent says"
                yield Finding(law="not_journaled", key=key, step=step, message=message)

    def _effects(self) -> Iterator[Finding]:
        """At most one effect of each step of each record has landed; exactly one if COMPLETED."""
        for key, record in sorted(self.history.records.items()):
            for step in tx_steps(record):
                found = self.landed.get(Deed(step, key), [])
                ours = [each for each in found if each.hash not in self.strangers]
                if step in ("SUBMIT_CLOSE_EPOCH", "REGISTER_VALIDATOR"):  # anyone's counts
                    ours = [each for each in ours if each.sender == signer_of(record, step)]
                if len(ours) > 1:
                    names = ", ".join(each.hash for each in ours)
                    yield Finding(law="landed_twice", key=key, step=step, message=names)
                if tag(record["state"]) == "COMPLETED" and not found:
                    message = "COMPLETED, and no transaction of this step has landed"
                    yield Finding(law="not_landed", key=key, step=step, message=message)

    def _lists(self) -> Iterator[Finding]:
        """The contract's lists have each entry once, but for those of declared strangers."""
        for key, record in sorted(self.history.records.items()):
            given = record["input"]
            studio, data_hash = given["studio_address"], given["data_hash"]
            if tag(record["type"]) == "WorkSubmission":
                step = "REGISTER_WORK"
                entries = list(self.chain.registrations.get(studio, ()))
                count = entries.count((data_hash, given["signer_address"]))
            elif tag(record["type"]) == "ScoreSubmission":
                step = "REGISTER_VALIDATOR"
                words = (studio, data_hash, given["worker_address"], given["signer_address"])
                count = self.chain.validators.get(words, 0)
            else:
                continue
            found = self.landed.get(Deed(step, key), [])
            others = [each for each in found if self._is_strange(each, signer_of(record, step))]
            if count - len(others) > 1:
                yield Finding(law="listed_twice", key=key, step=step, message=f"{count} entries")

    def _is_strange(self, found: Transaction, signer: str) -> bool:
        return found.hash in self.strangers or found.sender != signer

    def _nonces(self) -> Iterator[Finding]:
        """A lane leaves no gap: each nonce that it submitted is in the chain, but for the one in
        flight; each nonce has one transaction."""
        submitted: defaultdict[str, set[int]] = defaultdict(set)
        for each in self.history.asked(SUBMIT):
            submitted[each.params["signer"]].add(each.params["nonce"])
        for signer, lane in sorted(self.signers.items()):
            nonces = sorted(each.nonce for each in self.chain.of(signer))
            if nonces != list(range(len(nonces))):
                message = f"its nonces in the chain are {nonces}"
                yield Finding(law="nonces_not_contiguous", key=lane, step="LANE", message=message)
            current = self.history.lanes[lane]["current"]
            in_flight = {current["nonce"]} if current is not None else set()
            missing = sorted(submitted[signer] - set(nonces) - in_flight)
            if missing and not self.is_deep_reorg:
                message = f"it left the nonces {missing}, and no transaction has consumed them"
                yield Finding(law="nonce_left", key=lane, step="LANE", message=message)

    # --- outcomes

    def _outcomes(self) -> Iterator[Finding]:
        for each in self.history.settlements:
            name = tag(each.outcome)
            problem = None
            if name in ("Confirmed", "Reverted"):
                problem = self._landed_problem(each, is_success=name == "Confirmed")
            elif name == "Foreign":
                problem = self._foreign_problem(each)
            if problem:
                key, step = each.owner[1], self._step_of(each)
                yield Finding(
                    law=f"{name.lower()}_wrong", key=key, step=step, seq=each.seq, message=problem
                )

    def _step_of(self, settled: Settlement) -> str:
        """The step of the record whose request it is, by the lane's intent to submit it."""
        nonces = {each["nonce"] for each in settled.attempts}
        for each in self.history.asked(SUBMIT):
            params = each.params
            if each.key == settled.lane and params["nonce"] in nonces and params["data"]:
                deed = deed_of(params["chain"], params["signer"], params["to"], params["data"])
                if deed.key == settled.owner[1]:
                    return deed.step
        return "LANE"

    def _landed_problem(self, settled: Settlement, *, is_success: bool) -> str | None:
        told = settled.outcome["$value"]
        found = self.chain.by_hash(told["hash"])
        if found is None:
            return f"{told['hash']} is not in the chain"
        is_attempt = found.hash in {each["hash"] for each in settled.attempts}
        # A stranger's that does the same cannot be told from one whose hash a crash has lost.
        is_same = found.hash in self.strangers and self.deed(found).key == settled.owner[1]
        if not (is_attempt and self.is_ours(found)) and not is_same:
            return f"{found.hash} is no attempt of this request"
        if found.is_success != is_success:
            return f"{found.hash} has success {found.is_success}"
        if found.block != told["block"] and not self.is_deep_reorg:
            return f"{found.hash} is in block {found.block}, not in {told['block']}"
        return None

    def _foreign_problem(self, settled: Settlement) -> str | None:
        told = settled.outcome["$value"]
        found = self.chain.by_hash(told["hash"])
        if found is None:
            is_known = self.is_deep_reorg and told["hash"] in self.strangers
            return None if is_known else f"{told['hash']} is not in the chain"
        if f"{self.chain.id}/{found.sender}" != settled.lane:
            return f"{found.hash} is of {found.sender}"
        if found.nonce not in {each["nonce"] for each in settled.attempts}:
            return f"{found.hash} has nonce {found.nonce}, which this request never had"
        if self.is_ours(found) or found.hash not in self.strangers:
            return f"{found.hash} is no stranger's"
        return None

    def _hashes(self) -> Iterator[Finding]:
        """A hash in a record's progress is in the chain, and it carries out this very step."""
        for key, record in sorted(self.history.records.items()):
            for step in tx_steps(record):
                hash = record["progress"][f"{progress_of(step)}_tx_hash"]
                if hash is None:
                    continue
                found = self.chain.by_hash(hash)
                if found is None or not found.is_success or self.deed(found) != (step, key):
                    message = f"{hash} of its progress is not in the chain, or is another one"
                    yield Finding(law="progress_wrong", key=key, step=step, message=message)
