"""Write to a world: through the process that runs it, or with its lock (H-54 to H-59).

``open_writer`` takes the way that is open. Either way, an operation returns once its answer is
durable, and the writer runs no step.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from nacl.signing import SigningKey

from aos.closable import Closable
from aos.core.decide.answers import Answer, Refusal, Rule
from aos.core.journal.governing import GovernanceInput
from aos.core.journal.inputs import (
    STRICT,
    EventInput,
)
from aos.core.journal.records import CellId
from aos.errors import Refused, Unavailable, excerpt
from aos.host.apply.commands import sign_control
from aos.host.door.protocol import (
    MIB,
    SEND_ITEMS_MAX,
    STAGED_MODULES_MAX,
    ManifestChanged,
)
from aos.host.door.way import BUSY_S, PAUSE_S, SignedState, WaitPatience, Way
from aos.host.folder.folder import open_folder
from aos.manifest.effective import Effective
from aos.manifest.sealed_places import sealing_problem
from aos.store.errors import WorldIsHeld
from aos.store.lock import HELD_S, TELL_S, WorldLock, waiting_text
from aos.store.rows import Forget
from aos.values.digests import Hash
from aos.values.errors import ValueProblem

if TYPE_CHECKING:  # a client of a running world has no engine, and ``aos send`` applies nothing
    from aos.fastcore.core_kind import CoreKind
    from aos.host.apply.apply import Applied
    from aos.host.folder.restore import Progress
    from aos.host.world.collecting import Begun
    from aos.host.world.snapshots import MadeSnapshot
    from aos.manifest.load import Loaded
    from aos.manifest.patch import Patch

BATCH_ITEMS: Final = 512
BATCH_BYTES: Final = MIB
DOCUMENT_BYTES_MAX: Final = 16 * MIB
VALUE_BYTES_MAX: Final = 16 * MIB
"""The largest event that any manifest allows."""

SIGNED_AGAIN_MAX: Final = 20
"""How often a command is signed again because another one took its serial (H-59b)."""


_WINDOW: Final = 3
"""Batches that may wait for the disk at the same time if the store is open here."""


_NULL: Final = b"\xf6"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One event to send. ``value`` is ingress CBOR as bytes, or a value of ``parse_json``."""

    schema: str
    value: object
    submission_id: str | None = None


class WrittenWorld(Protocol):
    """The world that a ``Writer`` writes to: a ``WorldFolder``, or one that is known by its address
    alone. ``path`` is for messages, and for what reads the world."""

    @property
    def path(self) -> Path: ...

    @property
    def world(self) -> Hash: ...

    def operator_key(self) -> SigningKey:
        """The key that signs commands for which none is given. Raises as ``read_key``."""

    def remarks(self) -> list[str]:
        """As ``WorldFolder.remarks``."""


