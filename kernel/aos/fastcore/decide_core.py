"""Decide by the second kernel: the operations of ``deciding.rs`` as methods.

The core never runs a module. A decision that needs one is a ``Call``: the host runs it and hands
the result to ``ran``. A migration may need a ``Keep``, which ``resume`` continues.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from aos.core.decide.answers import Admitted, Answer, Blocker, Duplicate, Refusal, Rule
from aos.core.journal.governing import GovernanceInput
from aos.core.journal.inputs import (
    AttemptInput,
    ControlInput,
    EventInput,
    Input,
    ManifestInput,
    ReceiptInput,
    SnapshotInput,
    StartInput,
    StreamInput,
)
from aos.core.journal.ports import Call, Keep, Ran, Verify
from aos.core.journal.records import Batch, CellId, Stamp
from aos.core.kernel_protocol import FrameBounds, Redecided
from aos.core.state.eras import ManifestOf
from aos.errors import Damage
from aos.fastcore.buffer import Ask
from aos.fastcore.fold_core import (
    CoreAnswer,
    CoreOperation,
    FoldCore,
    data_bytes,
)
from aos.manifest.effective import Effective
from aos.manifest.judging import judge
from aos.manifest.patch import Patch, PatchInvalid
from aos.manifest.patching import check_patch
from aos.values.digests import Hash
from aos.values.show import describe

T = TypeVar("T")

_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_U32_U32: Final = struct.Struct("<II")
_U64_U64: Final = struct.Struct("<QQ")
_NAT_U32: Final = struct.Struct("<IQI")
_NAT_NAT_U32: Final = struct.Struct("<IQIQI")
_NO_ITEM: Final = _U32.pack(0)
_ONE_ITEM: Final = _U32.pack(1)
_REDECIDED: Final = struct.Struct("<9Q")
_CALL_END: Final = struct.Struct("<QQQ")
"""The numbers of a call."""


_DIGITS_BITS_MAX: Final = 14_000
"""Python writes the digits of a number with at most so many bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDecided:
    """The canonical bytes of the next record, and its blobs. ``enter`` folds it."""

    record: bytes
    blobs: Mapping[Hash, bytes]


Next: TypeAlias = RecordDecided | Duplicate | Refusal | Call | Keep | None
"""The next part of a decision; None if nothing is due."""


class InputsAdmitted(NamedTuple):
    """The answers to the senders of inputs, and the bytes of the core's status."""

    answers: Sequence[Answer]
    status: CoreAnswer


class StepEntered(NamedTuple):
    """The canonical bytes of a step's record, if the step failed its instance; the bytes of the
    core's status, and after them those of the result of ``next`` (``read_ahead``)."""

    failed: bytes | None
    status: CoreAnswer


