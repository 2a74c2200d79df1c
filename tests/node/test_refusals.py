"""Each rule and each error of the kernel has one HTTP status (N-120, N-121)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.core.decide.answers import Blocker, Refusal, Rule
from aos.errors import AosError, BadUsage, Damage, Erased, Pruned, Refused, Unavailable
from aos.host.errors import Busy, Stopping, WorldStopped
from aos.node.problems import STATUSES, problem_of, refused
from aos.read.views.cell_view import NoSuchCell

WORLD = Path("/w/trips")


def test_every_rule_of_the_core_has_a_status() -> None:
    assert set(STATUSES) == set(Rule)
    assert set(STATUSES.values()) <= {403, 404, 409, 413, 422, 429}


def test_a_refusal_keeps_its_rule_and_its_sentence() -> None:
    problem = refused(Refusal(rule=Rule.WORLD_IS_BUSY, message="wait"))

    assert problem.document() == {
        "type": "urn:aos:world_is_busy", "status": 429, "detail": "wait", "rule": "world_is_busy",
    }  # fmt: skip
    assert problem.retry_after_s == 1


def test_the_blockers_of_a_manifest_are_in_the_document() -> None:
    blocker = Blocker(kind="instance_in_flight", cell=("t/w@1", b""), detail="waits")
    refusal = Refusal(rule=Rule.WORLD_IS_NOT_QUIESCENT, message="no", blockers=(blocker,))

    assert refused(refusal).document()["blockers"] == [
        {"kind": "instance_in_flight", "workflow": "t/w@1", "key": None, "detail": "waits"}
    ]


@pytest.mark.parametrize(
    ("error", "status", "retries"),
    [
        (Pruned("x"), 410, False),
        (Erased("x"), 410, False),
        (Refused("x"), 409, False),
        (BadUsage("x"), 400, False),
        (Busy("x"), 429, True),
        (Stopping("x"), 503, True),
        (Unavailable("x"), 503, True),
        (WorldStopped("x"), 503, True),
        (Damage("x"), 500, False),
        (AosError("x"), 500, False),
    ],
)
def test_each_error_has_a_status_and_its_sentence(
    error: AosError, status: int, retries: bool
) -> None:
    problem = problem_of(error, WORLD)

    assert (problem.status, problem.detail) == (status, "x")
    assert (problem.retry_after_s is not None) is retries
    assert problem_of(BadUsage("x"), WORLD, unknown=404).rule == "name_is_unknown"
    assert problem_of(NoSuchCell("x"), WORLD, unknown=404).rule == "cell_is_unknown"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/w/trips/aos.sock: the world went away", "DIR/aos.sock: the world went away"),
        (
            "/w/trips: no process (aos node --world /w/trips)",
            "DIR: no process (aos node --world DIR)",
        ),
        ("no room (/w/trips/store), stop", "no room (DIR/store), stop"),
        ("nothing is called '/w/trips'", "nothing is called 'DIR'"),
        ("/w/tripsters: /a/w/trips", "/w/tripsters: /a/w/trips"),
    ],
)
def test_a_sentence_does_not_have_the_place_of_the_world(text: str, shown: str) -> None:
    assert problem_of(Unavailable(text), WORLD).detail == shown
