"""The result of a handler, as workers report it -> the event for the instance (L-34).

The documents are those of ``/v1/work/results``:

    {"outcome": {"status": "completed", "patch": {…}}, "outbound": [{"schema": …, "value": …}]}
    {"outcome": {"status": "waiting", "event_type": "PAID", "timeout_ms": 86400000}}
    {"outcome": {"status": "retry", "error": "…", "backoff_ms": 500}}
    {"outcome": {"status": "dead", "error": "…"}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from aos.errors import Refused
from aos.manifest.effective import ONLY_OWN_STEPS, Effective
from aos.manifest.linear_names import OUTBOUND_REFUSED
from aos.values.cbor import Value, decode_record, encode
from aos.values.errors import ValueProblem
from aos.values.schema import Schema

_MS: Final = 10**6


class OutcomeInvalid(Refused):
    """A result is not what a handler may return. ``pointer`` leads to the place."""

    def __init__(self, message: str, pointer: str) -> None:
        super().__init__(message)
        self.pointer = pointer


def outcome_value(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The value of ``aos/LinearOutcome@1``. The document fits its JSON Schema.

    Raises:
        OutcomeInvalid: A value of the patch has no form in CBOR.
    """
    match outcome["status"]:
        case "completed":
            return _arm("Completed", {"patch": _patch(_changes(outcome))})
        case "waiting":
            wait = {"event_type": outcome["event_type"], "timeout": _ns(outcome, "timeout_ms")}
            return _arm("Waiting", wait)
        case "retry":
            pause = {"error": outcome["error"], "backoff": _ns(outcome, "backoff_ms")}
            return _arm("Retry", pause)
    return _arm("Dead", {"error": outcome["error"]})


def outbound_values(
    events: Sequence[Mapping[str, Any]], manifest: Effective | None
) -> list[dict[str, Any]]:
    """The values of ``aos/LinearOutbound@1``, each event in the normal form of its schema.

    Raises:
        OutcomeInvalid: A schema is unknown, not for handlers or not open at ingress, or the value
            does not fit it.
    """
    values = []
    schemas: Mapping[str, Schema] = {} if manifest is None else manifest.schemas
    for index, event in enumerate(events):
        at, name = f"/outbound/{index}", event["schema"]
        schema = schemas.get(name)
        if name.startswith(OUTBOUND_REFUSED):
            raise OutcomeInvalid(f"a handler cannot emit {name}", f"{at}/schema")
        if schema is None:
            raise OutcomeInvalid(
                f"unknown schema {name}: the manifest in force does not have it", f"{at}/schema"
            )
        if manifest is not None and not manifest.is_open(name):
            raise OutcomeInvalid(f"{name} {ONLY_OWN_STEPS}", f"{at}/schema")
        try:
            values.append({"schema": name, "value": _event_bytes(event, schema)})
        except ValueProblem as problem:
            raise OutcomeInvalid(f"it does not fit {name}: {problem}", f"{at}/value") from problem
    return values


def _event_bytes(event: Mapping[str, Any], schema: Schema) -> bytes:
    if "value_cbor" in event:
        return schema.from_ingress(event["value_cbor"])
    return schema.encode(schema.from_json_object(event["value"]))


def _changes(outcome: Mapping[str, Any]) -> Mapping[str, Any]:
    if "patch_cbor" not in outcome:
        patch: Mapping[str, Any] = outcome.get("patch", {})
        return patch
    try:
        changes = decode_record(outcome["patch_cbor"])
    except ValueProblem as problem:
        raise OutcomeInvalid(str(problem), "/outcome/patch_cbor") from problem
    if not isinstance(changes, dict) or not all(isinstance(key, str) for key in changes):
        raise OutcomeInvalid("expected a map with text keys", "/outcome/patch_cbor")
    return cast("Mapping[str, Any]", changes)


def _patch(patch: Mapping[str, Any]) -> dict[str, Value]:
    encoded: dict[str, Value] = {}
    for key, value in patch.items():
        try:
            encoded[key] = None if value is None else encode(value)
        except (ValueProblem, TypeError) as problem:
            raise OutcomeInvalid(f"{key}: {problem}", f"/outcome/patch/{key}") from problem
    return encoded


def _ns(outcome: Mapping[str, Any], field: str) -> int | None:
    time_ms: int | None = outcome.get(field)
    return None if time_ms is None else time_ms * _MS


def _arm(tag: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"$tag": tag, "$value": value}
