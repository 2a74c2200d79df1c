"""A node's HTTP wire without a server: requests reach the handlers of ``LeasedWork`` as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from aos.node.leases import schemas
from aos.node.leases.work import LeasedWork
from aos.node.problems import Problem
from aos.node.worker.node_requests import plain
from tests.node.leases.stage import Token

BODIES = {
    "claim": schemas.CLAIM,
    "heartbeat": schemas.HEARTBEAT,
    "results": schemas.RESULTS,
    "progress": schemas.PROGRESS,
    "release": schemas.RELEASE,
}


def decoded(schema: dict[str, Any], value: Any) -> Any:
    """A JSON body with its base64 texts as bytes; unknown fields are a failure."""
    if "anyOf" in schema:
        fits = (each for each in schema["anyOf"] if value.keys() <= each["properties"].keys())
        return decoded(next(fits), value)
    if schema.get("contentEncoding") == "base64":
        return base64.b64decode(value, validate=True)
    if "properties" in schema and isinstance(value, dict):
        assert set(value) <= set(schema["properties"]), set(value) - set(schema["properties"])
        assert set(schema["required"]) <= set(value)
        return {name: decoded(schema["properties"][name], each) for name, each in value.items()}
    if "items" in schema:
        assert schema["minItems"] <= len(value) <= schema["maxItems"]
        return [decoded(schema["items"], each) for each in value]
    return value


@dataclass
class NodeWire(httpx.AsyncBaseTransport):
    """``fails`` may raise for a request; then, with ``loses``, its answer is lost instead."""

    work: Callable[[], LeasedWork]
    token: Token = field(default_factory=Token)
    fails: Callable[[str], bool] = lambda _: False
    loses: Callable[[str], bool] = lambda _: False
    heard: list[tuple[str, Any]] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.rpartition("/")[2]
        body = decoded(BODIES[name], json.loads(await request.aread()))
        self.heard.append((name, body))
        if self.fails(name):
            raise httpx.ConnectError("refused", request=request)
        try:
            answer = await getattr(self.work(), name)(body, self.token)
        except Problem as problem:
            return httpx.Response(problem.status, json=problem.document())
        if self.loses(name):
            raise httpx.ReadError("the answer was lost", request=request)
        return httpx.Response(200, content=json.dumps(plain(answer)).encode())
