"""``aos run`` on a group: a process for each shard, each of which runs ``aos run`` on its world
(spec/groups.md, GR-60 to GR-63).

Rule 1: the group runs whole or not at all. If a shard cannot be started, or dies too often, the
others stop in order.

Rule 2: a shard whose process dies is started again alone; the others do not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import Unavailable
from aos.host.executors.supervisor import BACKOFF_S, BACKOFF_S_MAX, QUICK_DEATHS_MAX, QUICK_S
from aos.host.folder.group import GroupFolder, open_group
from aos.node.child_program import kill
from aos.node.worlds.worlds_folder import WorldsFolder
from aos_cli.main import BUG
from aos_cli.output import line, note, print_json

PROGRAM: Final = (sys.executable, *QUICK_PROGRAM, "aos_cli.shard_run")

_LINE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ShardEnd:
    """How the process of a shard ended. ``output`` is what it printed on stdout."""

    shard: str
    code: int
    output: str

    @property
    def is_death(self) -> bool:
        """Whether it was killed or met a bug, so that another start may succeed."""
        return self.code < 0 or self.code == BUG

    @property
    def is_finished(self) -> bool:
        """Whether it ran to its end, be it late (``--max-wait``)."""
        return self.code == 0 or (self.code == Unavailable.exit_code and bool(self.output))

    @property
    def ending(self) -> str:
        return f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"


def run_group(path: Path, options: Sequence[str], *, json: bool) -> int:
    """Run all shards with these options of ``aos run``, until all have ended or a signal. Return
    the exit code: 0, or that of the first shard that ended with another one.

    Raises:
        Unavailable: A shard is missing, or another process runs the group.
        Damage: A shard's folder holds another world.
    """
    group = open_group(path)
    group.folders()
    words = [*options, *(["--json"] if json else [])]
    with WorldsFolder(group.path).locked():
        ends = asyncio.run(_GroupRun(group, words).run())
    if json:
        print_json({"shards": [_document(end) for end in ends]})
    else:
        for end in ends:
            for text in end.output.splitlines():
                line(f"{end.shard}: {text}")
    return next((BUG if end.code < 0 else end.code for end in ends if end.code), 0)


def _document(end: ShardEnd) -> dict[str, Any]:
    try:
        document = json.loads(end.output)
    except ValueError:
        document = {}
    return {"shard": end.shard, **document}


class _GroupRun:
    """One run of a group."""

    def __init__(self, group: GroupFolder, words: Sequence[str]) -> None:
        self._group = group
        self._words = words
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()

    async def run(self) -> list[ShardEnd]:
        note(f"running the {self._group.shards} shards of {self._group.path} (Ctrl-C stops them)")
        with _signals(self._stop):
            shards = [asyncio.create_task(self._lives(name)) for name in self._group.names]
            return await asyncio.gather(*shards)

    def _stop(self) -> None:
        """End all shards in order; when called again, make them hurry."""
        is_again = self._stopping.is_set()
        self._stopping.set()
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
            if is_again:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)

    async def _lives(self, name: str) -> ShardEnd:
        """Run one process of a shard after another, until one has finished."""
        quick = 0
        while True:
            if self._stopping.is_set():
                return ShardEnd(name, 0, "")
            begun_s = time.monotonic()
            end = await self._live(name)
            if self._stopping.is_set() and end.code == -signal.SIGTERM:
                return replace(end, code=0)  # before it had its own handler
            if self._stopping.is_set() or end.is_finished:
                return end
            quick = quick + 1 if time.monotonic() - begun_s < QUICK_S else 1
            if not end.is_death or quick >= QUICK_DEATHS_MAX:
                often = f", {quick} times in a row" if end.is_death else ""
                note(
                    f"aos: the shard {name} does not run ({end.ending}{often}; its message is "
                    "above): the group stops, and everything acknowledged is durable",
                    style="red",
                )
                self._stop()
                return end
            note(f"the shard {name} died ({end.ending}); it is started again")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(BACKOFF_S * 2.0 ** (quick - 1), BACKOFF_S_MAX)):
                    await self._stopping.wait()

    async def _live(self, name: str) -> ShardEnd:
        paths = os.pathsep.join(path for path in sys.path if path)
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, "run", "--world", str(self._group.path / name), *self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            limit=_LINE_BYTES,
            # Ctrl-C is for this process, which ends the shards in order.
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
        self._processes[name] = process
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdin is not None
        if self._stopping.is_set():  # since before it was there
            process.stdin.close()
        try:
            output, _ = await asyncio.gather(
                process.stdout.read(),
                _pass_on(process.stderr, lambda text: note(f"{name}: {text}")),
            )
            return ShardEnd(name, await process.wait(), output.decode(errors="replace"))
        finally:
            del self._processes[name]
            await kill(process)


async def _pass_on(stream: asyncio.StreamReader, tell: Callable[[str], None]) -> None:
    """Print each line of a process."""
    while True:
        try:
            text = await stream.readline()
        except ValueError:
            continue  # a line of another program may have any length
        if not text:
            return
        tell(text.decode(errors="replace").rstrip("\n"))


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
