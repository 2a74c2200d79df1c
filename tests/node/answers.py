"""Compares real answers with the schemas of the OpenAPI document: exactly, a field that no schema
has is a difference (N-101a)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import httpx

from aos.node import openapi
from aos.node.bodies import JSON, PROBLEM
from aos.node.json_schema import SCHEMA_PREFIX
from aos.node.routes import BY_PATH

OPEN: Final = frozenset({"Definition"})
"""Types of which the document does not have all fields: a definition is the manifest's own."""

DOCUMENT: Final = openapi.document()
SCHEMAS: Final[dict[str, Any]] = DOCUMENT["components"]["schemas"]
_KINDS: Final = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer",
                 type(None): "null", float: "number"}  # fmt: skip


class AnswerCheck:
    """Collects the types of documents that answers had."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        """Names of types that a value fitted."""

    def check(self, operation: str, answer: object, *, status: int = 200) -> None:
        """Assert that an answer of an operation fits its schema."""
        [schema] = [
            found["responses"][str(status)]["content"]
            for methods in DOCUMENT["paths"].values()
            for found in methods.values()
            if found["operationId"] == operation
        ]
        found = list(self.misfits(schema[JSON]["schema"], answer, operation))
        assert not found, "\n".join(found[:20])

    def misfits(self, schema: Any, value: Any, at: str) -> Iterator[str]:
        """Yield what does not fit."""
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(SCHEMA_PREFIX)
            before = set(self.seen)
            found = list(self._of(SCHEMAS[name], value, at, is_open=name in OPEN))
            if found:
                self.seen = before
            else:
                self.seen.add(name)
            yield from found
        else:
            yield from self._of(schema, value, at)

    def _of(self, schema: Any, value: Any, at: str, *, is_open: bool = False) -> Iterator[str]:
        if "anyOf" in schema:
            tries = [list(self.misfits(each, value, at)) for each in schema["anyOf"]]
            if all(tries):
                yield from min(tries, key=len)
            return
        kinds = schema.get("type", [])
        kind = _KINDS[type(value)]
        if kinds and kind not in ([kinds] if isinstance(kinds, str) else kinds):
            yield f"{at}: expected {kinds}, found {kind} {value!r:.80}"
            return
        if "enum" in schema and value not in schema["enum"]:
            yield f"{at}: expected one of {schema['enum']}, found {value!r:.80}"
        if isinstance(value, dict):
            yield from self._fields(schema, value, at, is_open=is_open)
        if isinstance(value, list) and "items" in schema:
            for index, each in enumerate(value):
                yield from self.misfits(schema["items"], each, f"{at}[{index}]")

    def _fields(self, schema: Any, value: Any, at: str, *, is_open: bool) -> Iterator[str]:
        known = schema.get("properties")
        rest = schema.get("additionalProperties", True)
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{at}: {name} is missing"
        for name, each in value.items():
            if known is not None and name in known:
                yield from self.misfits(known[name], each, f"{at}.{name}")
            elif isinstance(rest, dict):
                yield from self.misfits(rest, each, f"{at}.{name}")
            elif known is not None and not is_open:
                yield f"{at}: {name} has no schema: {each!r:.80}"


def check_response(response: httpx.Response) -> None:
    """Assert that the answer of a node to a client fits the document of its API."""
    request = response.request
    route = BY_PATH.get(request.url.path, {}).get(request.method)
    media = response.headers.get("content-type", "").partition(";")[0]
    if media == PROBLEM:
        response.read()
        assert not list(
            AnswerCheck().misfits(
                {"$ref": f"{SCHEMA_PREFIX}ProblemDocument"}, response.json(), "problem"
            )
        )
    elif route is not None and media == JSON and route.operation != "read_openapi":
        response.read()
        AnswerCheck().check(route.operation, response.json(), status=response.status_code)
