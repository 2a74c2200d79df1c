"""All laws on one journal and one chain."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.gateway.checker.blocks import Chain, Rpc, read_chain
from tests.gateway.checker.chain_laws import Comparison
from tests.gateway.checker.findings import Finding
from tests.gateway.checker.history import History
from tests.gateway.checker.lane_laws import check_lanes
from tests.gateway.checker.record_laws import check_records


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The doings of a test on the chain. ``strangers`` are hashes of transactions with a lane's key
    that no lane has sent; ``is_deep_reorg`` says that blocks at depth were taken back."""

    strangers: frozenset[str] = field(default_factory=frozenset)
    is_deep_reorg: bool = False


NOTHING = Declared()


def check(history: History, chain: Chain, declared: Declared = NOTHING) -> list[Finding]:
    """Return every broken law."""
    compared = Comparison(
        history=history,
        chain=chain,
        strangers=declared.strangers,
        is_deep_reorg=declared.is_deep_reorg,
    )
    faults = [
        Finding(law="faulted", key=key, step="-", seq=seq, message=message)
        for seq, key, message in history.faults
    ]
    return sorted({*faults, *check_records(history), *check_lanes(history), *compared.findings()})


def chain_of(history: History, rpc: Rpc) -> Chain:
    """Read the chain that the records of this history are about."""
    inputs = [each["input"] for each in history.records.values()]
    return read_chain(
        rpc,
        {each["studio_address"] for each in inputs},
        {
            (
                each["studio_address"], each["data_hash"], each["worker_address"],
                each["signer_address"],
            )
            for each in inputs
            if each["worker_address"] is not None
        },
    )  # fmt: skip
