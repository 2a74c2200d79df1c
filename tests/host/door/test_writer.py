"""Writing to a world, with its lock or through its socket, and reading from another process."""

from __future__ import annotations

import base64
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal, Rule
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Event, Ref
from aos.errors import BadUsage, Damage, Refused, Unavailable
from aos.host.apply.dry_run import dry_run_of
from aos.host.door import remote as remote_module
from aos.host.door import way
from aos.host.door import writer as client
from aos.host.door.protocol import short_path
from aos.host.door.remote import ask_running
from aos.host.door.writer import Item, open_writer
from aos.host.errors import Busy
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.host.retention.pruning import prune_world
from aos.host.retention.rebuilding import rebuild_world
from aos.host.transfer.adopting import adopt_world
from aos.sandbox.inspect import ModuleRefused
from aos.store.errors import CommitFailed
from aos.store.lock import WorldLock
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from tests.host.puppet import DO, PUPPET, asks, do, manifest
from tests.host.rig import ADD, MODULES, TIMEOUT_S, add, asking, eventually, loaded
from tests.host.served import served
from tests.memory_world import MemoryWorld
from tests.tools import takes_less_than


def json_item(key: str, submission_id: str | None = None) -> Item:
    return Item(schema=DO, value={"key": key}, submission_id=submission_id)


def seqs(answers: list[Answer]) -> list[int]:
    return [answer.seq for answer in answers if isinstance(answer, Admitted)]


def numbered(count: int) -> Iterator[Item]:
    for i in range(count):
        yield Item(schema=ADD, value={"key": "a", "by": i}, submission_id=f"s{i}")


# With the lock


def test_events_are_durable_when_answered_and_nothing_is_stepped(world: Path) -> None:  # H-54
    with open_writer(world) as writer:
        assert writer.is_direct
        first, second = writer.send([do("a"), json_item("b", "one")])
        with open_reader(world) as reader:
            assert isinstance(second, Admitted)
            assert reader.seq == second.seq
            assert list(reader.state.ring) == [(PUPPET, encode("a")), (PUPPET, encode("b"))]
    assert isinstance(first, Admitted)
    with open_writer(world) as writer:
        [again] = writer.send([json_item("b", "one")])
    assert again == Duplicate(seq=second.seq)


def test_json_values_are_spelt_by_the_schema_and_refused_one_by_one(world: Path) -> None:  # H-55
    with open_writer(world) as writer:
        answers = list(
            writer.send(
                [
                    Item(schema=DO, value={"key": "a", "out": base64.b64encode(b"\xf6").decode()}),
                    Item(schema=DO, value={"key": 5}),
                    Item(schema="host/None@1", value={}),
                    Item(schema=DO, value=None),
                    json_item("b"),
                ]
            )
        )
        rules = [answer.rule for answer in answers if isinstance(answer, Refusal)]
        assert len(seqs(answers)) == 2
        assert rules == [
            Rule.EVENT_IS_INVALID,
            Rule.EVENT_SCHEMA_IS_UNKNOWN,
            Rule.EVENT_IS_INVALID,
        ]
        assert "$.key: expected text, found" in getattr(answers[1], "message", "")
    with open_reader(world) as reader:
        frames = list(reader.store.frames(3))
        events = [from_bytes(record) for frame in frames for record in frame.records]
        values = [event.value for event in events if isinstance(event, Event)]
        assert values == [
            encode({"key": "a", "out": b"\xf6", "trap": None}),
            encode({"key": "b", "out": None, "trap": None}),
        ]


def test_a_long_stream_is_answered_in_order(world: Path) -> None:  # H-55
    total = 3000
    with open_writer(world) as writer:
        found = seqs(list(writer.send(do(f"k{i % 7}") for i in range(total))))
    assert found == list(range(3, 3 + total))


