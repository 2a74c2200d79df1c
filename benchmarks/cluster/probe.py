"""Callers that ask one thing after the other while processes are killed, and keep books."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from aos.errors import AosError, Unavailable

PACE_S: Final = 0.02
"""Pause of a caller between two requests: a kill is to meet few events, and often."""

RETRY_S: Final = 0.05
PATIENCE_S: Final = 180.0

Send = Callable[[str, str], object]
"""Adds 1 to the sum of a key, under a submission id; raises AosError or OSError where it is not
known whether that was done."""


class Probe:
    """Callers while the block runs, one thread and one key for each of ``senders``.

    A request is sent again under its id until it is acknowledged, also at the end of the block.
    """

    def __init__(self, senders: Sequence[Send]) -> None:
        self.counts = {f"probe-{number}": 0 for number in range(len(senders))}
        self._answers: list[tuple[int, int]] = []
        self._is_over = threading.Event()
        self._problem: Exception | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(key, send), name=key, daemon=True)
            for key, send in zip(self.counts, senders, strict=True)
        ]

    @property
    def acknowledged_ns(self) -> list[int]:
        """The time of each acknowledgement so far, by ``time.perf_counter_ns``."""
        return [at_ns for _, at_ns in list(self._answers)]

    def wait_for_answer(self, sent_after_ns: int) -> int:
        """Wait until a request that was sent after ``sent_after_ns`` is acknowledged; return the
        time of that.

        Raises:
            Unavailable: None is in three minutes, or an answer was a refusal.
        """
        until_s = time.monotonic() + PATIENCE_S
        position = 0
        while time.monotonic() < until_s:
            answers = self._answers[position:]
            position += len(answers)
            for sent_ns, at_ns in answers:
                if sent_ns > sent_after_ns:
                    return at_ns
            if self._problem is not None:
                raise Unavailable(f"a caller has failed: {self._problem!r}")
            time.sleep(0.005)
        raise Unavailable(f"no request was acknowledged for {PATIENCE_S:g} s")

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        for thread in self._threads:
            # After an error, nothing may answer any more.
            thread.join(0.0 if error is not None else PATIENCE_S)
        if error is not None:
            return
        if self._problem is not None:
            raise Unavailable(f"a caller has failed: {self._problem!r}")
        if any(thread.is_alive() for thread in self._threads):
            raise Unavailable("the last requests were not acknowledged")

    def _run(self, key: str, send: Send) -> None:
        try:
            while not self._is_over.is_set():
                self._add_one(key, f"{key}-{self.counts[key]}", send)
                self._is_over.wait(PACE_S)
        except Exception as problem:  # noqa: BLE001  # for the thread that waits
            self._problem = problem

    def _add_one(self, key: str, submission_id: str, send: Send) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while True:
            sent_ns = time.perf_counter_ns()
            try:
                send(key, submission_id)
            except (AosError, OSError):
                if time.monotonic() > until_s:
                    raise
                time.sleep(RETRY_S)
            else:
                self._answers.append((sent_ns, time.perf_counter_ns()))
                self.counts[key] += 1
                return
