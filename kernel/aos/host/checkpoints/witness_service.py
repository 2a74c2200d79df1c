"""A witness: cosign checkpoints of logs that only ever grow, over HTTP (spec/proofs.md, PF-80 to
PF-86), or one that came as a file (PF-88).

Rule 1: the last checkpoint of each log is durable before its cosignature is answered.

Rule 2: comparing with the last checkpoint and replacing it is one step, for each log.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from nacl.signing import SigningKey

from aos.errors import AosError, Damage, Refused, Unavailable
from aos.host.checkpoints.named_files import as_witness, read_named, write_named
from aos.host.folder.folder import read_key
from aos.host.stamps import seconds_now
from aos.prove.headerlog.checkpoint import Checkpoint, parse_checkpoint
from aos.prove.headerlog.signed_note import (
    NOTE_BYTES_MAX,
    NoteKey,
    NoteSignature,
    cosign,
    parse_note,
    parse_note_key,
)
from aos.prove.headerlog.witness_protocol import (
    ADD_CHECKPOINT,
    CONFLICT,
    MALFORMED,
    NOT_CONSISTENT,
    OK,
    REQUEST_BYTES_MAX,
    SIZE_TYPE,
    AddCheckpoint,
    Answer,
    follows,
    format_request,
    parse_request,
    trusted_origin,
)
from aos.prove.proofs.checking import check
from aos.prove.proofs.proof_file import PROOF_BYTES_MAX, read_proof
from aos.store.plain_files import PlainFolder

_LOCK: Final = ".lock"
_SUFFIX: Final = ".checkpoint"

SECONDS_MAX: Final = 10.0
CONNECTIONS_MAX: Final = 32
_NOT_FOUND: Final = 404
_BUSY: Final = 503
_BROKEN: Final = 500
_TOO_LONG: Final = 413
_TEXT: Final = "text/plain; charset=utf-8"

STATE_SUFFIX = ".logs"


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


class WitnessServer(ThreadingHTTPServer):
    """A witness on one address. At most ``CONNECTIONS_MAX`` clients are heard at a time."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS_MAX

    def __init__(
        self, host: str, port: int, service: WitnessService, report: Callable[[str], None]
    ) -> None:
        """Listen at once; ``serve_forever`` answers.

        Raises:
            Unavailable: The address cannot be used.
        """
        self.service = service
        self.report = report
        self.connection_slots = threading.BoundedSemaphore(CONNECTIONS_MAX)
        try:
            super().__init__((host, port), _Handler)
        except OSError as problem:
            raise Unavailable(f"{host}:{port}: cannot listen there: {problem.strerror}") from None


class _Handler(BaseHTTPRequestHandler):
    """One request of one client; the connection then ends."""

    server: WitnessServer
    timeout = SECONDS_MAX
    server_version = "aos-witness"
    sys_version = ""

    def do_POST(self) -> None:
        if self.path.rstrip("/").rpartition("/")[2] != ADD_CHECKPOINT:
            self._answer(_NOT_FOUND, _TEXT, f"expected POST /{ADD_CHECKPOINT}\n")
            return
        body = self._body()
        if body is None:
            return
        if not self.server.connection_slots.acquire(blocking=False):
            self._answer(_BUSY, _TEXT, "the witness is busy: try again\n")
            return
        try:
            answer = self.server.service.add_checkpoint(body)
        except AosError as problem:
            self.server.report(str(problem))
            self._answer(_BROKEN, _TEXT, "the witness cannot store checkpoints now\n")
            return
        finally:
            self.server.connection_slots.release()
        self._tell(answer)

    def _body(self) -> bytes | None:
        """The body; None if it was refused."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 10):
            self._answer(MALFORMED, _TEXT, "expected a body with Content-Length\n")
            return None
        if int(length) > REQUEST_BYTES_MAX:
            self._answer(_TOO_LONG, _TEXT, f"expected at most {REQUEST_BYTES_MAX} bytes\n")
            return None
        body = self.rfile.read(int(length))
        if len(body) != int(length):
            self._answer(MALFORMED, _TEXT, "the body is cut short\n")
            return None
        return body

    def _tell(self, answer: NoteSignature | Answer) -> None:
        if isinstance(answer, NoteSignature):
            self._answer(OK, _TEXT, answer.line)
        elif answer.latest is not None:
            self._answer(answer.status, SIZE_TYPE, f"{answer.latest}\n")
        else:
            self._answer(answer.status, _TEXT, f"{answer.reason}\n")

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing for each request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosigned:
    """A checkpoint, and who signed it when, in seconds since 1970."""

    checkpoint: Checkpoint
    name: str
    time: int


def state_folder(key_file: Path, folder: Path | None) -> Path:
    """The folder with the last checkpoint of each log that a witness signed."""
    return key_file.with_name(key_file.name + STATE_SUFFIX) if folder is None else folder


def cosign_file(
    file: Path,
    *,
    key_file: Path,
    logs: Sequence[str],
    proof: Path | None = None,
    name: str | None = None,
    state: Path | None = None,
) -> Cosigned:
    """Cosign a checkpoint, and write it back with the new signature at its end.

    Raises:
        Refused: No log of ``logs`` signed it, or ``proof`` is needed. Nothing was signed.
        Damage: It does not continue the last one that this witness signed, or is none.
    """
    key = read_key(key_file)
    note = parse_note(read_named(file, NOTE_BYTES_MAX))
    checkpoint = parse_checkpoint(note.text)
    witness = as_witness(bytes(key.verify_key), name)
    with witness_state(state_folder(key_file, state)) as folder:
        service = WitnessService(
            name=witness.name, key=key, logs=tuple(map(parse_note_key, logs)), folder=folder
        )
        latest = service.latest(checkpoint.origin)
        path = () if proof is None else _path(proof, checkpoint, latest)
        size = 0 if latest is None else latest.size
        if latest is not None and latest.size < checkpoint.size and proof is None:
            raise Refused(
                f"{file}: this witness signed {latest.size} frames of the log before: name a proof "
                "that the checkpoint continues them (--proof FILE; aos proof since CHECKPOINT)"
            )
        if size > checkpoint.size:
            raise Damage(
                f"{file}: this witness signed {size} frames of the log before, and the checkpoint "
                f"has {checkpoint.size}: the journal was rolled back"
            )
        answer = service.add_checkpoint(format_request(size, path, note.full_text))
    if isinstance(answer, Answer):
        kind = Damage if answer.status in (CONFLICT, NOT_CONSISTENT) else Refused
        raise kind(f"{file}: nothing was signed: {answer.reason}")
    write_named(file, note.with_signatures([answer]).full_text.encode())
    time = answer.time
    assert time is not None, "a cosignature has a time"
    return Cosigned(checkpoint=checkpoint, name=answer.name, time=time)


def _path(proof: Path, checkpoint: Checkpoint, latest: Checkpoint | None) -> tuple[bytes, ...]:
    """The path in a proof from the last checkpoint that was signed to this one."""
    checked_proof = check(read_proof(read_named(proof, PROOF_BYTES_MAX)))
    old, path = checked_proof.old, checked_proof.proof.path
    if old is None or path is None:
        raise Refused(f"{proof}: expected a proof of consistency (aos proof since CHECKPOINT)")
    if (old, checked_proof.checkpoint) != (latest, checkpoint):
        expected = "none" if latest is None else f"{latest.size} frames"
        raise Refused(
            f"{proof}: it is about other checkpoints: expected from {expected} to "
            f"{checkpoint.size}, found from {old.size}"
        )
    return path
