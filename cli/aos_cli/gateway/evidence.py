"""The evidence of a work: a small file, and its media type."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Final

from aos.errors import BadUsage, excerpt, sentence

EVIDENCE_BYTES_MAX: Final = 524_288
DEFAULT_TYPE: Final = "application/octet-stream"
TYPE_CHARACTERS_MAX: Final = 128

# A table of our own: the machine's table would give one file two types on two machines, and the
# second `create-work` would then be refused.
TYPES: Final = {
    ".cbor": "application/cbor",
    ".csv": "text/csv",
    ".gif": "image/gif",
    ".gz": "application/gzip",
    ".htm": "text/html",
    ".html": "text/html",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".md": "text/markdown",
    ".mp4": "video/mp4",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".tar": "application/x-tar",
    ".txt": "text/plain",
    ".wasm": "application/wasm",
    ".webp": "image/webp",
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".zip": "application/zip",
}
_PART: Final = r"[A-Za-z0-9!#$&^_.+-]+"
_TYPE: Final = re.compile(rf"{_PART}/{_PART}(?:; ?{_PART}=(?:{_PART}|\"[^\"\\]*\"))*")


def read_evidence(file: Path) -> bytes:
    """The bytes of the evidence.

    Raises:
        BadUsage: There is no plain file, or it is empty or too large.
    """
    expected = f"a file of 1 to {EVIDENCE_BYTES_MAX:,} bytes"
    try:
        # A pipe or a device could block, or have no end.
        if not stat.S_ISREG(file.stat().st_mode):
            raise BadUsage(
                sentence(f"--evidence {file}", expected=expected, actual="no plain file")
            )
        with file.open("rb") as stream:
            data = stream.read(EVIDENCE_BYTES_MAX + 1)
            size = max(len(data), file.stat().st_size)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadUsage(
            sentence(f"--evidence {file}: the evidence cannot be read: {reason}", hint=expected)
        ) from error
    if not 1 <= len(data) <= EVIDENCE_BYTES_MAX:
        raise BadUsage(sentence(f"--evidence {file}", expected=expected, actual=f"{size:,} bytes"))
    return data


def content_type(media_type: str | None, file: Path) -> str:
    """The media type that is given, or the one of the file's name.

    Raises:
        BadUsage: The given one is no media type.
    """
    if media_type is None:
        return TYPES.get(file.suffix.lower(), DEFAULT_TYPE)
    if not _TYPE.fullmatch(media_type) or len(media_type) > TYPE_CHARACTERS_MAX:
        raise BadUsage(
            sentence(
                "--content-type",
                expected="a media type such as application/json",
                actual=repr(excerpt(media_type)),
            )
        )
    return media_type
