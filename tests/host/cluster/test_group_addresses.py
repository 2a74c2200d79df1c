"""A group of replicated worlds that commands name by its address, and worlds by its name: with
processes on real servers (spec/cluster.md, CL-300 to CL-305, CL-314 to CL-316)."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.records import Attempt
from aos.errors import AosError
from aos.host.cluster import group_manifests
from aos.host.cluster.group_registration import GroupRegistration, register_group
from aos.host.cluster.registration import GROUP_FORM, WorldRegistration, register
from aos.host.door.writer import open_writer
from aos.host.folder.group import GroupFolder, open_group
from aos.host.folder.reader import open_reader
from aos.host.world_send import SHARD_ATTEMPT
from aos.manifest.names import WORLD_SEND
from aos.manifest.shards import shard_of_key, without_shard
from aos.store.log.nats_bucket import WORLDS, NatsBucket
from aos.values.cbor import encode
from aos.values.digests import hash_text
from aos.values.spelling import base64_text
from tests.cli.shell import Result, environment, here
from tests.cli.test_group_commands import write
from tests.host import puppet
from tests.host.cluster.node_processes import (
    LEASE_S,
    WAIT_S,
    NodeProcess,
    journal,
    made,
    node_processes,
    send,
    waits,
)
from tests.host.cluster.test_deliveries import delivered, has_receipts, receipts, sent
from tests.host.cluster.test_replicated_group import init_words, monitors
from tests.host.test_world_send import sends
from tests.nats_servers import Servers
from tests.store.nats.registered_world import OTHER_KEY

Run = Callable[..., NodeProcess]
NAME = "addressed"
EFFECTS = (puppet.ECHO, WORLD_SEND)
SILENT = ("owner_silent", "owner_missing", "standby_silent")

KILLED = """
import os, sys
import aos_cli.group_apply as group_apply
from aos_cli.main import run_command

apply, calls = group_apply.GroupApply._apply, 0

def killed(*words, **options):
    global calls
    calls += not options["dry_run"]
    if calls == 2:
        os._exit(9)
    return apply(*words, **options)

group_apply.GroupApply._apply = killed
run_command(sys.argv[1:])
"""

KILLED_SENDER = """
import os, sys
import aos.host.cluster.registered_worlds as worlds
from aos_cli.main import run_command

ask = worlds._BusDeliveries.ask

async def killed(self, request):
    answer = await ask(self, request)
    if request["op"] == "deliver":
        os._exit(9)
    return answer

