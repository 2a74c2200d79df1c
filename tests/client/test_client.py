"""A service's client of a world, against real processes that run the world, and that are killed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aos.client
from aos.client import Accepted, Duplicate, Instance, Refusal, Rule, WaitTimedOut
from aos.client.sending import Sender
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Event
from aos.errors import BadUsage, Unavailable
from aos.host.door.writer import Item
from aos.host.errors import Busy
from aos.host.folder.folder import open_folder
from tests.cli.shell import in_silence
from tests.client.conftest import running_trips, start_trips
from tests.copies import copied

WANTED = "trip/Requested@1"


def trip(id: str, city: str = "Lisbon") -> dict[str, str]:
    return {"trip_id": id, "city": city}


@pytest.fixture(scope="module")
def served(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One world that a process runs during all tests of this module that take it."""
    path = copied(template, tmp_path_factory.mktemp("served") / "trips")
    with running_trips(path):
        yield path


def test_each_event_gets_one_of_three_answers(served: Path) -> None:
    with aos.client.connect(served) as world:
        accepted = world.send(WANTED, trip("a-1"), id="web-1")
        again = world.send(WANTED, trip("a-1"), id="web-1")
        refused = world.send(WANTED, {"trip_id": "a-1"}, id="web-2")

    assert isinstance(accepted, Accepted)
    assert accepted.to == (("trip/booking@1", "a-1"),)
    assert isinstance(again, Duplicate)
    assert again.seq == accepted.seq
    assert isinstance(refused, Refusal)
    assert refused.rule is Rule.EVENT_IS_INVALID
    assert "city" in refused.message


def test_an_instance_is_waited_for_and_its_state_is_read_by_its_schema(served: Path) -> None:
    with aos.client.connect(str(served)) as world:
        answer = world.send(WANTED, trip("b-1"))
        found = world.wait("booking", "b-1")

        assert isinstance(answer, Accepted)
        assert (found.workflow, found.key, found.status) == ("trip/booking@1", "b-1", "completed")
        assert found.state["city"] == "Lisbon"
        assert found.has_ended
        assert found.seq > answer.seq
        assert world.instance("trip/booking@1", "b-1") == world.wait("booking", "b-1")


def test_a_wait_ends_at_a_status_at_one_of_several_or_by_a_function(served: Path) -> None:
    with aos.client.connect(served) as world:
        world.send(WANTED, trip("c-1", "Limbo"))

        assert world.wait("booking", "c-1").status == "failed"
        assert world.wait("booking", "c-1", until="failed").status == "failed"
        assert world.wait("booking", "c-1", until={"waiting", "failed"}).status == "failed"
        assert world.wait("booking", "c-1", until=lambda each: bool(each.state["undo"])).state


def test_a_wait_that_takes_too_long_says_what_the_instance_waits_for(trips: Path) -> None:
    assert in_silence("send", WANTED, '{"trip_id": "t", "city": "Oslo"}', "--world", trips) == 0
    assert in_silence("run", "--until-waiting", "--world", trips) == 0

    with aos.client.connect(trips) as world, pytest.raises(WaitTimedOut) as caught:
        world.wait("booking", "t", timeout_s=0.05)

    assert str(caught.value).startswith(
        "booking t: still waiting after 0.05 s (waits for trip/book@1"
    )
    assert isinstance(caught.value.instance, Instance)
    with aos.client.connect(trips) as world, pytest.raises(WaitTimedOut, match="no such instance"):
        world.wait("booking", "nobody-knows-it", timeout_s=0)


def test_an_instance_with_an_event_that_it_has_not_handled_has_not_ended() -> None:
    document: dict[str, Any] = {
        "workflow": "t/w@1", "key": None, "status": "completed", "state": 1, "mailbox": 1,
        "mail_uncounted": 0, "fault": None, "reasons": [],
    }  # fmt: skip

    assert not Instance.of(document, seq=3).has_ended
    assert Instance.of({**document, "mailbox": 0}, seq=3).has_ended
    fault = {"kind": "trap", "message": "unreachable"}
    failed = Instance.of({**document, "status": "failed", "fault": fault}, seq=3)
    assert failed.has_ended
    assert failed.fault == "trap: unreachable"


def test_an_instance_that_is_not_there_is_none_and_a_name_that_is_not_known_is_an_error(
    served: Path,
) -> None:
    with aos.client.connect(served) as world:
        assert world.instance("booking", "never-sent") is None
        with pytest.raises(BadUsage, match="no workflow is called 'hotel': expected one of"):
            world.instance("hotel", "x")
        with pytest.raises(BadUsage, match="is keyed: expected the key of a cell after it"):
            world.instance("booking")
        with pytest.raises(BadUsage, match="key: expected a JSON value, found b'x'"):
            world.instance("booking", b"x")


def test_a_folder_that_is_no_world_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="there is no such folder"):
        aos.client.connect(tmp_path / "nowhere")


def test_a_client_waits_for_the_process_and_leaves_the_lock_to_it(trips: Path) -> None:
    with aos.client.connect(trips) as world:
        with pytest.raises(Unavailable, match=r"no process runs this world \(start one: aos run"):
            world.send(WANTED, trip("t"), timeout_s=0)
        with running_trips(trips):
            assert isinstance(world.send(WANTED, trip("t")), Accepted)
            assert world.wait("booking", "t").status == "completed"


