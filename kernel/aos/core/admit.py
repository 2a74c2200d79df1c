"""(State, Input, Stamp) -> the record that admits it, or why it is not one (spec/kernel.md).

Rule 1: nothing here changes the state. ``Kernel`` folds the record; a refusal leaves everything as
it was.

Rule 2: the checks run in the order of the specification and the first broken rule is the answer.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from typing import Final, TypeGuard

from aos.core.answers import Duplicate, Refusal, Rule
from aos.core.authority import is_misnamed, may_sign
from aos.core.continuation import read_payload, settled_arm, takes
from aos.core.faults import clipped
from aos.core.frame import is_signed
from aos.core.identity import submission_hash
from aos.core.inputs import STATUSES, EventInput, ManifestInput, ReceiptInput, StartInput
from aos.core.ports import BlobReader
from aos.core.quiescence import blockers
from aos.core.records import CellId, Event, Manifest, Receipt, Ref, Stamp, Start, slot, slot_bytes
from aos.core.state import OpenIntent, State, Submission
from aos.errors import Damage
from aos.manifest.builtins import REJECTED, TIMER
from aos.manifest.effective import Effective, Executor
from aos.manifest.names import NODE
from aos.values.digests import Hash, content_hash
from aos.values.errors import ValueProblem, quoted
from aos.values.schema import Schema
from aos.values.show import describe

SUBMISSION_ID_BYTES_MAX: Final = 256
TIME_MAX: Final = 2**63 - 1
ATTEMPT_MAX: Final = 2**32 - 1
_NAMES_SAID: Final = 8
_NAME_CHARACTERS: Final = 200
KEY_BYTES_MAX: Final = 1024
"""Of a cell's key in canonical CBOR. It stands in every record of the cell, so it is never long."""

DELIVERIES_MAX: Final = 16_384
"""Mailboxes that one record may reach. With ``KEY_BYTES_MAX`` it keeps a record readable (J-16)."""

Blobs = dict[Hash, bytes]


def admit_start(state: State, given: StartInput, stamp: Stamp) -> Start:
    return Start(seq=state.next_seq, stamp=stamp, host=tuple(sorted(given.host)))


def admit_manifest(
    state: State, given: ManifestInput, stamp: Stamp, blobs: Blobs
) -> Manifest | Refusal:
    """Put a manifest in force: signed by an operator, at quiescence, once."""
    key = next((each.key for each in state.operators if each.name == given.principal), None)
    if key is None:
        return _no(
            Rule.MANIFEST_PRINCIPAL_IS_UNKNOWN,
            f"{quoted(given.principal)} is not an operator of this world: expected "
            + " or ".join(each.name for each in state.operators),
        )
    if given.serial != state.serial:
        return _no(
            Rule.MANIFEST_SERIAL_IS_WRONG,
            f"manifest serial: expected {state.serial}, found {describe(given.serial)} "
            "(another manifest was applied meanwhile: look at it and apply again)",
        )
    document = content_hash(given.document)
    if not is_signed(
        ManifestInput.message(state.world, state.serial, document), given.signature, key
    ):
        return _no(
            Rule.MANIFEST_SIGNATURE_IS_WRONG,
            f"the signature is not {given.principal}'s over this manifest with serial "
            f"{state.serial}",
        )
    if state.manifest is not None and state.manifest.hash == document:
        return _no(Rule.MANIFEST_IS_IN_FORCE, "this manifest is already in force; nothing to do")
    try:
        effective = Effective.from_document(given.document)
    except Damage as error:
        return _no(Rule.MANIFEST_IS_INVALID, f"the effective manifest cannot be read: {error}")
    problem = _misnamed(effective.executors or {}, state.world_key)
    if problem is not None:
        return _no(Rule.MANIFEST_IS_INVALID, f"executors: {problem}")
    standing = blockers(state)
    if standing:
        return Refusal(
            rule=Rule.WORLD_IS_NOT_QUIESCENT,
            message=f"the world is not quiescent: {len(standing)} things stand in the way, first "
            f"{standing[0].cell[0]}: {standing[0].kind}, {standing[0].detail} "
            "(let it run until they are done)",
            blockers=standing,
        )
    blobs[document] = given.document
    return Manifest(
        seq=state.next_seq,
        stamp=stamp,
        document=Ref(document, len(given.document)),
        principal=given.principal,
        serial=state.serial,
        signature=given.signature,
    )


