"""Write to a world that no process runs, with its lock, its store and an engine (H-54)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from aos.core.decide.answers import Answer
from aos.core.journal.governing import PROPOSE, GovernanceInput
from aos.core.journal.inputs import (
    MIGRATE,
    ControlInput,
    EventInput,
    Input,
    ManifestInput,
    StartInput,
)
from aos.fastcore.core_choice import SHORT_FOLD_RECORDS, choose_core
from aos.fastcore.core_kind import CoreKind
from aos.host.apply.migrator import Migrator
from aos.host.door.way import SignedState, WaitPatience, while_busy
from aos.host.errors import Busy, nothing_durable
from aos.host.folder.folder import WorldFolder
from aos.host.folder.restore import Progress, check_key, records_to_fold
from aos.host.world.collecting import Begun
from aos.host.world.engine import Engine
from aos.host.world.restored_world import restored_world
from aos.manifest.effective import Effective
from aos.store.lock import WorldLock
from aos.store.rows import Forget
from aos.store.store import Store
from aos.values.digests import Hash

if TYPE_CHECKING:  # see ``snapshot``
    from aos.host.world.snapshots import MadeSnapshot
    from aos.sandbox.cache import ModuleCache

T = TypeVar("T")

_LOOK_S: Final = 0.2
"""Seconds between two looks whether the disk has room again."""


def _user_cache(world: Path, note: Callable[[str], None]) -> ModuleCache | None:
    # Few writers use a kernel whose code is compiled.
    from aos.sandbox.cache import standard_cache  # noqa: PLC0415

    return standard_cache(note, outside=world)


class Direct:
    """The ``Way`` to a world through its store: an engine that admits inputs and runs no steps
    (H-54).

    It owns the lock, the store and the engine's two threads until ``close``, which makes everything
    durable that was admitted, and releases them even if it raises.
    """

    def __init__(
        self,
        folder: WorldFolder,
        lock: WorldLock,
        store: Store,
        engine: Engine,
        *,
        migrator: Migrator,
        core: CoreKind,
        signed_state: SignedState,
        busy_s: float,
        patience: WaitPatience | None,
    ) -> None:
        self._path = folder.path
        self._migrator = migrator
        self._core = core
        self._busy_s = busy_s
        self._patience = patience or WaitPatience(busy_s)
        self._lock = lock
        self._store = store
        self._engine = engine
        self._first = signed_state

    @classmethod
    def open(
        cls,
        folder: WorldFolder,
        lock: WorldLock,
        busy_s: float,
        progress: Progress | None,
        patience: WaitPatience | None = None,
        *,
        core: CoreKind | None = None,
        report: Callable[[str], None] | None = None,
    ) -> Self:
        """Open the store under ``lock``. The lock now belongs to this; a failure releases it.

        ``core`` is as for ``choose_core``, which reports by ``report``, as ``restored_world``
        does.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(lock.release)
            store = folder.open_store()
            stack.callback(store.close)
            key = folder.world_key()
            note = report or (lambda _: None)
            chosen = choose_core(
                core,
                cache=partial(_user_cache, folder.path, note),
                note=note,
                short_fold=records_to_fold(store) <= SHORT_FOLD_RECORDS,
            )
            live = restored_world(store, folder.world, core=chosen, progress=progress, note=note)
            stack.callback(live.thread.close)
            world = live.figures
            check_key(world.world_key, key)
            signed_state = SignedState(
                world=live.tip.world,
                serial=world.serial,
                controls=world.controls,
                operators=world.operators,
                manifest=world.manifest,
                proposed=world.proposed,
                proposals=world.proposals,
            )
            migrator = Migrator(live.blobs.read, world=folder.path)
            engine = Engine(live, store=store, key=key, migrator=migrator)
            stack.callback(engine.stop)
            engine.start()
            stack.pop_all()
        return cls(
            folder, lock, store, engine,
            migrator=migrator, core=live.core, signed_state=signed_state, busy_s=busy_s,
            patience=patience,
        )  # fmt: skip

    def signed_state(self) -> SignedState:
        figures = self._engine.stats().figures
        return SignedState(
            world=self._first.world,
            serial=figures.serial,
            controls=figures.controls,
            operators=self._first.operators,
            manifest=figures.manifest,
            proposed=figures.proposed,
            proposals=figures.proposals,
        )

    def post(
        self,
        events: Sequence[EventInput],
        manifest: Effective | None,  # noqa: ARG002  # it cannot change: we hold the lock
    ) -> Future[list[Answer]]:
        return self._submit(events)

    def _submit(self, inputs: Sequence[Input]) -> Future[list[Answer]]:
        """Submit inputs, and wait for room in the inbox if necessary."""
        return while_busy(lambda: self._engine.submit(inputs), self._busy_s, self._patience)

    def wait(self, answers: Future[list[Answer]]) -> list[Answer]:
        return self._result(answers)

    def _result(self, future: Future[T]) -> T:
        """Wait without a limit while the disk is slow, but only ``busy_s`` while it is full
        (H-24a)."""
        while True:
            try:
                return future.result(_LOOK_S)
            except TimeoutError:
                self._look()

    def _look(self) -> None:
        """Raises: Busy: The disk has been full for too long."""
        no_room = self._engine.stats().no_room
        is_stuck = no_room is not None and not self._engine.collecting.is_open
        reason = nothing_durable(no_room) if no_room is not None and is_stuck else None
        if self._patience.is_over(reason):
            raise Busy(reason)

    def apply(self, manifest_input: ManifestInput, modules: Mapping[Hash, bytes]) -> Answer:
        # Every command that writes imports this file; only this one checks a manifest's modules.
        from aos.host.apply.apply import check_command  # noqa: PLC0415

        signed_state = self.signed_state()
        check_command(
            manifest_input,
            modules,
            world=signed_state.world,
            operators=signed_state.operators,
            in_force=signed_state.manifest,
            path=self._path,
        )
        if manifest_input.mode == MIGRATE:
            # From here on this process runs modules, so it journals a start record (K-15).
            self.wait(self._engine.submit([StartInput(host=self._migrator.host(self._core))]))
        [answer] = self.wait(self._engine.submit([manifest_input], blobs=modules))
        return answer

    def control(self, control: ControlInput) -> Answer:
        [answer] = self.wait(self._submit([control]))
        return answer

    def govern(self, governance_input: GovernanceInput, modules: Mapping[Hash, bytes]) -> Answer:
        if governance_input.action == PROPOSE:
            # Few writers propose, and the check of a module needs the engine.
            from aos.host.apply.signed_governance import check_proposal  # noqa: PLC0415

            signed_state = self.signed_state()
            check_proposal(
                governance_input,
                modules,
                world=signed_state.world,
                operators=signed_state.operators,
                in_force=signed_state.manifest,
                path=self._path,
            )
        [answer] = self.wait(self._engine.submit([governance_input], blobs=modules))
        return answer

    def snapshot(self) -> MadeSnapshot:
        # Few writers take a snapshot.
        from aos.host.world.snapshots import Snapshots  # noqa: PLC0415

        return Snapshots(self._engine, self._path, core=self._core, look=self._look).make()

    def begin_marking(self) -> Begun:
        return self._result(self._engine.collecting.begin())

    def still_marking(self, token: int) -> None:
        self._engine.collecting.keep_open(token)

    def forget(self, token: int, rows: Forget) -> int:
        return self._result(self._engine.collecting.forget(token, rows))

    def end_marking(self, token: int) -> None:
        self._engine.collecting.end(token)

    def compact(self) -> bool:
        self._engine.stop()
        self._store.compact()
        self._store.make_reserve()
        return True

    def close(self) -> None:
        try:
            self._engine.stop()
        finally:
            self._migrator.close()
            self._store.close()
            self._lock.release()
