"""A stage for executors: a manifest of effects, tasks for them, a journal that takes outcomes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple

from aos.core.decide.answers import Answer
from aos.core.journal.inputs import AttemptInput
from aos.host.executors.task import Halted, Lost, OnAnswer, Task, TaskExecutor, WorkItem
from aos.manifest.effective import Effective
from aos.manifest.load import load
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, content_hash, hash_text
from aos.worker.outcome import Outcome, StreamFrame
from tests import answers
from tests.answers import SETTLED, TAKEN

WORLD: Final = content_hash(b"a world")

ANY: Final[dict[str, Any]] = {"record": {"n": {"option": {"int": {}}}}}
"""Params and receipt of the usual test effect: one number, or none."""

RETRY: Final[dict[str, Any]] = {"retry": {"attempts": 3, "base_ms": 1, "cap_ms": 2}}

PRESENT: Final[dict[str, dict[str, Any]]] = {
    "test/echo@1": {},
    "test/other@1": {},
    "test/retried@1": RETRY,
    "test/quick@1": {"timeout_ms": 1000},
    "test/quick-retried@1": {"timeout_ms": 1000, **RETRY},
    "test/once@1": {"delivery": "at_most_once"},
    "test/laned@1": {"lane": ["n"]},
    "test/set@1": {"receipt": {"record": {"tags": {"set": {"text": {}}}, "raw": {"bytes": {}}}}},
}
"""Effect -> what differs from the usual."""


@cache
def effective(*, executors: str = "") -> Effective:
    """The manifest of these tests. ``executors`` is its list of executors as JSON."""
    nodes: list[dict[str, Any]] = []
    for name, extra in PRESENT.items():
        stem = name.removesuffix("@1")
        given = dict(extra)
        for part in ("params", "receipt"):
            type_ = given.pop(part, ANY)
            nodes.append({"$kind": "defschema", "name": f"{stem}-{part}@1", "type": type_})
        nodes.append(
            {
                "$kind": "defeffect",
                "name": name,
                "params": f"{stem}-params@1",
                "receipt": f"{stem}-receipt@1",
                "impl": {"executor": "test"},
                **given,
            }
        )
    manifest: dict[str, Any] = {
        "$kind": "manifest",
        "air_version": "2",
        "schemas": [],
        "modules": [],
        "workflows": [],
        "effects": [
            *({"name": name} for name in PRESENT),
            *({"name": f"sys/{each}@1"} for each in (*SYSTEM, "effect.cancel")),
        ],
        "limits": {"world": {"event_bytes": 300_000}},
    }
    if executors:
        manifest["executors"] = json.loads(executors)
    return load({"air/all.air.json": json.dumps([*nodes, manifest]).encode()}).effective


SYSTEM: Final = ("timer.set", "blob.put", "blob.get", "http.request")


def intent_of(number: int) -> Hash:
    return content_hash(b"intent %d" % number)


def task(
    number: int = 1,
    effect: str = "test/echo@1",
    params: Any = None,
    *,
    cell_key: bytes = b"",
    attempt: int = 1,
) -> Task:
    found = effective().effects[effect]
    if params is None:
        params = {"n": number}
    intent = intent_of(number)
    return Task(
        intent=intent,
        effect=found,
        params=encode(found.params.normalise(params)),
        idempotency_key=hash_text(intent),
        workflow="test/flow@1",
        cell_key=cell_key,
        issuer_ref="ref",
        opened_seq=number,
        opened_ns=1_000,
        attempt=attempt,
    )


class Attempt(NamedTuple):
    """An attempt that an executor asked the journal to record."""

    phase: str
    intent: Hash
    number: int
    problem: str | None


@dataclass
class Journal:
    """Takes outcomes as a world would; ``answer`` says what it thinks of one."""

    answer: Callable[[Outcome], Awaitable[Answer]] | None = None
    attempt: Callable[[Attempt], Awaitable[Answer]] | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    lines: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    halts: list[tuple[Hash, int, Halted]] = field(default_factory=list)
    frames: list[StreamFrame] = field(default_factory=list)
    frame_answer: Answer | Lost = TAKEN

    def submit(self, item: WorkItem, on_answer: OnAnswer) -> None:
        """Answer a frame at once, and anything else later, as a journal does."""
        if isinstance(item, StreamFrame):
            self.frames.append(item)
            self.changed.set()
            on_answer(self.frame_answer)
        else:
            answers.pass_on(self._answer(item), on_answer)

    async def _answer(self, item: Outcome | AttemptInput) -> Answer:
        match item:
            case Outcome():
                return await self._settle(item)
            case AttemptInput(phase="held" | "parked" as phase):
                why = Halted(phase, item.code or "", item.problem or "")
                self.halts.append((item.intent, item.attempt, why))
                self.changed.set()
                return TAKEN
        return await self._journal(Attempt(item.phase, item.intent, item.attempt, item.problem))

    async def _journal(self, attempt: Attempt) -> Answer:
        answer = TAKEN if self.attempt is None else await self.attempt(attempt)
        self.attempts.append(attempt)
        self.changed.set()
        return answer

    async def _settle(self, outcome: Outcome) -> Answer:
        answer = SETTLED if self.answer is None else await self.answer(outcome)
        self.outcomes.append(outcome)
        self.changed.set()
        return answer

    def report(self, text: str) -> None:
        self.lines.extend(text.split("\n"))
        self.changed.set()

    @property
    def printed(self) -> str:
        return "\n".join(self.lines)

    async def until(self, holds: Callable[[], bool], *, within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    async def wait(self, count: int, *, within_s: float = 60.0) -> list[Outcome]:
        """The first ``count`` outcomes, in the order of their intents' numbers."""
        try:
            await self.until(lambda: len(self.outcomes) >= count, within_s=within_s)
        except TimeoutError:
            text = f"{len(self.outcomes)} of {count} outcomes came; printed:\n{self.printed}"
            raise AssertionError(text) from None
        return self.outcomes

    def of(self, number: int) -> Outcome:
        return next(each for each in self.outcomes if each.intent == intent_of(number))


def payload(outcome: Outcome) -> Any:
    return decode_record(outcome.payload)


def error_code(outcome: Outcome) -> str:
    return str(payload(outcome)["code"])


def act(
    make: Callable[[Journal], TaskExecutor],
    play: Callable[[Any, Journal], Awaitable[None]],
    *,
    answer: Callable[[Outcome], Awaitable[Answer]] | None = None,
    attempt: Callable[[Attempt], Awaitable[Answer]] | None = None,
    manifest: Effective | None = None,
) -> Journal:
    """Start an executor, play a scene with it, stop it."""

    async def scene() -> Journal:
        journal = Journal(answer, attempt)
        executor = make(journal)
        try:
            await executor.start(journal)
            executor.use(manifest or effective())
            await play(executor, journal)
        finally:
            await executor.stop()
        return journal

    return asyncio.run(scene())


class Clock:
    """A wall clock that the test moves."""

    def __init__(self, ns: int | None = None) -> None:
        self.ns = time.time_ns() if ns is None else ns

    def __call__(self) -> int:
        return self.ns


def store_of(blobs: Mapping[Hash, bytes]) -> Callable[[Hash], bytes]:
    """A store's reader over a dict."""
    from aos.errors import Damage

    def read(hash: Hash, /) -> bytes:
        try:
            return blobs[hash]
        except KeyError:
            raise Damage(f"blob {hash_text(hash)} is missing") from None

    return read
