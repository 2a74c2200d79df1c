"""Commands as every way of this release signs them (spec/kernel.md, K-100 and K-101b)."""

from __future__ import annotations

import pytest

from aos.core.journal.vocabulary import ACTIONS
from aos.host.apply.commands import sign_control
from aos.values.digests import Hash
from tests.memory_world import OPERATOR, OPERATOR_KEY

WORLD = Hash(bytes(32))


@pytest.mark.parametrize("action", ACTIONS)
def test_every_retry_and_skip_restamps_and_nothing_else_does(action: str) -> None:
    """K-101b."""
    given = sign_control(
        action, cell=("t/desk@1", b""), world=WORLD, serial=3, operators=[OPERATOR],
        key=OPERATOR_KEY,
    )  # fmt: skip

    assert given.restamp is (True if action in ("retry", "skip") else None)
    assert OPERATOR_KEY.verify_key.verify(given.message(WORLD), given.signature)
