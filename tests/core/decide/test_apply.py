"""A new manifest is checked against the contents of the world (spec/kernel.md, K-70 and K-71)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.core.decide.quiescence import Change, misfits
from aos.core.journal.frame import Tip
from aos.core.journal.inputs import STRICT, ManifestInput
from aos.core.state.fold import fold_frame
from aos.core.state.state import State
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.core.cases import (
    CASE,
    COUNTED,
    LOG,
    TEXT,
    apply,
    case,
    cases,
    loaded,
    log_of,
    module,
    nodes,
    tell,
)
from tests.memory_world import OPERATOR, OPERATOR_KEY, MemoryWorld, air, route

WIDER: dict[str, Any] = {"list": {"option": TEXT}}
"""Takes every log, and is not the same schema."""


def refused(answer: object) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


def world_of(*ids: str) -> MemoryWorld:
    world = cases()
    for id in ids:
        tell(world, id)
    return world


class Counting:
    """A reader of blobs that counts."""

    def __init__(self, world: MemoryWorld) -> None:
        self.reads: list[Hash] = []
        self._world = world

    def __call__(self, hash: Hash, /) -> bytes:
        self.reads.append(hash)
        return self._world.read(hash)


def test_a_refusal_names_its_one_blocker_in_the_singular() -> None:
    answer = refused(apply(world_of("a"), 2, STRICT, code="v2c", state=COUNTED))

    assert ": 1 blocker, first " in answer.message


def test_states_that_do_not_fit_the_new_schema_refuse_the_manifest_and_are_named() -> None:
    """K-71."""
    world = world_of("a", "b")
    answer = refused(apply(world, 2, STRICT, code="v2c", state=COUNTED))
    assert answer.rule is Rule.MANIFEST_DOES_NOT_FIT
    assert [each.cell for each in answer.blockers] == sorted(
        [case("a"), case("b")], key=lambda cell: content_hash(cell[1])
    )
    assert answer.message.startswith(
        "the manifest does not fit what this world holds: 2 blockers, first "
        "c/case@1: cell_does_not_fit, its state is no c/Log@1: $: expected record, found list[1]"
    )
    tell(world, "a")
    assert log_of(world, "a") == ["v1 go", "v1 go"]


def test_keys_must_fit_too() -> None:
    world = world_of("a")
    changed = nodes()
    next(each for each in changed if each["name"] == "c/Id@1")["type"] = {"nat": {}}
    go = next(each for each in changed if each["name"] == "c/Go@1")
    go["type"] = {"record": {"id": {"nat": {}}, "asks": {"nat": {}}, "note": TEXT}}
    new = air(changed, [route("c/Go@1", CASE, "id")], version=2)
    answer = refused(world.apply(new, {CASE: module("v2")}))
    assert answer.blockers[0].detail == 'its key is no c/Id@1: $: expected nat, found text "a"'

    for node in changed:
        node.pop("key_schema", None)
    new = air([n for n in changed if n["name"] != "c/Id@1"], [route("c/Go@1", CASE)], version=2)
    answer = refused(world.apply(new, {CASE: module("v2")}))
    assert answer.blockers[0].detail == "its workflow has no keys any more"


def test_a_schema_that_takes_more_lets_every_state_in() -> None:
    world = world_of("a", "b")
    assert isinstance(apply(world, 2, STRICT, state=WIDER), Admitted)
    tell(world, "a")
    assert log_of(world, "a") == ["v1 go", "v2 go"]


def test_nothing_is_read_where_the_schema_holds_the_same_values() -> None:
    """Another name, or another way to spell it, is no difference."""
    world = world_of("a")
    text = nodes(state={"list": {"ref": "c/Line@1"}})
    text.append({"$kind": "defschema", "name": "c/Line@1", "type": TEXT})
    new = air(text, [route("c/Go@1", CASE, "id")], version=2).effective
    read = Counting(world)
    change = Change(in_force=world.state.manifest, effective=new, mode=STRICT)
    assert list(misfits(world.state, change, read)) == []
    assert read.reads == []

    long = "x" * 2000
    tell(world, "b", note=long)
    other = replace(change, effective=loaded(2, state=WIDER).effective)
    assert list(misfits(world.state, other, read)) == []
    assert len(read.reads) == 1


def test_a_cell_that_a_fault_has_failed_is_checked_when_it_is_retried() -> None:
    """K-102."""
    world = world_of("a")
    tell(world, "a", note="fail")
    assert isinstance(apply(world, 2, STRICT, code="v2c", state=COUNTED), Admitted)
    answer = refused(world.control("retry", cell=case("a")))
    assert answer.rule is Rule.CELL_DOES_NOT_FIT


def test_only_a_workflow_that_is_gone_can_be_left() -> None:
    """K-71b."""
    world = world_of("a")
    answer = refused(world.apply(loaded(2), leaves=(CASE,)))
    assert answer.rule is Rule.MANIFEST_IS_INVALID
    assert "c/case@1 is still in the manifest" in answer.message
    answer = refused(world.apply(loaded(2), leaves=("x/b@1", "x/a@1")))
    assert "each once, in order" in answer.message


def test_cells_that_were_left_must_fit_when_their_workflow_comes_back() -> None:
    world = world_of("a")
    other = air(
        [
            {"$kind": "defschema", "name": "o/E@1", "type": {"record": {"n": {"nat": {}}}}},
            {"$kind": "defschema", "name": "o/S@1", "type": {"unit": {}}},
            {
                "$kind": "defworkflow", "name": "o/o@1", "state": "o/S@1", "event": "o/E@1",
                "effects_emitted": [], "impl": {"module": "o/o-module@1", "entrypoint": "step"},
            },
        ],
        [route("o/E@1", "o/o@1")],
    )  # fmt: skip
    assert isinstance(world.apply(other, leaves=(CASE,)), Admitted)
    answer = refused(apply(world, 2, STRICT, code="v2c", state=COUNTED))
    assert answer.blockers[0].kind == "cell_does_not_fit"
    assert isinstance(apply(world, 2, STRICT, state=LOG), Admitted)
    tell(world, "a")
    assert log_of(world, "a") == ["v1 go", "v2 go"]


# States that the host has checked already


def signed(world: MemoryWorld, *, checked: int | None, **more: Any) -> ManifestInput:
    document = loaded(2, **more).effective.document
    message = ManifestInput.message(world.state.world, world.state.serial, content_hash(document))
    return ManifestInput(
        document=document,
        principal=OPERATOR.name,
        serial=world.state.serial,
        signature=OPERATOR_KEY.sign(message).signature,
        checked=checked,
    )


@pytest.mark.parametrize("most", [1, 4096])
def test_states_that_changed_since_the_host_looked_are_looked_at_again(most: int) -> None:
    """K-71a."""
    world = cases()
    world.state.cells.keep(most)
    for id in "abcd":
        tell(world, id)
    looked = world.state.next_seq - 1

    tell(world, "b")
    tell(world, "c")
    answer = world.kernel.admit(signed(world, checked=looked, state=COUNTED), world.stamp())

    assert {each.cell for each in refused(answer).blockers} == {case("b"), case("c")}
    last = world.state.next_seq - 1
    answer = world.kernel.admit(signed(world, checked=last, state=COUNTED), world.stamp())
    assert isinstance(answer, Admitted)


def test_a_look_from_before_the_last_snapshot_does_not_count() -> None:
    world = world_of("a")
    world.snapshot()
    world.seal()
    world.kernel.rebase(world.kernel.snapshot(world.put).document)
    assert world.kernel.base > 3
    answer = refused(world.kernel.admit(signed(world, checked=3, state=WIDER), world.stamp()))
    assert answer.rule is Rule.MANIFEST_CHECK_IS_OLD


def test_a_journal_of_an_earlier_release_is_replayed_as_it_was_admitted() -> None:
    """K-71c: an earlier release checked stored states at admission, or not at all."""
    world = world_of("a")
    given = replace(signed(world, checked=None, state=COUNTED), is_recorded=True)
    assert isinstance(world.kernel.admit(given, world.stamp()), Admitted)
    world.run()
    state = State(tip=Tip(world=world.state.world))
    for frame in world.frames:
        fold_frame(state, frame, world.read)
    assert state.cells[case("a")].state == encode(["v1 go"])
