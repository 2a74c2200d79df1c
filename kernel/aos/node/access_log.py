"""The access log: one JSON line for each request, without bodies, queries and tokens
(spec/node-api.md, N-137)."""

from __future__ import annotations

import json
import time
from typing import Final, TextIO

from aos.errors import excerpt
from aos.values.spelling import time_text

_PATH_CHARACTERS_MAX: Final = 200


class AccessLog:
    """Writes to a stream. A stream that can no longer be written ends the log, not the node."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(
        self,
        *,
        method: str,
        path: str,
        status: int,
        seconds: float,
        received: int,
        sent: int,
        token: str | None,
        peer: str,
    ) -> None:
        """Write one line. ``received`` and ``sent`` are bytes of bodies."""
        if self._stream is None:
            return
        line = {
            "time": time_text(time.time_ns()),
            "method": method,
            "path": excerpt(path, characters_max=_PATH_CHARACTERS_MAX),
            "status": status,
            "ms": round(seconds * 1000, 3),
            "received": received,
            "sent": sent,
            "token": token,
            "peer": peer,
        }
        try:
            # ASCII: a path may contain control characters and lone surrogates.
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None
