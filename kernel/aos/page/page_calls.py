"""Requests of a page to the API of its own node. On a standby, those about what the owner of the
world alone has, such as batches and tasks, are passed on to it (spec/cluster.md, CL-334)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from aos.node import bodies
from aos.node.calls import ApiCall, ApiReply
from aos.node.handlers import HANDLERS
from aos.node.passing_on import OF_OWNER, passed_on
from aos.node.problems import TYPE_PREFIX, Problem
from aos.node.routes import ApiRoute
from aos.node.services import Services
from aos.node.tokens import Token
from aos.read.views.record_view import Document

REFUSED: Final = 400


async def api_document(
    services: Services,
    route: ApiRoute,
    caller: Token,
    *,
    query: Mapping[str, Any] | None = None,
    body: Mapping[str, Any] | None = None,
) -> Document:
    """Return the document with which a route of the API answers. The page has checked the caller.

    Raises:
        AosError, Problem: As the handler of the route.
        Unavailable: The owner was not reached, or went away before it answered.
    """
    query = query or {}
    call = ApiCall(
        route=route,
        caller=caller,
        query=query,
        raw_query=urlencode(query, doseq=True).encode(),
        headers={} if body is None else {b"content-type": bodies.JSON.encode()},
        body=body,
        data=b"" if body is None else bodies.write_json(body),
    )
    if services.follows and route.operation in OF_OWNER:
        reply = await passed_on(services, call)
        document = bodies.parse(bodies.JSON, reply.data or b"")
        if reply.status >= REFUSED:
            raise _problem(reply, document)
    else:
        answer = await HANDLERS[route.operation](services, call)
        assert isinstance(answer, ApiReply)
        document = answer.document
    assert isinstance(document, dict)
    return document


def _problem(reply: ApiReply, document: Any) -> Problem:
    """The problem with which the owner's front has answered."""
    fields = document if isinstance(document, dict) else {}
    retry_after = reply.headers.get("Retry-After", reply.headers.get("retry-after", ""))
    return Problem(
        reply.status,
        str(fields.get("type", "")).removeprefix(TYPE_PREFIX) or "owner_refuses",
        str(fields.get("detail", "the owner's front has refused the request")),
        retry_after_s=int(retry_after) if retry_after.isdigit() else None,
        admitted=fields.get("admitted"),
    )
