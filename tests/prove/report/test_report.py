"""The report about a world is whole, bounded, and the same from a folder and a bundle (EX-60 to
EX-74)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.frame import Frame
from aos.core.journal.records import Attempt, Control, Faulted, Genesis, Receipt, Step
from aos.host.retention.pruning import prune_world
from aos.host.transfer.exporting import export_world
from aos.prove.replay.replay import replay
from aos.prove.replay.replay_report import Divergence
from aos.prove.replay.replay_store import verify_bundle
from aos.prove.report import report_part
from aos.prove.report.audit_report import audit_report
from aos.prove.report.chapters import CHAPTERS
from aos.prove.report.html_page import html_page
from aos.prove.report.markdown_page import markdown_page
from aos.prove.report.report_part import ReportDocument
from aos.prove.verify.journal_source import source_of_bundle, source_of_store
from aos.prove.verify.verify import verify_store
from aos.store.bundle.reader import open_bundle
from aos.store.lmdb_store import LmdbStore
from aos.store.memory_store import MemoryStore
from aos.store.store import Store
from aos.values.cbor import encode
from aos.values.digests import hash_text
from tests.core import governed
from tests.core.busy import busy
from tests.core.desk import cell_id, pay, tell
from tests.host.on_disk import folder_of
from tests.memory_world import OPERATOR, WORLD_KEY, PythonRunner
from tests.prove.desks import Desk, every_kind, told_long
from tests.prove.journals import CHARGE, busy_shop, runner, store_of


def report_of(store: Store) -> ReportDocument:
    return audit_report(source_of_store(store), verify_store(store))


@cache
def report(name: str) -> ReportDocument:
    worlds = {"shop": busy_shop, "kinds": every_kind, "busy": busy}
    return report_of(store_of(worlds[name]()))


def test_the_report_names_the_world_and_its_keys() -> None:  # EX-65
    world = busy_shop()
    found = report("shop")
    genesis = next(each for each in world.records() if isinstance(each, Genesis))

    assert found["world"] == hash_text(world.state.world)
    assert found["identity"]["genesis"]["operators"] == [
        {"name": OPERATOR.name, "public_key": f"ed25519:{OPERATOR.key.hex()}"}
    ]
    assert found["identity"]["genesis"]["world_key"] == f"ed25519:{genesis.world_key.hex()}"
    assert found["verify"]["sound"] is True
    assert found["replay"] is None
    assert found["problem"] is None


def test_the_horizon_and_the_anchors_are_those_of_the_signed_head() -> None:
    world = busy_shop()
    found = report("shop")
    head = store_of(world).head()
    assert head is not None

    assert (found["horizon"]["first"], found["horizon"]["last"]) == (1, head.seq)
    assert found["horizon"]["pruned"] is None
    assert found["anchors"]["head"]["log_root"] == hash_text(head.log_root)
    assert found["anchors"]["head"]["frames"] == len(world.frames)
    assert sum(found["horizon"]["kinds"].values()) == head.seq


def test_effects_are_counted_by_executor_and_status() -> None:  # EX-70
    world = busy_shop()
    found = report("shop")["effects"]
    receipts = [each for each in world.records() if isinstance(each, Receipt)]

    assert found["asked"][CHARGE] == sum(
        each.effect == CHARGE
        for step in world.records()
        if isinstance(step, Step)
        for each in step.intents
    )
    [charge] = [each for each in found["answers"] if each["effect"] == CHARGE]
    assert (charge["ok"], charge["error"], charge["timeout"]) == (3, 1, 0)
    assert charge["took_ns"] == sum(
        each.finished_ns - each.started_ns for each in receipts if each.effect == CHARGE
    )


def test_costs_are_summed_where_a_receipt_names_one() -> None:  # EX-70
    world = Desk()
    tell(world, "a", pay("p"), pay("q", 2), pay("r", 3))
    for each, cents in zip(world.open_of("a"), (5, None, 7), strict=True):
        given = replace(world.receipt(each, {"ref": "x"}), cost_cents=cents)
        signature = WORLD_KEY.sign(given.message(world.state.world)).signature
        answer = world.kernel.admit(replace(given, signature=signature), world.stamp())
        assert isinstance(answer, Admitted)
    world.run()

    [found] = report_of(store_of(world))["effects"]["answers"]

    assert (found["priced"], found["cost_cents"], found["ok"]) == (2, 12, 3)


def test_faults_commands_attempts_and_erased_values_are_all_there() -> None:  # EX-68 to EX-71
    world = every_kind()
    found = report("kinds")
    commands = [each for each in world.records() if isinstance(each, Control)]

    assert found["commands"]["total"] == len(commands)
    assert [each["action"] for each in found["commands"]["list"]] == [c.action for c in commands]
    assert sum(each["count"] for each in found["commands"]["counts"]) == len(commands)
    assert found["faults"]["total"] == sum(isinstance(r, Faulted) for r in world.records())
    assert found["faults"]["list"][0]["cell"]["key"] == "failed"
    assert found["erased"]["list"][0]["value"] == hash_text(
        next(each.value for each in commands if each.value is not None)
    )
    attempts = [each.phase for each in world.records() if isinstance(each, Attempt)]
    assert found["attempts"]["begun"] == attempts.count("begun")
    assert [each["cell"]["key"] for each in found["attempts"]["lost_ones"]["list"]] == ["lost"]


def test_open_work_is_that_of_the_state() -> None:  # EX-73
    state = busy().state
    found = report("busy")["open"]

    assert found["cells"]["total"] == len(state.cells)
    assert found["intents"]["open"] == len(state.intents)
    assert found["intents"]["abandoned"] == len(state.abandoned)
    assert found["owed"] == len(state.owed)
    assert found["cells"]["ready"] == len(state.ring)
    assert found["failed"]["total"] == found["cells"]["failed"]


def test_open_work_is_the_same_from_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:  # EX-73
    world = busy_shop()
    world.snapshot()
    world.place("ord-7", 3)
    world.run()
    store = store_of(world)
    with_it = report_of(store)["open"]
    monkeypatch.setattr(store, "has_blob", lambda _: False)

    assert report_of(store)["open"] == with_it
    assert with_it["cells"]["total"] == len(world.state.cells)


def test_manifests_name_who_applied_them_and_the_authority_that_changed() -> None:  # EX-66
    found = report("busy")["manifests"]

    assert found["total"] == len(found["list"]) > 1
    first, *others = found["list"]
    assert first["principal"] == OPERATOR.name
    assert "+ the world's key may sign for every effect" in first["authority"]
    assert any(each["authority"] == [] for each in others)
    assert all(each["changes"] or each["authority"] for each in others)


def test_executors_are_those_that_signed_and_those_that_were_named() -> None:  # EX-67
    [node] = report("shop")["executors"]
    receipts = [each for each in busy_shop().records() if isinstance(each, Receipt)]

    assert node["name"] == receipts[0].executor
    assert [(each["state"], each["receipts"]) for each in node["keys"]] == [
        ("world", len(receipts))
    ]
    assert node["keys"][0]["last_signed"] == receipts[-1].seq


@cache
def governed_report() -> ReportDocument:
    """Two proposals: one applied after two votes, one that is open with a vote against it."""
    world = governed.governed("ann", "bob", "cat", quorum=2)
    new = governed.version(2, "ann", "bob", "cat", quorum=2)
    first = governed.propose(world, new, note="<b>better</b>")
    governed.report(world, first)
    governed.act(world, "approve", first, by="ann")
    governed.act(world, "approve", first, by="bob")
    governed.apply(world, new, proposal=first)
    second = governed.propose(world, governed.version(3, "ann", "bob", "cat", quorum=2))
    governed.act(world, "reject", second, by="cat")
    world.run()
    return report_of(store_of(world))


def test_proposals_have_their_votes_and_their_result() -> None:  # EX-72
    found = governed_report()["governance"]
    applied, open_one = found["list"]
    manifest = governed_report()["manifests"]["list"][-1]

    assert found["in_force"]["quorum"] == 2
    assert [each["name"] for each in found["in_force"]["approvers"]] == ["ann", "bob", "cat"]
    assert [(each["action"], each["principal"]) for each in applied["acts"]] == [
        ("report", "operator"), ("approve", "ann"), ("approve", "bob"),
    ]  # fmt: skip
    assert applied["applied_by"] == manifest["seq"]
    assert manifest["proposal"] == applied["record"]
    assert open_one["applied_by"] is None
    [still] = governed_report()["open"]["proposals"]
    assert (still["record"], still["rejected_by"]) == (open_one["record"], ["cat"])
    page = markdown_page(governed_report())
    assert f"Result: applied by record {manifest['seq']}" in page
    assert "Result: open" in page
    assert "&lt;b&gt;better&lt;/b&gt;" in html_page(governed_report())


def test_forks_are_named_with_their_keys() -> None:  # EX-65
    world = Desk()
    tell(world, "a", pay("p"))
    fork = world.fork()
    world.run()
    found = report_of(store_of(world))

    [told] = found["identity"]["forks"]["list"]
    assert (told["parent"], told["at"]) == (hash_text(fork.parent), fork.at)
    assert found["world"] == hash_text(world.state.world) != told["parent"]
    assert found["verify"]["sound"]


def test_a_folder_and_its_bundle_give_the_same_report(tmp_path: Path) -> None:  # EX-60, EX-61
    world = every_kind()
    told_long(world, "more")
    folder = folder_of(world, tmp_path / "world")
    export_world(folder, tmp_path / "world.aos")
    with LmdbStore.open(folder / "store", readonly=True) as store:
        left = report_of(store)
    verified = verify_bundle(tmp_path / "world.aos")
    with open_bundle(tmp_path / "world.aos") as bundle:
        right = audit_report(source_of_bundle(bundle), verified)

    assert left == right
    assert left["verify"]["sound"]
    assert html_page(left) == html_page(right)


def test_a_replay_is_told_with_its_result() -> None:  # EX-64
    world = busy_shop()
    store = store_of(world)
    head = store.head()
    replayed = replay(store.frames(), store.blob, runner(world), head=head)
    found = audit_report(source_of_store(store), verify_store(store), replayed)

    assert found["replay"]["identical"] is True
    assert found["replay"]["steps"] == replayed.steps
    assert "seconds" not in found["replay"]
    assert "byte-identical" in markdown_page(found)


def test_a_pruned_world_says_what_is_missing(tmp_path: Path) -> None:  # EX-61
    world = busy_shop()
    world.snapshot()
    world.place("ord-8", 4)
    world.run()
    whole = report_of(store_of(world))
    folder = folder_of(world, tmp_path / "world")
    done = prune_world(folder)
    with LmdbStore.open(folder / "store", readonly=True) as store:
        found = report_of(store)
    with open_bundle(done.archive) as archive:
        old = audit_report(source_of_bundle(archive), verify_bundle(done.archive))

    assert found["horizon"]["pruned"]["to"] == done.last
    assert found["open"] == whole["open"]
    assert found["identity"]["genesis"] is None
    assert f"Records 2 to {done.last} were pruned" in markdown_page(found)
    assert old["horizon"]["last"] == done.last
    assert old["verify"]["sound"]


class Broken(MemoryStore):
    """A store in which a frame is missing."""

    def frames(self, first_seq: int = 1, last_seq: int | None = None) -> Iterator[Frame]:
        for number, frame in enumerate(MemoryStore.frames(self, first_seq, last_seq)):
            if number != 4:
                yield frame


def test_a_damaged_journal_is_described_as_far_as_it_can_be_read() -> None:  # EX-63
    broken = Broken()
    broken.__dict__.update(store_of(busy_shop()).__dict__)
    found = report_of(broken)

    assert not found["verify"]["sound"]
    assert found["verify"]["findings"]
    assert "missing" in found["problem"]
    assert 0 < found["seq"] < found["anchors"]["head"]["seq"]
    assert found["open"]["problem"] == found["problem"]
    for page in (markdown_page(found), html_page(found)):
        assert f"This report ends with record {found['seq']}" in page


def test_a_store_that_cannot_be_opened_has_a_report_too() -> None:  # EX-63
    broken = Broken()
    broken.__dict__.update(store_of(busy_shop()).__dict__)
    found = audit_report(None, verify_store(broken))

    assert found["world"] is None
    for page in (markdown_page(found), html_page(found)):
        assert "cannot be opened" in page


def test_long_lists_keep_the_newest_and_count_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # EX-62
    monkeypatch.setattr(report_part, "LISTED_MAX", 2)
    found = report_of(store_of(every_kind()))["commands"]

    assert found["total"] - found["left_out"] == len(found["list"]) == 2
    assert found["list"][-1]["action"] == "erase"


def test_every_chapter_is_on_every_page() -> None:
    for name in ("shop", "kinds", "busy"):
        page, text = html_page(report(name)), markdown_page(report(name))
        for anchor, title, _ in CHAPTERS:
            assert f'<section id="{anchor}">' in page
            assert f"\n## {title}\n" in text


def test_the_document_is_json_and_says_nothing_about_the_machine() -> None:  # EX-60
    text = json.dumps(report("kinds"))

    assert json.loads(text) == report("kinds")
    assert '"seconds"' not in text
    assert text == json.dumps(report_of(store_of(every_kind())))


def test_the_first_difference_of_a_replay_is_told() -> None:  # EX-64
    world = busy_shop()
    store = store_of(world)
    other = {hash: (lambda _: {"state": encode({})}) for hash in world.runner.modules}
    with pytest.raises(Divergence) as raised:
        replay(store.frames(), store.blob, PythonRunner(other), head=store.head())

    found = audit_report(source_of_store(store), verify_store(store), raised.value)

    assert found["replay"]["identical"] is False
    assert found["replay"]["record"] == raised.value.record
    assert raised.value.differences[0].field in found["replay"]["differences"]
    assert f"Replay: {str(raised.value)[:20]}" in html_page(found)


def test_a_removed_cell_needs_no_manifest_to_be_named() -> None:
    world = Desk()
    tell(world, "failed", note="fail")
    world.command("remove", cell=cell_id("failed"), why="x")

    found = report_of(store_of(world))

    assert found["commands"]["list"][-1]["cell"]["key"] == "failed"
    assert found["open"]["cells"]["total"] == 0
