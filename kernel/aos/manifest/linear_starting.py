"""A plan and a context -> the event that starts an instance (L-1, L-3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from aos.errors import Refused, excerpt
from aos.manifest.linear_names import LINEAR, LINEAR_PACKAGE, RESERVE, START
from aos.manifest.plans import StepPlan, newest
from aos.values.cbor import Value, encode
from aos.values.errors import ValueProblem

LinearMode: TypeAlias = Literal["standard", "source"]

CONTEXT_BYTES_MAX: Final = 64 << 10
NAME_BYTES_MAX: Final = 256
_MS: Final = 10**6


class LinearRefused(Refused):
    """A linear instance cannot be started, woken or listed so."""


def chosen_plan(plans: tuple[StepPlan, ...], plan_type: str, version: int | None) -> StepPlan:
    """The plan of a type: the newest version, or the one that is named.

    Raises:
        LinearRefused: The manifest has no such plan.
    """
    newest_plan = newest(plans).get(plan_type)
    if newest_plan is None:
        known_text = ", ".join(sorted(newest(plans))) or "none"
        raise LinearRefused(
            f"unknown plan {excerpt(plan_type)}: the manifest in force has {known_text}"
        )
    if version is None or version == newest_plan.version:
        return newest_plan
    for plan in plans:
        if (plan.type, plan.version) == (plan_type, version):
            return plan
    known_text = ", ".join(str(plan.version) for plan in plans if plan.type == plan_type)
    raise LinearRefused(
        f"plan {plan_type} has no version {version}: the manifest in force has {known_text}"
    )


def must_have_linear(workflows: Mapping[str, object]) -> None:
    """Raise LinearRefused if a manifest has no linear workflows."""
    if LINEAR not in workflows:
        raise LinearRefused(
            "the manifest in force has no linear workflows "
            f'(add "uses": ["{LINEAR_PACKAGE}"] to it and apply it)'
        )


def start_event(
    plan: StepPlan,
    instance: str,
    context: Mapping[str, Value],
    *,
    biz_key: str | None = None,
    schedule: str | None = None,
    mode: LinearMode = "standard",
) -> tuple[str, dict[str, Any]]:
    """The schema and the value of the event that starts ``instance`` on ``plan``.

    Raises:
        LinearRefused: An id or the context is too long.
    """
    check_name("instance", instance)
    start: dict[str, Any] = {
        "instance": instance,
        "schedule": schedule,
        "type": plan.type,
        "version": plan.version,
        "mode": {"$tag": mode},
        "wait_timeouts": plan.wait_timeouts,
        "context": packed_context(context),
        "steps": [
            {
                "type": step.type,
                "max_attempts": step.max_attempts,
                "backoff": step.backoff_ms * _MS,
                "lease": step.lease_ms * _MS,
            }
            for step in plan.steps
        ],
    }
    if biz_key is None:
        return START, start
    check_name("biz_key", biz_key)
    return RESERVE, {"biz_key": biz_key, "start": start}


def packed_context(context: Mapping[str, Value]) -> dict[str | int, Value]:
    """A context as an event has it: each value as canonical CBOR.

    Raises:
        LinearRefused: It is longer than 64 KiB.
    """
    packed: dict[str | int, Value] = {key: encode(value) for key, value in context.items()}
    length = len(encode(packed))
    if length > CONTEXT_BYTES_MAX:
        raise LinearRefused(
            f"context: expected at most {CONTEXT_BYTES_MAX} bytes of CBOR, found {length}"
        )
    return packed


def check_name(subject: str, text: str) -> None:
    """Raise LinearRefused unless ``text`` has 1 to 256 bytes of UTF-8."""
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise LinearRefused(f"{subject}: expected UTF-8, found half of a surrogate pair") from None
    if not 1 <= length <= NAME_BYTES_MAX:
        raise LinearRefused(f"{subject}: expected 1 to {NAME_BYTES_MAX} bytes, found {length}")


def context_of(value: object) -> Mapping[str, Value]:
    """Check that a value is a map with text keys, as a context is.

    Raises:
        LinearRefused: It is something else.
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise LinearRefused(f"context: expected an object, found {excerpt(repr(value))}")
    try:
        encode(dict(value))
    except ValueProblem as problem:
        raise LinearRefused(f"context: {problem}") from problem
    return value
