"""Writing into a world: through the process that runs it, or with its lock (H-54 to H-59).

``open_writer`` takes whichever way is open. Both admit and return when the answer is durable;
neither runs a step.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from nacl.signing import SigningKey

from aos.core.answers import Answer, Refusal, Rule
from aos.core.inputs import (
    MIGRATE,
    STRICT,
    ControlInput,
    EventInput,
    Input,
    ManifestInput,
    StartInput,
)
from aos.core.quiescence import Change, blockers
from aos.core.records import CellId, Principal
from aos.errors import Refused, Unavailable
from aos.host.address import short_path
from aos.host.apply import (
    Applied,
    check_command,
    check_keys,
    check_modules,
    left_by,
    sign_manifest,
)
from aos.host.blobs import Overlay
from aos.host.collecting import Begun
from aos.host.commands import sign_control
from aos.host.engine import Engine
from aos.host.errors import Busy
from aos.host.fates import fates
from aos.host.folder import SOCKET, WorldFolder, open_folder
from aos.host.migrator import Migrator, dry_migration
from aos.host.protocol import (
    LENGTH_BYTES,
    MESSAGE_BYTES_MAX,
    MIB,
    SEND_ITEMS_MAX,
    STAGED_MODULES_MAX,
    ManifestChanged,
    Message,
    control_fields,
    event_fields,
    field,
    forget_fields,
    length,
    pack,
    raise_error,
    read_answer,
    unpack,
)
from aos.host.reader import open_reader
from aos.host.restore import Progress, check_key, restore
from aos.host.snapshots import Made, Snapshots
from aos.manifest.difference import difference
from aos.manifest.effective import Effective
from aos.manifest.load import Loaded
from aos.store.errors import WorldIsHeld
from aos.store.forget import Forget
from aos.store.lock import WorldLock
from aos.store.store import Store
from aos.values.cbor import Value
from aos.values.digests import Hash
from aos.values.errors import ValueProblem

T = TypeVar("T")

WAIT_S: Final = 5.0
"""How long a world whose lock is held may take until its socket answers."""

ANSWER_S: Final = 60.0
"""How long one answer may take, commit included."""

APPLY_S: Final = 600.0
"""The same where modules are tried first."""

SNAPSHOT_S: Final = 3600.0
"""The same where a snapshot is made first."""

PATIENCE_S: Final = 30.0
"""How long a busy world is asked again."""

BATCH_ITEMS: Final = 512
BATCH_BYTES: Final = MIB
DOCUMENT_BYTES_MAX: Final = 16 * MIB
VALUE_BYTES_MAX: Final = 16 * MIB
"""The most that any manifest lets an event have."""

SIGNED_AGAIN_MAX: Final = 20
"""How often a command is signed again because another one came in between."""

_PAUSE_S: Final = 0.02
_LOOK_S: Final = 0.2
"""How often who waits for a commit looks whether there is room for it."""

_WINDOW: Final = 3
"""Batches that are on their way at once where the store is opened here."""

RECONNECTS_MAX: Final = 3
"""How often one request is sent over a new connection because its own was closed while idle."""

_UNKNOWN: Final = (
    "whether the request was taken is not known (events with submission ids may be sent again)"
)
_NULL: Final = b"\xf6"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One event to send. ``value`` is ingress CBOR as bytes, or what ``parse_json`` gave."""

    schema: str
    value: object
    submission_id: str | None = None


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

    def snapshot(self) -> Made: ...

    def begin_marking(self) -> Begun: ...

    def still_marking(self, token: int) -> None: ...

    def forget(self, token: int, what: Forget) -> int: ...

    def end_marking(self, token: int) -> None: ...

    def compact(self) -> bool: ...

    def close(self) -> None: ...


