"""Run the migrations of a manifest if no process runs the world (spec/host.md, H-75)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from aos import __version__
from aos.core.decide.answers import Blocker
from aos.core.decide.migration import Converted, Failed, Puts, conversions, migrate
from aos.core.decide.quiescence import Change
from aos.core.journal.faults import Fault
from aos.core.journal.ports import BlobReader, Call, Ran, Runner
from aos.core.state.state import State
from aos.sandbox.stack import run_on_big_stack
from aos.values.digests import Hash


class _Sandbox(Runner, Protocol):
    """The part of ``aos.sandbox.engine.Sandbox`` that a migration uses."""

    @property
    def fingerprint(self) -> Mapping[str, str]: ...

    def close(self) -> None: ...


class Migrator:
    """A sandbox that is created when it is first needed. ``read`` returns the bytes of modules."""

    def __init__(self, read: BlobReader) -> None:
        self._read = read
        self._made: _Sandbox | None = None

    @property
    def _sandbox(self) -> _Sandbox:
        if self._made is None:
            # The engine is slow to import, and few commands migrate.
            from aos.sandbox.engine import Sandbox  # noqa: PLC0415

            self._made = Sandbox(self._read)
        return self._made

    def host(self) -> tuple[tuple[str, str], ...]:
        """Its fields of a start record."""
        host = {"kernel": __version__, **self._sandbox.fingerprint}
        return tuple(sorted(host.items()))

    def run(self, call: Call) -> Ran:
        """As ``Sandbox.run``."""
        return self._sandbox.run(call)

    def close(self) -> None:
        """Free the sandbox, if there is one. The next use creates another."""
        if self._made is not None:
            self._made.close()
            self._made = None


def sample(
    state: State, change: Change, read: BlobReader, modules: Mapping[Hash, bytes], *, most: int
) -> tuple[Converted, ...]:
    """Up to ``most`` states before and after their migration, those that fail first. Runs the
    migrations of all cells, and discards their results.

    Raises:
        Damage: A stored state cannot be read.
    """

    def run() -> tuple[Converted, ...]:
        migrator = migrator_with(read, modules)
        failed: list[Converted] = []
        others: list[Converted] = []
        try:
            for each in conversions(state, change, migrator, read):
                kind = failed if isinstance(each.after, Fault) else others
                if len(kind) < most:
                    kind.append(each)
                if len(failed) == most:
                    break
        finally:
            migrator.close()
        return (*failed, *others)[:most]

    return run_on_big_stack(run)


def migrator_with(read: BlobReader, modules: Mapping[Hash, bytes]) -> Migrator:
    """Runs modules that are supplied but not stored, too."""

    def load(hash: Hash, /) -> bytes:
        found = modules.get(hash)
        return read(hash) if found is None else found

    return Migrator(load)


def dry_migration(
    state: State, change: Change, read: BlobReader, modules: Mapping[Hash, bytes]
) -> tuple[Blocker, ...]:
    """The first cells whose migration fails. The results of the others are discarded.

    Raises:
        Damage: A stored state cannot be read.
    """

    def run() -> tuple[Blocker, ...]:
        migrator = migrator_with(read, modules)
        try:
            puts = Puts(read, lambda _: None, kept_bytes=state.limits.kept_bytes)
            found = migrate(state, change, migrator, read, puts)
        finally:
            migrator.close()
        return found.blockers if isinstance(found, Failed) else ()

    return run_on_big_stack(run)
