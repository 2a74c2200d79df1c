"""``Declined``: the status, code and message of a receipt that reports a failure (AG-62)."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Final

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
