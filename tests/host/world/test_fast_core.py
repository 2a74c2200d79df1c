"""Worlds that run with the second kernel (spec/core.md, CR-11, CR-33 to CR-36)."""

from __future__ import annotations

import gc
import os
import re
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import MIGRATE
from aos.core.journal.records import Event, Start
from aos.errors import Damage
from aos.fastcore import core_choice, fast_kernel
from aos.fastcore.buffer import MEMORY_BYTES_MAX, CoreInstance
from aos.fastcore.compiled_core import live_code
from aos.fastcore.core_kind import CORE_VARIABLE, CoreKind
from aos.fastcore.errors import CoreDefect, CoreFull, gives_way
from aos.fastcore.fold_core import RESERVE_BYTES, CoreOperation
from aos.host.door import direct
from aos.host.door.writer import open_writer
from aos.host.errors import WorldStopped
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.folder.restore import restore_kernel
from aos.host.world.core_thread import CoreThread
from aos.prove.replay.replay_store import replay_store
from aos.sandbox.cache import standard_cache
from aos.sandbox.caps import MIB
from aos.store.lock import WorldLock
from aos.values.cbor import encode
from tests.host.puppet import asks, do
from tests.host.rig import eventually
from tests.host.test_crash import lines, records, start
from tests.host.test_process import Echo, run, send, states
from tests.host.upgrades import migrating, version
from tests.store.test_lmdb_store import alter, put_back

FAST, PYTHON = CoreKind.FAST, CoreKind.PYTHON


@pytest.fixture(scope="module", autouse=True)
def _compiled_core() -> None:
    """No world of these tests, which have time limits, waits for the compiler."""
    live_code(standard_cache(outside=Path("none")), lambda _: None)


def cores_of(world: Path) -> list[str]:
    """The kernel that each start record names."""
    return [dict(record.host)["core"] for record in records(world) if isinstance(record, Start)]


def test_the_start_record_names_the_kernel(world: Path) -> None:
    """CR-35, H-13"""
    for core in (FAST, PYTHON):
        assert run(world, until_idle=True, core=core).is_idle

    assert cores_of(world) == ["fast", "python"]


