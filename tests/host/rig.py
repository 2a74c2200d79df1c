"""A small world for the host: a counter and an asker, on disk or in memory, and a store that fails.

t/counter@1   t/Add@1 {key, by}: adds up, one cell for each key
t/asker@1     t/Ask@1 {key, word}: asks for t/echo@1 and keeps the word that comes back
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from aos.core.decide.answers import Admitted, Answer
from aos.core.journal.frame import NO_FRAME, Frame, Head
from aos.core.journal.inputs import EventInput, GenesisInput, Input, ManifestInput, ReceiptInput
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Record
from aos.core.kernel import genesis, world_state
from aos.core.limits import LIMITS, Limits
from aos.core.pending import Sealed
from aos.core.state.cell import OpenIntent
from aos.core.state.state import State
from aos.errors import AosError
from aos.host.stamps import Sources
from aos.host.world.engine import Engine
from aos.host.world.inbox import Bounds
from aos.host.world.restored_world import restored_world
from aos.host.world.unit import Published
from aos.manifest.load import Loaded
from aos.store.memory_store import MemoryStore
from aos.store.store import NO_NOTES, Store
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash, derive
from tests.memory_world import (
    OPERATOR,
    OPERATOR_KEY,
    START_NS,
    WORLD_KEY,
    Envelope,
    MemoryWorld,
    Module,
    PythonRunner,
    air,
    ask,
    cbor,
    effect,
    event_of,
    route,
    schema,
    state_of,
    workflow,
)

COUNTER, ASKER = "t/counter@1", "t/asker@1"
ADD, ASK, ECHO = "t/Add@1", "t/Ask@1", "t/echo@1"
TIMEOUT_S = 60.0

NODES: list[Mapping[str, object]] = [
    schema(ADD, {"record": {"key": {"text": {}}, "by": {"int": {}}}}),
    schema("t/Sum@1", {"int": {}}),
    schema("t/Key@1", {"text": {}}),
    workflow(COUNTER, state="t/Sum@1", event=ADD, key_schema="t/Key@1"),
    schema(ASK, {"record": {"key": {"text": {}}, "word": {"text": {}}}}),
    schema("t/Word@1", {"record": {"word": {"text": {}}}}),
    schema("t/Heard@1", {"list": {"text": {}}}),
    schema(
        "t/AskerEvent@1",
        {"variant": {"Ask": {"ref": ASK}, "Settled": {"ref": "sys/EffectReceiptEnvelope@1"}}},
    ),
    effect(ECHO, "t/Word@1", "t/Word@1"),
    workflow(
        ASKER, state="t/Heard@1", event="t/AskerEvent@1", effects=[ECHO], key_schema="t/Key@1"
    ),
]
ROUTES: list[Mapping[str, object]] = [route(ADD, COUNTER, "key"), route(ASK, ASKER, "key")]


def count(envelope: Envelope) -> Any:
    return {"state": cbor((state_of(envelope) or 0) + event_of(envelope)["by"])}


def listen(envelope: Envelope) -> Any:
    event, heard = event_of(envelope), state_of(envelope) or []
    value = event["$value"]
    if event["$tag"] == "Ask":
        return {"state": cbor(heard), "effects": [ask(ECHO, {"word": value["word"]})]}
    return {"state": cbor([*heard, value["status"]])}


MODULES: Mapping[str, Module] = {COUNTER: count, ASKER: listen}


def loaded(version: int = 1) -> Loaded:
    return air(NODES, ROUTES, version=version)


def seeded(seed: str = "seed") -> Sources:
    """A clock that advances by one microsecond at each reading, and chance from a seed."""
    looks = iter(range(1, 1 << 30))
    draws = iter(range(1 << 30))
    return Sources(
        clock_ns=lambda: START_NS + 1_000 * next(looks),
        random=lambda size: derive("aos test", f"{seed} {next(draws)}".encode(), size),
    )


def new_store() -> MemoryStore:
    """A store with the genesis of a world whose keys are those of the memory world."""
    store = MemoryStore()
    begin(store)
    return store


def begin(store: Store) -> None:
    message = GenesisInput.message(b"n" * 32, bytes(WORLD_KEY.verify_key), (OPERATOR,))
    given = GenesisInput(
        nonce=b"n" * 32,
        world_key=bytes(WORLD_KEY.verify_key),
        operators=(OPERATOR,),
        signature=WORLD_KEY.sign(message).signature,
    )
    sources = seeded("genesis")
    sealed = genesis(given, sources.stamp(), sources.salt())
    store.append([sealed], Head.of(sealed.tip).signed(WORLD_KEY), expected=NO_FRAME)


class FaultyStore:
    """A store whose next appends fail or wait, as a test says; everything else passes through."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.failures: list[Exception] = []
        self.groups: list[tuple[Frame, ...]] = []
        self.attempts: list[tuple[Hash, ...]] = []
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def append(
        self,
        group: Sequence[Sealed],
        head: Head,
        *,
        expected: Hash,
        notes: Mapping[int, str] = NO_NOTES,
    ) -> None:
        self.entered.set()
        assert self.gate.wait(TIMEOUT_S), "the test never opened the gate"
        self.attempts.append(tuple(entry.frame.hash for entry in group))
        try:
            failure = self.failures.pop(0)
        except IndexError:  # there is none; a test may remove them meanwhile
            self.store.append(group, head, expected=expected, notes=notes)
            self.groups.append(tuple(entry.frame for entry in group))
        else:
            raise failure

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@dataclass
class Rig:
    """An engine on a store, and a record of everything that it published."""

    store: FaultyStore = field(default_factory=lambda: FaultyStore(new_store()))
    modules: Mapping[str, Module] = field(default_factory=lambda: MODULES)
    runs: bool = True
    limits: Limits = LIMITS
    bounds: Bounds | None = None
    sources: Sources = field(default_factory=seeded)
    loaded: Loaded = field(default_factory=loaded)
    published: list[Published] = field(default_factory=list)
    stopped: list[AosError] = field(default_factory=list)
    told: threading.Condition = field(default_factory=threading.Condition)
    listeners: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        world = restored_world(cast(Store, self.store), self.world, limits=self.limits)
        self.state: State = world_state(world.kernel)
        self.runner = PythonRunner(MemoryWorld.by_hash(self.loaded, self.modules))
        self.engine = Engine(
            world,
            store=self.store,
            key=WORLD_KEY,
            runner=self.runner if self.runs else None,
            host={"kernel": "test"},
            sources=self.sources,
            bounds=self.bounds,
            on_published=self._publish,
            on_stopped=self.stopped.append,
        )

    def _publish(self, published: Published) -> None:
        with self.told:
            self.published.append(published)
            self.told.notify_all()
        for each in self.listeners:
            each()

    @contextmanager
    def on_each_publish(self, call: Callable[[], object]) -> Iterator[None]:
        """Call this on the committer's thread whenever something was published."""
        self.listeners.append(call)
        try:
            yield
        finally:
            self.listeners.remove(call)

    @property
    def world(self) -> Hash:
        head: Head = self.store.head()
        return head.world

    def submit(
        self, *inputs: Input, blobs: Mapping[Hash, bytes] | None = None
    ) -> Future[list[Answer]]:
        return self.engine.submit(inputs, blobs=blobs)

    def ask(self, *inputs: Input, blobs: Mapping[Hash, bytes] | None = None) -> list[Answer]:
        return self.submit(*inputs, blobs=blobs).result(TIMEOUT_S)

    def apply(self, given: Loaded | None = None) -> Answer:
        found = given or self.loaded
        command = sign(found, self.world, self.engine.stats().figures.serial)
        return self.ask(command, blobs=found.modules)[0]

    def quiet(self) -> None:
        assert self.engine.wait_quiet(TIMEOUT_S)

    def opened(self, count: int) -> list[OpenIntent]:
        """Wait until so many effects were published; return all of them."""

        def found() -> list[OpenIntent]:
            return [intent for group in self.published for intent in group.opened_intents]

        with self.told:
            assert self.told.wait_for(lambda: len(found()) >= count, TIMEOUT_S)
            return found()

    def records(self) -> list[Record]:
        return [from_bytes(data) for frame in self.store.frames() for data in frame.records]

    def kinds(self) -> list[str]:
        return [record.KIND for record in self.records()]


