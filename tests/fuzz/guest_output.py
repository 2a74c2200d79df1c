"""The output of a module (spec/kernel.md, K-30 and after)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from aos.core.decide.envelope import Misfit, Output, read_output
from aos.core.decide.step import decide_step
from aos.core.journal.faults import ENVIRONMENTAL, MESSAGE_BYTES_MAX, Fault
from aos.core.journal.ports import Call, Ran
from aos.core.journal.record_codec import from_bytes, to_bytes
from aos.core.journal.records import Faulted, Step
from aos.values.cbor import encode
from tests.core.decide.test_hostile import GOOD_OUTPUT, GUEST_FAULT, world_of
from tests.memory_world import MemoryWorld

RUNS: Final = 2_500
OUTPUT_BYTES: Final = 4096
TOKENS: Final = tuple(
    encode(word)
    for word in (
        "state", "domain_events", "effects", "ann", "status", "fault", "kind", "message", "detail",
        "effect", "params", "params_cbor", "idempotency_key", "issuer_ref", "schema", "value",
        "key", "running", "completed", "failed", "t/Buy@1", "t/pay@1", "sys/timer.set@1",
    )
)  # fmt: skip


def target(data: bytes) -> None:
    """An output is an Output or a Misfit, and a step with it is recorded or faults, never worse."""
    try:
        output = read_output(data, max_bytes=OUTPUT_BYTES)
    except Misfit as problem:
        _is_well_said(problem.fault)
    else:
        assert isinstance(output, Output)
        assert len(data) <= OUTPUT_BYTES
    world = _waiting()
    before = world.state.next_seq
    decided = decide_step(world.state, _Returns(data), world.kernel.read)
    assert isinstance(decided.record, Step | Faulted)
    if isinstance(decided.record, Faulted):
        _is_well_said(decided.record.fault)
    assert from_bytes(to_bytes(decided.record)) == decided.record
    assert world.state.next_seq == before


def _is_well_said(fault: Fault) -> None:
    assert fault.kind not in ENVIRONMENTAL
    assert len(fault.message.encode()) <= MESSAGE_BYTES_MAX


class _Returns:
    """A sandbox whose module always gives the same bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def run(self, call: Call) -> Ran:
        return Ran(output=self._data[: call.output_bytes], fault=None, fuel=1, pages=1)


@cache
def _waiting() -> MemoryWorld:
    """A world whose ring has one cell with mail. Deciding its step changes nothing."""
    world = world_of([])
    world.send("t/Buy@1", {"key": "a", "n": 1})
    assert world.state.ring
    return world


def seeds() -> Iterator[bytes]:
    yield encode(GOOD_OUTPUT)
    yield encode(GUEST_FAULT)
    yield encode({"state": None})
    yield encode({"state": encode([]), "status": "failed", "ann": None})
    for name in ("domain_events", "effects"):
        yield encode({"state": encode(["line"]), name: GOOD_OUTPUT[name]})
