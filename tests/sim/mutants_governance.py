"""Bugs in which a manifest comes into force without its votes (spec/governance.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from aos.core.decide import admit, governed
from aos.core.snapshot import take as snapshot
from aos.core.state import fold_governance
from aos.core.state.proposals import Cast, Proposal, Proposals

Patch = pytest.MonkeyPatch


def _no_quorum(patch: Patch) -> None:
    patch.setattr(admit, "proposal_problem", lambda *_: None)


def _unsigned_votes(patch: Patch) -> None:
    patch.setattr(governed, "is_signed", lambda *_: True)


def _rejections_ignored(patch: Patch) -> None:
    real = Proposal.voters

    def voters(self: Proposal, vote: Any) -> list[str]:
        found = real(self, vote)
        return found if vote == "approve" else []

    patch.setattr(Proposal, "voters", voters)


def _stale_stays_open(patch: Patch) -> None:
    def close_all(self: Proposals, *, applied: int | None = None) -> None:
        if applied is not None:
            self.close(applied, "applied")

    patch.setattr(Proposals, "close_all", close_all)


def _first_vote_counts(patch: Patch) -> None:
    def cast(vote: Any, seq: int) -> Cast:
        return Cast("approve", seq)

    patch.setattr(fold_governance, "Cast", cast)


def _reports_forgotten(patch: Patch) -> None:
    real = snapshot._proposal
    patch.setattr(snapshot, "_proposal", lambda each: [*real(each)[:-1], []])  # type: ignore[index,misc]  # a row


MUTANTS: Final[Sequence[tuple[str, Callable[[Patch], None], bool]]] = (
    ("a manifest needs no quorum", _no_quorum, True),
    ("no signature of a vote is checked", _unsigned_votes, True),
    ("rejections are not counted", _rejections_ignored, True),
    ("a stale proposal stays open", _stale_stays_open, True),
    ("every vote is an approval", _first_vote_counts, True),
    ("a snapshot forgets shadow reports", _reports_forgotten, False),
)
"""Name, the patch, and whether the checker finds it alone."""
