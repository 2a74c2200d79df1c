"""Judge a world that is over: export it, replay it, and compare it with the chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.gateway.checker.__main__ import HttpRpc
from tests.gateway.checker.blocks import Chain
from tests.gateway.checker.check import Declared, chain_of, check
from tests.gateway.checker.findings import Finding
from tests.gateway.checker.history import History, read_history, tag
from tests.gateway.checker.journal import Map, read_bundle
from tests.gateway.matrix.scenes import STRANGE_GAS
from tests.gateway.matrix.site import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``code`` is the exit code of export and replay: 0 if the replay is byte-identical."""

    code: int
    records: int
    history: History
    chain: Chain
    findings: Sequence[Finding]


def verdict(site: Site, folder: Path, url: str, *, is_deep_reorg: bool = False) -> Verdict:
    """Judge the world in ``folder``, where its bundle is written too. ``url`` is the node's."""
    bundle = folder / "world.aos"
    code = site.zygote.run("judge", folder / "log", world=str(folder / "world"), bundle=str(bundle))
    journal = read_bundle(bundle)
    history = read_history(journal)
    chain = chain_of(history, HttpRpc(url))
    strangers = frozenset(each.hash for each in chain.transactions if each.gas == STRANGE_GAS)
    declared = Declared(strangers=strangers, is_deep_reorg=is_deep_reorg)
    return Verdict(
        code=code,
        records=len(journal.records),
        history=history,
        chain=chain,
        findings=check(history, chain, declared),
    )


def end_of(record: Map | None) -> str:
    """COMPLETED, the code of a failure, or the state and its cause."""
    if record is None:
        return "none"
    state, error = tag(record["state"]), record["error"]
    if state == "FAILED":
        return str(error["code"])
    return state if error is None else f"{state} ({error['code']})"
