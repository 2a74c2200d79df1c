"""Each kernel, as its host uses it (spec/core.md, CR-1 to CR-12, CR-16)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

import tests.memory_world
from aos.core.decide.answers import Admitted, Decided, Duplicate, Refusal, Rule, admission
from aos.core.journal.faults import Fault, FaultKind
from aos.core.journal.inputs import MIGRATE, EventInput, Input
from aos.core.journal.ports import Call, Keep, Ran
from aos.core.journal.record_codec import to_bytes
from aos.core.journal.records import (
    Control,
    Event,
    Faulted,
    KernelReceipt,
    Manifest,
    Receipt,
    Record,
    Step,
)
from aos.core.journal.signing import is_signed
from aos.core.kernel_protocol import (
    FrameBounds,
    KernelProtocol,
    OpenKernel,
    Redecides,
    decided,
    step,
)
from aos.core.limits import Limits
from aos.errors import Damage
from aos.host.errors import Stopping
from aos.manifest.names import EFFECT_CANCEL
from aos.manifest.shards import shard_of_key
from aos.prove.replay.recorded_inputs import input_of
from aos.store.errors import NoRoom
from aos.values.cbor import Value, encode
from aos.values.digests import Hash, content_hash
from tests.core.busy import COPY
from tests.core.busy import manifest as two_readers
from tests.core.cases import CASE, case, cases, log_of, tell
from tests.core.decide.test_migrate import migrating, to_counted
from tests.core.desk import DESK, PAY, TIMER, cancel, cell_id, desks, pay, wish
from tests.core.desk import tell as ask_desk
from tests.core.group_shop import MODULES, NOTED, PLACED, RATED, in_shard, shop
from tests.fastcore.owned_kernel import OPENERS, KernelView
from tests.memory_world import MemoryWorld, Module


@pytest.fixture(autouse=True, params=OPENERS)
def opens(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> OpenKernel:
    """Opens a kernel, as every world of the test does: the reference, or the second one."""
    opener = OPENERS[request.param]
    monkeypatch.setattr(tests.memory_world, "open_kernel", opener)
    monkeypatch.setattr(tests.memory_world, "world_state", KernelView)
    return opener


NO_BOUNDS = FrameBounds(2**64 - 1, 2**64 - 1)


def root_of(world: MemoryWorld) -> Hash:
    """The root of a world at the end of a frame."""
    return world.kernel.snapshot(content_hash).document


def event(id: str) -> EventInput:
    value = encode({"id": id, "asks": 0, "note": "go"})
    return EventInput(schema="c/Go@1", value=value, submission_id=id)


def decided_by(kernel: KernelProtocol, world: MemoryWorld, id: str) -> Decided:
    decision = kernel.decide(event(id), world.stamp())
    assert isinstance(decision, Decided)
    return decision


def test_a_decision_changes_nothing_until_it_is_entered() -> None:
    """CR-2."""
    world = cases()
    world.seal()
    before = root_of(world)

    decision = decided_by(world.kernel, world, "a")

    assert root_of(world) == before
    assert (world.kernel.pending_records, world.kernel.ready_cells) == (0, 0)
    world.kernel.enter(decision)
    assert (world.kernel.pending_records, world.kernel.ready_cells) == (1, 1)
    assert world.kernel.admit(event("a"), world.stamp()) == Duplicate(seq=decision.record.seq)


def test_a_step_waits_for_its_call_and_can_be_dropped() -> None:
    """CR-3, CR-4."""
    world = cases()
    world.kernel.admit(event("a"), world.stamp())
    world.seal()
    before = root_of(world)

    call = world.kernel.next()
    assert isinstance(call, Call)
    dropped = world.runner.run(call)
    decided_by(world.kernel, world, "b")
    with pytest.raises(AssertionError, match="no decision waits"):
        world.kernel.ran(dropped)

    assert root_of(world) == before
    assert world.kernel.next() == call
    decision = world.kernel.ran(world.runner.run(call))
    assert isinstance(decision, Decided)
    assert isinstance(decision.record, Step)
    assert root_of(world) == before


def test_an_input_is_admitted_with_the_answer_that_its_record_gives() -> None:
    """CR-2: an event, a receipt, a command that ends open work, and a refused event."""
    world = cases()
    tell(world, "p", asks=1)
    tell(world, "q", asks=1)
    world.seal()
    settled = next(intent for intent in world.open() if intent.cell == case("p"))
    inputs: list[tuple[Input, type[Record]]] = [
        (event("q"), Event),
        (world.receipt(settled, {"ref": "r"}), Receipt),
    ]
    for given, kind in inputs:
        stamp = world.stamp()
        decision = world.kernel.decide(given, stamp)
        assert isinstance(decision, Decided)
        assert isinstance(decision.record, kind)
        assert world.kernel.admit(given, stamp) == admission(decision.record)
    seq = world.kernel.next_seq
    ended = world.control("end", cell=case("q"), status="failed")
    assert ended == Admitted(seq=seq, dropped=1, abandoned=1)
    unknown = EventInput(schema="c/Unknown@1", value=encode({}))
    assert world.kernel.decide(unknown, stamp) == world.kernel.admit(unknown, stamp)


def test_an_event_to_two_cells_is_answered_with_both_in_the_order_of_its_record() -> None:
    """CR-2"""
    modules: dict[str, Module] = {name: lambda _: {"state": None} for name in (DESK, COPY)}
    world = MemoryWorld(two_readers(1), modules)
    value = encode({"key": "a", "asks": [], "note": ""})
    sent, stamp = EventInput(schema="t/Tell@1", value=value), world.stamp()
    decision = world.kernel.decide(sent, stamp)
    assert isinstance(decision, Decided)
    assert isinstance(decision.record, Event)

    answer = world.kernel.admit(sent, stamp)

    assert isinstance(answer, Admitted)
    assert answer.to == decision.record.to
    assert {workflow for workflow, _ in answer.to} == {DESK, COPY}


def test_a_step_is_ended_and_entered_by_one_call() -> None:
    """CR-2: with the same record as by ``ran`` and ``enter``."""
    first, second = cases(), cases()
    for world in (first, second):
        world.seal()
        world.kernel.admit(event("a"), world.stamp())
        call = world.kernel.next()
        assert isinstance(call, Call)
        ran = world.runner.run(call)
        if world is first:
            assert world.kernel.end_step(ran) is None
            continue
        decision = world.kernel.ran(ran)
        assert isinstance(decision, Decided)
        world.kernel.enter(decision)

    assert (first.kernel.pending_records, first.kernel.ready_cells) == (2, 0)
    assert first.kernel.pending_bytes == second.kernel.pending_bytes
    assert first.kernel.pending_blob_bytes == second.kernel.pending_blob_bytes
    with pytest.raises(AssertionError, match="no decision waits"):
        first.kernel.end_step(ran)
    first.seal()
    second.seal()
    assert root_of(first) == root_of(second)


def test_inputs_are_admitted_by_one_call_until_the_frame_is_full() -> None:
    """CR-2: with the same records and answers as one after another."""
    first, second = cases(), cases()
    inputs: list[Input] = [event(id) for id in ("a", "b", "b", "c", "d")]
    inputs[2] = EventInput(schema="c/No@1", value=b"\xa0")
    stamped = [(input, first.stamp()) for input in inputs]
    answers = [first.kernel.admit(*one) for one in stamped[:4]]
    bounds = FrameBounds(first.kernel.pending_bytes, 2**64 - 1)

    assert list(second.kernel.admit_all(stamped, bounds)) == answers
    assert [type(answer) for answer in answers] == [Admitted, Admitted, Refusal, Admitted]
    assert list(second.kernel.admit_all(stamped[4:], bounds)) == [first.kernel.admit(*stamped[4])]
    assert first.kernel.pending_bytes == second.kernel.pending_bytes
    first.seal()
    second.seal()
    assert first.frames[-1].records == second.frames[-1].records


def test_an_input_that_fails_leaves_those_before_it_in_the_frame(opens: OpenKernel) -> None:
    """CR-10: the input that the host's exception meets has changed nothing."""
    world = cases()
    world.seal()
    world.send("c/Go@1", {"id": "a", "asks": 1, "note": "go"})
    world.run()

    def fail(*_: bytes) -> bool:
        raise Stopping("the world is stopping")

    kernel = opens(
        world=world.kernel.tip.world, read=world.read, find=world.places.get, verify=fail
    )
    for frame in world.frames:
        kernel.follow(frame)
    next_seq = kernel.next_seq
    inputs: list[Input] = [event("b"), world.receipt(world.open()[0], {"ref": "r"})]

    with pytest.raises(Stopping):
        kernel.admit_all([(input, world.stamp()) for input in inputs], NO_BOUNDS)

    assert kernel.next_seq == next_seq + 1
    assert isinstance(kernel.admit(event("c"), world.stamp()), Admitted)