class Writer(Closable):
    """Sends events, applies manifests and submits commands. Made by ``open_writer``; used by one
    thread at a time."""

    def __init__(self, folder: WrittenWorld, way: Way, *, is_direct: bool) -> None:
        self.folder = folder
        self.is_direct = is_direct
        """Whether no process runs the world, so that the store is open here."""
        self._way = way
        self._signed_state: SignedState | None = None

    def signed_state(self) -> SignedState:
        """Return the current state that commands refer to.

        Raises:
            Unavailable: The process that answers runs another world than the folder's.
        """
        signed_state = self._way.signed_state()
        if signed_state.world != self.folder.world:
            raise Unavailable(
                f"{self.folder.path}: the process that listens here runs another world "
                "(the folder was replaced under it: stop that process)"
            )
        self._signed_state = signed_state
        return signed_state

    @property
    def in_force(self) -> Effective | None:
        """The manifest by which the last events were encoded; None before ``signed_state``."""
        return None if self._signed_state is None else self._signed_state.manifest

    def send(self, items: Iterable[Item], *, batch_items: int = BATCH_ITEMS) -> Iterator[Answer]:
        """Send events and yield their answers, in order, as they become durable.

        Items are taken in batches of at most ``batch_items`` (up to 1024) and 1 MiB: with 1, each
        is answered before the next is taken. JSON values are encoded by the schema of the manifest
        in force; a value that does not fit is refused alone (H-55).

        Raises:
            Busy: The world was busy for too long. Answers that were yielded remain valid.
            Unavailable, Damage: The world stopped or went away. It is unknown whether the current
                batch was admitted: events with submission ids may be sent again.
        """
        on_way: deque[tuple[list[EventInput | Refusal], Future[list[Answer]]]] = deque()
        for batch in _batches(items, min(batch_items, SEND_ITEMS_MAX)):
            while len(on_way) >= (_WINDOW if self.is_direct else 1):
                yield from self._merged(*on_way.popleft())
            on_way.append(self._post(batch))
            if batch_items == 1:
                yield from self._merged(*on_way.popleft())
        while on_way:
            yield from self._merged(*on_way.popleft())

    def _merged(
        self, spelt: Sequence[EventInput | Refusal], answers: Future[list[Answer]]
    ) -> Iterator[Answer]:
        """Merge the world's answers to a batch with the refusals that were known before."""
        remaining_answers = iter(self._way.wait(answers))
        for entry in spelt:
            yield entry if isinstance(entry, Refusal) else next(remaining_answers)

    def _post(
        self, batch: Sequence[Item]
    ) -> tuple[list[EventInput | Refusal], Future[list[Answer]]]:
        while True:
            signed_state = self._signed_state or self.signed_state()
            spelt = [spell(item, signed_state.manifest) for item in batch]
            events = [event for event in spelt if isinstance(event, EventInput)]
            try:
                return spelt, self._way.post(events, signed_state.manifest)
            except ManifestChanged:
                self._signed_state = None

    def apply(
        self,
        loaded: Loaded,
        *,
        key: SigningKey | None = None,
        dry_run: bool = False,
        mode: str = STRICT,
        leave_cells: bool = False,
        proposal: int | None = None,
    ) -> Applied:
        """Put a manifest in force, signed with ``key`` or else the folder's operator key.

        With ``leave_cells``, workflows may be removed that still have cells; the cells are kept. A
        dry run makes the same checks, returns the difference and the blockers, and changes nothing.
        ``proposal`` is the record of the approved proposal, in a governed world.

        Raises:
            Refused: A module may not run, or the key is not an operator's. Nothing has changed.
        """
        # Every command that writes imports this file; only this one needs what applies a manifest.
        from aos.host.apply.apply import Applied, left_by, sign_manifest  # noqa: PLC0415
        from aos.host.apply.dry_run import dry_run_of  # noqa: PLC0415
        from aos.manifest.difference import difference  # noqa: PLC0415

        if len(loaded.effective.document) > DOCUMENT_BYTES_MAX:
            raise Refused(
                f"the manifest is too large: expected a document of at most {DOCUMENT_BYTES_MAX} "
                f"bytes, found {len(loaded.effective.document)}"
            )
        if len(loaded.modules) > STAGED_MODULES_MAX:
            raise Refused(f"a manifest may bring at most {STAGED_MODULES_MAX} modules")
        signed_state = self.signed_state()
        change = difference(signed_state.manifest, loaded.effective)
        if dry_run:
            return dry_run_of(self.folder.path, loaded, mode=mode, leave_cells=leave_cells)
        manifest_input = sign_manifest(
            loaded.effective,
            world=signed_state.world,
            serial=signed_state.serial,
            operators=signed_state.operators,
            key=key or self.folder.operator_key(),
            mode=mode,
            leaves=left_by(signed_state.manifest, loaded.effective) if leave_cells else (),
            proposal=proposal,
        )
        answer = self._way.apply(manifest_input, loaded.modules)
        self._signed_state = None
        return Applied(
            difference=change,
            manifest=loaded.effective.hash,
            blockers=answer.blockers if isinstance(answer, Refusal) else (),
            answer=answer,
        )

    def control(
        self,
        action: str,
        *,
        cell: CellId | None = None,
        intent: Hash | None = None,
        value: Hash | None = None,
        status: str | None = None,
        payload: bytes | None = None,
        reason: str | None = None,
        key: SigningKey | None = None,
    ) -> Answer:
        """Submit an operator's command, signed with ``key`` or else the folder's operator key.

        The other arguments are the fields of a ``ControlInput``.

        Effects that the core itself settles because of the command are settled on return (H-59c).
        If another command took the serial, this one is signed again with the next (H-59b).

        Raises:
            Refused: The key is not an operator's. Nothing has changed.
            Busy, Unavailable, Damage: As ``send``.
        """
        signer = key or self.folder.operator_key()
        for _ in range(SIGNED_AGAIN_MAX):
            signed_state = self.signed_state()
            control = sign_control(
                action, cell=cell, intent=intent, value=value, status=status, payload=payload,
                reason=reason, world=signed_state.world, serial=signed_state.controls,
                operators=signed_state.operators,
                key=signer,
            )  # fmt: skip
            answer = self._way.control(control)
            if not _came_too_late(answer):
                break
            time.sleep(PAUSE_S)
        return answer

    def propose(
        self,
        loaded: Loaded,
        *,
        patch: Patch | None = None,
        key: SigningKey | None = None,
        mode: str = STRICT,
        leave_cells: bool = False,
        note: str | None = None,
    ) -> Applied:
        """Propose a manifest, signed with ``key``, an operator's or an approver's, or else with the
        folder's operator key. ``patch`` is by default the one between the two manifests.

        If another proposal took the serial, this one is signed again with the next.

        Raises:
            Refused: The world is not governed, a module may not run, the manifests are the same, or
                the key is no one's who may. Nothing has changed.
        """
        # See ``apply``.
        from aos.host.apply.apply import Applied  # noqa: PLC0415
        from aos.host.door.governance_signing import proposal_for  # noqa: PLC0415
        from aos.manifest.difference import difference  # noqa: PLC0415

        signer = key or self.folder.operator_key()
        for _ in range(SIGNED_AGAIN_MAX):
            signed_state = self.signed_state()
            governance_input = proposal_for(
                signed_state, loaded, key=signer, patch=patch, mode=mode, leave_cells=leave_cells,
                note=note,
            )  # fmt: skip
            answer = self._way.govern(governance_input, loaded.modules)
            if not _came_too_late(answer):
                break
            time.sleep(PAUSE_S)
        return Applied(
            difference=difference(signed_state.manifest, loaded.effective),
            manifest=loaded.effective.hash,
            blockers=(),
            answer=answer,
        )

    def govern(
        self,
        action: str,
        proposal: int,
        *,
        key: SigningKey | None = None,
        report: bytes | None = None,
        seen_report: Hash | None = None,
        note: str | None = None,
    ) -> Answer:
        """Submit a report, a vote or a withdrawal, signed with ``key`` or else with the folder's
        operator key.

        Raises:
            Refused: The world is not governed, the proposal is not open, or the key is no one's who
                may. Nothing has changed.
            Busy, Unavailable, Damage: As ``send``.
        """
        from aos.host.door.governance_signing import governance_for  # noqa: PLC0415  # see above

        governance_input = governance_for(
            self.signed_state(), action, proposal, key=key or self.folder.operator_key(),
            report=report,
            seen_report=seen_report, note=note,
        )  # fmt: skip
        return self.submit_governance(governance_input)

    def submit_governance(self, governance_input: GovernanceInput) -> Answer:
        """Submit a report, a vote or a withdrawal that was signed before, perhaps elsewhere."""
        return self._way.govern(governance_input, {})

    def snapshot(self) -> MadeSnapshot:
        """Make a snapshot of everything that is durable now. Raises as ``Snapshots.make``."""
        return self._way.snapshot()

    def begin_marking(self) -> Begun:
        """Keep every blob that arrives from now on, until ``end_marking``.

        Raises:
            Busy, Unavailable, Damage: As ``send``.
        """
        return self._way.begin_marking()

    def still_marking(self, token: int) -> None:
        """Keep the marking open. Raises: Unavailable: The marking was given up."""
        self._way.still_marking(token)

    def forget(self, token: int, rows: Forget) -> int:
        """Remove rows that nothing needs, except blobs that arrived since the marking began; return
        how many blobs were removed.

        Raises:
            Unavailable: The marking was given up. Some rows may have been removed before.
        """
        return self._way.forget(token, rows)

    def end_marking(self, token: int) -> None:
        """End the marking. Without effect if another one has begun."""
        self._way.end_marking(token)

    def compact(self) -> bool:
        """Rewrite the store's file without free pages, so that no erased bytes remain in it.

        Returns False, and does nothing, if another process runs the world. Afterwards this writer
        can only be closed.

        Raises:
            Unavailable: There is no room for a second file. Nothing has changed.
            Damage: A row cannot be read. Nothing has changed.
        """
        return self._way.compact()

    def close(self) -> None:
        """Release the world. Raises the problem that stopped it, if any."""
        self._way.close()


