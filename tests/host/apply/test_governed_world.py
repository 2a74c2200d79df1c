"""Open proposals on disk: through restarts, snapshots, pruning, collection, erasure, exports and
forks; votes over the socket and from files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Answer, Duplicate, Refusal
from aos.core.journal.governing import GovernanceInput
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Governance, Record
from aos.core.state.state import State
from aos.errors import BadUsage, Refused
from aos.host.apply.signed_governance import (
    VoteFile,
    read_vote_file,
    sign_governance,
    sign_proposal,
)
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.reader import open_reader
from aos.host.retention.gc import collect_world
from aos.host.retention.pruning import prune_world
from aos.host.transfer.adopting import adopt_world
from aos.host.transfer.exporting import export_world
from aos.host.transfer.forking import fork_world
from aos.host.transfer.importing import import_world
from aos.manifest.load import Loaded, load
from aos.manifest.patching import patch_between
from aos.prove.replay.replay_store import replay_store, verify_bundle
from aos.prove.verify.verify import verify_store
from aos.store.bundle.reader import open_bundle
from aos.values.digests import Hash, content_hash
from tests.copies import copied
from tests.core.governed import block, key_of
from tests.host.disk_world import ROOT, environment
from tests.host.door.test_link import linked, run
from tests.host.governed_crash import governed_version
from tests.host.governed_disk import (
    NAMES,
    applied,
    govern,
    governed_manifest,
    proposed,
    reported,
    seq_of,
    vote,
)
from tests.host.puppet import asks, do, files, manifest
from tests.host.served import Served, served
from tests.memory_world import OPERATOR, OPERATOR_KEY
from tests.tools import long_form


def rule(answer: Answer | None) -> str:
    return answer.rule.value if isinstance(answer, Refusal) else type(answer).__name__.lower()


def state_of(path: Path) -> State:
    with open_reader(path) as reader:
        return reader.state


def is_sound(path: Path) -> None:
    """The world verifies, and executed again it is the same."""
    with open_folder(path).open_store(readonly=True) as store:
        report = verify_store(store)
        assert report.is_sound, report.findings
        if store.cut() is None:
            replay_store(store)


@pytest.fixture(scope="module")
def made(template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, Hash]:
    """A governed world, and a proposal with a report and one vote."""
    path = copied(template, tmp_path_factory.mktemp("governed") / "w")
    govern(path)
    proposal = proposed(path)
    seen = reported(path, proposal)
    assert rule(vote(path, proposal, "ann", seen_report=seen)) == "admitted"
    return path, proposal, seen


@pytest.fixture
def governed_world(made: tuple[Path, int, Hash], tmp_path: Path) -> tuple[Path, int, Hash]:
    path, proposal, seen = made
    return copied(path, tmp_path / "w"), proposal, seen


Made = tuple[Path, int, Hash]


def goes_on(path: Path, proposal: int) -> None:
    """One more vote, and the manifest comes into force with a module that only the proposal had."""
    assert rule(vote(path, proposal, "ann")) == "vote_is_taken"
    assert rule(vote(path, proposal, "cat")) == "admitted"
    with open_writer(path) as writer:
        assert rule(applied(writer, proposal)) == "admitted"
    is_sound(path)


def test_a_proposal_and_its_votes_survive_a_restart(governed_world: Made) -> None:
    path, proposal, seen = governed_world
    known = state_of(path).proposals.open[proposal]

    assert known.voters("approve") == ["ann"]
    assert list(known.reports) == [seen]
    goes_on(path, proposal)


def test_a_proposal_survives_a_snapshot_a_cut_and_a_collection(governed_world: Made) -> None:
    """RT-1, RT-10: what it needs is a root, also the module that no manifest had."""
    path, proposal, seen = governed_world
    with open_writer(path) as writer:
        writer.snapshot()

    prune_world(path)
    collect_world(path, keep=1)

    assert seen in state_of(path).proposals.open[proposal].reports
    goes_on(path, proposal)


def test_a_closed_proposal_leaves_its_module_to_the_collection(governed_world: Made) -> None:
    path, proposal, _ = governed_world
    [module] = governed_manifest(2).modules
    with open_writer(path) as writer:
        writer.govern("withdraw", proposal)

    collect_world(path)

    with open_folder(path).open_store(readonly=True) as store:
        assert not store.has_blob(module)
    is_sound(path)
    out = path.with_suffix(".aos")
    export_world(path, out)
    assert verify_bundle(out).is_sound


def test_the_values_of_an_open_proposal_cannot_be_erased(governed_world: Made) -> None:
    """K-104."""
    path, proposal, seen = governed_world
    known = state_of(path).proposals.open[proposal]
    [module] = governed_manifest(2).modules
    with open_writer(path) as writer:
        for value in (known.document.hash, known.patch.hash, seen, module):
            assert rule(writer.control("erase", value=value)) == "value_is_in_use"
        writer.govern("withdraw", proposal)
        for value in (known.document.hash, known.patch.hash, seen, module):
            assert rule(writer.control("erase", value=value)) == "admitted"
    is_sound(path)


def test_a_bundle_brings_what_an_approver_needs(governed_world: Made, tmp_path: Path) -> None:
    path, proposal, seen = governed_world
    out, again = tmp_path / "w.aos", tmp_path / "again"
    export_world(path, out)
    [module] = governed_manifest(2).modules

    assert verify_bundle(out).is_sound
    with open_bundle(out) as bundle:
        assert bundle.blob(module)
        assert bundle.blob(seen)
    import_world(out, again)
    shutil.copy(path / "keys" / "world.key", again / "keys" / "world.key")

    assert state_of(again).proposals.open[proposal].voters("approve") == ["ann"]
    is_sound(again)


def test_a_fork_closes_the_proposal_and_keeps_the_quorum(
    governed_world: Made, tmp_path: Path
) -> None:
    """K-111, K-114."""
    path, proposal, _ = governed_world
    fork = tmp_path / "fork"
    fork_world(path, fork, at=state_of(path).next_seq - 1)
    adopt_world(fork)

    assert rule(vote(path, proposal, "cat")) == "admitted"
    assert rule(vote(fork, proposal, "cat")) == "proposal_is_stale"
    with open_writer(fork) as writer:
        assert rule(writer.apply(governed_manifest(2)).answer) == "manifest_needs_proposal"
    again = proposed(fork)
    for name in ("ann", "cat"):
        assert rule(vote(fork, again, name)) == "admitted"
    with open_writer(fork) as writer:
        assert rule(applied(writer, again)) == "admitted"
    is_sound(fork)


def test_an_order_in_flight_blocks_the_apply_and_not_the_votes(world: Path) -> None:
    """GV-41."""
    govern(world)
    with open_writer(world) as writer:
        list(writer.send([do("a", asks("x"))]))
    proposal = proposed(world)
    for name in ("ann", "bob"):
        vote(world, proposal, name)

    with open_writer(world) as writer:
        answer = applied(writer, proposal)

    assert rule(answer) == "world_is_not_quiescent"
    assert state_of(world).proposals.open[proposal].voters("approve") == ["ann", "bob"]


# The modules of a proposal


def test_a_proposal_brings_its_modules_or_is_refused(world: Path) -> None:
    """H-72: stored and checked when it is proposed."""
    govern(world)
    new = governed_manifest(2)
    with open_writer(world) as writer:
        missing = writer.propose(Loaded(effective=new.effective, modules={})).answer
        assert isinstance(missing, Refusal)
        assert rule(missing) == "proposal_is_invalid"
        assert "its bytes" in missing.message
        broken = {content_hash(b"not wasm"): b"not wasm"}
        with pytest.raises(Refused, match="names no module"):
            writer.propose(Loaded(effective=new.effective, modules=broken))
        seq_of(writer.propose(new).answer)


def test_a_module_that_cannot_run_is_refused_before_it_is_proposed(world: Path) -> None:
    govern(world)
    found = files(version=3, governance=block(*NAMES, quorum=2))
    found["p.wasm"] = b"\0asm\1\0\0\0"
    with open_writer(world) as writer, pytest.raises(Refused, match="step"):
        writer.propose(load(found))
    assert state_of(world).proposals.count == 0


def test_a_key_that_may_not_is_refused_with_those_that_may(world: Path) -> None:
    with open_writer(world) as writer, pytest.raises(Refused, match="names no approvers"):
        writer.propose(governed_manifest(2))
    govern(world)
    proposal = proposed(world)
    stranger = SigningKey(bytes([9]) * 32)
    with open_writer(world) as writer:
        with pytest.raises(Refused, match="this key may not approve in this world: expected ann's"):
            writer.govern("approve", proposal, key=stranger)
        with pytest.raises(Refused, match="this key may not approve"):
            writer.govern("approve", proposal)
        with pytest.raises(Refused, match="this key may not propose in this world: expected oper"):
            writer.propose(governed_manifest(3), key=stranger)
        assert rule(writer.govern("approve", 999, key=key_of("ann"))) == "proposal_is_unknown"
        with pytest.raises(Refused, match="the two manifests are the same"):
            writer.propose(governed_manifest(1))


# Votes away from the world


def test_a_vote_is_signed_with_nothing_but_a_bundle_and_brought_in_later(
    governed_world: Made, tmp_path: Path
) -> None:
    """GV-35."""
    path, proposal, seen = governed_world
    export_world(path, tmp_path / "w.aos")
    with open_bundle(tmp_path / "w.aos") as bundle:
        world = bundle.header.world
    change = state_of(path).proposals.open[proposal].change
    given = sign_governance(
        "approve", proposal, change, world=world, principal="bob", key=key_of("bob"),
        seen_report=seen,
        note="from afar",
    )  # fmt: skip
    text = json.dumps(VoteFile(world=world, change=change, vote=given).to_json())

    read = read_vote_file(json.loads(text))

    assert read == VoteFile(world=world, change=change, vote=given)
    with open_writer(path) as writer:
        assert rule(writer.submit_governance(read.vote)) == "admitted"
        assert rule(writer.submit_governance(read.vote)) == "vote_is_taken"
        assert rule(applied(writer, proposal)) == "admitted"
        assert rule(writer.submit_governance(read.vote)) == "proposal_is_closed"


@pytest.mark.parametrize(
    "change",
    [
        {"$kind": "patch"}, {"more": 1}, {"world": "blake3:00"}, {"world": 1}, {"proposal": 0},
        {"proposal": True}, {"proposal": 2**70}, {"action": "withdraw"}, {"principal": 1},
        {"principal": "\ud800"}, {"signature": "xyz"}, {"seen": "x"}, {"note": 1}, {"leaves": [1]},
        {"leaves": "x"}, {"mode": None}, {"base": None},
    ],
)  # fmt: skip
def test_a_file_that_is_no_vote_is_refused(made: Made, change: dict[str, object]) -> None:
    path, proposal, _ = made
    known = state_of(path).proposals.open[proposal].change
    given = GovernanceInput(
        action="approve", principal="bob", signature=bytes(64), proposal=proposal
    )
    fields = VoteFile(world=Hash(bytes(32)), change=known, vote=given).to_json()
    assert read_vote_file(fields).vote == given

    with pytest.raises(BadUsage):
        read_vote_file({**fields, **change})


# Through the process that runs the world


def _governed(world: Served) -> None:
    """Put a manifest in force whose next one ann or bob must approve."""
    new = manifest(version=6, governance=block("ann", "bob", quorum=1))
    assert isinstance(world.rig.apply(new), Admitted)


@pytest.mark.parametrize("by_process", [False, True])
def test_a_running_world_takes_proposals_and_votes(tmp_path: Path, *, by_process: bool) -> None:
    """H-53, H-59f: the process signs what comes without a signature, but no vote."""

    async def body(world: Served) -> None:
        new = manifest(version=7)
        base = world.rig.engine.stats().figures.manifest
        assert base is not None
        unsigned = sign_proposal(
            new.effective.document, patch_between(base, new.effective), world=world.rig.world,
            serial=0, principal=OPERATOR.name, key=OPERATOR_KEY,
        )  # fmt: skip
        async with linked(world) as link:
            if by_process:
                answer = await link.govern_here(unsigned, new.modules)
            else:
                answer = await link.govern(unsigned, new.modules)
            proposal = seq_of(answer)
            [known] = world.rig.engine.stats().figures.proposals
            assert known.seq == proposal
            given = sign_governance(
                "approve", proposal, known.change, world=world.rig.world, principal="ann",
                key=key_of("ann"),
            )  # fmt: skip
            if by_process:
                with pytest.raises(BadUsage, match="a vote needs the signature of its approver"):
                    await link.govern_here(given, {})
            forged = replace(given, note="more")
            assert rule(await link.govern(forged, {})) == "governance_signature_is_wrong"
            assert rule(await link.govern(given, {})) == "admitted"
            plain = await link.apply_here(new.effective.document, {}) if by_process else None
            assert plain is None or rule(plain) == "manifest_needs_proposal"
            if by_process:
                done = await link.apply_here(new.effective.document, {}, proposal=proposal)
                assert rule(done) == "admitted"
                late = GovernanceInput(
                    action="withdraw", principal="", signature=b"", proposal=proposal
                )
                # The manifest that came into force names no approvers.
                with pytest.raises(Refused, match="names no approvers"):
                    await link.govern_here(late, {})

    key = OPERATOR_KEY if by_process else None
    with served(tmp_path / "w", operator_key=key) as world:
        _governed(world)
        run(body(world))


def test_messages_that_are_no_governance_are_refused(tmp_path: Path) -> None:
    with served(tmp_path / "w") as world, world.connect() as connection:
        for fields in (
            {}, {"action": "approve"}, {"action": 1, "principal": "a", "signature": b""},
            {"action": "approve", "principal": "a", "signature": b"", "proposal": "1"},
            {"action": "approve", "principal": "a", "signature": b"", "seen": b"x"},
            {"action": "propose", "principal": "a", "signature": b"", "leaves": [1]},
            {"action": "propose", "principal": "a", "signature": b"", "document": "x"},
        ):  # fmt: skip
            answer = world.ask(connection, op="governance", **fields)
            assert answer["error"]["kind"] == "usage", fields
        answer = world.ask(
            connection, op="governance", action="approve", principal="a", signature=b"", proposal=1
        )
        assert answer["answer"]["rule"] == "world_is_not_governed"
        about = world.ask(connection, op="manifest")
        assert (about["proposed"], about["proposals"]) == (0, [])


def test_a_writer_reaches_a_running_world(tmp_path: Path) -> None:
    """The same operations, through the socket."""
    with served(tmp_path / "w") as world:
        _governed(world)
        with open_writer(world.path) as writer:
            assert not writer.is_direct
            proposal = seq_of(writer.propose(manifest(version=7), note="why").answer)
            about = writer.signed_state()
            assert (about.proposed, [each.seq for each in about.proposals]) == (1, [proposal])
            seq_of(writer.govern("approve", proposal, key=key_of("ann")))
            assert writer.signed_state().proposals[0].approving == ("ann",)
            again = writer.govern("approve", proposal, key=key_of("ann"))
            assert rule(again) == "vote_is_taken"
            assert not isinstance(again, Admitted | Duplicate)
            answer = writer.apply(manifest(version=7), proposal=proposal).answer
            assert rule(answer) == "admitted"


ALL_KILLS = [f"{commit}-{moment}" for commit in range(1, 7) for moment in ("before", "after")]
"""Govern, propose, report, two votes, apply: six commits."""


@pytest.mark.long
def test_a_vote_is_journaled_once_or_not_at_all_when_its_process_is_killed(
    template: Path, tmp_path: Path
) -> None:
    """H-21: killed just before and just after each commit, another process does the rest."""
    kills = ALL_KILLS if long_form() else ["2-after", "4-before", "6-after"]
    cases = [*kills, "7-before"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.host.governed_crash", template, tmp_path, *cases],
        env=environment(), cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    ended = dict(line.split() for line in done.stdout.splitlines())
    assert ended == {case: str(case in kills) for case in cases}
    for case in cases:
        with open_folder(tmp_path / case).open_store(readonly=True) as store:
            report = verify_store(store)
            assert report.is_sound, (case, report.findings)
        records = [each for each in records_of(tmp_path / case) if isinstance(each, Governance)]
        assert [each.action for each in records] == ["propose", "report", "approve", "approve"]
        assert state_of(tmp_path / case).effective.hash == governed_version(3).effective.hash


def records_of(path: Path) -> list[Record]:
    with open_folder(path).open_store(readonly=True) as store:
        return [from_bytes(data) for frame in store.frames() for data in frame.records]