def test_a_wrong_signature_is_refused_each_time() -> None:
    world = cases()
    world.send("c/Go@1", {"id": "a", "asks": 1, "note": "go"})
    world.run()
    forged = world.receipt(world.open()[0], {"ref": "r"}, forge={"signature": bytes(64)})

    answers = [world.kernel.admit(forged, world.stamp()) for _ in range(2)]

    rules = [answer.rule for answer in answers if isinstance(answer, Refusal)]
    assert rules == [Rule.RECEIPT_SIGNATURE_IS_WRONG] * 2


def test_a_step_that_ended_is_followed_by_the_head_of_the_ring() -> None:
    world = cases()
    kernel = world.kernel
    kernel.admit_all([(event(id), world.stamp()) for id in "abc"], NO_BOUNDS)
    calls = []
    while (call := kernel.next()) is not None:
        assert isinstance(call, Call)
        calls.append(call)
        kernel.end_step(world.runner.run(call))

    assert len(calls) == 3
    assert not kernel.has_work()
    world.seal()
    assert [step.cell for step in world.steps()] == [case(id) for id in "abc"]


def test_the_record_of_a_failed_step_is_returned() -> None:
    world = cases()
    world.kernel.admit(event("a"), world.stamp())
    next_seq = world.kernel.next_seq
    assert isinstance(world.kernel.next(), Call)

    fault = Fault(kind=FaultKind.TRAP, message="unreachable")
    record = world.kernel.end_step(Ran(output=None, fault=fault, fuel=7, pages=1))

    assert isinstance(record, Faulted)
    assert (record.seq, record.fault) == (next_seq, fault)
    assert (world.kernel.next_seq, world.kernel.ready_cells) == (next_seq + 1, 0)


