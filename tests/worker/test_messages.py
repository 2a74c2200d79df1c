"""Messages of a worker process are believed only if they fit its tasks (X-50)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.core.journal.records import Batch
from aos.host.executors import messages
from aos.worker.wire import WireProblem
from tests.worker.stage import intent_of

KEY = bytes(32)
HASH = bytes(range(32))


def done(**changes: Any) -> dict[str, Any]:
    """A result that ``shop`` signed; a change to None leaves the field out."""
    given = {
        "intent": intent_of(1),
        "effect": "test/echo@1",
        "attempt": 1,
        "status": "ok",
        "payload": b"",
        "started_ns": 1,
        "finished_ns": 2,
        "executor": "shop",
        "key_id": KEY,
        "signature": b"s",
    }
    fields = {**given, **changes}
    return {"op": "done", **{name: value for name, value in fields.items() if value is not None}}


def test_a_batch_is_read() -> None:
    given = done(batch=[1, 3, [HASH, HASH]])

    outcome = messages.outcome(given, name="shop", key=KEY)

    assert outcome.batch == Batch(index=1, size=3, path=(HASH, HASH))  # type: ignore[arg-type]  # any 32 bytes
    assert (outcome.executor, outcome.key_id, outcome.signature) == ("shop", KEY, b"s")


UNSIGNED: dict[str, Any] = {"executor": None, "key_id": None, "signature": None}


def test_an_unsigned_outcome_is_the_nodes_and_has_no_batch() -> None:
    outcome = messages.outcome(done(**UNSIGNED), name="shop", key=None)

    assert (outcome.executor, outcome.key_id, outcome.batch) == ("node", None, None)
    with pytest.raises(WireProblem, match="batch: expected a signature with it"):
        messages.outcome(done(**UNSIGNED, batch=[0, 1, []]), name="shop", key=None)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (UNSIGNED, KEY),
        ({"executor": "bank"}, KEY),
        ({"key_id": bytes(31) + b"k"}, KEY),
        ({}, None),
        ({"executor": "node"}, None),
    ],
)
def test_a_signature_of_another_than_the_process_breaks_the_protocol(
    changes: Any, key: bytes | None
) -> None:
    with pytest.raises(WireProblem, match="signed by another key than its process's"):
        messages.outcome(done(**changes), name="shop", key=key)


@pytest.mark.parametrize(
    "batch", [7, [], [0, 1], [0, "1", []], [0, 1, [b"short"]], [0, 1, [1]], [True, 1, []]]
)
def test_a_batch_that_is_none_breaks_the_protocol(batch: Any) -> None:
    with pytest.raises(WireProblem, match="message done does not say how its task ended: batch: "):
        messages.outcome(done(batch=batch), name="shop", key=KEY)


@pytest.mark.parametrize(
    "changes",
    [{"blobs": [7]}, {"blobs": {}}, {"cost_cents": True}, {"payload": "text"}, {"more": 1}],
)
def test_an_outcome_with_a_part_of_another_type_breaks_the_protocol(changes: Any) -> None:
    with pytest.raises(WireProblem, match="message done does not say how its task ended"):
        messages.outcome(done(**changes), name="shop", key=KEY)
