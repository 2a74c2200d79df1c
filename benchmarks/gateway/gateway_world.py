"""A world of the gateway that `aos run` runs on a local chain, and the times in its journal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from chain import Chain

from aos.core.decide.answers import Admitted
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import CellId, Event, Receipt, Record, Step
from aos.errors import AosError, Unavailable
from aos.host.door.remote import ask_running
from aos.host.door.writer import Item, open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos_gateway.keys import RECORD_KINDS
from aos_gateway.requests import Request
from benchmarks.changed_manifest import changed_manifest
from benchmarks.gateway import MANIFEST
from benchmarks.processes import Children

READY_S: Final = 60.0
POLL_S: Final = 0.2
EXECUTORS: Final = ("evm", "arweave")
RECORDS: Final = frozenset(kind.workflow for kind in RECORD_KINDS)
ASKED: Final = "gw/TxRequested@1"
NS_PER_S: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """Of one record, in ns of the journal's clock: its event, its first request to a lane, and the
    answer with which it was COMPLETED."""

    created_ns: int
    asked_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Records that were created together, from the first event until the last one was COMPLETED.
    ``journal_bytes`` are those of its frames, ``store_bytes`` the growth of the store's file."""

    lives: tuple[Life, ...]
    records: int
    journal_bytes: int
    store_bytes: int

    @property
    def seconds(self) -> float:
        began_ns = min(each.created_ns for each in self.lives)
        return (max(each.ended_ns for each in self.lives) - began_ns) / NS_PER_S


class GatewayWorld:
    """While the block runs: a new world and its process."""

    def __init__(self, folder: Path, chain: Chain) -> None:
        folder.mkdir()
        self._chain = chain
        self._world = folder / "world"
        self._log = folder / "run.log"
        self._children = Children()

    def __enter__(self) -> Self:
        init_world(self._world)
        with open_writer(self._world) as writer:
            applied = writer.apply(changed_manifest(MANIFEST, is_open=True))
            assert isinstance(applied.answer, Admitted), applied.answer
        command: list[str | Path] = [
            sys.executable, "-m", "aos_cli.entry", "run", "--world", self._world,
            "--secrets", self._chain.secrets,
        ]  # fmt: skip
        command += [word for each in EXECUTORS for word in ("--executors", each)]
        self._process = self._children.start(command, log=self._log, env=self._chain.env)
        try:
            self._wait(self._is_running, READY_S)
        except BaseException:
            self._children.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._children.__exit__(kind, error, trace)

    def run(self, requests: Sequence[Request], *, timeout_s: float) -> Batch:
        """Create the records of these requests, and wait until nothing is open.

        Raises:
            Unavailable: That took longer, or a record is not COMPLETED.
        """
        before, size = ask_running(self._world, "status")["seq"], self._store_bytes()
        items = [
            Item(schema=each.key.kind.created_by, value=each.data, submission_id=each.submission_id)
            for each in requests
        ]
        with open_writer(self._world) as writer:
            for answer in writer.send(items):
                assert isinstance(answer, Admitted), answer
        self._wait(self._is_idle, timeout_s)
        return self._batch(requests, before, size)

    def _batch(self, requests: Sequence[Request], before: int, size: int) -> Batch:
        with open_folder(self._world).open_store(readonly=True) as store:
            frames = list(store.frames(before + 1))
        records = [from_bytes(data) for frame in frames for data in frame.records]
        lives = lives_of(records)
        missing = [each.key.text for each in requests if each.key.cell not in lives]
        if missing:
            raise Unavailable(
                f"{self._world}: {len(missing)} of {len(requests)} records are not COMPLETED, such "
                f"as {missing[0]}; see {self._log}"
            )
        return Batch(
            lives=tuple(lives[each.key.cell] for each in requests),
            records=len(records),
            journal_bytes=sum(len(frame.to_bytes()) for frame in frames),
            store_bytes=self._store_bytes() - size,
        )

    def _store_bytes(self) -> int:
        with open_folder(self._world).open_store(readonly=True) as store:
            return store.size_bytes()

    def _is_running(self) -> bool:
        try:
            ask_running(self._world, "status")
        except AosError:
            return False
        return True

    def _is_idle(self) -> bool:
        status = ask_running(self._world, "status")
        return not any(status[name] for name in ("open_intents", "ready_cells", "queued"))

    def _wait(self, is_so: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_so():
            if self._process.poll() is not None or time.monotonic() > deadline:
                last = self._log.read_text(errors="replace").splitlines()[-8:]
                raise Unavailable(
                    f"{self._world}: expected the world to finish within {timeout_s:.0f} s; its "
                    f"last lines: {' | '.join(last) or 'none'}"
                )
            time.sleep(POLL_S)


def lives_of(records: Sequence[Record]) -> dict[CellId, Life]:
    """The lives of the records that were COMPLETED, by their cells. A step has the time of the
    input that caused it."""
    stamps = {each.seq: each.stamp.ns for each in records if isinstance(each, Event | Receipt)}
    created: dict[CellId, int] = {}
    asked: dict[CellId, int] = {}
    found: dict[CellId, Life] = {}
    for each in records:
        if isinstance(each, Event):
            created |= dict.fromkeys(each.to, each.stamp.ns)
        if not isinstance(each, Step) or each.cell[0] not in RECORDS:
            continue
        if any(event.schema == ASKED for event in each.events):
            asked.setdefault(each.cell, stamps[each.root])
        if each.status == "completed":
            found[each.cell] = Life(
                created_ns=created[each.cell],
                asked_ns=asked[each.cell],
                ended_ns=stamps[each.root],
            )
    return found