def test_the_blobs_of_the_frame_that_is_being_filled_are_counted_until_it_is_sealed() -> None:
    world = cases()
    world.seal()
    assert world.kernel.pending_blob_bytes == 0
    value = encode({"id": "a", "asks": 0, "note": "x" * 2_000})
    world.kernel.admit(EventInput(schema="c/Go@1", value=value), world.stamp())

    assert world.kernel.pending_blob_bytes == len(value)
    world.seal()
    assert world.kernel.pending_blob_bytes == 0


def test_a_blob_that_one_record_has_twice_is_counted_once() -> None:
    world = desks()
    late = wish(TIMER, {"deliver_at_ns": world.now_ns + 10**9, "key": "x" * 2_000})
    world.send("t/Tell@1", {"key": "a", "asks": [late, late], "note": ""})
    world.seal()

    record = world.step()

    assert isinstance(record, Step)
    assert len(record.intents) == 2
    params = late["params"]  # type: ignore[call-overload,index]
    assert world.kernel.pending_blob_bytes == len(params)  # type: ignore[arg-type]


def test_an_owed_receipt_comes_before_a_step_and_needs_no_runner() -> None:
    """CR-4, K-80."""
    world = desks()
    ask_desk(world, "a", pay("p"))
    world.send("t/Tell@1", {"key": "a", "asks": [cancel(ref="p")], "note": ""})
    world.send("t/Tell@1", {"key": "b", "asks": [], "note": ""})
    assert isinstance(world.step(), Step)

    assert world.kernel.has_work(steps=False)
    kinds = []
    while (entered := step(world.kernel, None)) is not None:
        kinds.append(type(entered.record))

    assert kinds == [KernelReceipt, KernelReceipt]
    assert not world.kernel.has_work(steps=False)
    assert world.kernel.has_work()
    assert world.kernel.next(steps=False) is None


