"""A test world on the core that a test or ``AOS_CORE`` names (spec/testing.md, T-8, T-8a)."""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import FrameType
from typing import Any, NoReturn

import pytest

from aos.core.journal.frame import Tip
from aos.core.journal.inputs import EventInput
from aos.errors import BadUsage
from aos.testing import (
    CellFailed,
    InputRefused,
    World,
    WorldProblem,
    desk,
    everywhere,
    sources,
    threaded_kernel,
)
from aos.testing.desk import DEFAULT_CORE
from aos.testing.sources import SharedSandbox
from aos.testing.threaded_kernel import ReferenceCopy, ThreadedKernel
from aos.values.cbor import Value, encode
from aos.values.digests import Hash
from tests.testing.stage import (
    CELL,
    CHARGE,
    DO,
    MODULES,
    NEWS,
    ONCE,
    ORDERS,
    SECOND,
    TIMER,
    charge,
    nodes,
    out,
    stage,
    then,
    timer,
)
from tests.testing.test_governing import governed, version
from tests.testing.test_world import ORDER, START, script_orders

LONG = "x" * 2_000
BAD_NEWS = {"what": {"$tag": "Bad", "$value": LONG}, "for": 5}
CORES = ("python", "fast")


class Notes:
    """What a test sees of a world, in the order in which it looks."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.all: list[object] = []

    def look(self) -> None:
        """Note the world in the middle of a frame, or at its end."""
        world, state = self.world, self.world._desk.state
        self.all += [
            [(cell.workflow, cell.key, cell.status, cell.state) for cell in world.cells()],
            [(effect.name, effect.status, effect.due_ns) for effect in world.effects()],
            [(effect.name, effect.status) for effect in world.asked()],
            world.emitted(),
            world.faults(),
            world.records,
            (state.next_seq, state.clock_ns, state.controls, list(state.ring), state.world),
            list(state.intents),
            state.tip,
        ]

    def refusal(self, call: Callable[[], object]) -> None:
        """Note the words of a refusal, which changes nothing."""
        records = self.world.records
        with pytest.raises(InputRefused) as refused:
            call()
        self.all += [refused.value.rule, refused.value.message, refused.value.blockers]
        assert self.world.records == records


def journal(world: World) -> list[bytes]:
    """The frames and the signed head, and the documents of all snapshots."""
    store = world._desk.store
    head = store.head()
    assert head is not None
    documents = [store.blob(row.document) for row in store.snapshots()]
    frames = [frame.to_bytes() for frame in store.frames()]
    return [*frames, head.message(), head.signature, *documents]


def play_cells(world: World, notes: Notes) -> None:
    """Effects, timers, stream frames, faults, refusals, a crash, snapshots and an erasure."""
    test_thread = threading.get_ident()

    def script(params: Any) -> object:
        assert threading.get_ident() == test_thread
        return {"ref": params["id"]}

    effects = ((CHARGE, charge("one"), "count"), (TIMER, timer(START + 9 * SECOND), "count"))
    world.send(DO, {"key": "a", "out": out(3, effects=effects, ann="first")}, id="sent")
    notes.look()
    notes.refusal(lambda: world.send(DO, {"key": "a"}, id="sent"))
    world.run()
    notes.look()
    world.effect(CHARGE).frame("half", b"raw", blob=b"picture")
    notes.refusal(lambda: world.effect(CHARGE).forge({"ref": "mine"}))
    notes.look()
    notes.refusal(lambda: world.apply(nodes(version=2), modules=MODULES))
    notes.refusal(lambda: world.retry(CELL, "a"))
    notes.refusal(lambda: world._desk.admit(EventInput(schema="t/Dot@1", value=b"\x00")))
    notes.refusal(lambda: world._desk.admit(EventInput(schema=DO, value=b"\x00")))
    world.snapshot()
    world.on(CHARGE, script)
    world.advance("5s")
    notes.look()

    world.send(DO, {"key": "b", "trap": True})
    with pytest.raises(CellFailed) as failed:
        world.run()
    notes.all.append(str(failed.value))
    world.send(DO, {"key": "b"})
    world.skip(CELL, "b")
    notes.look()
    world.crash_after(world.steps + 1)
    once = out(effects=((ONCE, charge(), "count"), (CHARGE, charge("two"), then(out(9)))))
    world.send(DO, {"key": "c", "out": once})
    world.run(may_fail=True)
    notes.look()
    world.effect(ONCE).begin()
    world.restart()
    world.run()
    world.send(DO, {"key": "d", "out": out(1, events=((NEWS, BAD_NEWS),))})
    world.run()
    world.erase(world.hash_of(NEWS, BAD_NEWS))
    notes.refusal(lambda: world.erase("blake3:" + "0" * 64))
    world.finish()
    world.apply(nodes(version=2), modules=MODULES)
    world.snapshot()
    world.send(DO, {"key": "a"})
    world.run()
    notes.look()
    notes.all.append(world.trace())


def play_orders(world: World, notes: Notes) -> None:
    """Many steps: the orders of the README."""
    script_orders(world)
    for number in range(5):
        world.send("shop/OrderPlaced@1", {**ORDER, "order_id": f"o{number}"})
        notes.look()
        world.run()
    world.finish()
    notes.look()


def play_votes(world: World, notes: Notes) -> None:
    proposal = world.propose(version(2, quorum=2), modules=MODULES)
    notes.all.append(world.proposal(proposal))
    notes.refusal(lambda: world.apply(version(2, quorum=2), modules=MODULES, proposal=proposal))
    world.approve(proposal)
    notes.all.append(world.proposal(proposal))
    world.apply(version(2, quorum=2), modules=MODULES, proposal=proposal)
    world.send(DO, {"key": "a"})
    world.run()
    notes.look()


@pytest.mark.parametrize(
    ("story", "new_world"),
    [
        (play_cells, stage),
        (play_orders, lambda **settings: World(ORDERS, **settings)),
        (play_votes, lambda **settings: governed(quorum=2, **settings)),
    ],
    ids=["cells", "orders", "votes"],
)
def test_both_cores_give_the_same_journal_and_the_same_answers(
    story: Callable[[World, Notes], None], new_world: Callable[..., World]
) -> None:
    """T-8: journals and snapshots byte for byte, refusals and faults in their words; and also in
    the middle of a frame a test reads the same (T-8a)."""
    journals, notes = {}, {}
    for core in CORES:
        with new_world(core=core) as world:
            seen = Notes(world)
            story(world, seen)
            journals[core], notes[core] = journal(world), seen.all

    assert len(notes["python"]) == len(notes["fast"]) > 5
    for by_python, by_fast in zip(notes["python"], notes["fast"], strict=True):
        assert by_fast == by_python
    assert journals["fast"] == journals["python"]


def test_crashes_everywhere_change_nothing_on_the_fast_core() -> None:
    """T-36."""

    def story(world: World) -> None:
        script_orders(world)
        world.send("shop/OrderPlaced@1", ORDER)
        world.finish()

    assert everywhere(story, ORDERS, core="fast") == everywhere(story, ORDERS, core="python") > 0


# Which core


def core_of(world: World) -> str:
    return "fast" if isinstance(world._desk._kernel, ThreadedKernel) else "python"


def test_a_world_runs_on_the_core_that_the_test_or_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T-8."""
    monkeypatch.delenv("AOS_CORE", raising=False)
    assert core_of(stage()) == DEFAULT_CORE.value
    for core, other in zip(CORES, reversed(CORES), strict=True):
        monkeypatch.setenv("AOS_CORE", core)
        assert core_of(stage()) == core
        assert core_of(stage(core=other)) == other


