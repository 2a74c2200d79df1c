"""Negative controls: executors and modules with a known fault, which the matrix must catch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.gateway.matrix.modes import QUICK, all_runs
from tests.gateway.matrix.runs import Result, Run
from tests.gateway.matrix.site import MANIFEST
from tests.gateway.matrix.zygote import ROOT

MUTANTS: Final = ROOT / "tests" / "gateway" / "mutants"
MODULE: Final = "../../../modules/gateway/gateway.wasm"
NAIVE: Final = ("tip_nonce", "tip_fate")

CHOSEN: Final = (
    "every send: after the send 3",
    "down: dropped: before the look 3",
    "sharing the key: other before send 3, no death",
    "down: pending: after the reply 3",
    "refusing: send 3, no death",
    "refusing: send 1, no death",
    "refusing: send 2, no death",
    "slow: no death",
    "reorganising: no death, 0",
    "down: nonce taken: after the send 1",
    "down: reorg below depth: before the look 3",
    "every send: after the reply 2",
)
"""Runs of the matrix in which these faults show, those first that catch most. A node refuses in
three of them: while the machine is busy, it can have room again before the one send comes."""

CAUGHT_MAX: Final = 2
"""A control needs no more runs once so many have caught it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One fault: an executor in place of the right one, or a module."""

    name: str
    executors: str | None = None
    module: Path | None = None

    def runs(self, folder: Path) -> Iterator[Run]:
        """The chosen runs with this fault. ``folder`` gets the manifest."""
        known = {str(each): each for each in all_runs()}
        changes: dict[str, object] = {"mode": f"control {self.name}"}
        if self.executors is not None:
            changes["executors"] = self.executors
        if self.module is not None:
            changes["manifest"] = manifest_with(self.module, folder)
        for name in CHOSEN:
            run = known[name]
            policy: Mapping[str, int] = {**run.policy, **QUICK}
            yield replace(run, name=name, policy=policy, **changes)  # type: ignore[arg-type]


def controls() -> list[Control]:
    """Both naive executors, and each mutant of the module that has been built."""
    naive = [Control(name=each, executors=f"tests.gateway.naive:{each}") for each in NAIVE]
    mutants = sorted(MUTANTS.glob("*.wasm")) if MUTANTS.exists() else []
    return [*naive, *(Control(name=each.stem, module=each) for each in mutants)]


def manifest_with(module: Path, folder: Path) -> Path:
    """The gateway's manifest with another module, in a folder of its own."""
    made = folder / f"manifest-{module.stem}"
    if not made.exists():
        shutil.copytree(MANIFEST / "air", made / "air")
        file = made / "air" / "generated.air.json"
        text = file.read_text("utf-8")
        assert text.count(json.dumps(MODULE)) == 1
        shutil.copy(module, made / "module.wasm")
        file.write_text(text.replace(MODULE, "../module.wasm"), "utf-8")
    return made


def is_caught(result: Result) -> bool:
    """Whether the checker named a work, a score, an epoch or a lane, and its step."""
    return any(each.key.startswith("31337/") and each.step for each in result.findings)
