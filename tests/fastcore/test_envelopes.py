"""Outputs of modules: both kernels read the same envelope, or fault with the same words (K-34)."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from aos.core.decide.answers import Decided
from aos.core.journal.inputs import MIGRATE
from aos.core.journal.ports import Call, Ran
from aos.core.journal.records import Faulted, Manifest, Step
from aos.values.cbor import Value, encode
from tests.core.cases import CASE, cases, go, tell
from tests.core.decide.test_migrate import migrating, to_counted
from tests.core.desk import DESK, EFFECT_CANCEL, PAY, TIMER, desks
from tests.fastcore.paired_kernel import PairedKernel, open_paired, opening
from tests.memory_world import MemoryWorld

WHOLE: Final[tuple[dict[str | int, Value], ...]] = (
    {"state": encode(["told"])},
    {"state": None},
    {"state": encode(["a"]), "status": "completed"},
    {"state": encode(["a"]), "ann": encode({"note": "n"})},
    {"fault": {"kind": "told", "message": "to fail"}},
    {"fault": {"kind": "told", "message": "to fail", "detail": b"bytes"}},
    {
        "state": encode(["a", "b"]),
        "effects": [
            {"effect": PAY, "params": encode({"n": 1}), "issuer_ref": "p"},
            {"effect": PAY, "params": encode({"n": 2}), "key": encode("k")},
            {"effect": TIMER, "params": encode({"deliver_at_ns": 1, "key": None})},
            {"effect": EFFECT_CANCEL, "params": encode({"intent": None, "issuer_ref": "p"})},
        ],
    },
    {
        "state": encode(["a"]),
        "domain_events": [
            {
                "schema": "t/Tell@1",
                "value": encode({"key": "b", "asks": [], "note": "x"}),
            }
        ],
    },
)
"""An output of each kind, before it is damaged."""

PARTS: Final[tuple[Value, ...]] = (
    None, True, 0, -1, 1 << 63, "", "gremlin", b"", b"\x80", b"\xff", bytes(33), [], {}, [None],
    ["a"], [{}], {"kind": 1}, {"kind": "told", "message": "x" * 5000},
    {"kind": "no such", "message": ""}, "completed", "é" * 70, "failed",
)  # fmt: skip
"""Values of every type, in place of a field."""

NAMES: Final = (
    "state", "effects", "domain_events", "ann", "status", "fault", "more", "effect", "params",
    "issuer_ref", "key", "schema", "value", "kind", "message", "detail",
)  # fmt: skip

outputs = st.sampled_from(WHOLE)
fields = st.tuples(st.sampled_from(NAMES), st.sampled_from(PARTS))
flips = st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255))


@cache
def waiting() -> MemoryWorld:
    """A desk with an event to run, in both kernels."""
    with opening(open_paired):
        world = desks()
    world.send("t/Tell@1", {"key": "a", "asks": [], "note": "go"})
    return world


@cache
def to_migrate() -> MemoryWorld:
    """Cases with a migration to come, in both kernels."""
    with opening(open_paired):
        world = cases()
    tell(world, "a")
    world.runner.modules = {
        **world.runner.modules, **world.by_hash(to_counted(), {CASE: migrating()}),
    }  # fmt: skip
    return world


def decided_of(world: MemoryWorld, output: bytes) -> Any:
    """Decide the step in ``world`` with this output; the pair compares."""
    kernel = world.kernel
    assert isinstance(kernel, PairedKernel)
    assert kernel.is_pair
    call = kernel.next()
    assert isinstance(call, Call)
    return kernel.ran(Ran(output=output, fault=None, fuel=5, pages=1))


def changed(value: Value, names: list[tuple[str, Value]], depth: int) -> Value:
    """The value with fields of it, or of its first parts, replaced."""
    if isinstance(value, list) and value and depth:
        return [changed(value[0], names, depth - 1), *value[1:]]
    if not isinstance(value, dict):
        return value
    if depth:
        return {name: changed(part, names, depth - 1) for name, part in value.items()}
    return {**value, **dict(names)}


def damaged(data: bytes, changes: list[tuple[float, int]]) -> bytes:
    array = bytearray(data)
    for at, byte in changes:
        array[int(at * len(array))] = byte
    return bytes(array)


def test_a_whole_output_is_a_step() -> None:
    kinds = {type(decided_of(waiting(), encode(output)).record) for output in WHOLE}
    assert kinds == {Step, Faulted}


@given(outputs, st.lists(fields, min_size=1, max_size=2), st.integers(0, 2))
def test_a_changed_field_is_read_or_refused_alike(
    output: dict[str | int, Value], names: list[tuple[str, Value]], depth: int
) -> None:
    assert isinstance(decided_of(waiting(), encode(changed(output, names, depth))), Decided)


@given(outputs, st.lists(flips, min_size=1, max_size=3))
def test_damaged_bytes_are_read_or_refused_alike(
    output: dict[str | int, Value], changes: list[tuple[float, int]]
) -> None:
    assert isinstance(decided_of(waiting(), damaged(encode(output), changes)), Decided)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_alike(data: bytes) -> None:
    assert isinstance(decided_of(waiting(), data), Decided)


@given(outputs, st.lists(flips, max_size=2), st.lists(fields, max_size=2))
def test_an_output_of_a_migration_is_read_or_refused_alike(
    output: dict[str | int, Value],
    changes: list[tuple[float, int]],
    names: list[tuple[str, Value]],
) -> None:
    world = to_migrate()
    if output.get("state") is not None:
        output = {**output, "state": encode({"log": ["a"], "count": 1})}
    manifest = world.manifest_input(to_counted(), mode=MIGRATE)
    assert isinstance(world.kernel.decide(manifest, world.stamp()), Call)

    data = damaged(encode(changed(output, names, 0)), changes)
    answer = world.kernel.ran(Ran(output=data, fault=None, fuel=5, pages=1))

    assert not isinstance(answer, Decided) or isinstance(answer.record, Manifest)


def test_the_worlds_of_this_file_are_pairs() -> None:
    for world in (waiting(), to_migrate()):
        assert isinstance(world.kernel, PairedKernel)
        assert world.kernel.is_pair
    assert waiting().kernel.cell((DESK, encode("a"))) is not None
    assert go("a")
