"""Send events over HTTP, and wait for their outcome or for the answer of a cell (spec/node-api.md,
N-115). ``/v1/schedules/*`` sends events, too: create, pause, resume, trigger and delete schedules
(spec/schedule.md).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal
from aos.core.journal.inputs import EventInput
from aos.core.journal.records import CellId, Step
from aos.errors import excerpt
from aos.host.door.protocol import ManifestChanged
from aos.host.door.writer import Item, spell
from aos.manifest.effective import Effective
from aos.manifest.limits import WorldLimits
from aos.manifest.names import NOT_FROM_SENDERS
from aos.manifest.schedule_setting import must_have_schedules, set_value
from aos.manifest.schedules import (
    DELETE,
    PAUSE,
    RESUME,
    SCHEDULE,
    SET,
    TRIGGER,
    ScheduleInvalid,
    schedule_of,
)
from aos.node.bodies import BATCH_BYTES_MAX, FIELDS_BYTES, too_large
from aos.node.calls import ApiCall, ApiReply
from aos.node.problems import Problem, refused
from aos.node.services import Services
from aos.node.tokens import SEND, Token
from aos.node.tracing.record_spans import read_traceparent
from aos.node.waiting import reached, wait_document
from aos.read.lens.words import as_json
from aos.read.views.cell_view import Annotation, annotation_of
from aos.read.views.record_view import Document
from aos.read.views.schedule_view import refusal_of
from aos.values.cbor import decode_ingress, encode
from aos.values.digests import hash_text
from aos.values.errors import ValueProblem

DURABLE: Final = "durable"
SETTLED: Final = "settled"

SPELLED_MAX: Final = 20
"""How often events are encoded again because another manifest came into force meanwhile."""

MANIFEST_S: Final = 0.5
"""Longest wait of a standby for the next record, when the owner has another manifest."""

MANIFEST_HEADER: Final = b"aos-manifest"
"""The header with the hash of the manifest that must be in force."""

MANIFEST_HAS_CHANGED: Final = "manifest_has_changed"
"""The rule of a refusal because another manifest is in force."""

ANSWER_S: Final = 20.0
"""Seconds within which a cell takes an event."""

COMMANDS: Final[Mapping[str, str]] = {
    "pause": PAUSE, "resume": RESUME, "trigger": TRIGGER, "delete": DELETE,
}  # fmt: skip


async def send_events(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/events``: one event, or a batch in which each item has its own answer."""
    if "items" in call.body:
        return await _send_batch(services, call)
    if len(call.data) > (bytes_max := event_body_max(services)):
        raise too_large(bytes_max)
    item = _item(call.body, is_cbor=call.is_cbor, key=_idempotency_key(call))
    if (problem := event_not_allowed(call.caller, item.schema, item.value)) is not None:
        raise problem
    [answer] = await sent_events(services, [item], _expected_manifest(call))
    call.admitted_seq = _last_seq([answer])
    sent = await _sent_of(services, answer)
    _note_caller(services, call, [sent])
    if call.query["wait"] == DURABLE:
        return ApiReply(document=sent.document(services))
    return await _waited(services, call, [sent], is_one=True)


async def _send_batch(services: Services, call: ApiCall) -> ApiReply:
    if b"idempotency-key" in call.headers:
        raise Problem(
            400, "idempotency_key_is_for_one",
            "Idempotency-Key belongs to one event: give each item of a batch its submission_id",
        )  # fmt: skip
    items = [_item(fields, is_cbor=call.is_cbor) for fields in call.body["items"]]
    services.rates.use(call.caller, len(items) - 1)
    problems = [event_not_allowed(call.caller, item.schema, item.value) for item in items]
    allowed = [item for item, denial in zip(items, problems, strict=True) if denial is None]
    allowed_answers = await sent_events(services, allowed, _expected_manifest(call))
    call.admitted_seq = _last_seq(allowed_answers)
    answers = iter(allowed_answers)
    results: list[_Sent | Problem] = []
    for denial in problems:
        if denial is not None:
            results.append(denial)
            continue
        try:
            results.append(await _sent_of(services, next(answers)))
        except Problem as problem:
            results.append(problem)
    _note_caller(services, call, results)
    if call.query["wait"] == DURABLE:
        return ApiReply(
            document={"items": [_item_document(result, services) for result in results]}
        )
    return await _waited(services, call, results, is_one=False)


