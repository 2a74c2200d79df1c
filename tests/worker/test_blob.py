"""Bytes into the store and out of it (X-30 to X-34)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aos.core.decide.answers import Answer
from aos.host.executors.blob import BlobExecutor, edge
from aos.host.executors.task import Task
from aos.values.cbor import Value
from aos.values.digests import Hash, content_hash, digest, hash_text
from aos.worker.outcome import Outcome
from tests.answers import ABANDONED, LATE, refused
from tests.worker.stage import (
    Journal,
    act,
    effective,
    error_code,
    intent_of,
    payload,
    store_of,
    task,
)

DATA = b"some bytes"
BLOB = content_hash(DATA)
REFS = [content_hash(b"b"), content_hash(b"a")]


def blob_task(number: int, name: str, **params: Value) -> Task:
    return task(number, f"sys/blob.{name}@1", params)


def done(*tasks: Task, store: dict[Hash, bytes] | None = None) -> dict[int, Outcome]:
    async def play(executor: BlobExecutor, journal: Journal) -> None:
        executor.publish(tasks)
        await journal.wait(len(tasks))

    read = store_of(store or {})
    journal = act(lambda journal: BlobExecutor(read, report=journal.report), play)
    return {each.opened_seq: journal.of(each.opened_seq) for each in tasks}


def test_a_blob_is_put_with_its_edge() -> None:
    outcome = done(blob_task(1, "put", bytes=DATA))[1]

    assert (outcome.status, outcome.executor) == ("ok", "node")
    assert payload(outcome) == {
        "blob_ref": hash_text(BLOB),
        "edge_ref": hash_text(digest("aos/edge/1", BLOB)),
        "size": 10,
    }
    assert outcome.blobs == {BLOB: DATA, digest("aos/edge/1", BLOB): edge(BLOB, [])}
    receipt = effective().effects["sys/blob.put@1"].receipt
    assert receipt.from_record(outcome.payload) == payload(outcome)


def test_an_edge_is_over_the_blob_and_its_refs_each_once_and_sorted() -> None:
    """X-31."""
    named: list[Value] = [hash_text(each) for each in (*REFS, REFS[0])]
    outcome = done(blob_task(1, "put", bytes=DATA, refs=named))[1]

    expected = digest("aos/edge/1", BLOB, *sorted(REFS))
    assert payload(outcome)["edge_ref"] == hash_text(expected)
    assert content_hash(outcome.blobs[expected]) == expected


def test_the_hash_that_a_workflow_expects_is_checked() -> None:
    """X-30."""
    right, wrong, strange, unnamed = (
        hash_text(BLOB),
        hash_text(content_hash(b"other")),
        "sha512:" + "0" * 128,
        "sha256:" + "0" * 64,
    )
    outcomes = done(
        *(
            blob_task(n, "put", bytes=DATA, blob_ref=ref)
            for n, ref in enumerate((right, wrong, strange))
        ),
        blob_task(3, "put", bytes=DATA, refs=[unnamed]),
        blob_task(4, "put", bytes=DATA, blob_ref=unnamed),
    )

    assert outcomes[0].status == "ok"
    assert payload(outcomes[1]) == {
        "code": "blob_ref_mismatch",
        "message": f"blob_ref: expected {right}, the content hash of bytes, found {wrong}",
        "retryable": False,
    }
    assert [error_code(outcomes[n]) for n in (2, 3)] == ["blob_ref_unknown"] * 2
    assert error_code(outcomes[4]) == "blob_ref_mismatch"
    assert outcomes[1].blobs == {}


def test_a_blob_is_got() -> None:
    """X-32."""
    outcome = done(blob_task(1, "get", blob_ref=hash_text(BLOB)), store={BLOB: DATA})[1]

    assert payload(outcome) == {"blob_ref": hash_text(BLOB), "size": 10, "bytes": DATA}
    assert outcome.blobs == {}


def test_a_blob_that_is_not_there_is_an_error() -> None:
    """X-33."""
    outcome = done(blob_task(1, "get", blob_ref=hash_text(BLOB)))[1]

    assert (outcome.status, error_code(outcome)) == ("error", "blob_missing")
    assert hash_text(BLOB) in payload(outcome)["message"]


@pytest.mark.parametrize(("size", "status"), [(299_800, "ok"), (300_000, "error")])
def test_a_blob_that_no_receipt_can_hold_is_an_error(size: int, status: str) -> None:
    """X-34."""
    data = bytes(size)
    ref = content_hash(data)
    outcome = done(blob_task(1, "get", blob_ref=hash_text(ref)), store={ref: data})[1]

    assert outcome.status == status
    if status == "error":
        assert error_code(outcome) == "blob_too_large"


def test_many_are_done_in_their_order_and_each_once() -> None:
    tasks = [blob_task(n, "put", bytes=b"%d" % n) for n in range(100)]

    async def play(executor: BlobExecutor, journal: Journal) -> None:
        executor.publish(tasks)
        executor.publish(tasks[:50])
        await journal.wait(100)

    journal = act(lambda journal: BlobExecutor(store_of({}), report=journal.report), play)

    assert [each.intent for each in journal.outcomes] == [each.intent for each in tasks]


def test_a_task_that_is_canceled_before_its_turn_puts_nothing() -> None:
    async def play(executor: BlobExecutor, journal: Journal) -> None:
        executor.publish([blob_task(1, "put", bytes=DATA), blob_task(2, "put", bytes=DATA)])
        executor.cancel([intent_of(2), intent_of(3)])
        await journal.wait(2)

    journal = act(lambda journal: BlobExecutor(store_of({}), report=journal.report), play)

    assert (journal.of(1).status, journal.of(2).status) == ("ok", "canceled")
    assert journal.of(2).blobs == {}


@pytest.mark.parametrize("answer", [LATE, refused(), ABANDONED])
def test_any_answer_to_the_receipt_of_a_canceled_task_is_accepted(answer: Answer) -> None:
    """X-6."""

    async def settle(_: Outcome) -> Answer:
        await asyncio.sleep(0.01)
        return answer

    async def play(executor: BlobExecutor, journal: Journal) -> None:
        executor.publish([blob_task(1, "put", bytes=DATA)])
        await asyncio.sleep(0.005)
        executor.cancel([intent_of(1)])
        await journal.wait(1)

    journal = act(
        lambda journal: BlobExecutor(store_of({}), report=journal.report), play, answer=settle
    )
    assert (journal.outcomes[0].status, journal.lines) == ("ok", [])


def test_a_refusal_is_told_of() -> None:
    async def answer(outcome: Outcome) -> Answer:
        return refused(message="because")

    async def play(executor: Any, journal: Journal) -> None:
        executor.publish([blob_task(1, "put", bytes=DATA)])
        await journal.until(lambda: bool(journal.lines))

    journal = act(
        lambda journal: BlobExecutor(store_of({}), report=journal.report), play, answer=answer
    )
    assert "was refused: receipt_effect_differs: because (the intent stays open)" in journal.printed
