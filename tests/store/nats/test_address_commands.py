"""Commands that name a replicated world by its address (spec/cli.md, C-8c; spec/cluster.md, CL-125
to CL-128)."""

from __future__ import annotations

import json
import threading

from aos.core.decide.answers import Admitted
from aos.core.journal.records import Control, Event, Manifest
from aos.host.cluster.bus_way import open_bus_writer
from aos.host.folder.folder import key_file
from aos.store.log.nats_address import NatsAccess, NatsAddress
from tests.cli.shell import here
from tests.flow import shop
from tests.host.cluster import bus_owner
from tests.memory_world import WORLD_KEY
from tests.nats_servers import Servers
from tests.store.nats.named_cluster import DO, NamedCluster, event
from tests.tools import takes_less_than


def test_commands_reach_the_owner_and_the_next_one_after_a_kill(cluster: NamedCluster) -> None:
    """C-8c, CL-125 to CL-128: apply, send, commands of operators, and an owner that is killed
    while events are on their way."""
    first = cluster.start("a")
    bus_owner.owns(first)
    applied = cluster.signed("apply", cluster.manifest, "--json")
    assert (applied.code, applied.json["applied"]) == (0, True), applied

    sent = cluster.aos("send", DO, event("ada"), "--id", "one", "--json")
    assert (sent.code, sent.json["to"]) == (0, [{"workflow": "host/puppet@1", "key": "ada"}]), sent
    assert cluster.aos("send", DO, event("ada"), "--id", "one", "--json").json["answer"] == (
        "duplicate"
    )
    assert cluster.aos("send", DO, "{}").code == 1
    reserved = cluster.aos("send", DO, event("ada"), "--id", "aos:reserved")
    assert (reserved.code, "aos:" in reserved.err) == (1, True)

    ended = cluster.signed("cells", "end", "puppet", "ada", "--json")
    assert (ended.code, ended.json["admitted"]) == (0, 1), ended
    unsigned = cluster.aos("cells", "end", "puppet", "ada")
    assert (unsigned.code, "--operator-key FILE" in unsigned.err) == (1, True), unsigned

    second = cluster.start("b")
    lines = cluster.folder / "events.jsonl"
    count = 40
    rows = [{"schema": DO, "value": json.loads(event(f"k{n}"))} for n in range(count)]
    lines.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    killing = threading.Timer(0.3, first.kill)
    killing.start()
    results = [cluster.aos("send", "--jsonl", lines, "--json") for _ in range(3)]
    killing.join()
    bus_owner.owns(second)

    assert [result.code for result in results] == [0, 0, 0], results
    answers = [line for result in results for line in result.lines if "number" in line]
    assert len(answers) == 3 * count
    assert cluster.aos("send", DO, event("last")).code == 0
    second.kill()
    second.wait()
    records = cluster.records("b")
    events = [record for record in records if isinstance(record, Event)]
    assert len(events) == 1 + 3 * count + 1, "each event is admitted once"
    assert sum(isinstance(record, Control) for record in records) == 1
    assert sum(isinstance(record, Manifest) for record in records) == 1


def test_commands_that_need_the_journal_are_refused(cluster: NamedCluster) -> None:
    """C-8c: without asking any node; there is none."""
    for words in (
        ("inspect", "world"), ("trace", "1"), ("replay",), ("verify",), ("flow", "list"),
        ("erase", "blake3:" + "0" * 64), ("gc",), ("run",), ("export", "x.aos"),
        ("cells", "retry", "--all-failed"), ("cells", "end", "puppet", "--all"),
        ("cells", "end", "puppet", "--pattern", "*"), ("cells", "end", "puppet", "a", "--dry-run"),
        ("effects", "retry", "--parked"), ("effects", "settle", "0" * 64, "--ok", "{}"),
        ("effects", "cancel", "01234567"), ("flow", "start", "f", "{}", "--wait"),
        ("apply", str(cluster.manifest), "--mode", "migrate", "--dry-run", "--show", "1"),
    ):  # fmt: skip
        refused = cluster.aos(*words)
        assert refused.code == 2, (words, refused)
        assert "folder of" in refused.err, (words, refused.err)


