"""Worlds of flows in the simulator: the module of the random programs runs in the real sandbox,
under a script of crashes, lost commits, snapshots, receipts in any order, and manifests (SIM-8).

The checks are those of any seed. The model of flows (``tests/flow/model.py``) also follows the
durable journal, and a store on disk keeps the states as deltas.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from aos.core.journal.frame import Head
from aos.core.journal.ports import Call
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Event, Manifest, Record, slot_bytes
from aos.host.folder.restore import restore
from aos.manifest.load import load
from aos.sandbox.engine import Sandbox
from aos.sandbox.inspect import check_module
from aos.sandbox.stack import run_on_big_stack
from aos.store.lmdb_store import LmdbStore
from aos.values.digests import Hash
from tests.flow.changes import FLAGS, changed
from tests.flow.comparison import RUN, Comparison
from tests.flow.model import SECOND
from tests.flow.programs import FOLDER, manifest_nodes, program_of
from tests.memory_world import WORLD_KEY
from tests.modules.guests import MODULES
from tests.sim import ends, kernels, model_follow, script
from tests.sim.behaviour import Modules, Outcome
from tests.sim.failure import SimFailure
from tests.sim.model_settle import receipt_message
from tests.sim.naive import TIMER, cbor, plain
from tests.sim.plan import VERSIONS, Plan
from tests.sim.script import Chance, Command
from tests.sim.view import view
from tests.sim.world import SimStore, SimWorld

KEYS: Final = ("a", "b", "c")
OWN: Final = ("node", WORLD_KEY)
ENTRYPOINTS: Final = {1: ("run", "quiesce"), 2: ("later", "in_place"), 3: ("run", "in_place")}
"""Of each version of the manifest: the entrypoint of the flow, and how it takes over."""

FUEL: Final = 10_000_000_000
MEMORY_BYTES: Final = 64 * 2**20
FASTER: Final = 10
"""The clock of the simulator is slow: the programs sleep and pause this much shorter."""


# Manifests and modules


class FlowPlans:
    """The versions of the manifest."""

    seed = 0

    def __getitem__(self, version: int) -> Plan:
        return _plan(version)

    def made(self) -> list[Plan]:
        return [_plan(version) for version in range(1, VERSIONS + 1)]


@cache
def _plan(version: int) -> Plan:
    entrypoint, upgrade = ENTRYPOINTS[version]
    nodes = manifest_nodes(entrypoint, upgrade=upgrade)
    module = next(each for each in nodes if each["$kind"] == "defmodule")
    other = deepcopy(module)
    other["name"] = "f/part.module@1"
    other["runtime"]["artifact"]["path"] = "part.wasm"
    nodes.append(other)
    for each in nodes:
        if each["$kind"] == "manifest":
            each["modules"].append({"name": other["name"]})
        if each.get("name") == "f/part@1" and each["$kind"] == "defworkflow":
            each["impl"]["module"] = other["name"]
    files = {
        "m.air.json": json.dumps(nodes).encode(),
        "flow-programs.wasm": _marked(entrypoint),
        "part.wasm": _marked("part"),
    }
    given = load(files, check=check_module)
    return Plan(0, version, given, (), (), {TIMER: (OWN,)}, frozenset())


def _marked(entrypoint: str) -> bytes:
    """The module with the entrypoint in a section of its own: a module of the simulator has one."""
    name = entrypoint.encode()
    wasm = (MODULES / f"{FOLDER}.wasm").read_bytes()
    return wasm + bytes([0, len(name) + 1, len(name)]) + name


class FlowModules(Modules):
    """The real modules, in a sandbox; each run is remembered."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._entrypoints: dict[bytes, str] = {}

    def add(self, plan: Plan) -> None:
        for workflow in plan.loaded.effective.workflows.values():
            self._entrypoints[workflow.module.hash] = workflow.entrypoint
        _wasm.update(plan.loaded.modules)

    def _decide(self, module: bytes, given: bytes, most: int) -> Outcome:
        ran = _sandbox().run(
            Call(
                module=Hash(module), entrypoint=self._entrypoints[module], input=given, fuel=FUEL,
                memory_bytes=MEMORY_BYTES, output_bytes=most,
            )
        )  # fmt: skip
        return ran.output, None if ran.fault is None else ran.fault.kind.value, ran.fuel


