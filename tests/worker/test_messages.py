"""Messages of a worker process are believed only if they fit its tasks (X-50)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.core.journal.records import Batch
from aos.host.executors import messages
from aos.worker.wire import WireProblem
from tests.worker.stage import intent_of, task

KEY = bytes(32)
HASH = bytes(range(32))


def done(**changes: Any) -> dict[str, Any]:
    given = {
        "op": "done",
        "intent": intent_of(1),
        "effect": "test/echo@1",
        "attempt": 1,
        "status": "ok",
        "payload": b"",
        "started_ns": 1,
        "finished_ns": 2,
        "cost_cents": None,
        "signature": b"s",
        "batch": None,
        "blobs": [],
        "dropped": 0,
    }
    return {**given, **changes}


def test_a_batch_is_read() -> None:
    given = done(batch=[1, 3, [HASH, HASH]])

    outcome = messages.outcome(task(1), given, name="shop", key=KEY)

    assert outcome.batch == Batch(index=1, size=3, path=(HASH, HASH))  # type: ignore[arg-type]  # any 32 bytes
    assert (outcome.executor, outcome.key_id, outcome.signature) == ("shop", KEY, b"s")


def test_an_unsigned_outcome_has_no_batch() -> None:
    given = done(signature=None, batch=[0, 1, []])

    outcome = messages.outcome(task(1), given, name="shop", key=None)

    assert (outcome.executor, outcome.key_id, outcome.batch) == ("node", None, None)


@pytest.mark.parametrize(
    "batch", [7, [], [0, 1], [0, "1", []], [0, 1, [b"short"]], [0, 1, [1]], [True, 1, []]]
)
def test_a_batch_that_is_none_breaks_the_protocol(batch: Any) -> None:
    with pytest.raises(WireProblem, match="message done has a batch that is none"):
        messages.outcome(task(1), done(batch=batch), name="shop", key=KEY)


@pytest.mark.parametrize(
    "changes", [{"blobs": [7]}, {"blobs": {}}, {"cost_cents": True}, {"payload": "text"}]
)
def test_an_outcome_with_a_part_of_another_type_breaks_the_protocol(changes: Any) -> None:
    with pytest.raises(WireProblem, match="message done does not say how its task ended"):
        messages.outcome(task(1), done(**changes), name="shop", key=KEY)
