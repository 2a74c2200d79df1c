"""``MachineHost``: what the effects of one process share, or why it is not configured (AG-60).

Sessions are a working directory, an environment and an end, kept in files (AG-69 to AG-101):

    STATE/HOST-SESSION-ID/session     the session
    STATE/HOST-SESSION-ID/begun/      an empty file for each command that has begun
    STATE/HOST-SESSION-ID/changes/    the planned changes of files, and those that were made

A session gives nothing that its id does not give: its working directory is walked again, from the
root, each time that it is used. So a command that alters these files gains nothing by it.

The executor's own files are small, and each is replaced as a whole and durable (AG-69). They are in
the folder of the world, so each is opened through ``PlainFolder``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from aos.effects.machine.contained_paths import ContainedFolder, Parts
from aos.effects.machine.guarded_command import GuardedCommands
from aos.effects.machine.host_outputs import ERROR, Declined, invalid
from aos.errors import BadUsage
from aos.store.plain_files import PlainFolder
from aos.values.cbor import Value, decode_record, encode
from aos.values.errors import MalformedCbor
from aos.worker import EffectContext, NotConfigured
from aos.worker.host_root import ROOT_VARIABLE, STATE_VARIABLE, are_apart

ENDING_S: Final = 1.5
"""How long commands may take to end with the process, which has 2 s in all (X-52)."""

SECOND_NS: Final = 10**9
DAY_NS: Final = 24 * 3600 * SECOND_NS
TTL_DEFAULT_NS: Final = 7 * DAY_NS
TTL_MAX_NS: Final = 366 * DAY_NS
KEPT_NS: Final = 30 * DAY_NS
"""How long the files of a session that has ended are kept."""

ENV_BYTES_MAX: Final = 64 * 1024
FORMAT: Final = 1
SESSION: Final = "session"
BEGUN: Final = "begun"
CHANGES: Final = "changes"
HOST_NETWORK: Final = "host"
NO_NETWORK: Final = "none"

_ID: Final = re.compile(r"host-[0-9a-f]{32}")
_INTENT: Final = re.compile(r"blake3:([0-9a-f]{64})")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

FILE_BYTES_MAX: Final = 80 * 1024 * 1024


class MachineHost:
    """The root, the sessions and the running commands. ``changing`` is held while files are read,
    changed and written."""

    def __init__(self, root: Path, state: Path) -> None:
        self.root = ContainedFolder(root)
        if not are_apart(self.root.path, state):
            raise BadUsage(
                f"{STATE_VARIABLE} {state}: expected a folder apart from the root {root}, whose "
                "files effects change"
            )
        try:
            self.sessions = HostSessions(state.absolute())
        except OSError as error:
            raise BadUsage(f"{STATE_VARIABLE} {state}: {error.strerror}") from error
        self.commands = GuardedCommands()
        self.changing = threading.Lock()


def machine_host(ctx: EffectContext) -> MachineHost:
    """The resource of the process.

    Raises:
        NotConfigured: No root was given.
    """
    resource = ctx.resource
    if not isinstance(resource, MachineHost):
        raise NotConfigured(
            "host_root_missing",
            f"{ctx.effect} needs a folder of this machine, and none was given",
            "restart it with --host-root DIR",
        )
    return resource


@asynccontextmanager
async def opened_machine() -> AsyncIterator[MachineHost | None]:
    """Read root and state from the environment. At its end, no command is left.

    Raises:
        BadUsage: The root is no folder, or the state cannot be kept.
    """
    root = os.environ.get(ROOT_VARIABLE, "")
    if not root:
        yield None
        return
    host = await asyncio.to_thread(MachineHost, Path(root), _state_folder(root))
    try:
        yield host
    finally:
        await host.commands.end_all(ENDING_S)
        host.root.close()


def _state_folder(root: str) -> Path:
    state = os.environ.get(STATE_VARIABLE, "")
    if not state:
        raise BadUsage(
            f"{ROOT_VARIABLE}={root}: expected {STATE_VARIABLE} too, a folder of this machine "
            "outside of it, in which sessions are kept"
        )
    return Path(state)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSession:
    """``closed_by`` is the intent of the signal that closed it. Times are wall clock in ns."""

    id: str
    workdir: Parts
    env: Mapping[str, str]
    network: str
    started_ns: int
    expires_ns: int
    closed_ns: int | None = None
    closed_by: str | None = None

    @property
    def ended_ns(self) -> int:
        """When it was closed, or else the time at which it expires."""
        return self.expires_ns if self.closed_ns is None else self.closed_ns

    def to_value(self) -> Any:
        return {
            "format": FORMAT,
            "id": self.id,
            "workdir": list(self.workdir),
            "env": dict(self.env),
            "network": self.network,
            "started_ns": self.started_ns,
            "expires_ns": self.expires_ns,
            "closed_ns": self.closed_ns,
            "closed_by": self.closed_by,
        }

    @classmethod
    def from_value(cls, value: Any) -> HostSession | None:
        """None unless it is the value of a session."""
        if not isinstance(value, dict) or value.pop("format", None) != FORMAT:
            return None
        try:
            session = cls(**{**value, "workdir": tuple(value["workdir"])})
            times = (session.started_ns, session.expires_ns, session.ended_ns)
            check_env(session.env)
        except (TypeError, KeyError, Declined):
            return None
        is_sound = all(type(moment) is int for moment in times) and all(
            isinstance(name, str) for name in session.workdir
        )
        return session if is_sound else None


class HostSessions:
    """The sessions of one state folder. Methods raise ``OSError`` or ``Damage`` if it cannot be
    used."""

    def __init__(self, folder: Path) -> None:
        self._folder = StateFolder(folder)
        self._remove_old(time.time_ns() - KEPT_NS)

    def find(self, id: str) -> HostSession | None:
        """Any session that there is a file of, also one that has ended."""
        if not _ID.fullmatch(id):
            return None
        session = HostSession.from_value(self._file(id).read())
        return session if session is not None and session.id == id else None

    def active(self, id: str) -> HostSession:
        """
        Raises:
            Declined: ``session_unknown``, ``session_closed`` or ``session_expired``.
        """
        session = self.find(id)
        if session is None:
            raise unknown_session(id)
        if session.closed_ns is not None:
            raise Declined(ERROR, "session_closed", f"the session {id} was closed by a signal")
        if time.time_ns() >= session.expires_ns:
            raise Declined(ERROR, "session_expired", f"the session {id} has expired")
        return session

    def add(self, session: HostSession) -> None:
        """Make a session durable."""
        self._file(session.id).write(session.to_value())

    def close(self, session: HostSession, *, intent: str) -> HostSession:
        """Close it for all further effects, durably."""
        closed = replace(session, closed_ns=time.time_ns(), closed_by=intent)
        self._file(session.id).write(closed.to_value())
        return closed

    def begin(self, session: HostSession, intent: str) -> bool:
        """Note durably that a command begins; False if it has begun before."""
        return self._folder.inner(session.id, BEGUN).file(digits_of(intent)).create()

    def has_begun(self, id: str, intent: str) -> bool:
        """Whether a command of this intent has begun, in any session with this id."""
        if not _ID.fullmatch(id):
            return False
        return self._folder.inner(id, BEGUN).file(digits_of(intent)).exists

    def changes_file(self, id: str, intent: str) -> StateFile:
        """The file of the changes that an intent makes, in a session with this id."""
        return self._folder.inner(id, CHANGES).file(digits_of(intent))

    def _file(self, id: str) -> StateFile:
        return self._folder.inner(id).file(SESSION)

    def _remove_old(self, before_ns: int) -> None:
        with self._folder.open_plain(make=True) as folder:
            for id in sorted(filter(_ID.fullmatch, folder.names())):
                session = self.find(id)
                if session is not None and session.ended_ns < before_ns:
                    with folder.inner(id) as inner:
                        _empty(inner)
                    folder.remove_folder(id)


def _empty(folder: PlainFolder) -> None:
    """Remove the files of a session, its own value last: without it, no one would look again."""
    for name in (BEGUN, CHANGES):
        if folder.find(name) is not None:
            with folder.inner(name) as inner:
                for file_name in list(inner.names()):
                    inner.remove(file_name)
            folder.remove_folder(name)
    for file_name in list(folder.names()):
        folder.remove(file_name)


def session_id(intent: str) -> str:
    """The id of the session that an intent opens, the same for each attempt (AG-69)."""
    return f"host-{digits_of(intent)[:32]}"


def digits_of(intent: str) -> str:
    """The hex digits of ``blake3:…``."""
    match = _INTENT.fullmatch(intent)
    assert match is not None, f"expected an intent, found {intent!r}"
    return match[1]


def unknown_session(id: str) -> Declined:
    return Declined(ERROR, "session_unknown", f"there is no session {id[:80]!r} on this machine")


def check_env(env: Mapping[str, str]) -> None:
    """
    Raises:
        Declined: ``invalid_params``: a name or value that no environment can have.
    """
    size = 0
    for name, value in env.items():
        if not _ENV_NAME.fullmatch(name) or "\0" in value:
            raise invalid(f"env: expected a name of letters, digits and _, found {name[:80]!r}")
        size += len(name) + len(value.encode())
    if size > ENV_BYTES_MAX:
        raise invalid(f"env: expected at most {ENV_BYTES_MAX} bytes, found {size}")


@dataclass(frozen=True, slots=True)
class StateFolder:
    """A folder below ``path``, which is opened for each use. A use raises ``OSError``, or
    ``Damage`` for a link or a special file."""

    path: Path
    names: tuple[str, ...] = ()

    def inner(self, *names: str) -> StateFolder:
        return StateFolder(self.path, (*self.names, *names))

    def file(self, name: str) -> StateFile:
        return StateFile(self, name)

    @contextmanager
    def open_plain(self, *, make: bool = False) -> Iterator[PlainFolder]:
        """The folder, made with all above it if ``make``."""
        with ExitStack() as stack:
            folder = stack.enter_context(PlainFolder.at_user_path(self.path.parent))
            for name in (self.path.name, *self.names):
                folder = stack.enter_context(folder.inner(name, make=make))
            yield folder


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file with one value. Its methods raise as the folder's uses do."""

    folder: StateFolder
    name: str

    def write(self, value: Value) -> None:
        """Replace the file. It is durable when this returns."""
        with self.folder.open_plain(make=True) as folder:
            folder.put(self.name, encode(value))

    def create(self) -> bool:
        """Make it without a value, durably; False if it exists."""
        with self.folder.open_plain(make=True) as folder:
            try:
                os.close(folder.create(self.name))
            except FileExistsError:
                return False
            folder.sync()
        return True

    def read(self) -> Any:
        """Its value; None if it is absent or has none."""
        try:
            with self.folder.open_plain() as folder:
                data = folder.read(self.name, FILE_BYTES_MAX)
        except FileNotFoundError:
            return None
        with contextlib.suppress(MalformedCbor):
            return decode_record(data)
        return None

    @property
    def exists(self) -> bool:
        """Whether anything has its name."""
        try:
            with self.folder.open_plain() as folder:
                return folder.find(self.name) is not None
        except FileNotFoundError:
            return False

    def remove(self) -> None:
        """Remove it, if it is there."""
        with self.folder.open_plain() as folder:
            folder.remove(self.name)
