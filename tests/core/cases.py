"""A workflow in versions: each says in the state which version of its module ran, and on what.

An event is ``{id, asks, note}``; ``note`` may be ``done`` (declare completed), ``fail`` (fault),
``forget`` (delete) or ``tell:ID`` (emit ``Go`` for another case).
"""

from __future__ import annotations

from typing import Any

from aos.core.journal.frame import Tip
from aos.core.journal.records import CellId
from aos.core.snapshot.load import load
from aos.core.snapshot.take import take
from aos.core.state.cell import Cell
from aos.core.state.fold import fold_frame
from aos.core.state.state import State
from aos.manifest.load import Loaded
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash
from tests.core.decide.test_isolation import same
from tests.memory_world import (
    Envelope,
    MemoryWorld,
    Module,
    air,
    ask,
    effect,
    emit,
    event_of,
    route,
    schema,
    state_of,
    workflow,
)

CASE = "c/case@1"
PAY = "c/pay@1"
TEXT: dict[str, Any] = {"text": {}}
LOG: dict[str, Any] = {"list": TEXT}
COUNTED: dict[str, Any] = {"record": {"log": LOG, "count": {"nat": {}}}}
GO: dict[str, Any] = {"record": {"id": TEXT, "asks": {"nat": {}}, "note": TEXT}}
ARMS = {"Paid": {"ref": "sys/EffectReceiptEnvelope@1"}}


def module(version: str) -> Module:
    """``state`` may be the log itself, or, in versions that end in ``c``, a record around it."""
    counts = version.endswith("c")

    def run(envelope: Envelope) -> Envelope:
        held = state_of(envelope)
        log = list((held["log"] if isinstance(held, dict) else held) or [])
        event = event_of(envelope)
        value = event["$value"]
        if event["$tag"] == "Paid":
            return {"state": state([*log, f"{version} paid"])}
        note = value["note"]
        if note == "fail":
            return {"fault": {"kind": "told", "message": "to fail"}}
        if note == "forget":
            return {"state": None}
        out: Envelope = {
            "state": state([*log, f"{version} {note}"]),
            "effects": [ask(PAY, {"n": n}) for n in range(value["asks"])],
        }
        if note == "done":
            out["status"] = "completed"
        if note.startswith("tell:"):
            out["domain_events"] = [emit("c/Go@1", go(note[5:]))]
        return out

    def state(log: list[str]) -> bytes:
        return encode({"log": list(log), "count": len(log)} if counts else list(log))

    return run


def go(id: str, asks: int = 0, note: str = "go") -> Value:
    return {"id": id, "asks": asks, "note": note}


def nodes(
    *, state: object = LOG, event: object = GO, arms: object = ARMS, receipt: object = TEXT,
    **more: object,
) -> list[dict[str, object]]:  # fmt: skip
    assert isinstance(arms, dict)
    return [
        schema("c/Go@1", event),
        schema("c/Id@1", TEXT),
        schema("c/Log@1", state),
        schema("c/Pay@1", {"record": {"n": {"nat": {}}}}),
        schema("c/Paid@1", {"record": {"ref": receipt}}),
        schema("c/CaseEvent@1", {"variant": {"Go": {"ref": "c/Go@1"}, **arms}}),
        effect(PAY, "c/Pay@1", "c/Paid@1"),
        workflow(
            CASE, state="c/Log@1", event="c/CaseEvent@1", key_schema="c/Id@1",
            **{"effects": [PAY], **more},  # type: ignore[arg-type]  # a table of fields
        ),
    ]  # fmt: skip


def loaded(version: int = 1, **more: Any) -> Loaded:
    return air(nodes(**more), [route("c/Go@1", CASE, "id")], version=version)


def cases(version: str = "v1", **more: Any) -> MemoryWorld:
    return MemoryWorld(loaded(**more), {CASE: module(version)})


def apply(world: MemoryWorld, version: int, mode: str, code: str | None = None, **more: Any) -> Any:
    """Apply another version of the module, with other definitions as ``nodes`` takes them."""
    run = module(code or f"v{version}")
    answer = world.apply(loaded(version, **more), {CASE: run}, mode=mode)
    world.run()
    return answer


def tell(world: MemoryWorld, id: str, asks: int = 0, note: str = "go") -> Any:
    answer = world.send("c/Go@1", go(id, asks, note))
    world.run()
    return answer


def pay(world: MemoryWorld, id: str) -> None:
    intent = next(each for each in world.open() if each.cell == case(id))
    world.settle(intent, {"ref": "r"})
    world.run()


def case(id: str) -> CellId:
    return CASE, encode(id)


def log_of(world: MemoryWorld, id: str) -> list[str]:
    held = world.state_of(CASE, id)
    log = held["log"] if isinstance(held, dict) else held
    assert isinstance(log, list)
    return [str(line) for line in log]


def cell(world: MemoryWorld, id: str) -> Cell:
    return world.state.cells[case(id)]


def folds_again(world: MemoryWorld) -> None:
    """Assert that folding the journal, and loading a snapshot, give the state of the kernel."""
    state = State(tip=Tip(world=world.state.world))
    for frame in world.frames:
        fold_frame(state, frame, world.read)
    same(state, world.state)
    blobs = dict(world.blobs)

    def put(data: bytes) -> Hash:
        blobs[content_hash(data)] = data
        return content_hash(data)

    document = take(world.state, put).document
    again = load(document, blobs.__getitem__)
    assert take(again, put).document == document
    assert again.eras == world.state.eras