def test_the_head_of_the_ring_is_the_entry_that_runs_next() -> None:
    world = cases()
    assert world.kernel.ring_head() is None
    world.kernel.admit(event("b"), world.stamp())
    world.kernel.admit(event("a"), world.stamp())

    while (head := world.kernel.ring_head()) is not None:
        record = world.step()
        assert isinstance(record, Step | Faulted)
        assert (head.cell, head.entry, head.root, head.depth) == (
            record.cell, record.entry, record.root, record.depth,
        )  # fmt: skip


def migration(world: MemoryWorld) -> object:
    """Begin the decision of a manifest that migrates."""
    loaded = to_counted()
    modules = {CASE: migrating()}
    world.runner.modules = {**world.runner.modules, **world.by_hash(loaded, modules)}
    return world.kernel.decide(world.manifest_input(loaded, mode=MIGRATE), world.stamp())


def test_a_migration_asks_for_its_calls_and_for_its_blobs_to_be_kept() -> None:
    """CR-3, K-76."""
    world = cases()
    for id in ("a", "b", "c"):
        tell(world, id)
    kept: list[Mapping[Hash, bytes]] = []
    world.limits, world.keep = Limits(kept_bytes=1, slice_cells=1), kept.append
    world.restart()
    before = root_of(world)

    request, calls = migration(world), 0
    while isinstance(request, Call | Keep):
        assert root_of(world) == before
        if isinstance(request, Call):
            calls += 1
            request = world.kernel.ran(world.runner.run(request))
        else:
            kept.append(dict(request.blobs))
            world.blobs.update(request.blobs)
            request = world.kernel.kept()

    assert (calls, len(kept)) == (3, 3)
    assert isinstance(request, Decided)
    assert isinstance(request.record, Manifest)
    world.kernel.enter(request)
    tell(world, "a")
    assert log_of(world, "a") == ["v1 go", "v2c go"]


def test_a_migration_that_is_dropped_has_changed_nothing() -> None:
    """CR-2: its host may lack room, or be stopped."""
    world = cases()
    tell(world, "a")
    before = root_of(world)
    assert isinstance(migration(world), Call)

    class Stopped(Exception):
        pass

    def run(_: Call) -> object:
        raise Stopped

    world.sandbox = type("Sandbox", (), {"run": staticmethod(run)})()
    with pytest.raises(Stopped):
        world.apply(to_counted(), mode=MIGRATE)

    assert root_of(world) == before
    world.sandbox = None
    tell(world, "a")
    assert log_of(world, "a") == ["v1 go", "v1 go"]


def test_only_a_manifest_that_migrates_asks_for_something() -> None:
    world = cases()
    tell(world, "a")
    given = world.manifest_input(to_counted(), mode=MIGRATE)

    with pytest.raises(AssertionError, match="not admitted at once"):
        world.kernel.admit(given, world.stamp())


def test_a_kernel_follows_the_frames_of_another(opens: OpenKernel) -> None:
    """CR-5: to the same root, and then to the same bytes."""
    world = desks()
    ask_desk(world, "a", pay("p"), pay("q"))
    world.seal()
    other = opens(world=world.state.world, read=world.read, find=world.places.get)
    for frame in world.frames:
        other.follow(frame)

    assert (other.tip, other.next_seq) == (world.kernel.tip, world.kernel.next_seq)
    assert other.figures() == world.kernel.figures()
    assert other.snapshot(content_hash) == world.kernel.snapshot(content_hash)
    with pytest.raises(Damage, match="is missing"):
        other.follow(world.frames[0])


def journal() -> tuple[MemoryWorld, list[Record]]:
    """A world with a record of each kind that a kernel decides again, and at the end a command,
    which it leaves; the records of its last frame."""
    world = desks()
    world.seal()

    def tell_desk(key: str, *asks: Value, note: str = "") -> None:
        world.send("t/Tell@1", {"key": key, "asks": list(asks), "note": note})
        while world.step() is not None:
            pass

    tell_desk("a", pay("p"), pay("q"), pay("r"))
    tell_desk("a", cancel(ref="p"))
    world.settle(world.open()[0], {"ref": "r"})
    tell_desk("b", note="fail")
    world.control("cancel", intent=world.open()[0].intent)
    return world, world.seal()