def test_with_batches_of_one_each_event_is_answered_before_the_next_is_taken(world: Path) -> None:
    """H-55"""
    taken: list[int] = []

    def items() -> Iterator[Item]:
        for i in range(3):
            taken.append(i)
            yield do("a")

    with open_writer(world) as writer:
        for answered, _ in enumerate(writer.send(items(), batch_items=1), start=1):
            assert len(taken) == answered


def test_batches_are_bounded_in_bytes(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    with open_writer(world) as writer:
        post = writer._way.post
        monkeypatch.setattr(client, "BATCH_BYTES", 1000)

        def note(events: Any, about: Any) -> Any:
            sizes.append(len(events))
            return post(events, about)

        monkeypatch.setattr(writer._way, "post", note)
        assert len(seqs(list(writer.send(do("x" * 300) for _ in range(10))))) == 10
    assert sizes == [3, 3, 3, 1]


def test_a_failed_commit_is_raised_and_earlier_answers_stay_valid(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-25"""
    writer = open_writer(world)
    answers = writer.send((do("a") for _ in range(10)), batch_items=1)
    first = next(answers)

    def fail(*_: object, **__: object) -> None:
        raise CommitFailed("input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(type(writer._way._store), "append", fail)  # type: ignore[attr-defined]
        with pytest.raises(CommitFailed):
            list(answers)
    with pytest.raises(CommitFailed):
        writer.close()
    with open_reader(world) as reader:
        assert isinstance(first, Admitted)
        assert reader.seq == first.seq


def test_the_lock_is_given_back_also_when_opening_fails(world: Path) -> None:  # H-54
    (world / "keys" / "world.key").unlink()
    with pytest.raises(Unavailable, match="the key is missing"):
        open_writer(world)
    with WorldLock(world):
        pass


def test_a_world_is_not_written_with_another_key(world: Path) -> None:  # H-41
    (world / "keys" / "world.key").write_text("ab" * 32)
    with pytest.raises(Refused, match=r"keys/world\.key is not this world's key"):
        open_writer(world)
    with open_reader(world) as reader:
        assert reader.seq == 2


def test_a_submission_id_that_is_no_text_is_refused_alone(world: Path) -> None:  # H-55
    with open_writer(world) as writer:
        refused, taken = writer.send([do("a", None, "\ud800"), do("a", None, "é😀")])
    assert isinstance(refused, Refusal)
    assert "not UTF-8 text" in refused.message
    assert isinstance(taken, Admitted)


# Through the socket


def test_a_held_world_is_written_through_its_socket(tmp_path: Path) -> None:  # H-54
    with served(tmp_path / "w") as world, open_writer(world.path) as writer:
        assert not writer.is_direct
        answers = list(writer.send(numbered(1500)))
        assert len(seqs(answers)) == 1500
        assert seqs(answers) == sorted(seqs(answers))
        again = list(writer.send(numbered(3)))
        assert [type(answer).__name__ for answer in again] == ["Duplicate"] * 3
        [refused] = writer.send([Item(schema=ADD, value={"key": "a", "by": "x"})])
        assert isinstance(refused, Refusal)
        assert refused.rule is Rule.EVENT_IS_INVALID


def test_many_clients_send_at_once(tmp_path: Path) -> None:  # H-12
    found: dict[int, list[int]] = {}
    with served(tmp_path / "w") as world:

        def send(who: int) -> None:
            with open_writer(world.path) as writer:
                items = [Item(schema=ADD, value={"key": f"s{who}", "by": 1})] * 60
                found[who] = seqs(list(writer.send(items, batch_items=20)))

        threads = [threading.Thread(target=send, args=(who,)) for who in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(found) == list(range(6))
    assert all(len(each) == 60 and each == sorted(each) for each in found.values())


def test_events_are_spelt_again_when_the_manifest_changes(tmp_path: Path) -> None:  # H-56
    with served(tmp_path / "w") as world, open_writer(world.path) as writer:
        assert seqs(list(writer.send(numbered(1))))
        changed = loaded(version=2)
        world.rig.runner.modules = {
            **world.rig.runner.modules,
            **MemoryWorld.by_hash(changed, MODULES),
        }
        world.rig.quiet()
        assert isinstance(world.rig.apply(changed), Admitted)
        [answer] = writer.send([Item(schema=ADD, value={"key": "b", "by": 1})])
        assert isinstance(answer, Admitted)


def test_a_world_without_a_manifest_says_so_for_each_event(tmp_path: Path) -> None:
    path = tmp_path / "w"
    init_world(path)
    with open_writer(path) as writer:
        for answer in writer.send([do("a"), json_item("a")]):
            assert isinstance(answer, Refusal)
            assert answer.rule is Rule.WORLD_HAS_NO_MANIFEST


def test_a_world_that_is_held_and_silent_is_unavailable_after_a_while(world: Path) -> None:
    """H-54"""

    def give_up() -> None:
        with pytest.raises(Unavailable, match=r"it does not answer on .*aos\.sock") as raised:
            open_writer(world, connect_s=0.1)
        assert "the world is written by" in str(raised.value)

    with WorldLock(world):
        assert takes_less_than(10, give_up)


def test_a_writer_tells_what_it_waits_for(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H-54"""
    monkeypatch.setattr("aos.host.door.writer.TELL_S", 0.1)
    reports: list[str] = []
    lock = WorldLock(world, runs=True)
    lock.acquire()

    def report(line: str) -> None:
        reports.append(line)
        lock.release()

    with open_writer(world, connect_s=TIMEOUT_S, report=report) as writer:
        assert writer.is_direct

    [line] = reports
    assert "the world is written by this process" in line
    assert "waiting up to" in line


def test_a_start_of_more_than_five_seconds_is_waited_for(world: Path) -> None:
    """H-54"""
    lock = WorldLock(world, runs=True)
    lock.acquire()
    timer = threading.Timer(6.0, lock.release)
    timer.start()
    with open_writer(world) as writer:
        [answer] = writer.send([do("a")])
    timer.join()

    assert isinstance(answer, Admitted)


@pytest.mark.parametrize("act", [prune_world, rebuild_world, adopt_world])
def test_other_holders_wait_for_a_writer_too(world: Path, act: Callable[[Path], object]) -> None:
    """H-54a"""
    writer = open_writer(world)
    timer = threading.Timer(0.5, writer.close)
    timer.start()
    try:
        with suppress(BadUsage, Refused):  # there is nothing to do
            act(world)
    finally:
        timer.join()


def test_a_socket_that_a_dead_process_left_does_not_mislead(world: Path) -> None:  # H-52
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(world / "aos.sock"))
    with open_writer(world) as writer:
        assert writer.is_direct
    with WorldLock(world), pytest.raises(Unavailable, match="does not answer"):
        open_writer(world, connect_s=0.05)
    with pytest.raises(Unavailable, match="no process runs this world"):
        ask_running(world, "status")


def test_a_writer_waits_for_a_world_that_is_starting(tmp_path: Path) -> None:  # H-54
    answers: list[Answer] = []

    def send() -> None:
        with open_writer(tmp_path / "w") as writer:
            answers.extend(writer.send(numbered(1)))

    early = threading.Thread(target=send)

    def before() -> None:
        early.start()
        time.sleep(0.1)
        assert early.is_alive()

    with served(tmp_path / "w", before=before):
        early.join(60)
    assert len(seqs(answers)) == 1


def test_a_connection_that_breaks_is_told_with_what_is_not_known(tmp_path: Path) -> None:  # H-54
    with served(tmp_path / "w") as world:
        writer = open_writer(world.path)
        next(iter(writer.send(numbered(1))))
    with pytest.raises(
        Unavailable, match=r"the world went away: Broken pipe; the request was not accepted"
    ):
        list(writer.send(numbered(2)))
    writer.close()


def test_another_world_behind_the_socket_is_noticed(tmp_path: Path) -> None:  # H-54
    with served(tmp_path / "w") as world, open_writer(world.path) as writer:
        object.__setattr__(writer.folder, "world", bytes(32))
        with pytest.raises(Unavailable, match="runs another world"):
            writer.signed_state()


def test_the_running_process_can_be_asked(tmp_path: Path) -> None:  # H-58
    with served(tmp_path / "w") as world:
        world.rig.ask(add("a"))
        assert ask_running(world.path, "status")["world"] == world.rig.world
        assert ask_running(world.path, "stop")["stopping"] is True
        eventually(lambda: world.stops == ["asked"], "it was asked")
        with pytest.raises(BadUsage, match="op: expected one of"):
            ask_running(world.path, "dance")


def test_an_answer_is_waited_for_so_long(tmp_path: Path) -> None:  # H-54
    with socket.socket(socket.AF_UNIX) as mute, socket.socket(socket.AF_UNIX) as connection:
        mute.bind(str(tmp_path / "s"))
        mute.listen()
        connection.connect(str(tmp_path / "s"))
        remote = remote_module.Remote(connection, Path("s"), 0.0)
        with pytest.raises(Unavailable, match=r"no answer in 0\.05 seconds; it is unknown"):
            remote.ask({"op": "status"}, answer_s=0.05)


def test_a_writer_with_the_lock_waits_for_room(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-57"""
    with open_writer(world, busy_s=TIMEOUT_S) as writer:
        way: Any = writer._way
        engine = way._engine  # it is the direct way
        submit: Any = engine.submit
        busy: Iterator[Busy] = iter([Busy("full"), Busy("full")])

        def sometimes(*given: Any) -> Any:
            for problem in busy:
                raise problem
            return submit(*given)

        monkeypatch.setattr(engine, "submit", sometimes)
        assert len(seqs(list(writer.send([do("a")])))) == 1
        busy = itertools.repeat(Busy("full"))
        way._busy_s = 0.2
        with pytest.raises(Busy):
            list(writer.send([do("a")]))


def test_an_input_that_no_message_could_carry_is_refused_alone(world: Path) -> None:  # H-55
    with open_writer(world) as writer:
        large = Item(schema=DO, value=bytes(client.VALUE_BYTES_MAX + 1))
        refused, taken = writer.send([large, do("a")])
    assert isinstance(refused, Refusal)
    assert "too large" in refused.message
    assert isinstance(taken, Admitted)


def test_a_socket_path_that_is_too_long_needs_proc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-52"""
    monkeypatch.setattr(Path, "is_dir", lambda _: False)
    with short_path(Path("/short")) as found:
        assert found == "/short"
    with pytest.raises(Unavailable, match="may have 107 bytes here"), short_path(Path("x" * 108)):
        pass


# Manifests


def test_applying_tells_the_difference_and_puts_it_in_force(world: Path) -> None:  # H-70
    changed = manifest(version=2)
    with open_writer(world) as writer:
        applied = writer.apply(changed)
        assert isinstance(applied.answer, Admitted)
        assert [str(each) for each in applied.difference.limits] == [
            f"~ {PUPPET} effects: 63 -> 62"
        ]
        again = writer.apply(changed)
        assert isinstance(again.answer, Refusal)
        assert again.answer.rule is Rule.MANIFEST_IS_IN_FORCE
        assert again.difference.is_empty
    with open_reader(world) as reader:
        assert reader.manifest is not None
        assert reader.manifest.hash == applied.manifest
        assert reader.state.serial == 2
        assert all(reader.store.has_blob(module) for module in changed.modules)


def test_a_dry_run_tells_the_same_and_changes_nothing(world: Path) -> None:  # H-71
    with open_writer(world) as writer:
        list(writer.send([do("a", asks("x"))]))
        before = open_reader(world)
        dry = writer.apply(manifest(version=2), dry_run=True)
        assert before.refresh() == 0
        before.close()
        applied = writer.apply(manifest(version=2))
    assert dry.answer is None
    assert dry.difference == applied.difference
    assert [each.kind for each in dry.blockers] == ["instance_is_not_terminal", "mail_is_queued"]
    assert isinstance(applied.answer, Refusal)
    assert applied.answer.rule is Rule.WORLD_IS_NOT_QUIESCENT
    assert applied.blockers == dry.blockers


def test_a_dry_run_needs_no_lock(world: Path) -> None:  # H-71
    with WorldLock(world):
        assert dry_run_of(world, manifest(version=2)).blockers == ()


def test_only_an_operator_may_apply(world: Path) -> None:  # H-70
    with open_writer(world) as writer:
        with pytest.raises(
            Refused, match=r"this key may not apply a manifest.*operator's ed25519:"
        ):
            writer.apply(manifest(version=2), key=SigningKey(bytes(32)))
        own = writer.folder.operator_key()
        assert isinstance(writer.apply(manifest(version=2), key=own).answer, Admitted)


def test_a_module_that_may_not_run_is_refused_where_it_is_admitted(tmp_path: Path) -> None:
    """H-72"""
    with served(tmp_path / "w") as world, open_writer(world.path) as writer:
        with pytest.raises(Refused, match="module t/counter-module@1:"):
            writer.apply(loaded(version=2))
        assert world.rig.engine.stats().figures.serial == 1
    init_world(tmp_path / "d")
    with open_writer(tmp_path / "d") as direct, pytest.raises(ModuleRefused):
        direct.apply(loaded())


def test_a_manifest_is_applied_through_the_socket(tmp_path: Path) -> None:  # H-70
    changed = manifest()
    with served(tmp_path / "w") as world, open_writer(world.path) as writer:
        applied = writer.apply(changed)
        assert isinstance(applied.answer, Admitted)
        assert world.rig.engine.stats().figures.manifest == changed.effective
        assert all(world.rig.store.has_blob(module) for module in changed.modules)


def test_modules_are_handed_over_again_on_a_new_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-54: the connection makes room for another one after its first module."""
    changed = manifest()
    real, asked = remote_module.Remote._ask, []
    with served(tmp_path / "w", connections_max=1) as world, open_writer(world.path) as writer:

        def ask(remote: Any, fields: Any, **more: Any) -> Any:
            answer = real(remote, fields, **more)
            asked.append(fields["op"])
            if asked.count("module") == 1 and fields["op"] == "module":
                with world.connect() as other:
                    assert "pid" in world.ask(other, op="status")
            return answer

        monkeypatch.setattr(remote_module.Remote, "_ask", ask)
        applied = writer.apply(changed)

    assert isinstance(applied.answer, Admitted)
    assert asked == ["manifest", "module", "module", "apply"]
    assert world.rig.engine.stats().figures.serial == 2


# Commands of operators


def test_a_command_is_signed_and_given_with_the_lock(world: Path) -> None:  # H-59a
    with open_writer(world) as writer:
        refused = writer.control("retry", cell=(PUPPET, encode("a")))
        unknown = writer.control("erase", value=Hash(bytes(32)))
        assert isinstance(refused, Refusal)
        assert refused.rule is Rule.CELL_HAS_NOT_FAILED
        assert isinstance(unknown, Refusal)
        assert unknown.rule is Rule.VALUE_IS_UNKNOWN
        with pytest.raises(Refused, match=r"this key may not command this world: .*operator's"):
            writer.control("retry", cell=(PUPPET, encode("a")), key=SigningKey(bytes(32)))
        assert writer.signed_state().controls == 0
    with open_reader(world) as reader:
        assert reader.seq == 2


def test_erased_values_leave_the_file_when_no_process_runs_the_world(world: Path) -> None:  # H-59c
    long = b"personal " * 200
    with open_writer(world) as writer:
        list(writer.send([do("a", long)]))
        with open_reader(world) as reader:
            [frame] = reader.store.frames(3)
        [event] = map(from_bytes, frame.records)
        assert isinstance(event, Event)
        assert isinstance(event.value, Ref)
        value = event.value.hash
        needed = writer.control("erase", value=value)
        assert isinstance(needed, Refusal)
        assert needed.rule is Rule.VALUE_IS_IN_USE
        orphan = content_hash(long)
        writer._way._store.put_blobs({orphan: long})  # type: ignore[attr-defined]  # it is the direct way
        erased = writer.control("erase", value=orphan)
        assert isinstance(erased, Admitted)
        assert writer.signed_state().controls == 1
        assert writer.compact()
    with open_reader(world) as reader:
        assert not reader.store.has_blob(orphan)
        assert reader.store.has_blob(value)
        assert reader.seq == erased.seq


def test_the_process_that_runs_a_world_keeps_its_file(tmp_path: Path) -> None:  # H-59c
    with served(tmp_path / "w") as world, open_writer(world.path) as writer:
        world.rig.ask(asking("a"))
        [intent] = world.rig.opened(1)
        answer = writer.control("cancel", intent=intent.intent)
        assert isinstance(answer, Admitted)
        assert not writer.compact()
        late = writer.control("cancel", intent=intent.intent)
        assert isinstance(late, Refusal)
        assert late.rule is Rule.INTENT_IS_NOT_OPEN
        assert writer.signed_state().controls == 1


def test_a_command_is_signed_again_when_another_came_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-59b"""
    with served(tmp_path / "w") as world, open_writer(world.path) as writer:
        world.rig.ask(asking("a"), asking("b"))
        first, second = world.rig.opened(2)
        given = writer._way.control
        others: list[Answer] = []

        def late(command: Any) -> Answer:
            if not others:
                with open_writer(world.path) as other:
                    others.append(other.control("cancel", intent=first.intent))
            return given(command)

        monkeypatch.setattr(writer._way, "control", late)
        answer = writer.control("cancel", intent=second.intent)
        [other] = others
        assert isinstance(answer, Admitted)
        assert isinstance(other, Admitted)
        assert answer.seq > other.seq


def test_a_command_that_always_comes_too_late_is_refused(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-59b"""
    refusal = Refusal(rule=Rule.CONTROL_SERIAL_IS_WRONG, message="another came in")
    monkeypatch.setattr(way, "PAUSE_S", 0.0)
    with open_writer(world) as writer:
        given: list[Any] = []

        def never(command: Any) -> Answer:
            given.append(command)
            return refusal

        monkeypatch.setattr(writer._way, "control", never)
        assert writer.control("retry", cell=(PUPPET, b"")) is refusal
    assert len(given) == client.SIGNED_AGAIN_MAX


# Reading


def test_a_reader_follows_a_running_world(world: Path) -> None:  # H-45
    folded: list[tuple[int, int]] = []
    # LMDB lets one process read and write, if it opened the writer first.
    with (
        open_writer(world) as writer,
        open_reader(world, progress=lambda done, of: folded.append((done, of))) as reader,
    ):
        assert folded[-1] == (2, 2)
        list(writer.send(do("a") for _ in range(5)))
        assert reader.seq == 2
        assert reader.refresh() == 5
        assert reader.refresh() == 0
        assert len(reader.state.cells[PUPPET, encode("a")].mailbox) == 5


def test_reading_changes_nothing_in_the_folder(world: Path) -> None:  # H-46
    before = sorted(str(each) for each in world.rglob("*"))
    with open_reader(world):
        pass
    assert sorted(str(each) for each in world.rglob("*")) == before


def test_a_reader_finds_an_altered_record(world: Path) -> None:  # H-41
    with open_reader(world) as reader:
        [record] = next(reader.store.frames(2)).records
    file = world / "store" / "data.mdb"
    data = file.read_bytes()
    assert data.count(record) == 1
    altered = record.replace(b"operator", b"Operator")
    file.write_bytes(data.replace(record, altered))
    with pytest.raises(Damage, match=r"frame 2 \(records 2 to 2\) is altered"):
        open_reader(world)
