"""Decide an operator's command: a ``Control``, or the reason for a refusal (K-100 to K-109b).

Nothing here changes the state, and the first broken rule is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, assert_never

from aos.core.decide.answers import Decided, Refusal, Rule, refusal
from aos.core.decide.dialect.dialects import dialect_of
from aos.core.decide.fits import cell_problems, open_problems
from aos.core.journal.inputs import (
    END,
    REMOVE,
    SKIP,
    ControlInput,
    has_fields_of,
    needed_fields,
)
from aos.core.journal.journal_clock import CLOCK_AHEAD_NS
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Control, Ref, Slot, Stamp, slot, slot_hash
from aos.core.journal.signing import is_signed
from aos.core.journal.vocabulary import (
    ACTIONS,
    CONTROL_STATUSES,
    SETTLED_STATUSES,
    TERMINAL,
    ControlAction,
    word_of,
)
from aos.core.snapshot.load import parts
from aos.core.state.cell import Cell, EventMail, Mail, ReceiptMail
from aos.core.state.continuation import EFFECT_ERROR
from aos.core.state.proposals import proposal_blobs
from aos.core.state.state import State
from aos.core.state.version import is_pinned, workflow_of
from aos.manifest.names import KERNEL_EFFECTS
from aos.values.digests import HASH_BYTES, Hash, hash_text
from aos.values.errors import ValueProblem, quoted
from aos.values.show import describe

WHY_BYTES_MAX: Final = 1024
"""Maximum bytes of an operator's reason to end or remove an instance."""


def admit_control(
    state: State, control: ControlInput, stamp: Stamp, read: BlobReader
) -> Decided | Refusal:
    """Admit an operator's command if it is signed, new and possible.

    Raises:
        Damage: A blob that the decision needs is missing or altered. Nothing has changed.
    """
    problem = _authority(state, control)
    return decide_control(state, control, stamp, read) if problem is None else problem


def decide_control(
    state: State, control: ControlInput, stamp: Stamp, read: BlobReader
) -> Decided | Refusal:
    """Admit a command whose authority was checked, or does not matter. Raises as
    ``admit_control``."""
    action = word_of(ACTIONS, control.action)
    if action is None:
        return refusal(
            Rule.CONTROL_IS_INVALID,
            f"action: expected {' or '.join(ACTIONS)}, found {quoted(control.action)}",
        )
    problem = _shape(control, action) or _impossible(state, control, action, stamp, read)
    if problem is not None:
        return problem
    ended = state.cells.get(control.cell) if action in (END, REMOVE) and control.cell else None
    blobs: dict[Hash, bytes] = {}
    record = Control(
        seq=state.next_seq,
        stamp=stamp,
        action=action,
        cell=control.cell,
        intent=control.intent,
        value=control.value,
        principal=control.principal,
        serial=control.serial,
        signature=control.signature,
        status=word_of(CONTROL_STATUSES, control.status),
        payload=None if control.payload is None else slot(control.payload, blobs),
        why=control.why,
        restamp=control.restamp,
        dropped=None if ended is None else len(ended.mailbox) or None,
        abandoned=() if ended is None else tuple(ended.inflight),
    )
    return Decided(record=record, blobs=blobs)


def _impossible(
    state: State, control: ControlInput, action: ControlAction, stamp: Stamp, read: BlobReader
) -> Refusal | None:
    """The reason why the state does not allow the command; None if it does."""
    match action:
        case "retry" | "skip":
            return _retriable(state, control, read)
        case "cancel":
            return _cancelable(state, control.intent)
        case "settle":
            return _settleable(state, control)
        case "end" | "remove":
            return _endable(state, control)
        case "erase":
            return _erasable(state, control.value, read)
        case "unpin":
            return _movable(state, control, read)
        case "clock":
            return _clock_problem(state, stamp)
        case _:
            assert_never(action)


def _authority(state: State, control: ControlInput) -> Refusal | None:
    key = next(
        (operator.key for operator in state.operators if operator.name == control.principal), None
    )
    if key is None:
        return refusal(
            Rule.CONTROL_PRINCIPAL_IS_UNKNOWN,
            f"{quoted(control.principal)} is not an operator of this world: expected "
            + " or ".join(operator.name for operator in state.operators),
        )
    if type(control.serial) is not int or control.serial != state.controls:
        return refusal(
            Rule.CONTROL_SERIAL_IS_WRONG,
            f"control serial: expected {state.controls}, found {describe(control.serial)} "
            "(another command came in meanwhile: look and try again)",
        )
    if not is_signed(control.message(state.world), control.signature, key):
        return refusal(
            Rule.CONTROL_SIGNATURE_IS_WRONG,
            f"the signature is not {control.principal}'s over this command with serial "
            f"{state.controls}",
        )
    if state.manifest is None:
        return refusal(
            Rule.WORLD_HAS_NO_MANIFEST, "this world has no manifest yet (apply one: aos apply PATH)"
        )
    return None


