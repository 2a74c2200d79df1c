"""Write to a world through the socket of the process that runs it (H-50 to H-59)."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aos.core.decide.answers import Answer
from aos.core.journal.governing import GovernanceInput
from aos.core.journal.inputs import (
    ControlInput,
    EventInput,
    ManifestInput,
)
from aos.core.journal.records import Principal
from aos.errors import Refused, Unavailable
from aos.host.door.governance_messages import governance_fields, read_proposal_row
from aos.host.door.protocol import (
    LENGTH_BYTES,
    MESSAGE_BYTES_MAX,
    MIB,
    RETRY_ITEMS_MAX,
    control_fields,
    event_fields,
    forget_fields,
    length,
    pack,
    raise_error,
    read_answer,
    short_path,
    unpack,
)
from aos.host.door.way import BUSY_S, CONNECT_S, PAUSE_S, SignedState, WaitPatience, while_busy
from aos.host.errors import nothing_durable
from aos.host.folder.folder import SOCKET, WorldFolder, open_folder
from aos.manifest.effective import Effective
from aos.message_fields import Message, field
from aos.shell_text import shell_word
from aos.store.rows import Forget
from aos.values.cbor import Value
from aos.values.digests import Hash

if TYPE_CHECKING:  # they come with the engine, which a client of a running world does not need
    from aos.host.apply.manifest_trial import ManifestTrial
    from aos.host.world.collecting import Begun
    from aos.host.world.snapshots import MadeSnapshot

T = TypeVar("T")

ANSWER_S: Final = 60.0
"""Seconds that one answer may take, including the commit."""

APPLY_S: Final = 600.0
"""The same for ``apply``, which compiles the modules first."""

SNAPSHOT_S: Final = 3600.0
"""The same for requests that wait for a snapshot."""

_CREDENTIALS: Final = struct.Struct("3i")
"""Linux's ``struct ucred``: pid, uid, gid."""

LOOK_S: Final = 1.0
"""Seconds without an answer after which the client finds out why, if it has patience."""

RECONNECTS_MAX: Final = 3
"""How often one request is sent again because its connection was closed while idle (H-51b)."""

UNKNOWN: Final = (
    "it is unknown whether the request was accepted (events with submission ids can be sent again)"
)


class NotSent(Unavailable):
    """The connection was closed before the whole request was sent: the world never saw it."""

    is_unsent = True


class RequestWay:
    """The ``Way`` to a world by requests to the process that runs it."""

    def ask(self, fields: Mapping[str, Value], *, answer_s: float | None = None) -> Message:
        """Send one request and return its answer. While the world is busy, the request is retried.

        Raises:
            AosError: The error that the world answered.
            Unavailable: The connection broke, or no answer came in time.
        """
        raise NotImplementedError

    def ask_with_modules(
        self, fields: Mapping[str, Value], modules: Iterable[bytes], *, answer_s: float
    ) -> Message:
        """Stage modules, then send the request that needs them. Raises as ``ask``."""
        raise NotImplementedError

    def signed_state(self) -> SignedState:
        answer = self.ask({"op": "manifest"})
        document = answer.get("document")
        return SignedState(
            world=Hash(field(answer, "world", bytes)),
            serial=field(answer, "serial", int),
            controls=field(answer, "controls", int),
            operators=tuple(Principal(name, key) for name, key in field(answer, "operators", list)),
            manifest=None if document is None else Effective.from_document(document),
            proposed=field({"proposed": 0, **answer}, "proposed", int),
            proposals=tuple(
                read_proposal_row(row)
                for row in field({"proposals": [], **answer}, "proposals", list)
            ),
        )

    def post(
        self, events: Sequence[EventInput], manifest: Effective | None
    ) -> Future[list[Answer]]:
        fields: dict[str, Value] = {
            "op": "send",
            "items": [event_fields(event) for event in events],
        }
        if manifest is not None:
            fields["manifest"] = manifest.hash
        future: Future[list[Answer]] = Future()
        answers = field(self.ask(fields), "answers", list) if events else []
        future.set_result([read_answer(answer) for answer in answers])
        return future

    def wait(self, answers: Future[list[Answer]]) -> list[Answer]:
        return answers.result()

    def apply(self, manifest_input: ManifestInput, modules: Mapping[Hash, bytes]) -> Answer:
        fields: dict[str, Value] = {
            "op": "apply",
            "document": manifest_input.document,
            "principal": manifest_input.principal,
            "serial": manifest_input.serial,
            "signature": manifest_input.signature,
            "mode": manifest_input.mode,
            "leaves": list(manifest_input.leaves),
        }
        if manifest_input.proposal is not None:
            fields["proposal"] = manifest_input.proposal
        answer = self.ask_with_modules(fields, modules.values(), answer_s=APPLY_S)
        return read_answer(answer.get("answer"))

    def try_manifest(self, trial: ManifestTrial, modules: Mapping[Hash, bytes]) -> dict[str, Any]:
        """Have the process try a manifest with its new modules, and return the report of that dry
        run (H-71c). Nothing changes.

        Raises:
            Refused: A module is refused, or the trial is not signed by an operator.
            BadUsage: The process has an earlier release of AOS, which tries nothing.
            AosError: As ``ask``.
        """
        fields: dict[str, Value] = {
            "op": "try",
            "document": trial.document,
            "principal": trial.principal,
            "serial": trial.serial,
            "signature": trial.signature,
            "mode": trial.mode,
            "leave_cells": trial.leave_cells,
        }
        answer = self.ask_with_modules(fields, modules.values(), answer_s=APPLY_S)
        report: dict[str, Any] = json.loads(field(answer, "report", bytes))
        return report

    def control(self, control: ControlInput) -> Answer:
        answer = self.ask({"op": "control", **control_fields(control)})
        return read_answer(answer.get("answer"))

    def govern(self, governance_input: GovernanceInput, modules: Mapping[Hash, bytes]) -> Answer:
        fields = {"op": "governance", **governance_fields(governance_input)}
        answer = self.ask_with_modules(fields, modules.values(), answer_s=APPLY_S)
        return read_answer(answer.get("answer"))

    def retry(self, intents: Sequence[Hash]) -> list[Hash]:
        """Run held and parked effects of the process again, at once; return those that run
        (H-59e)."""
        runs: list[Hash] = []
        for at in range(0, len(intents), RETRY_ITEMS_MAX):
            some: list[Value] = list(intents[at : at + RETRY_ITEMS_MAX])
            runs += field(self.ask({"op": "retry", "intents": some}), "runs", list)
        return runs

    def snapshot(self) -> MadeSnapshot:
        from aos.host.world.snapshots import MadeSnapshot  # noqa: PLC0415  # see above

        return MadeSnapshot.from_message(self.ask({"op": "snapshot"}, answer_s=SNAPSHOT_S))