def follower(world: MemoryWorld, opens: OpenKernel) -> KernelProtocol:
    """A kernel at the end of the last frame but one."""
    kernel = opens(world=world.state.world, read=world.read, find=world.places.get)
    for frame in world.frames[:-1]:
        kernel.follow(frame)
    return kernel


def redecided_by(
    kernel: KernelProtocol, world: MemoryWorld, records: Sequence[Record]
) -> tuple[int, int]:
    """Let a kernel decide records again as long as it does: how many it entered, and the calls that
    it asked for."""
    assert isinstance(kernel, Redecides)
    redecided = kernel.redecide([to_bytes(record) for record in records])
    entered, calls = redecided.records, 0
    while redecided.call is not None:
        calls += 1
        redecided = kernel.redecide((), world.runner.run(redecided.call))
        entered += redecided.records
    return entered, calls


def test_recorded_records_are_decided_again_and_lead_to_the_same_frame(opens: OpenKernel) -> None:
    """CR-5a: all but a command, which the host decides."""
    world, records = journal()
    kernel = follower(world, opens)
    if not isinstance(kernel, Redecides):
        assert opens is OPENERS["python"]  # replay does all of it
        return
    kinds = {type(record) for record in records}
    assert kinds == {Event, Step, Faulted, Receipt, KernelReceipt, Control}

    steps = sum(isinstance(record, Step | Faulted) for record in records)
    assert redecided_by(kernel, world, records) == (len(records) - 1, steps)
    command = records[-1]
    assert isinstance(command, Control)
    decision = kernel.decide(input_of(command, kernel.read), command.stamp)
    assert isinstance(decision, Decided)
    assert decision.record == command
    kernel.enter(decision)

    sealed = kernel.seal(world.frames[-1].salt)
    assert sealed is not None
    assert sealed.frame == world.frames[-1]


def altered(record: Record) -> Iterator[Record]:
    """A record with another field that the kernel computes."""
    match record:
        case Event():
            yield dataclasses.replace(record, to=())
        case Step() | Faulted():
            yield dataclasses.replace(record, fuel=record.fuel + 1)
            yield dataclasses.replace(record, cell=cell_id("z"))
            yield dataclasses.replace(record, entry=(record.entry[0], record.entry[1] + 1))
        case Receipt():
            yield dataclasses.replace(record, outcome="rejected")
        case KernelReceipt():
            yield dataclasses.replace(record, root=record.root + 1)


def test_a_record_that_comes_out_different_is_left_and_has_changed_nothing(
    opens: OpenKernel,
) -> None:
    """CR-5a: a step of another cell or entry does not run."""
    world, records = journal()
    if not isinstance(follower(world, opens), Redecides):
        return
    alterations = [
        (index, other) for index, record in enumerate(records) for other in altered(record)
    ]
    assert len(alterations) >= len(records)
    for index, other in alterations:
        kernel = follower(world, opens)
        calls = sum(isinstance(record, Step | Faulted) for record in records[:index])
        runs = isinstance(other, Step | Faulted) and other.fuel != _fuel_of(records[index])

        found = redecided_by(kernel, world, [*records[:index], other])

        assert found == (index, calls + runs), other
        assert kernel.next_seq == other.seq
        assert redecided_by(kernel, world, records[index : index + 1])[0] == 1


def _fuel_of(record: Record) -> int:
    assert isinstance(record, Step | Faulted)
    return record.fuel


def test_a_fault_of_the_machine_is_left_and_does_not_run(opens: OpenKernel) -> None:
    """CR-5a, A-16."""
    world = cases()
    world.seal()
    world.kernel.admit(event("a"), world.stamp())
    assert isinstance(world.kernel.next(), Call)
    fault = Fault(kind=FaultKind.STACK, message="the guest's stack is used up")
    world.kernel.end_step(Ran(output=None, fault=fault, fuel=7, pages=1))
    records = world.seal()
    kernel = follower(world, opens)
    if isinstance(kernel, Redecides):
        assert redecided_by(kernel, world, records) == (1, 0)


