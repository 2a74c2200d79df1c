"""New versions of the code under random programs in progress, with random changes (FL-4, FL-90,
K-70 to K-75): by ``in_place``, by ``pin``, and by ``unpin``. A flow that stopped is retried with
mended code.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aos.core.decide.flow_gate import flow_gate
from aos.core.journal.inputs import UNPIN
from aos.core.journal.records import CellId
from aos.flow.flow_state import TRIED
from aos.sandbox.stack import run_on_big_stack
from aos.testing.sources import SHARED
from aos.testing.views import cell_id
from aos.values.cbor import decode_record
from tests.flow.changes import changed
from tests.flow.comparison import RUN
from tests.flow.programs import (
    LIVE,
    Action,
    Modelled,
    chances,
    manifest,
    program_of,
    schedules,
)
from tests.run_seed import examples

KEYS = ("a", "b", "c")
CANCEL = {"$tag": "Cancel", "$value": {"rollback": False}}


@st.composite
def changed_programs(draw: st.DrawFn) -> list[dict[str, Any]]:
    chance: Random = draw(chances)
    return [changed(program_of(chance, key=key), chance) for key in KEYS]


def in_progress(programs: list[dict[str, Any]], schedule: list[Action]) -> Modelled:
    """A world in which the first version of these programs has begun, and this has happened."""
    modelled = Modelled()
    for program in programs:
        modelled.begin(program)
    modelled.go_on()
    for action in schedule:
        modelled.act(action)
    modelled.go_on()
    return modelled


def gate(modelled: Modelled) -> dict[CellId, tuple[str, str, bytes | None]]:
    """The fault of each flow that the later version would stop."""
    desk = modelled.desk
    later = manifest("later", upgrade="in_place")
    SHARED.add(later.modules)

    def tried() -> dict[CellId, tuple[str, str, bytes | None]]:
        found = flow_gate(desk.state, later.effective, {RUN: TRIED}, runner=SHARED, read=desk.read)
        return {
            each.cell: (each.fault.kind.value, each.fault.message, each.fault.detail)
            for each in found.stopped
        }

    return SHARED.on_module_thread(tried)


def in_status(modelled: Modelled, statuses: Container[str]) -> list[str]:
    """The keys of the flows that have versions, in these statuses."""
    return [
        key
        for (workflow, key), status in modelled.statuses().items()
        if workflow == RUN and status in statuses
    ]


def poll(modelled: Modelled, keys: list[str]) -> dict[CellId, tuple[str, str, bytes | None]]:
    """Let these flows continue; return the faults of those that stop."""
    for key in keys:
        value = {"instance": key, "command": {"$tag": "Continue"}}
        modelled.world.send("f/RunControl@1", value)
    before = len(modelled.desk.failed)
    modelled.world.run(may_fail=True)
    return {
        cell: (fault.kind.value, fault.message, fault.detail)
        for _, cell, fault in modelled.desk.failed[before:]
    }


def take_over(modelled: Modelled, entrypoint: str, upgrade: str) -> None:
    modelled.world.apply(manifest(entrypoint, upgrade=upgrade), mode="pin")


def upgrade_in_place(modelled: Modelled) -> None:
    """The gate names exactly the flows that then stop, each with its fault. The others do not count
    any more; those that stopped have lost nothing, and continue with the earlier code."""
    foretold = gate(modelled)
    keys = in_status(modelled, TRIED)
    open_count = len(modelled.desk.opened_intents)
    take_over(modelled, "later", "in_place")
    assert poll(modelled, keys) == foretold
    opened = list(modelled.desk.opened_intents.values())[open_count:]
    assert not {each.cell for each in opened} & set(foretold), "code that diverged requested"

    take_over(modelled, "run", "in_place")
    modelled.crash()
    live = in_status(modelled, LIVE)  # a flow may have ended by the later code
    for key in keys:
        cell = cell_id(modelled.desk, RUN, key)
        if cell in foretold:
            modelled.world.retry(RUN, key)
            continue
        modelled.comparison.left_out.add(cell)
        if key in live:
            modelled.world.send("f/RunControl@1", {"instance": key, "command": CANCEL})
    modelled.finish()


def upgrade_by_pin(modelled: Modelled) -> None:
    """Flows in progress end on the earlier code, and new ones begin with the later code."""
    take_over(modelled, "later", "quiesce")
    modelled.crash()
    modelled.comparison.without = "earlier"
    modelled.begin({**modelled.begun[0], "id": "new"})
    modelled.finish()


def upgrade_by_unpin(modelled: Modelled) -> None:
    """A pinned flow that is unpinned stops if the gate says so, and no other. A stuck one is not
    pinned (K-74a)."""
    foretold = gate(modelled)
    keys = in_status(modelled, LIVE)
    foretold = {cell: fault for cell, fault in foretold.items() if decode_record(cell[1]) in keys}
    take_over(modelled, "later", "quiesce")
    assert poll(modelled, keys) == {}
    for key in keys:
        modelled.world._control(UNPIN, cell=cell_id(modelled.desk, RUN, key))  # no method has it
    assert poll(modelled, keys) == foretold


UPGRADES = (upgrade_in_place, upgrade_in_place, upgrade_by_pin, upgrade_by_unpin)


@settings(max_examples=examples(20))
@given(changed_programs(), schedules(), st.sampled_from(UPGRADES))
def test_the_gate_names_exactly_the_flows_that_then_stop_and_mended_code_continues_them(
    programs: list[dict[str, Any]], schedule: list[Action], upgrade: Callable[[Modelled], None]
) -> None:
    def play() -> None:
        modelled = in_progress(programs, schedule[:12])
        try:
            upgrade(modelled)
        finally:
            modelled.world.abandon()

    run_on_big_stack(play)
