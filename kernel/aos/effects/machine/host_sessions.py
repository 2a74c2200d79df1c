"""Sessions: a working directory, an environment and an end, kept in files (AG-69 to AG-101).

    STATE/HOST-SESSION-ID/session     the session
    STATE/HOST-SESSION-ID/begun/      an empty file for each command that has begun
    STATE/HOST-SESSION-ID/changes/    the planned changes of files, and those that were made

A session gives nothing that its id does not give: its working directory is walked again, from the
root, each time that it is used. So a command that alters these files gains nothing by it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from aos.effects.machine.contained_paths import Parts
from aos.effects.machine.declined import ERROR, Declined, invalid
from aos.effects.machine.state_files import StateFile, StateFolder
from aos.store.plain_files import PlainFolder

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
