"""RFC 3161 time-stamps over a checkpoint (spec/proofs.md, PF-90 to PF-94).

The extra ``aos-kernel[timestamp]`` brings the library that this needs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from aos.errors import BadUsage, Unavailable, excerpt
from aos.host.checkpoints.posting import NamedServer
from aos.prove.headerlog.signed_note import Note
from aos.store.plain_files import open_named

_QUERY: Final = "application/timestamp-query"
_REPLY: Final = "application/timestamp-reply"
_OK: Final = 200
_CA_BYTES_MAX: Final = 1024 * 1024
_UNREADABLE: Final = (ValueError, TypeError, AttributeError)


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
