"""The bytes of histories: spec/vectors/flow.json (FL-20 to FL-29). ``REWRITE=1`` writes it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, Final

import pytest

from aos.testing import Fail, Timeout
from aos.values.cbor import decode_record, encode
from tests.flow.probe import MINUTE, NEVER, Probe
from tests.modules.guests import ROOT

FILE: Final = ROOT / "spec/vectors/flow.json"

Story = Callable[[Probe], None]


def begin(**answers: object) -> Story:
    def play(probe: Probe) -> None:
        probe.answer(**answers)
        probe.begin()

    return play


def _a_race_that_lost_messages(probe: Probe) -> None:
    for text in ("1", "2"):
        probe.note(text, runs=False)
    probe.begin()


def _removed(probe: Probe) -> None:
    begin(after=NEVER)(probe)
    probe.upgrade()
    probe.note("x")


def _a_version(probe: Probe) -> None:
    probe.upgrade()
    begin()(probe)


def _a_call_that_waits(probe: Probe) -> None:
    """The called flow cannot undo its step yet."""
    probe.answer(undo_kid=Fail("no", "on purpose"))
    probe.begin()
    probe.control("Cancel", {"rollback": True})


STORIES: Final[dict[str, tuple[str, dict[str, Any], Story]]] = {
    "nothing": ("steps", {}, begin()),
    "a step in flight": ("steps", {}, begin(one=NEVER)),
    "a step with every setting": ("timeout", {"count": 3}, begin(slow=NEVER)),
    "a step before its third attempt": (
        "patient",
        {"count": 5, "pause": MINUTE},
        begin(**{"try": Timeout()}),
    ),
    "a caught failure and a sleep": ("catches", {}, begin(one=Fail("broken", "on purpose"))),
    "locals and an emit": ("locals", {}, begin()),
    "a listen with a deadline": ("listens", {"count": 4}, begin()),
    "messages of an enum": ("either", {}, _a_race_that_lost_messages),
    "a join that failed": ("join", {"count": 1}, begin(two=Fail("no", "on purpose"))),
    "a race in its middle": ("race", {}, begin(two=NEVER)),
    "messages of a branch": ("gives-back", {}, _a_race_that_lost_messages),
    "kept iterations": ("loop", {"count": 20}, begin(page_12=NEVER)),
    "names that are escaped": ("names", {"count": 9}, begin(**{"~1#2:x/é": NEVER})),
    "a rollback to a checkpoint": ("unwinds", {}, begin(undo_one=NEVER)),
    "a rollback in its middle": ("steps", {}, begin(one_two=Fail("no"), undo_two=NEVER)),
    "a call": ("calls", {}, begin()),
    "a call with a rollback": ("undoes-a-call", {}, begin()),
    "a canceled call that waits for its flow": ("undoes-a-call", {}, _a_call_that_waits),
    "a removed step": ("removes", {}, _removed),
    "a version": ("versions", {}, _a_version),
}


def history(name: str) -> dict[str, Any]:
    program, start, play = STORIES[name]
    with Probe(program, **start) as probe:
        play(probe)
        return {
            "name": name,
            "ops_hex": probe.state["ops"].hex(),
            "operations": [
                {"path": path, "kind": words.split()[0], "state": words.split()[1]}
                for path, words in probe.paths.items()
            ],
            "compensations": [
                {"path": path, "state": state} for path, state in probe.undos.items()
            ],
        }


@pytest.fixture(scope="module")
def vectors() -> dict[str, Any]:
    if os.environ.get("REWRITE") == "1":
        found = [history(name) for name in STORIES]
        FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return {each["name"]: each for each in json.loads(FILE.read_text())}


@pytest.mark.parametrize("name", STORIES)
def test_the_engine_writes_the_bytes_of_the_vectors(name: str, vectors: dict[str, Any]) -> None:
    assert history(name) == vectors[name]


def test_every_vector_is_canonical_and_has_a_story(vectors: dict[str, Any]) -> None:
    assert set(vectors) == set(STORIES)
    for each in vectors.values():
        ops = bytes.fromhex(each["ops_hex"])
        assert encode(decode_record(ops)) == ops
