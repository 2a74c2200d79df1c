"""Random worlds of cases, which migrate, fork, forget and start again; one seed names one world.

The simulator (spec/simulation.md) has no migrations and no forks. No model predicts these worlds:
they are for kernels that must agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from aos.core.decide.answers import Refusal
from aos.core.journal.inputs import CANCEL_OPEN, KEEP_OPEN, MIGRATE, PIN, STRICT
from aos.core.limits import Limits
from aos.values.cbor import Value, encode
from aos.values.digests import Hash
from tests.core.cases import CASE, case, cases, go, loaded, module
from tests.core.decide.test_migrate import count, migrating, to_counted
from tests.memory_world import Envelope, MemoryWorld, Trap, state_of

IDS: Final = tuple("abcdefg")
NOTES: Final = ("go", "go", "go", "done", "fail", "forget", "tell:b", "tell:c", "long " * 300)
COMMANDS: Final = (
    "send", "send", "send", "send", "pay", "pay", "fail", "step", "step", "run", "run", "control",
    "control", "apply", "migrate", "snapshot", "rebase", "restart", "spill", "fork", "stream",
)  # fmt: skip
STEPS: Final = 70


class RandomCases:
    """Plays one world; ``counts`` has the commands, admitted and refused."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(f"cases {seed}")
        self.counts: Counter[str] = Counter()
        self.version = 1
        self.forks = 0
        self.document: Hash | None = None
        self.world = cases()
        self.world.seal()
        self.world.limits = Limits(
            chunk=16,
            chunks_held=1,
            page_items=2,
            delta_bytes=self.chance.choice([0, 200, 4000]),
            slice_cells=self.chance.choice([1, 3, 4096]),
            kept_bytes=self.chance.choice([1, 500]),
            blockers=3,
        )
        if self.chance.random() < 0.5:
            self.world.keep = self._keep
        self._start(None)

    def play(self) -> MemoryWorld:
        for _ in range(STEPS):
            command = self.chance.choice(COMMANDS)
            answer = getattr(self, f"_{command}")()
            self.counts[command] += not isinstance(answer, Refusal)
            self.counts[f"{command} refused"] += isinstance(answer, Refusal)
        self.world.run()
        return self.world

    def _start(self, document: Hash | None) -> None:
        """Start a process, whose host spills from the beginning, as a rebase needs it."""
        self.world.restart(document)
        self._spill()

    def _keep(self, blobs: Mapping[Hash, bytes]) -> None:
        self.counts["keep"] += 1
        self.world.blobs.update(blobs)

    def _send(self) -> Any:
        chance = self.chance
        value = go(chance.choice(IDS), chance.choice([0, 0, 1, 2]), chance.choice(NOTES))
        id = f"id {chance.randrange(12)}" if chance.random() < 0.4 else None
        return self.world.send("c/Go@1", value, id)

    def _intent(self) -> Any:
        intents = self.world.open()
        return self.chance.choice(intents) if intents else None

    def _pay(self) -> Any:
        intent = self._intent()
        if intent is None:
            return None
        payload: Value = {"ref": "r" if self.chance.random() < 0.8 else 5}
        return self.world.settle(intent, payload)

    def _fail(self) -> Any:
        intent = self._intent()
        return None if intent is None else self.world.fail(intent, "down")

    def _stream(self) -> Any:
        intent = self._intent()
        if intent is None:
            return None
        return self.world.stream(intent, self.chance.randrange(3))

    def _step(self) -> None:
        self.world.step()

    def _run(self) -> None:
        self.world.run()

    def _control(self) -> Any:
        chance, world = self.chance, self.world
        action = chance.choice(["retry", "skip", "end", "remove", "unpin", "cancel", "erase"])
        if action == "cancel":
            intent = self._intent()
            return None if intent is None else world.control(action, intent=intent.intent)
        if action == "erase":
            return world.control(action, value=chance.choice(sorted(world.blobs)))
        more: dict[str, Any] = {}
        if action == "end":
            more = {"status": chance.choice(["completed", "failed", "cancelled"]), "why": "over"}
        if action in ("retry", "skip") and chance.random() < 0.5:
            more = {"restamp": True}
        return world.control(action, cell=case(chance.choice(IDS)), **more)

    def _apply(self) -> Any:
        self.version += 1
        mode = self.chance.choice([STRICT, PIN, PIN])
        functions = {CASE: module(f"v{self.version}")}
        return self.world.apply(loaded(self.version), functions, mode=mode)

    def _migrate(self) -> Any:
        self.version += 1
        how = self.chance.choice([count, count, count, _some_trap, _null, _unfit])
        functions = {CASE: migrating(f"v{self.version}c", how)}
        if self.chance.random() < 0.7:
            self.world.run()
        return self.world.apply(to_counted(self.version), functions, mode=MIGRATE)

    def _snapshot(self) -> Any:
        answer = self.world.snapshot()
        self.world.seal()
        self.document = self.world.sealed[-1].snapshots[-1].document
        return answer

    def _rebase(self) -> None:
        if self.document is not None:
            self.world.kernel.rebase(self.document)

    def _restart(self) -> None:
        self.world.seal()
        if self.chance.random() >= 0.3:
            self._start(self.document)
        else:
            # A kernel is rebased to snapshots that it took while it spilled, or began with.
            self._start(None)
            self.document = None
        self.counts["from a snapshot"] += self.document is not None

    def _spill(self) -> None:
        self.world.kernel.spill(resting_max=self.chance.choice([1, 2, None]))

    def _fork(self) -> None:
        if self.forks < 2:
            self.forks += 1
            self.world.fork(self.chance.choice([CANCEL_OPEN, KEEP_OPEN]), name=f"f{self.forks}")


def _some_trap(envelope: Envelope) -> Any:
    if len(state_of(envelope)) % 2:
        raise Trap
    return count(envelope)


def _null(_: Envelope) -> Any:
    return {"state": None}


def _unfit(_: Envelope) -> Any:
    return {"state": encode({"log": [5], "count": 1})}
