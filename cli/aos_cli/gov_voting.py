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
from aos.host.door.way import About
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
    seen: Hash | None,
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
        found = open_proposal(state, proposal)
        if isinstance(found, Refusal):
            raise declined(found)
        vote = sign_governance(
            action, proposal, found.change, world=state.world, principal=principal, key=signer,
            seen=seen, note=note,
        )  # fmt: skip
        proposed = Effective.from_document(read(found.document.hash))
        changes = changes_document(difference(state.manifest, proposed))
    return VoteFile(world=state.world, change=found.change, vote=vote), changes


@contextlib.contextmanager
def _verified(bundle: Path) -> Iterator[ReportSource]:
    """Open a bundle that verifies. Raises: Damage: It does not."""
    with progress("verifying") as advance:
        verified = verify_bundle(bundle, on_progress=lambda seq: advance(seq, 0))
    if verified.findings:
        first = verified.findings[0].message
        raise Damage(
            sentence(first, where=str(bundle), hint=f"see aos verify {shell_word(bundle)}")
        )
    with open_bundle(bundle) as opened:
        yield source_of_bundle(opened)


def state_of(source: ReportSource) -> State:
    """Return the state at the end of a journal that verifies."""
    state = None
    for frame in source.frames():
        state = source.state_before(frame.header.world) if state is None else state
        fold_frame(state, frame, source.blob)
    assert state is not None, "it has a frame"
    return state


def check_vote(vote: VoteFile, about: About) -> None:
    """Check that a vote belongs to this world and to what is proposed in it. The core checks the
    rest.

    Raises:
        Refused: It was signed for another world, or for another manifest.
    """
    if vote.world != about.world:
        raise Refused(
            sentence("this vote is for another world", expected=hash_text(about.world),
                     found=hash_text(vote.world))
        )  # fmt: skip
    known = next((each for each in about.proposals if each.seq == vote.vote.proposal), None)
    if known is not None and known.change != vote.change:
        raise Refused(
            sentence(f"this vote is for another change than proposal {known.seq}",
                     expected=_parts(known.change, vote.change),
                     found=_parts(vote.change, known.change),
                     hint=f"look at the proposal and sign again: aos gov show {known.seq}")
        )  # fmt: skip


def _parts(change: ProposedChange, other: ProposedChange) -> str:
    """The parts of ``change`` that are not those of ``other``."""
    texts = zip(_texts(change), _texts(other), strict=True)
    return " and ".join(own for own, different in texts if own != different)


def _texts(change: ProposedChange) -> tuple[str, ...]:
    return (
        f"from manifest {hash_text(change.base)}",
        f"to manifest {hash_text(change.document)}",
        f"by patch {hash_text(change.patch)}",
        f"in mode {change.mode or STRICT}",
        f"leaving the workflows {', '.join(change.leaves)}" if change.leaves else "leaving none",
    )