def open_writer(
    path: Path,
    *,
    connect_s: float = HELD_S,
    busy_s: float = BUSY_S,
    patience: WaitPatience | None = None,
    progress: Progress | None = None,
    report: Callable[[str], None] | None = None,
    core: CoreKind | None = None,
) -> Writer:
    """Open the world at ``path`` for writing. ``report`` is called once if it has to wait for the
    process that holds the world. ``patience`` bounds each wait for a world that makes nothing
    durable, that of a busy one too (H-57a); without it, ``busy_s`` bounds the latter.

    If no process runs the world, a kernel of the kind ``core`` decides (default: the rule of
    ``choose_core``), and ``progress`` is called on the kernel's thread.

    Raises:
        BadUsage, Refused, Damage: As ``open_folder``.
        Unavailable: Another process holds the world and does not answer on its socket.
    """
    folder = open_folder(path)
    began = time.monotonic()
    if patience is not None:
        busy_s = patience.timeout_s
    while True:
        lock = WorldLock(path)
        try:
            lock.acquire()
        except WorldIsHeld as problem:
            # Sockets are slow to import, and not needed where no process runs the world.
            from aos.host.door.remote import connect  # noqa: PLC0415

            way = connect(folder, busy_s, patience)
            if way is not None:
                return Writer(folder, way, is_direct=False)
            waited_s = time.monotonic() - began
            if waited_s >= connect_s:
                raise Unavailable(
                    f"{problem}; it does not answer on {folder.socket} (it may still be starting: "
                    "try again, or stop it)"
                ) from problem
            if report is not None and waited_s >= TELL_S:
                report(waiting_text(problem, connect_s))
                report = None
            time.sleep(PAUSE_S)
        else:
            # The engine is large, and not needed where another process runs the world.
            from aos.host.door.direct import Direct  # noqa: PLC0415

            direct = Direct.open(folder, lock, busy_s, progress, patience, core=core, report=report)
            return Writer(folder, direct, is_direct=True)


