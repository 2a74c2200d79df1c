"""Messages of executors: single receipts, batches, stream frames (spec/kernel.md, K-50 to K-94)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, Final

from nacl.signing import SigningKey

from aos.core.decide.answers import Decided, Refusal
from aos.core.decide.settle import admit_receipt, admit_stream
from aos.core.journal.inputs import ReceiptInput, StreamInput
from aos.core.journal.records import Batch, Receipt, Stamp, Stream
from aos.core.journal.signing import is_signed
from aos.core.journal.vocabulary import STATUSES
from aos.core.state.state import State
from aos.values.cbor import Value
from aos.values.digests import Hash, content_hash
from tests.core.decide.test_hostile import INTEGERS, SIZES, SURROGATES, TEXTS, picture
from tests.core.desk import PAY, TIMER, desks, pay, tell, timer
from tests.fuzz.source import Source
from tests.memory_world import MemoryWorld

RUNS: Final = 2_000
TOKENS: Final = (b"\x00\x01", b"\x01\x00", b"\xff\xff\xff\xff", bytes(8))
STRANGER: Final = SigningKey(bytes([9]) * 32)
PAID: Final[Value] = {"ref": "paid"}

Said = ReceiptInput | StreamInput


def target(data: bytes) -> None:
    """Only what an executor signed is admitted, and a refusal leaves the state as it was."""
    world, true = _world()
    source = Source(data)
    given = source.choice(true)
    for _ in range(source.byte() % 4):
        given = _altered(source, given, true)
    if source.byte() % 4 == 3:
        given = _signed_by_a_stranger(given, world.state.world)
    if any(given == each and exactly(given) == exactly(each) for each in true):
        decided = _decided(world, given)
        assert isinstance(decided, Decided)
        assert isinstance(decided.record, Receipt | Stream)
        return
    before, pending = everything(world.state), world.kernel.pending_records
    answer = world.kernel.admit(given, stamp())
    assert isinstance(answer, Refusal), given
    assert answer.message.encode()
    assert everything(world.state) == before
    assert world.kernel.pending_records == pending


def stamp() -> Stamp:
    return Stamp(2 * 10**18, bytes(64))


def exactly(given: object) -> str:
    """To Python ``True == 1``; to us it is another value."""
    return repr(given)


def _decided(world: MemoryWorld, given: Said) -> object:
    """Return the decision of admission without applying it."""
    if isinstance(given, ReceiptInput):
        return admit_receipt(world.state, given, stamp(), world.kernel.read, verify=is_signed)
    return admit_stream(world.state, given, stamp(), verify=is_signed)


@cache
def _world() -> tuple[MemoryWorld, tuple[Said, ...]]:
    """A world that waits for two payments and a timer, and all true words on how they go."""
    world = desks(limits={"world": {"event_bytes": 4096}})
    tell(world, "a", pay("one", 1), pay("two", 2), timer(world, "three"))
    one, two, three = world.open()
    payload: Value = {"delivered_at_ns": 2 * 10**18, "key": None}
    alone = [world.receipt(one, PAID), world.receipt(two, PAID), world.receipt(three, payload)]
    alone += [world.receipt(one, PAID, status=status) for status in STATUSES[1:]]
    frames = [world.frame_of(one, 4), world.frame_of(two, 9, payload_ref=content_hash(b"x"))]
    return world, (*alone, *world.batch(alone[:3]), *frames)


_OTHER: Final[Mapping[str, tuple[Any, ...]]] = {
    "intent": (Hash(bytes(32)), content_hash(b"x"), b"", bytes(33)),
    "effect": (PAY, TIMER, *TEXTS, *SURROGATES),
    "attempt": (*INTEGERS, True, False, None),
    "status": (*STATUSES, *TEXTS, *SURROGATES),
    "payload": (b"", b"\xa0", b"\xf6", bytes(4097), b"\xff"),
    "started_ns": (*INTEGERS, True),
    "finished_ns": (*INTEGERS, True),
    "executor": ("node", "test", *TEXTS, *SURROGATES),
    "key_id": (bytes(STRANGER.verify_key), *(bytes(size) for size in SIZES)),
    "signature": tuple(bytes(size) for size in SIZES),
    "cost_cents": (*INTEGERS, True, None),
    "frame_seq": (*INTEGERS, True),
    "frame_kind": (*TEXTS, *SURROGATES),
    "payload_ref": (None, Hash(bytes(32)), b"", bytes(33)),
}


def _altered(source: Source, given: Said, true: tuple[Said, ...]) -> Said:
    """One field from another true word, from the list of what hurts, or with bits flipped."""
    name = source.choice([each.name for each in fields(given)])
    other = source.choice(true)
    value = getattr(given, name)
    match source.byte() % 3:
        case 0 if hasattr(other, name):
            value = getattr(other, name)
        case 1 if name in _OTHER:
            value = source.choice(_OTHER[name])
        case _ if isinstance(value, bytes) and value:
            flipped = bytearray(value)
            flipped[source.number(2) % len(flipped)] ^= source.byte()
            value = bytes(flipped)
        case _ if isinstance(value, int) and not isinstance(value, bool):
            value += source.byte() - 128
        case _ if name == "batch":
            value = _batch(source, value)
    return replace(given, **{name: value})


def _batch(source: Source, value: Batch | None) -> Batch:
    found = Batch(index=0, size=1, path=()) if value is None else value
    path = list(found.path)
    match source.byte() % 5:
        case 0:
            path.append(Hash(source.bytes(32).ljust(32, b"\0")))
        case 1:
            path = path[1:]
        case 2:
            path.reverse()
        case _:
            pass
    numbers = (0, 1, 2, 3, 65_536, 2**63, -1)
    return Batch(
        index=source.choice((found.index, *numbers)),
        size=source.choice((found.size, *numbers)),
        path=tuple(path),
    )


def _signed_by_a_stranger(given: Said, world: Hash) -> Said:
    """A good signature, of a key that may not sign."""
    try:
        message = given.signed_message(world)
    except (TypeError, OverflowError, AssertionError):
        return given  # cannot be encoded, so no one can sign it
    if message is None:
        return given
    return replace(given, signature=STRANGER.sign(message).signature)


def everything(state: State) -> list[Any]:
    """All that a refusal must leave alone."""
    rest = ("controls", "revoked", "pinned", "owed", "attempts", "streams", "operators")
    return [picture(state), *(repr(getattr(state, name)) for name in rest)]


def seeds() -> Iterator[bytes]:
    _, true = _world()
    for number in range(len(true)):
        yield bytes([number])
        for field in range(len(fields(true[number]))):
            yield bytes([number, 1, field, 0, 0])
            yield bytes([number, 1, field, 1, 1, 3])
            yield bytes([number, 1, field, 1, 2, 0, 1, 4])
            yield bytes([number, 2, field, 1, 1, 3, field + 1, 2, 0, 7, 0, 0, 3])