def _misnamed(executors: Mapping[str, Executor], world_key: bytes) -> str | None:
    """What is wrong where the world's own key and the name ``node`` do not stand together."""
    for each in executors.values():
        if is_misnamed(each, world_key):
            return (
                f"{NODE} must have this world's own key and nobody else may, expected ed25519:"
                f"{world_key.hex()}, found {each.name} with ed25519:{each.public_key.hex()}"
            )
    return None


def admit_event(
    state: State, given: EventInput, stamp: Stamp, blobs: Blobs
) -> Event | Duplicate | Refusal:
    """Validate, deduplicate and route one event. One that no route takes is admitted, too."""
    effective = state.manifest
    if effective is None:
        return _no(
            Rule.WORLD_HAS_NO_MANIFEST, "this world has no manifest yet (apply one: aos apply PATH)"
        )
    schema = effective.schemas.get(given.schema)
    if schema is None or given.schema.startswith("sys/"):
        return _no(Rule.EVENT_SCHEMA_IS_UNKNOWN, _unknown_schema(effective, given.schema))
    try:
        data = schema.from_ingress(given.value, max_bytes=effective.limits.event_bytes)
    except ValueProblem as error:
        return _no(Rule.EVENT_IS_INVALID, f"{given.schema}: {error}")
    known_id = _submitted(state, given, stamp, data)
    if known_id is not None:
        return known_id
    if len(state.intents) >= effective.limits.open_intents:
        return _no(
            Rule.WORLD_IS_BUSY,
            f"{len(state.intents)} intents are open, the world's limit (send it again later)",
        )
    reached = len(effective.routes(given.schema))
    if reached > DELIVERIES_MAX:
        return _no(
            Rule.EVENT_REACHES_TOO_MANY,
            f"{given.schema} has {reached} subscriptions: expected at most {DELIVERIES_MAX}",
        )
    try:
        targets = route(effective, schema, data)
    except ValueProblem as error:
        return _no(Rule.EVENT_KEY_IS_INVALID, f"{given.schema}: {error}")
    to, overloaded = place(state, targets, Counter())
    return Event(
        seq=state.next_seq,
        stamp=stamp,
        schema=given.schema,
        value=slot(data, blobs),
        submission_id=given.submission_id,
        to=to,
        overloaded=overloaded,
    )


def _unknown_schema(effective: Effective, name: str) -> str:
    """The events that a subscription takes are what a sender may have meant."""
    routed = sorted({route.event for route in effective.subscriptions})
    text = f"event schema {quoted(name)} is not in the manifest in force"
    near = difflib.get_close_matches(name[:_NAME_CHARACTERS], routed, n=1, cutoff=0.75)
    if near:
        return f"{text} (did you mean {near[0]}?)"
    more = f" and {len(routed) - _NAMES_SAID} more" if len(routed) > _NAMES_SAID else ""
    return f"{text}: expected one of {', '.join(routed[:_NAMES_SAID])}{more}" if routed else text


def _submitted(
    state: State, given: EventInput, stamp: Stamp, data: bytes
) -> Duplicate | Refusal | None:
    """What an earlier event under the same submission id makes of this one."""
    if given.submission_id is None:
        return None
    size = _utf8_size(given.submission_id)
    if size is None or not 0 < size <= SUBMISSION_ID_BYTES_MAX:
        found = "text that is not Unicode" if size is None else str(size)
        return _no(
            Rule.SUBMISSION_ID_IS_INVALID,
            f"submission_id: expected 1 to {SUBMISSION_ID_BYTES_MAX} bytes of UTF-8, found {found}",
        )
    earlier = state.submissions.get(given.submission_id)
    if earlier is None or _is_forgotten(state, earlier, stamp):
        return None
    if earlier.payload == submission_hash(given.schema, content_hash(data)):
        return Duplicate(seq=earlier.seq)
    return _no(
        Rule.SUBMISSION_ID_IS_TAKEN,
        f"submission_id {quoted(given.submission_id)} is record {earlier.seq}, which is another "
        "event (an id names one event: choose a new one)",
    )


