"""Workers that claim, repeat, give up and read answers when a schedule says so."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from aos.errors import Unavailable
from aos.node.bodies import ClientGoneError
from aos.node.calls import Delivery
from aos.node.problems import Problem
from tests.node.leases.stage import Connection

WORKERS = ("ann", "bob", "cid")


@dataclass(eq=False)
class ClaimRequest:
    """One request of a claim. ``has_client``: its client still waits for the answer."""

    worker: str
    claim: str
    connection: Connection = field(default_factory=Connection)
    answering: asyncio.Task[Any] | None = None
    has_client: bool = True
    is_read: bool = False
    is_over: bool = False
    """The node knows how its delivery ended."""

    @property
    def answer(self) -> Any:
        """The answer of the node; None before it is sent."""
        done = self.answering is not None and self.answering.done()
        if not done or self.answering is None or self.answering.cancelled():
            return None
        problem = self.answering.exception()
        if problem is None:
            return self.answering.result()
        assert isinstance(problem, Problem | ClientGoneError | Unavailable), problem
        return None

    @property
    def has_ended(self) -> bool:
        return self.answering is not None and self.answering.done()


class ClaimClients:
    """The claims of all workers. A subclass sends them, and checks each task that is read."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.requests: list[ClaimRequest] = []
        self._count = 0

    def send_claim(self, request: ClaimRequest) -> Awaitable[dict[str, Any]]:
        raise NotImplementedError

    def takes(self, request: ClaimRequest, document: dict[str, Any]) -> None:
        """A worker has read a task."""
        raise NotImplementedError

    def reset(self, request: ClaimRequest) -> None:
        """The connection of an answer was reset."""
        raise NotImplementedError

    def a_worker_claims(self, worker: str | None = None, claim: str | None = None) -> None:
        self._count += 1
        worker = worker or self.rng.choice(WORKERS)
        request = ClaimRequest(worker, claim or f"claim-{self._count}")
        request.answering = asyncio.ensure_future(self.send_claim(request))
        self.requests.append(request)

    def a_worker_repeats_its_claim(self) -> None:
        """It got no answer, or does not wait for it any longer."""
        unread = self._unread()
        if not unread:
            return
        request = self.rng.choice(unread)
        self._give_up(request)
        self.a_worker_claims(request.worker, request.claim)
        if self.rng.random() < 0.1:
            self._arrives_late(request)

    def _arrives_late(self, request: ClaimRequest) -> None:
        """The front reads an earlier request, of a connection that is closed, after a later one."""
        late = ClaimRequest(request.worker, request.claim, has_client=False)
        late.connection.is_closed = True
        late.answering = asyncio.ensure_future(self.send_claim(late))
        self.requests.insert(0, late)

    def _unread(self) -> list[ClaimRequest]:
        """The last request of each claim without an answer that its worker has read."""
        last = {(request.worker, request.claim): request for request in self.requests}
        read = {(request.worker, request.claim) for request in self.requests if request.is_read}
        return [request for key, request in last.items() if key not in read]

    def _give_up(self, request: ClaimRequest) -> None:
        if request.has_client:
            request.has_client = False
            request.connection.is_closed = self.rng.random() < 0.6

    def a_client_closes(self) -> None:
        waiting = [request for request in self.requests if request.has_client]
        if waiting:
            self._give_up(self.rng.choice(waiting))

    def a_close_arrives(self) -> None:
        """The front reads the end of a connection whose claim it still answers."""
        closed = [
            request
            for request in self.requests
            if not request.has_client and not request.is_read and not request.has_ended
        ]
        if closed:
            request = self.rng.choice(closed)
            request.connection.is_closed = True
            if request.answering is not None:
                request.answering.cancel()

    def a_client_reads(self) -> None:
        ready = [
            request
            for request in self.requests
            if request.has_client and not request.is_read and request.answer is not None
        ]
        if ready:
            self.reads(self.rng.choice(ready))

    def reads(self, request: ClaimRequest) -> None:
        request.is_read, request.has_client = True, False
        for document in request.answer["tasks"]:
            self.takes(request, document)

    def a_delivery_is_known(self) -> None:
        """READ proves nothing; UNREAD is certain; a reset may follow a read answer."""
        done = [
            request
            for request in self.requests
            if request.has_ended and not request.is_over and not request.has_client
        ]
        if not done:
            return
        request = self.rng.choice(done)
        request.is_over = True
        if request.is_read:
            delivery = self.rng.choice((Delivery.READ, Delivery.READ, Delivery.IN_DOUBT))
        else:
            delivery = self.rng.choice((Delivery.READ, Delivery.UNREAD, Delivery.IN_DOUBT))
        if delivery is Delivery.IN_DOUBT:
            self.reset(request)
        request.connection.ends(delivery)

    def lose_connections(self) -> None:
        """The front is gone. An answer that it has sent may still be read."""
        for request in self.requests:
            request.is_over = True
            if not request.has_ended:
                request.has_client = False
            if request.answering is not None:
                request.answering.cancel()

    def close_all(self) -> None:
        """Every client that waits is gone."""
        for request in self.requests:
            if not request.has_ended:
                request.connection.is_closed = True
                if request.answering is not None:
                    request.answering.cancel()

    def check_answers(self) -> None:
        """A claim is answered, or it ends because it cannot be."""
        for request in self.requests:
            assert request.answer is None or request.answer["tasks"] is not None
