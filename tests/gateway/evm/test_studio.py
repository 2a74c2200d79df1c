"""The contract in Python has the interface of the compiled one; stories compare what they do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.gateway.evm.studio import ERRORS, FUNCTIONS

STUDIO = Path(__file__).parents[3] / "manifests" / "gateway" / "contracts" / "Studio.json"


def types(fields: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(each["type"] for each in fields)


def test_functions_and_errors_are_those_of_the_compiled_contract() -> None:
    abi = json.loads(STUDIO.read_text("utf-8"))["abi"]
    functions = {
        f"{each['name']}({','.join(types(each['inputs']))})": types(each["outputs"])
        for each in abi
        if each["type"] == "function"
    }
    errors = {each["name"]: types(each["inputs"]) for each in abi if each["type"] == "error"}

    assert {each.signature: each.gives for each in FUNCTIONS.values()} == functions
    assert errors == ERRORS