def test_a_follower_gets_every_record_once_though_the_process_is_killed_and_started_again(
    trips: Path,
) -> None:
    with aos.client.connect(trips) as world:
        records = world.follow(after=0, idle_s=150)
        found = []
        with running_trips(trips) as process:
            world.send(WANTED, trip("t-1"), id="1")
            for record in records:
                found.append(record)
                if record["kind"] == "step":
                    break
            process.kill()
            process.wait()
        with running_trips(trips):
            answer = world.send(WANTED, trip("t-2"), id="2")
            assert isinstance(answer, Accepted)
            for each in ("t-1", "t-2"):
                assert world.wait("booking", each).status == "completed"
            last = world.seq()
            for record in records:
                found.append(record)
                if record["seq"] == last:
                    break

    assert [each["seq"] for each in found] == list(range(1, last + 1))
    assert [each["value"]["trip_id"] for each in found if each["kind"] == "event"] == ["t-1", "t-2"]
    starts = [each["seq"] for each in found if each["kind"] == "start"]
    assert len(starts) == 2, "one for each process"
    with aos.client.connect(trips) as later:
        rest = later.follow(after=starts[1], idle_s=0)
        assert list(rest) == found[starts[1] :], "another process continues after any record"


def test_a_follower_may_select_records_and_reads_instances_meanwhile(trips: Path) -> None:
    with aos.client.connect(trips) as world, running_trips(trips):
        world.send(WANTED, trip("t-1"))
        world.send(WANTED, trip("t-2", "Atlantis"))
        world.wait("booking", "t-1")
        world.wait("booking", "t-2")
        assert in_silence("snapshot", "--world", trips) == 0
        seen = []
        for record in world.follow(
            after=0, kinds=["step"], workflow="booking", key="t-2", idle_s=0
        ):
            assert world.instance("booking", "t-2") is not None
            seen.append((record["kind"], record["cell"]["key"]))

        assert set(seen) == {("step", "t-2")}
        with pytest.raises(BadUsage, match="no record is a 'steps'"):
            next(world.follow(kinds=["steps"]))
        end = world.seq()
        with pytest.raises(BadUsage, match=f"expected 0 to {end}, found {end + 1}"):
            next(world.follow(after=end + 1))


def test_a_client_continues_from_a_newer_snapshot_and_outlives_the_older_one(trips: Path) -> None:
    with aos.client.connect(trips) as world, running_trips(trips):
        for number in range(2):
            world.send(WANTED, trip(f"t-{number}"))
            world.wait("booking", f"t-{number}")
            assert in_silence("snapshot", "--world", trips) == 0
            assert world.instance("booking", "x") is None
        newest = list(world.follow(after=0, kinds=["snapshot"], idle_s=0))[-1]
        reader = world._current._open_reader()
        assert reader.state.cells.at == newest["at"]

        # The snapshot that it reads from is removed before its next read.
        world.send(WANTED, trip("t-2"))
        assert in_silence("snapshot", "--world", trips) == 0
        assert in_silence("gc", "--keep-snapshots", "1", "--world", trips) == 0
        found = world.instance("booking", "t-0")

    assert found is not None
    assert found.state["city"] == "Lisbon"


def test_events_with_an_id_are_accepted_once_though_the_process_is_killed(trips: Path) -> None:
    answers: dict[str, aos.client.SendAnswer] = {}

    def send() -> None:
        with aos.client.connect(trips) as world:
            for number in range(60):
                answers[f"web-{number}"] = world.send(
                    WANTED, trip(f"t-{number}"), id=f"web-{number}", timeout_s=60
                )

    process = start_trips(trips)
    sender = threading.Thread(target=send, name="sender")
    sender.start()
    try:
        while len(answers) < 10 and sender.is_alive():
            sender.join(0.001)
        process.kill()
        process.wait()
        process = start_trips(trips)
        sender.join(150)
        assert not sender.is_alive()
    finally:
        process.kill()
        process.wait()
        sender.join(90)

    assert len(answers) == 60
    assert all(isinstance(each, Accepted | Duplicate) for each in answers.values())
    accepted = Counter(each.submission_id for each in events(trips))
    assert accepted == dict.fromkeys(answers, 1)


def events(world: Path) -> list[Event]:
    with open_folder(world).open_store(readonly=True) as store:
        records = [from_bytes(data) for frame in store.frames() for data in frame.records]
    return [each for each in records if isinstance(each, Event)]


class Breaking:
    """A writer whose connection breaks a few times before the world answers."""

    in_force = None

    def __init__(self, *problems: Exception) -> None:
        self.problems = list(problems)
        self.sent: list[Item] = []

    def send(self, items: list[Item], *, batch_items: int) -> Iterator[Duplicate]:  # noqa: ARG002
        self.sent += items
        if self.problems:
            raise self.problems.pop(0)
        yield Duplicate(seq=7)

    def close(self) -> None:
        pass


def sender_over(writer: Breaking, world: Path, monkeypatch: pytest.MonkeyPatch) -> Sender:
    sender = Sender(open_folder(world))
    monkeypatch.setattr(sender, "_connected", lambda: writer)
    return sender


def test_an_event_without_an_id_is_never_sent_twice(
    trips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Unavailable("the world went away")
    writer = Breaking(broken)

    with pytest.raises(Unavailable, match="the world went away"):
        sender_over(writer, trips, monkeypatch).send(Item(schema=WANTED, value={}), 10)

    assert len(writer.sent) == 1
    writer = Breaking(broken, broken)
    item = Item(schema=WANTED, value={}, submission_id="web-1")
    assert sender_over(writer, trips, monkeypatch).send(item, 10) == Duplicate(seq=7)
    assert writer.sent == [item] * 3


def test_a_busy_world_is_asked_again_because_it_has_taken_nothing(
    trips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Breaking(Busy("the inbox is full"))

    found = sender_over(writer, trips, monkeypatch).send(Item(schema=WANTED, value={}), 10)

    assert found == Duplicate(seq=7)
    with pytest.raises(Busy, match="full"):
        sender_over(Breaking(Busy("full")), trips, monkeypatch).send(
            Item(schema=WANTED, value={}), 0
        )
