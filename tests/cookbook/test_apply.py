"""Blockers of a new manifest version, shown on the worlds of the cookbook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.testing import InputRefused, World
from tests.cookbook.worlds import COOKBOOK, recipe

BOOKING, BOOK = "trip/booking@1", "trip/book@1"


@pytest.fixture
def world() -> Iterator[World]:
    with World(recipe("saga")) as world:
        world.send("trip/Requested@1", {"trip_id": "t-1", "city": "Lisbon"})
        world.run()
        yield world


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """The same world with more patience for the agencies."""
    file = "generated.air.json"
    nodes: list[dict[str, Any]] = json.loads((COOKBOOK / "saga" / "air" / file).read_text())
    for node in nodes:
        if node["$kind"] == "defeffect":
            node["timeout_ms"] = 20_000
        if node["$kind"] == "defmodule":
            artifact = node["runtime"]["artifact"]
            artifact["path"] = str(Path("saga.wasm"))
    wasm = (COOKBOOK / ".." / ".." / "modules" / "cookbook" / "saga" / "saga.wasm").resolve()
    air = tmp_path / "air"
    air.mkdir()
    (air / "saga.wasm").write_bytes(wasm.read_bytes())
    (air / file).write_text(json.dumps(nodes))
    return tmp_path


def test_a_trip_that_waits_for_an_agency_blocks_the_apply(world: World, changed: Path) -> None:
    with pytest.raises(InputRefused) as refused:
        world.apply(changed)

    assert refused.value.blockers
    world.effect(BOOK).answer({"reference": "F"})
    world.run()
    assert world.status(BOOKING, "t-1") == "waiting", "nothing was abandoned"


def test_once_it_has_ended_nothing_does(world: World, changed: Path) -> None:
    world.on(BOOK, {"reference": "r"})
    world.run()
    world.apply(changed)

    assert world.status(BOOKING, "t-1") == "completed"


def test_or_what_is_in_flight_ends_on_the_version_that_it_began_with(
    world: World, changed: Path
) -> None:
    world.apply(changed, mode="pin")
    world.on(BOOK, {"reference": "r"})
    world.run()

    assert world.events("trip/Booked@1") == [{"trip_id": "t-1"}]
