"""A witness: cosign checkpoints of logs that only ever grow (spec/proofs.md, PF-80 to PF-86).

Rule 1: the last checkpoint of each log is durable before its cosignature is answered.

Rule 2: comparing with the last checkpoint and replacing it is one step, for each log.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from nacl.signing import SigningKey

from aos.errors import Damage, Unavailable
from aos.prove.headerlog.checkpoint import Checkpoint, parse_checkpoint
from aos.prove.headerlog.signed_note import (
    NOTE_BYTES_MAX,
    NoteKey,
    NoteSignature,
    cosign,
    parse_note,
)
from aos.prove.headerlog.witness_protocol import (
    MALFORMED,
    AddCheckpoint,
    Answer,
    follows,
    parse_request,
    trusted_origin,
)
from aos.store.plain_files import PlainFolder

_LOCK: Final = ".lock"
_SUFFIX: Final = ".checkpoint"


def seconds_now() -> int:
    """The wall clock, in seconds since 1970."""
    return int(time.time())


@dataclass(slots=True)
class WitnessService:
    """One witness: its name and key, the logs that it knows, and the folder of its state."""

    name: str
    key: SigningKey
    logs: Sequence[NoteKey]
    folder: PlainFolder
    clock: Callable[[], int] = seconds_now
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add_checkpoint(self, body: bytes) -> NoteSignature | Answer:
        """Answer one request.

        Raises:
            Damage: The state of the witness cannot be read. It cosigns nothing then.
            Unavailable: The checkpoint could not be made durable. It cosigned nothing.
        """
        try:
            request = parse_request(body)
        except Damage as problem:
            return Answer(status=MALFORMED, reason=str(problem))
        refused = trusted_origin(request, self.logs)
        if refused is not None:
            return refused
        with self._lock:
            refused = follows(request, self.latest(request.checkpoint.origin))
            if refused is not None:
                return refused
            signature = cosign(request.note.text, self.name, self.key, self.clock())
            self._keep(request, signature)
            return signature

    def latest(self, origin: str) -> Checkpoint | None:
        """The last checkpoint of a log that was cosigned. Raises ``Damage`` if it cannot be
        read."""
        try:
            data = self.folder.read(_file_of(origin), NOTE_BYTES_MAX)
        except FileNotFoundError:
            return None
        checkpoint = parse_checkpoint(parse_note(data).text)
        if checkpoint.origin != origin:
            raise Damage(f"{self.folder.path / _file_of(origin)}: it is of another log")
        return checkpoint

    def _keep(self, request: AddCheckpoint, signature: NoteSignature) -> None:
        """Replace the last checkpoint of the log, durably."""
        name = _file_of(request.checkpoint.origin)
        note = request.note.with_signatures([signature])
        trusted = [
            candidate
            for candidate in note.signatures
            if candidate is signature or any(key.is_of(candidate) for key in self.logs)
        ]
        data = type(note)(note.text, tuple(trusted)).full_text.encode()
        try:
            self.folder.put(name, data)
        except OSError as problem:
            raise Unavailable(
                f"{self.folder.path / name}: the checkpoint cannot be stored: {problem.strerror}"
            ) from problem


def _file_of(origin: str) -> str:
    return f"{sha256(origin.encode()).hexdigest()}{_SUFFIX}"


@contextlib.contextmanager
def witness_state(path: Path) -> Iterator[PlainFolder]:
    """The folder of a witness's state, which is made if it is missing, for one process alone.

    Raises:
        Unavailable: It cannot be made, or another process has it.
    """
    try:
        with PlainFolder.at_user_path(path.parent) as above:
            folder = above.inner(path.name, make=True)
            above.sync()
    except OSError as problem:
        raise Unavailable(f"{path}: the folder cannot be made: {problem.strerror}") from problem
    with folder:
        fd = folder.open(_LOCK, os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unavailable(f"{path}: another witness runs with this folder") from None
            yield folder
        finally:
            os.close(fd)
