"""Sign votes with the world at hand, or with nothing but a bundle of it (spec/cli.md, C-145)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aos.audit.replay.bundle import verify_bundle
from aos.audit.report.report_source import ReportSource, source_of_bundle
from aos.core.decide.answers import Refusal
from aos.core.decide.approved import open_proposal
from aos.core.journal.governing import ProposedChange
from aos.core.journal.inputs import STRICT
from aos.core.journal.ports import BlobReader
from aos.core.state.fold import fold_frame
from aos.core.state.state import State
from aos.errors import Damage, Refused, sentence
from aos.host.apply.report import changes_document
from aos.host.apply.signed_governance import declined, governor_of, sign_governance
from aos.host.apply.vote_file import VoteFile
from aos.host.door.way import SignedState
from aos.host.folder.folder import open_folder, read_key
from aos.manifest.difference import difference
from aos.manifest.effective import Effective
from aos.shell_text import shell_word
from aos.store.bundle.reader import open_bundle
from aos.values.digests import Hash, hash_text
from aos_cli.open_view import looking_at
from aos_cli.progress import progress


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
    """Sign a vote without submitting it, by the world's journal or by that of a bundle. Return it
    with the changes of the proposal.

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
            source = stack.enter_context(_verified(bundle))
            state, read = state_of(source), source.blob
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
        proposed = Effective.from_document(read(stored_proposal.document.hash))
        changes = changes_document(difference(state.manifest, proposed))
    return VoteFile(world=state.world, change=stored_proposal.change, vote=vote), changes


@contextlib.contextmanager
def _verified(bundle: Path) -> Iterator[ReportSource]:
    """Open a bundle that verifies. Raises: Damage: It does not."""
    with progress("verifying") as advance:
        verified = verify_bundle(bundle, on_progress=lambda seq: advance(seq, 0))
    if verified.findings:
        first = verified.findings[0].message
        raise Damage(
            sentence(first, location=str(bundle), hint=f"see aos verify {shell_word(bundle)}")
        )
    with open_bundle(bundle) as bundle_reader:
        yield source_of_bundle(bundle_reader)


def state_of(source: ReportSource) -> State:
    """Return the state at the end of a journal that verifies."""
    state = None
    for frame in source.frames():
        state = source.state_before(frame.header.world) if state is None else state
        fold_frame(state, frame, source.blob)
    assert state is not None, "it has a frame"
    return state


def check_vote(vote: VoteFile, signed_state: SignedState) -> None:
    """Check that a vote belongs to this world and to what is proposed in it. The core checks the
    rest.

    Raises:
        Refused: It was signed for another world, or for another manifest.
    """
    if vote.world != signed_state.world:
        raise Refused(
            sentence("this vote is for another world", expected=hash_text(signed_state.world),
                     actual=hash_text(vote.world))
        )  # fmt: skip
    world_proposal = next(
        (candidate for candidate in signed_state.proposals if candidate.seq == vote.vote.proposal),
        None,
    )
    if world_proposal is not None and world_proposal.change != vote.change:
        raise Refused(
            sentence(f"this vote is for another change than proposal {world_proposal.seq}",
                     expected=_parts(world_proposal.change, vote.change),
                     actual=_parts(vote.change, world_proposal.change),
                     hint=f"look at the proposal and sign again: aos gov show {world_proposal.seq}")
        )  # fmt: skip


def _parts(change: ProposedChange, compared: ProposedChange) -> str:
    """The parts of ``change`` that are not those of ``compared``."""
    texts = zip(_texts(change), _texts(compared), strict=True)
    return " and ".join(text for text, different in texts if text != different)


def _texts(change: ProposedChange) -> tuple[str, ...]:
    return (
        f"from manifest {hash_text(change.base)}",
        f"to manifest {hash_text(change.document)}",
        f"by patch {hash_text(change.patch)}",
        f"in mode {change.mode or STRICT}",
        f"leaving the workflows {', '.join(change.leaves)}" if change.leaves else "leaving none",
    )