@contextmanager
def running(rig: Rig | None = None, *, applied: bool = True, **more: Any) -> Iterator[Rig]:
    """A rig whose engine runs, with the manifest in force; stopped at the end."""
    found = rig or Rig(**more)
    found.engine.start()
    try:
        if applied:
            assert isinstance(found.apply(), Admitted)
        yield found
    finally:
        found.store.gate.set()
        try:
            found.engine.stop()
        except AosError:
            assert found.stopped, "an engine that stops by itself says so"


def add(key: str, by: int = 1, submission_id: str | None = None) -> EventInput:
    value: Value = {"key": key, "by": by}
    return EventInput(schema=ADD, value=encode(value), submission_id=submission_id)


def asking(key: str, word: str = "hello") -> EventInput:
    return EventInput(schema=ASK, value=encode({"key": key, "word": word}))


def counter(key: str) -> CellId:
    return COUNTER, encode(key)


def sign(given: Loaded, world: Hash, serial: int) -> ManifestInput:
    document = given.effective.document
    message = ManifestInput.message(world, serial, content_hash(document))
    return ManifestInput(
        document=document,
        principal=OPERATOR.name,
        serial=serial,
        signature=OPERATOR_KEY.sign(message).signature,
    )


def receipt(
    world: Hash, intent: OpenIntent, word: str = "hello", *, at_ns: int = START_NS
) -> ReceiptInput:
    from dataclasses import replace

    unsigned = ReceiptInput(
        intent=intent.intent,
        effect=intent.effect.name,
        attempt=1,
        status="ok",
        payload=encode({"word": word}),
        started_ns=at_ns,
        finished_ns=at_ns,
        executor="node",
        key_id=bytes(WORLD_KEY.verify_key),
        signature=b"",
    )
    return replace(unsigned, signature=WORLD_KEY.sign(unsigned.message(world)).signature)


def eventually(is_so: Callable[[], bool], what: str) -> None:
    """Wait for something that another thread is about to do."""
    pause = threading.Event()
    for _ in range(int(TIMEOUT_S / 0.005)):
        if is_so():
            return
        pause.wait(0.005)
    raise AssertionError(f"never: {what}")
