"""Attestations of a checkpoint: witnesses cosign it (spec/proofs.md, PF-84 to PF-87), and a server
puts an RFC 3161 time-stamp over it (PF-90 to PF-94), for which the extra ``aos-kernel[timestamp]``
brings the library.

Each needs one small HTTP request to a server that a command names; the size of the answer and the
time for it are bounded (PF-87).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self

from aos.errors import BadUsage, Damage, Unavailable, excerpt
from aos.prove.headerlog.checkpoint import Checkpoint
from aos.prove.headerlog.header_tree import consistency
from aos.prove.headerlog.signed_note import (
    COSIGNATURE,
    Note,
    NoteKey,
    NoteSignature,
    parse_note_key,
    parse_signature,
)
from aos.prove.headerlog.tiles import TiledLog
from aos.prove.headerlog.witness_protocol import (
    ADD_CHECKPOINT,
    CONFLICT,
    NOT_CONSISTENT,
    OK,
    SIZE_TYPE,
    format_request,
    parse_size,
)
from aos.store.plain_files import open_named
from aos.worker.redaction import Redactor
from aos.worker.url_secrets import url_secrets

_TRIES: Final = 3
_URL_AND_KEY: Final = re.compile(r"(?P<url>.*)=(?P<key>[^=+]+\+.+)")

_QUERY: Final = "application/timestamp-query"
_REPLY: Final = "application/timestamp-reply"
_OK: Final = 200
_CA_BYTES_MAX: Final = 1024 * 1024
_UNREADABLE: Final = (ValueError, TypeError, AttributeError)

SECONDS_MAX: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 * 1024
LINE_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Witness:
    """A witness: where it answers, and the key that it signs with."""

    server: NamedServer
    key: NoteKey

    @classmethod
    def of(cls, text: str) -> Witness:
        """Read ``URL=VKEY``.

        Raises:
            BadUsage: It has another form, or the key is no witness's.
        """
        # The address may have = in a query, the key at the end of its base64, but not in its name.
        match = _URL_AND_KEY.fullmatch(text)
        url = text if match is None else match["url"]
        if match is None or not url.startswith(("http://", "https://")):
            raise BadUsage(
                f"--witness {NamedServer.at(url, '--witness').redacted_url!r}: expected "
                "URL=VKEY, such as https://witness.example=NAME+HASH+KEY"
            )
        return cls(NamedServer.at(url.rstrip("/"), "--witness"), witness_key(match["key"]))


def witness_key(text: str) -> NoteKey:
    """Read the verifier key of a witness.

    Raises:
        BadUsage: It is none.
    """
    key = parse_note_key(text)
    if key.kind != COSIGNATURE:
        raise BadUsage(
            "this key signs notes as a log does, not as a witness does",
            location=excerpt(text),
            expected="a key of type 4, as aos key show prints it",
            actual=f"type {key.kind}",
        )
    return key


def ask(
    witness: Witness, note: Note, checkpoint: Checkpoint, log: TiledLog, old: int
) -> NoteSignature:
    """Ask one witness to cosign. ``old`` is the size that it cosigned last, as far as we know; if
    it says another, it is asked again.

    Raises:
        Damage: It cosigned a larger log: this journal was rolled back. Or it cosigned another root
            of this size, or frames that this log does not continue: this journal was rewritten.
        Unavailable: It does not answer, does not cosign, or answers with something else.
    """
    for _ in range(_TRIES):
        path = consistency(old, checkpoint.size, log.node)
        answer = witness.server.post(
            format_request(old, path, note.full_text), kind="text/plain", path=f"/{ADD_CHECKPOINT}"
        )
        if answer.status == OK:
            return _cosignature(witness, note, answer)
        latest = _latest(answer)
        if latest is None:
            raise _no(witness, answer, checkpoint, old)
        if latest > checkpoint.size:
            raise Damage(
                "the journal was rolled back: a witness has cosigned more of it",
                location=witness.server.redacted_url,
                expected=f"at least {latest} frames",
                actual=f"{checkpoint.size}",
                hint="restore the newer journal; the checkpoint was not stored",
            )
        if latest == old:
            break
        old = latest
    raise Unavailable(
        f"{witness.server.redacted_url}: the witness refuses the size that it names itself "
        "(ask its operator)"
    )


def _cosignature(witness: Witness, note: Note, answer: Posted) -> NoteSignature:
    try:
        lines = answer.body.decode().removesuffix("\n").split("\n")
        signatures = [
            signature for signature in map(parse_signature, lines) if witness.key.is_of(signature)
        ]
        if len(signatures) == 1 and Note(note.text, (signatures[0],)).is_signed_by(witness.key):
            return signatures[0]
    except (UnicodeDecodeError, Damage):
        pass
    raise Unavailable(
        "the witness answered with something else than its cosignature",
        location=witness.server.redacted_url,
        expected=f"one line, signed by {witness.key.text}",
        hint="check the key that --witness names",
    )


def _latest(answer: Posted) -> int | None:
    is_size = answer.kind.partition(";")[0].strip() == SIZE_TYPE
    return parse_size(answer.body) if answer.status == CONFLICT and is_size else None


def _no(witness: Witness, answer: Posted, checkpoint: Checkpoint, old: int) -> Damage | Unavailable:
    """What a refusal without a size shows. A witness compares the path only if ``old`` is the size
    that it cosigned last (PF-81), so a path that does not hold proves another history."""
    if answer.status == CONFLICT:
        return Damage(
            "the journal was rewritten: the witness cosigned another root of this size",
            location=witness.server.redacted_url,
            expected=f"the root that it cosigned for {checkpoint.size} frames",
            actual="another",
            hint="the checkpoint was not stored",
        )
    if answer.status == NOT_CONSISTENT and old:
        return Damage(
            "the journal was rewritten: it does not continue the frames that the witness cosigned",
            location=witness.server.redacted_url,
            expected=f"a journal that begins with the {old} frames that it cosigned",
            actual=f"{checkpoint.size} frames, of which the first {old} are others",
            hint="the checkpoint was not stored",
        )
    return Unavailable(
        f"{witness.server.redacted_url}: the witness did not cosign: it answered {answer.status}: "
        f"{witness.server.line(answer.body)!r}"
    )


class NotStamped(Exception):
    """A time-stamp does not show that the note existed at a time; the text is why."""


def stamp(note: Note, url: str) -> bytes:
    """Have the whole note time-stamped, and return the reply.

    Raises:
        Unavailable: The server does not answer, or answers with another time-stamp.
        BadUsage: ``url`` is no address, or the extra is not installed.
    """
    library = _library()
    data = note.full_text.encode()
    request = (
        library.TimestampRequestBuilder()
        .data(data)
        .hash_algorithm(library.HashAlgorithm.SHA256)
        .nonce(nonce=True)
        .cert_request(cert_request=True)
        .build()
    )
    server = NamedServer.at(url, "--timestamp")
    answer = server.post(request.as_bytes(), kind=_QUERY)
    if answer.status != _OK or answer.kind.partition(";")[0].strip() != _REPLY:
        raise Unavailable(
            f"{server.redacted_url}: the server did not answer with a time-stamp: status "
            f"{answer.status}, {server.line(answer.kind)!r}"
        )
    try:
        info = library.decode_timestamp_response(answer.body).tst_info
        stamped_values = (info.message_imprint.message, info.nonce)
    except _UNREADABLE as problem:
        raise Unavailable(
            f"{server.redacted_url}: the time-stamp cannot be read: {server.line(str(problem))}"
        ) from None
    if stamped_values != (sha256(data).digest(), request.nonce):
        raise Unavailable(
            f"{server.redacted_url}: the server answered with a time-stamp of something else"
        )
    return answer.body


def verified_time(note: Note, reply: bytes, ca: Path) -> datetime:
    """Check a time-stamp over a note by the certificates in ``ca``, and return its time.

    The stamp is over the note with all of its signatures, or without some of the last ones, which
    witnesses added later (PF-92).

    Raises:
        NotStamped: It is of something else, or not by a certificate that ``ca`` vouches for.
        BadUsage: ``ca`` cannot be read, or the extra is not installed.
    """
    library = _library()
    roots = _certificates(ca)
    try:
        response = library.decode_timestamp_response(reply)
        imprint, time = response.tst_info.message_imprint.message, response.tst_info.gen_time
    except _UNREADABLE as problem:
        raise NotStamped(f"it cannot be read: {excerpt(str(problem))}") from None
    data = next(
        (content for content in _stamped(note) if sha256(content).digest() == imprint), None
    )
    if data is None:
        raise NotStamped("it is over another file than this checkpoint")
    builder = library.VerifierBuilder(roots=roots)
    try:
        builder.build().verify_message(response, data)
    except (library.VerificationError, *_UNREADABLE) as problem:
        raise NotStamped(f"its signature does not verify: {excerpt(str(problem))}") from None
    assert isinstance(time, datetime)
    return time


def is_stamp_of(note: Note, reply: bytes) -> bool:
    """Whether a reply contains the hash of the note, so that it may be a time-stamp over it."""
    return any(sha256(content).digest() in reply for content in _stamped(note))


def _stamped(note: Note) -> Iterator[bytes]:
    for signatures in range(len(note.signatures), 0, -1):
        yield note.prefix(signatures).encode()


def _library() -> Any:
    try:
        return import_module("rfc3161_client")
    except ImportError:
        raise BadUsage(
            "time-stamps need another package (pip install 'aos-kernel[timestamp]')"
        ) from None


def _certificates(file: Path) -> list[Any]:
    x509 = import_module("cryptography.x509")  # it comes with the extra
    try:
        with os.fdopen(open_named(file), "rb") as open_file:
            data = open_file.read(_CA_BYTES_MAX)
    except OSError as problem:
        raise BadUsage(f"{file}: it cannot be read: {problem.strerror}") from problem
    try:
        return list(x509.load_pem_x509_certificates(data))
    except ValueError as problem:
        raise BadUsage(f"{file}: expected certificates in PEM: {problem}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """The answer to a request."""

    status: int
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server and its address, which may hold a token: messages say ``redacted_url`` (PF-87a)."""

    url: str = field(repr=False)
    redactor: Redactor = field(repr=False, compare=False)
    redacted_url: str

    @classmethod
    def at(cls, url: str, name: str) -> Self:
        """The server at ``url``; ``name`` is the option that gave it.

        Raises:
            BadUsage: It is no URL. The text names ``name`` alone.
        """
        redactor = Redactor(url_secrets(url, name))
        return cls(url, redactor, redactor.line(url, characters_max=LINE_CHARACTERS_MAX))

    def line(self, words: str | bytes) -> str:
        """Words of its answer for a message: one line, without parts of the address."""
        return self.redactor.line(words, characters_max=LINE_CHARACTERS_MAX)

    def post(
        self, body: bytes, *, kind: str, path: str = "", seconds: float = SECONDS_MAX
    ) -> Posted:
        """Send ``body`` to ``path`` below the address. Redirects are not followed, and the
        environment names no proxy.

        Raises:
            BadUsage: It is no address of a server.
            Unavailable: The whole answer does not come in ``seconds``, or it is too long.
        """
        import httpx  # noqa: PLC0415  # a process that asks nothing starts without it

        try:
            return asyncio.run(self._posted(self.url + path, body, kind, seconds))
        except TimeoutError:
            raise Unavailable(
                f"{self.redacted_url}: there is no whole answer after {seconds:g} s"
            ) from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as problem:
            raise BadUsage(
                f"{self.redacted_url!r}: expected the http or https address of a server: "
                f"{self.line(str(problem))}"
            ) from None
        except httpx.HTTPError as problem:
            reason = self.line(str(problem)) or type(problem).__name__
            raise Unavailable(f"{self.redacted_url}: no answer: {reason}") from None

    async def _posted(self, url: str, body: bytes, kind: str, seconds: float) -> Posted:
        import httpx  # noqa: PLC0415  # it is imported already

        # A server that sends a byte now and then resets the client's own time limits, not this one.
        async with (
            asyncio.timeout(seconds),
            httpx.AsyncClient(timeout=seconds, trust_env=False) as client,
            client.stream("POST", url, content=body, headers={"Content-Type": kind}) as answer,
        ):
            received = bytearray()
            async for piece in answer.aiter_raw(4096):
                received += piece
                if len(received) > ANSWER_BYTES_MAX:
                    raise Unavailable(
                        f"{self.redacted_url}: the answer is too long: expected at most "
                        f"{ANSWER_BYTES_MAX} bytes"
                    )
            return Posted(
                status=answer.status_code,
                kind=answer.headers.get("Content-Type", ""),
                body=bytes(received),
            )
