"""``aos gov approve``, ``reject``, ``withdraw`` and ``submit``: sign votes, with the world at hand
or with nothing but a bundle of it, and submit them (spec/cli.md, C-145 to C-147).
"""

from __future__ import annotations

import contextlib
import json as json_text
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

from nacl.signing import SigningKey

from aos.core.decide.answers import Answer, Refusal
from aos.core.decide.approved import open_proposal
from aos.core.journal.governing import APPROVE, REJECT, WITHDRAW, ProposedChange
from aos.core.journal.inputs import STRICT
from aos.core.journal.ports import BlobReader
from aos.errors import BadUsage, Damage, Refused
from aos.host.apply.signed_governance import VoteFile, declined, governor_of, sign_governance
from aos.host.door.way import SignedState
from aos.host.door.writer import Writer
from aos.host.folder.folder import open_folder, read_key
from aos.manifest.difference import difference
from aos.manifest.judging import judge
from aos.prove.replay.replay_store import verify_bundle
from aos.prove.verify.journal_source import JournalSource, source_of_bundle
from aos.read.views.manifest_changes import changes_document
from aos.shell_text import shell_word
from aos.store.bundle.reader import open_bundle
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos_cli.apply_text import show_changes
from aos_cli.commands.gov import N, check_note, command, vote_at
from aos_cli.gov_world import GovNode, governing
from aos_cli.open_view import looking_at
from aos_cli.open_writing import writing_to
from aos_cli.options import DEFAULT_WORLD, Json, NodeUrl, World, argument, option
from aos_cli.output import line, note, print_json, progress
from aos_cli.report_file import write_page

_CLOSED: Final = {REJECT: "rejected", WITHDRAW: "withdrawn"}
"""Why a proposal is closed after such an action."""

Key = Annotated[Path | None, option("FILE", "Your secret key (default: the operator's).", "--key")]
Text = Annotated[str | None, option("TEXT", "Why, for the journal.", "--note")]
SeenReport = Annotated[
    str | None, option("HASH", "The journaled shadow report that you have read.", "--seen")
]
BundleFile = Annotated[
    Path | None, option("FILE", "Sign by this bundle, away from the world; with --out.")
]
Out = Annotated[
    Path | None, option("FILE", "Write the signed vote to this file instead of sending it.")
]


def _voting(action: str) -> Callable[..., None]:
    """Make the command that casts one kind of vote: both kinds have the same options."""

    def cast_vote(
        proposal: N,
        *,
        key: Key = None,
        report_hash: SeenReport = None,
        text: Text = None,
        bundle: BundleFile = None,
        out: Out = None,
        node: NodeUrl = None,
        world: World = DEFAULT_WORLD,
        json: Json = False,
    ) -> None:
        report = _seen_hash(report_hash)
        if bundle is not None and (out is None or key is None):
            raise BadUsage("--bundle: expected --key FILE and --out FILE with it")
        if out is None:
            _govern(
                action,
                proposal,
                key=key,
                report=report,
                text=text,
                node=node,
                world=world,
                json=json,
            )
            return
        check_note(text)
        if node is None or bundle is not None:
            vote, changes = signed_away(
                action, proposal, world=world, bundle=bundle, key=key, seen_report=report, note=text
            )
        else:
            if key is None:
                raise BadUsage("--out: expected --key FILE with it: a node signs no vote")
            with governing(node) as governor:
                vote, changes = governor.signed_away(
                    action, proposal, key=read_key(key), seen_report=report, note=text
                )
        document = vote.to_json()
        write_page(out, json_text.dumps(document, indent=2) + "\n", force=False)
        if json:
            print_json({"file": str(out), **document, "changes": changes})
            return
        show_changes(changes)
        line(f"vote: {out}", style="bold")
        line(f"  {action} proposal {proposal}, by {vote.vote.principal}")
        line(f"  {document['document']}")
        line(f"next, where the world is: aos gov submit {shell_word(out.name)}")

    return cast_vote


approve = _voting(APPROVE)
reject = _voting(REJECT)


