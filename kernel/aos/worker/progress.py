"""Progress reports of a running function -> stream frames of its intent (X-70 to X-74).

Functions report from their own threads and never block. The loop that talks to the node sends the
frames at the rate that the manifest allows. Beyond a bound, the oldest waiting frame is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from aos.manifest.limits import MIB, WorldLimits
from aos.values.cbor import encode
from aos.values.digests import Hash
from aos.values.errors import ValueProblem
from aos.worker.outcome import StreamFrame
from aos.worker.redaction import Redactor
from aos.worker.results import to_value

KIND_BYTES_MAX: Final = 128

WAITING_MAX: Final = 64
WAITING_BYTES_MAX: Final = MIB
"""Maximum number and size of all waiting frames (X-72). A larger frame may wait if it is alone."""

RATE_MAX: Final = 4096
WINDOW_S: Final = 1.05
"""Slightly more than the second of the rate limit, because the journal has another clock."""

ATTEMPT_BITS: Final = 32
"""Frames are numbered from ``attempt << 32``, so that a later attempt has larger numbers (X-71)."""

Tell = Callable[[object, object, object], None]
"""Takes kind, payload and blob, from any thread. Returns at once and never raises."""


class ProgressStream:
    """The frames of one intent. Created and used on the loop that talks to the node.

    ``first`` is the lowest number that a frame may have. Without ``has_taker`` all frames are
    dropped. ``complain`` is called with the first invalid report, and only with that one. A report
    that holds a secret of ``redactor`` is invalid.
    """

    def __init__(
        self,
        *,
        intent: Hash,
        effect: str,
        limits: WorldLimits,
        first: int,
        has_taker: bool,
        send: Callable[[StreamFrame], None],
        complain: Callable[[str], None],
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._intent = intent
        self._effect = effect
        self._limits = limits
        self._next = first
        self._has_taker = has_taker
        self._send = send
        self._complain = complain
        self._redactor = redactor
        self._clock = clock
        self._lock = threading.Lock()
        self._attempt: int | None = None
        self._waiting: deque[StreamFrame] = deque()
        self._waiting_bytes = 0
        self._is_planned = False
        self._timer: asyncio.TimerHandle | None = None
        self._sent_at: deque[float] = deque()
        self._sent = 0
        self._has_complained = False
        self.dropped = 0

    def begin(self, attempt: int) -> Tell:
        """Return the callback for this attempt's reports; it does nothing after the attempt."""
        with self._lock:
            self._attempt = attempt
            self._next = max(self._next, attempt << ATTEMPT_BITS)
        return partial(self._tell, attempt)

    def end(self) -> None:
        """End the attempt: send the newest waiting frames, as many as the rate allows (X-72)."""
        with self._lock:
            self._attempt = None
            waiting = list(self._waiting)
            self._waiting.clear()
            self._waiting_bytes = 0
            room = self._room()
            newest = waiting[max(0, len(waiting) - room) :]
            self.dropped += len(waiting) - len(newest)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._is_planned = False
        for frame in newest:
            self._leave(frame)

    # Any thread

    def _tell(self, attempt: int, kind: object, payload: object, blob: object) -> None:
        """Take a report; complain of the first invalid one, and never raise (X-73)."""
        try:
            self._put(attempt, *self._read(kind, payload, blob))
        except Exception as problem:  # noqa: BLE001  # an odd object must not fail the effect
            if not self._has_complained:
                self._has_complained = True
                self._complain(
                    f"progress: {problem} (dropped; the effect continues; reported only once)"
                )

    def _read(self, kind: object, payload: object, blob: object) -> tuple[str, bytes, bytes | None]:
        """Check a report. Raises ValueProblem if it cannot become a frame."""
        if self._redactor is not None:
            check_secrets(self._redactor, kind, payload, blob)
        if not isinstance(kind, str) or not 0 < len(kind.encode("utf-8")) <= KIND_BYTES_MAX:
            raise ValueProblem(
                f"kind: expected text of 1 to {KIND_BYTES_MAX} bytes, found {kind!r:.80}"
            )
        if not isinstance(blob, bytes | bytearray | memoryview | None):
            raise ValueProblem(f"blob: expected bytes, found {type(blob).__name__}")
        data = _payload(payload)
        _check_size("payload", data, self._limits.stream_bytes, "stream_bytes")
        blob_bytes = None if blob is None else bytes(blob)
        if blob_bytes is not None:
            _check_size("blob", blob_bytes, self._limits.event_bytes, "event_bytes")
        return str(kind), data, blob_bytes

    def _put(self, attempt: int, kind: str, payload: bytes, blob: bytes | None) -> None:
        with self._lock:
            if attempt != self._attempt:
                return
            frame = StreamFrame(
                intent=self._intent,
                effect=self._effect,
                attempt=attempt,
                frame_seq=self._next,
                frame_kind=kind,
                payload=payload,
                blob=blob,
            )
            self._next += 1
            if not self._has_taker:
                self.dropped += 1
                return
            self._waiting.append(frame)
            self._waiting_bytes += frame.size
            while len(self._waiting) > 1 and (
                len(self._waiting) > WAITING_MAX or self._waiting_bytes > WAITING_BYTES_MAX
            ):
                self._waiting_bytes -= self._waiting.popleft().size
                self.dropped += 1
            if self._is_planned:
                return
            self._is_planned = True
        # The loop is closed only when the process is about to end.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._pump)

    # The loop that talks to the node

    def _pump(self) -> None:
        """Send waiting frames; if the rate does not allow all of them now, continue later."""
        self._timer = None
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_planned = False
                    return
                if not self._room():
                    pause_s = self._sent_at[0] + WINDOW_S - self._clock()
                    self._timer = self._loop.call_later(max(pause_s, 0.001), self._pump)
                    return
                frame = self._waiting.popleft()
                self._waiting_bytes -= frame.size
            self._leave(frame)

    def _room(self) -> int:
        """How many frames the rate allows now."""
        sent_at, now = self._sent_at, self._clock()
        while sent_at and now - sent_at[0] >= WINDOW_S:
            sent_at.popleft()
        return min(self._limits.stream_rate, RATE_MAX) - len(sent_at)

    def _leave(self, frame: StreamFrame) -> None:
        if self._sent >= self._limits.stream_frames:
            self.dropped += 1
            return
        self._sent += 1
        self._sent_at.append(self._clock())
        self._send(frame)


def _payload(payload: Any) -> bytes:
    """Bytes unchanged; any other value in canonical CBOR."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    return encode(to_value(payload))


def check_secrets(redactor: Redactor, kind: object, payload: object, blob: object) -> None:
    """Refuse a report that holds a secret (X-77). No text quotes the report: a part of a secret
    could not be found in it.

    Raises:
        ValueProblem: It holds one, or what it holds cannot be found out.
    """
    try:
        data = [str(kind).encode(), _payload(payload)]
        data += [bytes(blob)] if isinstance(blob, bytes | bytearray | memoryview) else []
    except Exception as problem:
        raise ValueProblem(
            "expected a kind, a plain value and bytes (the value found is not shown, because the "
            "task has secrets)"
        ) from problem
    if any(map(redactor.holds, data)):
        raise ValueProblem(f"it holds the value of {redactor.finds}")


def _check_size(field: str, data: bytes, bytes_max: int, limit: str) -> None:
    if len(data) > bytes_max:
        raise ValueProblem(
            f"{field}: expected at most {bytes_max} bytes, found {len(data)} "
            f"(limits.world.{limit} in the manifest)"
        )
