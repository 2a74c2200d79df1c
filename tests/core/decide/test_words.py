"""Words that another kernel must find too (spec/core.md, CR-20 to CR-28)."""

from __future__ import annotations

import cbor2
import pytest

from aos.core.decide.answers import Refusal, Rule
from aos.core.decide.suggestion import EDITS_MAX, nearest
from aos.core.journal.inputs import EventInput
from aos.core.journal.records import CellId, Ref
from aos.core.snapshot.load import load
from aos.errors import Damage
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.core.cases import COUNTED, case, cases, tell
from tests.core.decide.test_apply import signed, world_of
from tests.core.decide.test_migrate import to_counted
from tests.memory_world import MemoryWorld

NAMES = ("shop/OrderPlaced@1", "shop/OrderPaid@1", "shop/Paid@1")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("shop/OrderPlaced@1", "shop/OrderPlaced@1"),
        ("shop/OrderPlaced@2", "shop/OrderPlaced@1"),
        ("shop/orderplaced@1", "shop/OrderPlaced@1"),
        ("shop/OderPaid@1", "shop/OrderPaid@1"),
        ("hop/Paid@1", "shop/Paid@1"),
        ("shop/Paied@11", "shop/Paid@1"),
        ("shop/Refunded@1", None),
        ("é" * 300, None),
        ("", None),
    ],
)
def test_the_name_with_the_fewest_edits_is_suggested(name: str, meant: str | None) -> None:
    """CR-26."""
    assert nearest(name, NAMES) == meant


def test_of_several_names_the_first_is_suggested_and_no_short_name_is_replaced_whole() -> None:
    assert nearest("ax", ("ab", "ac")) == "ab"
    assert nearest("x", ("y",)) is None
    assert nearest("a" * (EDITS_MAX + 2), ("a",)) is None


def test_an_unknown_event_is_refused_with_the_one_that_was_meant() -> None:
    world = cases()
    answer = world.kernel.admit(EventInput(schema="c/Goo@1", value=encode({})), world.stamp())
    assert isinstance(answer, Refusal)
    assert answer.rule is Rule.EVENT_SCHEMA_IS_UNKNOWN
    assert answer.message.endswith(
        '"c/Goo@1" is not in the manifest in force (did you mean c/Go@1?)'
    )


def again_from_a_snapshot(world: MemoryWorld) -> None:
    """Continue with a kernel whose cells are in memory in another order."""
    world.seal()
    blobs: dict[Hash, bytes] = {}

    def put(data: bytes) -> Hash:
        blobs[content_hash(data)] = data
        return content_hash(data)

    document = world.kernel.snapshot(put).document
    world.blobs.update(blobs)
    world.restart(document)


def test_blockers_come_in_an_order_that_no_restart_changes() -> None:
    """CR-27, K-70a."""
    world = cases()
    for id in ("z", "m", "a", "q"):
        tell(world, id, 1)
    for id in ("m", "z"):
        world.send("c/Go@1", {"id": id, "asks": 0, "note": ""})
    given = world.manifest_input(to_counted())

    before = world.kernel.admit(given, world.stamp())
    again_from_a_snapshot(world)
    after = world.kernel.admit(given, world.stamp())

    assert isinstance(before, Refusal)
    assert after == before
    first = [each.cell for each in before.blockers[:4]]
    assert first == sorted(map(case, "zmaq"), key=key_hash)


def key_hash(cell: CellId) -> Hash:
    return content_hash(cell[1])


def test_cells_that_do_not_fit_come_in_the_order_of_their_key_hashes() -> None:
    """CR-27: also those that changed since a check, in whatever layer they are."""
    world = world_of("d", "b", "a", "c")
    checked = world.state.next_seq - 1
    for id in ("c", "a", "d"):
        tell(world, id)
    found = []
    for most in (1, 2, 4096):
        world.state.cells.keep(most)
        answer = world.kernel.admit(signed(world, checked=checked, state=COUNTED), world.stamp())
        assert isinstance(answer, Refusal)
        found.append([each.cell for each in answer.blockers])

    assert found[0] == found[1] == found[2]
    assert found[0] == sorted(map(case, "acd"), key=key_hash)


def test_the_use_of_a_value_is_told_in_the_same_words_after_a_restart() -> None:
    """CR-27, K-104."""
    world = cases()
    long = "x" * 2000
    for id in ("z", "a"):
        tell(world, id, note=long)
    state = world.cell("c/case@1", "a").state
    assert isinstance(state, Ref)

    before = world.control("erase", value=state.hash)
    again_from_a_snapshot(world)

    assert world.control("erase", value=state.hash) == before
    assert isinstance(before, Refusal)
    assert "is the state of a cell of c/case@1" in before.message


def test_of_several_missing_fields_of_a_snapshot_the_first_is_named() -> None:
    """CR-28: whatever order a set of names has."""
    world = cases()
    world.seal()
    document = world.kernel.snapshot(world.put).document
    fields = cbor2.loads(world.blobs[document])
    forged = {name: fields[name] for name in fields if name not in ("world", "seq", "frame")}
    hash = world.put(cbor2.dumps(forged, canonical=True))

    with pytest.raises(Damage, match=r"the snapshot has no world$"):
        load(hash, world.read)
