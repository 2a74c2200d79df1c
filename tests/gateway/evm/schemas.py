"""The schemas of the four effects, from the manifest of the gateway, and the check of a call."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from aos.values.schema import Schema, compile_schemas
from aos.worker.results import payload_of, to_value

AIR: Final = Path(__file__).parents[3] / "manifests" / "gateway" / "air" / "generated.air.json"
RECEIPT_BYTES_MAX: Final = 256 * 1024

SECRET_REF: Final[dict[str, Any]] = {"record": {"alias": {"text": {}}, "version": {"nat": {}}}}


@cache
def effect_schemas() -> dict[str, tuple[Schema, Schema]]:
    """Effect -> the schemas of its params and its receipt."""
    nodes = json.loads(AIR.read_text("utf-8"))
    types = {
        each["name"]: each["type"]
        for each in nodes
        if each["$kind"] == "defschema" and each["name"].startswith("evm/")
    }
    schemas = compile_schemas({**types, "sys/SecretRef@1": SECRET_REF})
    return {
        each["name"]: (schemas[each["params"]], schemas[each["receipt"]])
        for each in nodes
        if each["$kind"] == "defeffect" and each["name"].startswith("evm/")
    }


def params_of(effect: str, params: dict[str, Any]) -> Any:
    """Params in the normal form in which the worker gives them to the function."""
    return effect_schemas()[effect][0].normalise(to_value(params))


def check_receipt(effect: str, returned: object) -> None:
    """Whether the worker would take the result as the effect's receipt."""
    schema = effect_schemas()[effect][1]
    payload = payload_of(returned, schema, bytes_max=RECEIPT_BYTES_MAX)
    assert isinstance(payload, bytes), payload
