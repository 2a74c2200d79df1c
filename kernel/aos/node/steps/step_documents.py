"""Plan steps as tasks of ``/v1/work`` (L-33)."""

from __future__ import annotations

import re
from typing import Any, Final

from aos.linear import LinearState, step_document
from aos.node.leases.documents import CBOR
from aos.node.problems import Problem
from aos.read.lens.words import as_json
from aos.values.cbor import encode

STEP_TASK: Final = re.compile(r"step:(0|[1-9][0-9]{0,2}):(.{1,256})", re.DOTALL)
STEP_PREFIX: Final = "step:"
_MS: Final = 10**6


def is_step(task: str) -> bool:
    """Whether a task is a plan step. Every other task is an intent of an effect."""
    return task.startswith(STEP_PREFIX)


def task_name(instance: str, seq: int) -> str:
    """``step:2:i-1``: the third plan step of the instance ``i-1``."""
    return f"{STEP_PREFIX}{seq}:{instance}"


def task_place(task: str) -> tuple[str, int]:
    """Instance and number of the plan step that a task names.

    Raises:
        Problem: 422: it names none.
    """
    match = STEP_TASK.fullmatch(task)
    if match is None:
        raise Problem(422, "task_is_invalid", "expected step:NUMBER:INSTANCE", pointer="/task")
    return match[2], int(match[1])


def step_task(state: LinearState, form: str, now_ns: int) -> dict[str, Any]:
    """The task of the current plan step, which a worker has claimed. ``lease_ms`` is how long the
    lease lasts from ``now_ns`` on."""
    document = step_document(state)
    document["lease_ms"] = max(0, document["lease_until_ns"] - now_ns) // _MS
    context, woken = encode(document.pop("context")), document.pop("woken_by")
    task: dict[str, Any] = {
        "task": task_name(document["instance"], document["step_seq"]),
        "kind": "step",
        **document,
    }
    if form == CBOR:
        return {**task, "context_cbor": context, "woken_by_cbor": encode(woken)}
    return {**task, "context": as_json(None, context), "woken_by": as_json(None, encode(woken))}
