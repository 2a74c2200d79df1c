"""Requests that take long end with their client, their token or their node (N-135, N-136)."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from aos.node.bodies import ClientGoneError
from aos.node.problems import Problem
from aos.node.sessions import POLL, WAIT, Sessions, raced
from aos.node.tokens import LOCAL


class Client:
    """The client of a request, and the work that is done for it."""

    def __init__(self) -> None:
        self.sessions = Sessions()
        self.is_gone = asyncio.Event()
        self.may_finish = asyncio.Event()
        self.is_working = asyncio.Event()
        self.was_canceled = False

    async def receive(self) -> MutableMapping[str, Any]:
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    async def work(self) -> str:
        self.is_working.set()
        try:
            await self.may_finish.wait()
        except asyncio.CancelledError:
            self.was_canceled = True
            raise
        return "done"

    async def request(self) -> object:
        with self.sessions.hold(LOCAL, POLL) as session:
            return await raced(session, self.work(), self.receive)

    async def begun(self) -> asyncio.Task[object]:
        request = asyncio.ensure_future(self.request())
        await self.is_working.wait()
        await asyncio.sleep(0)
        return request


def test_a_request_that_is_answered_leaves_nothing_behind() -> None:
    async def answer() -> None:
        client = Client()
        request = await client.begun()
        assert client.sessions.count(POLL) == 1
        client.may_finish.set()
        assert await request == "done"
        await asyncio.sleep(0)
        assert client.sessions.count(POLL) == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(answer())


def test_a_client_that_goes_away_ends_its_request() -> None:
    async def leave() -> None:
        client = Client()
        request = await client.begun()
        client.is_gone.set()
        with pytest.raises(ClientGoneError):
            await request
        assert client.was_canceled

    asyncio.run(leave())


@pytest.mark.parametrize(("reason", "status"), [("revoked", 401), ("stopping", 503)])
def test_a_session_that_ends_answers_why_and_its_request_continues(
    reason: str, status: int
) -> None:
    async def end() -> None:
        client = Client()

        async def served() -> int:
            with pytest.raises(Problem) as problem:
                await client.request()
            async with asyncio.timeout(10):  # the answer is still to be written
                await asyncio.sleep(0)
            task = asyncio.current_task()
            assert task is not None
            assert not task.cancelling()
            return problem.value.status

        request = asyncio.ensure_future(served())
        await client.is_working.wait()
        for session in list(client.sessions._open):
            session.end(reason)
        assert await request == status
        assert client.was_canceled

    asyncio.run(end())


@pytest.mark.parametrize("has_session_ended", [False, True])
def test_a_request_that_its_server_cancels_is_canceled(has_session_ended: bool) -> None:
    async def cancel() -> None:
        client = Client()
        request = await client.begun()
        if has_session_ended:
            client.sessions.close()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert client.was_canceled

    asyncio.run(cancel())


def test_each_kind_of_request_has_a_limit_of_its_own() -> None:
    sessions = Sessions(waits_max=1)
    with sessions.hold(LOCAL, WAIT), sessions.hold(LOCAL, POLL):
        with pytest.raises(Problem) as problem, sessions.hold(LOCAL, WAIT):
            pass
        assert problem.value.status == 429
        assert (sessions.count(WAIT), sessions.count(POLL)) == (1, 1)
    assert sessions.count(WAIT) == 0
