"""The process of an owner in plain lists: it admits, steps and commits on one thread. It publishes
nothing before it counts, as ``aos.host.world.engine`` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aos.core.decide.answers import Admitted, Answer, Decided, admission
from aos.core.journal.frame import Head
from aos.core.journal.inputs import (
    AttemptInput,
    ControlInput,
    EventInput,
    GenesisInput,
    Input,
    ManifestInput,
    ReceiptInput,
    StartInput,
)
from aos.core.journal.records import Stamp
from aos.core.kernel import genesis
from aos.core.kernel_protocol import step
from aos.core.pending import Sealed
from aos.core.state.cell import OpenIntent
from aos.host.cluster.following import open_world
from aos.host.world.restored_world import RestoredWorld
from aos.store.log.log import Log
from aos.store.log.logged_store import LoggedStore
from aos.store.rows import SnapshotRow
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash
from tests.core.desk import ARMS, DESK, desk, nodes
from tests.memory_world import OPERATOR, OPERATOR_KEY, START_NS, WORLD_KEY, PythonRunner, air, route

LOADED: Final = air(nodes(ARMS), [route("t/Tell@1", DESK, "key")])
MODULE: Final = LOADED.effective.workflows[DESK].module.hash
RUNNER: Final = PythonRunner({MODULE: desk})
PART_BYTES: Final = 2000


@dataclass
class Chance:
    """Stamps and salts. ``now_ns`` is the wall clock of the machine."""

    draw: Callable[[int], bytes]
    now_ns: int = START_NS

    def stamp(self) -> Stamp:
        self.now_ns += 1000
        return Stamp(self.now_ns, self.draw(64))


def counting_draws(seed: str) -> Callable[[int], bytes]:
    """Bytes in place of random ones: equal for an equal seed."""
    count = 0

    def draw(size: int) -> bytes:
        nonlocal count
        count += 1
        return (content_hash(f"{seed} {count}".encode()) * 3)[:size]

    return draw


def genesis_of_world(draw: Callable[[int], bytes]) -> Sealed:
    """The frame with which the world begins."""
    public = bytes(WORLD_KEY.verify_key)
    message = GenesisInput.message(b"n" * 32, public, (OPERATOR,))
    input = GenesisInput(
        nonce=b"n" * 32, world_key=public, operators=(OPERATOR,),
        signature=WORLD_KEY.sign(message).signature,
    )  # fmt: skip
    return genesis(input, Stamp(START_NS, draw(64)), draw(32))


GENESIS: Final = genesis_of_world(counting_draws("genesis"))
WORLD: Final = GENESIS.tip.world


def begin(store: LoggedStore, log: Log, stream: str) -> RestoredWorld:
    """Make the world: its genesis is the first entry of the log."""
    store.begin(stream)
    world = open_world(store, WORLD)
    store.connect(log, stream=stream, tip=world.tip, key=WORLD_KEY, part_bytes=PART_BYTES)
    head = Head.of(GENESIS.tip).signed(WORLD_KEY)
    store.append([GENESIS], head, expected=GENESIS.frame.header.prev)
    world.thread.close()
    return open_world(store, WORLD)


@dataclass
class OwnerProcess:
    """Owns ``world``, whose store is connected. ``waiting`` are sealed frames that do not count
    yet, each with its answers; ``committing`` those of which it is unknown."""

    world: RestoredWorld
    store: LoggedStore
    chance: Chance
    waiting: list[tuple[Sealed, list[tuple[Input, Answer]]]] = field(default_factory=list)
    committing: list[tuple[Sealed, list[tuple[Input, Answer]]]] = field(default_factory=list)
    answers: list[tuple[Input, Answer]] = field(default_factory=list)
    blobs: dict[Hash, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.follows = self.world.tip.frame

    def admit(self, input: Input, blobs: Mapping[Hash, bytes] | None = None) -> Answer:
        """Admit one input. The answer may be told once ``commit`` returns it."""
        answer = self.world.thread.call(lambda: self._admit(input, blobs or {}))
        self.answers.append((input, answer))
        return answer

    def _admit(self, input: Input, blobs: Mapping[Hash, bytes]) -> Answer:
        kernel, overlay = self.world.kernel, self.world.blobs
        lent = overlay.lend(blobs)
        decision = kernel.decide(input, self.chance.stamp())
        if not isinstance(decision, Decided):
            assert isinstance(decision, Answer)
            overlay.take_back(lent)
            return decision
        kernel.enter(decision)
        answer = admission(decision.record)
        if blobs:
            self.blobs.update(blobs)
            overlay.hold(blobs, until=answer.seq)
        if isinstance(input, ControlInput) and input.value is not None:
            self.blobs.pop(input.value, None)
            overlay.erase(input.value, by=answer.seq)
        return answer

    def start(self) -> None:
        self.admit(StartInput(host=(("kernel", "test"),)))

    def apply(self, *, brings_module: bool = True) -> Answer:
        return self.admit(signed_manifest(), LOADED.modules if brings_module else {})

    def tell(self, key: str, *asks: Value, note: str = "", submission: str | None = None) -> Answer:
        value = encode({"key": key, "asks": list(asks), "note": note})
        return self.admit(EventInput(schema="t/Tell@1", value=value, submission_id=submission))

    def erase(self, value: Hash) -> Answer:
        return self.admit(signed_erasure(value, self._controls()))

    def _controls(self) -> int:
        return self.world.thread.call(lambda: self.world.kernel.figures().controls)

    def receipt(self, intent: OpenIntent, payload: Value, *, attempt: int = 1) -> ReceiptInput:
        return signed_receipt(intent, payload, attempt=attempt, now_ns=self.chance.now_ns)

    def attempt(self, intent: Hash, number: int) -> Answer:
        return self.admit(AttemptInput(intent=intent, attempt=number))

    def run(self, most: int = 100) -> None:
        """Run ready cells, then seal."""
        self.world.thread.call(lambda: self._run(most))
        self.seal()

    def _run(self, most: int) -> None:
        for _ in range(most):
            if step(self.world.kernel, RUNNER) is None:
                return

    def seal(self) -> None:
        """End the frame in hand."""
        sealed = self.world.thread.call(lambda: self.world.kernel.seal(self.chance.draw(32)))
        if sealed is None:
            return
        sealed = replace(sealed, blobs={**sealed.blobs, **self.blobs})
        self.world.blobs.hold(sealed.blobs, until=sealed.tip.seq)
        self.waiting.append((sealed, self.answers))
        self.answers, self.blobs = [], {}

    def commit(self) -> list[tuple[Sealed, list[tuple[Input, Answer]]]]:
        """Make all waiting frames count, in one entry, or, after an exception, the same frames
        again; return them with their answers. Raises as ``LoggedStore.append``."""
        if not self.committing:
            self.committing, self.waiting = self.waiting, []
        if not self.committing:
            return []
        group = [sealed for sealed, _ in self.committing]
        head = Head.of(group[-1].tip).signed(WORLD_KEY)
        self.store.append(group, head, expected=self.follows, notes={group[0].tip.seq: "words"})
        self.follows = head.frame
        counted, self.committing = self.committing, []
        for sealed in group:
            self.world.blobs.drop(sealed.blobs, durable=sealed.tip.seq)
        return counted

    def write(self) -> Sequence[Any]:
        """Run, seal, commit."""
        self.run()
        return self.commit()

    def snapshot(self) -> SnapshotRow:
        """Take a snapshot, announce it, and continue from it."""
        blobs: dict[Hash, bytes] = {}

        def put(data: bytes) -> Hash:
            blobs[content_hash(data)] = data
            return content_hash(data)

        kernel = self.world.kernel
        input = self.world.thread.call(lambda: kernel.snapshot(put))
        new = {hash: data for hash, data in blobs.items() if not self.store.has_blob(hash)}
        if new:
            self.store.put_blobs(new)
        answer = self.admit(input)
        assert isinstance(answer, Admitted), answer
        self.seal()
        self.commit()
        self.world.thread.call(lambda: kernel.rebase(input.document))
        row = self.store.snapshot_before()
        assert row is not None
        return row


def signed_manifest() -> ManifestInput:
    """The manifest of the world, as its operator applies it first."""
    document = LOADED.effective.document
    message = ManifestInput.message(WORLD, 0, content_hash(document))
    return ManifestInput(
        document=document, principal=OPERATOR.name, serial=0,
        signature=OPERATOR_KEY.sign(message).signature,
    )  # fmt: skip


def signed_receipt(
    intent: OpenIntent, payload: Value, *, attempt: int = 1, now_ns: int = START_NS
) -> ReceiptInput:
    """A receipt that the key of the world signs."""
    unsigned = ReceiptInput(
        intent=intent.intent, effect=intent.effect.name, attempt=attempt, status="ok",
        payload=encode(payload), started_ns=now_ns, finished_ns=now_ns, executor="node",
        key_id=bytes(WORLD_KEY.verify_key), signature=b"",
    )  # fmt: skip
    return replace(unsigned, signature=WORLD_KEY.sign(unsigned.message(WORLD)).signature)


def signed_erasure(value: Hash, serial: int) -> ControlInput:
    """The operator's command to erase a value."""
    unsigned = ControlInput(
        action="erase", principal=OPERATOR.name, serial=serial, signature=b"", value=value
    )
    return replace(unsigned, signature=OPERATOR_KEY.sign(unsigned.message(WORLD)).signature)