def _utf8_size(text: str) -> int | None:
    """None for text with a lone surrogate, which has no bytes."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


def _is_forgotten(state: State, earlier: Submission, stamp: Stamp) -> bool:
    """Whether its time is up by the journal clock as this input sets it."""
    now = max(state.clock_ns, stamp.ns)
    return earlier.at_ns < now - state.effective.limits.dedup_ns


def route(effective: Effective, schema: Schema, data: bytes) -> list[CellId]:
    """The cells that an event goes to, in manifest order. ``data`` is its normal form.

    Raises:
        ValueProblem: A key is missing, does not fit or is too long; no target gets the event then.
    """
    targets: list[CellId] = []
    routes = effective.routes(schema.name)
    value = schema.from_record(data) if routes else None
    for each in routes:
        key = each.key(value)
        if len(key) > KEY_BYTES_MAX:
            raise ValueProblem(
                f"too long for a key of {each.workflow}: expected at most {KEY_BYTES_MAX} bytes, "
                f"found {len(key)}",
                path=f"$.{each.key_field}",
            )
        targets.append((each.workflow, key))
    return targets


def place(
    state: State, targets: list[CellId], taken: Counter[CellId]
) -> tuple[tuple[CellId, ...], tuple[CellId, ...]]:
    """Split targets into those whose mailbox has room and those that it overloads.

    ``taken`` counts what the same record puts into each mailbox before; it is added to. An instance
    that a fault has failed is reached, too: what it gets is kept or counted (K-44).
    """
    most = state.effective.limits.mailbox
    to: list[CellId] = []
    overloaded: list[CellId] = []
    for id in targets:
        cell = state.cells.get(id)
        if cell is not None and cell.fault is not None:
            to.append(id)
        elif (0 if cell is None else len(cell.mailbox)) + taken[id] < most:
            taken[id] += 1
            to.append(id)
        else:
            overloaded.append(id)
    return tuple(to), tuple(overloaded)


def admit_receipt(
    state: State, given: ReceiptInput, stamp: Stamp, blobs: Blobs, read: BlobReader
) -> Receipt | Refusal:
    """Settle an open intent. Whatever is wrong with the receipt itself changes nothing."""
    is_abandoned = given.intent in state.abandoned
    intent = state.abandoned.get(given.intent) or state.intents.get(given.intent)
    if intent is None:
        return _no(
            Rule.RECEIPT_INTENT_IS_UNKNOWN,
            f"no intent blake3:{given.intent[:32].hex()} is open here",
        )
    refusal = _shape(state, given, intent) or _authority(state, given, intent)
    if refusal is None and intent.effect.name == TIMER and given.status == "ok":
        refusal = _not_due(state, intent, stamp, read)
    if refusal is not None:
        return refusal
    outcome, schema, problem = "abandoned", None, None
    abandoned: tuple[Hash, ...] = ()
    if not is_abandoned:
        outcome, schema, problem = _outcome(state, given, intent)
        if outcome == "faulted":
            abandoned = tuple(
                each for each in state.cells[intent.cell].inflight if each != given.intent
            )
    return Receipt(
        seq=state.next_seq,
        stamp=stamp,
        intent=given.intent,
        cell=intent.cell,
        effect=given.effect,
        attempt=given.attempt,
        status=given.status,
        payload=slot(given.payload, blobs),
        payload_schema=schema,
        started_ns=given.started_ns,
        finished_ns=given.finished_ns,
        cost_cents=given.cost_cents,
        executor=given.executor,
        key_id=given.key_id,
        signature=given.signature,
        outcome=outcome,
        problem=problem,
        abandoned=abandoned,
    )


def _shape(state: State, given: ReceiptInput, intent: OpenIntent) -> Refusal | None:
    if given.effect != intent.effect.name:
        return _no(
            Rule.RECEIPT_EFFECT_DIFFERS,
            f"expected {intent.effect.name}, found {quoted(given.effect)}",
        )
    if given.status not in STATUSES:
        return _no(
            Rule.RECEIPT_STATUS_IS_UNKNOWN,
            f"expected {' or '.join(STATUSES)}, found {quoted(given.status)}",
        )
    if not (_is_nat(given.attempt, ATTEMPT_MAX) and given.attempt):
        return _no(
            Rule.RECEIPT_ATTEMPT_IS_OLD,
            f"expected an attempt of 1 to {ATTEMPT_MAX}, found {describe(given.attempt)}",
        )
    most = state.effective.limits.event_bytes
    if len(given.payload) > most:
        return _no(
            Rule.RECEIPT_IS_TOO_LARGE,
            f"expected at most {most} bytes of payload, found {len(given.payload)}",
        )
    cost = 0 if given.cost_cents is None else given.cost_cents
    numbers = (given.started_ns, given.finished_ns, cost)
    if not all(_is_nat(each, TIME_MAX) for each in numbers) or given.started_ns > given.finished_ns:
        return _no(
            Rule.RECEIPT_TIMES_ARE_INVALID,
            "expected 0 <= started_ns <= finished_ns < 2^63 and a cost from 0, found "
            f"{describe(given.started_ns)}, {describe(given.finished_ns)} and "
            f"{describe(given.cost_cents)}",
        )
    return None


def _is_nat(value: object, most: int) -> TypeGuard[int]:
    # A bool is an int to Python; in the journal it is not.
    return type(value) is int and 0 <= value <= most


def _authority(state: State, given: ReceiptInput, intent: OpenIntent) -> Refusal | None:
    """Whether this key could sign for this effect when the intent was opened, and did."""
    if not may_sign(
        intent.executors,
        state.effective.executors,
        executor=given.executor,
        effect=given.effect,
        key_id=given.key_id,
        world_key=state.world_key,
    ):
        return _no(
            Rule.RECEIPT_EXECUTOR_MAY_NOT_SIGN,
            f"executor {quoted(given.executor)} with key ed25519:{given.key_id[:32].hex()} may not "
            f"sign for {given.effect}: it could not when the effect was asked for, or its key is "
            "revoked",
        )
    if not is_signed(given.message(state.world), given.signature, given.key_id):
        return _no(
            Rule.RECEIPT_SIGNATURE_IS_WRONG,
            f"the signature is not {given.executor}'s over this receipt",
        )
    return None


def _not_due(state: State, intent: OpenIntent, stamp: Stamp, read: BlobReader) -> Refusal | None:
    params = intent.effect.params.from_record(slot_bytes(intent.params, read))
    assert isinstance(params, dict)
    due = params["deliver_at_ns"]
    assert isinstance(due, int)
    now = max(state.clock_ns, stamp.ns)
    if now >= due:
        return None
    return _no(Rule.TIMER_IS_NOT_DUE, f"due at {due} ns, {due - now} ns after the journal's clock")


def _outcome(
    state: State, given: ReceiptInput, intent: OpenIntent
) -> tuple[str, str | None, str | None]:
    """(outcome, schema of the payload, its problem): K-54 and K-55."""
    effective = state.effective
    workflow = effective.workflows[intent.cell[0]]
    cell = state.cells[intent.cell]
    schema, problem = None, None
    payload = read_payload(effective, intent, given.status, given.payload)
    if isinstance(payload, str):
        problem = clipped(payload)
    else:
        schema = payload.schema
        if settled_arm(workflow, intent, given.status) is None:
            problem = f"{workflow.name} has no arm for a receipt with status {given.status}"
    if problem is not None and not takes(workflow, REJECTED):
        return "faulted", schema, problem
    if cell.fault is None and len(cell.mailbox) >= effective.limits.mailbox:
        return "overloaded", schema, problem
    return ("delivered" if problem is None else "rejected"), schema, problem


def _no(rule: Rule, message: str) -> Refusal:
    return Refusal(rule=rule, message=clipped(message))
