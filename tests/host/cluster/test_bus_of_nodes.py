"""Requests to the owner from the sockets of other nodes and from addresses, with processes of ``aos
run`` on real servers (spec/cluster.md, CL-115, CL-120 to CL-129)."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from aos.core.decide.answers import Admitted, Answer, Duplicate
from aos.core.journal.records import Event, Manifest, Ref
from aos.errors import AosError
from aos.host.door.writer import Item, open_writer
from aos.host.folder.folder import STORE
from aos.host.folder.reader import open_reader
from aos.store.log.logged_store import LoggedStore
from aos.store.rows import Forget
from aos.values.digests import content_hash, hash_text
from tests.cli.shell import here
from tests.host import puppet
from tests.host.cluster.node_processes import (
    WAIT_S,
    NodeProcess,
    joined,
    journal,
    made,
    send,
    waits,
)
from tests.nats_servers import Servers

Run = Callable[..., NodeProcess]


def test_each_node_and_the_address_take_requests_whichever_node_owns_the_world(
    tmp_path: Path, three: Servers, run: Run
) -> None:
    """CL-115, CL-122, CL-126, CL-129: the manifest and its modules through a standby; events
    through it while the owner is killed; commands at the address."""
    top = tmp_path / "bus"
    top.mkdir()
    first = top / "a"
    assert made(three, first, replicas=1).code == 0
    second = joined(first, top / "b", "b")
    address = f"{three.address}/bus"
    owner = run(first)
    owner.wait(lambda: owner.owns)
    standby = run(second)
    standby.wait(lambda: standby.follows)

    with open_writer(second) as writer:
        applied = writer.apply(puppet.manifest())
        assert isinstance(applied.answer, Admitted)
    [told] = send(second, [puppet.do("ada", submission_id="one")])
    assert isinstance(told, Admitted)
    assert isinstance(send(first, [puppet.do("ada", submission_id="one")])[0], Duplicate)
    fresh = here("inspect", "record", str(told.seq), "--fresh", "--json", "--world", second)
    assert fresh.code == 0, fresh

    event = json.dumps({"key": "ada", "out": None, "trap": None})
    sent = here("send", "host/Do@1", event, "--json", "--world", address)
    assert sent.code == 0, sent
    key = first / "keys" / "operator.key"
    ended = here("cells", "end", "puppet", "ada", "--world", address, "--operator-key", key)
    assert ended.code == 0, ended
    taken = here("snapshot", "--json", "--world", second)
    assert taken.code == 0, taken

    killing = threading.Timer(0.2, owner.kill)
    killing.start()
    answers: list[Answer] = []
    for number in range(3):
        names = (f"{number}-{n}" for n in range(300))
        answers += _sent(second, [puppet.do(name, submission_id=name) for name in names])
    killing.join()
    standby.wait(lambda: standby.owns)
    assert len(answers) == 900
    assert all(isinstance(answer, Admitted | Duplicate) for answer in answers)
    assert here("send", "host/Do@1", event, "--world", address).code == 0
    standby.signal(signal.SIGINT)
    standby.process.wait(WAIT_S)

    records = journal(second)
    count = sum(isinstance(record, Event) for record in records)
    assert count == 2 + 900 + 1, "each event is admitted once"
    assert sum(isinstance(record, Manifest) for record in records) == 1


def test_a_value_that_a_standby_lacks_comes_from_the_owner(
    tmp_path: Path, three: Servers, run: Run
) -> None:
    """CL-64, CL-185: a standby has lost a module. The owner has it, so the next manifest does not
    bring it to the log again."""
    top = tmp_path / "fetch"
    top.mkdir()
    first = top / "a"
    assert made(three, first, replicas=1).code == 0
    second = joined(first, top / "b", "b")
    owner = run(first)
    owner.wait(lambda: owner.owns)
    with open_writer(first) as writer:
        assert isinstance(writer.apply(puppet.manifest()).answer, Admitted)
    standby = run(second)
    standby.wait(lambda: standby.follows and standby.has_all)
    assert standby.stop() == 0
    module = content_hash(puppet.WASM.read_bytes())
    with LoggedStore.open(second / STORE) as store:
        store.forget(Forget(blobs=[module]))
        assert not store.has_blob(module)

    with open_writer(first) as writer:
        answer = writer.apply(puppet.manifest(version=2)).answer
        assert isinstance(answer, Admitted)
        seq = answer.seq
    standby = run(second)
    standby.wait(lambda: standby.seq >= seq)
    with open_reader(second) as reader:
        assert reader.store.blob(module) == puppet.WASM.read_bytes()
    assert "joins again" not in standby.output


def test_a_value_is_erased_through_a_standby_and_then_from_the_servers(
    tmp_path: Path, three: Servers, run: Run
) -> None:  # CL-137, CL-188
    top = tmp_path / "erasing"
    top.mkdir()
    first = top / "a"
    assert made(three, first, replicas=1).code == 0
    second = joined(first, top / "b", "b")
    owner = run(first)
    owner.wait(lambda: owner.owns)
    standby = run(second)
    standby.wait(lambda: standby.follows)
    with open_writer(second) as writer:
        assert isinstance(writer.apply(puppet.manifest()).answer, Admitted)
    [told] = send(second, [puppet.do("ada", puppet.asks("x" * 3000), submission_id="one")])
    assert isinstance(told, Admitted)
    standby.wait(lambda: standby.seq >= told.seq)
    [event] = (record for record in journal(second) if isinstance(record, Event))
    assert isinstance(event.value, Ref)
    value = event.value.hash

    def erase() -> dict[str, object]:
        ran = here("erase", hash_text(value), "--yes", "--json", "--world", second)
        assert ran.code == 0, ran.err
        return dict(ran.json)

    def open_erasures() -> list[dict[str, object]]:  # CL-283
        world = here("inspect", "world", "--json", "--world", second).json
        status = here("cluster", "status", "--json", "--world", first).json
        return [world["replica"]["open_erasures"], status["here"]["open_erasures"]]

    erased = erase()
    assert f"no base has record {erased['seq']} yet: aos cluster base" in str(
        erased["open_at_servers"]
    )
    for node in (owner, standby):
        node.wait(lambda node=node: node.seq >= erased["seq"])  # type: ignore[misc]
    for folder in (first, second):
        with open_reader(folder) as reader:
            assert not reader.store.has_blob(value)
    for document in open_erasures():
        assert (document["number"], document["first_seq"]) == (1, erased["seq"])
        assert document["since_ns"] is not None
    assert "open erasures: 1 value, since" in " ".join(
        here("inspect", "world", "--world", second).out.split()
    ).replace("open erasures 1", "open erasures: 1")
    waited = here("erase", hash_text(value), "--yes", "--json", "--wait", "--world", second)
    assert waited.code == 0, waited.err
    assert (waited.json["seq"], waited.json["open_at_servers"]) == (None, None)
    assert [document["number"] for document in open_erasures()] == [0, 0]
    shown = here("erase", hash_text(value), "--yes", "--world", first)
    assert "the servers have it no more" in shown.out
    assert "while no process runs" not in shown.out


def _sent(folder: Path, items: list[Item]) -> list[Answer]:
    """Send over the socket of a node that takes over meanwhile: its socket is another one then, and
    the client sends events again under the same ids."""
    answers: list[Answer] = []

    def attempt() -> bool:
        try:
            answers[:] = send(folder, items)
        except AosError:
            return False
        return True

    waits(attempt)
    return answers
