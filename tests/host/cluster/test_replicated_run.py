"""Several nodes of one world, as processes, on real servers (spec/cluster.md, CL-107 to CL-117)."""

from __future__ import annotations

import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.records import Event, Receipt, Start
from aos.errors import AosError, Unavailable
from aos.host.door.writer import open_writer
from aos.host.errors import Busy
from tests.cli.shell import here
from tests.host import puppet
from tests.host.cluster.node_processes import (
    LEASE_S,
    WAIT_S,
    NodeProcess,
    is_in_journal,
    joined,
    journal,
    made,
    send,
    waits,
)
from tests.nats_servers import Servers

Run = Callable[..., NodeProcess]

EFFECTS = """
import os, time
from aos.worker import Executors, effect

@effect("host/echo@1")
def echo(params, ctx):
    with open(os.environ["BOOKS"], "a") as books:
        books.write(f"{params['word']} {ctx.idempotency_key}\\n")
    time.sleep(0.05)
    return params

echoes = Executors("echoes", [echo])
"""


class Sender:
    """Sends an event after the other, each again until it is admitted, as a client does that tries
    one node after the other."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders = folders
        self.acknowledged: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._over.is_set():
            name = f"event-{number}"
            item = puppet.do(f"cell-{number % 5}", puppet.asks(name), submission_id=name)
            for folder in self.folders:
                try:
                    [answer] = send(folder, [item], busy_s=0.5)
                except AosError:
                    continue
                assert is_in_journal(answer), answer
                self.acknowledged.append(name)
                number += 1
                break

    def goes_on(self) -> None:
        """Wait until further events are acknowledged."""
        count = len(self.acknowledged)
        waits(lambda: len(self.acknowledged) >= count + 2, lambda: "no event is acknowledged")


def names_of(folder: Path) -> list[str | None]:
    return [record.submission_id for record in journal(folder) if isinstance(record, Event)]


def test_a_world_survives_the_kill_the_pause_and_the_stop_of_its_owner(
    tmp_path: Path, three: Servers, run: Run
) -> None:
    """CL-107, CL-110, CL-112, CL-113; CL-93 to CL-95 with processes."""
    top = tmp_path / "survives"
    top.mkdir()
    effects, books = top / "effects.py", top / "books.txt"
    effects.write_text(EFFECTS)
    first = top / "a"
    made_world = made(three, first, "--json")
    assert made_world.code == 0, made_world.err
    assert made_world.json["replica"]["node"] == "a"
    folders = [first, *(joined(first, top / name, name) for name in ("b", "c"))]

    def begin(folder: Path) -> NodeProcess:
        return run(folder, "--executors", f"{effects}:echoes", BOOKS=str(books))

    a = begin(first)
    a.wait(lambda: a.owns)
    with open_writer(first) as writer:
        assert isinstance(writer.apply(puppet.manifest()).answer, Admitted)
    nodes = {"a": a, "b": begin(folders[1]), "c": begin(folders[2])}
    for name in ("b", "c"):
        nodes[name].wait(lambda node=nodes[name]: node.follows)  # type: ignore[misc]
    waits(lambda: nodes["b"].has_all)
    [passed_on] = send(folders[1], [puppet.do("x", submission_id="to a standby")])
    assert isinstance(passed_on, Admitted)

    def owner(*names: str) -> NodeProcess:
        owners: list[NodeProcess] = []

        def one_owns() -> bool:
            owners.extend(nodes[name] for name in names if nodes[name].owns)
            return bool(owners)

        waits(one_owns, lambda: str(nodes))
        return owners[0]

    def stopped_owner() -> NodeProcess:
        """Stop the owner. On a busy machine its lease may have ended a moment before: such a node
        is started again, and the next owner is stopped."""
        for _ in range(5):
            last = owner(*nodes)
            before = len(last.output)
            last.signal(signal.SIGINT)
            assert last.process.wait(WAIT_S) == 0
            if "this node has released the world" in last.output[before:]:
                return last
            name = last.folder.name
            nodes[name] = begin(last.folder)
            nodes[name].wait(lambda name=name: nodes[name].follows or nodes[name].owns)  # type: ignore[misc]
        raise AssertionError(f"each owner has lost its lease before it stopped: {nodes}")

    collected = here("gc", "--world", folders[1], "--json")
    assert collected.code == 0, collected.err

    with Sender(folders) as sender:
        sender.goes_on()
        a.kill()
        sender.goes_on()
        second = owner("b", "c")
        nodes["a"] = begin(first)
        nodes["a"].wait(lambda: nodes["a"].follows)

        # The owner is suspended for longer than the lease: it is deposed, and follows.
        second.signal(signal.SIGSTOP)
        others = [name for name in nodes if nodes[name] is not second]
        owner(*others)
        sender.goes_on()
        second.signal(signal.SIGCONT)
        second.wait(lambda: "another node owns the world now: this one follows" in second.output)
        second.wait(lambda: second.follows)

        # The owner is stopped: another one takes over at once.
        stopped = stopped_owner()
        left = [node for node in nodes.values() if node is not stopped]
        owner(*(node.folder.name for node in left))
        sender.goes_on()
    waits(lambda: any(node.owns and node.status().get("open_intents") == 0 for node in left))

    waits(lambda: all(node.position for node in left))
    position = max(node.position for node in left)
    for node in left:
        node.wait(lambda node=node: node.position >= position)  # type: ignore[misc]
    assert [node.stop() for node in left] == [0, 0]

    shorter, records = sorted((journal(node.folder) for node in left), key=len)
    counted = Counter(record.submission_id for record in records if isinstance(record, Event))
    assert {counted[name] for name in sender.acknowledged} == {1}, "acknowledged: there, once"
    receipts = Counter(record.intent for record in records if isinstance(record, Receipt))
    assert set(receipts.values()) == {1}
    runs = [line.split() for line in books.read_text().splitlines()]
    keys = {(word, key) for word, key in runs}
    assert len(keys) == len({word for word, _ in runs}) == len({key for _, key in runs})
    assert len(keys) == len(receipts), "each effect under one key"
    starts = [dict(record.host)["node"] for record in records if isinstance(record, Start)]
    assert len(starts) >= 4
    assert starts[0] == "a"
    assert shorter == records[: len(shorter)]


def test_a_copied_folder_next_to_its_original_is_refused(  # CL-116
    tmp_path: Path, three: Servers, run: Run
) -> None:
    top = tmp_path / "namesake"
    top.mkdir()
    first = top / "a"
    assert made(three, first).code == 0
    copied = top / "copy"
    shutil.copytree(first, copied)
    original = run(first)
    original.wait(lambda: original.owns)

    shown = here("inspect", "world", "--world", copied).out
    assert "process\tno process runs this world (aos run)" in shown, "it need not be adopted"
    copy = run(copied)

    assert copy.process.wait(WAIT_S) == 1
    assert "another process runs under the name of this node" in copy.output
    original.wait(lambda: original.owns)
    assert is_in_journal(send(first, [puppet.do("x")])[0]) is False, "no manifest yet"


def test_a_world_waits_for_its_servers_and_says_so(tmp_path: Path, run: Run) -> None:
    """CL-109, CL-117."""
    top = tmp_path / "waits"
    top.mkdir()
    with Servers(tmp_path / "servers") as servers:
        servers.start()
        [server] = servers.servers
        first = top / "a"
        assert made(servers, first, replicas=1).code == 0
        servers.stop(server)
        node = run(first)
        node.wait(lambda: "waiting for the servers: " in node.output)
        node.wait(lambda: node.replica.get("role") == "standby")
        with pytest.raises(Busy, match="this node has not read the journal yet"):
            send(first, [puppet.do("x")], busy_s=0.0)
        servers.restart(server)
        node.wait(lambda: node.owns)
        with open_writer(first) as writer:
            assert isinstance(writer.apply(puppet.manifest()).answer, Admitted)

        servers.kill(server)
        sending = threading.Thread(target=send, args=(first, [puppet.do("x", submission_id="x")]))
        sending.start()
        node.wait(lambda: "the log does not answer" in str(node.status().get("no_room")))
        with pytest.raises(Unavailable, match=r"nothing can be made durable now.*the log does not"):
            send(first, [puppet.do("y")], busy_s=0.0)
        servers.restart(server)
        sending.join()
        assert is_in_journal(send(first, [puppet.do("z", submission_id="z")])[0])
        node.wait(lambda: node.owns)
        assert [name for name in names_of(first) if name] == ["x", "z"]


def test_a_folder_whose_world_is_not_registered_does_not_run(  # CL-108
    tmp_path: Path, three: Servers
) -> None:
    top = tmp_path / "unregistered"
    top.mkdir()
    assert made(three, top / "a").code == 0
    other = tmp_path / "another"
    other.mkdir()
    assert made(three, other / "a").code == 0
    for text, address in (
        ("no world is registered under this name", "nobody"),
        ("another world is registered under this name", "another"),
    ):
        replica = top / "a" / "replica.json"
        replica.write_text(replica.read_text().replace("/unregistered", f"/{address}"))
        ran = here("run", "--world", top / "a", "--until-idle", "--max-wait", "90s")
        assert ran.code == 1
        assert text in ran.err
        replica.write_text(replica.read_text().replace(f"/{address}", "/unregistered"))
    key, other_key = (top / "a" / "keys" / name for name in ("world.key", "operator.key"))
    right = key.read_text()
    key.write_text(other_key.read_text())
    ran = here("run", "--world", top / "a", "--until-idle", "--max-wait", "90s")
    assert ran.code == 1
    assert "the key of this folder did not sign the registration" in ran.err
    key.write_text(right)
    sent = here("send", puppet.DO, "{}", "--world", top / "a")
    assert sent.code == 1
    assert "run it: aos run --world" in sent.err
    replica.unlink()
    ran = here("run", "--world", top / "a", "--until-idle", "--max-wait", "90s")
    assert ran.code == 1
    assert "replica.json is missing from this folder" in ran.err


def test_a_server_that_does_not_sync_gets_no_writer(tmp_path: Path) -> None:  # CL-111
    top = tmp_path / "lazy"
    top.mkdir()
    with Servers(tmp_path / "servers", extra={"jetstream": {"sync_interval": "2m"}}) as servers:
        servers.start()
        refused = made(servers, top / "a", replicas=1)
        assert refused.code == 1
        assert "a server acknowledges what it has not synced" in refused.err
        assert list((top / "a").iterdir()) == []

        unverified = here(
            "init", top / "b", "--store", f"{servers.address}/lazy", "--replicas", "1",
            "--unverified-durability", "--node", "b",
        )  # fmt: skip
        assert unverified.code == 0
        assert "durability not verified" in unverified.out
        shown = here("inspect", "world", "--world", top / "b")
        assert "durability\tnot verified: acknowledged records can be lost" in shown.out
        assert "b (its process does not run), position 1 of the log" in shown.out
        document = here("inspect", "world", "--world", top / "b", "--json").json["replica"]
        assert (document["address"], document["role"]) == (f"{servers.address}/lazy", None)
        replica = top / "b" / "replica.json"
        text = replica.read_text()
        monitored = text.replace('"unverified_durability": true', '"unverified_durability": false')
        [server] = servers.servers
        replica.write_text(monitored.replace('"monitors": []', f'"monitors": ["{server.monitor}"]'))
        ran = here("run", "--world", top / "b", "--until-idle", "--max-wait", "90s")
        assert ran.code == 1
        assert "a server acknowledges what it has not synced" in ran.err
        replica.write_text(text)
        ran = here("run", "--world", top / "b", "--until-idle", "--max-wait", "90s", "--lease", "1")
        assert ran.code == 0


def test_a_lease_is_bounded_and_only_for_replicated_worlds(tmp_path: Path) -> None:  # CL-113
    assert here("init", tmp_path / "w").code == 0
    for words, text in (
        (("--lease", "0"), "--lease: expected 1 to 300 seconds, found 0"),
        (("--lease", "301"), "--lease: expected 1 to 300 seconds, found 301"),
        (("--lease", str(LEASE_S)), "--lease, --creds, --no-reference: this world is"),
    ):
        ran = here("run", "--world", tmp_path / "w", "--until-idle", *words)
        assert ran.code == 2
        assert text in ran.err
