"""The limits of a turn change nothing but the number of turns (FL-6): random programs do the same
in a version of the flow with the smallest limits, whatever its turns leave for the next one."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from aos.core.journal.records import Step
from aos.sandbox.stack import run_on_big_stack
from aos.values.cbor import decode_record
from tests.flow.comparison import RUN, SCHEMAS, without_messages
from tests.flow.programs import KEY, Action, Modelled, manifest, programs, schedules
from tests.flow.test_programs import node, output
from tests.run_seed import examples

EFFECTS: Final = 4
EVENTS: Final = 2
"""The limits of the entrypoint ``narrow``."""

ENDED_MAX: Final = 10_000


def played(entrypoint: str, program: dict[str, Any], schedule: list[Action]) -> Modelled:
    """The world after this program and schedule; each turn may end before the next input."""
    modelled = Modelled(manifest(entrypoint), compares=False)
    modelled.begin(program)
    modelled.go_on()
    for what, which, _, crashes in schedule:
        modelled.act((what, which, True, crashes))
    modelled.finish()
    return modelled


def outcome(modelled: Modelled) -> dict[str, Any]:
    """All that a program did, as others see it."""
    state: Any = modelled.world.state(RUN, KEY)
    history: Any = decode_record(state["ops"])
    error = state["error"]
    return {
        "effects": [
            (intent.effect.name, intent.issuer_ref, modelled.comparison.read(intent.params))
            for intent in modelled.desk.opened_intents.values()
        ],
        "events": [
            (each.schema, each.value)
            for each in modelled.world.emitted()
            if each.schema != f"{SCHEMAS[RUN]}Control@1"
        ],
        "status": state["status"],
        "output": state["output"],
        "error": None if error is None else without_messages(decode_record(error)),
        "compensations": [(each[0], each[3]) for each in history[2]],
    }


def turns(modelled: Modelled) -> list[Step]:
    return [
        each for each in modelled.desk.records if isinstance(each, Step) and each.cell[0] == RUN
    ]


@st.composite
def schedules_in_order(draw: st.DrawFn) -> list[Action]:
    """Nothing comes while a turn waits for its continuation: the order would be another one."""
    return [
        (what, which, True, crashes)
        for what, which, _, crashes in draw(schedules())
        if what != "rollback"
    ]


@settings(max_examples=examples(13))
@given(programs(with_body=("join", "join", "scope", "loop")), schedules_in_order())
def test_a_program_does_the_same_under_the_smallest_limits(
    program: dict[str, Any], schedule: list[Action]
) -> None:
    """Without races and failures that end a join at once: the turn in which a branch ends decides
    them. Without children, whose turns come between."""
    for each in program["nodes"]:
        if each["op"] == "fail":
            each["flags"] = [flag for flag in each["flags"] if flag != "rollback"]

    def play() -> None:
        wide, narrow = (played(name, program, schedule) for name in ("run", "narrow"))
        assert outcome(narrow) == outcome(wide)
        assert all(len(each.intents) <= EFFECTS for each in turns(narrow))
        assert all(len(each.events) <= EVENTS for each in turns(narrow))
        assert len(turns(narrow)) >= len(turns(wide))
        wide.world.abandon()
        narrow.world.abandon()

    run_on_big_stack(play)


def test_more_effects_than_a_turn_may_request_are_requested_in_order_over_several_turns() -> None:
    steps = [node("step", name=f"s{number}") for number in range(12)]
    branches = [node("branch", name=f"b{number}", nodes=[number]) for number in range(12)]
    everything = node("join", nodes=[*range(12, 24)], number=99)
    program = {"id": KEY, "nodes": [*steps, *branches, everything], "body": [24]}

    narrow = played("narrow", program, [])

    asked = [each.params["what"] for each in narrow.world.asked("f/do@1")]
    assert asked == [f"s{number}" for number in range(12)]
    assert len([each for each in turns(narrow) if each.intents]) >= 12 // EFFECTS
    assert narrow.status == "completed"
    narrow.world.close()


def test_a_loop_that_never_waits_goes_on_when_its_cascade_would_be_too_deep() -> None:
    """FL-6, K-45: one event of a turn leads to the next, and the kernel follows 256 of them."""
    count = 700
    nodes = [node("emit", name="tell"), node("loop", nodes=[0], number=count)]

    narrow = played("narrow", {"id": KEY, "nodes": nodes, "body": [1]}, [])

    assert narrow.status == "completed"
    assert len(narrow.world.emitted("f/Told@1")) == count
    timers = [intent.issuer_ref for turn in turns(narrow) for intent in turn.intents]
    assert timers == ["flow:#1:continue"] * 3
    narrow.world.close()


def test_a_flow_that_waits_to_continue_does_not_miss_what_comes_meanwhile() -> None:
    """FL-6: a cancel or a crash in that turn."""
    nodes = [node("emit", name="tell"), node("loop", nodes=[0], number=700)]
    narrow = Modelled(manifest("narrow"), compares=False)
    narrow.begin({"id": KEY, "nodes": nodes, "body": [1]})
    narrow.desk.run()  # the world itself would let the timer fire
    assert [each.issuer_ref for each in narrow.world.timers()] == ["flow:#1:continue"]
    assert narrow.status == "running"
    narrow.crash()
    narrow.control("Cancel", {"rollback": True}, 0)
    narrow.finish()

    assert narrow.status == "cancelled"
    assert len(narrow.world.emitted("f/Told@1")) == 200
    history: Any = decode_record(narrow.world.state(RUN, KEY)["ops"])
    assert history == [1, [], []]
    narrow.world.close()


@settings(max_examples=examples(3))
@given(
    st.integers(60, 80), st.integers(5, 150)
)  # the carried text stays short: each iteration copies it several times
def test_a_loop_that_never_waits_ends_after_as_many_turns_as_its_operations_need(
    leaves: int, iterations: int
) -> None:
    nodes = [node("version", name=f"v{number}") for number in range(leaves)]
    nodes.append(node("loop", nodes=[*range(leaves)], number=iterations))

    def play() -> None:
        modelled = played("run", {"id": KEY, "nodes": nodes, "body": [leaves]}, [])
        ended = iterations * (leaves + 1)  # and the loop itself, which ends in the last turn
        assert modelled.status == "completed"
        assert output(modelled) == "1;" * leaves * iterations + ";"
        assert len(turns(modelled)) == 1 + (ended - 1) // ENDED_MAX
        modelled.world.abandon()

    run_on_big_stack(play)


def test_a_turn_ends_before_its_memory_does() -> None:
    """FL-6: the text that the loop carries is copied in each iteration, to a hundred times what a
    step may use."""
    leaves, iterations = 40, 1_500
    nodes = [node("version", name=f"v{number}") for number in range(leaves)]
    nodes.append(node("loop", nodes=[*range(leaves)], number=iterations))

    def play() -> None:
        modelled = played("run", {"id": KEY, "nodes": nodes, "body": [leaves]}, [])
        ended = iterations * (leaves + 1)
        assert modelled.status == "completed"
        assert output(modelled) == "1;" * leaves * iterations + ";"
        assert len(turns(modelled)) > 2 * (1 + ended // ENDED_MAX)
        modelled.world.abandon()

    run_on_big_stack(play)
