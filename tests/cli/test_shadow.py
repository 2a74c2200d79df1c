"""``aos shadow`` and ``aos gov shadow`` (spec/cli.md, C-149 and C-149a)."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.values.cbor import decode_record, encode
from aos.values.digests import Hash, hash_text, parse_hash
from tests.cli.shell import AOS, Result, environment, here
from tests.copies import copied
from tests.core.governed import block, key_of
from tests.host.puppet import ECHO, asks, do, files

NAMES = ("ann", "bob", "cat")
ALIKE, STINGY, OTHER_EVENTS = 2, 60, 3


def written(folder: Path, version: int) -> Path:
    """A manifest of the puppet with three approvers; ``STINGY`` allows four effects a step."""
    given = files(
        version=version, effects=(ECHO,), governance=block(*NAMES, quorum=2, shadow_records=3)
    )
    if version == OTHER_EVENTS:
        given["m.air.json"] = given["m.air.json"].replace(b'"trap"', b'"snare"')
    folder.mkdir()
    for name, data in given.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manifests")
    for version in (1, ALIKE, STINGY, OTHER_EVENTS):
        written(folder / str(version), version)
    for name in NAMES:
        file = folder / f"{name}.key"
        file.write_text(bytes(key_of(name)).hex() + "\n")
        file.chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def template(manifests: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world in which one cell has asked for six effects in a step, and two have counted."""
    path = tmp_path_factory.mktemp("world") / "world"
    init_world(path)
    assert here("apply", manifests / "1", "--world", path).code == 0
    with open_writer(path) as writer:
        list(writer.send([do("ada"), do("bob"), do("much", asks(*"abcdef")), do("ada")]))
    assert here("run", "--until-waiting", "--world", path).code == 0
    return path


@pytest.fixture
def world(template: Path, tmp_path: Path) -> Path:
    return copied(template, tmp_path / "world")


def ok(*words: str | Path, code: int = 0) -> Any:
    found = here(*words, "--json")
    assert found.code == code, found
    return found.json


def propose(world: Path, manifest: Path) -> str:
    return str(ok("gov", "propose", manifest, "--world", world)["proposal"])


def end_of(world: Path) -> int:
    with open_reader(world) as reader:
        return reader.seq


def folder_hashes(world: Path) -> dict[str, str]:
    """Every file of a world but the one in which readers of the store sign in."""
    return {
        str(each.relative_to(world)): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in sorted(world.rglob("*"))
        if each.is_file() and each.name != "lock.mdb"
    }


def refused(found: Result, code: int, text: str) -> None:
    assert (found.code, found.out) == (code, ""), found
    assert text in found.err, found.err


# aos shadow


def test_the_same_is_exit_0_and_a_difference_is_exit_1(world: Path, manifests: Path) -> None:
    same = here("shadow", manifests / str(ALIKE), "--world", world)
    differs = here("shadow", manifests / str(STINGY), "--world", world)

    assert same.code == 0
    assert same.out.startswith("shadow: 3 cells the same, from record 2 to ")
    assert differs.code == 1
    assert differs.out.startswith("shadow: 1 of 3 cells differs, from record 2 to ")
    assert "differences: fault 1" in differs.out
    assert "host/puppet@1 much: fault" in differs.out
    assert "host/echo@1: asked for 6 times as recorded, 0 in the shadow" in differs.out
    assert "open at the end: 6 effects as recorded, 0 in the shadow" in differs.out


def test_the_document_says_what_differs_and_where_it_looked(world: Path, manifests: Path) -> None:
    report = ok("shadow", manifests / str(STINGY), "--world", world, code=1)

    assert (report["format"], report["same"], report["blocked"]) == ("aos-shadow/1", False, False)
    assert (report["from"], report["to"]) == (2, end_of(world))
    assert report["base"] == ok("inspect", "manifest", "--world", world)["hash"]
    (found,) = report["differences"]
    assert found["cell"] == {"workflow": "host/puppet@1", "key": "much"}
    assert found["classes"] == ["fault"]
    assert found["last"]["recorded"]["status"] == "waiting"
    assert found["last"]["shadow"] == {
        "status": "failed", "state": None, "fault": "too_many_effects",
    }  # fmt: skip
    assert report["allowlists"] == {"host/puppet@1": {"recorded": [ECHO], "shadow": [ECHO]}}
    assert report["instances"]["shadow"] == {"host/puppet@1": {"failed": 1, "running": 2}}


