"""``/v1/cluster``: the cluster of a replicated world, as the process of this node reads it from the
servers (spec/cluster.md, CL-320 to CL-322). The front has no credentials of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from aos.errors import AosError
from aos.message_fields import Message, field
from aos.node.access import check_scope
from aos.node.calls import ApiCall, ApiReply
from aos.node.problems import text_for_clients
from aos.node.services import Services
from aos.node.tokens import OPERATE

EMBEDDED: Final[Mapping[str, Any]] = {
    "address": None, "here": None, "members": [], "groups": [], "worlds": [], "worlds_cut": False,
}  # fmt: skip
"""The document of an embedded world, which has no servers."""


async def read_cluster(services: Services, call: ApiCall) -> ApiReply:
    """``GET /v1/cluster``: without the path of the folder (N-120). Those that may operate the world
    may read of other worlds of the servers, too."""
    has_all = call.query.get("all", False)
    if has_all:
        check_scope(call.caller, replace(call.route, scope=OPERATE))
    if not services.is_replica:
        return ApiReply(document=dict(EMBEDDED))
    document = _document_of(await services.link.cluster("cluster", all=has_all))
    here = document["here"]
    if here is not None:
        here["folder"] = None
    return ApiReply(document=document)


async def read_cluster_check(services: Services, _: ApiCall) -> ApiReply:
    """``GET /v1/cluster/check``: the findings, without the path of the folder."""
    if not services.is_replica:
        return ApiReply(document={"worlds": [], "unchecked": [], "findings": []})
    document = _document_of(await services.link.cluster("cluster_check"))
    for finding in document["findings"]:
        finding["text"] = text_for_clients(AosError(finding["text"]), services.folder.path)
    return ApiReply(document=document)


def _document_of(answer: Message) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(field(answer, "document", bytes))
    return document