def spell(item: Item, manifest: Effective | None) -> EventInput | Refusal:
    """Encode an item as an input. Values that the core refuses anyway are left to the core."""
    value = item.value
    if not _is_text(item.submission_id or ""):
        detail = excerpt(repr(item.submission_id))
        message = f"{excerpt(item.schema)}: submission_id: not UTF-8 text: {detail}"
        return Refusal(rule=Rule.EVENT_IS_INVALID, message=message)
    if manifest is not None and not manifest.is_open(item.schema):
        manifest = None
    if manifest is not None and item.schema in manifest.sealing:
        problem = sealing_problem(manifest.schemas[item.schema], value, manifest.schemas)
        if problem is not None:
            return Refusal(rule=Rule.EVENT_IS_INVALID, message=f"{item.schema}: {problem}")
    if not isinstance(value, bytes):
        schema = None if manifest is None else manifest.schemas.get(item.schema)
        if schema is None:
            value = _NULL
        else:
            try:
                value = schema.encode(schema.from_json_object(value))
            except ValueProblem as problem:
                return Refusal(rule=Rule.EVENT_IS_INVALID, message=f"{item.schema}: {problem}")
    if len(value) > VALUE_BYTES_MAX:
        detail = f"expected at most {VALUE_BYTES_MAX} bytes, found {len(value)}"
        return Refusal(rule=Rule.EVENT_IS_INVALID, message=f"{item.schema}: $: too large: {detail}")
    return EventInput(schema=item.schema, value=value, submission_id=item.submission_id)


def _came_too_late(answer: Answer) -> bool:
    """Whether another command took the serial of this one."""
    return isinstance(answer, Refusal) and answer.rule in (
        Rule.CONTROL_SERIAL_IS_WRONG,
        Rule.GOVERNANCE_SERIAL_IS_WRONG,
    )


def _is_text(text: str) -> bool:
    """Whether ``text`` can be encoded: a lone surrogate, which some JSON readers accept, cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _batches(items: Iterable[Item], limit: int) -> Iterator[list[Item]]:
    batch: list[Item] = []
    size = 0
    for item in items:
        # A JSON value has its exact length only once it is encoded; as text it is about as long.
        weight = len(item.value) if isinstance(item.value, bytes) else len(repr(item.value))
        if batch and (len(batch) == limit or size + weight > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += weight
        if len(batch) == limit:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