def test_a_range_and_a_bundle_give_the_same_report(
    world: Path, manifests: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "shop.aos"
    assert here("export", bundle, "--world", world).code == 0
    manifest = manifests / str(STINGY)
    whole = ok("shadow", manifest, "--world", world, code=1)
    of_bundle = ok("shadow", manifest, bundle, "--world", tmp_path / "nowhere", code=1)
    ranged = ok(
        "shadow", manifest, "--from", "2", "--to", str(whole["to"]), "--world", world, code=1
    )

    assert whole == of_bundle == ranged
    assert ok("shadow", manifest, "--to", "4", "--world", world)["to"] == 4


def test_nothing_is_written(world: Path, manifests: Path) -> None:
    before = folder_hashes(world)
    ok("shadow", manifests / str(STINGY), "--all", "--world", world, code=1)

    assert folder_hashes(world) == before


def test_every_hash_seed_gives_the_same_bytes(world: Path, manifests: Path) -> None:
    told = set()
    for seed in ("1", "2"):
        ran = subprocess.run(
            [*AOS, "shadow", str(manifests / str(STINGY)), "--world", str(world), "--json"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **environment(PYTHONHASHSEED=seed)},
        )
        assert ran.returncode == 1, ran.stderr
        told.add(ran.stdout)

    assert len(told) == 1


def test_a_journal_that_is_followed_gives_the_report_of_a_later_run(
    world: Path, manifests: Path
) -> None:
    manifest = manifests / str(STINGY)
    before = end_of(world)
    words = [*AOS, "shadow", str(manifest), "--for", "3s", "--world", str(world), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment()) as running:
        for number in range(3):
            with open_writer(world) as writer:
                list(writer.send([do(f"live-{number}", asks(*"abcde"))]))
            assert here("run", "--until-waiting", "--world", world).code == 0
        out, _ = running.communicate()
    assert running.returncode == 1
    live: Any = json.loads(out)
    later = ok(
        "shadow", manifest, "--from", str(live["from"]), "--to", str(live["to"]), "--world", world,
        code=1,
    )  # fmt: skip

    assert live["to"] > before
    assert live == later


def test_a_pruned_world_is_shadowed_over_the_records_that_are_kept(
    world: Path, manifests: Path
) -> None:
    assert here("snapshot", "--world", world).code == 0
    with open_writer(world) as writer:
        list(writer.send([do("late", asks(*"abcde"))]))
    assert here("run", "--until-waiting", "--world", world).code == 0
    whole = ok("shadow", manifests / str(STINGY), "--world", world, code=1)
    assert here("journal", "prune", "--before", "newest", "--world", world).code == 0

    kept = ok("shadow", manifests / str(STINGY), "--world", world, code=1)

    assert (whole["from"], kept["to"]) == (2, whole["to"])
    assert [each["cell"]["key"] for each in whole["differences"]] == ["much", "late"]
    assert [each["cell"]["key"] for each in kept["differences"]] == ["late"]
    again = ("shadow", manifests / str(STINGY), "--world", world)
    refused(here(*again, "--from", "2"), 2, "--from: there is no such record: expected a record")
    # Cells in flight stay with their manifest, so nothing of them differs.
    assert {each["kind"] for each in kept["blockers"]["first"]} >= {"intent_is_open"}


def test_a_world_without_a_manifest_has_nothing_to_shadow(tmp_path: Path, manifests: Path) -> None:
    init_world(tmp_path / "new")
    found = here("shadow", manifests / str(ALIKE), "--world", tmp_path / "new")

    refused(found, 2, "has no manifest, and no start or snapshot under one: nothing to shadow")


def test_a_file_of_answers_is_part_of_the_report(
    world: Path, manifests: Path, tmp_path: Path
) -> None:
    file = tmp_path / "answers.jsonl"
    line = {"effect": ECHO, "params": {"word": "a"}, "status": "ok", "payload": {"word": "A"}}
    file.write_text(json.dumps(line) + "\n\n")
    words = ("shadow", manifests / str(ALIKE), "--world", world)

    assert ok(*words)["answers"] is None
    # The journal asks for all six itself: there is nothing to answer.
    assert ok(*words, "--answers", file)["answered"]["file"] == 0
    assert ok(*words, "--answers", file)["answers"].startswith("blake3:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "--answers: line 1: $: "),
        ('{"effect": "host/echo@1"}', '--answers: line 1: $: expected {"effect": NAME'),
        ("\n[]", "--answers: line 2: $: expected"),
        (
            '{"effect": "host/none@1", "status": "ok", "payload": {}}',
            '"host/none@1" is no effect of this manifest',
        ),
        (
            '{"effect": "host/echo@1", "status": "maybe", "payload": {}}',
            "expected ok or error or timeout or canceled",
        ),
        (
            '{"effect": "host/echo@1", "status": "ok", "payload": {"word": 1}}',
            "line 1: $.payload: host/Word@1",
        ),
        (
            '{"effect": "host/echo@1", "status": "ok", "payload": {"word": "a"}, "more": 1}',
            "params may be left out",
        ),
    ],
)
def test_a_wrong_file_of_answers_is_refused(
    template: Path, manifests: Path, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(text)

    found = here("shadow", manifests / str(ALIKE), "--answers", file, "--world", template)

    refused(found, 2, message)


def test_other_misuse_is_refused(template: Path, manifests: Path, tmp_path: Path) -> None:
    words = ("shadow", manifests / str(ALIKE), "--world", template)

    refused(here(*words, "--from", "1"), 2, "--from: no shadow can begin there")
    refused(here(*words, "--from", "99999"), 2, "--from: there is no such record")
    refused(here(*words, "--to", "0"), 2, "--to: there is no such record")
    refused(here(*words, "--from", "2", "--all"), 2, "--all goes without --from")
    refused(here(*words, "--to", "4", "--for", "1s"), 2, "--for goes without --to")
    refused(here(*words, "--mode", "later"), 2, "--mode")
    refused(here(*words, "--answers", tmp_path / "none"), 2, "none")
    bundle = tmp_path / "shop.aos"
    assert here("export", bundle, "--world", template).code == 0
    refused(here(*words[:2], bundle, "--for", "1s"), 2, "--for goes with a world")
    damaged = tmp_path / "damaged.aos"
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    assert here(*words[:2], damaged).code == 3


# aos gov shadow


def test_a_report_is_journaled_and_lets_an_approver_vote(world: Path, manifests: Path) -> None:
    number = propose(world, manifests / str(STINGY))
    shown = here("gov", "shadow", number, "--world", world)
    plain = ok("shadow", manifests / str(STINGY), "--to", "4", "--world", world)
    assert shown.code == 1
    assert plain["same"]

    recorded = here("gov", "shadow", number, "--record", "--world", world)

    assert recorded.code == 1
    hash = recorded.out.partition("report ")[2].split(":  ")[0].split(": record")[0]
    assert f"next: aos gov approve {number} --seen {hash} --key FILE" in recorded.out
    (report,) = ok("gov", "show", number, "--world", world)["reports"]
    assert report["hash"] == hash
    assert report["records"] >= 3
    early = here("gov", "approve", number, "--key", manifests / "ann.key", "--world", world)
    refused(early, 1, "an approval needs a journaled report of 3 records")
    vote = here(
        "gov", "approve", number, "--seen", hash, "--key", manifests / "ann.key", "--world", world
    )
    assert vote.code == 0, vote


def test_an_approver_may_journal_a_report_with_a_note(world: Path, manifests: Path) -> None:
    number = propose(world, manifests / str(ALIKE))
    made = ok(
        "gov", "shadow", number, "--record", "--key", manifests / "bob.key", "--note", "looks fine",
        "--world", world,
    )  # fmt: skip

    record = ok("inspect", "record", str(made["record"]), "--world", world)
    assert (record["action"], record["principal"]) == ("report", "bob")
    assert (record["note"], record["report"]) == ("looks fine", made["hash"])
    again = ok("gov", "shadow", number, "--to", str(made["to"]), "--record", "--world", world)
    assert again["record"] == made["record"]


def test_a_report_that_lies_is_found(world: Path, manifests: Path) -> None:
    number = propose(world, manifests / str(STINGY))
    made = ok("gov", "shadow", number, "--record", "--world", world, code=1)
    lying: Any = decode_record(_stored(world, parse_hash(made["hash"])))
    lying |= {"same": True, "differences": []}
    with open_writer(world) as writer:
        writer.govern("report", int(number), report=encode(lying))
    reports = [each["hash"] for each in ok("gov", "show", number, "--world", world)["reports"]]

    true, false = (
        here("gov", "shadow", number, "--check", each, "--world", world) for each in reports
    )

    assert (true.code, true.out) == (0, f"report {reports[0]} is what this journal gives\n")
    assert false.code == 1
    assert false.out.startswith(f"report {reports[1]} is not what this journal gives\n")
    assert f"expected {reports[0]}" in false.out
    document = ok("gov", "shadow", number, "--check", reports[1], "--world", world, code=1)
    assert document == {
        "proposal": int(number), "report": reports[1], "again": reports[0], "same": False,
    }  # fmt: skip


def _stored(world: Path, hash: Hash) -> bytes:
    with open_reader(world) as reader:
        return reader.store.blob(hash)


def test_the_kernel_refuses_a_report_about_other_records(world: Path, manifests: Path) -> None:
    number = propose(world, manifests / str(STINGY))
    made = ok("gov", "shadow", number, "--record", "--world", world, code=1)
    lying: Any = decode_record(_stored(world, parse_hash(made["hash"])))
    before = end_of(world)
    for field, value in (("to", 10**6), ("from", 1), ("document", bytes(32)), ("mode", "pin")):
        with open_writer(world) as writer:
            answer: Any = writer.govern(
                "report", int(number), report=encode({**lying, field: value})
            )
        assert answer.rule.value == "report_is_invalid", field
    assert end_of(world) == before


def test_a_closed_proposal_is_still_shadowed_over_its_base(world: Path, manifests: Path) -> None:
    number = propose(world, manifests / str(STINGY))
    made = ok("gov", "shadow", number, "--record", "--world", world, code=1)
    assert here("gov", "withdraw", number, "--world", world).code == 0

    checked = here("gov", "shadow", number, "--check", made["hash"], "--world", world)

    assert checked.code == 0, checked


def test_misuse_of_gov_shadow_is_refused(world: Path, manifests: Path) -> None:
    number = propose(world, manifests / str(ALIKE))
    before = end_of(world)
    none = hash_text(Hash(bytes(32)))

    def gov(*words: str | Path) -> Result:
        return here("gov", "shadow", *words, "--world", world)

    refused(gov("4711"), 2, "no proposal is record 4711")
    refused(gov(number, "--check", "x"), 2, "--check: expected blake3:")
    refused(gov(number, "--check", none), 2, "--check: there is no such report")
    refused(gov(number, "--check", none, "--all"), 2, "--check goes with --answers alone")
    refused(gov(number, "--key", manifests / "ann.key"), 2, "--key and --note go with --record")
    refused(gov(number, "--from", "2", "--all"), 2, "--all goes without --from")
    assert end_of(world) == before