class DecideCore(FoldCore):
    """A core that decides, too. Every method but ``enter``, ``admit_all``, ``end_step`` and
    ``redecide`` leaves the world as it is."""

    def decide(self, input: Input, stamp: Stamp) -> Next:
        """Begin to decide an input.

        Raises:
            ValueError: A field of the input is none that a message or record can hold, and the
                input breaks no rule before. The encoder of the reference raises then.
        """
        return _next(CoreAnswer(self.ask(CoreOperation.DECIDE, _stamped(input, stamp))))

    def admit_all(
        self, inputs: Sequence[tuple[Input, Stamp]], bounds: FrameBounds
    ) -> InputsAdmitted:
        """Decide inputs one after another, and fold the record of each that has one, until the
        frame is full. Raises as ``decide``."""
        head = _ADMIT.pack(bounds.record_bytes, bounds.blob_bytes, len(inputs))
        request = b"".join([head, *[_stamped(input, stamp) for input, stamp in inputs]])
        answer = CoreAnswer(self.ask(CoreOperation.ADMIT, request))
        return InputsAdmitted([_admitted(answer) for _ in range(answer.u32())], answer)

    def next(self, *, steps: bool = True) -> Next:
        """Decide the first receipt that the core owes, or else, with ``steps``, begin to run the
        ring's head."""
        return _next(CoreAnswer(self.ask(CoreOperation.NEXT, _flag(steps))))

    def ran(self, ran: Ran) -> Next:
        """Continue the decision whose call is over."""
        return _next(CoreAnswer(self.ask(CoreOperation.RAN, b"".join(_ran(ran)))))

    def resume(self) -> Next:
        """Continue the decision whose blobs are durable."""
        return _next(CoreAnswer(self.ask(CoreOperation.KEPT)))

    def end_step(self, ran: Ran) -> StepEntered:
        """End the step whose call is over, and fold its record."""
        answer = CoreAnswer(self.ask(CoreOperation.END_STEP, b"".join(_ran(ran))))
        return StepEntered(answer.option(CoreAnswer.data), answer)

    def redecide(self, records: Sequence[bytes], ran: Ran | None) -> Redecided:
        """Decide recorded records again, or continue after the call of one of them; fold those that
        come out as they were recorded."""
        if ran is None:
            request = [_NO_ITEM, _U32.pack(len(records)), *map(data_bytes, records)]
        else:
            request = [_ONE_ITEM, *_ran(ran)]
        answer = CoreAnswer(self.ask(CoreOperation.REDECIDE, b"".join(request)))
        counts = answer.unpack(_REDECIDED)
        call = _next(answer)
        assert call is None or isinstance(call, Call), "a step needs a call, and nothing else"
        return Redecided._make((*counts, call))

    def enter(self) -> CoreAnswer:
        """Fold the record that was decided last; nothing else came since. Return the status."""
        return CoreAnswer(self.ask(CoreOperation.ENTER))


# Requests


_ADMITTED: Final = 5
_ADMIT: Final = struct.Struct("<QQI")
_ADMITTED_END: Final = struct.Struct("<QQ")

_NAT: Final = _U32.pack(0)
_NO_NAT: Final = _U32.pack(1)
_NOT_UNICODE: Final = _U32.pack(2**32 - 1)


def _nat(number: object) -> bytes:
    if type(number) is int and 0 <= number < 2**64:
        return _NAT + _U64.pack(number)
    words = describe(number)
    is_short = type(number) is int and number.bit_length() <= _DIGITS_BITS_MAX
    digits = str(number) if is_short else words
    return _NO_NAT + data_bytes(digits.encode()) + data_bytes(words.encode())


def _text(text: str) -> bytes:
    try:
        return data_bytes(text.encode())
    except UnicodeEncodeError:
        return _NOT_UNICODE + data_bytes(text.encode("utf-32-le", "surrogatepass"))


def _unicode(text: str) -> bytes:
    """Text of the host itself."""
    return data_bytes(text.encode())


def _cell(cell: CellId) -> bytes:
    return _text(cell[0]) + data_bytes(cell[1])


def _flag(flag: object) -> bytes:
    return _U32.pack(bool(flag))


def _list(items: tuple[T, ...], write: Callable[[T], bytes]) -> bytes:
    return b"".join([_U32.pack(len(items)), *map(write, items)])


def _option(item: T | None, write: Callable[[T], bytes]) -> bytes:
    return _list(() if item is None else (item,), write)


def _batch(batch: Batch) -> bytes:
    return _nat(batch.index) + _nat(batch.size) + _list(batch.path, data_bytes)


def _stamped(input: Input, stamp: Stamp) -> bytes:
    parts = None
    # The inputs that a world gets all the time, by a few calls, if their fields are usual.
    if type(input) is ReceiptInput:
        parts = _usual_receipt(input)
    elif type(input) is EventInput and input.submission_id is None:
        parts = _usual_event(input)
    return b"".join([_U64.pack(stamp.ns), stamp.entropy, *(parts or _input(input))])


def _usual_event(event: EventInput) -> list[bytes] | None:
    try:
        schema = event.schema.encode()
    except UnicodeEncodeError:
        return None
    return [
        _U32_U32.pack(3, len(schema)), schema,
        _U32.pack(len(event.value)), event.value, _NO_ITEM,
    ]  # fmt: skip


