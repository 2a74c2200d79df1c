"""Find the problems of a proposed manifest, as an apply would find them, and of its patch
(spec/governance.md, GV-27)."""

from __future__ import annotations

from collections.abc import Iterator

from aos.core.decide.manifest_problems import keys_problem, leaves_problem
from aos.core.journal.governing import PATCH_BYTES_MAX, GovernanceInput
from aos.core.journal.vocabulary import MODES, word_of
from aos.core.state.state import State
from aos.errors import Damage
from aos.manifest.effective import Effective
from aos.manifest.patch import Patch, PatchInvalid
from aos.manifest.patching import check_patch
from aos.values.digests import content_hash
from aos.values.errors import quoted


def change_problems(state: State, governance_input: GovernanceInput) -> Iterator[str]:
    """The problems of the proposed manifest, as an apply would find them, and of its patch."""
    assert governance_input.document is not None
    assert governance_input.patch is not None
    if word_of(MODES, governance_input.mode) is None:
        yield f"mode: expected {' or '.join(MODES)}, found {quoted(governance_input.mode)}"
        return
    if content_hash(governance_input.document) == state.effective.hash:
        yield "this manifest is already in force: a proposal changes something"
        return
    try:
        effective = Effective.from_document(governance_input.document)
    except Damage as error:
        yield f"the effective manifest cannot be read: {error}"
        return
    problem = keys_problem(effective, state) or leaves_problem(effective, governance_input.leaves)
    if problem is not None:
        yield problem
    if len(governance_input.patch) > PATCH_BYTES_MAX:
        yield (
            f"patch: expected at most {PATCH_BYTES_MAX} bytes, found {len(governance_input.patch)}"
        )
        return
    try:
        check_patch(state.effective, Patch.from_document(governance_input.patch), effective)
    except PatchInvalid as error:
        yield f"patch: {error}"
