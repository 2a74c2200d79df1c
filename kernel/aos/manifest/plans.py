"""Plans of a manifest: the steps of linear workflows, which the event that starts an instance
carries (M-70; L-1, L-3).

The kernel does not read them. Times are milliseconds here and nanoseconds in events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from aos.errors import Refused, excerpt
from aos.manifest.limits import Range
from aos.manifest.names import LINEAR, LINEAR_PACKAGE, RESERVE, START
from aos.values.cbor import Value, encode
from aos.values.errors import ValueProblem

MAX_ATTEMPTS_DEFAULT: Final = 10
BACKOFF_MS_DEFAULT: Final = 1_000
LEASE_MS_DEFAULT: Final = 30_000

STEPS: Final = Range(low=1, high=256)
VERSIONS: Final = Range(low=1, high=2**53)
RANGES: Final[Mapping[str, Range]] = {
    "max_attempts": Range(low=1, high=10_000),
    "backoff_ms": Range(low=0, high=86_400_000),
    "lease_ms": Range(low=1, high=86_400_000),
}

TYPE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
TYPE_WORDS: Final = (
    "1 to 128 letters, digits, dots, underscores and hyphens, the first a letter or digit"
)
"""The type of a plan and of a plan step. A handler is named ``<plan>/<plan step>``."""

CONTEXT_BYTES_MAX: Final = 64 << 10
NAME_BYTES_MAX: Final = 256
_MS: Final = 10**6

LinearMode: TypeAlias = Literal["standard", "source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One row of a plan. ``backoff_ms`` is the first pause; it doubles up to five minutes."""

    type: str
    max_attempts: int = MAX_ATTEMPTS_DEFAULT
    backoff_ms: int = BACKOFF_MS_DEFAULT
    lease_ms: int = LEASE_MS_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One version of a plan. ``wait_timeouts``: whether a plan step that waits is claimed after its
    deadline."""

    type: str
    version: int
    steps: tuple[PlanStep, ...]
    wait_timeouts: bool = True


class PlanInvalid(Refused):
    """A text or value is not a plan."""


class LinearRefused(Refused):
    """A linear instance cannot be started, woken or listed so."""


def plan_of(node: object, prefix: str = "") -> StepPlan:
    """Read a plan as a manifest has it, canonical or not, or as a user wrote it.

    Raises:
        PlanInvalid: It is not one. The message begins with ``prefix`` and the JSON pointer.
    """
    for pointer, message in plan_problems(node):
        raise PlanInvalid(f"{prefix}{pointer}: {message}" if prefix or pointer else message)
    assert isinstance(node, Mapping)
    return plan_in_form(node)


def plan_in_form(node: Mapping[str, Any]) -> StepPlan:
    """As ``plan_of``, for a node without problems."""
    return StepPlan(
        type=node["type"],
        version=node["version"],
        wait_timeouts=node.get("wait_timeouts", True),
        steps=tuple(
            PlanStep(type=step["type"], **{field: step[field] for field in RANGES if field in step})
            for step in node["steps"]
        ),
    )


def plan_node(plan: StepPlan) -> dict[str, Any]:
    """The canonical node: without fields that have their default."""
    node: dict[str, Any] = {"type": plan.type, "version": plan.version}
    if not plan.wait_timeouts:
        node["wait_timeouts"] = False
    defaults = PlanStep(type="")
    node["steps"] = [
        {"type": step.type}
        | {
            field: getattr(step, field)
            for field in RANGES
            if getattr(step, field) != getattr(defaults, field)
        }
        for step in plan.steps
    ]
    return node


def newest(plans: Iterable[StepPlan]) -> dict[str, StepPlan]:
    """The newest version of each type."""
    plan_by_type: dict[str, StepPlan] = {}
    for plan in plans:
        if plan.type not in plan_by_type or plan.version > plan_by_type[plan.type].version:
            plan_by_type[plan.type] = plan
    return plan_by_type


def plan_problems(node: object) -> Iterable[tuple[str, str]]:
    """(pointer, message) of what keeps a node from being a plan."""
    if not isinstance(node, Mapping):
        yield "", f"expected a plan, found {excerpt(repr(node))}"
        return
    yield from _unknown_fields(node, ("type", "version", "wait_timeouts", "steps"), "")
    yield from _type_problem(node, "")
    yield from _number_problem(node.get("version"), VERSIONS, "/version", "version")
    if not isinstance(node.get("wait_timeouts", True), bool):
        actual = excerpt(repr(node["wait_timeouts"]))
        yield "/wait_timeouts", f"wait_timeouts: expected true or false, found {actual}"
    steps = node.get("steps")
    if not isinstance(steps, (list, tuple)) or len(steps) not in STEPS:
        actual = str(len(steps)) if isinstance(steps, (list, tuple)) else excerpt(repr(steps))
        yield "/steps", f"steps: expected {STEPS.low} to {STEPS.high} plan steps, found {actual}"
        return
    for index, step in enumerate(steps):
        at = f"/steps/{index}"
        if not isinstance(step, Mapping):
            yield at, f"expected a plan step, found {excerpt(repr(step))}"
            continue
        yield from _unknown_fields(step, ("type", *RANGES), at)
        yield from _type_problem(step, at)
        for field, allowed in RANGES.items():
            if field in step:
                yield from _number_problem(step[field], allowed, f"{at}/{field}", field)


def _unknown_fields(
    node: Mapping[str, Any], known_fields: tuple[str, ...], at: str
) -> Iterable[tuple[str, str]]:
    for field in node:
        if field not in known_fields:
            yield at, f"unknown field {excerpt(str(field))}: known are {', '.join(known_fields)}"


def _type_problem(node: Mapping[str, Any], at: str) -> Iterable[tuple[str, str]]:
    value = node.get("type")
    if not isinstance(value, str) or TYPE.fullmatch(value) is None:
        yield (
            f"{at}/type",
            f"type: expected {TYPE_WORDS}, found {excerpt(repr(value))}",
        )


def _number_problem(
    value: object, allowed: Range, at: str, field: str
) -> Iterable[tuple[str, str]]:
    if not isinstance(value, int) or isinstance(value, bool) or value not in allowed:
        yield (
            at,
            f"{field}: expected {allowed.low} to {allowed.high}, found {excerpt(repr(value))}",
        )


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
    """The schema and the value of the event that starts ``instance`` on ``plan`` (L-1, L-3).

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