def withdraw(
    proposal: N,
    *,
    key: Key = None,
    text: Text = None,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    _govern(WITHDRAW, proposal, key=key, report=None, text=text, node=node, world=world, json=json)


def submit(
    files: Annotated[list[Path], argument("FILE", "Votes that aos gov wrote with --out.")],
    *,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    votes = [(file, vote_at(file)) for file in files]
    rows: list[dict[str, Any]] = []
    with _governor(world, node) as governor:
        for file, vote in votes:
            vote_input = vote.vote
            row: dict[str, Any] = {
                "file": str(file), "proposal": vote_input.proposal, "action": vote_input.action,
                "principal": vote_input.principal, "seq": None, "status": None, "refused": None,
            }  # fmt: skip
            try:
                check_vote(vote, governor.signed_state())
                row["seq"] = _admitted_seq(governor.submit_governance(vote_input))
                assert vote_input.proposal is not None, "a vote file has one"
                row["status"] = _status(governor, vote_input.proposal, vote_input.action)["status"]
            except (BadUsage, Refused) as refused:
                row["refused"] = str(refused)
            rows.append(row)
    if json:
        print_json({"votes": rows})
    else:
        for row in rows:
            _show_submitted(row)
    return Refused.exit_code if any(row["refused"] for row in rows) else 0


def _govern(
    action: str,
    proposal: int,
    *,
    key: Path | None,
    report: Hash | None,
    text: str | None,
    node: str | None,
    world: Path,
    json: bool,
) -> None:
    check_note(text)
    signing_key = None if key is None else read_key(key)
    with _governor(world, node) as governor:
        seq = _admitted_seq(
            governor.govern(action, proposal, key=signing_key, seen_report=report, note=text)
        )
        name = _signer_name(governor, action, signing_key, seq)
        now = _status(governor, proposal, action)
    if json:
        print_json({"proposal": proposal, "action": action, "principal": name, "seq": seq, **now})
        return
    line(f"{action} proposal {proposal}, by {name}: record {seq}")
    _show_status(now, proposal, node or world)


@contextmanager
def _governor(world: Path, node: str | None) -> Iterator[Writer | GovNode]:
    """Open the world of a folder or of a node for the block."""
    if node is None:
        with writing_to(world) as writer:
            yield writer
    else:
        with governing(node) as governor:
            yield governor


def _signer_name(governor: Writer | GovNode, action: str, key: SigningKey | None, seq: int) -> str:
    """The name in which record ``seq`` was signed, with ``key`` or the operator's."""
    if isinstance(governor, GovNode):
        return governor.name_of(seq)
    overview = governor.signed_state()
    governance = None if overview.manifest is None else overview.manifest.governance
    signer = key or governor.folder.operator_key()
    return governor_of(signer, action, governance=governance, operators=overview.operators)


def _show_status(now: dict[str, Any], proposal: int, world: Path | str) -> None:
    if now["approvals"] is None:
        line(f"  it is {now['status']}")
        return
    line(f"  it is {now['status']}: {now['approvals']} of {now['quorum']} approvals")
    if now["status"] == "approved":
        line(f"next: {command(world, 'apply', proposal)}")


def _show_submitted(row: dict[str, Any]) -> None:
    subject = f"{row['file']}: {row['action']} proposal {row['proposal']}, by {row['principal']}"
    if row["refused"]:
        note(f"aos: {subject}: refused: {row['refused']}", style="red")
    else:
        line(f"{subject}: record {row['seq']}")
        line(f"  it is {row['status']}")


def _status(governor: Writer | GovNode, proposal: int, action: str) -> dict[str, Any]:
    """The status of a proposal after a vote or a withdrawal that was admitted."""
    overview = governor.signed_state()
    governance = None if overview.manifest is None else overview.manifest.governance
    open_proposal = next(
        (candidate for candidate in overview.proposals if candidate.seq == proposal), None
    )
    if open_proposal is None or governance is None:
        return {"status": _CLOSED.get(action, "closed"), "approvals": None, "quorum": None}
    names = {approver.name for approver in governance.approvers}
    approval_count = len(names & set(open_proposal.approving))
    status = "approved" if approval_count >= governance.quorum else "open"
    return {"status": status, "approvals": approval_count, "quorum": governance.quorum}


def _admitted_seq(answer: Answer) -> int:
    """The record of an answer. Raises: Refused, BadUsage: A rule declines it (``declined``)."""
    if isinstance(answer, Refusal):
        raise declined(answer)
    return answer.seq


def _seen_hash(text: str | None) -> Hash | None:
    try:
        return None if text is None else parse_hash(text)
    except ValueProblem as problem:
        raise BadUsage(f"--seen: {problem.message}") from problem


def signed_away(
    action: str,
    proposal: int,
    *,
    world: Path,
    bundle: Path | None,
    key: Path | None,
    seen_report: Hash | None,
    note: str | None,
) -> tuple[VoteFile, dict[str, Any]]:
    """Sign a vote without submitting it, by the world's journal or by that of a bundle (C-145).
    Return it with the changes of the proposal.

    Raises:
        BadUsage: There is no such proposal.
        Refused: The proposal is closed, or the key is no approver's.
        Damage: The bundle does not verify.
    """
    signer = None if key is None else read_key(key)
    read: BlobReader
    with contextlib.ExitStack() as stack:
        if bundle is None:
            view = stack.enter_context(looking_at(world))
            state, read = view.state, view.journal.blob
        else:
            source = stack.enter_context(_verified_bundle(bundle))
            state, read = source.last_state(), source.blob
        signer = signer or open_folder(world).operator_key()
        governance = None if state.manifest is None else state.manifest.governance
        principal = governor_of(signer, action, governance=governance, operators=state.operators)
        stored_proposal = open_proposal(state, proposal)
        if isinstance(stored_proposal, Refusal):
            raise declined(stored_proposal)
        vote = sign_governance(
            action, proposal, stored_proposal.change, world=state.world, principal=principal,
            key=signer,
            seen_report=seen_report, note=note,
        )  # fmt: skip
        proposed = judge(read(stored_proposal.document.hash))
        changes = changes_document(difference(state.manifest, proposed))
    return VoteFile(world=state.world, change=stored_proposal.change, vote=vote), changes


@contextlib.contextmanager
def _verified_bundle(bundle: Path) -> Iterator[JournalSource]:
    """Open a bundle that verifies. Raises: Damage: It does not."""
    with progress("verifying") as advance:
        verified = verify_bundle(bundle, on_progress=lambda seq: advance(seq, 0))
    if verified.findings:
        first = verified.findings[0].message
        raise Damage(first, location=str(bundle), hint=f"see aos verify {shell_word(bundle)}")
    with open_bundle(bundle) as bundle_reader:
        yield source_of_bundle(bundle_reader)


def check_vote(vote: VoteFile, signed_state: SignedState) -> None:
    """Check that a vote belongs to this world and to what is proposed in it. The core checks the
    rest.

    Raises:
        Refused: It was signed for another world, or for another manifest.
    """
    if vote.world != signed_state.world:
        raise Refused(
            "this vote is for another world",
            expected=hash_text(signed_state.world),
            actual=hash_text(vote.world),
        )
    world_proposal = next(
        (candidate for candidate in signed_state.proposals if candidate.seq == vote.vote.proposal),
        None,
    )
    if world_proposal is not None and world_proposal.change != vote.change:
        raise Refused(
            f"this vote is for another change than proposal {world_proposal.seq}",
            expected=_differing_parts(world_proposal.change, vote.change),
            actual=_differing_parts(vote.change, world_proposal.change),
            hint=f"look at the proposal and sign again: aos gov show {world_proposal.seq}",
        )


def _differing_parts(change: ProposedChange, compared: ProposedChange) -> str:
    """The parts of ``change`` that are not those of ``compared``."""
    texts = zip(_change_texts(change), _change_texts(compared), strict=True)
    return " and ".join(text for text, different in texts if text != different)


def _change_texts(change: ProposedChange) -> tuple[str, ...]:
    return (
        f"from manifest {hash_text(change.base)}",
        f"to manifest {hash_text(change.document)}",
        f"by patch {hash_text(change.patch)}",
        f"in mode {change.mode or STRICT}",
        f"leaving the workflows {', '.join(change.leaves)}" if change.leaves else "leaving none",
    )
