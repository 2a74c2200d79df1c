"""How the effects on a machine end: bytes or lines as ``sys/HostOutput@1`` and
``sys/HostTextOutput@1`` (AG-67), or ``Declined``, which has the status, code and message of a
receipt that reports a failure (AG-62).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.effects.named_blob import name_and_document
from aos.values.digests import content_hash, hash_text

INLINE_BYTES_MAX: Final = 16 * 1024
PREVIEW_BYTES: Final = 512

_MODES: Final = {
    None: "auto",
    "auto": "auto",
    "inline": "inline",
    "require_inline": "inline",  # the word of AgentOS
    "blob": "blob",
}

OK: Final = "ok"
READY: Final = "ready"
ERROR: Final = "error"
NOT_FOUND: Final = "not_found"
FORBIDDEN: Final = "forbidden"
ALREADY_EXISTS: Final = "already_exists"
TIMEOUT: Final = "timeout"
SIGNALED: Final = "signaled"
ALREADY_EXITED: Final = "already_exited"
LOST: Final = "lost"


@dataclass(frozen=True, slots=True)
class HostOutput:
    """The value of a receipt's field, None if there are no bytes, and the blob that it names, with
    the document of its name (AG-30)."""

    value: dict[str, Any] | None
    blobs: tuple[bytes, ...] = ()


def mode_of(params: dict[str, Any]) -> str:
    """``auto``, ``inline`` or ``blob``.

    Raises:
        Declined: ``invalid_params``, for any other word.
    """
    word = params.get("output_mode")
    mode = _MODES.get(word)
    if mode is None:
        raise invalid(f"output_mode: expected auto, inline or blob, found {word!r:.40}")
    return mode


def output(data: bytes, mode: str, *, as_bytes: bool = False) -> HostOutput:
    """Text where the bytes are UTF-8, unless ``as_bytes``.

    Raises:
        Declined: ``inline_too_large``: the mode is ``inline``, and there are more than 16 KiB.
    """
    if not data:
        return HostOutput(None)
    if mode == "inline" and len(data) > INLINE_BYTES_MAX:
        raise Declined(
            ERROR,
            "inline_too_large",
            f"{len(data)} bytes: expected at most {INLINE_BYTES_MAX} with output_mode inline",
        )
    if mode == "blob" or len(data) > INLINE_BYTES_MAX:
        return _blob(data)
    if not as_bytes:
        try:
            return HostOutput({"$tag": "inline_text", "$value": {"text": data.decode()}})
        except UnicodeDecodeError:
            pass
    return HostOutput({"$tag": "inline_bytes", "$value": {"bytes": data}})


def _blob(data: bytes) -> HostOutput:
    """The few bytes without a true name are named by their content hash."""
    name_pair = name_and_document(data)
    value = {
        "blob_ref": hash_text(content_hash(data)) if name_pair is None else name_pair[0],
        "size_bytes": len(data),
        "preview_bytes": data[:PREVIEW_BYTES],
    }
    blobs = (data,) if name_pair is None else (data, name_pair[1])
    return HostOutput({"$tag": "blob", "$value": value}, blobs)


def shown_name(name: str) -> str:
    """A file's name as text of one line: bytes that are no UTF-8, backslashes before them and
    control characters are escaped."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else _escaped(character) for character in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


class Declined(Exception):  # a receipt, and no mistake
    """The effect has a receipt of its own schema, whose ``status`` and ``error_code`` are these.

    Nothing has changed when it is raised, unless the raising function says otherwise.
    """

    def __init__(self, status: str, code: str, message: str) -> None:
        super().__init__(status, code, message)
        self.status = status
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def invalid(message: str) -> Declined:
    """Params that no state of the machine could satisfy."""
    return Declined(ERROR, "invalid_params", message)


_BY_ERRNO: Final[Mapping[int, tuple[str, str]]] = {
    errno.ENOENT: (NOT_FOUND, "not_found"),
    errno.ENOTDIR: (ERROR, "not_a_directory"),
    errno.EISDIR: (ERROR, "is_directory"),
    errno.EEXIST: (ALREADY_EXISTS, "already_exists"),
    errno.EACCES: (FORBIDDEN, "access_denied"),
    errno.EPERM: (FORBIDDEN, "access_denied"),
    errno.EROFS: (FORBIDDEN, "access_denied"),
    errno.ENAMETOOLONG: (ERROR, "invalid_path"),
    errno.EILSEQ: (ERROR, "invalid_path"),
    errno.ELOOP: (ERROR, "path_changed"),
    errno.ENOSPC: (ERROR, "no_space"),
    errno.EDQUOT: (ERROR, "no_space"),
    errno.EFBIG: (ERROR, "too_large"),
}


def declined_of(error: OSError, path: str) -> Declined:
    """Translate an error of the file system. ``path`` is the path as the params gave it."""
    status, code = _BY_ERRNO.get(error.errno or 0, (ERROR, "io_error"))
    return Declined(status, code, f"{path}: {os.strerror(error.errno or 0)}")
