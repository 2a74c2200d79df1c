"""Run the migrations of a manifest if no process runs the world (spec/host.md, H-75)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from aos import __version__
from aos.core.decide.answers import Blocker
from aos.core.decide.migration import Converted, Failed, Puts, conversions, migrate
from aos.core.decide.quiescence import Change
from aos.core.journal.faults import Fault
from aos.core.journal.ports import BlobReader, Call, Ran, Runner
from aos.core.state.state import State
from aos.fastcore.core_kind import CoreKind
from aos.sandbox.stack import run_on_big_stack
from aos.values.digests import Hash


class _Sandbox(Runner, Protocol):
    """The part of ``aos.sandbox.engine.Sandbox`` that a migration uses."""

    @property
    def fingerprint(self) -> Mapping[str, str]: ...

    def close(self) -> None: ...


class Migrator:
    """A sandbox that is created when it is first needed. ``read`` returns the bytes of modules.

    Compiled code comes from the user's cache, unless that is inside of the folder of ``world``.
    """

    def __init__(self, read: BlobReader, *, world: Path) -> None:
        self._read = read
        self._world = world
        self._open_sandbox: _Sandbox | None = None

    @property
    def _sandbox(self) -> _Sandbox:
        if self._open_sandbox is None:
            # The engine is slow to import, and few commands migrate.
            from aos.sandbox.cache import standard_cache  # noqa: PLC0415
            from aos.sandbox.engine import Sandbox  # noqa: PLC0415

            self._open_sandbox = Sandbox(self._read, cache=standard_cache(outside=self._world))
        return self._open_sandbox

    def host(self, core: CoreKind) -> tuple[tuple[str, str], ...]:
        """The fields of a start record, if a kernel of this kind decides."""
        host = {"kernel": __version__, "core": core.value, **self._sandbox.fingerprint}
        return tuple(sorted(host.items()))

    def run(self, call: Call) -> Ran:
        """As ``Sandbox.run``."""
        return self._sandbox.run(call)

    def close(self) -> None:
        """Free the sandbox, if there is one. The next use creates another."""
        if self._open_sandbox is not None:
            self._open_sandbox.close()
            self._open_sandbox = None


def sample(
    state: State,
    change: Change,
    read: BlobReader,
    modules: Mapping[Hash, bytes],
    *,
    world: Path,
    limit: int,
) -> tuple[Converted, ...]:
    """Up to ``limit`` states before and after their migration, those that fail first. Runs the
    migrations of all cells, and discards their results.

    Raises:
        Damage: A stored state cannot be read.
    """

    def run() -> tuple[Converted, ...]:
        migrator = migrator_with(read, modules, world=world)
        failed: list[Converted] = []
        succeeded: list[Converted] = []
        try:
            for converted in conversions(state, change, migrator, read):
                kind = failed if isinstance(converted.result, Fault) else succeeded
                if len(kind) < limit:
                    kind.append(converted)
                if len(failed) == limit:
                    break
        finally:
            migrator.close()
        return (*failed, *succeeded)[:limit]

    return run_on_big_stack(run)


def migrator_with(read: BlobReader, modules: Mapping[Hash, bytes], *, world: Path) -> Migrator:
    """Runs modules that are supplied but not stored, too."""

    def load(hash: Hash, /) -> bytes:
        wasm = modules.get(hash)
        return read(hash) if wasm is None else wasm

    return Migrator(load, world=world)


def dry_migration(
    state: State,
    change: Change,
    read: BlobReader,
    modules: Mapping[Hash, bytes],
    *,
    world: Path,
) -> tuple[Blocker, ...]:
    """The first cells whose migration fails. The results of the others are discarded.

    Raises:
        Damage: A stored state cannot be read.
    """

    def run() -> tuple[Blocker, ...]:
        migrator = migrator_with(read, modules, world=world)
        try:
            puts = Puts(read, state.limits.kept_bytes)
            result = migrate(state, change, migrator, read, puts)
        finally:
            migrator.close()
        return result.blockers if isinstance(result, Failed) else ()

    return run_on_big_stack(run)
