"""A store is replayed with the real sandbox (spec/audit.md, A-19)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import wasmtime

import tests.memory_world
from aos.core.journal.faults import FaultKind
from aos.core.journal.frame import seal
from aos.core.journal.inputs import StartInput
from aos.core.journal.records import Faulted, Step
from aos.errors import BadUsage, Unavailable
from aos.fastcore import fast_kernel
from aos.fastcore.core_kind import CoreKind
from aos.fastcore.errors import CoreDefect, CoreFull
from aos.prove.replay.replay_report import Divergence
from aos.prove.replay.replay_store import replay_store
from aos.sandbox.config import PULLEY, WASMTIME
from aos.sandbox.engine import Sandbox
from aos.sandbox.stack import run_on_big_stack
from aos.store.memory_store import MemoryStore
from aos.values.cbor import encode
from tests.memory_world import MemoryWorld, air, route, schema, workflow
from tests.prove.journals import store_of

OUTPUT = encode({"state": encode({"n": 7}), "status": "completed"})

# Answers every event with the same output; an event of more than 200 bytes makes it loop for ever.
WAT = """
(module
  (memory (export "memory") 1)
  (data (i32.const 0) "{output}")
  (func (export "alloc") (param i32) (result i32) (i32.const 4096))
  (func (export "step") (param $at i32) (param $size i32) (result i64)
    (if (i32.gt_u (local.get $size) (i32.const 200)) (then (loop (br 0))))
    (i64.const {size})))
"""


def wasm_world() -> MemoryWorld:
    """A world whose one workflow is WebAssembly: three steps, the last of which burns all fuel."""
    escaped = "".join(f"\\{byte:02x}" for byte in OUTPUT)
    wasm = bytes(wasmtime.wat2wasm(WAT.format(output=escaped, size=len(OUTPUT))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tests.memory_world, "wasm", lambda *_: wasm)
        nodes = [
            schema("t/Say@1", {"record": {"text": {"text": {}}}}),
            schema("t/N@1", {"record": {"n": {"int": {}}}}),
            workflow(
                "t/w@1", state="t/N@1", event="t/Say@1", key_schema="t/Key@1",
                limits={"fuel": 100_000},
            ),
            schema("t/Key@1", {"text": {}}),
        ]  # fmt: skip
        loaded = air(nodes, [route("t/Say@1", "t/w@1", "text")])
    world = MemoryWorld(loaded, {})
    world.blobs.update(loaded.modules)
    world.seal()

    def run() -> None:
        world.sandbox = sandbox = Sandbox(world.read)
        world.kernel.admit(StartInput(host=(("wasmtime", WASMTIME),)), world.stamp())
        for text in ("a", "b", "c" * 300):
            world.send("t/Say@1", {"text": text})
        world.run()
        sandbox.close()

    run_on_big_stack(run)
    return world


def test_wasm_steps_and_faults_are_reproduced_in_the_sandbox() -> None:
    """A-10, A-19. Even fuel is the same with another stack bound."""
    world = wasm_world()
    faults = [each for each in world.records() if isinstance(each, Faulted)]
    assert [each.fault.kind for each in faults] == [FaultKind.FUEL]
    reached: list[int] = []

    report = replay_store(store_of(world), on_progress=reached.append)

    assert report.identical
    assert (report.steps, report.faults, report.environmental, report.fuel_taken) == (3, 1, 0, 0)
    assert reached == [frame.header.last for frame in world.frames]


def test_the_portable_interpreter_computes_the_same() -> None:
    """A-19."""
    assert replay_store(store_of(wasm_world()), target=PULLEY).identical


def test_another_module_under_the_same_world_is_a_difference() -> None:
    """A-10. The journal of a world that was run by something else than its modules."""
    world = wasm_world()
    state = encode({"n": 8})
    step = next(each for each in world.records() if isinstance(each, Step))
    last = world.sealed[-1]
    kept = [data.replace(encode({"n": 7}), state) for data in last.frame.records]
    frame, tip = seal(world.sealed[-2].tip, kept, last.frame.salt)
    world.sealed[-1] = replace(last, frame=frame, tip=tip)

    with pytest.raises(Divergence) as caught:
        replay_store(store_of(world))

    assert (caught.value.record, caught.value.field) == (step.seq, "state")
    assert caught.value.differences[0].places[0].recomputed == 7


def test_an_empty_store_has_nothing_to_replay() -> None:
    with pytest.raises(BadUsage, match="the journal is empty"):
        replay_store(MemoryStore())


def test_an_exception_in_progress_ends_the_replay() -> None:
    """A-19."""

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay_store(store_of(wasm_world()), on_progress=stop)


@pytest.mark.parametrize(
    ("kind", "way_out"),
    [
        (CoreDefect, "the journal is not changed; --core python replays it"),
        (CoreFull, "start again with a larger value, or with --core python"),
    ],
)
def test_a_kernel_that_fails_itself_ends_a_replay_in_words(
    kind: type[CoreDefect], way_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-36"""

    def opens(**_: object) -> None:
        raise kind("operation fold of the second kernel: it trapped")

    monkeypatch.setattr(fast_kernel, "open_fast_kernel", opens)

    with pytest.raises(Unavailable) as raised:
        replay_store(store_of(wasm_world()), core=CoreKind.FAST)

    assert "operation fold of the second kernel: it trapped" in str(raised.value)
    assert way_out in str(raised.value)