def test_a_core_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-8."""
    with pytest.raises(BadUsage, match="core: expected python or fast, found 'quick'"):
        stage(core="quick")
    monkeypatch.setenv("AOS_CORE", "rust")
    with pytest.raises(BadUsage, match="AOS_CORE: expected python or fast, found 'rust'"):
        stage()
    assert core_of(stage(core="python")) == "python"


# The thread of the second kernel


def test_all_worlds_share_one_thread_and_leave_no_core_behind() -> None:
    """T-8: the thread is a daemon, which never keeps a process alive."""
    stage(core="fast").close()
    threads = set(threading.enumerate())
    cores = []
    for number in range(20):
        world = stage(core="fast", replay=False)
        world.send(DO, {"key": f"cell {number}"})
        world.run()
        kernel = world._desk._kernel
        assert isinstance(kernel, ThreadedKernel)
        cores.append(weakref.ref(kernel._kernel))
        if number % 2:
            world.close()
    del world, kernel
    gc.collect()

    assert set(threading.enumerate()) == threads
    assert [core() for core in cores] == [None] * 20
    assert all(each.daemon for each in threads if each.name == "aos-testing")


def use_another_thread(monkeypatch: pytest.MonkeyPatch) -> SharedSandbox:
    """Run modules on a thread that no other test uses."""
    shared = SharedSandbox()
    for module in (sources, desk, threaded_kernel):
        monkeypatch.setattr(module, "SHARED", shared)
    return shared


def test_a_forked_process_is_told_that_the_core_is_not_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T-8."""
    shared = use_another_thread(monkeypatch)
    world = stage(core="fast", replay=False)
    world.send(DO, {"key": "a"})

    shared._process += 1  # as if this was another process

    with pytest.raises(WorldProblem, match="or the process is forked"):
        world.send(DO, {"key": "a"})
    with stage(core="fast") as own_world:
        own_world.send(DO, {"key": "a"})
        own_world.run()