def _last_seq(answers: Sequence[Answer]) -> int | None:
    """The last record of answers; None if all were refused."""
    return max((answer.seq for answer in answers if not isinstance(answer, Refusal)), default=None)


def _note_caller(services: Services, call: ApiCall, results: Sequence[_Sent | Problem]) -> None:
    """Keep the trace context of a request for the spans of its events (N-84)."""
    if services.spans is None:
        return
    context = read_traceparent(call.headers.get(b"traceparent"))
    if context is None:
        return
    for result in results:
        if isinstance(result, _Sent) and not result.is_duplicate:
            services.spans.callers.add(result.seq, context)


def _item_document(result: _Sent | Problem, services: Services) -> Document:
    if isinstance(result, Problem):
        return {"problem": result.document()}
    return result.document(services)


def event_body_max(services: Services) -> int:
    """Return the most bytes of a body with one event (N-141)."""
    manifest = services.follower.state.manifest
    limits = WorldLimits() if manifest is None else manifest.limits
    return min(4 * limits.event_bytes // 3 + FIELDS_BYTES, BATCH_BYTES_MAX)


def _item(fields: Mapping[str, Any], *, is_cbor: bool, key: str | None = None) -> Item:
    value, submission_id = fields["value"], fields.get("submission_id")
    if key is not None and submission_id not in (None, key):
        raise Problem(
            400, "submission_ids_differ", "Idempotency-Key and submission_id are not the same",
            pointer="/submission_id",
        )  # fmt: skip
    return Item(
        schema=fields["schema"],
        value=encode(value) if is_cbor else value,
        submission_id=submission_id if key is None else key,
    )


def _idempotency_key(call: ApiCall) -> str | None:
    header = call.headers.get(b"idempotency-key")
    if header is None:
        return None
    try:
        return header.decode()
    except UnicodeDecodeError:
        raise Problem(
            400, "idempotency_key_is_invalid", "Idempotency-Key: expected UTF-8"
        ) from None


def not_allowed(caller: Token, schema: str) -> Problem | None:
    """Return why a caller may not send events of a schema; None if it may."""
    if schema in NOT_FROM_SENDERS:
        return Problem(
            403, "event_is_internal",
            f"{schema} comes from claims of workers and from the package itself "
            "(claim plan steps with /v1/work/claim)",
        )  # fmt: skip
    if caller.allows(SEND, schema):
        return None
    return Problem(
        403, "token_does_not_allow",
        f"the token {caller.name} may not send {excerpt(schema, characters_max=100)}",
    )  # fmt: skip


def event_not_allowed(caller: Token, schema: str, value: object) -> Problem | None:
    """As ``not_allowed``, for an event with its value, as JSON or as CBOR. A caller that defines a
    schedule must also be allowed to send the event that the schedule emits."""
    problem = not_allowed(caller, schema)
    if problem is not None or schema != SET:
        return problem
    if isinstance(value, bytes):
        try:
            value = decode_ingress(value, max_bytes=BATCH_BYTES_MAX)
        except ValueProblem:
            return None  # the kernel refuses it
    event = value.get("event") if isinstance(value, dict) else None
    return not_allowed(caller, event) if isinstance(event, str) else None


def _expected_manifest(call: ApiCall) -> str | None:
    header = call.headers.get(MANIFEST_HEADER)
    return None if header is None else header.decode("latin-1")


async def sent_events(
    services: Services, items: Sequence[Item], expected: str | None = None
) -> list[Answer]:
    """Send events as the schemas of the manifest in force spell them. With ``expected``, the hash
    of a manifest, they are sent only if it is in force (N-115a).

    Raises:
        Problem: Another manifest is in force (409). Nothing was admitted.
        AosError: As the link. The events may have been admitted unless it is Busy.
    """
    if services.is_replica:  # what is sent again is admitted once, also by the next owner (CL-204)
        items = [
            item if item.submission_id is not None else replace(item, submission_id=own_id())
            for item in items
        ]
    for _ in range(SPELLED_MAX):
        manifest = services.follower.state.manifest
        if expected is not None and not _is_hash_of(manifest, expected):
            await services.follower.advance_to()
            manifest = services.follower.state.manifest
            if not _is_hash_of(manifest, expected):
                raise Problem(
                    409, MANIFEST_HAS_CHANGED,
                    f"{MANIFEST_HEADER.decode()}: another manifest is in force",
                )  # fmt: skip
        spelt = [spell(item, manifest) for item in items]
        inputs = [event for event in spelt if isinstance(event, EventInput)]
        try:
            answers: list[Answer] = []
            if inputs:
                answers = await services.link.send(inputs, manifest.hash if manifest else None)
        except ManifestChanged:
            if services.follows:  # the owner's manifest is on its way to this node
                await services.follower.wait_past(services.follower.seq, MANIFEST_S)
            await services.follower.advance_to()
            continue
        remaining_answers = iter(answers)
        return [event if isinstance(event, Refusal) else next(remaining_answers) for event in spelt]
    raise Problem(
        503, "manifest_changes",
        "the manifest changed several times during this request (send it again)",
        retry_after_s=1,
    )  # fmt: skip


def own_id() -> str:
    """The submission id of an event that its sender gave none."""
    return secrets.token_hex(16)


def _is_hash_of(manifest: Effective | None, expected: str) -> bool:
    return manifest is not None and hash_text(manifest.hash) == expected


class _Sent(NamedTuple):
    """A durable event: its record, and the cells that it reached; None if the record of a
    duplicate was pruned. ``ended`` are the flows among them that had ended (FL-83)."""

    seq: int
    is_duplicate: bool
    to: tuple[CellId, ...] | None
    ended: tuple[CellId, ...] = ()

    def document(
        self, services: Services, outcomes: Mapping[CellId, Document] | None = None
    ) -> Document:
        outcome_by_cell = outcomes or {}
        document: Document = {
            "seq": self.seq,
            "duplicate": self.is_duplicate,
            "to": None
            if self.to is None
            else [
                _cell_document(services, cell) | outcome_by_cell.get(cell, {}) for cell in self.to
            ],
        }
        if self.ended:
            document["ended"] = [_cell_document(services, cell) for cell in self.ended]
        return document


def _cell_document(services: Services, cell: CellId) -> Document:
    manifest = services.follower.state.manifest
    workflow = manifest.workflows.get(cell[0]) if manifest else None
    key = as_json(workflow.key if workflow else None, cell[1]) if cell[1] else None
    return {"workflow": cell[0], "key": key}


async def _sent_of(services: Services, answer: Answer) -> _Sent:
    match answer:
        case Refusal():
            raise refused(answer, services.follower.state.manifest)
        case Duplicate(seq=seq):
            if not await services.has_record(seq):
                return _Sent(seq, True, None)
            return _Sent(seq, True, reached(services.follower.store, seq))
    return _Sent(answer.seq, False, answer.to, answer.ended)


async def _waited(
    services: Services, call: ApiCall, results: Sequence[_Sent | Problem], *, is_one: bool
) -> ApiReply:
    """Wait for the outcomes of all events together, at most ``timeout_ms``."""
    sent = [result for result in results if isinstance(result, _Sent)]
    waited = iter(
        await asyncio.gather(
            *(
                services.waiting.wait(
                    event.seq,
                    event.to or (),
                    until_settled=call.query["wait"] == SETTLED,
                    seconds=call.query["timeout_ms"] / 1000,
                    store=services.follower.store,
                )
                for event in sent
            )
        )
    )
    view, with_state = services.view(), call.query.get("state", False)
    are_over = True
    documents: list[Document] = []
    for result in results:
        if isinstance(result, Problem):
            documents.append({"problem": result.document()})
            continue
        waits, is_over = next(waited)
        are_over = are_over and is_over
        outcomes = {wait.cell: wait_document(view, wait, with_state=with_state) for wait in waits}
        documents.append(result.document(services, outcomes))
    return ApiReply(
        document=documents[0] if is_one else {"items": documents}, status=200 if are_over else 202
    )


async def ask_cell(services: Services, schema: str, value: Any, name: str) -> Annotation:
    """Send an event without a submission id, to one cell that people know as ``name``.

    Returns:
        The annotation of the cell's step, once that is durable.

    Raises:
        Problem: The event is refused, or the cell has failed by a fault or does not answer.
    """
    [answer] = await sent_events(services, [Item(schema=schema, value=encode(value))])
    match answer:
        case Refusal():
            raise refused(answer, services.follower.state.manifest)
        case Admitted(seq=seq, to=to):
            pass
        case Duplicate(seq=seq):  # the node sent it again, to the next owner
            to = (await _sent_of(services, answer)).to or ()
    waits, _ = await services.waiting.wait(
        seq, to, until_settled=False, seconds=ANSWER_S, store=services.follower.store
    )
    run = waits[0].run if waits else None
    annotation = annotation_of(run, services.follower.store) if isinstance(run, Step) else None
    if annotation is None:
        raise Problem(503, "no_answer", f"{name} has not answered (send it again)", retry_after_s=1)
    return annotation


async def create_schedule(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/schedules/create``: answered once the schedule is set."""
    fields = {name: value for name, value in call.body.items() if name != "replace"}
    manifest = _manifest(services)
    try:
        entry = schedule_of(fields)
        value = set_value(entry, manifest.schemas, manifest.plans)
    except ScheduleInvalid as problem:
        raise Problem(
            422, "schedule_is_invalid", str(problem), pointer=problem.pointer or None
        ) from problem
    barred = not_allowed(call.caller, value["event"])
    if barred is not None:
        raise barred
    if not call.body.get("replace", False):
        _must_be_new(services, entry.id)
    return await _ask_schedule(services, call, SET, value)


async def command_schedule(services: Services, call: ApiCall) -> ApiReply:
    """``POST /v1/schedules/command``: pause, resume, trigger or delete a schedule."""
    _manifest(services)
    return await _ask_schedule(
        services, call, COMMANDS[call.body["action"]], {"id": call.body["id"]}
    )


async def _ask_schedule(
    services: Services, call: ApiCall, schema: str, value: Mapping[str, Any]
) -> ApiReply:
    if not call.caller.allows(SEND, schema):
        raise Problem(
            403, "token_does_not_allow", f"the token {call.caller.name} may not send {schema}"
        )
    answer = await ask_cell(services, schema, value, f"schedule {value['id']}")
    refusal = refusal_of(answer)
    if refusal is not None:
        raise Problem(409, "schedule_refuses", refusal)
    return ApiReply(document={"id": value["id"], "seq": answer.seq})


def _manifest(services: Services) -> Effective:
    manifest = services.follower.state.manifest
    try:
        must_have_schedules({} if manifest is None else manifest.workflows)
    except ScheduleInvalid as problem:
        raise Problem(422, "no_schedules", str(problem)) from problem
    assert manifest is not None
    return manifest


def _must_be_new(services: Services, id: str) -> None:
    cell: CellId = (SCHEDULE, encode(id))
    if services.follower.state.cells.get(cell) is not None:
        raise Problem(
            409, "schedule_exists",
            f"there is a schedule {id} already (with replace it gets this definition)",
        )  # fmt: skip
