"""A world in one thread, each of whose turns is one frame and one commit, timed by stage.

Real modules in the real sandbox and a real store; no event loop, no executor and no socket: so
figures of a turn are comparable also on a machine that has other work.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import NO_FRAME, Head
from aos.core.journal.inputs import EventInput, ReceiptInput
from aos.core.journal.ports import Call, Ran
from aos.core.journal.records import Faulted, slot_bytes
from aos.core.kernel_protocol import step
from aos.core.pending import Sealed
from aos.core.state.cell import OpenIntent
from aos.sandbox.cache import ModuleCache
from aos.sandbox.engine import Sandbox
from aos.store.lmdb_store import LmdbStore
from aos.values.cbor import Value, decode_record, encode
from benchmarks.changed_manifest import changed_manifest
from benchmarks.kernel import make_kernel, stamp

STAGES: Final = ("admit", "step", "sandbox", "seal", "commit")
"""Of a turn, in this order; ``sandbox`` is a part of ``step``."""

WHOLE: Final = ("admit", "step", "seal", "commit")

Payload: TypeAlias = Callable[[Any], Value]
"""The params of an effect -> the value of its receipt."""


class Turn:
    """Nanoseconds of one turn, by stage: of the clock, and of this thread's processor time."""

    def __init__(self) -> None:
        self.clock = dict.fromkeys(STAGES, 0)
        self.processor = dict.fromkeys(STAGES, 0)
        self.calls: list[Call] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        clock, processor = time.perf_counter_ns(), time.thread_time_ns()
        yield
        self.processor[name] += time.thread_time_ns() - processor
        self.clock[name] += time.perf_counter_ns() - clock

    @property
    def clock_us(self) -> float:
        """The whole turn by the clock."""
        return sum(self.clock[name] for name in WHOLE) / 1_000

    @property
    def processor_us(self) -> float:
        """Processor time of the whole turn."""
        return sum(self.processor[name] for name in WHOLE) / 1_000


def step_of(params: Any) -> Value:
    """The receipt of the effects in the worlds of this folder: the step that they are for."""
    return {"step": params["step"]}


class BenchWorld:
    """While the block runs; the store is in a new folder. Only guests on a big stack (see
    ``run_on_big_stack``). ``has_deltas``: without, every state is stored whole."""

    def __init__(self, folder: Path, manifest: Path, *, has_deltas: bool = True) -> None:
        loaded = changed_manifest(manifest, is_open=True)
        self.store = LmdbStore.create(folder)
        self.store.put_blobs(loaded.modules)
        # Next to the store, so that the worlds of one measurement compile each module once.
        self._sandbox = Sandbox(self.store.blob, cache=ModuleCache(folder.parent / "compiled"))
        self._has_deltas = has_deltas
        self._turn = Turn()
        self._key = SigningKey.generate()
        self._follows = NO_FRAME
        self._kernel, first = make_kernel(loaded, self.store.blob, self._key)
        self._commit(first)
        self._commit(self._kernel.seal(os.urandom(32)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sandbox.close()
        self.store.close()

    def run(self, call: Call) -> Ran:
        """Run a module for the kernel."""
        self._turn.calls.append(call)
        with self._turn.stage("sandbox"):
            return self._sandbox.run(call)

    def send(self, schema: str, value: Value) -> Turn:
        """Send an event, and run until nothing is ready."""
        return self._take(EventInput(schema=schema, value=encode(value)))

    def answer(self, workflow: str, key: str, payload: Payload = step_of) -> Turn:
        """Answer the oldest open effect of a cell, and run until nothing is ready.

        Raises:
            LookupError: Nothing is open there.
        """
        cell = workflow, encode(key)
        intents = (work.intent for work in self._kernel.open_intents() if work.intent.cell == cell)
        intent = next(intents, None)
        if intent is None:
            raise LookupError(f"{workflow} {key}: expected an open effect, found none")
        return self._take(self._receipt(intent, payload))

    def state(self, workflow: str, key: str) -> Any:
        """Return the state of a cell as plain values."""
        cell = self._kernel.cell((workflow, encode(key)))
        assert cell is not None
        assert cell.state is not None
        return decode_record(slot_bytes(cell.state, self._kernel.read))

    def _take(self, given: EventInput | ReceiptInput) -> Turn:
        turn = self._turn = Turn()
        kernel = self._kernel
        with turn.stage("admit"):
            answer = kernel.admit(given, stamp())
        assert isinstance(answer, Admitted), answer
        with turn.stage("step"):
            while (entered := step(kernel, self)) is not None:
                assert not isinstance(entered.record, Faulted), entered.record
        with turn.stage("seal"):
            sealed = kernel.seal(os.urandom(32))
        with turn.stage("commit"):
            self._commit(sealed)
        return turn

    def _commit(self, sealed: Sealed | None) -> None:
        assert sealed is not None
        kept = sealed if self._has_deltas else replace(sealed, replaced={})
        self.store.append([kept], Head.of(sealed.tip).signed(self._key), expected=self._follows)
        self._follows = sealed.frame.hash

    def _receipt(self, intent: OpenIntent, payload: Payload) -> ReceiptInput:
        now_ns = time.time_ns()
        params: Any = decode_record(slot_bytes(intent.params, self._kernel.read))
        unsigned = ReceiptInput(
            intent=intent.intent,
            effect=intent.effect.name,
            attempt=1,
            status="ok",
            payload=encode(payload(params)),
            started_ns=now_ns,
            finished_ns=now_ns,
            executor="node",
            key_id=bytes(self._key.verify_key),
            signature=b"",
        )
        message = unsigned.message(self._kernel.tip.world)
        return replace(unsigned, signature=self._key.sign(message).signature)