def _usual_receipt(receipt: ReceiptInput) -> list[bytes] | None:
    attempt, started_ns, finished_ns = receipt.attempt, receipt.started_ns, receipt.finished_ns
    if not type(attempt) is type(started_ns) is type(finished_ns) is int:
        return None
    intent, payload = receipt.intent, receipt.payload
    key_id, signature = receipt.key_id, receipt.signature
    try:
        effect, status = receipt.effect.encode(), receipt.status.encode()
        executor = receipt.executor.encode()
        return [
            _U32_U32.pack(4, len(intent)), intent, _U32.pack(len(effect)), effect,
            _NAT_U32.pack(0, attempt, len(status)), status, _U32.pack(len(payload)), payload,
            _NAT_NAT_U32.pack(0, started_ns, 0, finished_ns, len(executor)), executor,
            _U32.pack(len(key_id)), key_id, _U32.pack(len(signature)), signature,
            _option(receipt.cost_cents, _nat), _option(receipt.batch, _batch),
        ]  # fmt: skip
    except (UnicodeEncodeError, struct.error):
        return None


def _input(value: Input) -> list[bytes]:
    match value:
        case StartInput():
            pairs = _list(value.host, lambda pair: b"".join(map(_unicode, pair)))
            return [_U32.pack(1), pairs]
        case ManifestInput():
            return [
                _U32.pack(2), data_bytes(value.document), _text(value.principal),
                _nat(value.serial), data_bytes(value.signature), _text(value.mode),
                _list(value.leaves, _text),
                _option(value.proposal, _nat), _option(value.checked, _nat),
                _flag(value.is_recorded),
            ]  # fmt: skip
        case EventInput():
            return [
                _U32.pack(3), _text(value.schema), data_bytes(value.value),
                _option(value.submission_id, _text),
            ]  # fmt: skip
        case ReceiptInput():
            return [
                _U32.pack(4), data_bytes(value.intent), _text(value.effect), _nat(value.attempt),
                _text(value.status), data_bytes(value.payload), _nat(value.started_ns),
                _nat(value.finished_ns), _text(value.executor), data_bytes(value.key_id),
                data_bytes(value.signature), _option(value.cost_cents, _nat),
                _option(value.batch, _batch),
            ]  # fmt: skip
        case StreamInput():
            return [
                _U32.pack(5), data_bytes(value.intent), _text(value.effect), _nat(value.attempt),
                _nat(value.frame_seq), _text(value.frame_kind), data_bytes(value.payload),
                _text(value.executor), data_bytes(value.key_id), data_bytes(value.signature),
                _option(value.payload_ref, data_bytes),
            ]  # fmt: skip
        case AttemptInput():
            return [
                _U32.pack(6), data_bytes(value.intent), _nat(value.attempt), _text(value.phase),
                _option(value.problem, _text), _option(value.code, _text),
            ]  # fmt: skip
        case SnapshotInput():
            return [
                _U32.pack(7), _nat(value.at), data_bytes(value.frame), data_bytes(value.document),
                _nat(value.size),
            ]  # fmt: skip
        case ControlInput():
            return [
                _U32.pack(8), _text(value.action), _text(value.principal), _nat(value.serial),
                data_bytes(value.signature), _option(value.cell, _cell),
                _option(value.intent, data_bytes), _option(value.value, data_bytes),
                _option(value.status, _text),
                _option(value.payload, data_bytes), _option(value.why, _text), _flag(value.restamp),
            ]  # fmt: skip
        case GovernanceInput():
            return [
                _U32.pack(9), _text(value.action), _text(value.principal),
                data_bytes(value.signature), _option(value.proposal, _nat), _option(value.serial,
                _nat),
                _option(value.base, data_bytes), _option(value.document, data_bytes),
                _option(value.patch, data_bytes), _text(value.mode), _list(value.leaves, _text),
                _option(value.report, data_bytes), _option(value.seen, data_bytes),
                _option(value.note, _text),
            ]  # fmt: skip
        case _:
            raise ValueError("a world has one genesis, which makes it")