worlds._BusDeliveries.ask = killed
run_command(sys.argv[1:])
"""
"""A node that is killed when a target has admitted an event, before anything else is done."""


def key_of(shard: int, number: int = 0) -> str:
    """One of the keys of a shard."""
    keys = [f"k{n}" for n in range(200) if shard_of_key(encode(f"k{n}"), 2) == shard]
    return keys[number]


def event(key: str, *words: str) -> str:
    out = base64_text(puppet.asks(*words)) if words else None
    return json.dumps({"key": key, "out": out, "trap": None})


@dataclass
class Addressed:
    """A group of two shards, each with one node. Tests start again what they stop."""

    group: GroupFolder
    address: str
    manifest: Path
    monitors: list[str]
    begin: Callable[..., NodeProcess]
    nodes: dict[int, NodeProcess] = field(default_factory=dict)

    def start(self, shard: int) -> None:
        """Start the node of a shard, and wait until it owns the shard."""
        path = self.group.shard_path(shard)
        node = self.nodes[shard] = self.begin(path, "--neighbours")
        node.wait(lambda: node.owns)

    def stop(self, shard: int) -> None:
        assert self.nodes.pop(shard).stop() == 0

    def aos(self, *words: str | Path) -> Result:
        return here(*words, "--world", self.address)

    def signed(self, *words: str | Path) -> Result:
        key = self.group.shard_path(0) / "keys" / "operator.key"
        return self.aos(*words, "--operator-key", key)

    def findings(self) -> tuple[int, list[dict[str, Any]]]:
        """The exit code and the findings of a check of the group, once none of its nodes is slow:
        on a busy machine, one may write no beat for a moment."""
        checks: list[Result] = []

        def are_heard() -> bool:
            checks[:] = [here("cluster", "check", self.address, *self.monitors, "--json")]
            return not any(row["kind"] in SILENT for row in checks[0].json["findings"])

        waits(are_heard, lambda: checks[0].out)
        return checks[0].code, checks[0].json["findings"]

    def manifests(self) -> list[bytes | None]:
        """The hashes of the manifests of the shards, without what differs in each case."""
        hashes: list[bytes | None] = []
        for name in self.group.names:
            with open_reader(self.group.path / name) as reader:
                in_force = reader.manifest
                hashes.append(None if in_force is None else without_shard(in_force).hash)
        return hashes


@pytest.fixture(scope="module")
def addressed(tmp_path_factory: pytest.TempPathFactory, three: Servers) -> Iterator[Addressed]:
    top = tmp_path_factory.mktemp("addressed")
    assert here(*init_words(three, top / NAME, NAME)).code == 0
    manifest = write(top / "manifest", effects=EFFECTS)
    with node_processes() as begin:
        group = Addressed(
            open_group(top / NAME), f"{three.address}/{NAME}", manifest, monitors(three), begin
        )
        for shard in (0, 1):
            group.start(shard)
        applied = group.signed("apply", manifest)
        assert applied.code == 0, applied
        assert applied.out.splitlines()[-1] == "all 2 shards have it"
        yield group


@pytest.fixture
def bucket(three: Servers) -> Iterator[NatsBucket]:
    with three.connected() as connection:
        yield NatsBucket(connection, WORLDS, replicas=None)


def group_status(address: str, *words: str | Path) -> dict[str, Any]:
    """The document of the status of one group, without what changes all the time."""
    ran = here("cluster", "status", address, *words, "--json")
    assert ran.code == 0, ran
    document: dict[str, Any] = ran.json
    return document


def test_the_status_of_a_group_shows_its_registration_and_its_shards_with_their_owners(
    addressed: Addressed,
) -> None:
    """CL-317, CL-318"""
    document = group_status(addressed.address)
    names = [f"{NAME}-000", f"{NAME}-001"]
    group = {"name": NAME, "signature": "valid", "shards": names, "problem": None}
    assert document["groups"] == [group]
    assert [row["name"] for row in document["worlds"]] == names
    assert [row["world"] for row in document["worlds"]] == list(
        map(hash_text, addressed.group.worlds)
    )
    assert [row["nodes"][0]["role"] for row in document["worlds"]] == ["owner", "owner"]
    printed = here("cluster", "status", addressed.address)
    assert f"{NAME}\t{names[0]} to {names[1]}\tsigned by the key of the group" in printed.out
    assert printed.out.count(f"\n{NAME}-00") == 2
    assert group in group_status(addressed.address.rpartition("/")[0])["groups"]
    shard = group_status(f"{addressed.address}-001")
    assert (shard["groups"], [row["name"] for row in shard["worlds"]]) == ([], names[1:])
    unknown = here("cluster", "status", f"{addressed.address}x")
    assert (unknown.code, "no world is registered" in unknown.err) == (2, True), unknown


def test_a_registration_of_a_group_that_others_wrote_is_found(
    addressed: Addressed, bucket: NatsBucket
) -> None:
    """CL-317 to CL-319: by another key, with other shards, and no registration at all."""
    entry = bucket.get(NAME)
    assert entry is not None
    worlds, key = addressed.group.worlds, addressed.group.shard(0).world_key()
    registration, revision = GroupRegistration(name=NAME, worlds=worlds), entry.revision

    def found(value: bytes) -> tuple[int, list[str]]:
        nonlocal revision
        revision = bucket.replace(NAME, value, revision)
        code, findings = addressed.findings()
        return code, [row["kind"] for row in findings]

    try:
        forged = registration.signed(OTHER_KEY).to_bytes()
        assert found(forged) == (3, ["registration_signature"])
        assert group_status(addressed.address)["groups"][0]["signature"] == "invalid"
        assert (
            "not signed by the key of the group" in here("cluster", "status", addressed.address).out
        )

        swapped = replace(registration, worlds=worlds[::-1]).signed(key).to_bytes()
        assert found(swapped) == (3, ["registration_invalid"] * 2)
        shown = group_status(addressed.address)["worlds"]
        assert ["another world is registered" in row["problem"] for row in shown] == [True, True]

        three = replace(registration, worlds=(*worlds, worlds[0])).signed(key).to_bytes()
        assert found(three) == (3, ["registration_invalid"])
        assert group_status(addressed.address)["worlds"][2].keys() == {"name", "problem"}

        assert found(encode([GROUP_FORM, NAME, "worlds"])) == (3, ["registration_invalid"])
        damaged = here("cluster", "status", addressed.address)
        assert (damaged.code, "cannot be read" in damaged.err) == (3, True), damaged
        everything = here("cluster", "status", addressed.address.rpartition("/")[0])
        assert "the registration of a group cannot be read" in everything.out
    finally:
        bucket.replace(NAME, entry.value, revision)
    assert addressed.findings() == (0, [])


def test_the_folder_of_one_shard_has_the_key_of_all_shards_of_the_group(
    addressed: Addressed, bucket: NatsBucket
) -> None:
    """CL-318: also where no log shows it."""
    worlds, key = addressed.group.worlds, addressed.group.shard(0).world_key()
    group = GroupRegistration(name="trimmed", worlds=worlds).signed(key)
    for name, world in zip(group.shard_names(), worlds, strict=True):
        stream = f"AOS-{name}"
        register(bucket, WorldRegistration(name=name, world=world, stream=stream).signed(key))
    register_group(bucket, group)
    address = addressed.address.replace(f"/{NAME}", "/trimmed")

    def signatures(*words: str | Path) -> set[str]:
        document = group_status(address, *words)
        return {row["signature"] for row in (*document["groups"], *document["worlds"])}

    try:
        assert signatures() == {"unchecked"}
        assert signatures("--world", addressed.group.shard_path(1)) == {"valid"}
    finally:
        for name in ("trimmed", *group.shard_names()):
            bucket.remove(name)


def attempts(folder: Path) -> list[int]:
    """The numbers of the attempts in the journal of a sender: each names a shard (WS-41)."""
    return [record.attempt for record in journal(folder) if isinstance(record, Attempt)]


def killed_node(folder: Path) -> subprocess.Popen[bytes]:
    words = ["run", "--world", str(folder), "--lease", str(LEASE_S), "--neighbours"]
    with folder.with_suffix(".killed.log").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-c", KILLED_SENDER, *words],
            env=environment(), stdout=output, stderr=output,
        )  # fmt: skip


def lines_of(path: Path, keys: Sequence[str]) -> Path:
    rows = [{"schema": puppet.DO, "value": {"key": key}, "submission_id": key} for key in keys]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_events_sent_to_the_address_reach_the_owners_of_their_shards(
    addressed: Addressed, tmp_path: Path
) -> None:
    """CL-300, CL-301: the folder of the group is another way to the same shards."""
    keys = [key_of(shard, number) for number in range(5) for shard in (0, 1)]
    lines = lines_of(tmp_path / "lines.jsonl", keys)
    sent = addressed.aos("send", "--jsonl", lines)
    assert (sent.code, sent.out) == (0, "10 admitted (by shard: 000: 5, 001: 5)\n"), sent
    again = here("send", "--jsonl", lines, "--world", addressed.group.path)
    assert "0 admitted, 10 sent before" in again.out, again

    one = addressed.aos("send", puppet.DO, event(key_of(1)), "--json")
    assert (one.code, one.json["shard"]) == (0, "001"), one
    lacking = addressed.aos("send", "no/Such@1", "{}")
    assert (lacking.code, "no/Such@1" in lacking.err) == (1, True), lacking
    wrong = here("send", puppet.DO, event(key_of(1)), "--world", f"{addressed.address}-000")
    assert wrong.code == 1, "the kernel of shard 0 has no cells of shard 1"
    assert "shard 1 of 2" in wrong.err, wrong


def test_operators_name_cells_and_effects_of_a_group_at_its_address(addressed: Addressed) -> None:
    """CL-302, CL-304"""
    zero, one = key_of(0, 10), key_of(1, 10)
    for key in (zero, one):
        assert addressed.aos("send", puppet.DO, event(key, "hello")).code == 0
    path = addressed.group.path

    def open_intents() -> dict[str, str]:
        rows = here("inspect", "intents", "--json", "--world", path).json["intents"]
        return {row["key"]: row["intent"] for row in rows if row["key"] in (zero, one)}

    waits(lambda: len(open_intents()) == 2)
    intents = open_intents()
    canceled = addressed.signed("effects", "cancel", intents[one], "--json")
    assert canceled.code == 0, canceled
    waits(lambda: open_intents() == {zero: intents[zero]})
    again = addressed.signed("effects", "cancel", intents[one])
    assert (again.code, "is not open" in again.err) == (1, True), again
    retried = addressed.aos("effects", "retry", intents[zero], "--json")
    assert (retried.code, retried.json["retried"]) == (0, []), retried
    unsigned = addressed.aos("effects", "cancel", intents[zero])
    assert (unsigned.code, "--operator-key FILE" in unsigned.err) == (1, True), unsigned

    ended = addressed.signed("cells", "end", "puppet", zero, one, "--json")
    assert ended.code == 0, ended
    assert [row["shard"] for row in ended.json["shards"]] == ["000", "001"]
    assert [row["admitted"] for row in ended.json["shards"]] == [1, 1]
    missing = addressed.signed("cells", "end", "puppet", key_of(1, 50))
    assert missing.code == 1, missing


def test_commands_that_an_address_of_a_group_does_not_answer_are_refused(
    addressed: Addressed,
) -> None:
    """CL-300, CL-303, CL-305: and nothing is asked of a shard. A trial needs a signature."""
    other = addressed.aos("send", puppet.DO, event("a"))
    assert other.code == 0
    unknown = here("send", puppet.DO, event("a"), "--world", f"{addressed.address}x")
    assert (unknown.code, "no world of this name" in unknown.err) == (1, True), unknown
    for of_a_world in (("snapshot",), ("flow", "start", "f", "{}")):
        refused = addressed.aos(*of_a_world)
        assert (refused.code, f"{NAME}-000" in refused.err) == (1, True), refused
    for words in (
        ("cells", "end", "puppet", "--all"), ("cells", "retry", "--all-failed"),
        ("cells", "end", "puppet", "a", "--dry-run"), ("effects", "retry", "--parked"),
        ("apply", str(addressed.manifest), "--dry-run", "--mode", "migrate", "--show", "1"),
        ("effects", "cancel", "01234567"),
    ):  # fmt: skip
        refused = addressed.aos(*words)
        assert (refused.code, "folder of" in refused.err) == (2, True), refused
    unsigned = addressed.aos("apply", addressed.manifest, "--dry-run")
    assert (unsigned.code, "--operator-key FILE" in unsigned.err) == (1, True), unsigned


def test_a_shard_without_an_owner_stops_its_own_events_and_every_apply(
    addressed: Addressed, tmp_path: Path
) -> None:
    """CL-300, CL-303: the message names the shard."""
    second, before = write(tmp_path / "second", version=2, effects=EFFECTS), addressed.manifests()
    addressed.stop(1)
    name = f"{NAME}-001: no node owns this world"
    assert addressed.aos("send", puppet.DO, event(key_of(0))).code == 0
    away = addressed.aos("send", puppet.DO, event(key_of(1)), "--timeout", "1s")
    assert (away.code, name in away.err) == (4, True), away
    applied = addressed.signed("apply", second, "--timeout", "1s")
    assert (applied.code, name in applied.err) == (4, True), applied
    canceled = addressed.signed("effects", "cancel", "0" * 64, "--timeout", "1s")
    assert (canceled.code, name in canceled.err) == (4, True), canceled
    addressed.start(1)
    assert addressed.manifests() == before


def test_a_manifest_that_one_shard_refuses_is_applied_to_none(
    addressed: Addressed, tmp_path: Path
) -> None:
    """CL-303: the owner of each shard tries it, and the first one could have it."""
    other, before = write(tmp_path / "other", version=4, effects=EFFECTS), addressed.manifests()
    key = key_of(1, 30)
    assert addressed.aos("send", puppet.DO, event(key, "hello")).code == 0
    for words in ((), ("--dry-run",)):
        refused = addressed.signed("apply", other, *words)
        assert (refused.code, "shard 001" in refused.out) == (1, True), refused
        assert "shard 000" not in refused.out, refused
        assert "nothing was changed\n" in refused.out, refused
    document = addressed.signed("apply", other, "--json").json["shards"]
    assert [bool(row["blockers"]) for row in document] == [False, True]
    assert document[1]["groups"][0]["examples"] == [{"workflow": puppet.PUPPET, "key": key}]
    assert addressed.manifests() == before

    assert addressed.signed("cells", "end", "puppet", key).code == 0
    possible = addressed.signed("apply", other, "--dry-run")
    assert possible.code == 0, possible
    assert "nothing was changed; all 2 shards can have it" in possible.out
    of_a_shard = here(
        "apply", other, "--dry-run", "--world", f"{addressed.address}-000", "--operator-key",
        addressed.group.shard_path(0) / "keys" / "operator.key",
    )  # fmt: skip
    assert (of_a_shard.code, "of a group" in of_a_shard.err) == (1, True), of_a_shard
    assert addressed.manifests() == before


def test_an_apply_that_is_killed_between_two_shards_is_finished_by_the_same_command(
    addressed: Addressed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CL-303, CL-315: until then, aos cluster check reports the shards."""
    third, before = write(tmp_path / "third", version=3, effects=EFFECTS), addressed.manifests()
    key = addressed.group.shard_path(0) / "keys" / "operator.key"
    words = ["apply", str(third), "--world", addressed.address, "--operator-key", str(key)]
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, *words],
        env=environment(), check=False, capture_output=True, timeout=240,
    )  # fmt: skip
    assert ended.returncode == 9, ended.stderr

    zero, one = addressed.manifests()
    assert (zero != before[0], one) == (True, before[1])
    monkeypatch.setattr(group_manifests, "APPLIED_S", 0.0)
    code, [differ] = addressed.findings()
    assert (code, differ["kind"]) == (1, "manifests_differ"), differ
    shards = re.search(
        r"found (\d+): (blake3:\w+); (\d+): (blake3:\w+) \(aos apply", differ["text"]
    )
    assert shards is not None, differ
    assert shards.group(1, 3) == ("000", "001")
    assert shards[2] != shards[4]
    finished = here(*words)
    assert finished.code == 0, finished
    first, second, last = finished.out.splitlines()
    assert first == "000: already in force"
    assert second.startswith("001: applied as record")
    assert last == "all 2 shards have it"
    assert set(addressed.manifests()) == {zero}
    assert addressed.findings() == (0, [])