def test_a_killed_world_continues_on_the_other_kernel(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-33, H-42"""
    cores = ["fast", "python", "fast"]
    sent: dict[str, int] = {}
    for life, core in enumerate(cores):
        monkeypatch.setenv(CORE_VARIABLE, core)
        log = tmp_path / f"log{life}"
        host = start(world, log, "--silent")
        try:
            eventually(lambda log=log: log.exists() and "started" in log.read_text(), "up")  # type: ignore[misc]
            # Every life gets the open tasks of those before it.
            assert len(lines(log, "published")) == len(sent)
            with open_writer(world) as writer:
                for number in range(3):
                    name = f"{life}-{number}"
                    [answer] = writer.send([do(f"k{number}", asks(name), name)])
                    assert isinstance(answer, Admitted)
                    sent[name] = answer.seq
            eventually(lambda log=log: len(lines(log, "published")) == len(sent), "published")  # type: ignore[misc]
        finally:
            host.send_signal(signal.SIGKILL)
            host.wait()

    monkeypatch.delenv(CORE_VARIABLE)
    assert run(world, Echo(), until_idle=True, core=PYTHON).is_idle
    assert cores_of(world) == [*cores, "python"]
    # A step that asks sets 1, and each of the three receipts adds 1.
    assert states(world) == {encode(f"k{number}"): encode(4) for number in range(3)}
    names = {each.submission_id: each.seq for each in records(world) if isinstance(each, Event)}
    assert names == sent
    with open_folder(world).open_store(readonly=True) as store:
        assert replay_store(store).steps == 2 * len(sent)


def test_a_migration_without_a_process_names_the_kernel(tmp_path: Path) -> None:
    """CR-35, H-75"""
    world = tmp_path / "world"
    init_world(world)
    with open_writer(world) as writer:
        writer.apply(version(1))
        list(writer.send([do("a")]))
    run(world, until_idle=True, core=PYTHON)
    with open_writer(world, core=FAST) as writer:
        assert isinstance(writer.apply(migrating(), mode=MIGRATE).answer, Admitted)

    assert cores_of(world) == ["python", "fast"]


# A core with a defect


@contextmanager
def defect_in(operation: CoreOperation) -> Iterator[None]:
    """Inside of the block, this operation of a core traps."""
    call = CoreInstance.call

    def trapping(self: CoreInstance, name: str, number: int, request: bytes) -> bytes:
        if number != operation:
            return call(self, name, number, request)
        self._is_broken = True
        raise CoreDefect(f"operation {name} of the second kernel: an index is out of bounds")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoreInstance, "call", trapping)
        yield


def test_a_defect_stops_the_world_in_words_and_the_reference_continues(world: Path) -> None:
    """CR-36"""
    [before] = send(world, do("a"))
    assert isinstance(before, Admitted)

    with (
        defect_in(CoreOperation.END_STEP),
        pytest.raises(
            WorldStopped,
            match=r"operation end_step of the second kernel: an index is out of bounds "
            r"\(before record 5\) .*everything acknowledged is durable.* --core python",
        ),
    ):
        run(world, until_idle=True, core=FAST)

    assert cores_of(world) == []
    assert run(world, until_idle=True, core=PYTHON).is_idle
    assert states(world) == {encode("a"): encode(1)}
    assert run(world, until_idle=True, core=FAST).is_idle


def test_a_defect_answers_everyone_who_waits(world: Path) -> None:
    """CR-36: a sender, and a snapshot whose state the core cannot load."""
    with (
        defect_in(CoreOperation.ADMIT),
        pytest.raises(WorldStopped, match="operation admit"),
        open_writer(world, core=FAST) as writer,
    ):
        list(writer.send([do("a")]))
    with (
        defect_in(CoreOperation.REBASE),
        pytest.raises(WorldStopped, match="operation rebase"),
        open_writer(world, core=FAST) as writer,
    ):
        writer.snapshot()

    assert isinstance(send(world, do("a"))[0], Admitted)


def test_a_defect_of_the_fold_is_reported_with_the_way_out(world: Path) -> None:
    """CR-36"""
    for operation in (CoreOperation.FOLD_FRAME, CoreOperation.KEEP):
        with defect_in(operation), pytest.raises(WorldStopped, match="--core python"):
            run(world, until_idle=True, core=FAST)
        with defect_in(operation), pytest.raises(WorldStopped, match="--core python"):
            open_writer(world, core=FAST)
    with (
        defect_in(CoreOperation.OPEN_INTENTS),
        pytest.raises(WorldStopped, match="--core python"),
    ):
        run(world, until_idle=True, core=FAST)
    with WorldLock(world):
        pass


def test_a_damaged_frame_is_the_same_damage_for_both_kernels(world: Path) -> None:
    """CR-16, H-41: a frame with other contents, and a frame that cannot be read."""
    for harm in (lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: data[:-1]):
        before = alter(world / "store", "frames", (2).to_bytes(8, "big"), harm)
        words = []
        for core in CoreKind:
            with pytest.raises(Damage) as damage:
                open_writer(world, core=core)
            words.append(str(damage.value))
        assert words[0] == words[1]
        assert "frame 2" in words[0]
        put_back(world / "store", (2).to_bytes(8, "big"), before)

    assert isinstance(send(world, do("a"))[0], Admitted)


# A world that does not fit into the core


@pytest.fixture
def big_world(world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A world with events in 1,500 mailboxes, which take more than the 1 MiB that a core may
    allocate. The second kernel is the default, for short folds, too."""
    monkeypatch.delenv(CORE_VARIABLE, raising=False)
    answers = send(world, *(do(f"k{number}", bytes(900)) for number in range(1500)))
    assert all(isinstance(answer, Admitted) for answer in answers)
    monkeypatch.setattr(core_choice, "DEFAULT_CORE", FAST)
    monkeypatch.setattr(direct, "SHORT_FOLD_RECORDS", 0)
    monkeypatch.setattr(fast_kernel, "memory_bytes_of", lambda: RESERVE_BYTES + MIB)
    return world


LINE = re.compile(
    r"this world does not fit into the second kernel, so the kernel in Python runs it: "
    r"operation \w+ of the second kernel: its memory is full \(AOS_CORE_MEMORY_MIB is 65, .*"
    r"\(before record \d+\); a larger value makes room, and --core python skips the attempt"
)


def test_a_default_core_that_is_full_gives_way_to_the_reference(
    big_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-37a, CR-35: with one line, and without the full core in memory."""
    cores: list[weakref.ref[CoreInstance]] = []
    alive: list[int] = []
    make = CoreInstance.__init__

    def remembered(self: CoreInstance, *arguments: Any, **more: Any) -> None:
        cores.append(weakref.ref(self))
        make(self, *arguments, **more)

    def progress(_: int, __: int) -> None:
        alive.append(sum(core() is not None for core in cores))

    monkeypatch.setattr(CoreInstance, "__init__", remembered)
    notes: list[str] = []
    gc.disable()  # the full core is freed on purpose, and not by chance
    try:
        with open_writer(big_world, report=notes.append, progress=progress) as writer:
            [answer] = writer.send([do("more")])
    finally:
        gc.enable()
    assert isinstance(answer, Admitted)
    [note] = notes
    assert LINE.fullmatch(note), note
    assert len(cores) == 1
    assert alive[0] == 1
    assert alive[-1] == 0

    assert run(big_world, until_idle=True, report=notes.append).is_idle
    assert len(cores) == 2
    assert [line for line in notes if LINE.fullmatch(line)] == [note, note]
    assert cores_of(big_world) == ["python"]


NEARLY_FULL_LINE = re.compile(
    r"this world does not fit into the second kernel, so the kernel in Python runs it: "
    r"the kernel uses (\d+) of (\d+) MiB of memory, and takes no event above 80 % \(bounded by "
    r"AOS_CORE_MEMORY_MIB, which is \d+ and at most 4095\); a larger value makes room, and --core "
    r"python skips the attempt"
)


@pytest.fixture
def allow_times_used(big_world: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let cores have so many times the bytes that one uses after the fold of the big world."""
    folder, thread = open_folder(big_world), CoreThread()
    opens = partial(fast_kernel.open_fast_kernel, memory_bytes=MEMORY_BYTES_MAX)
    with folder.open_store(readonly=True) as store:
        memory = thread.call(
            lambda: restore_kernel(store, folder.world, keeps=True, opens=opens).memory
        )
        thread.close()
    assert memory is not None

    def allow(times: float) -> None:
        allowed = RESERVE_BYTES + int(memory.used * times)
        monkeypatch.setattr(fast_kernel, "memory_bytes_of", lambda: allowed)

    return allow


def test_a_default_core_that_would_take_no_event_after_its_fold_gives_way(
    big_world: Path, allow_times_used: Callable[[float], None]
) -> None:
    """CR-37a: a world above 80 % of its memory would refuse every event."""
    notes: list[str] = []

    allow_times_used(1 / 0.79)
    with open_writer(big_world, report=notes.append) as writer:
        [below] = writer.send([do("below")])
    assert isinstance(below, Admitted)
    assert notes == []

    allow_times_used(1 / 0.85)
    with open_writer(big_world, report=notes.append) as writer:
        [above] = writer.send([do("above")])
    assert isinstance(above, Admitted)
    [note] = notes
    assert NEARLY_FULL_LINE.fullmatch(note), note
    assert run(big_world, until_idle=True, report=notes.append).is_idle
    assert [line for line in notes if NEARLY_FULL_LINE.fullmatch(line)] == [note, note]
    assert cores_of(big_world) == ["python"]


def test_a_named_core_that_takes_no_event_after_its_fold_does_not_give_way(
    big_world: Path, allow_times_used: Callable[[float], None]
) -> None:
    """CR-37a: it ends the work that it has."""
    allow_times_used(1 / 0.85)
    notes: list[str] = []

    assert run(big_world, until_idle=True, core=FAST, report=notes.append).is_idle

    assert not [line for line in notes if "does not fit" in line]
    assert cores_of(big_world) == ["fast"]


def test_the_words_of_a_full_core_name_its_variable_once() -> None:
    """CR-37a"""
    full = CoreFull("its memory is full (AOS_CORE_MEMORY_MIB is 65)")
    for words in (str(full), full.stops(), gives_way(str(full))):
        assert words.count("AOS_CORE_MEMORY_MIB") == 1


def test_a_named_core_that_is_full_stops_in_words(
    big_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-37a: the reference does not take the place of a kernel that was named."""
    words = (
        r"could not be opened: operation \w+ of the second kernel: its memory is full "
        r"\(AOS_CORE_MEMORY_MIB is 65, .*"
        r"everything acknowledged is durable; start again with a larger value, or with "
        r"--core python"
    )
    for name, core in (("", FAST), ("fast", None)):
        monkeypatch.setenv(CORE_VARIABLE, name)
        with pytest.raises(WorldStopped, match=words):
            open_writer(big_world, core=core)
        with pytest.raises(WorldStopped, match=words):
            run(big_world, until_idle=True, core=core)

    assert cores_of(big_world) == []
    monkeypatch.undo()
    assert run(big_world, until_idle=True, core=FAST).is_idle


def test_a_default_core_with_a_defect_does_not_give_way(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CR-36, CR-37a"""
    monkeypatch.delenv(CORE_VARIABLE, raising=False)
    monkeypatch.setattr(core_choice, "DEFAULT_CORE", FAST)
    with (
        defect_in(CoreOperation.FOLD_FRAME),
        pytest.raises(WorldStopped, match="a defect of the second kernel"),
    ):
        run(world, until_idle=True)


# The thread


def test_a_core_thread_returns_and_raises_and_runs_in_order() -> None:
    """CR-11"""
    thread = CoreThread()
    order: list[int] = []
    last = [thread.submit(partial(order.append, number)) for number in range(10)][-1]

    assert thread.call(lambda: thread.is_current)
    assert not thread.is_current
    assert last.done()
    assert order == list(range(10))
    with pytest.raises(KeyboardInterrupt):
        thread.call(partial(throw, KeyboardInterrupt()))
    thread.close()
    thread.close()
    with pytest.raises(AssertionError, match="nothing would run it"):
        thread.submit(int)


def throw(problem: BaseException) -> None:
    raise problem


def test_an_interrupted_opening_ends_the_fold_and_releases_the_world(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-54: Ctrl-C while a command reads the journal."""
    folded: list[int] = []
    is_noticed = threading.Event()
    close = CoreThread.close

    def noticed(self: CoreThread) -> None:
        self.is_closing = True
        is_noticed.set()
        close(self)

    def interrupt(seq: int, _: int) -> None:
        folded.append(seq)
        os.kill(os.getpid(), signal.SIGINT)
        assert is_noticed.wait(60)

    monkeypatch.setattr(CoreThread, "close", noticed)
    for core in CoreKind:
        folded.clear()
        is_noticed.clear()
        with pytest.raises(KeyboardInterrupt):
            open_writer(world, progress=interrupt, core=core)
        assert len(folded) == 1
        with WorldLock(world):
            pass
