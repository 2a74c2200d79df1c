"""Proposals, votes and applies of a governed world (C-140 to C-147)."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.manifest.keys import key_text
from aos.values.digests import hash_text
from tests.cli.shell import ROOT, Result, here
from tests.cli.test_commands import is_sound, running
from tests.copies import copied
from tests.core.governed import block, key_of
from tests.host.governed_disk import govern, reported
from tests.host.puppet import ECHO, asks, do, files

NAMES = ("ann", "bob", "cat")


def written(folder: Path, version: int, *, names: tuple[str, ...] = NAMES, quorum: int = 2) -> Path:
    """A governed manifest of the puppet; version 4 has another module."""
    given = files(version=version, effects=(ECHO,), governance=block(*names, quorum=quorum))
    if version == 4:
        given["p.wasm"] += b"\x00\x03\x02v4"
    folder.mkdir()
    for name, data in given.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders with governed manifests, and the keys of the approvers."""
    folder = tmp_path_factory.mktemp("governed")
    for version in (1, 2, 3, 4):
        written(folder / str(version), version)
    for name in (*NAMES, "eve"):
        file = folder / f"{name}.key"
        file.write_text(bytes(key_of(name)).hex() + "\n")
        file.chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def template(manifests: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("world") / "world"
    init_world(path)
    assert here("apply", manifests / "1", "--world", path).code == 0
    return path


class Story:
    """A governed world, and commands about it."""

    def __init__(self, world: Path, manifests: Path) -> None:
        self.world = world
        self.manifests = manifests

    def __call__(self, *words: str | Path) -> Result:
        return here("gov", *words, "--world", self.world)

    def ok(self, *words: str | Path) -> Any:
        found = self(*words, "--json")
        assert found.code == 0, found
        return found.json

    def propose(self, version: int = 2, *words: str) -> str:
        return str(self.ok("propose", self.manifests / str(version), *words)["proposal"])

    def vote(self, action: str, proposal: str, name: str, *words: str | Path) -> Result:
        return self(action, proposal, "--key", self.manifests / f"{name}.key", *words)

    def status(self, proposal: str) -> str:
        return str(self.ok("show", proposal)["status"])

    @property
    def end(self) -> int:
        with open_reader(self.world) as reader:
            return reader.seq

    def unchanged(self, found: Result, before: int, code: int, text: str) -> None:
        assert (found.code, found.out) == (code, ""), found
        assert text in found.err
        assert self.end == before


@pytest.fixture
def gov(template: Path, manifests: Path, tmp_path: Path) -> Story:
    return Story(copied(template, tmp_path / "world"), manifests)


def test_a_manifest_is_proposed_approved_and_applied_once_nothing_is_in_flight(
    gov: Story, manifests: Path
) -> None:
    """C-140 to C-146"""
    with open_writer(gov.world) as writer:
        list(writer.send([do("wait", asks("hello"))]))
    here("run", "--until-waiting", "--world", gov.world)
    new = manifests / "2"

    plain = here("apply", new, "--world", gov.world)
    said = here("apply", new, "--json", "--world", gov.world)
    assert (plain.code, said.code) == (1, 1)
    words = ["aos", "gov", "propose", str(new), "--world", str(gov.world)]
    assert "  ~ workflow host/puppet@1: limits" in plain.out
    assert "2 of 3 approvers must approve a manifest of this world" in plain.err
    assert plain.err.endswith(f"next: {shlex.join(words)}\n")
    assert said.json["refused"]["rule"] == "manifest_needs_proposal"
    assert said.json["refused"]["command"] == words

    proposed = here(*words[1:], "--note", "fewer effects")
    assert proposed.code == 0, proposed
    number = proposed.out.partition("\nproposal ")[2].split()[0]
    assert "  ~ workflow host/puppet@1: limits" in proposed.out

    early = gov("apply", number)
    assert early.code == 1
    assert "expected the approval of 2 of 3 approvers, found 0" in early.err

    first = gov.vote("approve", number, "ann")
    assert first.out.endswith("  it is open: 1 of 2 approvals\n")
    shown = gov("show", number).out
    assert "  expected 1 more approval, of bob or cat (aos gov approve" in shown
    assert "  host/puppet@1 wait: intent_is_open, host/echo@1 of record" in shown
    assert "note\tfewer effects\n" in shown
    second = gov.vote("approve", number, "cat", "--note", "looks right")
    assert second.out.endswith(
        "  it is approved: 2 of 2 approvals\n"
        f"next: aos gov apply {number} --world {shlex.quote(str(gov.world))}\n"
    )

    blocked = gov("apply", number)
    assert blocked.code == 1
    assert "the world is not quiescent: 2 blockers" in blocked.err
    assert "the votes stay" in blocked.err
    document = gov.ok("show", number)
    assert document["missing"] == {"approvals": 0, "from": ["bob"], "report": False}
    assert [each["kind"] for each in document["blockers"]] == [
        "instance_is_not_terminal", "intent_is_open",
    ]  # fmt: skip
    assert [(each["approver"], each["vote"], each["note"]) for each in document["votes"]] == [
        ("ann", "approve", None), ("cat", "approve", "looks right"),
    ]  # fmt: skip

    [intent] = here("inspect", "intents", "--json", "--world", gov.world).json["intents"]
    assert here("effects", "cancel", intent["intent"], "--world", gov.world).code == 0
    here("run", "--until-idle", "--world", gov.world)
    assert "nothing blocks it\nnext: aos gov apply" in gov("show", number).out
    applied = gov("apply", number)
    assert applied.code == 0, applied
    assert "applied as record" in applied.out
    assert gov.status(number) == "applied"
    assert here("apply", new, "--world", gov.world).code == 0, "it is in force: nothing to do"
    assert f"{number}\tapplied\toperator\t" in gov("list").out
    is_sound(gov.world)


def test_a_patch_is_proposed_instead_of_a_manifest(gov: Story, tmp_path: Path) -> None:
    """C-140, C-141"""
    patch = tmp_path / "change.json"
    printed = gov("patch", gov.manifests / "4")
    assert printed.code == 0, printed
    patch.write_text(printed.out)
    before = gov.end

    without = gov("propose", "--patch", patch)
    other = gov("propose", gov.manifests / "3", "--patch", patch)
    neither = gov("propose")
    gov.unchanged(without, before, 1, "its bytes")
    gov.unchanged(other, before, 1, "the patch leads to another manifest")
    gov.unchanged(neither, before, 2, "expected PATH or --patch FILE")
    found = gov.ok("propose", gov.manifests / "4", "--patch", patch, "--mode", "pin")
    shown = gov.ok("show", str(found["proposal"]))
    assert (shown["mode"], shown["document"]) == ("pin", found["manifest"])
    assert shown["changes"] == found["changes"]

    again = gov("propose", "--patch", patch)
    assert again.code == 0, "the world has the module by now"

    change = json.loads(patch.read_text())
    for name, broken, code, text in (
        ("no JSON", "{", 2, "change.json: "),
        ("no patch", "{}", 1, "the patch: expected $kind and base and ops"),
        ("another base", json.dumps({**change, "base": "blake3:" + "0" * 64}), 1, "gov patch PATH"),
    ):
        patch.write_text(broken)
        gov.unchanged(gov("propose", "--patch", patch), gov.end, code, text)
        assert name
    same = gov("patch", gov.manifests / "1")
    assert (same.code, same.out) == (1, "")
    assert "the two manifests are the same" in same.err


def test_votes_that_the_rules_forbid_change_nothing(gov: Story, tmp_path: Path) -> None:
    """C-145"""
    number = gov.propose()
    old = tmp_path / "old.json"
    assert gov.vote("approve", number, "ann", "--out", old).code == 0
    before = gov.end
    wide = tmp_path / "wide.key"
    wide.write_text((gov.manifests / "ann.key").read_text())
    wide.chmod(0o644)

    unchanged = gov.unchanged
    eve = key_text(bytes(key_of("eve").verify_key))
    unchanged(gov.vote("approve", number, "eve"), before, 1, f"found {eve}")
    unchanged(gov("approve", number), before, 1, "this key may not approve in this world")
    unchanged(gov.vote("withdraw", number, "ann"), before, 1, "who proposed it")
    unchanged(gov("approve", number, "--key", wide), before, 1, "others may read this secret key")
    unchanged(gov.vote("approve", "999", "ann"), before, 2, "no proposal is record 999")
    for words in (
        ("apply",),
        ("show",),
        ("shadow",),
        ("withdraw",),
        ("reject", "--key", gov.manifests / "ann.key"),
    ):
        unchanged(gov(words[0], "999", *words[1:]), before, 2, "no proposal is record 999")
    mistyped = tmp_path / "an.key"
    for verb in ("approve", "reject", "withdraw"):
        refused = gov(verb, number, "--key", mistyped)
        unchanged(refused, before, 2, "expected a file with a secret key")
    huge = "9" * 20
    unchanged(gov.vote("approve", huge, "ann"), before, 2, "expected the number of a record")
    unchanged(gov("apply", "0"), before, 2, "expected the number of a record")
    unchanged(gov.vote("approve", number, "ann", "--note", "\udcff"), before, 2, "--note: expected")
    unchanged(gov.vote("approve", "many", "ann"), before, 2, "expected a whole number")
    unchanged(
        gov.vote("approve", number, "ann", "--seen", "blake3:" + "0" * 64), before, 1,
        "expected a journaled report",
    )  # fmt: skip
    unchanged(gov.vote("approve", number, "ann", "--seen", "x"), before, 2, "--seen")
    unchanged(gov.vote("approve", number, "ann", "--note", "x" * 1025), before, 1, "note")

    assert gov.vote("approve", number, "ann").code == 0
    assert gov.vote("reject", number, "ann").code == 0
    before = gov.end
    unchanged(gov.vote("approve", number, "ann"), before, 1, "has voted on proposal")
    unchanged(gov.vote("reject", number, "ann"), before, 1, "has voted on proposal")
    unchanged(gov("submit", old), before, 1, "has voted on proposal")

    assert gov.vote("reject", number, "bob").out.endswith("  it is rejected\n")
    before = gov.end
    unchanged(gov.vote("approve", number, "cat"), before, 1, f"proposal {number} is rejected")
    unchanged(gov("apply", number), before, 1, f"proposal {number} is rejected")
    is_sound(gov.world)


def test_a_proposal_is_stale_once_another_manifest_is_in_force(gov: Story, tmp_path: Path) -> None:
    """C-144"""
    first, second = gov.propose(2), gov.propose(3)
    late = tmp_path / "late.json"
    assert gov.vote("approve", second, "ann", "--out", late).code == 0
    for name in ("ann", "bob"):
        assert gov.vote("approve", first, name).code == 0
    assert gov("apply", first).code == 0
    before = gov.end

    gov.unchanged(gov("apply", second), before, 1, "no longer in force")
    gov.unchanged(gov.vote("approve", second, "cat"), before, 1, "no longer in force")
    gov.unchanged(gov("submit", late), before, 1, "no longer in force")
    gov.unchanged(gov("apply", first), before, 1, f"proposal {first} is applied")
    rows = gov.ok("list")["proposals"]
    assert [(str(each["proposal"]), each["status"]) for each in rows] == [
        (first, "applied"), (second, "stale"),
    ]  # fmt: skip
    assert gov.ok("show", second)["missing"] is None
    assert "status\tstale\n" in gov("show", second).out


def test_the_one_who_proposed_withdraws(gov: Story) -> None:
    """C-146"""
    number = str(
        gov.ok("propose", gov.manifests / "2", "--key", gov.manifests / "bob.key")["proposal"]
    )

    gov.unchanged(gov("withdraw", number), gov.end, 1, '"bob", who proposed it')
    done = gov.vote("withdraw", number, "bob", "--note", "too early")

    assert (done.code, done.out.splitlines()[-1]) == (0, "  it is withdrawn")
    assert gov.status(number) == "withdrawn"


def test_votes_are_signed_with_a_bundle_alone_and_submitted_later(
    gov: Story, template: Path, tmp_path: Path
) -> None:
    """C-145, C-147"""
    number = gov.propose()
    away = tmp_path / "away"
    away.mkdir()
    bundle, votes = away / "world.aos", [away / "ann.json", away / "bob.json"]
    assert here("export", bundle, "--world", gov.world).code == 0
    for name, vote in zip(("ann", "bob"), votes, strict=True):
        words = ("approve", number, "--key", gov.manifests / f"{name}.key", "--bundle", bundle)
        signed = here("gov", *words, "--out", vote, cwd=away)
        assert signed.code == 0, signed
        assert "  ~ workflow host/puppet@1: limits\n" in signed.out
        assert signed.out.endswith(f"next, where the world is: aos gov submit {vote.name}\n")
        twice = here("gov", *words, "--out", vote, cwd=away)
        assert (twice.code, twice.out) == (1, "")
    without = gov.vote("approve", number, "ann", "--bundle", bundle)
    assert (without.code, "--out FILE" in without.err) == (2, True)
    before = gov.end

    good = json.loads(votes[0].read_text())
    bad = away / "bad.json"
    for change, code, text in (
        ({"world": good["base"]}, 1, "this vote is for another world"),
        ({"document": good["base"]}, 1, "this vote is for another change"),
        ({"mode": "pin"}, 1, "expected in mode strict, found in mode pin"),
        ({"base": good["document"]}, 1, f"expected from manifest {good['base']}, found from "),
        ({"patch": good["base"]}, 1, f"found by patch {good['base']} (look at the proposal"),
        (
            {"leaves": ["host/puppet@1"]},
            1,
            "expected leaving none, found leaving the workflows host",
        ),
        ({"proposal": 1}, 1, "no proposal is record 1"),
        ({"action": "reject"}, 1, "the signature is not ann's"),
        ({"principal": "bob"}, 1, "the signature is not bob's"),
        ({"note": "other"}, 1, "the signature is not ann's"),
        ({"principal": "eve\u001b[2J"}, 1, "may not"),
        ({"signature": "zz"}, 2, "bad.json: signature: expected 128 hex digits"),
        ({"more": 1}, 2, "this is no vote"),
    ):
        bad.write_text(json.dumps({**good, **change}))
        found = gov("submit", bad)
        gov.unchanged(found, before, code, text)
        assert "\u001b" not in found.err
    gov.unchanged(gov("submit", votes[0], away / "none.json"), before, 2, "none.json")
    other = Story(copied(template, tmp_path / "other"), gov.manifests)
    assert other.propose(3) == number
    other.unchanged(other("submit", *votes), other.end, 1, "for another change")

    with running(gov.world):
        submitted = gov("submit", *votes, "--json")
        assert submitted.code == 0, submitted
        assert [(row["principal"], row["status"]) for row in submitted.json["votes"]] == [
            ("ann", "open"), ("bob", "approved"),
        ]  # fmt: skip
        assert gov("apply", number).code == 0
    assert gov.status(number) == "applied"
    is_sound(gov.world)


def test_an_altered_bundle_is_not_voted_by(gov: Story, tmp_path: Path) -> None:
    """C-145"""
    number = gov.propose()
    bundle, out = tmp_path / "world.aos", tmp_path / "vote.json"
    assert here("export", bundle, "--world", gov.world).code == 0
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bundle.write_bytes(data)

    found = gov.vote("approve", number, "ann", "--bundle", bundle, "--out", out)

    assert (found.code, found.out, out.exists()) == (3, "", False)
    assert "aos verify" in found.err


def test_an_approval_names_the_shadow_report_that_was_read(manifests: Path, tmp_path: Path) -> None:
    """C-143, C-145"""
    world = tmp_path / "world"
    init_world(world)
    govern(world, shadow_records=1)
    gov = Story(world, manifests)
    number = gov.propose(2)
    before = gov.end

    assert gov.ok("show", number)["missing"]["report"] is True
    assert (
        "approvals name a shadow report of 1 record, and there is none" in gov("show", number).out
    )
    gov.unchanged(gov.vote("approve", number, "ann"), before, 1, "report")
    report = hash_text(reported(world, int(number)))
    assert gov.vote("approve", number, "ann", "--seen", report).code == 0

    found = gov.ok("show", number)
    assert found["missing"] == {"approvals": 1, "from": ["bob", "cat"], "report": False}
    shown = gov("show", number).out
    assert f"ann: approve, in record {gov.end}, has seen {report}\n" in shown
    assert f"report {report}, of 1 record\n" in shown


def test_a_world_without_approvers_has_no_proposals(gov: Story, tmp_path: Path) -> None:
    """C-140"""
    world = tmp_path / "plain"
    init_world(world)
    plain = Story(world, gov.manifests)

    assert plain("patch", gov.manifests / "1").code == 2
    assert plain.ok("list") == {"proposed": 0, "proposals": []}
    found = plain("propose", gov.manifests / "1")
    assert (found.code, found.out) == (1, "")
    assert "aos apply PATH" in found.err


def test_a_proposal_warns_of_events_that_anyone_may_send(gov: Story, tmp_path: Path) -> None:
    """C-21c: as aos apply does, on stderr; the exit code stays."""
    new = shutil.copytree(ROOT / "manifests" / "orders", tmp_path / "manifests" / "orders")
    (tmp_path / "modules").symlink_to(ROOT / "modules")
    [air] = (path for path in new.rglob("*.air.json") if '"ingress"' in path.read_text("utf-8"))
    nodes = json.loads(air.read_text("utf-8"))
    for node in nodes if isinstance(nodes, list) else [nodes]:
        node.get("routing", {}).pop("ingress", None)
    air.write_text(json.dumps(nodes), "utf-8")
    init_world(tmp_path / "new")

    applied = here("apply", new, "--world", tmp_path / "new", "--dry-run")
    proposed = gov("propose", new)

    for result in (applied, proposed):
        assert result.code == 0, result
        assert "warning: workflows emit these events, and anyone who may send" in result.err
        assert "  shop/OrderRefunded@1, emitted by shop/deadline@1" in result.err
    events = [row["event"] for row in gov.ok("propose", new)["open_events"]]
    assert "shop/OrderRefunded@1" in events
