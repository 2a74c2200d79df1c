"""The same functions over both wires leave the same journal (W-1, X-40 to X-49)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from aos.core.journal.records import Attempt, Receipt, Step, Stream, slot_bytes
from aos.core.state.cell import OpenIntent
from aos.host.executors.python import PythonExecutor
from aos.host.executors.task import OnAnswer, Task, WorkItem
from aos.node.leases.table import open_table
from aos.node.leases.work import LeasedWork
from aos.node.node_settings import NodeSettings
from aos.node.worker import Worker
from aos.store.store import Store
from aos.values.cbor import decode_record
from aos.values.digests import Hash
from tests.answers import pass_on
from tests.core.desk import ONCE, PAY, desks, tell, wish
from tests.node.leases.stage import MemoryLink
from tests.node.worker import troupe
from tests.node.worker.wire import NodeWire

TROUPE: Final = f"{Path(troupe.__file__)}:troupe"
NUMBERS: Final = {PAY: range(1, 14), ONCE: (1, 4, 6)}


def opened() -> MemoryLink:
    """A world in which each number of each effect is open."""
    link = MemoryLink(desks())
    for effect, numbers in NUMBERS.items():
        tell(
            link.world, effect, *(wish(effect, {"n": each}, f"{effect} {each}") for each in numbers)
        )
    link.publish()
    return link


def is_done(link: MemoryLink) -> bool:
    """Whether every intent is settled, held or parked."""
    state = link.world.state
    return all(state.halt(each) is not None for each in state.intents.values())


async def until_done(link: MemoryLink) -> None:
    async with asyncio.timeout(60):
        while not is_done(link):  # noqa: ASYNC110  # the kernel in memory signals nothing
            await asyncio.sleep(0.01)


class ChildJournal:
    """The journal of an executor of the process, over the same link."""

    def __init__(self, link: MemoryLink) -> None:
        self.link = link

    def submit(self, item: WorkItem, on_answer: OnAnswer) -> None:
        pass_on(self.link.answer(item), on_answer)


async def by_child(link: MemoryLink) -> None:
    state = link.world.state
    executor = PythonExecutor(TROUPE, world=state.world, report=lambda _: None)
    await executor.start(ChildJournal(link))
    try:
        executor.use(state.effective)
        executor.publish([task_of(link, each) for each in state.intents.values()])
        await until_done(link)
    finally:
        await executor.stop()


def task_of(link: MemoryLink, intent: OpenIntent) -> Task:
    return Task(
        intent=intent.intent,
        effect=intent.effect,
        params=slot_bytes(intent.params, link.blob),
        idempotency_key=intent.idempotency_key,
        workflow=intent.cell[0],
        cell_key=intent.cell[1],
        issuer_ref=intent.issuer_ref,
        opened_seq=intent.seq,
        opened_ns=intent.opened_ns,
    )


async def by_http(link: MemoryLink, path: Path) -> None:
    table = open_table(path, seq=0, report=pytest.fail)

    def store() -> Store:
        return link  # type: ignore[return-value]  # it has the part of a store that work needs

    work = LeasedWork(table, link, NodeSettings(), store=store)
    link.works = [work]
    work.rebased(link.world.state)
    await work.start()
    ticking = asyncio.ensure_future(work.run())
    worker = Worker(
        "http://node", troupe.troupe, transport=NodeWire(lambda: work), report=lambda _: None
    )
    running = asyncio.ensure_future(worker.run())
    await until_done(link)
    worker.stop()
    await running
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)
    await work.close()


def facts(link: MemoryLink) -> dict[str, list[Any]]:
    """The records of each intent, without times and signatures."""
    refs: dict[Hash, str] = {}
    facts_by_ref: dict[str, list[Any]] = {}
    for record in link.world.records():
        if isinstance(record, Step):
            refs |= {each.intent: str(each.issuer_ref) for each in record.intents}
        elif isinstance(record, Receipt | Attempt | Stream):
            facts_by_ref.setdefault(refs[record.intent], []).append(_fact(link, record))
    return facts_by_ref


def _fact(link: MemoryLink, record: Receipt | Attempt | Stream) -> Any:
    match record:
        case Receipt():
            payload = decode_record(slot_bytes(record.payload, link.blob))
            return "receipt", record.attempt, record.status, payload, record.cost_cents
        case Attempt():
            return "attempt", record.attempt, record.phase, record.code, record.problem
        case Stream():
            payload = slot_bytes(record.payload, link.blob)
            return "stream", record.attempt, record.frame_seq, record.frame_kind, payload


def test_functions_leave_the_same_journal_over_both_wires(tmp_path: Path) -> None:
    """W-1."""
    child, http = opened(), opened()
    asyncio.run(by_child(child))
    asyncio.run(by_http(http, tmp_path))
    by_wire = facts(child), facts(http)

    assert by_wire[1] == by_wire[0]
    assert len(by_wire[0]) == sum(map(len, NUMBERS.values()))
    statuses = {ref: each[-1][2] for ref, each in by_wire[0].items()}
    assert statuses[f"{PAY} 3"] == "ok"
    assert statuses[f"{PAY} 4"] == "error"
    assert statuses[f"{PAY} 5"] == "held"
    assert statuses[f"{PAY} 6"] == "parked"
    assert statuses[f"{PAY} 9"] == "timeout"
    assert [each[:2] for each in by_wire[0][f"{PAY} 4"]] == [("attempt", 2), ("receipt", 2)]
    assert [each[0] for each in by_wire[0][f"{PAY} 8"]] == ["stream", "stream", "receipt"]
    assert statuses[f"{ONCE} 6"] == "parked"