_wasm: dict[Hash, bytes] = {}


@cache
def _sandbox() -> Sandbox:
    return Sandbox(_wasm.__getitem__)


# Script


def script_of(seed: int) -> list[Command]:
    chance = Chance(f"flows {seed}")
    usual = {
        "begin": 4, "message": 8, "control": 3, "step": 26, "settle": 24, "again": 3, "seal": 6,
        "commit": 12, "retry": 4, "cancel": 1, "apply": 2, "crash": 1, "no_room": 0.5, "lost": 0.6,
        "kept": 0.6, "stop": 1, "snapshot": 7,
    }  # fmt: skip
    weights = [weight * chance.choice([0.3, 1, 1, 2]) for weight in usual.values()]
    kinds = chance.choices(list(usual), weights, k=chance.choice([40, 80, 120]))
    first = [Command("apply", 0), Command("flush", 0)]
    first += [Command("begin", chance.getrandbits(32)) for _ in range(3)]
    return [*first, *(Command(kind, chance.getrandbits(32)) for kind in kinds)]


def begin(world: SimWorld, chance: Chance) -> None:
    """Start a program; half of them are other ones in version 2."""
    program = program_of(chance, key=chance.choice(KEYS))
    if chance.random() < 0.5:
        program = changed(program, chance)
    for node in program["nodes"]:
        node["flags"].sort(key=lambda flag: (len(flag), flag))
        for name in ("span", "limit"):
            if node[name] is not None and 0 < node[name] < 2**62:
                node[name] //= FASTER
    _event(world, "f/Run@1", program)


def message(world: SimWorld, chance: Chance) -> None:
    for _ in range(chance.choice([1, 1, 2])):
        value = {"id": _key(world, chance), "text": f"m{chance.randrange(10**6)}"}
        _event(world, chance.choice(["f/Note@1", "f/Note@1", "f/Bell@1"]), value)


def control(world: SimWorld, chance: Chance) -> None:
    cells = list(world.state.cells.values())
    if not cells:
        return
    workflow, key = chance.choice(cells).id
    command = chance.choice(
        [
            {"$tag": "Cancel", "$value": {"rollback": chance.random() < 0.8}},
            {"$tag": "Resume", "$value": {"skip": chance.random() < 0.3}},
            {"$tag": "Continue"},
        ]
    )
    schema = "f/RunControl@1" if workflow == RUN else "f/PartControl@1"
    _event(world, schema, {"instance": plain(key), "command": command})


def _key(world: SimWorld, chance: Chance) -> str:
    keys: list[Any] = [plain(each.id[1]) for each in world.state.cells.values()]
    return str(chance.choice(keys if keys and chance.random() < 0.95 else KEYS))


def _event(world: SimWorld, schema: str, value: Any) -> None:
    world.submit("event", {"schema": schema, "value": cbor(value), "submission_id": None})


def settle(world: SimWorld, chance: Chance) -> None:
    """Answer effects in any order."""
    tasks = script._tasks(world, chance)
    for _ in range(chance.choice([1, 2, 4])):
        if not tasks:
            return
        task = chance.choice(tasks)
        is_timer = task.intent.effect.name == TIMER
        status = chance.choices(["ok", "error", "timeout", "canceled"], [14, 3, 1, 1])[0]
        signer = script._true_signer(task, chance)
        given = script._unsigned(world, task, "ok" if is_timer else status, signer, chance)
        if is_timer:
            given["payload"] = cbor({"delivered_at_ns": max(0, world.now_ns), "key": None})
        elif status == "ok":
            params: Any = plain(slot_bytes(task.intent.params, world.kernel.read))
            given["payload"] = cbor(
                {"note": params["what"]} if chance.random() < 0.95 else "misfit"
            )
        else:
            code = chance.choice(["broken", "exception", "rollback", "unknown_outcome"])
            is_retryable = chance.random() < 0.5
            given["payload"] = cbor({"code": code, "message": "m", "retryable": is_retryable})
        given["signature"] = signer[1].sign(receipt_message(world.id, given) or b"").signature
        script._tell(world, given, chance)


