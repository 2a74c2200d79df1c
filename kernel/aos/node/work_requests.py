"""Requests about tasks that may be of both kinds: effects, and plan steps of linear workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from aos.node.calls import ApiCall, ApiReply
from aos.node.leases.desk import Body, ScopedToken
from aos.node.leases.work import LeasedWork
from aos.node.problems import NOT_ADMITTED, Problem
from aos.node.services import Services
from aos.node.steps.step_documents import is_step
from aos.node.steps.step_work import StepWork
from aos.values.digests import parse_hash

_OfEffects: TypeAlias = Callable[[Body, ScopedToken], Awaitable[dict[str, Any]]]
_OfSteps: TypeAlias = Callable[[Sequence[Body], Body, ScopedToken], Awaitable[list[dict[str, Any]]]]


async def claim_tasks(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/work/claim``: of effects, or with ``steps`` of plan steps."""
    work, steps = _ready(services)
    if "steps" not in call.body:
        claimed = await work.claim(call.body, call.caller, call.connection)
        return ApiReply(document=_traced(services, claimed))
    if "effects" in call.body:
        raise Problem(
            422, "claim_is_of_two_kinds",
            "a claim asks for effects or for steps (send two claims)", pointer="/steps",
        )  # fmt: skip
    return ApiReply(document=await steps.claim(call.body, call.caller, call.connection))


def _traced(services: Services, claimed: dict[str, Any]) -> dict[str, Any]:
    """Give each task the trace context of its effect (N-85)."""
    if services.spans is not None:
        for task in claimed["tasks"]:
            task["traceparent"] = services.spans.traceparent(parse_hash(task["task"]))
    return claimed


async def heartbeat_tasks(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/work/heartbeat``."""
    work, steps = _ready(services)
    return await _split(call, "leases", work.heartbeat, steps.heartbeat)


async def settle_tasks(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/work/results``."""
    work, steps = _ready(services)
    return await _split(call, "results", work.results, steps.results)


async def release_tasks(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/work/release``."""
    work, steps = _ready(services)
    return await _split(call, "leases", work.release, steps.release)


async def _split(call: ApiCall, field: str, of_effects: _OfEffects, of_steps: _OfSteps) -> ApiReply:
    """Let each kind answer its items; the answers are in the order of the items."""
    items: list[Body] = call.body[field]
    steps = [item for item in items if is_step(item["task"])]
    if not steps:
        return ApiReply(document=await of_effects(call.body, call.caller))
    effects = [item for item in items if not is_step(item["task"])]
    answers, effect_answers = await asyncio.gather(
        of_steps(steps, call.body, call.caller), _of_effects(call, field, effects, of_effects)
    )
    of_kind = {True: iter(answers), False: iter(effect_answers)}
    return ApiReply(document={"answers": [next(of_kind[is_step(item["task"])]) for item in items]})


async def _of_effects(
    call: ApiCall, field: str, items: Sequence[Body], of_effects: _OfEffects
) -> list[dict[str, Any]]:
    if not items:
        return []
    answers: list[dict[str, Any]] = (await of_effects({**call.body, field: items}, call.caller))[
        "answers"
    ]
    return answers


def _ready(services: Services) -> tuple[LeasedWork, StepWork]:
    if services.work is None or services.steps is None:
        raise not_ready(services)
    return services.work, services.steps


def not_ready(services: Services) -> Problem:
    """The front has just begun, or this node does not own the world: only a form of the page comes
    here then."""
    if services.follows:
        return Problem(
            503, "node_is_no_owner",
            "tasks and batches are those of the node that owns the world (use the page there, or "
            "the API of any node)", retry_after_s=1, admitted=NOT_ADMITTED,
        )  # fmt: skip
    return Problem(503, "work_is_not_ready", "the node is starting", retry_after_s=1)