class Remote(RequestWay):
    """The ``Way`` to a world through a connection to the process that runs it. If that process has
    closed the connection because it was idle, a new one is made (H-51b).

    Used by one thread at a time. An answer arrives once the input is durable; if the connection
    breaks before, it is unknown whether the request was taken.
    """

    def __init__(
        self,
        connection: socket.socket,
        path: Path,
        busy_s: float,
        patience: WaitPatience | None = None,
    ) -> None:
        self._patience = patience
        self._connection = connection
        self._path = path
        self._path_text = str(path)
        self._busy_s = busy_s
        self._collects = False
        """Whether the requests are those of a collection, which a full disk does not stop."""

    def begin_marking(self) -> Begun:
        from aos.host.world.collecting import Begun  # noqa: PLC0415  # see above

        self._collects = True
        # The other side may wait for a snapshot that is in progress.
        answer = self.ask({"op": "collect", "step": "begin"}, answer_s=SNAPSHOT_S)
        return Begun(token=field(answer, "token", int), base=field(answer, "base", int))

    def still_marking(self, token: int) -> None:
        self.ask({"op": "collect", "step": "beat", "token": token})

    def forget(self, token: int, rows: Forget) -> int:
        request = {"op": "collect", "step": "forget", "token": token, **forget_fields(rows)}
        return int(field(self.ask(request), "gone", int))

    def end_marking(self, token: int) -> None:
        self.ask({"op": "collect", "step": "end", "token": token})
        self._collects = False

    def compact(self) -> bool:
        return False

    def ask(self, fields: Mapping[str, Value], *, answer_s: float | None = None) -> Message:
        """As ``RequestWay.ask``."""
        return self._with_reconnects(lambda: self._ask(fields, answer_s=answer_s))

    def ask_with_modules(
        self, fields: Mapping[str, Value], modules: Iterable[bytes], *, answer_s: float
    ) -> Message:
        """As ``RequestWay.ask_with_modules``."""

        def act() -> Message:
            for wasm in modules:
                self._ask({"op": "module", "wasm": wasm})
            return self._ask(fields, answer_s=answer_s)

        # Staged modules belong to the connection: on a new one they are staged again.
        return self._with_reconnects(act)

    def _with_reconnects(self, act: Callable[[], T]) -> T:
        for _ in range(RECONNECTS_MAX):
            try:
                return act()
            except NotSent:
                connection = _connected(self._path)
                if connection is None:
                    raise
                self._connection.close()
                self._connection = connection
        return act()

    def _ask(self, fields: Mapping[str, Value], *, answer_s: float | None = None) -> Message:
        """Send one request over this connection and return its answer."""
        try:
            message = pack(fields)
        except OverflowError:
            raise Refused(
                f"the request is too large: expected at most {MESSAGE_BYTES_MAX} bytes"
            ) from None
        within_s = ANSWER_S if answer_s is None else answer_s

        def act() -> Message:
            answer = self._exchange(message, within_s)
            raise_error(answer)
            return answer

        return while_busy(act, self._busy_s, self._patience)

    def _exchange(self, message: bytes, within_s: float) -> Message:
        until_s = time.monotonic() + within_s
        try:
            try:
                self._connection.settimeout(within_s)
                self._connection.sendall(message)
            except (BrokenPipeError, ConnectionResetError) as error:
                raise NotSent(
                    f"{self._path_text}: the world went away: {error.strerror}; the request was "
                    "not accepted"
                ) from error
            size = length(self._receive(LENGTH_BYTES, until_s))
            return unpack(self._receive(size, until_s))
        except TimeoutError:
            raise Unavailable(
                f"{self._path_text}: no answer in {within_s} seconds; {UNKNOWN}"
            ) from None
        except OSError as error:
            raise Unavailable(
                f"{self._path_text}: the world went away: {error.strerror or error}; {UNKNOWN}"
            ) from error

    def _receive(self, size: int, until_s: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            left_s = max(0.001, until_s - time.monotonic())
            self._connection.settimeout(left_s if self._patience is None else min(LOOK_S, left_s))
            try:
                part = self._connection.recv(min(size - len(data), MIB))
            except TimeoutError:
                if self._patience is None or time.monotonic() >= until_s:
                    raise
                self._look(self._patience)
                continue
            if not part:
                raise ConnectionResetError("the connection was closed")
            data += part
        return bytes(data)

    def peer_pid(self) -> int | None:
        """Return the pid of the process that answers, as this process would name it, which may be
        in another pid namespace; None if the system does not say, or it is not visible from here.
        """
        option = getattr(socket, "SO_PEERCRED", None)
        if option is None:
            return None
        credentials = self._connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(credentials)[0]) or None

    def _look(self, patience: WaitPatience) -> None:
        """Find out why there is no answer yet (H-57a). Raises: Unavailable: Patience is over."""
        reason = _standstill(self._path, collects=self._collects)
        if patience.is_over(reason):
            raise Unavailable(
                f"{self._path_text}: no answer in {patience.timeout_s:g} s: {reason}; {UNKNOWN}"
            )

    def close(self) -> None:
        self._connection.close()


