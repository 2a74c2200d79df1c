"""Long documents are made in bounded processes (N-114)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aos.node.problems import Problem
from aos.node.readers import Readers
from aos.read.operations.table import BY_NAME

CELLS: dict[str, Any] = {"sort": "key", "limit": 10, "offset": 0}


async def cells(readers: Readers) -> dict[str, Any]:
    return await readers.document("read_cells", CELLS, None)


def test_a_reader_answers_many_questions_and_a_problem_does_not_end_it(template: Path) -> None:
    async def act() -> None:
        readers = Readers(template)
        try:
            assert (await cells(readers))["total"] == 0
            with pytest.raises(Problem, match="no workflow is called") as caught:
                await readers.document("read_cells", {**CELLS, "workflow": "none"}, None)
            assert caught.value.status == 404
            found = await readers.document("read_world", {"at": 1}, None)
            assert found["journal"]["records"] == 1
            assert (await cells(readers))["looked_at"] == 0
        finally:
            await readers.close()

    asyncio.run(act())


def test_a_document_that_takes_too_long_is_503_and_the_next_one_is_made(template: Path) -> None:
    async def act() -> None:
        readers = Readers(template, seconds=0.01)
        try:
            with pytest.raises(Problem, match=r"not ready after 0\.01 s") as caught:
                await cells(readers)
            assert (caught.value.status, caught.value.retry_after_s) == (503, 5)
            readers.seconds = 60
            assert (await cells(readers))["total"] == 0
        finally:
            await readers.close()

    asyncio.run(act())


def test_more_requests_than_may_wait_are_429(template: Path) -> None:
    async def act() -> list[dict[str, Any] | BaseException]:
        readers = Readers(template, waiting_max=1)
        try:
            asked = (cells(readers) for _ in range(6))
            return await asyncio.gather(*asked, return_exceptions=True)
        finally:
            await readers.close()

    found = asyncio.run(act())

    refused = [each.status for each in found if isinstance(each, Problem)]
    assert set(refused) == {429}
    assert len([each for each in found if isinstance(each, dict)]) >= 2


def test_only_what_may_take_long_is_read_elsewhere() -> None:
    assert BY_NAME["read_trace"].takes_long({"seq": 1})
    assert BY_NAME["read_world"].takes_long({"at": 1})
    assert BY_NAME["read_records"].takes_long({"limit": 100, "kind": ["fault"]})
    assert BY_NAME["read_intents"].takes_long({"status": "settled", "limit": 100})
    assert not BY_NAME["read_world"].takes_long({})
    assert not BY_NAME["read_cell"].takes_long({"workflow": "w"})
    assert not BY_NAME["read_intents"].takes_long({"limit": 100})
    assert not BY_NAME["read_records"].takes_long({"limit": 100, "from": 7})