def _shape(control: ControlInput, action: ControlAction) -> Refusal | None:
    """The command has its own fields and nothing else, each well-formed."""
    fields = {
        "cell": control.cell, "intent": control.intent, "value": control.value,
        "status": control.status,
        "payload": control.payload, "why": control.why, "restamp": control.restamp,
    }  # fmt: skip
    if not has_fields_of(action, [name for name, value in fields.items() if value is not None]):
        required_text = " and ".join(needed_fields(action))
        expected = f"{required_text} and nothing else" if required_text else "no field"
        return refusal(Rule.CONTROL_IS_INVALID, f"{action}: expected {expected}")
    for name, hash in (("intent", control.intent), ("value", control.value)):
        if hash is not None and len(hash) != HASH_BYTES:
            return refusal(
                Rule.CONTROL_IS_INVALID, f"{name}: expected a hash of {HASH_BYTES} bytes"
            )
    statuses: tuple[str, ...] = TERMINAL if action == END else SETTLED_STATUSES
    if control.status is not None and control.status not in statuses:
        return refusal(
            Rule.CONTROL_IS_INVALID,
            f"status: expected {' or '.join(statuses)}, found {quoted(control.status)}",
        )
    if control.why is not None and not _is_reason(control.why):
        return refusal(
            Rule.CONTROL_IS_INVALID, f"why: expected 1 to {WHY_BYTES_MAX} bytes of UTF-8"
        )
    return None


def _is_reason(reason: str) -> bool:
    try:
        return 0 < len(reason.encode()) <= WHY_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _cancelable(state: State, intent_hash: Hash | None) -> Refusal | None:
    intent = None if intent_hash is None else state.intents.get(intent_hash)
    if intent is not None and intent.effect.name not in KERNEL_EFFECTS:
        return None
    text = "" if intent_hash is None else hash_text(intent_hash)
    return refusal(Rule.INTENT_IS_NOT_OPEN, f"intent {text} is not open (it may be settled)")


# Settle: the operator states how an effect ended.


def _settleable(state: State, control: ControlInput) -> Refusal | None:
    """K-108."""
    assert control.intent is not None
    assert control.payload is not None
    problem = _cancelable(state, control.intent)
    if problem is not None:
        return problem
    if any(owed.intent == control.intent for owed in state.owed):
        return refusal(
            Rule.INTENT_IS_NOT_OPEN,
            f"intent {hash_text(control.intent)} is ending already, by an earlier record",
        )
    intent = state.intents[control.intent]
    schema = intent.effect.receipt if control.status == "ok" else EFFECT_ERROR
    try:
        schema.from_ingress_value(control.payload, max_bytes=state.effective.limits.event_bytes)
    except ValueProblem as error:
        return refusal(
            Rule.SETTLEMENT_DOES_NOT_FIT,
            f"a receipt of {intent.effect.name} with status {control.status} is a {schema.name}: "
            f"{error}",
        )
    return None


# End and remove: no work of an instance is left.


def _endable(state: State, control: ControlInput) -> Refusal | None:
    """K-109: a command that would change nothing is refused."""
    assert control.cell is not None
    cell, name = state.cells.get(control.cell), control.cell[0]
    if cell is None:
        return refusal(
            Rule.CELL_IS_UNKNOWN,
            f"{name} has no cell with this key: nothing has reached it, or it was deleted",
        )
    if control.action == REMOVE or not cell.is_at_rest or cell.declared != control.status:
        return None
    return refusal(
        Rule.CELL_HAS_ENDED, f"this instance of {name} is {cell.status} already, and has no work"
    )


# Retry: a cell that a fault has failed continues under the manifest in force now.


def _retriable(state: State, control: ControlInput, read: BlobReader) -> Refusal | None:
    assert control.cell is not None
    cell = state.cells.get(control.cell)
    if cell is None or cell.fault is None:
        actual = "there is no such cell" if cell is None else f"its status is {cell.status}"
        return refusal(Rule.CELL_HAS_NOT_FAILED, f"no fault has failed {control.cell[0]}: {actual}")
    is_skip = control.action == SKIP
    if is_skip and not cell.fault.by_entry:
        return refusal(
            Rule.CELL_HAS_NOTHING_TO_SKIP,
            f"{control.cell[0]} failed on no entry of its mailbox but by {cell.fault.kind.value}: "
            "expected retry",
        )
    problem = next(_misfits(state, control.cell, cell, read, skips=is_skip), None)
    if problem is None:
        return None
    return refusal(
        Rule.CELL_DOES_NOT_FIT,
        f"{control.cell[0]} cannot continue under the manifest in force: {problem} "
        "(apply a manifest that takes it, or skip)",
    )


