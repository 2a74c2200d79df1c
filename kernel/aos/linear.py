"""Linear step plans outside of their module (spec/linear.md).

An instance's state is read as claims and lists need it (L-10); ``ReadyList`` chooses which plan
step a worker gets next, which is advisory (L-32); and a handler's result, as workers report it,
becomes the event for the instance (L-34). The documents are those of ``/v1/work/results``:

    {"outcome": {"status": "completed", "patch": {…}}, "outbound": [{"schema": …, "value": …}]}
    {"outcome": {"status": "waiting", "event_type": "PAID", "timeout_ms": 86400000}}
    {"outcome": {"status": "retry", "error": "…", "backoff_ms": 500}}
    {"outcome": {"status": "dead", "error": "…"}}
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from aos.errors import Refused
from aos.manifest.effective import ONLY_OWN_STEPS, Effective
from aos.manifest.names import OUTBOUND_REFUSED
from aos.values.cbor import Value, decode_record, encode
from aos.values.errors import ValueProblem
from aos.values.schema import Schema

RUNNING: Final = "RUNNING"
READY: Final = "READY"
WAITING: Final = "WAITING"

JUST_AFTER_NS: Final = 1
"""A lease is over when its end lies before now."""

LinearState = Mapping[str, Any]
"""A value of ``aos/LinearInstance@1`` in normal form."""

_MS: Final = 10**6


@dataclass(frozen=True, slots=True, order=True)
class Claimable:
    """The current plan step of an instance that can be claimed from ``due_ns`` on.

    Ordered as workers get them: those that are ready before waits that have timed out, then by
    time, then by instance.
    """

    rank: int
    due_ns: int
    instance: str
    plan: str
    step: str


def claimable(state: LinearState) -> Claimable | None:
    """The plan step of an instance that can be claimed, now or later; None if none can be until an
    event comes."""
    if status_of(state) != RUNNING:
        return None
    row = current_row(state)
    rank, due_ns = 0, None
    match row["status"]["$tag"]:
        case "READY":
            due_ns = row["next_run_at"]
        case "RUNNING":
            due_ns = row["locked_until"] + JUST_AFTER_NS
        case "WAITING":
            rank = 1
            due_ns = row["deadline_at"] if state["wait_timeouts"] else None
    if due_ns is None:
        return None
    return Claimable(rank, due_ns, state["instance"], state["type"], row["step_type"])


def status_of(state: LinearState) -> str:
    """``RUNNING``, ``COMPLETED``, ``FAILED`` or ``CANCELED``."""
    status: str = state["status"]["$tag"]
    return status


def current_row(state: LinearState) -> Mapping[str, Any]:
    """The row of the current plan step."""
    row: Mapping[str, Any] = state["steps"][state["current_step_seq"]]
    return row


def context_of_state(state: LinearState) -> dict[str, Value]:
    """The context, its values decoded."""
    return {key: decode_record(data) for key, data in state["context"].items()}


def step_document(state: LinearState) -> dict[str, Any]:
    """The plan step that was claimed, as its handler gets it (L-33)."""
    row = current_row(state)
    woken = row["woken_by"]
    return {
        "instance": state["instance"],
        "biz_key": state["biz_key"],
        "plan": state["type"],
        "version": state["version"],
        "step": row["step_type"],
        "step_seq": state["current_step_seq"],
        "task_type": row["task"]["$tag"],
        "attempt": row["attempts"] + 1,
        "max_attempts": row["max_attempts"],
        "epoch": row["epoch"],
        "lease_until_ns": row["locked_until"],
        "context": context_of_state(state),
        "woken_by": None
        if woken is None
        else {
            "event_id": woken["event_id"],
            "type": woken["type"],
            "payload": decode_record(woken["payload"]),
        },
    }


def matches(pattern: str, plan: str, step: str) -> bool:
    """Whether ``order.process/SHIP``, ``*/SHIP`` or ``order.process/*`` has a plan step."""
    wanted_plan, _, wanted_step = pattern.rpartition("/")
    return wanted_plan in ("*", plan) and wanted_step in ("*", step)


class ReadyList:
    """The plan steps that can be claimed, now or later, at most one of an instance.

    An instance that is taken comes back with ``put``, once it is known what became of it.
    """

    def __init__(self) -> None:
        self._by_instance: dict[str, Claimable] = {}
        self._queues: dict[tuple[str, str, int], list[Claimable]] = {}

    def __len__(self) -> int:
        return len(self._by_instance)

    def clear(self) -> None:
        """Forget everything."""
        self._by_instance.clear()
        self._queues.clear()

    def put(self, instance: str, claimable: Claimable | None) -> bool:
        """Note what can be claimed of an instance; None if nothing. True if that is new."""
        if self._by_instance.get(instance) == claimable:
            return False
        if claimable is None:
            del self._by_instance[instance]
            return False
        self._by_instance[instance] = claimable
        queue = self._queues.setdefault((claimable.plan, claimable.step, claimable.rank), [])
        heapq.heappush(queue, claimable)
        return True

    def take(self, patterns: Iterable[str], now_ns: int) -> Claimable | None:
        """Take the first that is due and that one of ``patterns`` has; None if there is none."""
        heads = self._heads(patterns)
        first = min((head for head in heads if head.due_ns <= now_ns), default=None)
        if first is not None:
            del self._by_instance[first.instance]
        return first

    def due_ns(self, patterns: Iterable[str]) -> int | None:
        """When the next of them is due; None if none will be."""
        return min((head.due_ns for head in self._heads(patterns)), default=None)

    def _heads(self, patterns: Iterable[str]) -> list[Claimable]:
        """The first of each queue of the patterns, without what no longer holds."""
        all_patterns = tuple(patterns)
        heads = []
        for key, queue in list(self._queues.items()):
            if not any(matches(pattern, key[0], key[1]) for pattern in all_patterns):
                continue
            while queue and self._by_instance.get(queue[0].instance) is not queue[0]:
                heapq.heappop(queue)
            if queue:
                heads.append(queue[0])
            else:
                del self._queues[key]
        return heads


class OutcomeInvalid(Refused):
    """A result is not what a handler may return. ``pointer`` leads to the place."""

    def __init__(self, message: str, pointer: str) -> None:
        super().__init__(message)
        self.pointer = pointer


def outcome_value(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The value of ``aos/LinearOutcome@1``. The document fits its JSON Schema.

    Raises:
        OutcomeInvalid: A value of the patch has no form in CBOR.
    """
    match outcome["status"]:
        case "completed":
            return _arm("Completed", {"patch": _patch(_changes(outcome))})
        case "waiting":
            wait = {"event_type": outcome["event_type"], "timeout": _ns(outcome, "timeout_ms")}
            return _arm("Waiting", wait)
        case "retry":
            pause = {"error": outcome["error"], "backoff": _ns(outcome, "backoff_ms")}
            return _arm("Retry", pause)
    return _arm("Dead", {"error": outcome["error"]})


def outbound_values(
    events: Sequence[Mapping[str, Any]], manifest: Effective | None
) -> list[dict[str, Any]]:
    """The values of ``aos/LinearOutbound@1``, each event in the normal form of its schema.

    Raises:
        OutcomeInvalid: A schema is unknown, not for handlers or not open at ingress, or the value
            does not fit it.
    """
    values = []
    schemas: Mapping[str, Schema] = {} if manifest is None else manifest.schemas
    for index, event in enumerate(events):
        at, name = f"/outbound/{index}", event["schema"]
        schema = schemas.get(name)
        if name.startswith(OUTBOUND_REFUSED):
            raise OutcomeInvalid(f"a handler cannot emit {name}", f"{at}/schema")
        if schema is None:
            raise OutcomeInvalid(
                f"unknown schema {name}: the manifest in force does not have it", f"{at}/schema"
            )
        if manifest is not None and not manifest.is_open(name):
            raise OutcomeInvalid(f"{name} {ONLY_OWN_STEPS}", f"{at}/schema")
        try:
            values.append({"schema": name, "value": _event_bytes(event, schema)})
        except ValueProblem as problem:
            raise OutcomeInvalid(f"it does not fit {name}: {problem}", f"{at}/value") from problem
    return values


def _event_bytes(event: Mapping[str, Any], schema: Schema) -> bytes:
    if "value_cbor" in event:
        return schema.from_ingress(event["value_cbor"])
    return schema.encode(schema.from_json_object(event["value"]))


def _changes(outcome: Mapping[str, Any]) -> Mapping[str, Any]:
    if "patch_cbor" not in outcome:
        patch: Mapping[str, Any] = outcome.get("patch", {})
        return patch
    try:
        changes = decode_record(outcome["patch_cbor"])
    except ValueProblem as problem:
        raise OutcomeInvalid(str(problem), "/outcome/patch_cbor") from problem
    if not isinstance(changes, dict) or not all(isinstance(key, str) for key in changes):
        raise OutcomeInvalid("expected a map with text keys", "/outcome/patch_cbor")
    return cast("Mapping[str, Any]", changes)


def _patch(patch: Mapping[str, Any]) -> dict[str, Value]:
    encoded: dict[str, Value] = {}
    for key, value in patch.items():
        try:
            encoded[key] = None if value is None else encode(value)
        except (ValueProblem, TypeError) as problem:
            raise OutcomeInvalid(f"{key}: {problem}", f"/outcome/patch/{key}") from problem
    return encoded


def _ns(outcome: Mapping[str, Any], field: str) -> int | None:
    time_ms: int | None = outcome.get(field)
    return None if time_ms is None else time_ms * _MS


def _arm(tag: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"$tag": tag, "$value": value}
