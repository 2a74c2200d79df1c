"""Shadows of manifests whose migrations convert states (spec/shadow.md, SH-9 and SH-30)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aos.core.journal.inputs import MIGRATE, STRICT
from aos.core.journal.vocabulary import ApplyMode
from aos.host.executors.carrying import carry_out
from aos.manifest.load import load
from aos.prove.verify.journal_source import source_of_store
from aos.prove.whatif.shadow_state import Proposed
from aos.prove.whatif.shadowing import ShadowRequest, chosen_range, run_shadow
from aos.read.views.proposal_view import read_report
from aos.testing import World
from tests.prove.whatif.test_against_manifest import (
    THREE,
    counter,
    edited,
    recorded,
    to_lists,
    without_migration,
)
from tests.testing.stage import CELL, DO


@pytest.fixture(scope="module")
def world() -> World:
    """Three steps, a snapshot, and two more steps."""
    found = recorded(*THREE)
    found._desk.snapshot()
    found.send(DO, {"key": "a"})
    found.send(DO, {"key": "c"})
    found.run()
    return found


def shadowed(
    world: World,
    edit: Any = to_lists,
    *,
    add: int = 2,
    mode: ApplyMode = STRICT,
    from_snapshot: bool = False,
) -> dict[str, Any]:
    given = edited(edit)
    for node in given:
        if node["$kind"] == "defmodule":
            node["runtime"]["artifact"]["path"] = "p.wasm"
    loaded = load({"m.air.json": json.dumps(given).encode(), "p.wasm": counter(add)})
    source = source_of_store(world._desk.store)
    first = source.last if from_snapshot else None
    request = ShadowRequest(
        proposed=Proposed(effective=loaded.effective, mode=mode),
        range=chosen_range(source, first=first),
    )
    return read_report(run_shadow(source, request, loaded.modules, carry_out=carry_out))


@pytest.mark.parametrize("from_snapshot", [False, True])
def test_states_of_another_form_are_compared_in_that_form(
    world: World, *, from_snapshot: bool
) -> None:
    report = shadowed(world, mode=MIGRATE, from_snapshot=from_snapshot)

    assert report["same"], report["differences"]
    assert report["steps"]["compared"] == (2 if from_snapshot else 6)
    assert not report["blocked"]


def test_another_decision_is_shown_in_the_new_form(world: World) -> None:
    report = shadowed(world, add=3, mode=MIGRATE, from_snapshot=True)

    first, second = report["differences"]
    assert [each["cell"]["key"] for each in (first, second)] == ["a", "c"]
    assert first["first"]["classes"] == ["state"]
    # Three steps of version 1, migrated: [6]. Then version 2 adds three instead of two.
    (found,) = first["first"]["differences"]
    assert (found["field"], found["recorded"], found["shadow"]) == ("state", [8], [9])
    assert first["last"]["recorded"]["state"] == 4
    assert first["last"]["shadow"]["state"] == [9]


def test_a_strict_shadow_keeps_states_that_do_not_fit_under_their_manifest(world: World) -> None:
    report = shadowed(world, without_migration, from_snapshot=True)

    # The cell at rest stays behind (K-74a) and decides alike; the new one has the new form.
    assert {each["cell"]["key"] for each in report["differences"]} == {"c"}
    (found,) = report["differences"]
    assert found["classes"] == ["misfit"]
    assert report["cells"][CELL]["same"] == 1


def test_a_migration_that_is_missing_blocks_the_shadow(world: World) -> None:
    report = shadowed(world, without_migration, mode=MIGRATE, from_snapshot=True)

    assert (report["same"], report["blocked"]) == (False, True)
    assert {each["kind"] for each in report["blockers"]["first"]} == {"cell_does_not_fit"}
