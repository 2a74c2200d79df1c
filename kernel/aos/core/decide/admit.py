"""Decide an input: the record that admits it, or the rule that it breaks.

Rule 1: nothing here changes the state. ``Kernel`` folds the record; a refusal leaves everything as
it was.

Rule 2: the checks run in the order of the specification and the first broken rule is the answer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from aos.core.decide.answers import Blocker, Decided, Duplicate, Refusal, Rule, refusal
from aos.core.decide.approved import proposal_problem
from aos.core.decide.left_behind import kept_of
from aos.core.decide.manifest_problems import keys_problem, leaves_problem, placement_problem
from aos.core.decide.migration import Asking, Failed, Puts, migrating
from aos.core.decide.quiescence import IN_FLIGHT, Change, blockers
from aos.core.decide.routing import (
    cell_text,
    pinned_problem,
    place_event,
    route,
    shard_problem,
)
from aos.core.decide.suggestion import nearest
from aos.core.journal.faults import clipped
from aos.core.journal.identity import submission_hash
from aos.core.journal.inputs import (
    MIGRATE,
    STRICT,
    EventInput,
    ManifestInput,
    SnapshotInput,
    StartInput,
)
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import (
    CellId,
    Event,
    Manifest,
    Ref,
    Snapshot,
    Stamp,
    Start,
    slot,
)
from aos.core.journal.signing import is_signed
from aos.core.journal.vocabulary import MODES, word_of
from aos.core.state.state import State
from aos.core.state.submissions import Submission
from aos.errors import Damage
from aos.manifest.effective import ONLY_OWN_STEPS, Effective
from aos.manifest.judging import judge
from aos.manifest.names import CONTINUATIONS, ONLY_DELIVERED
from aos.values.digests import Hash, content_hash
from aos.values.errors import ValueProblem, quoted
from aos.values.show import describe

SUBMISSION_ID_BYTES_MAX: Final = 256
TIME_MAX: Final = 2**63 - 1
_NAMES_SAID: Final = 8


def admit_start(state: State, start: StartInput, stamp: Stamp) -> Decided:
    """Record the software that executes from now on. It is never refused."""
    record = Start(seq=state.next_seq, stamp=stamp, host=tuple(sorted(start.host)))
    return Decided(record=record, blobs={})


def admit_snapshot(
    state: State, snapshot: SnapshotInput, stamp: Stamp
) -> Decided | Duplicate | Refusal:
    """Admit a snapshot if it is newer than the last one (SN-3)."""
    last = state.snapshot
    if last is not None and (last.at, last.document) == (snapshot.at, snapshot.document):
        return Duplicate(seq=last.seq)
    previous_at = 0 if last is None else last.at
    if not previous_at < snapshot.at < state.next_seq:
        return refusal(
            Rule.SNAPSHOT_IS_OLD,
            f"a snapshot after record {snapshot.at}: expected one after record {previous_at}, "
            f"of which the last is, and before record {state.next_seq}",
        )
    record = Snapshot(
        seq=state.next_seq,
        stamp=stamp,
        at=snapshot.at,
        frame=snapshot.frame,
        document=Ref(snapshot.document, snapshot.size),
    )
    return Decided(record=record, blobs={})


def admit_manifest(
    state: State,
    manifest_input: ManifestInput,
    stamp: Stamp,
    *,
    read: BlobReader,
    kept_bytes: int | None,
) -> Decided | Refusal | Asking[Decided | Refusal]:
    """Put a manifest in force if an operator signed it, once, and nothing blocks it. If it
    migrates, the generator that is returned decides; ``kept_bytes`` is as for ``Puts``.

    Raises:
        Damage: A stored state or an earlier manifest cannot be read. Nothing has changed.
    """
    document = content_hash(manifest_input.document)
    unsigned = _unsigned(state, manifest_input, document)
    if unsigned is not None:
        return unsigned
    mode = word_of(MODES, manifest_input.mode)
    if mode is None:
        return refusal(
            Rule.MANIFEST_MODE_IS_UNKNOWN,
            f"mode: expected {' or '.join(MODES)}, found {quoted(manifest_input.mode)}",
        )
    unapproved = proposal_problem(state, manifest_input, document)
    if unapproved is not None:
        return unapproved
    if state.manifest is not None and state.manifest.hash == document:
        return refusal(
            Rule.MANIFEST_IS_IN_FORCE, "this manifest is already in force; nothing to do"
        )
    try:
        effective = judge(manifest_input.document)
    except Damage as error:
        return refusal(Rule.MANIFEST_IS_INVALID, f"the effective manifest cannot be read: {error}")
    problem = (
        keys_problem(effective, state)
        or leaves_problem(effective, manifest_input.leaves)
        or placement_problem(effective, state)
    )
    if problem is not None:
        return refusal(Rule.MANIFEST_IS_INVALID, problem)
    if manifest_input.checked is not None and manifest_input.checked < state.cells.at:
        return refusal(
            Rule.MANIFEST_CHECK_IS_OLD,
            f"stored states were checked up to record {manifest_input.checked}, and later "
            f"changes are known only from record {state.cells.at} on (check them again)",
        )
    change = Change(
        in_force=state.manifest, effective=effective, mode=mode, leaves=manifest_input.leaves
    )
    standing = blockers(
        state, change, read, since=manifest_input.checked, is_recorded=manifest_input.is_recorded
    )
    if standing:
        return in_the_way(standing)
    record = Manifest(
        seq=state.next_seq,
        stamp=stamp,
        document=Ref(document, len(manifest_input.document)),
        principal=manifest_input.principal,
        serial=state.serial,
        signature=manifest_input.signature,
        mode=None if mode == STRICT else mode,
        leaves=manifest_input.leaves,
        proposal=manifest_input.proposal,
    )
    decided = Decided(record=record, blobs={document: manifest_input.document})
    if mode == MIGRATE:
        return _migrating(state, change, Puts(read, kept_bytes), read, decided)
    return decided


def _migrating(
    state: State, change: Change, puts: Puts, read: BlobReader, unmigrated: Decided
) -> Asking[Decided | Refusal]:
    migrated = yield from migrating(state, change, read, puts)
    if isinstance(migrated, Failed):
        return in_the_way(migrated.blockers)
    assert isinstance(unmigrated.record, Manifest)
    return Decided(
        record=replace(unmigrated.record, migrated=migrated),
        blobs={**puts.uncommitted, **unmigrated.blobs},
    )


def _unsigned(state: State, manifest_input: ManifestInput, document: Hash) -> Refusal | None:
    """The refusal of a manifest that no operator has signed for this world as it is now."""
    key = next(
        (operator.key for operator in state.operators if operator.name == manifest_input.principal),
        None,
    )
    if key is None:
        return refusal(
            Rule.MANIFEST_PRINCIPAL_IS_UNKNOWN,
            f"{quoted(manifest_input.principal)} is not an operator of this world: expected "
            + " or ".join(operator.name for operator in state.operators),
        )
    if type(manifest_input.serial) is not int or manifest_input.serial != state.serial:
        return refusal(
            Rule.MANIFEST_SERIAL_IS_WRONG,
            f"manifest serial: expected {state.serial}, found {describe(manifest_input.serial)} "
            "(another manifest was applied meanwhile: look at it and apply again)",
        )
    message = ManifestInput.message(
        state.world, state.serial, document, mode=manifest_input.mode, leaves=manifest_input.leaves,
        proposal=manifest_input.proposal,
    )  # fmt: skip
    if not is_signed(message, manifest_input.signature, key):
        return refusal(
            Rule.MANIFEST_SIGNATURE_IS_WRONG,
            f"the signature is not {manifest_input.principal}'s over this manifest with serial "
            f"{state.serial}",
        )
    return None


def in_the_way(standing: tuple[Blocker, ...]) -> Refusal:
    """The refusal of a manifest that cannot come into force now."""
    first = standing[0]
    many = "1 blocker" if len(standing) == 1 else f"{len(standing)} blockers"
    summary = f"{many}, first {first.cell[0]}: {first.kind}, "
    if first.kind in IN_FLIGHT:
        return Refusal(
            rule=Rule.WORLD_IS_NOT_QUIESCENT,
            message=f"the world is not quiescent: {summary}{first.detail} "
            "(let it run until they are done)",
            blockers=standing,
        )
    return Refusal(
        rule=Rule.MANIFEST_DOES_NOT_FIT,
        message=clipped(
            f"the manifest does not fit what this world holds: {summary}{first.detail}"
        ),
        blockers=standing,
    )


def admit_event(
    state: State, event: EventInput, stamp: Stamp, read: BlobReader
) -> Decided | Duplicate | Refusal:
    """Validate, deduplicate and route one event. An event without a route is admitted, too.

    Raises:
        Damage: The state of a receiver or an earlier manifest cannot be read. Nothing has changed.
    """
    effective = state.manifest
    if effective is None:
        return refusal(
            Rule.WORLD_HAS_NO_MANIFEST, "this world has no manifest yet (apply one: aos apply PATH)"
        )
    schema = effective.schemas.get(event.schema)
    if event.schema in CONTINUATIONS:
        return refusal(Rule.EVENT_SCHEMA_IS_UNKNOWN, f"{event.schema} {ONLY_DELIVERED}")
    if schema is None:
        return refusal(Rule.EVENT_SCHEMA_IS_UNKNOWN, _unknown_schema(effective, event.schema))
    if not effective.is_open(event.schema):
        return refusal(Rule.EVENT_IS_INTERNAL, f"{event.schema} {ONLY_OWN_STEPS}")
    try:
        data = schema.from_ingress(event.value, max_bytes=effective.limits.event_bytes)
    except ValueProblem as error:
        return refusal(Rule.EVENT_IS_INVALID, f"{event.schema}: {error}")
    known_id = _submitted(state, event, stamp, data)
    if known_id is not None:
        return known_id
    if len(state.intents) >= effective.limits.open_intents:
        return refusal(
            Rule.WORLD_IS_BUSY,
            f"{len(state.intents)} intents are open, the world's limit (send it again later)",
        )
    reached = len(effective.routes(event.schema))
    deliveries_max = state.limits.deliveries
    if reached > deliveries_max:
        return refusal(
            Rule.EVENT_REACHES_TOO_MANY,
            f"{event.schema} has {reached} subscriptions: expected at most {deliveries_max}",
        )
    try:
        targets = route(effective, schema, data)
    except ValueProblem as error:
        return refusal(Rule.EVENT_KEY_IS_INVALID, f"{event.schema}: {error}")
    problem = shard_problem(effective, targets)
    if problem is not None:
        return refusal(
            Rule.KEY_OF_ANOTHER_SHARD, f"{event.schema}: {problem} (send it to the group)"
        )
    left_behind = kept_of(state, targets, read)
    problem = pinned_problem(state, targets, event.schema, data, left_behind=left_behind)
    if problem is not None:
        return refusal(Rule.EVENT_DOES_NOT_FIT_INSTANCE, f"{event.schema}: {problem}")
    placed = place_event(state, effective.routes(event.schema), targets, Counter())
    if placed.unknown:
        return refusal(
            Rule.INSTANCE_IS_UNKNOWN, _unknown_instance(effective, event.schema, placed.unknown[0])
        )
    blobs: dict[Hash, bytes] = {}
    record = Event(
        seq=state.next_seq,
        stamp=stamp,
        schema=event.schema,
        value=slot(data, blobs),
        submission_id=event.submission_id,
        to=placed.to,
        overloaded=placed.overloaded,
        kept=left_behind,
    )
    return Decided(record=record, blobs=blobs)


def _unknown_instance(effective: Effective, event: str, id: CellId) -> str:
    """The message for an event to an instance that it may not create (K-42a)."""
    return (
        f"{cell_text(effective, id)} does not exist, and {event} is only for instances that do "
        "(check the key; the route says creates: false)"
    )


def _unknown_schema(effective: Effective, name: str) -> str:
    """The message for an unknown schema; it suggests events that a subscription takes."""
    routed = sorted({route.event for route in effective.subscriptions})
    event_names = _events_of(effective, name)
    if event_names:
        return f"{quoted(name)} is a workflow: expected an event that it takes, {event_names}"
    text = f"event schema {quoted(name)} is not in the manifest in force"
    near = nearest(name, routed)
    if near is not None:
        return f"{text} (did you mean {near}?)"
    tail = f" and {len(routed) - _NAMES_SAID} more" if len(routed) > _NAMES_SAID else ""
    return f"{text}: expected one of {', '.join(routed[:_NAMES_SAID])}{tail}" if routed else text


def _events_of(effective: Effective, name: str) -> str:
    """The events that the workflow of this name takes; empty if there is none. The name may lack
    its namespace and version."""
    events = {
        route.event
        for route in effective.subscriptions
        if name in {route.workflow, *_short_names(route.workflow)}
    }
    return " or ".join(sorted(events)[:_NAMES_SAID])


def _short_names(name: str) -> tuple[str, str, str]:
    base = name.partition("@")[0]
    return base, name.partition("/")[2], base.partition("/")[2]


def _submitted(
    state: State, event: EventInput, stamp: Stamp, data: bytes
) -> Duplicate | Refusal | None:
    """The answer if an earlier event has the same submission id; None if the event is new."""
    if event.submission_id is None:
        return None
    size = _utf8_size(event.submission_id)
    if size is None or not 0 < size <= SUBMISSION_ID_BYTES_MAX:
        actual = "text that is not Unicode" if size is None else str(size)
        return refusal(
            Rule.SUBMISSION_ID_IS_INVALID,
            f"submission_id: expected 1 to {SUBMISSION_ID_BYTES_MAX} bytes of UTF-8, found "
            f"{actual}",
        )
    earlier = state.submissions.get(event.submission_id)
    if earlier is None or _is_forgotten(state, earlier, stamp):
        return None
    if earlier.payload == submission_hash(event.schema, content_hash(data)):
        return Duplicate(seq=earlier.seq)
    return refusal(
        Rule.SUBMISSION_ID_IS_TAKEN,
        f"submission_id {quoted(event.submission_id)} is record {earlier.seq}, which is another "
        "event (an id names one event: choose a new one)",
    )


def _utf8_size(text: str) -> int | None:
    """None for text with a lone surrogate, which has no bytes."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


def _is_forgotten(state: State, earlier: Submission, stamp: Stamp) -> bool:
    """Whether the dedup window has expired, by the window time after this input."""
    return earlier.at_ns < state.window_at(stamp.ns) - state.effective.limits.dedup_ns