def test_a_group_admits_each_event_once_if_the_source_is_killed_before_its_receipt(
    addressed: Addressed, tmp_path: Path, three: Servers, run: Run
) -> None:
    """CL-269, CL-316: and a shard that cannot be reached stops its own events alone (WS-45)."""
    zero_path, one_path = map(addressed.group.shard_path, (0, 1))
    shop = tmp_path / "till" / "a"
    shop.parent.mkdir()
    assert made(three, shop, replicas=1).code == 0
    one, zero = key_of(1, 20), key_of(0, 20)
    with killed_node(shop) as killed:
        try:
            owner = NodeProcess(shop, killed, shop.with_suffix(".killed.log"))
            owner.wait(lambda: owner.owns)
            with open_writer(shop) as writer:
                applied = writer.apply(puppet.manifest(effects=(WORLD_SEND,)))
                assert isinstance(applied.answer, Admitted)
            with contextlib.suppress(AosError):  # it may be killed before it answers
                send(shop, [puppet.do("ada", sends(NAME, one), submission_id="one")])
            assert killed.wait(WAIT_S) == 9
        finally:
            killed.kill()
    assert delivered(one_path) == [one]
    assert (receipts(shop), attempts(shop)) == ([], [SHARD_ATTEMPT + 1])

    addressed.stop(1)
    owner = run(shop, "--neighbours")
    owner.wait(lambda: owner.owns)
    sent(shop, puppet.do("bob", sends(NAME, zero), submission_id="two"))
    waits(partial(has_receipts, shop, 1))
    assert delivered(zero_path) == [zero]
    assert receipts(shop)[0][1]["world"] == hash_text(addressed.group.worlds[0])
    addressed.start(1)
    waits(partial(has_receipts, shop, 2), lambda: owner.output)

    assert delivered(one_path) == [one]
    [_, (status, payload)] = receipts(shop)
    assert (status, payload["duplicate"]) == ("ok", True)
    assert payload["world"] == hash_text(addressed.group.worlds[1])
    assert sorted(attempts(shop)) == [SHARD_ATTEMPT, SHARD_ATTEMPT + 1]