class Impatient(Exception):
    """Interrupts a test, as a signal does."""


@contextlib.contextmanager
def interrupted_soon() -> Iterator[None]:
    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Impatient

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(Impatient):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize("core", CORES)
def test_a_run_without_end_that_is_interrupted_stops_no_other_world(
    core: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T-8: the world of that run says so, at least on the second kernel."""
    monkeypatch.setattr(sources, "INTERRUPTED_S", 0.1)
    use_another_thread(monkeypatch)
    world, other = stage(core=core, replay=False), stage(core="fast", replay=False)
    run, ended = world._desk._run, threading.Event()

    def run_again() -> None:
        try:
            while True:
                world._desk.admit(event("a", out()))
                run()
        finally:
            ended.set()

    monkeypatch.setattr(world._desk, "_run", run_again)
    world.send(DO, {"key": "a"})
    with interrupted_soon():
        world.run()

    with stage(core=core) as third:
        third.send(DO, {"key": "a"})
        third.run()
        assert third.state(CELL, "a") == 1
    assert ended.wait(60)
    with pytest.raises(WorldProblem, match="whose thread is not there any more: a test was inter"):
        other.send(DO, {"key": "a"})


def event(key: str, output: bytes) -> EventInput:
    value: Value = {
        "key": key,
        "out": output,
        "keep": None,
        "trap": None,
        "fault": None,
        "delete": None,
    }
    return EventInput(schema=DO, value=encode(value))


# The state that a test reads


def test_lists_of_cells_and_effects_are_whole_when_they_have_many_pages() -> None:
    """T-8a: the core returns them by pages."""
    lists = {}
    for core in CORES:
        with stage(core=core, replay=False) as world:
            for number in range(600):
                asked = out(effects=((CHARGE, charge(str(number)), "count"),))
                world.send(DO, {"key": str(number), "out": asked})
            world.run()
            cells = [cell.id for cell in world._desk.cells_of(CELL)]
            lists[core] = cells, [effect.params["id"] for effect in world.effects()]
    assert lists["fast"] == lists["python"]
    assert [len(each) for each in lists["fast"]] == [600, 600]


def test_a_state_is_folded_when_a_test_reads_it_and_never_twice() -> None:
    """T-8a."""
    with stage(core="fast") as world:
        kernel = world._desk._kernel
        assert isinstance(kernel, ThreadedKernel)
        world.send(DO, {"key": "a"})
        world.run()
        world.send(DO, {"key": "a"})
        assert kernel._copy._kernel is None

        states = [world._desk.state]
        for _ in range(3):
            world.send(DO, {"key": "a"})
            states.append(world._desk.state)
        world.run()
        states.append(world._desk.state)

        assert all(first is second for first, second in pairwise(states))
        assert states[-1].next_seq == world.records + 1
        assert world.state(CELL, "a") == 5


def test_a_frame_of_the_core_that_the_copy_does_not_have_is_found() -> None:
    """T-8a: a copy that has begun a frame compares its end."""
    with stage(core="fast") as world:
        copy = ReferenceCopy(world._desk.store, world._desk.world)
        world.send(DO, {"key": "a"})
        copy.entered(world._desk.records[-1], {})
        copy.caught_up()
        with pytest.raises(AssertionError, match="the cores disagree"):
            copy.sealed(bytes(32), Tip(world=Hash(bytes(32))))