def _ran(ran: Ran) -> list[bytes]:
    if ran.output is not None:
        size = _U32_U32.pack(1, len(ran.output))
        return [size, ran.output, _U64_U64.pack(ran.fuel, ran.pages)]
    parts = [_NO_ITEM]
    if ran.fault is not None:
        fault = ran.fault
        words = [fault.kind.value, fault.message]
        parts += [*map(_unicode, words), _option(fault.detail, data_bytes)]
    return [*parts, _U64.pack(ran.fuel), _U64.pack(ran.pages)]


# Answers


def read_ahead(answer: CoreAnswer) -> tuple[Next] | None:
    """The result of ``next`` with steps, which the core decided when it ended a step; None if
    ``next`` must ask it."""
    return (_next(answer),) if answer.u32() else None


def _admitted(answer: CoreAnswer) -> Answer:
    if not answer.begins_with(_ADMITTED):
        refused = _next(answer)
        assert isinstance(refused, Answer), "a manifest that migrates is not admitted at once"
        return refused
    outcome: Any  # one of a type of words
    seq = answer.u64()
    to = tuple([answer.cell_id() for _ in range(answer.u32())])
    outcome = answer.option(CoreAnswer.text)
    dropped, abandoned = answer.unpack(_ADMITTED_END)
    return Admitted(seq=seq, to=to, outcome=outcome, dropped=dropped, abandoned=abandoned)


def _next(answer: CoreAnswer) -> Next:
    match answer.u32():
        case 0:
            return RecordDecided(record=answer.data(), blobs=_blobs(answer))
        case 1:
            return Duplicate(seq=answer.u64())
        case 2:
            rule, message = Rule(answer.text()), answer.text()
            blockers = tuple([_blocker(answer) for _ in range(answer.u32())])
            return Refusal(rule=rule, message=message, blockers=blockers)
        case 3:
            module, entrypoint, data = answer.hash(), answer.text(), answer.data()
            fuel, memory_bytes, output_bytes = answer.unpack(_CALL_END)
            return Call(module, entrypoint, data, fuel, memory_bytes, output_bytes)
        case 6:
            return Keep(_blobs(answer))
        case _:
            return None


def _blobs(answer: CoreAnswer) -> dict[Hash, bytes]:
    return _some_blobs(answer, answer.u32())


def _some_blobs(answer: CoreAnswer, count: int) -> dict[Hash, bytes]:
    return {answer.hash(): answer.data() for _ in range(count)}


def _blocker(answer: CoreAnswer) -> Blocker:
    kind = answer.text()
    return Blocker(kind=kind, cell=(answer.text(), answer.data()), detail=answer.text())


# Questions


def reference_answers(verify: Verify, manifest_of: ManifestOf = Effective.from_document) -> Ask:
    """Answer the questions of a core by the reference's functions of bytes. ``manifest_of`` reads
    the manifests of a journal that may be forged."""

    def ask(question: int, request: bytes) -> bytes | None:
        parts = _parts(request)
        match question:
            case 0:
                message, signature, public_key = parts
                return b"" if verify(message, signature, public_key) else None
            case 1:
                return _problem_of(lambda: judge(parts[0]))
            case 3:
                return _problem_of(lambda: manifest_of(parts[0]))
            case _:
                return _problem_of(lambda: _check_patch(*parts))

    return ask


def _parts(request: bytes) -> list[bytes]:
    answer, parts = CoreAnswer(request), []
    while answer.unread_bytes:
        parts.append(answer.data())
    return parts


def _problem_of(check: Callable[[], object]) -> bytes | None:
    try:
        check()
    except (Damage, PatchInvalid) as problem:
        return str(problem).encode(errors="replace")
    return None


def _check_patch(base: bytes, patch: bytes, result: bytes) -> None:
    effective = Effective.from_document
    check_patch(effective(base), Patch.from_document(patch), effective(result))