def _misfits(
    state: State, id: CellId, cell: Cell, read: BlobReader, *, skips: bool
) -> Iterator[str]:
    """The parts of the cell that were made for another manifest and do not fit this one."""
    if is_pinned(state, cell):
        return
    workflow = state.effective.workflows.get(id[0])
    if workflow is None:
        yield "it has no such workflow"
        return
    # All parts were checked by the manifest in force when they arrived.
    if cell.fault_seq is not None and cell.fault_seq > state.manifest_seq:
        return
    yield from cell_problems(state.effective, workflow, cell, read, skips=skips)


# Unpin: an instance takes the manifest in force before it is done.


def _movable(state: State, control: ControlInput, read: BlobReader) -> Refusal | None:
    assert control.cell is not None
    cell, name = state.cells.get(control.cell), control.cell[0]
    if cell is None or not is_pinned(state, cell):
        actual = "there is no such cell" if cell is None else "it runs under the manifest in force"
        return refusal(Rule.CELL_IS_NOT_PINNED, f"{name} is not pinned: {actual}")
    workflow = state.effective.workflows.get(name)
    if workflow is None:
        problem: str | None = "that has no such workflow"
    else:
        intents = [state.intents[intent_hash] for intent_hash in cell.inflight]
        problem = next(
            chain(
                cell_problems(state.effective, workflow, cell, read, skips=False),
                open_problems(workflow, intents),
            ),
            None,
        )
    if problem is None:
        return None
    return refusal(
        Rule.CELL_DOES_NOT_FIT, f"{name} cannot continue under the manifest in force: {problem}"
    )


# Clock: the journal clock is set back to the stamp of the command.


def _clock_problem(state: State, stamp: Stamp) -> Refusal | None:
    """K-109b."""
    ahead_ns = state.clock_ns - stamp.ns
    if ahead_ns > CLOCK_AHEAD_NS:
        return None
    tenths = ahead_ns // 10**8
    actual = "behind it or equal" if ahead_ns <= 0 else f"{tenths // 10}.{tenths % 10} s ahead"
    return refusal(
        Rule.CLOCK_IS_NOT_AHEAD,
        f"the journal clock is not ahead of this machine's clock: expected more than "
        f"{CLOCK_AHEAD_NS // 10**9} s, found {actual} (nothing is to be set)",
    )


# Erase: only values that nothing needs any more.


def _erasable(state: State, value: Hash | None, read: BlobReader) -> Refusal | None:
    assert value is not None
    use = next(_uses(state, value, read), None)
    if use is None:
        return None
    return refusal(
        Rule.VALUE_IS_IN_USE,
        f"value {hash_text(value)} is {use} (it can be erased once nothing needs it)",
    )


def _uses(state: State, value: Hash, read: BlobReader) -> Iterator[str]:
    if value in state.pinned:
        yield "a manifest of this world or a module of one"
    mark = state.snapshot
    if mark is not None and any(part == value for part in parts(mark.document, read)):
        yield "a part of the newest snapshot"
    yield from uses_in_state(state, value, read)


def uses_in_state(state: State, value: Hash, read: BlobReader) -> Iterator[str]:
    """The parts of the current state that need a value.

    Raises:
        Damage: The manifest of an open proposal cannot be read.
    """
    for proposal in state.proposals.open.values():
        yield from [use for hash, use in proposal_blobs(proposal, read) if hash == value]
    # Sorted, because the order of cells depends on the layers of memory.
    yield from sorted({_part_of(cell, value) for cell in state.cells.naming(value)})
    yield from sorted(
        {
            f"mail of a cell of {cell.id[0]}"
            for cell in state.cells.active.values()
            for mail in cell.mailbox
            if any(_is(slot, value) for slot in (*_slots(mail), *_hashed(state, cell, mail)))
        }
    )
    for owed in state.owed:
        if owed.settlement is not None and _is(owed.settlement.payload, value):
            yield "the payload of a receipt that the core is about to make"
    for intent in (*state.intents.values(), *state.abandoned.values()):
        if _is(intent.params, value):
            yield f"the params of an intent of {intent.cell[0]}"


def _part_of(cell: Cell, value: Hash) -> str:
    is_state = cell.state is not None and slot_hash(cell.state) == value
    return f"the {'state' if is_state else 'keys'} of a cell of {cell.id[0]}"


def _slots(mail: Mail) -> tuple[Slot, ...]:
    if isinstance(mail, EventMail):
        return (mail.value,)
    if isinstance(mail, ReceiptMail):
        return (mail.receipt.payload, mail.intent.params)
    return (mail.frame.payload,)


def _hashed(state: State, cell: Cell, mail: Mail) -> tuple[Slot, ...]:
    """The values that are read again when the mail is delivered."""
    workflow = workflow_of(state, cell)
    return () if workflow is None else dialect_of(workflow).reads_of(mail)


def _is(slot: Slot | None, value: Hash) -> bool:
    return isinstance(slot, Ref) and slot.hash == value
