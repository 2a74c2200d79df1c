"""``GET /log/…``: the files of the header log, for witnesses and monitors (N-119c, PF-20).

The files hold headers of frames and signed notes, and no record: everyone may read them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from aos.node.calls import ApiReply
from aos.node.problems import Problem
from aos.prove.headerlog.stored_log import CHECKPOINT, TIMESTAMP, StoredLog

LOG_PREFIX: Final = "/log/"
_TILE: Final = re.compile(
    r"tile/(?:entries|[0-7])/(?:x[0-9]{3}/){0,6}[0-9]{3}(?:\.p/(?:[1-9]|[1-9][0-9]|1[0-9]{2}|2[0-4]"
    r"[0-9]|25[0-5]))?"
)
_TYPES: Final = {CHECKPOINT: "text/plain; charset=utf-8", TIMESTAMP: "application/timestamp-reply"}
_BYTES: Final = "application/octet-stream"
_CHANGES: Final = "no-cache"
_NEVER_CHANGES: Final = "max-age=31536000, immutable"


def log_file(world: Path, path: str) -> ApiReply:
    """Read one file of the log. It may read the disk, so it is called on a thread.

    Raises:
        Problem: There is no such file.
        Damage: A link or another special file has its name.
    """
    name = path.removeprefix(LOG_PREFIX)
    is_tile = _TILE.fullmatch(name) is not None
    data = None
    if is_tile or name in _TYPES:
        with StoredLog.of_world(world) as log:
            data = None if log is None else log.file(tuple(name.split("/")))
    if data is None:
        raise Problem(
            404, "path_is_unknown", "the header log has no such file (aos checkpoint makes the log)"
        )
    return ApiReply(
        data=data,
        media=_TYPES.get(name, _BYTES),
        headers={"cache-control": _NEVER_CHANGES if is_tile else _CHANGES},
    )