def test_flows_and_effects_at_an_address(cluster: NamedCluster) -> None:
    """C-8c: the names come from the manifest in force."""
    bus_owner.owns(cluster.start("a"))
    with open_bus_writer(
        NatsAddress.parse(cluster.address), NatsAccess(), operator_key=cluster.key
    ) as writer:
        assert isinstance(writer.apply(shop.manifest()).answer, Admitted)

    placed = '{"order_id": "o-1", "cents": 450, "out": null}'
    first, again = (cluster.aos("flow", "start", "order", placed, "--json") for _ in range(2))
    assert first.code == 0, first
    assert (first.code, first.json["answer"], again.json["answer"]) == (0, "admitted", "duplicate")
    sent = cluster.aos("flow", "signal", "order", "o-1", "Paid", '{"cents": 3}', "--json")
    assert sent.json["to"] == [{"workflow": shop.ORDER, "key": "o-1"}], sent
    shown = cluster.aos("flow", "signal", "order", "o-1", "Paid", '{"cents": 3}')
    assert (shown.code, "has not started" in shown.err) == (0, False), shown
    assert cluster.aos("flow", "cancel", "order", "o-1").code == 2

    for words in (("cancel", "0" * 64), ("settle", "0" * 64, "--error", "gone", "It is gone")):
        unknown = cluster.signed("effects", *words)
        assert (unknown.code, "intent" in unknown.err) == (1, True), unknown
    retried = cluster.aos("effects", "retry", "0" * 64)
    assert (retried.code, "runs no effects" in retried.err) == (2, True), retried

    changed = cluster.signed("apply", cluster.manifest, "--leave-cells")
    assert changed.code == 1, "the cell of the flow has mail"


def test_addresses_that_name_no_world(server: Servers, cluster: NamedCluster) -> None:
    """CL-128"""
    missing = here("send", DO, event("a"), "--world", f"{server.address}/nothing")
    assert (missing.code, "no world of this name" in missing.err) == (1, True), missing
    away = here("send", DO, event("a"), "--world", "nats://127.0.0.1:1/shop")
    assert (away.code, "cannot be reached" in away.err) == (4, True), away
    for text in ("nats://", "tls://", "nats://host", "nats://host:0/shop"):
        wrong = here("send", DO, event("a"), "--world", text)
        assert (wrong.code, "expected" in wrong.err, text in wrong.err) == (2, True, True), wrong
    user = here("send", DO, event("a"), "--world", "nats://me:secret@127.0.0.1:1/shop")
    assert (user.code, "secret" in user.err) == (2, False), user
    file = here("send", DO, event("a"), "--world", "folder", "--creds", "x.creds")
    assert (file.code, "--creds goes with the address" in file.err) == (2, True), file


def test_an_owner_is_waited_for_as_long_as_the_command_says(cluster: NamedCluster) -> None:
    """CL-125, C-8a: the wait is reported."""

    def send() -> None:
        away = cluster.aos("send", DO, event("a"), "--timeout", "2500ms")
        assert away.code == 4, away
        assert "waiting for at most 2.5 s: no node owns this world" in away.err

    assert takes_less_than(20, send)


def test_a_key_of_no_operator_is_refused(cluster: NamedCluster) -> None:
    """CL-124"""
    bus_owner.owns(cluster.start("a"))
    other = cluster.folder / "other.key"
    other.write_bytes(key_file(WORLD_KEY))
    other.chmod(0o600)
    refused = cluster.aos("apply", cluster.manifest, "--operator-key", other)
    assert refused.code == 1, refused
    missing = cluster.aos("apply", cluster.manifest, "--operator-key", cluster.folder / "none")
    assert missing.code == 2, missing
