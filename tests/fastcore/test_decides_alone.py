"""The reference makes no decision of a second kernel, which asks for functions of bytes (CR-18)."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

import aos.core
from aos.fastcore import fast_kernel
from aos.fastcore.buffer import Ask, shipped_code
from aos.fastcore.decide_core import reference_answers
from aos.prove.replay.replay import replay
from tests.core.decide.test_migrate import to_counted
from tests.core.governed import act, governed, propose, report, version
from tests.fastcore.owned import on_owner
from tests.fastcore.owned_kernel import OPENERS
from tests.fastcore.random_cases import RandomCases
from tests.memory_world import MemoryWorld
from tests.modules.guests import ROOT

CORE: Final = Path(aos.core.__path__[0])

QUESTIONS: Final = {"VERIFY": 0, "DOCUMENT": 1, "PATCH": 2, "RECORDED": 3}
"""A signature; a manifest's document, before it is in force and in a journal; a patch."""

OF_VALUES: Final = {
    "decide/answers.py", "journal/", "kernel_protocol.py", "limits.py", "pending.py",
    "state/cell.py", "state/intent_progress.py", "state/proposals.py", "state/state.py",
}  # fmt: skip
"""Files of the reference with values that a core's answers become."""

DECIDING: Final = {"decide", "fold", "step", "_make_ready", "take", "load", "rebase"}
"""Functions in these files that would decide or change a state."""


@contextmanager
def called(counts: Counter[str]) -> Iterator[None]:
    """Count the calls of the reference's functions on the thread of second kernels."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(CORE):
            counts[f"{path.relative_to(CORE)}:{frame.f_code.co_name}"] += 1

    on_owner(lambda: sys.setprofile(note))
    try:
        yield
    finally:
        on_owner(lambda: sys.setprofile(None))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often second kernels ask each question."""
    counts: Counter[int] = Counter()

    def counting(*arguments: Any) -> Ask:
        answer = reference_answers(*arguments)

        def ask(question: int, request: bytes) -> bytes | None:
            counts[question] += 1
            return answer(question, request)

        return ask

    monkeypatch.setattr(fast_kernel, "reference_answers", counting)
    return counts


def council() -> MemoryWorld:
    """A manifest that was proposed, shadowed, approved and applied."""
    world = governed("ann", "bob", quorum=2)
    new = version(2, "ann", "bob", quorum=2)
    proposal = propose(world, new)
    report(world, proposal, by="ann")
    for name in ("ann", "bob"):
        act(world, "approve", proposal, by=name)
    world.seal()
    return world


WORLDS: Final = {"council": council, **{f"cases {n}": RandomCases(n).play for n in range(3)}}


@pytest.mark.parametrize("name", WORLDS)
def test_a_replay_by_the_second_kernel_calls_no_rule_of_the_reference(
    name: str, asked: Counter[int]
) -> None:
    world = WORLDS[name]()
    calls: Counter[str] = Counter()

    with called(calls):
        outcome = replay(world.frames, world.read, world.runner, opens=OPENERS["fast"])

    assert outcome.seq == world.frames[-1].header.last
    foreign = {call for call in calls if not any(call.startswith(part) for part in OF_VALUES)}
    assert foreign == set()
    assert {call.partition(":")[2] for call in calls} & DECIDING == set()
    assert set(asked) <= set(QUESTIONS.values())
    assert asked[QUESTIONS["VERIFY"]]


def test_the_profile_sees_a_rule_of_the_reference() -> None:
    """Else the test above could not fail."""
    world = RandomCases(0).play()
    calls: Counter[str] = Counter()

    with called(calls):
        on_owner(lambda: replay(world.frames, world.read, world.runner))

    assert calls["state/fold.py:fold"]
    assert any(call.startswith("decide/step.py") for call in calls)


def test_a_core_asks_four_questions() -> None:
    source = (ROOT / "kernel/rust-core/src/wasm.rs").read_text()
    questions = dict(re.findall(r"^const (\w+): u32 = (\d+);$", source, re.MULTILINE))
    uses = set(re.findall(r"(?:ask|problem)\(([A-Z]+), &\[", source))

    assert uses == set(QUESTIONS)
    assert {name: int(questions[name]) for name in QUESTIONS} == QUESTIONS
    assert source.count("host_ask(") == 2, "it is defined and called once"


def test_a_core_imports_what_the_specification_names() -> None:
    """CR-19."""
    page = (ROOT / "spec/core.md").read_text()
    text = page.partition("an import that is none of")[2].partition("it is refused")[0]

    imports = [item.name for item in shipped_code().module.imports]

    assert set(imports) == set(re.findall(r"`(\w+)`", text))
    assert len(imports) == len(set(imports))


def test_each_question_is_one_of_bytes() -> None:
    """CR-18: the same bytes have the same answer in any world."""
    answer = reference_answers(lambda *_: True)
    document = to_counted().effective.document

    for question in (1, 3):
        assert answer(question, _data(document)) is None
        assert answer(question, _data(b"\xa0")) is not None
    assert answer(2, _data(document) + _data(b"\xa0") + _data(document)) is not None
    assert answer(0, _data(b"") * 3) == b""


def _data(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data
