"""How inputs reach a world's core, whoever has it open (spec/host.md, H-54 to H-59)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Protocol

from aos.core.decide.answers import Answer
from aos.core.journal.inputs import (
    ControlInput,
    EventInput,
    ManifestInput,
)
from aos.core.journal.records import Principal
from aos.host.world.collecting import Begun
from aos.host.world.snapshots import MadeSnapshot
from aos.manifest.effective import Effective
from aos.store.forget import Forget
from aos.values.digests import Hash

PATIENCE_S: Final = 30.0
"""How long a busy world is asked again."""

PAUSE_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a command is made for. ``serial`` is the number of manifest records so far,
    ``controls`` that of control records."""

    world: Hash
    serial: int
    controls: int
    operators: tuple[Principal, ...]
    manifest: Effective | None


class Way(Protocol):
    """How inputs reach the core."""

    def about(self) -> About: ...

    def post(
        self, events: Sequence[EventInput], manifest: Effective | None
    ) -> Future[list[Answer]]:
        """Hand over events that were spelt for ``manifest``; the future raises ManifestChanged
        when another one is in force."""
        ...

    def wait(self, answers: Future[list[Answer]]) -> list[Answer]:
        """Wait for what ``post`` gave; raises as the future, and Busy when that takes too long."""
        ...

    def apply(self, given: ManifestInput, modules: Mapping[Hash, bytes]) -> Answer: ...

    def control(self, given: ControlInput) -> Answer: ...

    def snapshot(self) -> MadeSnapshot: ...

    def begin_marking(self) -> Begun: ...

    def still_marking(self, token: int) -> None: ...

    def forget(self, token: int, what: Forget) -> int: ...

    def end_marking(self, token: int) -> None: ...

    def compact(self) -> bool: ...

    def close(self) -> None: ...