def _standstill(path: Path, *, collects: bool) -> str | None:
    """Why the world behind a socket makes nothing durable; None if it does, or if it makes room for
    the collection of this client, ``collects``."""
    try:
        connection = _connected(path, within_s=LOOK_S)
        if connection is None:
            return None  # the connection that waits ends, too
        asking = Remote(connection, path, 0.0)
        try:
            status = asking.ask({"op": "status"}, answer_s=LOOK_S)
        finally:
            asking.close()
    except Unavailable:
        return "the process that runs the world does not answer"
    no_room = status.get("no_room")
    if no_room is None or (collects and status.get("collecting") is True):
        return None
    return nothing_durable(str(no_room))


def connect(
    folder: WorldFolder, busy_s: float, patience: WaitPatience | None = None
) -> Remote | None:
    """Connect to the process that runs the world. None if none listens: there is no socket yet, or
    a dead process left it."""
    try:
        with folder.open_plain() as plain_folder:
            plain_folder.check_socket(SOCKET)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unavailable(f"{folder.socket}: {error.strerror or error}") from error
    connection = _connected(folder.socket)
    return None if connection is None else Remote(connection, folder.socket, busy_s, patience)


def _connected(path: Path, *, within_s: float = CONNECT_S) -> socket.socket | None:
    """Connect to the socket at ``path``; wait up to ``within_s`` while too many clients do so."""
    deadline = time.monotonic() + within_s
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(ANSWER_S)
            with short_path(path) as address:
                connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        except BlockingIOError:  # the system's queue of new connections is full
            connection.close()
            if time.monotonic() >= deadline:
                raise Unavailable(
                    f"{path}: no connection in {within_s:.0f} seconds: too many clients wait for "
                    "this world (try again in a moment)"
                ) from None
            time.sleep(PAUSE_S)
        except OSError as error:
            connection.close()
            raise Unavailable(f"{path}: {error.strerror or error}") from error
        except BaseException:
            connection.close()
            raise
        else:
            return connection


def retry_running(path: Path, intents: Sequence[Hash]) -> list[Hash] | None:
    """Ask the process that runs the world at ``path`` to run held and parked effects again; return
    those that run. None if no process runs the world: its next start publishes them (H-59e).

    Raises:
        Unavailable: The process does not answer.
    """
    remote = connect(open_folder(path), BUSY_S)
    if remote is None:
        return None
    try:
        return remote.retry(intents)
    finally:
        remote.close()


def ask_running(path: Path, op: str) -> Message:
    """Send ``status`` or ``stop`` to the process that runs the world at ``path`` (H-58).

    Raises:
        Unavailable: No process runs the world, or it does not answer.
    """
    folder = open_folder(path)
    remote = connect(folder, 0.0)
    if remote is None:
        raise Unavailable(
            f"{path}: no process runs this world (start one: aos run --world {shell_word(path)})"
        )
    try:
        answer = dict(remote.ask({"op": op}))
        if "pid" in answer:
            answer["pid"] = remote.peer_pid() or answer["pid"]
        return answer
    finally:
        remote.close()
