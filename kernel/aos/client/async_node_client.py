"""``AsyncClient``: ``Client`` for asyncio (spec/guides/integrate.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Self

import httpx

from aos.client import node_steps as steps
from aos.client.node_client import (
    AWAY,
    EventStream,
    FollowedNode,
    check_served,
    token_headers,
    unreachable,
)
from aos.client.node_connection import (
    AddressList,
    AnswerParts,
    Certificate,
    NodeAddress,
    NodeSite,
    NodeUnavailable,
    error_of,
    read_json,
    tls_of,
)
from aos.client.node_steps import NodeAnswer, Steps, T, Words
from aos.client.requests import TIMEOUT_S, AwaitedClient, SharedRequests
from aos.read.views.record_view import Document


class AsyncClient(AwaitedClient, SharedRequests):
    """``Client`` for asyncio: the same methods with the same answers and errors. ``instances`` and
    ``follow`` are asynchronous iterators. Several tasks may use one client.
    """

    def __init__(
        self,
        node: str | Path,
        *,
        token: str | None = None,
        authorities: Path | str | None = None,
        certificate: Certificate | None = None,
        answer_s: float | None = None,
    ) -> None:
        self._answer_s = steps.ANSWER_S if answer_s is None else answer_s

        def connect(address: NodeAddress) -> httpx.AsyncClient:
            transport = None
            if address.socket is not None:
                transport = httpx.AsyncHTTPTransport(uds=str(address.socket), verify=False)
            return httpx.AsyncClient(
                base_url=address.base,
                headers=token_headers(token),
                transport=transport,
                verify=tls_of(address, authorities, certificate),
                trust_env=False,
            )

        self._nodes = AddressList(str(node), connect)

    async def instances(
        self, *, workflow: str | None = None, status: str | None = None
    ) -> AsyncGenerator[Document]:
        """As ``Client.instances``."""
        offset = 0
        while rows := await self._run(
            steps.list_instances(workflow=workflow, status=status, offset=offset)
        ):
            for row in rows:
                yield row
            offset += len(rows)

    async def follow(
        self,
        *,
        after: int | None = None,
        kinds: Collection[str] | None = None,
        workflow: str | None = None,
        key: object = None,
        spelled: bool = False,
        idle_s: float | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> AsyncGenerator[Document]:
        """As ``Client.follow``."""
        words = steps.record_words(kinds, workflow, key, spelled=spelled)
        following = await self._run(
            steps.once_there(lambda: FollowedNode.begin(after, words, idle_s), timeout_s)
        )
        while not following.is_over:
            had_all = following.may_idle
            try:
                stream = self._stream(following.words(), following.patience_s())
                async with aclosing(stream) as parts:
                    async for part in parts:
                        for record in part:
                            following.advance(record)
                            yield record
                        if following.may_idle != had_all:
                            break  # from here on, the connection waits for a shorter time
            except NodeUnavailable:
                await asyncio.sleep(steps.RETRY_S)

    async def feed(
        self,
        schemas: Collection[str],
        *,
        after: tuple[int, int] | None = None,
        first: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> AsyncGenerator[Document]:
        """As ``Client.feed``; ``first=await world.seq() + 1`` for new events only."""
        following = await self._run(steps.FollowedFeed.begin(schemas, after, first, timeout_s))
        while True:
            try:
                stream = self._stream(
                    following.words(), steps.SILENCE_S, steps.FEED, following.headers()
                )
                async with aclosing(stream) as parts:
                    async for part in parts:
                        for event in part:
                            following.advance(event)
                            yield event
            except NodeUnavailable:
                await asyncio.sleep(steps.RETRY_S)

    async def close(self) -> None:
        """Close all connections."""
        for site in self._nodes.sites:
            await site.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, todo: Steps[T]) -> T:
        """Carry out steps, and return what they return."""
        answer: NodeAnswer | None = None
        problem: NodeUnavailable | None = None
        while True:
            try:
                step = todo.send(answer) if problem is None else todo.throw(problem)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = problem = None
            try:
                match step:
                    case steps.NodeRequest():
                        answer = await self._ask(step)
                    case steps.Pause():
                        await asyncio.sleep(step.seconds)
                    case steps.NextRecord():
                        await self._next(step)
            except NodeUnavailable as away:
                problem = away

    async def _next(self, step: steps.NextRecord) -> None:
        async with aclosing(self._stream(step.query, step.seconds)) as parts:
            async for part in parts:
                if part:
                    return

    async def _ask(self, request: steps.NodeRequest) -> NodeAnswer:
        result: NodeAnswer | NodeUnavailable
        for site in self._nodes.tries():
            try:
                result = await self._ask_at(site, request)
            except NodeUnavailable as away:
                result = away
            if isinstance(result, NodeUnavailable) or result.status == AWAY:
                self._nodes.leave(site)
            if not steps.may_ask_another(request.method, result):
                break
        if isinstance(result, NodeUnavailable):
            raise result
        return result

    async def _ask_at(
        self, site: NodeSite[httpx.AsyncClient], request: steps.NodeRequest
    ) -> NodeAnswer:
        check_served(site.address)
        parts = AnswerParts(self._answer_s)
        try:
            async with site.http.stream(
                request.method, request.path, params=request.query, content=request.body,
                headers={"Accept": steps.JSON, "Content-Type": request.media},
                timeout=httpx.Timeout(
                    self._answer_s, connect=min(self._answer_s, steps.CONNECT_S)
                ),
            ) as answer:  # fmt: skip
                async for part in answer.aiter_bytes():
                    parts.take(part)
        except httpx.HTTPError as error:
            raise unreachable(site.address, error) from error
        retry_after = answer.headers.get("Retry-After", "")
        return NodeAnswer(answer.status_code, parts.body(), retry_after)

    async def _stream(
        self,
        query: Words,
        seconds: float,
        path: str = steps.STREAM,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[list[Document]]:
        """As ``Client._stream``."""
        site = self._nodes.current
        try:
            async with aclosing(self._stream_at(site, query, seconds, path, headers)) as parts:
                async for part in parts:
                    yield part
        except NodeUnavailable:
            self._nodes.leave(site)
            raise

    async def _stream_at(
        self,
        site: NodeSite[httpx.AsyncClient],
        query: Words,
        seconds: float,
        path: str,
        headers: Mapping[str, str] | None,
    ) -> AsyncGenerator[list[Document]]:
        check_served(site.address)
        events = EventStream()
        until = time.monotonic() + seconds
        timeout = httpx.Timeout(max(seconds, 0.001), connect=steps.CONNECT_S)
        try:
            async with site.http.stream(
                "GET", path, params=query, timeout=timeout, headers=headers
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    problem = read_json(await answer.aread())
                    raise error_of(answer.status_code, problem)
                async for part in answer.aiter_raw():
                    documents = events.feed(part)
                    yield documents
                    if documents:
                        until = time.monotonic() + seconds
                    elif time.monotonic() >= until:
                        return
        except httpx.ReadTimeout:
            return
        except httpx.HTTPError as error:
            raise unreachable(site.address, error) from error
        raise NodeUnavailable(f"the node at {site.address.label} ended the stream")
