"""The table of error codes is complete."""

from __future__ import annotations

import json
import re
from string import Formatter
from typing import Any

import pytest

from aos_gateway.text import _DOING, _PAUSES
from aos_gateway.waits import _LANE_DOING, CODES, HELD, filled, remedy
from tests.gateway.commands.samples import MANIFEST, ROOT

SOURCES = sorted((ROOT / "modules" / "gateway" / "src").glob("*.rs"))
VALUES = {"signer", "chain", "lane", "arweave", "key"}


def codes() -> set[str]:
    """Every code that a reducer gives an error: an argument of the functions that make one, or the
    first part of a pair with the message."""
    source = "".join(path.read_text() for path in SOURCES)
    called = re.findall(r'\b(?:retry|stall|fail|suspect|park|error)\(\s*"([A-Z_]+)"', source)
    paired = re.findall(r'\("([A-Z_]+)", (?:error|message|format!|&|")', source)
    return {*called, *paired}


def test_every_code_of_the_reducers_has_advice() -> None:
    found = codes()

    assert len(found) > 15
    assert found - set(CODES) == set()


@pytest.mark.parametrize("code", CODES)
def test_advice_is_a_clause_whose_values_are_known(code: str) -> None:
    for text in filter(None, CODES[code]):
        assert not text.endswith(".")
        assert {name for _, name, _, _ in Formatter().parse(text) if name} <= VALUES


def test_a_remedy_keeps_the_name_of_a_value_that_is_not_known() -> None:
    assert remedy("NO_FUNDS", {"chain": 1, "signer": None}) == "send funds to {signer} on chain 1"
    assert remedy("CANCELED", {}) is None
    assert remedy("UNKNOWN", {}) is None
    assert filled(HELD["gateway_not_configured"], {}) == "set AOS_ARWEAVE='main=URL'"


def arms(schema: str) -> set[str]:
    """The arms of a variant in the manifest."""
    nodes: list[dict[str, Any]] = [
        node
        for file in sorted((MANIFEST / "air").glob("*.air.json"))
        for node in json.loads(file.read_text())
    ]
    [found] = [node["type"]["variant"] for node in nodes if node.get("name") == schema]
    return set(found)


def test_everything_that_a_record_or_a_lane_does_has_words() -> None:
    """An arm that the module adds must get words here."""
    assert set(_LANE_DOING) == arms("gw/LaneDoing@1")
    assert set(_DOING) >= (arms("gw/Doing@1") | arms("gw/LaneDoing@1")) - {"Nothing", "Stalling"}
    assert set(_PAUSES) == arms("gw/Pause@1") - {"Stall"}