class Writer:
    """Sends events, applies manifests, gives commands. Made by ``open_writer``; not for two threads
    at once."""

    def __init__(self, folder: WorldFolder, way: Way) -> None:
        self.folder = folder
        self._way = way
        self._about: About | None = None

    @property
    def is_direct(self) -> bool:
        """Whether nobody runs the world, so that the store is open here."""
        return isinstance(self._way, _Direct)

    def about(self) -> About:
        """What the world is now.

        Raises:
            Unavailable: Another world answers here than the folder's.
        """
        about = self._way.about()
        if about.world != self.folder.world:
            raise Unavailable(
                f"{self.folder.path}: the process that listens here runs another world "
                "(the folder was replaced under it: stop that process)"
            )
        self._about = about
        return about

    def send(self, items: Iterable[Item], *, batch_items: int = BATCH_ITEMS) -> Iterator[Answer]:
        """Send events and yield their answers, in order, as they become durable.

        Items are taken in batches of at most ``batch_items`` (1024) and 1 MiB: with 1, each is
        answered before the next is taken. JSON values are spelt by the schema of the manifest in
        force; one that does not fit is refused without the others.

        Raises:
            Busy: The world was busy for too long. Answers that were yielded stand.
            Unavailable, Damage: The world stopped or went away. Whether the batch in hand was
                admitted is not known: with submission ids it may be sent again.
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
        """The answers to a batch, with the refusals that were known before in their places."""
        given = iter(self._way.wait(answers))
        for each in spelt:
            yield each if isinstance(each, Refusal) else next(given)

    def _post(
        self, batch: Sequence[Item]
    ) -> tuple[list[EventInput | Refusal], Future[list[Answer]]]:
        while True:
            about = self._about or self.about()
            spelt = [spell(item, about.manifest) for item in batch]
            events = [each for each in spelt if isinstance(each, EventInput)]
            try:
                return spelt, self._way.post(events, about.manifest)
            except ManifestChanged:
                self._about = None

    def apply(
        self,
        loaded: Loaded,
        *,
        key: SigningKey | None = None,
        dry_run: bool = False,
        mode: str = STRICT,
        leave_cells: bool = False,
    ) -> Applied:
        """Put a manifest in force, signed with ``key`` or else the folder's operator key.

        With ``leave_cells`` the cells of workflows that it does not have stay where they are. A dry
        run checks the same, tells the difference and what stands in the way, and changes
        nothing.

        Raises:
            Refused: A module may not run, or the key is no operator's. Nothing has changed.
        """
        if len(loaded.effective.document) > DOCUMENT_BYTES_MAX:
            raise Refused(
                f"the manifest is too large: expected a document of at most {DOCUMENT_BYTES_MAX} "
                f"bytes, found {len(loaded.effective.document)}"
            )
        if len(loaded.modules) > STAGED_MODULES_MAX:
            raise Refused(f"a manifest may bring at most {STAGED_MODULES_MAX} modules")
        about = self.about()
        change = difference(about.manifest, loaded.effective)
        if dry_run:
            return dry_run_of(self.folder.path, loaded, mode=mode, leave_cells=leave_cells)
        given = sign_manifest(
            loaded.effective,
            world=about.world,
            serial=about.serial,
            operators=about.operators,
            key=key or self.folder.operator_key(),
            mode=mode,
            leaves=left_by(about.manifest, loaded.effective) if leave_cells else (),
        )
        answer = self._way.apply(given, loaded.modules)
        self._about = None
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
        key: SigningKey | None = None,
    ) -> Answer:
        """Give an operator's command, signed with ``key`` or else the folder's operator key. What
        the core itself settles because of it is settled too.

        A command of somebody else's that came in between is no reason to fail: this one is signed
        again, with the next serial.

        Raises:
            Refused: The key is no operator's. Nothing has changed.
            Busy, Unavailable, Damage: As ``send``.
        """
        signer = key or self.folder.operator_key()
        for _ in range(SIGNED_AGAIN_MAX):
            about = self.about()
            given = sign_control(
                action, cell=cell, intent=intent, value=value, world=about.world,
                serial=about.controls, operators=about.operators, key=signer,
            )  # fmt: skip
            answer = self._way.control(given)
            if not _came_too_late(answer):
                break
            time.sleep(_PAUSE_S)
        return answer

    def snapshot(self) -> Made:
        """Write the world down as it is durable now. Raises as ``Snapshots.make``."""
        return self._way.snapshot()

    def begin_marking(self) -> Begun:
        """From now on what is put counts as needed, until ``end_marking``.

        Raises:
            Busy, Unavailable, Damage: As ``send``.
        """
        return self._way.begin_marking()

    def still_marking(self, token: int) -> None:
        """Tell the world that it takes longer. Raises: Unavailable: It was given up meanwhile."""
        self._way.still_marking(token)

    def forget(self, token: int, what: Forget) -> int:
        """Take away rows that nobody needs, but for blobs that came since the marking began; return
        how many blobs went.

        Raises:
            Unavailable: The marking was given up. What went before is gone.
        """
        return self._way.forget(token, what)

    def end_marking(self, token: int) -> None:
        self._way.end_marking(token)

    def compact(self) -> bool:
        """Leave in the store's file nothing but what the world holds now, no bytes that were
        erased. False where another process runs the world: then nothing was done. This writer
        takes nothing more afterwards.

        Raises:
            Unavailable: There is no room for a second file. Nothing has changed.
            Damage: A row cannot be read. Nothing has changed.
        """
        return self._way.compact()

    def close(self) -> None:
        """Let go of the world. Raises what stopped it meanwhile."""
        self._way.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def dry_run_of(
    path: Path,
    loaded: Loaded,
    *,
    mode: str = STRICT,
    leave_cells: bool = False,
    progress: Progress | None = None,
) -> Applied:
    """What applying ``loaded`` to the world at ``path`` would change, and what stands in its way.

    Needs neither the lock nor the process that runs the world.

    Raises:
        Refused: A module may not run, or an executor may not have its key.
    """
    with open_reader(path, progress=progress) as reader:
        check_modules(loaded.effective, loaded.modules, in_force=reader.manifest)
        check_keys(loaded.effective, reader.state)
        leaves = left_by(reader.manifest, loaded.effective) if leave_cells else ()
        change = Change(
            in_force=reader.manifest, effective=loaded.effective, mode=mode, leaves=leaves
        )
        standing = blockers(reader.state, change, reader.store.blob)
        if mode == MIGRATE and not standing:
            standing = dry_migration(reader.state, change, reader.store.blob, loaded.modules)
        return Applied(
            difference=difference(reader.manifest, loaded.effective),
            manifest=loaded.effective.hash,
            blockers=standing,
            answer=None,
            fates=fates(reader.state, change),
        )


def open_writer(
    path: Path,
    *,
    wait_s: float = WAIT_S,
    patience_s: float = PATIENCE_S,
    progress: Progress | None = None,
) -> Writer:
    """Open a way into the world at ``path``.

    Raises:
        BadUsage, Refused, Damage: As ``open_folder``.
        Unavailable: Another process holds the world and does not answer on its socket.
    """
    folder = open_folder(path)
    deadline = time.monotonic() + wait_s
    while True:
        lock = WorldLock(path)
        try:
            lock.acquire()
        except WorldIsHeld as held:
            way = _connect(folder, patience_s)
            if way is not None:
                return Writer(folder, way)
            if time.monotonic() >= deadline:
                raise Unavailable(
                    f"{held}; it does not answer on {folder.socket} (it may still be starting: "
                    "try again, or stop it)"
                ) from held
            time.sleep(_PAUSE_S)
        else:
            return Writer(folder, _Direct.open(folder, lock, patience_s, progress))


def spell(item: Item, manifest: Effective | None) -> EventInput | Refusal:
    """The input that an item is. What the core refuses anyway is left to the core."""
    value = item.value
    if not _is_text(item.submission_id or ""):
        message = f"{item.schema}: submission_id: not UTF-8 text: {item.submission_id!r}"
        return Refusal(rule=Rule.EVENT_IS_INVALID, message=message)
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
        found = f"expected at most {VALUE_BYTES_MAX} bytes, found {len(value)}"
        return Refusal(rule=Rule.EVENT_IS_INVALID, message=f"{item.schema}: $: too large: {found}")
    return EventInput(schema=item.schema, value=value, submission_id=item.submission_id)


def _came_too_late(answer: Answer) -> bool:
    """Whether another command took the serial of this one."""
    return isinstance(answer, Refusal) and answer.rule is Rule.CONTROL_SERIAL_IS_WRONG


def _is_text(text: str) -> bool:
    """Whether it has a spelling: a lone surrogate, as a careless JSON reader lets in, has none."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _batches(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    batch: list[Item] = []
    size = 0
    for item in items:
        # The length of a JSON value is known once it is spelt; as text it is about as long.
        weight = len(item.value) if isinstance(item.value, bytes) else len(repr(item.value))
        if batch and (len(batch) == most or size + weight > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += weight
        if len(batch) == most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Direct:
    """The world's lock, its store and an engine that only admits."""

    def __init__(
        self,
        folder: WorldFolder,
        lock: WorldLock,
        store: Store,
        engine: Engine,
        *,
        migrator: Migrator,
        about: About,
        patience_s: float,
    ) -> None:
        self._path = folder.path
        self._migrator = migrator
        self._patience_s = patience_s
        self._lock = lock
        self._store = store
        self._engine = engine
        self._first = about

    @classmethod
    def open(
        cls, folder: WorldFolder, lock: WorldLock, patience_s: float, progress: Progress | None
    ) -> Self:
        """Takes over ``lock``, which is released when this fails."""
        store: Store | None = None
        try:
            store = folder.open_store()
            key = folder.world_key()
            state = restore(store, folder.world, progress=progress)
            check_key(state, key)
            about = About(
                world=state.world,
                serial=state.serial,
                controls=state.controls,
                operators=state.operators,
                manifest=state.manifest,
            )
            blobs = Overlay(store.blob)
            migrator = Migrator(blobs.read)
            engine = Engine(state=state, store=store, key=key, blobs=blobs, migrator=migrator)
            engine.start()
        except BaseException:
            if store is not None:
                store.close()
            lock.release()
            raise
        return cls(
            folder, lock, store, engine, migrator=migrator, about=about, patience_s=patience_s
        )

    def about(self) -> About:
        figures = self._engine.stats().figures
        return About(
            world=self._first.world,
            serial=figures.serial,
            controls=figures.controls,
            operators=self._first.operators,
            manifest=figures.manifest,
        )

    def post(
        self,
        events: Sequence[EventInput],
        manifest: Effective | None,  # noqa: ARG002  # nobody else applies one while we hold the lock
    ) -> Future[list[Answer]]:
        return self._submit(events)

    def _submit(self, inputs: Sequence[Input]) -> Future[list[Answer]]:
        """Submit, waiting a while for room."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                return self._engine.submit(inputs)
            except Busy:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_S)

    def wait(self, answers: Future[list[Answer]]) -> list[Answer]:
        """As long as a disk is slow; where there is no room on it, as long as a busy world."""
        deadline: float | None = None
        while True:
            try:
                return answers.result(_LOOK_S)
            except TimeoutError:
                no_room = self._engine.stats().no_room
            if no_room is None:
                deadline = None
            elif deadline is None:
                deadline = time.monotonic() + self._patience_s
            elif time.monotonic() >= deadline:
                raise Busy(f"nothing is admitted until there is room on the disk: {no_room}")

    def apply(self, given: ManifestInput, modules: Mapping[Hash, bytes]) -> Answer:
        about = self.about()
        check_command(
            given,
            modules,
            world=about.world,
            operators=about.operators,
            in_force=about.manifest,
        )
        if given.mode == MIGRATE:
            # This process runs modules from here on (K-15).
            self.wait(self._engine.submit([StartInput(host=self._migrator.host())]))
        [answer] = self.wait(self._engine.submit([given], blobs=modules))
        return answer

    def control(self, given: ControlInput) -> Answer:
        [answer] = self.wait(self._submit([given]))
        return answer

    def snapshot(self) -> Made:
        return Snapshots(self._engine, self._path).make()

    def begin_marking(self) -> Begun:
        return self._engine.begin_marking().result()

    def still_marking(self, token: int) -> None:
        self._engine.still_marking(token)

    def forget(self, token: int, what: Forget) -> int:
        return self._engine.forget(token, what).result()

    def end_marking(self, token: int) -> None:
        self._engine.end_marking(token)

    def compact(self) -> bool:
        self._engine.stop()
        self._store.compact()
        return True

    def close(self) -> None:
        try:
            self._engine.stop()
        finally:
            self._migrator.close()
            self._store.close()
            self._lock.release()


class _NotSent(Unavailable):
    """The connection was closed before the whole request was sent: the world never saw it."""


class _Remote:
    """A connection to the process that runs the world. It is made again when that process has
    closed it while it was idle."""

    def __init__(self, connection: socket.socket, path: Path, patience_s: float) -> None:
        self._connection = connection
        self._path = path
        self._where = str(path)
        self._patience_s = patience_s

    def about(self) -> About:
        answer = self.ask({"op": "manifest"})
        document = answer.get("document")
        return About(
            world=Hash(field(answer, "world", bytes)),
            serial=field(answer, "serial", int),
            controls=field(answer, "controls", int),
            operators=tuple(Principal(name, key) for name, key in field(answer, "operators", list)),
            manifest=None if document is None else Effective.from_document(document),
        )

    def post(
        self, events: Sequence[EventInput], manifest: Effective | None
    ) -> Future[list[Answer]]:
        fields: dict[str, Value] = {"op": "send", "items": [event_fields(each) for each in events]}
        if manifest is not None:
            fields["manifest"] = manifest.hash
        done: Future[list[Answer]] = Future()
        answers = field(self.ask(fields), "answers", list) if events else []
        done.set_result([read_answer(each) for each in answers])
        return done

    def wait(self, answers: Future[list[Answer]]) -> list[Answer]:
        return answers.result()

    def apply(self, given: ManifestInput, modules: Mapping[Hash, bytes]) -> Answer:
        # The modules are kept for this connection: on a new one they are handed over again.
        return self._with_reconnects(lambda: self._apply(given, modules))

    def _apply(self, given: ManifestInput, modules: Mapping[Hash, bytes]) -> Answer:
        for wasm in modules.values():
            self._ask({"op": "module", "wasm": wasm})
        answer = self._ask(
            {
                "op": "apply",
                "document": given.document,
                "principal": given.principal,
                "serial": given.serial,
                "signature": given.signature,
                "mode": given.mode,
                "leaves": list(given.leaves),
            },
            answer_s=APPLY_S,
        )
        return read_answer(answer.get("answer"))

    def control(self, given: ControlInput) -> Answer:
        answer = self.ask({"op": "control", **control_fields(given)})
        return read_answer(answer.get("answer"))

    def snapshot(self) -> Made:
        return Made.from_message(self.ask({"op": "snapshot"}, answer_s=SNAPSHOT_S))

    def begin_marking(self) -> Begun:
        # It waits for a snapshot in the making.
        answer = self.ask({"op": "collect", "step": "begin"}, answer_s=SNAPSHOT_S)
        return Begun(token=field(answer, "token", int), base=field(answer, "base", int))

    def still_marking(self, token: int) -> None:
        self.ask({"op": "collect", "step": "beat", "token": token})

    def forget(self, token: int, what: Forget) -> int:
        asked = {"op": "collect", "step": "forget", "token": token, **forget_fields(what)}
        return int(field(self.ask(asked), "gone", int))

    def end_marking(self, token: int) -> None:
        self.ask({"op": "collect", "step": "end", "token": token})

    def compact(self) -> bool:
        return False

    def ask(self, fields: Mapping[str, Value], *, answer_s: float | None = None) -> Message:
        """One request and its answer. A busy world is asked again for a while.

        Raises:
            AosError: What the world answered.
            Unavailable: The connection broke, or no answer came in time.
        """
        return self._with_reconnects(lambda: self._ask(fields, answer_s=answer_s))

    def _with_reconnects(self, act: Callable[[], T]) -> T:
        for _ in range(RECONNECTS_MAX):
            try:
                return act()
            except _NotSent:
                connection = _connected(self._path)
                if connection is None:
                    raise
                self._connection.close()
                self._connection = connection
        return act()

    def _ask(self, fields: Mapping[str, Value], *, answer_s: float | None = None) -> Message:
        """One request and its answer, on this connection."""
        try:
            message = pack(fields)
        except OverflowError:
            raise Refused(
                f"the request is too large: expected at most {MESSAGE_BYTES_MAX} bytes"
            ) from None
        self._connection.settimeout(ANSWER_S if answer_s is None else answer_s)
        deadline = time.monotonic() + self._patience_s
        while True:
            answer = self._exchange(message)
            try:
                raise_error(answer)
            except Busy:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_S)
            else:
                return answer

    def _exchange(self, message: bytes) -> Message:
        try:
            try:
                self._connection.sendall(message)
            except (BrokenPipeError, ConnectionResetError) as error:
                raise _NotSent(
                    f"{self._where}: the world went away: {error.strerror}; the request was not "
                    "taken"
                ) from error
            size = length(self._receive(LENGTH_BYTES))
            return unpack(self._receive(size))
        except TimeoutError:
            raise Unavailable(
                f"{self._where}: no answer in {self._connection.gettimeout()} seconds; {_UNKNOWN}"
            ) from None
        except OSError as error:
            raise Unavailable(
                f"{self._where}: the world went away: {error.strerror or error}; {_UNKNOWN}"
            ) from error

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._connection.recv(min(size - len(data), MIB))
            if not part:
                raise ConnectionResetError("the connection was closed")
            data += part
        return bytes(data)

    def close(self) -> None:
        self._connection.close()


def _connect(folder: WorldFolder, patience_s: float) -> _Remote | None:
    """None when no process listens: there is no socket yet, or a dead process left it."""
    try:
        with folder.opened() as opened:
            opened.check_socket(SOCKET)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{folder.socket}: {error.strerror or error}") from error
    connection = _connected(folder.socket)
    return None if connection is None else _Remote(connection, folder.socket, patience_s)


def _connected(path: Path) -> socket.socket | None:
    """A connection to the socket at ``path``, waiting up to ``WAIT_S`` in the crowd before it."""
    deadline = time.monotonic() + WAIT_S
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(ANSWER_S)
            with short_path(path) as address:
                connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        except BlockingIOError:  # more wait to be accepted than the system keeps
            connection.close()
            if time.monotonic() >= deadline:
                raise Unavailable(
                    f"{path}: no connection in {WAIT_S:.0f} seconds: too many clients wait for "
                    "this world (try again in a moment)"
                ) from None
            time.sleep(_PAUSE_S)
        except OSError as error:
            connection.close()
            raise Unavailable(f"{path}: {error.strerror or error}") from error
        except BaseException:
            connection.close()
            raise
        else:
            return connection


def ask_running(path: Path, op: str) -> Message:
    """Ask the process that runs the world at ``path``: ``status``, or ``stop``.

    Raises:
        Unavailable: Nobody runs it, or nobody answers.
    """
    folder = open_folder(path)
    remote = _connect(folder, 0.0)
    if remote is None:
        raise Unavailable(f"{path}: nobody runs this world (aos run {path})")
    try:
        return remote.ask({"op": op})
    finally:
        remote.close()
