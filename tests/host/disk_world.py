"""A world that ``aos run`` drives in a process of its own, and a sender that keeps books of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import Head
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Event, Record, slot_bytes
from aos.core.state.state import State
from aos.errors import AosError, Unavailable
from aos.host.door.remote import ask_running
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.restore import restore
from aos.store.derived import differences
from tests.host.puppet import do
from tests.host.rig import eventually
from tests.store.journal import derived_rows

ROOT = Path(__file__).parents[2]
AOS = (sys.executable, "-m", "aos_cli.entry")
ENDS_S = 120.0
VALUE_BYTES = 3000


def environment(**more: str) -> dict[str, str]:
    paths = os.pathsep.join(str(ROOT / name) for name in ("kernel", "cli", ""))
    return {**os.environ, "PYTHONPATH": paths, "NO_COLOR": "1", **more}


class Running:
    """``aos run`` on a world, up unless it is not waited for; killed at the end of the block.

    ``before`` is a program that runs it.
    """

    def __init__(
        self,
        world: Path,
        *words: str | Path,
        before: tuple[str, ...] = (),
        env: Mapping[str, str] = MappingProxyType({}),
        is_awaited: bool = True,
    ) -> None:
        self.world = world
        self._command = [*before, *AOS, "run", "--world", str(world), *map(str, words)]
        self._env = env
        self._is_awaited = is_awaited

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._command,
            env=environment(**self._env),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._is_awaited:
            try:
                self._wait()
            except BaseException:
                self.__exit__(None, None, None)
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def _wait(self) -> None:
        """Wait until its socket answers."""
        eventually(lambda: self.process.poll() is not None or bool(self.status()), "it is up")
        assert self.process.poll() is None, self.ended()

    def status(self) -> dict[str, Any]:
        with contextlib.suppress(AosError):
            return dict(ask_running(self.world, "status"))
        return {}

    def until(self, name: str, *, is_set: bool) -> Any:
        """Wait until a figure of the status is something, or nothing."""
        values: list[Any] = []

        def is_so() -> bool:
            values[:] = [status.get(name)] if (status := self.status()) else []
            return bool(values) and bool(values[0]) is is_set

        eventually(is_so, f"{name} is {is_set}")
        return values[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Its exit code, and the last line that it wrote."""
        _, said = self.process.communicate(timeout=ENDS_S)
        lines = said.strip().splitlines()
        return self.process.returncode, lines[-1] if lines else ""


@dataclass
class Books:
    """A sender's submissions and answers: ``acknowledged`` has record numbers by submission id."""

    world: Path
    name: str = "event"
    sent: list[str] = field(default_factory=list)
    acknowledged: dict[str, int] = field(default_factory=dict)
    busy: str = ""

    def value(self, name: str) -> bytes:
        """Return a value unique to this name, so that each event has its own blob."""
        return (name.encode() * VALUE_BYTES)[:VALUE_BYTES]

    def send(self, count: int = 1, *, busy_s: float = 0.1) -> bool:
        """Send more; False once the world is busy or went away."""
        try:
            with open_writer(self.world, busy_s=busy_s) as writer:
                for _ in range(count):
                    name = f"{self.name}-{len(self.sent):06}"
                    self.sent.append(name)
                    # No output that a module would take: the cell fails at once, and is only mail.
                    [answer] = writer.send([do(name[-2:], self.value(name), name)], batch_items=1)
                    assert isinstance(answer, Admitted)
                    self.acknowledged[name] = answer.seq
        except Unavailable as problem:
            self.busy = str(problem)
            return False
        return True


class Load:
    """A sender in a thread of its own, which sends until the block ends or the world refuses.

    A sender that waits for an answer while the disk is full gets it once there is room, or when the
    world ends.
    """

    def __init__(self, books: Books) -> None:
        self._books = books
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._is_over.is_set() and self._books.send(4):
            pass

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(ENDS_S)
        assert not self._thread.is_alive(), "the sender still waits"


def check(*books: Books) -> list[Record]:
    """Assert that each acknowledged event is whole, at its acknowledged record, and there once."""
    sent = [name for each in books for name in each.sent]
    acknowledged = {name: seq for each in books for name, seq in each.acknowledged.items()}
    return check_journal(books[0].world, sent, acknowledged)


def check_journal(world: Path, sent: list[str], acknowledged: dict[str, int]) -> list[Record]:
    folder = open_folder(world)
    with folder.open_store(readonly=True) as store:
        head = store.head()
        state: State = restore(store, folder.world)
        assert head is not None
        assert Head.of(state.tip).message() == head.message()
        assert list(differences(store, derived_rows(store.frames()))) == []
        records = [from_bytes(data) for frame in store.frames() for data in frame.records]
        events = [each for each in records if isinstance(each, Event)]
        for event in events:
            slot_bytes(event.value, store.blob)
    assert [each.seq for each in records] == list(range(1, head.seq + 1))
    found = {str(each.submission_id): each.seq for each in events}
    assert len(found) == len(events), "an event is there twice"
    assert found.keys() <= set(sent)
    assert {name: found.get(name) for name in acknowledged} == acknowledged
    return records


@contextlib.contextmanager
def strace_on(process: subprocess.Popen[str], file: Path, *inject: str) -> Iterator[None]:
    """From here on calls of a running process on ``file`` fail as told."""
    command = ["strace", "-f", "-q", "-o", "/dev/null", "-P", str(file), "-p", str(process.pid)]
    tracer = subprocess.Popen(
        [*command, *(f"--inject={each}" for each in inject)], stderr=subprocess.DEVNULL
    )
    try:
        eventually(lambda: _is_traced(process.pid, tracer.pid), "all its threads are traced")
        yield
    finally:
        tracer.terminate()
        tracer.wait()


def _is_traced(pid: int, tracer: int) -> bool:
    """Whether each thread of a process is traced."""
    texts: list[str] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            texts.append((thread / "status").read_text())
    return bool(texts) and all(f"TracerPid:\t{tracer}\n" in text for text in texts)
