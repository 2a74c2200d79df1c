"""The bodies of ``/v1/work/*`` as JSON Schemas (N-51 to N-63). Bytes are base64 text in JSON, and
byte strings in CBOR."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

ITEMS_MAX: Final = 256
"""Tasks of a claim, and items of each other request."""

WAIT_MS_MAX: Final = 60_000
LEASE_MS: Final = 30_000
LEASE_MS_MIN: Final = 1_000
LEASE_MS_MAX: Final = 3_600_000
EFFECTS_MAX: Final = 1_024
NAME_CHARS_MAX: Final = 128
NUMBER_MAX: Final = 2**63 - 1
EPOCH_MAX: Final = 2**32 - 1
PROBLEM_CHARS_MAX: Final = 4_096
BLOBS_MAX: Final = 64


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _list(items: Schema, items_max: int = ITEMS_MAX, least: int = 1) -> Schema:
    return {"type": "array", "items": items, "minItems": least, "maxItems": items_max}


def _integer(least: int, maximum: int = NUMBER_MAX) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": maximum}


def _text(length_max: int, least: int = 1) -> Schema:
    return {"type": "string", "minLength": least, "maxLength": length_max}


BYTES: Final[Schema] = {"type": "string", "contentEncoding": "base64"}
TASK: Final[Schema] = {"type": "string", "pattern": "^blake3:[0-9a-f]{64}$"}
_STEP: Final[Schema] = {"type": "string", "pattern": "^step:(0|[1-9][0-9]{0,2}):.{1,256}$"}
"""A plan step of a linear workflow: its number and its instance."""

_TASK_OR_STEP: Final[Schema] = {
    "type": "string",
    "pattern": "^(blake3:[0-9a-f]{64}|step:(0|[1-9][0-9]{0,2}):.{1,256})$",
}
ANY: Final[Schema] = {}
BOOL: Final[Schema] = {"type": "boolean"}
_NAME: Final = _text(NAME_CHARS_MAX)
_EFFECT: Final = _text(256)
_EPOCH: Final = _integer(1, EPOCH_MAX)
_PROBLEM: Final[Schema] = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "rule": {"type": "string"},
        "pointer": {"type": "string"},
    },
    "required": ["type", "status", "detail", "rule"],
}

_STEP_TYPE: Final = r"([A-Za-z0-9][A-Za-z0-9._-]{0,127}|\*)"

_SIGNATURE: Final = _object(
    {"executor": _NAME, "key": BYTES, "value": BYTES},
    {
        "batch": _object(
            {"index": _integer(0), "size": _integer(1), "path": _list(BYTES, 64, 0)},
        )
    },
)

CLAIM: Final = _object(
    {"worker": _NAME, "claim": _NAME},
    {
        "effects": _list(
            _object(
                {"name": _EFFECT},
                {
                    "max": _integer(1, ITEMS_MAX),
                    "attempts": _integer(1, 100),
                    "backoff_ms": _integer(0, 3_600_000),
                    "backoff_cap_ms": _integer(0, 86_400_000),
                },
            ),
            EFFECTS_MAX,
        ),
        "steps": _list(
            _object(
                {"name": {"type": "string", "pattern": f"^{_STEP_TYPE}/{_STEP_TYPE}$"}},
                {"max": _integer(1, ITEMS_MAX)},
            ),
            EFFECTS_MAX,
        ),
        "max": _integer(1, ITEMS_MAX),
        "lease_ms": _integer(LEASE_MS_MIN, LEASE_MS_MAX),
        "wait_ms": _integer(0, WAIT_MS_MAX),
        "signs": _object({"executor": _NAME, "key": BYTES}),
        "form": {"enum": ["json", "cbor"]},
        "manifest": TASK,
    },
)
"""``effects`` without it: all that the token allows; with ``steps``, plan steps instead
(``order.process/SHIP``, ``*/SHIP``). ``form`` is the form of params and keys in the
answer; with ``cbor``, the manifest in force comes with it unless ``manifest`` is its hash."""

_EFFECT_TASK: Final = _object(
    {
        "task": TASK,
        "kind": {"type": "string", "enum": ["effect"]},
        "effect": _EFFECT,
        "attempt": _EPOCH,
        "epoch": _EPOCH,
        "idempotency_key": {"type": "string"},
        "workflow": {"type": "string"},
        "issuer_ref": {"type": ["string", "null"]},
        "world": TASK,
        "lease_until_ns": _integer(0),
        "lease_ms": _integer(1),
        "timeout_ms": _integer(1),
        "next_frame": _integer(0),
        "takes_progress": BOOL,
    },
    {
        "params": ANY,
        "params_cbor": BYTES,
        "key": ANY,
        "key_cbor": BYTES,
        "traceparent": {"type": "string"},
        "sealed": {"type": "array", "items": {"type": "string"}},
    },
)

_STEP_TASK: Final = _object(
    {
        "task": _STEP,
        "kind": {"type": "string", "enum": ["step"]},
        "instance": {"type": "string"},
        "biz_key": {"type": ["string", "null"]},
        "plan": {"type": "string"},
        "version": _integer(1),
        "step": {"type": "string"},
        "step_seq": _integer(0, 255),
        "task_type": {"enum": ["READY_STEP", "WAITING_TIMEOUT"]},
        "attempt": _integer(1),
        "max_attempts": _integer(1),
        "epoch": _EPOCH,
        "lease_until_ns": _integer(0),
        "lease_ms": _integer(0),
    },
    {"context": ANY, "context_cbor": BYTES, "woken_by": ANY, "woken_by_cbor": BYTES},
)

CLAIMED: Final = _object(
    {
        "world": TASK,
        "tasks": _list({"anyOf": [_EFFECT_TASK, _STEP_TASK]}, least=0),
        "unserved": _list(
            _object({"effect": _EFFECT, "rule": _NAME, "detail": _text(PROBLEM_CHARS_MAX)}),
            EFFECTS_MAX,
            0,
        ),
    },
    {"manifest": _object({"hash": TASK, "document": BYTES})},
)

_LEASE: Final[dict[str, Schema]] = {"task": _TASK_OR_STEP, "epoch": _EPOCH}

_ERROR: Final = _text(1 << 20, 0)
_PAUSE_MS: Final = _integer(0, 36_600 * 86_400_000)
_OUTCOME: Final[Schema] = {
    "anyOf": [
        _object(
            {"status": {"const": "completed"}}, {"patch": {"type": "object"}, "patch_cbor": BYTES}
        ),
        _object(
            {"status": {"const": "waiting"}, "event_type": _text(256)}, {"timeout_ms": _PAUSE_MS}
        ),
        _object({"status": {"const": "retry"}, "error": _ERROR}, {"backoff_ms": _PAUSE_MS}),
        _object({"status": {"const": "dead"}, "error": _ERROR}),
    ]
}
_OUTBOUND: Final = _list(
    _object({"schema": _text(256)}, {"value": ANY, "value_cbor": BYTES}), 64, 0
)

HEARTBEAT: Final = _object(
    {"worker": _NAME, "leases": _list(_object(_LEASE))},
    {"lease_ms": _integer(LEASE_MS_MIN, LEASE_MS_MAX)},
)
BEATEN: Final = _object(
    {
        "answers": _list(
            _object(
                {"task": _TASK_OR_STEP, "answer": {"enum": ["leased", "canceled", "lost"]}},
                {"lease_until_ns": _integer(0)},
            ),
            least=0,
        )
    }
)

STATUSES: Final = ("ok", "error", "timeout", "canceled", "held", "parked")

_EFFECT_RESULT: Final = _object(
    {
        "task": TASK,
        "epoch": _EPOCH,
        "status": {"enum": list(STATUSES)},
        "started_ns": _integer(0),
        "finished_ns": _integer(0),
    },
    {
        "payload": ANY,
        "payload_cbor": BYTES,
        "cost_cents": _integer(0),
        "blobs": _list(BYTES, BLOBS_MAX, 0),
        "is_final": BOOL,
        "signature": _SIGNATURE,
    },
)

_STEP_RESULT: Final = _object(
    {"task": _STEP, "epoch": _EPOCH, "outcome": _OUTCOME}, {"outbound": _OUTBOUND}
)

RESULTS: Final = _object(
    {"worker": _NAME, "results": _list({"anyOf": [_EFFECT_RESULT, _STEP_RESULT]})}
)
"""``held`` and ``parked`` settle nothing (X-15, X-17); like ``error`` they have a payload of
``sys/EffectError@1``. ``is_final`` forbids another attempt (X-45)."""

TAKEN: Final = _object(
    {
        "answers": _list(
            _object(
                {"task": _TASK_OR_STEP},
                {
                    "answer": {
                        "enum": ["settled", "duplicate", "abandoned", "retry", "held", "parked"]
                    },
                    "seq": _integer(1),
                    "outcome": {"type": "string"},
                    "retry_at_ns": _integer(0),
                    "problem": _PROBLEM,
                },
            ),
            least=0,
        )
    }
)

PROGRESS: Final = _object(
    {
        "worker": _NAME,
        "frames": _list(
            _object(
                {"task": TASK, "epoch": _EPOCH, "number": _integer(0), "kind": _NAME},
                {"payload": ANY, "payload_cbor": BYTES, "blob": BYTES, "signature": _SIGNATURE},
            )
        ),
    }
)
HEARD: Final = _object(
    {
        "answers": _list(
            _object(
                {"task": TASK, "number": _integer(0)},
                {"answer": {"enum": ["taken", "dropped"]}, "detail": {"type": "string"},
                 "problem": _PROBLEM},
            ),
            least=0,
        )
    }
)  # fmt: skip

RELEASE: Final = _object(
    {"worker": _NAME, "leases": _list(_object({**_LEASE, "began": BOOL}))},
)
RELEASED: Final = _object(
    {
        "answers": _list(
            _object({"task": _TASK_OR_STEP, "answer": {"enum": ["released", "lost"]}}), least=0
        )
    }
)

TASKS: Final = _object(
    {
        "tasks": _list(
            _object(
                {
                    "task": TASK,
                    "effect": _EFFECT,
                    "phase": {"enum": ["leased", "paused", "parked", "held"]},
                    "attempt": _integer(0),
                    "lost": _integer(0),
                },
                {
                    "worker": {"type": "string"},
                    "token": {"type": "string"},
                    "until_ns": _integer(0),
                    "problem": {"type": ["string", "null"]},
                },
            ),
            10_000,
            0,
        ),
        "leased": _integer(0),
        "offered": _integer(0),
        "parked": _integer(0),
    }
)

RETRY: Final[Schema] = {
    "type": "object",
    "properties": {"tasks": _list(TASK, 1024), "all_parked": {"type": "boolean", "enum": [True]}},
    "additionalProperties": False,
    "minProperties": 1,
    "maxProperties": 1,
}
RECLAIM: Final = _object({"tasks": _list(TASK, 1024)})
RUN: Final = _object({"tasks": _list(TASK, 100_000, 0)})
"""The tasks that run again, or whose leases have ended."""
