"""A trial on a machine without enough memory proves nothing (spec/audit.md, A-85; spec/flow.md,
FL-90)."""

from __future__ import annotations

import pytest

from aos.core.journal.faults import Fault, FaultKind, refuse_host_memory
from aos.errors import Unavailable


def test_a_trial_that_lacked_memory_is_refused_and_named() -> None:
    fault = Fault(kind=FaultKind.HOST_MEMORY, message="the machine had no memory for it")

    with pytest.raises(Unavailable) as caught:
        refuse_host_memory(fault, "record 6")

    assert str(caught.value) == (
        "record 6: this machine could not run it: the machine had no memory for it "
        "(try where there is more memory)"
    )


@pytest.mark.parametrize("kind", [kind for kind in FaultKind if kind is not FaultKind.HOST_MEMORY])
def test_every_other_fault_is_a_result_of_the_trial(kind: FaultKind) -> None:
    refuse_host_memory(Fault(kind=kind, message="it failed"), "record 6")