_DO: Final[dict[str, Callable[[SimWorld, Chance], None]]] = {
    **script._DO,
    **{each.__name__: each for each in (begin, message, control, settle)},
}


def play(world: SimWorld, commands: Sequence[Command]) -> None:
    """Run a script and bring the world to rest."""
    for command in commands:
        world.trace.append(("do", command))
        chance = Chance(command.number)
        world.now_ns += chance.choice([0, 1000, SECOND // 4, SECOND, 3 * SECOND])
        _DO[command.what](world, chance)
    world.settle_down()


# A seed


class TwoStores(SimStore):
    """A store that has a twin on the disk, which keeps states as deltas."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.twin = LmdbStore.create(folder)

    def append(self, group: Any, head: Head, **more: Any) -> None:
        is_durable = self.next in ("ok", "kept")
        try:
            super().append(group, head, **more)
        finally:
            if is_durable:
                self.twin.append(group, head, **more)

    def put_blobs(self, blobs: Any) -> None:
        super().put_blobs(blobs)
        self.twin.put_blobs(blobs)


@contextmanager
def stores() -> Iterator[TwoStores]:
    with TemporaryDirectory() as place:
        store = TwoStores(Path(place) / "store")
        try:
            yield store
        finally:
            store.twin.close()


def simulate(seed: int, commands: Sequence[Command] | None = None) -> Comparison:
    """Run a seed, or some of its commands, twice, and check everything. Return the comparison of
    its flows with their model.

    Raises:
        SimFailure: The world broke a guarantee.
    """
    return run_on_big_stack(lambda: _simulate(seed, commands))


def _simulate(seed: int, commands: Sequence[Command] | None) -> Comparison:
    given = script_of(seed) if commands is None else commands
    script.know_keys(seed)
    trace: list[tuple[Any, ...]] = []
    modules = FlowModules(seed)
    with ends.as_failures(trace), stores() as store:
        with kernels.in_lockstep():
            world = SimWorld(seed, modules=modules, trace=trace, plans=FlowPlans(), store=store)
            play(world, given)
            ends.finish(world)
            check_twin(world, store)
            compared = compare(world)
        with kernels.in_turn(seed):
            again = SimWorld(seed, modules=modules, checks=False, plans=FlowPlans())
            play(again, given)
        ends.same_frames(world.frames, again.frames)
        return compared


def check_twin(world: SimWorld, store: TwoStores) -> None:
    """The store with deltas has the same bytes, and a world that starts from it the same state."""
    hashes = sorted(store.blob_hashes())
    if hashes != sorted(store.twin.blob_hashes()):
        raise SimFailure("deltas", "the twin on the disk has other blobs")
    for hash in hashes:
        if store.blob(hash) != store.twin.blob(hash):
            raise SimFailure("deltas", f"blob {hash.hex()} is another in the twin on the disk")
    state = restore(store.twin, world.id, limits=world.limits)
    live = view(world.state, world.values)
    model_follow.compare("state from the twin on the disk", live, view(state, world.values))


def compare(world: SimWorld) -> Comparison:
    """Each turn in the durable journal is that of the model of flows. Programs that are other ones
    in version 2 do not count in a world that has come to it."""
    records: list[Record] = [from_bytes(data) for each in world.frames for data in each.records]
    comparison = Comparison(lambda value: world.values[value])
    if has_come_to_2(records):
        comparison.left_out |= {
            (RUN, cbor(program["id"]))
            for program in started(world, records)
            if any({*FLAGS} & {*node["flags"]} for node in program["nodes"])
        }
    try:
        comparison.follow(records)
        comparison.compare_states()
    except AssertionError as difference:
        raise SimFailure("flows", str(difference)) from difference
    return comparison


def has_come_to_2(records: Sequence[Record]) -> bool:
    second = _plan(2).loaded.effective.hash
    return any(isinstance(each, Manifest) and each.document.hash == second for each in records)


def started(world: SimWorld, records: Sequence[Record]) -> list[Any]:
    """Every program that was to start."""
    return [
        plain(slot_bytes(each.value, lambda value: world.values[value]))
        for each in records
        if isinstance(each, Event) and each.schema == "f/Run@1"
    ]
