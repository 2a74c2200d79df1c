"""The values of a world's secrets: the environment, and the file of ``--secrets`` (X-67).

A value is looked up when a request is sent and stored nowhere else. Errors, reports and ``repr``
show neither values nor any other part of the file except its keys.

Values of the file may be sealed with a keyring, so that a copy of the file alone shows none
(X-67a). A sealed value is the text ``aos-sealed:`` and base64 of the sealed form (spec/sealed.md)
of ``{"key": KEY, "value": TEXT}``. A value that was moved to another key does not open there.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aos.errors import AosError, BadUsage, Refused
from aos.manifest.manifest_secrets import Secret, is_key
from aos.sealing.keyring import Keyring
from aos.shell_text import shell_word
from aos.values.digests import content_hash, hash_text
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json
from aos.worker.worker_secrets import MISMATCH, UNAVAILABLE, VALUE_BYTES_MAX, VALUE_BYTES_MIN

FILE_BYTES_MAX: Final = 1024 * 1024

KEYRING_VARIABLE: Final = "AOS_SECRETS_KEYRING"
"""The variable with the path of the keyring that opens sealed values."""

SEALED_PREFIX: Final = "aos-sealed:"
"""A sealed value begins with it."""

_QUOTES: Final = ("'", '"')


class SecretProblem(Refused):
    """A secret cannot be used. ``code`` is the error code that the workflow receives."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Secrets:
    """Secrets of a node. ``file`` is read immediately, and again on the first use after a change.

    Raises:
        BadUsage, Refused: As ``read_secrets`` does.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._secret_file = None if file is None else read_secrets(file)

    def value(self, secret: Secret) -> bytes:
        """The present value of a secret.

        Raises:
            SecretProblem: It is missing, too short or too long, or does not have the digest that
                the manifest expects.
        """
        return checked(secret, self._unchecked_value(secret))

    def _unchecked_value(self, secret: Secret) -> bytes:
        binding = secret.binding
        if binding.source == "env":
            value = os.environb.get(binding.key.encode())
            if value is None:
                raise unavailable(secret, f"the environment has no {binding.key}")
            return value
        if self._file is None:
            raise unavailable(secret, "the node must be run with --secrets FILE")
        try:
            values = self._values(self._file)
        except AosError as problem:
            raise unavailable(secret, str(problem)) from None
        if binding.key not in values:
            raise unavailable(secret, f"{self._file} has no key {binding.key}")
        return values[binding.key]

    def _values(self, file: Path) -> Mapping[str, bytes]:
        try:
            is_fresh = self._secret_file is not None and self._secret_file.mark == _file_mark(
                file.stat()
            )
        except OSError as error:
            raise BadUsage(f"{file}: it cannot be read: {error.strerror}") from error
        if self._secret_file is None or not is_fresh:
            # Forget old values if this fails: a value that was removed must not be used.
            self._secret_file = None
            self._secret_file = read_secrets(file)
        return self._secret_file.values


def checked(secret: Secret, value: bytes) -> bytes:
    """Return a value that was found for a secret, if it can be used.

    Raises:
        SecretProblem: It is too short or too long, or does not have the expected digest.
    """
    if not VALUE_BYTES_MIN <= len(value) <= VALUE_BYTES_MAX:
        raise unavailable(
            secret,
            f"expected {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX} bytes, found {len(value)} "
            "(a shorter one could not be kept out of what comes back)",
        )
    if secret.expected_digest not in (None, content_hash(value)):
        assert secret.expected_digest is not None
        raise SecretProblem(
            MISMATCH,
            f"secret {secret.name}: the value at {secret.binding} is not the one whose hash "
            f"is {hash_text(secret.expected_digest)} (expected_digest in the manifest)",
        )
    return value


def unavailable(secret: Secret, reason: str) -> SecretProblem:
    """The problem of a secret without a value that can be used."""
    return SecretProblem(UNAVAILABLE, f"secret {secret.name} at {secret.binding}: {reason}")


@dataclass(frozen=True, slots=True)
class SecretFile:
    """The content of a file. ``mark`` changes when the file does."""

    values: Mapping[str, bytes] = field(repr=False)
    mark: tuple[int, ...]


def read_secrets(file: Path) -> SecretFile:
    """Read ``KEY=VALUE`` lines, or one JSON object of texts, from a file only its owner can read.

    In a line, the text after the first ``=`` is the value, without surrounding blanks; quotes are
    not allowed. Empty lines and lines that begin with ``#`` are skipped. Sealed values are opened
    with the keyring of ``AOS_SECRETS_KEYRING``.

    Raises:
        BadUsage: It cannot be read, or has another form.
        Refused: Others than its owner may read it.
    """
    try:
        # Non-blocking, so that a pipe or terminal is refused without waiting.
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as open_file:  # noqa: PTH123  # a descriptor, not a path
            status = os.fstat(descriptor)
            _check_access(file, status)
            data = open_file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadUsage(f"{file}: it cannot be read: {error.strerror}") from error
    if len(data) > FILE_BYTES_MAX:
        raise BadUsage(f"{file}: expected at most {FILE_BYTES_MAX} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadUsage(f"{file}: byte {error.start} is no part of UTF-8 text") from None
    found_texts = (
        _from_json(file, text) if text.lstrip().startswith("{") else _from_lines(file, text)
    )
    values = opened_values(file, found_texts)
    return SecretFile({key: value.encode() for key, value in values.items()}, _file_mark(status))


def _file_mark(status: os.stat_result) -> tuple[int, ...]:
    # Includes the mode: a file that others may read now is refused, even if unchanged.
    return (
        status.st_dev,
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _check_access(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise BadUsage(f"{file}: expected a file, which is read again when it changes")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise Refused(
            "others may read these secrets",
            location=str(file),
            expected="mode 0600",
            actual=f"mode {mode:04o}",
            hint=f"chmod 600 {shell_word(file)}",
        )


def _from_json(file: Path, text: str) -> dict[str, str]:
    try:
        values = parse_json(text, max_bytes=FILE_BYTES_MAX)
    except ValueProblem:
        # The error's message would quote the content.
        raise BadUsage(f"{file}: it begins with {{ and is not one JSON object") from None
    assert isinstance(values, dict)
    for number, (key, value) in enumerate(values.items(), start=1):
        if not is_key(key):
            raise BadUsage(f"{file}: entry {number}: expected a key of letters, digits and . _ / @")
        if not isinstance(value, str):
            raise BadUsage(f"{file}: {key}: expected text")
    return values


def _from_lines(file: Path, text: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        key, equals, value = (part.strip() for part in bare.partition("="))
        if not equals or not is_key(key):
            raise BadUsage(f"{file}: line {number}: expected KEY=VALUE")
        if key in values:
            raise BadUsage(f"{file}: line {number}: {key} is defined twice")
        if value[:1] in _QUOTES and len(value) > 1 and value[-1] == value[0]:
            raise BadUsage(
                f"{file}: line {number}: {key} has quotes around it, which would be part of the "
                "value (leave them out, or write the file as JSON)"
            )
        values[key] = value
    return values


def secrets_keyring(environment: Mapping[str, str] = os.environ) -> Keyring | None:
    """The keyring that ``AOS_SECRETS_KEYRING`` names; None without one.

    Raises:
        BadUsage: It cannot be read, or is none.
    """
    path = environment.get(KEYRING_VARIABLE, "")
    return Keyring.read(path) if path else None


def sealed_text(keyring: Keyring, key: str, value: str) -> str:
    """A value as the file has it."""
    return SEALED_PREFIX + keyring.seal_text({"key": key, "value": value}, path=key)


def opened_values(file: Path, values: Mapping[str, str]) -> dict[str, str]:
    """The values of a file, sealed ones opened.

    Raises:
        BadUsage: One cannot be opened. The message names its key alone.
    """
    if not any(value.startswith(SEALED_PREFIX) for value in values.values()):
        return dict(values)
    keyring = secrets_keyring()
    if keyring is None:
        raise BadUsage(
            "the file has sealed values",
            location=str(file),
            expected=f"{KEYRING_VARIABLE} with the path of their keyring",
            actual="no such variable in the environment",
        )
    return {
        key: _open_value(keyring, file, key, value) if value.startswith(SEALED_PREFIX) else value
        for key, value in values.items()
    }


def _open_value(keyring: Keyring, file: Path, key: str, value: str) -> str:
    try:
        content = keyring.open(base64.b64decode(value.removeprefix(SEALED_PREFIX), validate=True))
    except (binascii.Error, AosError) as problem:
        raise BadUsage(f"{file}: {key}: the sealed value does not open: {problem}") from None
    if not isinstance(content, dict) or content.get("key") != key:
        raise BadUsage(f"{file}: {key}: the sealed value is that of another key")
    text = content.get("value")
    if not isinstance(text, str):
        raise BadUsage(f"{file}: {key}: the sealed value is no text")
    return text
