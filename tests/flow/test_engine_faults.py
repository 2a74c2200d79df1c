"""Divergence, new versions and bad programs (FL-4, FL-5, FL-67, FL-68)."""

from __future__ import annotations

import pytest

from aos.testing import Fail
from aos.values.cbor import decode_record
from tests.flow.probe import FLOW, HOUR, NEVER, Probe


def faulted(probe: Probe, kind: str) -> str:
    fault, message = probe.fault
    assert fault == "guest"
    assert kind in message
    return message


@pytest.mark.parametrize(
    ("program", "count", "words"),
    [
        ("names", 0, 'the name "" is empty'),
        ("names", 1, "more than 128 bytes"),
        ("names", 2, 'the flow: the name "same" is there twice, as local and as local'),
        ("names", 3, 'all: the name "same" is there twice'),
        ("names", 4, "a path of more than 200 bytes"),
    ],
)
def test_a_bad_name_is_a_fault(program: str, count: int, words: str) -> None:
    with Probe(program, count=count) as probe:
        probe.begin(may_fail=True)

        assert words in faulted(probe, "flow_name")
        assert probe.done == []
        assert probe.state is None


def test_names_may_have_any_characters() -> None:
    with Probe("names", count=9, answers=False) as probe:
        probe.begin()
        effect = probe.world.effect("t/do@1")
        assert effect.requested_key == "a%2Fb:%25~/%7E1#2:x%2Fé"
        effect.answer({"note": "done"})
        probe.world.run()

        assert probe.output == "done"


@pytest.mark.parametrize(
    ("program", "kind", "words"),
    [
        ("two-at-once", "flow_concurrent", "one is still open"),
        ("dropped", "flow_concurrent", "one is still open"),
        ("something-else", "flow_pending", "the flow waits"),
        ("stranger", "flow_listen", "t/Stranger@1"),
    ],
)
def test_a_program_that_cannot_work_is_a_fault(program: str, kind: str, words: str) -> None:
    with Probe(program) as probe:
        probe.begin(may_fail=True)

        assert words in faulted(probe, kind)


CHANGES = {
    "changed-code": ("one", "other params"),
    "moved": ('step "one"', 'step "two"'),
    "left-out": ('step "one"', "the end"),
}


@pytest.mark.parametrize("program", CHANGES)
def test_changed_code_diverges_compensates_nothing_and_continues_once_it_is_mended(
    program: str,
) -> None:
    with Probe(program, answers=False) as probe:
        probe.begin()
        before = probe.state
        asked = len(probe.world.asked())
        probe.upgrade()
        if program == "changed-code":  # an answer would end the step, and its params with it
            probe.world.send("t/Note@1", {"id": "a", "text": "replay"})
        else:
            probe.world.effects("t/do@1")[0].answer({"note": "one"})
        probe.world.run(may_fail=True)

        message = faulted(probe, "diverged")
        assert all(words in message for words in CHANGES[program])
        assert probe.state == before
        assert len(probe.world.asked()) == asked
        probe.mend()
        probe.world.retry(FLOW, "a")
        probe.answer()
        probe.world.run()
        assert probe.status == "completed"


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("is_finished", [True, False])
def test_other_branches_diverge_before_and_after_the_join(count: int, *, is_finished: bool) -> None:
    with Probe("changed-branches", count=count, answers=is_finished) as probe:
        probe.begin()
        probe.upgrade()
        probe.world.send("t/Note@1", {"id": "a", "text": "replay"})
        probe.world.run(may_fail=True)

        assert "all" in faulted(probe, "diverged")
        assert probe.undone == []


def test_a_flow_whose_code_diverged_can_be_canceled() -> None:
    with Probe("moved") as probe:
        probe.answer(two=NEVER)
        probe.begin()
        probe.upgrade()
        probe.control("Cancel", {"rollback": True})

        assert probe.status == "cancelled"
        assert probe.undone == ["one"]


def test_the_detail_of_a_divergence_is_for_programs() -> None:
    with Probe("left-out", answers=False) as probe:
        probe.begin()
        probe.upgrade()
        probe.world.effects("t/do@1")[0].answer({"note": "one"})
        probe.world.run(may_fail=True)

        detail = probe.fault_detail
        assert decode_record(detail) == {
            "path": "one", "expected": 'step "one" of t/do@1', "found": "the end",
        }  # fmt: skip


def test_a_version_is_the_latest_where_a_flow_comes_first_and_1_where_it_has_passed() -> None:
    with Probe("versions") as probe:
        probe.begin()
        probe.upgrade()
        probe.world.finish()
        # `gate` is before a recorded sleep, `later` after it.
        assert probe.done == ["before", "also"]
        assert probe.output == "done"
    with Probe("versions") as probe:
        probe.upgrade()
        probe.begin()
        assert probe.paths["gate"] == "version completed"
        probe.world.finish()
        assert probe.done == ["before", "added", "also"]


def test_a_version_is_chosen_for_each_iteration() -> None:
    with Probe("versions-in-loop") as probe:
        probe.begin()
        probe.world.advance(HOUR)
        probe.upgrade()
        probe.world.finish()

        assert [each["text"] for each in probe.world.events("t/Told@1")] == ["day 1", "day 2"]
        assert probe.output == "2"


def test_a_removed_operation_is_passed_over_and_its_effect_canceled() -> None:
    with Probe("removes") as probe:
        probe.answer(gone=NEVER)
        probe.begin()
        effect = probe.world.effect("t/do@1")
        probe.upgrade()
        probe.note("replay")
        assert not effect.is_open
        assert probe.output == "after"
    with Probe("removes") as probe:
        probe.answer(after=NEVER)
        probe.begin()
        probe.upgrade()
        probe.note("replay")
        assert probe.paths == {
            "before": "step completed", "gone": "removed completed", "after": "step running",
        }  # fmt: skip
        probe.note("replay")
        probe.world.effect("t/do@1").answer({"note": "after"})
        probe.world.run()
        assert probe.output == "after"


def test_a_removed_operation_is_nothing_in_a_new_flow() -> None:
    with Probe("removes") as probe:
        probe.answer(after=NEVER)
        probe.upgrade()
        probe.begin()
        assert list(probe.paths) == ["before", "after"]


def test_an_unknown_program_fails_as_any_error() -> None:
    with Probe("nonsense") as probe:
        probe.answer(one=Fail("x"))
        probe.begin()
        assert probe.error[:2] == ["critical", "program"]
