"""Send results to a node so that no result costs another (spec/worker.md, W-4a)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aos.errors import BadUsage
from aos.node.worker.node_requests import NodeRequests

REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of payloads and blobs in one request; a larger item is sent alone. A node takes 16 MiB of
JSON, in which bytes are a third longer."""

ITEMS_MAX: Final = 256

Item = Mapping[str, Any]


def first_group(items: Sequence[Item]) -> Sequence[Item]:
    """Return the first items that fit in one request: at least one."""
    size = 0
    for index, item in enumerate(items[:ITEMS_MAX]):
        size += _bytes_in(item)
        if index and size > REQUEST_BYTES_MAX:
            return items[:index]
    return items[:ITEMS_MAX]


def _bytes_in(value: object) -> int:
    match value:
        case bytes() | str():
            return len(value)
        case Mapping():
            return sum(map(_bytes_in, value.values()))
        case list() | tuple():
            return sum(map(_bytes_in, value))
    return 0


async def post_results(node: NodeRequests, worker: str, results: Sequence[Item]) -> Sequence[Item]:
    """Send results, and return one answer or problem for each.

    A request that the node refuses as a whole is sent again in halves. So one result that the node
    does not understand has a problem, and the others have their answers.

    Raises:
        NodeUnavailable: The same request may succeed later.
        Refused: The node does not allow it.
        BadUsage: The node does not understand even the report that a result was refused.
    """
    try:
        answer = await node.post("/v1/work/results", {"worker": worker, "results": list(results)})
    except BadUsage as problem:
        if len(results) > 1:
            middle = len(results) // 2
            first = await post_results(node, worker, results[:middle])
            return [*first, *await post_results(node, worker, results[middle:])]
        if _is_refusal(results[0]):
            raise
        return [{"problem": {"status": 422, "rule": "result_does_not_fit", "detail": str(problem)}}]
    answers: Sequence[Item] = answer["answers"]
    return answers


def _is_refusal(result: Item) -> bool:
    """Whether a result is the worker's own report about a result that does not fit."""
    if "outcome" in result:
        return bool(result["outcome"]["status"] == "retry")
    return result["status"] in ("held", "parked")
