"""The OpenAPI 3.1 document of the API, from the table of routes (spec/node-api.md, N-102).

python -m aos.node.openapi    print it; `spec/openapi.json` is its committed copy
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any, Final

from aos.node.answer_types import ProblemDocument
from aos.node.bodies import CBOR, JSON, PROBLEM
from aos.node.json_schema import components, reference
from aos.node.routes import POST, ROUTES, ApiRoute
from aos.read.operations.operation import Parameter

VERSION: Final = "1"

_REASONS: Final = {
    400: "The request is not understood.",
    401: "The token is missing or not valid.",
    403: "The token does not allow this, or the origin is another one.",
    404: "A name, a key or a record is unknown.",
    408: "The body did not arrive in time.",
    409: "A rule refuses the request. Nothing has changed.",
    410: "The record was pruned, or the value was erased.",
    413: "The body is too large.",
    415: "The body has another media type.",
    422: "A value does not fit its schema.",
    429: "The world is busy, or a bound is reached. Send again after Retry-After.",
    431: "The header is too large; the path and the query are parts of it.",
    500: "The world is damaged, or the node has a bug.",
    503: "The world is starting, stopping or away, or has no room. Send again after Retry-After.",
}


_TAGS: Final = {
    "events": "Send events.",
    "reads": "Read and follow the world.",
    "commands": "Operate the world.",
    "flows": "Flows: workflows that are one async function.",
    "linear": "Linear plans.",
    "schedules": "Schedules.",
    "batches": "Commands and events for many cells.",
    "work": "Carry out effects and plan steps, as a worker.",
    "node": "The state of the node itself.",
}
_TAG_OF: Final = {
    "events": "events", "commands": "commands", "modules": "commands", "manifests": "commands",
    "governance": "commands", "snapshots": "commands", "flow": "flows", "flows": "flows",
    "linear": "linear", "schedule": "schedules", "schedules": "schedules", "batch": "batches",
    "batches": "batches", "work": "work", "healthz": "node", "readyz": "node", "metrics": "node",
    "openapi.json": "node",
}  # fmt: skip
"""The tag of an operation by the first word of its path; all others are reads."""


def document(prefix: str = "") -> dict[str, Any]:
    """Return the document; ``prefix`` is the address of a mounted world (N-132b)."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "AOS node",
            "version": VERSION,
            "summary": "Events, reads, streams, workers and commands of one world.",
            "description": "A node serves one world over HTTP: its front answers these requests.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": prefix or "/"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": components(paths),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Made by `aos token create`. A node without tokens needs none "
                    "on loopback.",
                }
            },
        },
    }


def _operation(route: ApiRoute) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "tags": [_TAG_OF.get(route.path.removeprefix("/v1").split("/")[1], "reads")],
        "summary": route.summary,
        "parameters": [_parameter(parameter) for parameter in route.query],
        "responses": {
            "200": _success(route),
            **({"202": {**_success(route), "description": "The wait has ended early."}}
               if route.is_late else {}),
            **{str(status): _problem(status) for status in _problems(route)},
        },
    }  # fmt: skip
    if route.is_unmet:
        unmet = operation["responses"]["503"]
        unmet["content"] = {JSON: {"schema": route.answer}, **unmet["content"]}
    if route.operation == "send_events":
        operation["parameters"].append(
            {
                "name": "Idempotency-Key", "in": "header", "schema": {"type": "string"},
                "description": "The submission id of one event: the world takes it once.",
            }
        )  # fmt: skip
    if route.media == "text/event-stream":
        operation["parameters"].append(
            {
                "name": "Last-Event-ID", "in": "header", "schema": {"type": "string"},
                "description": "The id of the last event received: continue after it.",
            }
        )  # fmt: skip
    if route.scope is None:
        operation["security"] = [{}]
    else:
        operation["x-scope"] = route.scope
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": as_json(route.body)}, CBOR: {"schema": route.body}},
        }
    if route.bytes_type is not None:
        operation["requestBody"] = {"required": True, "content": {route.bytes_type: {"schema": {}}}}
    return operation


def as_json(schema: Any) -> Any:
    """The schema of a body in JSON: the lengths of bytes become those of their base64."""
    if isinstance(schema, list):
        return [as_json(element) for element in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {name: as_json(member) for name, member in schema.items()}
    if converted.get("contentEncoding") == "base64":
        converted |= {
            name: -(-converted[name] // 3) * 4
            for name in ("minLength", "maxLength")
            if name in converted
        }
    return converted


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.help,
        "required": parameter.required,
        "schema": parameter.schema,
    }


def _success(route: ApiRoute) -> dict[str, Any]:
    if route.answer is None:
        assert route.media is not None
        return {"description": "Success.", "content": {route.media.split(";")[0]: {"schema": {}}}}
    response: dict[str, Any] = {
        "description": "Success.",
        "content": {kind: {"schema": route.answer} for kind in (JSON, CBOR)},
    }
    if route.links:
        response["links"] = {
            f"{route.operation}_{link.operation}": {
                "operationId": link.operation,
                "parameters": {
                    name: f"$response.body#{pointer}" for name, pointer in link.query.items()
                },
            }
            for link in route.links
        }
    return response


def _problems(route: ApiRoute) -> Iterable[int]:
    for status in _REASONS:
        if status in (408, 413, 415, 422) and route.method != POST:
            continue
        if status in (401, 403) and route.scope is None and status == 401:
            continue
        yield status


def _problem(status: int) -> dict[str, Any]:
    schema = reference(ProblemDocument)
    return {"description": _REASONS[status], "content": {PROBLEM: {"schema": schema}}}


def text(prefix: str = "") -> str:
    """Return the document as text; without a prefix, that of ``spec/openapi.json``."""
    return json.dumps(document(prefix), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
