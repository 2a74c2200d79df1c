"""Start and stop the process that runs the scratch world, for ``aos dev`` (AU-85)."""

# ruff: noqa: S603  # it starts our own module

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

from aos.authoring.world_child import Order

ENDS_S: Final = 10.0
"""Time that it has to stop cleanly."""

Message = Mapping[str, Any]


class WorldProcess:
    """A running ``aos.authoring.world_child``. Its own thread reads the messages."""

    def __init__(self, order: Order) -> None:
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "aos.authoring.world_child", order.to_text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C must not reach it: we stop it in order
        )
        assert self._process.stdout is not None
        self._listener = threading.Thread(target=self._listen, args=(self._process.stdout,))
        self._listener.start()

    def messages(self) -> Iterator[Message]:
        """The messages since the last call."""
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._messages.get_nowait()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended and all its messages have been received."""
        return not self._listener.is_alive() and self._process.poll() is not None

    @property
    def code(self) -> int | None:
        return self._process.poll()

    def stop(self) -> None:
        """Stop it cleanly and wait for its end; kill it if that takes too long."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(ENDS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()

    def _listen(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                try:
                    message = json.loads(line)
                except ValueError:
                    message = line.decode(errors="replace").rstrip()
                if not isinstance(message, dict):
                    message = {"note": str(message)}
                self._messages.put(message)
