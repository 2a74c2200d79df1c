"""``/v1/linear/*``: start, wake and cancel linear instances (spec/linear.md, L-50 to L-53)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aos.manifest.names import CANCEL, LINEAR, RESERVE, SIGNAL, START
from aos.manifest.plans import (
    LinearRefused,
    PlanInvalid,
    StepPlan,
    check_name,
    chosen_plan,
    context_of,
    must_have_linear,
    plan_of,
    start_event,
)
from aos.node.calls import ApiCall, ApiReply
from aos.node.problems import Problem
from aos.node.services import Services
from aos.node.steps.step_work import ask_instance, refusal
from aos.node.tokens import SEND
from aos.read.views.cell_view import annotation_in_journal
from aos.read.views.linear_view import LinearAnswer
from aos.values.cbor import encode
from aos.values.errors import ValueProblem

ANSWER_S: Final = 20.0
LOOK_S: Final = 0.01


async def start_linear(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/linear/start``: answered once the instance has started."""
    body = call.body
    schema = START if body.get("biz_key") is None else RESERVE
    _check_scope(call, schema)
    try:
        plan = _plan(services, body)
        schema, value = start_event(
            plan,
            body["instance"],
            context_of(body.get("context", {})),
            biz_key=body.get("biz_key"),
            mode=body.get("mode", "standard"),
        )
    except (LinearRefused, PlanInvalid, ValueProblem) as problem:
        raise Problem(422, "start_is_invalid", str(problem)) from problem
    answer = await ask_instance(services, schema, value)
    if schema == RESERVE and not answer.reason:
        answer = await _started(services, answer, body["instance"])
    if answer.reason:
        raise refusal(answer)
    return ApiReply(
        document={
            "instance": body["instance"],
            "plan": plan.type,
            "version": plan.version,
            "biz_key": body.get("biz_key"),
            "seq": answer.seq,
        }
    )


async def wake_linear(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/linear/wake``: T10, or the signal waits for its plan step."""
    body = call.body
    _check_scope(call, SIGNAL)
    payload = body.get("payload_cbor")
    try:
        if payload is None:
            payload = encode(body.get("payload"))
        for name in ("instance", "type", "event_id"):
            check_name(name, body[name])
    except (LinearRefused, ValueProblem, TypeError) as problem:
        raise Problem(422, "signal_is_invalid", str(problem)) from problem
    value = {
        "instance": body["instance"],
        "event_id": body["event_id"],
        "type": body["type"],
        "payload": payload,
    }
    return await _asked(services, SIGNAL, value)


async def cancel_linear(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/linear/cancel``."""
    _check_scope(call, CANCEL)
    value = {"instance": call.body["instance"], "reason": call.body.get("reason", "")}
    return await _asked(services, CANCEL, value)


async def _asked(services: Services, schema: str, value: dict[str, Any]) -> ApiReply:
    answer = await ask_instance(services, schema, value)
    if answer.reason:
        raise refusal(answer)
    return ApiReply(document={"instance": value["instance"], "seq": answer.seq})


async def _started(services: Services, reserved: LinearAnswer, instance: str) -> LinearAnswer:
    """The answer of the instance, after that of its business key."""
    cell = (LINEAR, encode(instance))
    loop = asyncio.get_running_loop()
    until_s = loop.time() + ANSWER_S
    while True:
        last = await services.follower.advance_to()
        annotation = annotation_in_journal(services.follower.store, reserved.root, cell, last)
        if annotation is not None:
            return LinearAnswer.of(annotation)
        if loop.time() >= until_s:
            raise Problem(
                503, "no_answer", f"instance {instance} has not answered (look at it)",
                retry_after_s=1,
            )  # fmt: skip
        await asyncio.sleep(LOOK_S)


def _plan(services: Services, body: Mapping[str, Any]) -> StepPlan:
    manifest = services.follower.state.manifest
    must_have_linear({} if manifest is None else manifest.workflows)
    assert manifest is not None
    if isinstance(body["plan"], Mapping):
        return plan_of(body["plan"], "plan")
    return chosen_plan(manifest.plans, body["plan"], body.get("version"))


def _check_scope(call: ApiCall, schema: str) -> None:
    if not call.caller.allows(SEND, schema):
        raise Problem(
            403, "token_does_not_allow", f"the token {call.caller.name} may not send {schema}"
        )