@dataclass
class Interrupted:
    """The functions of a host, which raise ``problem`` as long as it is set."""

    world: MemoryWorld
    problem: BaseException | None = None

    def _look(self) -> None:
        if self.problem is not None:
            raise self.problem

    def read(self, hash: Hash, /) -> bytes:
        self._look()
        return self.world.read(hash)

    def find(self, submission_id: str) -> int | None:
        self._look()
        return self.world.places.get(submission_id)

    def verify(self, message: bytes, signature: bytes, public_key: bytes) -> bool:
        self._look()
        return is_signed(message, signature, public_key)


@pytest.mark.parametrize(
    "problem",
    [
        Damage("it cannot be read"),
        NoRoom("the disk is full", needed_bytes=1, free=0),
        Stopping("the world is stopping"),
        KeyboardInterrupt(),
        MemoryError(),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_an_exception_of_a_function_of_the_host_has_changed_nothing(
    opens: OpenKernel, problem: BaseException
) -> None:
    """CR-10."""
    world = desks()
    ask_desk(world, "a", pay("p"), note="long " * 400)
    world.send("t/Tell@1", {"key": "b", "asks": [], "note": ""}, "old")
    world.run()
    world.seal()
    [intent] = world.open()
    document = world.kernel.snapshot(lambda data: put(world, data)).document
    host = Interrupted(world)
    kernel = opens(snapshot=document, read=host.read, find=host.find, verify=host.verify)
    value = encode({"key": "a", "asks": [], "note": ""})
    sent = EventInput(schema="t/Tell@1", value=value, submission_id="new")
    operations: list[tuple[Callable[[], object], type]] = [
        (lambda: kernel.decide(sent, world.stamp()), Decided),  # find
        (lambda: kernel.decide(world.receipt(intent), world.stamp()), Decided),  # verify
        (kernel.next, Call),  # read
    ]
    for operation, follows in operations:
        if follows is Call:
            kernel.admit(sent, world.stamp())
        before = (kernel.tip, kernel.next_seq, kernel.pending_records, kernel.figures())
        host.problem = problem
        with pytest.raises(type(problem)) as raised:
            operation()
        host.problem = None
        assert raised.value is problem
        assert before == (kernel.tip, kernel.next_seq, kernel.pending_records, kernel.figures())
        assert isinstance(operation(), follows)


def put(world: MemoryWorld, data: bytes) -> Hash:
    hash = content_hash(data)
    world.blobs[hash] = data
    return hash


def test_open_work_is_told_one_by_one_and_all() -> None:
    """CR-7."""
    world = desks()
    ask_desk(world, "a", pay("p"), pay("q", 2))
    first, second = world.open()
    world.attempt(first, 2)
    world.stream(second, 7)

    work = list(world.kernel.open_intents())

    assert [each.intent for each in work] == [first, second]
    assert [(each.attempt, each.next_frame) for each in work] == [(2, 0), (1, 8)]
    assert [world.kernel.progress_of(each.intent.intent) for each in work] == work
    world.control("end", cell=cell_id("a"), status="completed", why="over")
    assert list(world.kernel.open_intents()) == []
    abandoned = world.kernel.progress_of(first.intent)
    assert abandoned is not None
    assert abandoned.is_abandoned
    assert world.kernel.takes_receipt(first.intent)
    assert not world.kernel.takes_receipt(Hash(bytes(32)))
    assert EFFECT_CANCEL not in {each.intent.effect.name for each in work}


def test_open_timers_are_listed_by_their_time() -> None:
    """CR-7, SN-16: of cells at rest, of one that came into memory, and of new ones."""
    world = desks()
    world.seal()
    world.limits = Limits(delta_bytes=0)
    world.restart()
    world.kernel.spill(resting_max=1)
    later = world.now_ns + 10**12

    def sleep(key: str, after: int) -> None:
        ask_desk(world, key, wish(TIMER, {"deliver_at_ns": later + after, "key": None}))

    def listed() -> list[int]:
        timers = world.kernel.open_timers(None, 9)
        assert list(timers[1:]) == list(world.kernel.open_timers(timers[0].place, 9))
        assert world.kernel.figures().open_timers == len(timers)
        return [int.from_bytes(timer.place[:8], "big") - later for timer in timers]

    for number, key in enumerate("abcd"):
        sleep(key, 40 - 10 * number)
    ask_desk(world, "p", pay())
    world.seal()
    world.restart(world.kernel.snapshot(world.put).document)
    world.kernel.spill(resting_max=1)
    sleep("e", 25)
    sleep("f", 5)
    assert listed() == [5, 10, 20, 25, 30, 40]
    ask_desk(world, "b", note="hello")
    ask_desk(world, "c", note="fail")
    assert listed() == [5, 10, 20, 25, 30, 40]
    world.control("end", cell=cell_id("d"), status="completed")
    world.control("end", cell=cell_id("e"), status="completed")
    world.run()
    assert listed() == [5, 20, 30, 40]
    others = [each.intent.effect.name for each in world.kernel.open_intents(but=TIMER)]
    assert others == [PAY]


@pytest.mark.parametrize("name", [b"", b"short", bytes(33)])
def test_a_name_that_is_no_hash_names_nothing(name: bytes) -> None:
    """A sender chooses it."""
    world = desks()
    ask_desk(world, "a", pay("p"))

    assert not world.kernel.takes_receipt(Hash(name))
    assert world.kernel.progress_of(Hash(name)) is None
    assert list(world.kernel.uses(Hash(name))) == []
    world.send("t/Tell@1", {"key": "a", "asks": [], "note": ""})
    with pytest.raises(Damage, match="is missing"):
        world.kernel.read(Hash(name))


def test_cells_are_read_by_id_and_by_workflow() -> None:
    world = desks()
    for key in ("b", "a"):
        ask_desk(world, key)

    keys = [each.id for each in world.kernel.cells_of(DESK)]

    assert sorted(keys, key=lambda cell: content_hash(cell[1])) == keys
    assert {*keys} == {cell_id("a"), cell_id("b")}
    seen = world.kernel.cell(cell_id("a"))
    assert seen is not None
    assert seen.status == "running"
    assert world.kernel.writer_of(cell_id("a")) == world.effective.workflows[DESK]
    assert world.kernel.cell(cell_id("z")) is None
    assert world.kernel.writer_of(cell_id("z")) is None


def test_a_decided_input_with_a_runner_is_the_answer_of_the_kernel() -> None:
    world = cases()
    decision = decided(world.kernel, event("a"), world.stamp(), world.runner, world.blobs.update)
    assert isinstance(decision, Decided)
    assert case("a") in getattr(decision.record, "to", ())


def test_a_shard_takes_and_reads_only_what_is_its_own() -> None:
    """K-40a, K-85a, GR-2 to GR-5, GR-12, GR-13: of senders, steps and operators."""
    world = MemoryWorld(in_shard(shop(), 1, 3), MODULES)
    customers = [f"c-{number}" for number in range(12)]
    near = [name for name in customers if shard_of_key(encode(name), 3) == 1]
    assert 1 < len(near) < len(customers)

    admitted = [
        isinstance(world.send(PLACED, {"order": f"{name}|o/1", "note": "ship"}), Admitted)
        for name in customers
    ]
    for name in customers:
        for action in ("look", "resolve", "tell"):
            order: Value = {
                "order": f"{near[0]}|{name}-{action}",
                "note": f"{action}:{name}|o/1",
            }
            assert isinstance(world.send(PLACED, order), Admitted)
    world.run()

    assert admitted == [name in near for name in customers]
    assert isinstance(world.send(RATED, {"key": "", "note": "rate"}), Admitted)
    in_first: list[tuple[str, Value]] = [
        (NOTED, {"key": "", "note": "log"}), ("aos/SchedulePause@1", {"id": near[0]}),
    ]  # fmt: skip
    for schema, value in in_first:
        refusal = world.send(schema, value)
        assert isinstance(refusal, Refusal)
        assert refusal.rule is Rule.KEY_OF_ANOTHER_SHARD
    world.run()
    other_shard, elsewhere = in_shard(shop(version=2), 2, 3), in_shard(shop([], version=2), 1, 3)
    assert isinstance(world.apply(other_shard, MODULES), Refusal)
    assert isinstance(world.apply(elsewhere, MODULES), Refusal)
    assert isinstance(world.apply(in_shard(shop(version=2), 1, 3), MODULES), Admitted)
