"""The requests that ``Client`` and ``AsyncClient`` both have, each declared once.

A request is a method that returns the steps to its answer. Called on a client that blocks, it
returns the answer itself; called on one for asyncio, a coroutine.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import wraps
from types import MethodType
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload

from aos.client import node_steps as steps
from aos.client.current import Instance, WaitTimedOut, reached, too_late
from aos.client.node_connection import NodeUnavailable
from aos.client.node_steps import Steps
from aos.client.sending import SendAnswer
from aos.core.decide.answers import Admitted, Refusal
from aos.core.journal.inputs import SETTLE, STRICT
from aos.host.apply.signed_governance import declined
from aos.host.door.writer import Item
from aos.manifest.load import Loaded
from aos.read.views.record_view import Document

TIMEOUT_S: Final = 30.0

P = ParamSpec("P")
T = TypeVar("T")


class BlockingClient(ABC):
    """A client whose requests return their answers."""

    @abstractmethod
    def _run(self, todo: Steps[T]) -> T:
        """Carry out steps, and return what they return."""


class AwaitedClient(ABC):
    """A client whose requests are awaited."""

    @abstractmethod
    async def _run(self, todo: Steps[T]) -> T:
        """Carry out steps, and return what they return."""


class request(Generic[P, T]):  # noqa: N801  # used as a decorator, like property
    """A request of both kinds of clients, from a method that returns its steps."""

    def __init__(self, method: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        @wraps(method)
        def answer(client: BlockingClient, *args: P.args, **kwargs: P.kwargs) -> T:
            return client._run(method(client, *args, **kwargs))  # noqa: SLF001

        @wraps(method)
        async def awaited(client: AwaitedClient, *args: P.args, **kwargs: P.kwargs) -> T:
            return await client._run(method(client, *args, **kwargs))  # noqa: SLF001

        self._method = method
        self._answer = answer
        self._awaited = awaited
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], Steps[T]]: ...
    @overload
    def __get__(self, client: BlockingClient, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, client: AwaitedClient, owner: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: BlockingClient | AwaitedClient | None, owner: type) -> Any:
        if client is None:
            return self._method
        is_blocking = isinstance(client, BlockingClient)
        return MethodType(self._answer if is_blocking else self._awaited, client)


class SharedRequests:
    """The requests themselves."""

    @request
    def send(
        self, schema: str, value: object, *, id: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> Steps[SendAnswer]:
        """Send one event and return the answer, which is durable.

        If the connection breaks, or the node is busy or away, the client sends the event again for
        ``timeout_s`` seconds, under the same submission id: the world accepts it once.

        Args:
            value: A JSON value that fits the schema, or ingress CBOR as bytes.
            id: The submission id; by default a random one for each call.
        """
        event = {"schema": schema, "value": value, "submission_id": id or steps.own_id()}
        media, body = steps.event_body(event)
        answer = yield from steps.accepted(media, body, timeout_s)
        refusal = answer.refusal()
        if refusal is not None:
            return refusal
        return steps.send_answer(answer.document(), is_own_id=id is None)

    @request
    def send_batch(
        self, events: Sequence[Item], *, timeout_s: float = TIMEOUT_S
    ) -> Steps[list[SendAnswer]]:
        """Send at most 1,024 events, of 16 MiB together, in one request, and return their answers
        in order. A refused event does not stop the others. Repeated as ``send``."""
        items = [
            {
                "schema": event.schema,
                "value": event.value,
                "submission_id": event.submission_id or steps.own_id(),
            }
            for event in events
        ]
        media, body = steps.event_body({"items": items})
        answers = (yield from steps.accepted(media, body, timeout_s)).document().get("items")
        if not isinstance(answers, list) or len(answers) != len(events):
            raise NodeUnavailable(steps.NO_NODE)
        return [
            steps.item_answer(reply, is_own_id=event.submission_id is None)
            for reply, event in zip(answers, events, strict=True)
        ]

    @request
    def instance(self, workflow: str, key: object = None) -> Steps[Instance | None]:
        """Return an instance with its state; None if no event has reached it, or its module deleted
        it.

        Args:
            workflow: The name of the workflow, or a unique part of it, as for ``aos inspect cell``.
            key: The key as a JSON value; None if the workflow is not keyed.
        """
        return steps.read_instance(workflow, key)

    @request
    def count_cells(
        self,
        *,
        workflow: str | None = None,
        status: str | None = None,
        where: str | None = None,
        group_by: str | None = None,
    ) -> Steps[Document]:
        """Return the document of ``aos inspect cells --count --json``: ``count``, and ``groups``,
        each with ``value`` and ``count``, the largest first.

        Args:
            where: A condition on the states (spec/search.md).
            group_by: A name that a condition can have; without it there are no groups.

        Raises:
            BadUsage: The condition or ``group_by`` is invalid.
        """
        query = {"workflow": workflow, "status": status, "where": where, "group_by": group_by}
        return steps.read_document("/v1/cells/count", steps.query_words(query))

    @request
    def wait(
        self,
        workflow: str,
        key: object = None,
        *,
        until: str | Collection[str] | Callable[[Instance], bool] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Steps[Instance]:
        """Wait for an instance and return it.

        Args:
            until: One status, several, or a function of the instance. By default the instance has
                ended: it is completed or failed, and has handled every event.

        Raises:
            WaitTimedOut: It did not get there within ``timeout_s`` seconds; the message gives the
                reasons.
        """
        has_arrived = reached(until)
        deadline = time.monotonic() + timeout_s
        instance: Instance | None = None
        while True:
            step: steps.Step = steps.Pause(steps.RETRY_S)
            try:
                seq = yield from steps.read_seq()
                instance = yield from steps.read_instance(workflow, key)
                if instance is not None and has_arrived(instance):
                    return instance
                query = [("from", str(seq + 1)), *steps.cell_words(workflow, key)]
                step = steps.NextRecord(query, min(deadline - time.monotonic(), steps.SILENCE_S))
            except NodeUnavailable:
                if time.monotonic() >= deadline:
                    raise
            if time.monotonic() >= deadline:
                raise WaitTimedOut(too_late(workflow, key, instance, timeout_s), instance)
            try:
                yield step
            except NodeUnavailable:
                yield steps.Pause(steps.RETRY_S)

    @request
    def document(self, /, path: str, **query: object) -> Steps[Document]:
        """Return the document of a reading route of ``spec/node-api.md``, such as ``/v1/cell``.

        Args:
            query: Its parameters by name; a list for one that is given several times. None is left
                out.
        """
        return steps.read_document(path, steps.query_words(query))

    @request
    def blob(self, value: str) -> Steps[bytes]:
        """Return the bytes of a value that is stored outside its records, by its content hash."""
        request = steps.NodeRequest(method="GET", path="/v1/blob", query=[("value", value)])
        answer = yield from steps.ask(request)
        answer.check()
        return answer.content

    @request
    def command(
        self,
        action: str,
        *,
        workflow: str | None = None,
        key: object = None,
        intent: str | None = None,
        status: str | None = None,
        payload: object = None,
        why: str | None = None,
    ) -> Steps[Admitted | Refusal]:
        """Submit an operator's command once: the node signs it, if it was started with
        ``--operator-key`` and the token has the scope ``operate``.

        Args:
            action: ``retry``, ``skip``, ``unpin``, ``end`` or ``remove`` of the instance
                ``workflow`` and ``key``; ``cancel`` or ``settle`` of ``intent``; ``clock``,
                which sets the journal clock back.
            status: ``completed`` or ``failed`` for ``end``; ``ok`` or ``error`` for ``settle``.
            payload: For ``settle``, the receipt as a JSON value: for ``ok`` one of the receipt
                schema of its effect, for ``error`` ``{code, message, retryable}``.
            why: The reason, which the journal keeps.

        Raises:
            NodeUnavailable: The node went away. It is unknown whether the command is a record.
        """
        fields = {"workflow": workflow, "key": key, "intent": intent, "status": status, "why": why}
        body = steps.without_none(fields)
        if action == SETTLE:
            body["payload"] = payload  # null is a receipt, too
        answer = yield from steps.post_document("/v1/commands", {"action": action, **body})
        if isinstance(answer, Refusal):
            return answer
        return Admitted(
            seq=answer["seq"],
            dropped=answer.get("dropped", 0),
            abandoned=answer.get("abandoned", 0),
        )

    @request
    def retry_effects(self, intents: Sequence[str]) -> Steps[list[str]]:
        """Run held and parked effects again, in the node or at its workers; return the hashes of
        those that run. Needs a token with the scope ``operate``."""
        runs: list[str] = []
        for at in range(0, len(intents), steps.RETRY_INTENTS):
            tasks = intents[at : at + steps.RETRY_INTENTS]
            runs += (yield from steps.operated("/v1/work/retry", {"tasks": tasks}))["tasks"]
        return runs

    @request
    def snapshot(self) -> Steps[Document]:
        """Have the node write a snapshot; return the document of ``aos snapshot --json``."""
        return steps.operated("/v1/snapshots", None)

    @request
    def try_manifest(
        self,
        manifest: Loaded | int,
        *,
        mode: str = STRICT,
        leave_cells: bool = False,
        show: int = 0,
    ) -> Steps[Document]:
        """Return the report of ``aos apply --dry-run --json`` about a manifest, or about the
        proposal of a record, which has a mode of its own. It is without the commands, and with
        ``leaves``: the workflows that it leaves, with ``leave_cells``. Needs a token with the scope
        ``operate``.

        Raises:
            Refused: A module is refused.
        """
        body = yield from steps.manifest_body(manifest, mode=mode, leave_cells=leave_cells)
        answer = yield from steps.post_document("/v1/manifests/try", body | {"show": show})
        if isinstance(answer, Refusal):
            raise declined(answer)
        return answer

    @request
    def apply_manifest(
        self,
        manifest: Loaded | int,
        *,
        mode: str = STRICT,
        leaves: Sequence[str] = (),
        allow_diverged: bool = False,
    ) -> Steps[Admitted | Refusal]:
        """Put a manifest in force, or that of an approved proposal by its record, with the mode and
        the ``leaves`` of the proposal: the node signs it, if it was started with
        ``--operator-key`` and the token has the scope ``operate``.

        Args:
            leaves: Workflows that have cells and that the manifest may remove.
            allow_diverged: Apply although flows in progress would stop.

        Raises:
            NodeUnavailable: The node went away. It is unknown whether the manifest is a record.
        """
        body = yield from steps.manifest_body(manifest, mode=mode, leaves=list(leaves))
        options = {"allow_diverged": allow_diverged}
        answer = yield from steps.post_document("/v1/manifests", body | options)
        return answer if isinstance(answer, Refusal) else Admitted(seq=answer["seq"])

    @request
    def govern(
        self, /, action: str, loaded: Loaded | None = None, **body: object
    ) -> Steps[Admitted | Refusal]:
        """Send a proposal of ``loaded``, or a report, vote or withdrawal; see ``/v1/governance`` in
        ``spec/node-api.md``. It is sent once.

        Args:
            body: Its fields as JSON; those that are None are left out. Without ``principal`` and
                ``signature`` the node signs, if it was started with ``--operator-key``; it signs no
                vote.

        Raises:
            NodeUnavailable: The node went away. It is unknown whether it is a record.
        """
        fields: dict[str, object] = {"action": action, **body}
        if loaded is not None:
            fields = (yield from steps.manifest_body(loaded)) | fields
        answer = yield from steps.post_document("/v1/governance", steps.without_none(fields))
        return answer if isinstance(answer, Refusal) else Admitted(seq=answer["seq"])

    @request
    def linear(self, /, operation: str, **body: object) -> Steps[Document]:
        """Start, wake or cancel an instance of a linear plan; see ``/v1/linear/*`` in
        ``spec/node-api.md``.

        Args:
            operation: ``start`` (plan, instance, context, biz_key, version, mode), ``wake``
                (instance, type, event_id, payload) or ``cancel`` (instance, reason). It is sent
                once. Fields that are None are left out.

        Raises:
            Refused: The instance refuses it, with its reason; nothing has changed.
            NodeUnavailable: The node went away. It is unknown whether it was taken: look at the
                instance.
        """
        return steps.operated(f"/v1/linear/{operation}", body)

    @request
    def schedule(self, /, operation: str, **body: object) -> Steps[Document]:
        """Create or command a schedule; see ``/v1/schedules/*`` in ``spec/node-api.md``.

        Args:
            operation: ``create`` (the fields of a schedule in a manifest, and replace) or
                ``command`` (id, and action: ``pause``, ``resume``, ``trigger`` or ``delete``). It
                is sent once. Fields that are None are left out.

        Raises:
            Refused: The schedule refuses it, or it does not fit; nothing has changed.
            NodeUnavailable: The node went away. It is unknown whether it was taken: look at the
                schedule.
        """
        return steps.operated(f"/v1/schedules/{operation}", body)

    @request
    def batch(self, /, operation: str = "", **body: object) -> Steps[Document]:
        """Begin or stop a batch, and return it; see ``/v1/batches`` in ``spec/batch.md``.

        Args:
            operation: Empty to begin one (action, id, workflow, where, effect, event, value, rate,
                dry_run), or ``/stop`` (id). It is sent once. Fields that are None are left out.

        Raises:
            Refused: The node refuses it; nothing has changed.
            NodeUnavailable: The node went away. With the same ``id`` it can be sent again: there
                is one batch of an id.
        """
        return steps.operated(f"/v1/batches{operation}", body)

    @request
    def worlds(self, /, operation: str = "", **body: object) -> Steps[Document]:
        """Ask a node with many worlds about them: create, start, stop or remove one, or list them.

        Args:
            operation: ``create``, ``start``, ``stop`` or ``remove``; empty for the list.
            body: ``name``; for ``remove`` also ``world``, its id.

        Raises:
            Refused: The node refuses it; nothing has changed.
            NodeUnavailable: The node went away. It is unknown whether it was done: list them.
        """
        if not operation:
            return steps.read_document("/v1/worlds", [])
        return steps.operated(f"/v1/worlds/{operation}", body)

    @request
    def seq(self) -> Steps[int]:
        """Return the last durable record."""
        return steps.read_seq()
