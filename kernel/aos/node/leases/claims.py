"""Claims: tasks are picked, journaled where that is needed, and leased (N-51, N-52, N-61, N-63)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from aos.manifest.effective import Effective
from aos.manifest.names import is_run_by_node
from aos.node.bodies import ClientGoneError
from aos.node.calls import SILENT, AnsweredClaims, ClaimRequests, ClientConnection, Delivery
from aos.node.leases import schemas
from aos.node.leases.desk import Body, ScopedToken, WorkDesk
from aos.node.leases.documents import CBOR, task_document
from aos.node.leases.leases import Pick
from aos.node.leases.polls import POLLS_MAX, Poll, WantedEffect
from aos.node.leases.row import LeaseHolder, RetryPolicy
from aos.node.problems import Problem
from aos.values.digests import Hash, hash_text

_MS: Final = 10**6
_REFUSALS: Final = (404, 409, 410, 422)
"""Status of a problem that the world has with one attempt, and not with its front."""


ClaimKey: TypeAlias = tuple[LeaseHolder, str]
"""A claim: its worker, and the worker's name for it."""


class ClaimDesk:
    """Answers the claims of workers."""

    def __init__(self, desk: WorkDesk) -> None:
        self._desk = desk
        self._requests = ClaimRequests()
        self._claiming: dict[ClaimKey, Poll] = {}
        self._answered = AnsweredClaims()
        self._is_stopping = False

    def stop(self) -> None:
        """Answer claims with 503 from now on, and those that wait without a task."""
        self._is_stopping = True
        self._desk.polls.empty()

    async def claim(
        self, body: Body, token: ScopedToken, connection: ClientConnection = SILENT
    ) -> dict[str, Any]:
        """Lease tasks to a worker; wait for one for up to ``wait_ms`` (N-51, N-52).

        If the caller is canceled, or the answer does not reach the client of ``connection``, its
        tasks are given back.

        Raises:
            ClientGoneError: The client has closed the connection.
        """
        self._desk.check_started()
        holder = LeaseHolder(body["worker"], token.name)
        key = holder, body["claim"]
        self._check_claims()
        if connection.is_gone():
            raise ClientGoneError  # the worker may have repeated the claim on another connection
        request = self._requests.begin(key)
        try:
            self._answered.repeated(key)
            self._desk.leases.expire(self._desk.clock())
            self._desk.polls.note_request(holder)
            self._desk.flush()
            poll = self._poll(body, token, holder)
            poll.is_gone = connection.is_gone
            grants = await self._grants(poll, request, body)
            return self._answer(poll, grants, body, token, connection=connection)
        finally:
            self._leave(key, request)

    async def _grants(self, poll: Poll, request: object, body: Body) -> Sequence[tuple[Hash, int]]:
        """The leases that a claim has, or gets now. Only the last request of a claim has any, so
        no two answers name a lease. Nothing waits between the last look at them and the answer."""
        key = poll.holder, poll.claim
        await self._end_earlier(key)
        if self._desk.leases.claimed(*key):
            await self._desk.synced()
        if not self._requests.is_last(key, request):
            return ()
        # Leases may have ended meanwhile.
        grants = self._desk.leases.claimed(*key)
        if grants:
            return grants
        self._claiming[key] = poll
        grants = await self._granted(poll, request, body.get("wait_ms", 0) / 1000)
        return grants if self._requests.is_last(key, request) else ()

    def _answer(
        self,
        poll: Poll,
        grants: Sequence[tuple[Hash, int]],
        body: Body,
        token: ScopedToken,
        *,
        connection: ClientConnection,
    ) -> dict[str, Any]:
        state = self._desk.state
        form = body.get("form", "json")
        answer: dict[str, Any] = {
            "world": hash_text(state.world),
            "tasks": [
                document
                for intent, epoch in grants
                if (document := self._document(intent, epoch, form)) is not None
            ],
            "unserved": self._unserved(poll, body, token),
        }
        in_force = state.manifest
        if form == CBOR and in_force is not None:
            text = hash_text(in_force.hash)
            if body.get("manifest") != text:
                answer["manifest"] = {"hash": text, "document": in_force.document}
        self._watch_delivery((poll.holder, poll.claim), grants, connection)
        self._desk.leases.named(intent for intent, _ in grants)
        return answer

    def _leave(self, key: ClaimKey, request: object) -> None:
        """A request of a claim is over. If it is the last one, its leases that no answer has named
        go back: no worker knows of them."""
        if not self._requests.end(key, request):
            return
        holder, claim = key
        unnamed = self._desk.leases.unnamed(holder, claim)
        for intent, epoch in unnamed:
            self._desk.leases.release(intent, epoch, holder, began=False, now=self._desk.clock())
        if unnamed:
            self._desk.flush()

    def _watch_delivery(
        self,
        key: ClaimKey,
        grants: Sequence[tuple[Hash, int]],
        connection: ClientConnection,
    ) -> None:
        """Give the tasks of a claim back if its answer does not reach the client (N-52a).

        Raises:
            ClientGoneError: It cannot: the client has closed the connection.
        """
        tasks = self._desk.leases.tasks
        leased = {
            intent: entry.row
            for intent, epoch in grants
            if (entry := tasks.get(intent)) is not None
            and entry.row is not None
            and entry.row.epoch == epoch
        }
        if not leased:
            return
        # Requests on two TCP connections may come in another order than they were sent in: the
        # worker may have read an answer to a later request than this one.
        may_be_read = {intent for intent in leased if tasks[intent].is_named}

        def take_back(delivery: Delivery) -> None:
            for intent, row in leased.items():
                is_certain = delivery is Delivery.UNREAD and intent not in may_be_read
                self._desk.leases.undelivered(
                    intent, row, is_certain=is_certain, now=self._desk.clock()
                )
            self._desk.flush()

        self._answered.watch(key, connection, take_back)

    def _check_claims(self) -> None:
        if self._is_stopping:
            raise Problem(503, "stopping", "the node is stopping", retry_after_s=5)
        if len(self._desk.polls) >= POLLS_MAX:
            detail = f"{POLLS_MAX} claims are waiting (claim more tasks with each request)"
            raise Problem(429, "too_many_polls", detail, retry_after_s=1)

    async def _end_earlier(self, key: ClaimKey) -> None:
        """The same claim was made before, and that request has not been answered: its caller is
        gone."""
        while (earlier := self._claiming.get(key)) is not None:
            if not earlier.result.done():
                earlier.result.set_result([])
            await asyncio.shield(earlier.finished)

    def _poll(self, body: Body, token: ScopedToken, holder: LeaseHolder) -> Poll:
        loop = asyncio.get_running_loop()
        wanted_effects = None
        if "effects" in body:
            wanted_effects = {
                fields["name"]: WantedEffect(
                    tasks_max=fields.get("max", schemas.ITEMS_MAX),
                    policy=RetryPolicy(
                        attempts=fields.get("attempts"),
                        base_ms=fields.get("backoff_ms"),
                        cap_ms=fields.get("backoff_cap_ms"),
                    ),
                )
                for fields in body["effects"]
                if token.allows("work", fields["name"])
            }
        signs = body.get("signs")
        return Poll(
            holder=holder,
            claim=body["claim"],
            wanted_effects=wanted_effects,
            allows=lambda effect: token.allows("work", effect),
            tasks_max=body.get("max", 1),
            lease_ns=body.get("lease_ms", schemas.LEASE_MS) * _MS,
            signs=None if signs is None else (signs["executor"], signs["key"]),
            result=loop.create_future(),
            finished=loop.create_future(),
        )

    async def _granted(self, poll: Poll, request: object, wait_s: float) -> list[tuple[Hash, int]]:
        has_ended = True
        try:
            picks = self._desk.polls.pick(poll)
            if not picks and wait_s:
                picks = await self._desk.polls.wait(poll, wait_s)
            if not picks:
                await self._desk.synced()
                return []
            granting = asyncio.ensure_future(self._grant(poll, picks))
            try:
                return await asyncio.shield(granting)
            except asyncio.CancelledError:
                has_ended = False
                self._requests.resume((poll.holder, poll.claim), request)
                self._desk.run(self._give_back(poll, request, granting))
                raise
        finally:
            if has_ended:
                self._end(poll)

    def _end(self, poll: Poll) -> None:
        """Let a repetition of the claim continue: what this one took is leased or given back."""
        key = poll.holder, poll.claim
        if self._claiming.get(key) is poll:
            del self._claiming[key]
        poll.finished.set_result(None)

    async def _give_back(
        self, poll: Poll, request: object, granting: asyncio.Future[list[tuple[Hash, int]]]
    ) -> None:
        """The caller of a claim is gone: nothing was given out, unless it made the claim again.

        A repetition waits until this has ended. Otherwise it could answer with leases that are
        released here a moment later, and two workers would have the same attempt.
        """
        try:
            with contextlib.suppress(Problem):
                await granting
        finally:
            self._end(poll)
            self._leave((poll.holder, poll.claim), request)

    async def _grant(self, poll: Poll, picks: Sequence[Pick]) -> list[tuple[Hash, int]]:
        """Journal attempts where that is needed, lease the tasks, and make the leases durable."""
        leases = self._desk.leases
        single_attempts = [
            candidate
            for candidate in picks
            if candidate.must_begin and self._is_once(candidate.intent)
        ]
        try:
            for pick in single_attempts:
                leases.reserve(pick)
            if single_attempts:
                await self._desk.synced()
            begun = await self._begun(picks)
        except BaseException:
            for pick in picks:
                leases.give_back(pick)
            self._desk.flush()
            raise
        grants = []
        for pick, problem in zip(picks, begun, strict=True):
            entry = leases.tasks.get(pick.intent)
            if problem is None and entry is not None:
                policy = poll.policy(entry.task.effect)
                if leases.grant(
                    pick, poll.holder, poll.claim,
                    lease_ns=poll.lease_ns, policy=policy, now=self._desk.clock(),
                ):  # fmt: skip
                    grants.append((pick.intent, pick.epoch))
                    continue
            leases.give_back(pick)
        # A task whose attempt is refused has ended meanwhile: the claim just does not get it.
        problems = [
            failure for failure in begun if failure is not None and failure.status not in _REFUSALS
        ]
        if problems and not grants:
            self._desk.flush()
            raise problems[0]
        try:
            await self._desk.synced()
        except Problem:
            for intent, epoch in grants:
                leases.release(intent, epoch, poll.holder, began=False, now=self._desk.clock())
            self._desk.flush()
            raise
        return grants

    async def _begun(self, picks: Sequence[Pick]) -> Sequence[Problem | None]:
        """Journal the attempts of picks that the journal does not have; return why not."""
        if not any(pick.must_begin for pick in picks):
            return [None] * len(picks)
        return await asyncio.gather(*map(self._desk.begin, picks))

    def _is_once(self, intent: Hash) -> bool:
        entry = self._desk.leases.tasks.get(intent)
        return entry is not None and entry.task.is_once

    def _document(self, intent: Hash, epoch: int, form: str) -> dict[str, Any] | None:
        entry, open_intent = (
            self._desk.leases.tasks.get(intent),
            self._desk.state.intents.get(intent),
        )
        if entry is None or open_intent is None or entry.row is None or entry.row.epoch != epoch:
            return None
        return task_document(
            self._desk.state, open_intent, entry.row, self._desk.store(), form=form
        )

    def _unserved(self, poll: Poll, body: Body, token: ScopedToken) -> list[dict[str, str]]:
        """The effects of a claim of which it can get no task now, and why."""
        manifest, world_effects = self._desk.state.manifest, self._desk.world_effects or frozenset()
        unserved = []
        names = [effect["name"] for effect in body.get("effects", ())]
        for name in names:
            reason = _unserved(name, token, manifest, world_effects)
            if reason is not None:
                unserved.append({"effect": name, "rule": reason[0], "detail": reason[1]})
        poll.pick_counts.clear()  # the tasks that the claim has got do not count
        for name in self._desk.leases.unsigned(poll, self._desk.clock()):
            detail = f"receipts of {name} need another signer (manifest.executors names it)"
            unserved.append({"effect": name, "rule": "needs_another_signer", "detail": detail})
        return unserved


def _unserved(
    name: str, token: ScopedToken, manifest: Effective | None, world_effects: frozenset[str]
) -> tuple[str, str] | None:
    if not token.allows("work", name):
        return "token_does_not_allow", f"the token {token.name} does not allow work:{name}"
    if name in world_effects or is_run_by_node(name):
        return "effect_runs_in_the_world", f"the process of the world runs {name} itself"
    if manifest is None or name not in manifest.effects:
        return "effect_is_unknown", f"the manifest in force does not define {name}"
    return None
