"""One schedule: its times, outages, overlaps and commands (spec/schedule.md)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.core.journal.records import Step
from aos.manifest.load import ManifestProblems
from aos.manifest.schedules import ScheduleInvalid
from aos.testing import World
from aos.testing.problems import InputRefused
from tests.run_seed import rotated
from tests.schedule.stage import DAY, HOUR, MINUTE, SCHEDULE, SECOND, SWEEP, Stage, nodes, sweep


def test_an_event_is_emitted_at_each_time_and_in_the_step_that_the_timer_caused() -> None:
    """SC-3, SC-4."""
    stage = Stage(sweep())

    stage.world.advance("3d")

    assert stage.due() == [f"2026-03-0{day}T02:30:00Z" for day in (1, 2, 3)]
    assert {each["days"] for each in stage.world.events(SWEEP)} == {30}
    steps = [
        each for each in stage.world._desk.records
        if isinstance(each, Step) and any(event.schema == SWEEP for event in each.events)
    ]  # fmt: skip
    assert all(len(each.intents) == 1 for each in steps)
    assert len(stage.world.timers()) == 1
    stage.world.close()


def test_the_next_times_are_those_of_the_time_zone() -> None:
    """SC-2, SC-40."""
    stage = Stage(sweep(tz="America/New_York"), now="2026-03-06T12:00:00Z")

    assert stage.show()["next"] == [
        "2026-03-07T07:30:00.000Z",
        "2026-03-08T07:00:00.000Z",  # 02:30 does not exist
        "2026-03-09T06:30:00.000Z",
        "2026-03-10T06:30:00.000Z",
        "2026-03-11T06:30:00.000Z",
    ]
    stage.world.advance("3d")
    assert len(stage.show()["next"]) == 5
    assert stage.show()["next"][0] == "2026-03-10T06:30:00.000Z"
    stage.world.close()


def test_an_interval_counts_from_its_start_and_ends_at_its_end() -> None:
    """SC-2, SC-13."""
    stage = Stage()
    stage.create(
        every_ms=45_000, start="2026-03-01T00:10:07Z", end="2026-03-01T00:11:37Z", id="often"
    )
    assert stage.show("often")["next"][0] == "2026-03-01T00:10:07.000Z"

    stage.world.advance("1h")

    assert stage.due() == [
        "2026-03-01T00:10:07Z", "2026-03-01T00:10:52Z", "2026-03-01T00:11:37Z",
    ]  # fmt: skip
    assert stage.show("often")["problem"] == "there are no more times"
    assert stage.show("often")["next"] == []
    assert not stage.world.timers()
    stage.world.close()


def test_a_schedule_starts_an_instance_of_a_plan_each_time() -> None:
    """SC-24, SC-11: with skip, not before the last instance has ended."""
    plan = {"id": "rep", "every_ms": 3_600_000, "plan": "report", "context": {"a": [1, None]}}
    stage = Stage(plan | {"overlap": "skip"})

    stage.world.advance("3h")

    first = "rep@2026-03-01T01:00:00Z"
    found = stage.world.linear(first)
    assert found is not None
    assert (found["schedule"], found["context"]) == ("rep", {"a": [1, None]})
    assert stage.world.linear("rep@2026-03-01T02:00:00Z") is None
    assert (stage.show("rep")["runs"], stage.show("rep")["overlapped"]) == (1, 2)

    stage.world.send("aos/LinearCancel@1", {"instance": first, "reason": ""})
    stage.world.advance("1h")

    assert stage.world.linear("rep@2026-03-01T04:00:00Z") is not None
    stage.world.close()


# Outages


def test_times_of_an_outage_are_made_up_in_order_as_far_as_the_catch_up_reaches() -> None:
    """SC-10."""
    stage = Stage(sweep(id="often", every_ms=600_000, catchup_ms=3_600_000))

    stage.jump(3 * HOUR + 5 * MINUTE)

    assert stage.due() == [f"2026-03-01T0{time}Z" for time in (
        "2:10:00", "2:20:00", "2:30:00", "2:40:00", "2:50:00", "3:00:00",
    )]  # fmt: skip
    found = stage.show("often")
    assert (found["runs"], found["made_up"], found["skipped"]) == (6, 6, 12)
    assert {each["kind"] for each in found["recent"]} == {"made_up"}
    stage.world.close()


def test_a_time_that_is_handled_within_a_minute_was_not_missed() -> None:
    """SC-10."""
    stage = Stage(sweep(catchup_ms=0))

    stage.jump(2 * HOUR + 31 * MINUTE)
    stage.jump(DAY + SECOND)

    assert stage.due() == ["2026-03-01T02:30:00Z"]
    assert (stage.show()["runs"], stage.show()["skipped"]) == (1, 1)
    stage.world.close()


@pytest.mark.long
@pytest.mark.parametrize("more", rotated([{"every_ms": 60_000}, {"cron": "* * * * *"}]))
def test_an_outage_of_a_week_is_dealt_with_in_many_short_steps(more: dict[str, Any]) -> None:
    """SC-10: a step emits at most 32 events."""
    stage = Stage(sweep(id="often", catchup_ms=7 * 86_400_000, **more))

    stage.jump(7 * DAY)

    assert stage.show("often")["runs"] == 7 * 24 * 60
    assert len(set(stage.due())) == 7 * 24 * 60
    most = max(len(each.events) for each in stage.world._desk.records if isinstance(each, Step))
    assert most == 32
    stage.world.close()


def test_events_of_a_large_value_are_made_up_a_few_a_step() -> None:
    """SC-10: a step emits at most 2 MiB."""
    text = [{"$kind": "defschema", "name": "shop/Text@1", "type": {"record": {"t": {"text": {}}}}}]
    manifest = [*nodes(), *text]
    manifest[1]["schemas"].append({"name": "shop/Text@1"})
    with World(manifest, now="2026-03-01T00:00:00Z") as world:
        world.create_schedule(
            "big", every_ms=60_000, catchup_ms=3_600_000, event="shop/Text@1",
            value={"t": "x" * 250_000},
        )  # fmt: skip
        world.run()
        world._desk.now_ns += HOUR
        world.run()

        found = world.schedule("big")
        assert found is not None
        assert found["runs"] == 60
        steps = [each for each in world._desk.records if isinstance(each, Step)]
        assert max(len(each.events) for each in steps) == 8


def test_an_event_whose_key_or_size_the_kernel_refuses_is_refused() -> None:
    """SC-22."""
    stage = Stage()
    cancel = {"every_ms": 1_000, "event": "aos/LinearCancel@1"}

    with pytest.raises(InputRefused):
        stage.world.create_schedule("a", **cancel, value={"instance": "x" * 1_100, "reason": ""})
    small = nodes(limits={"world": {"event_bytes": 4_096}})
    stage.world.apply(small)
    with pytest.raises(InputRefused):
        stage.world.create_schedule("a", **cancel, value={"instance": "x", "reason": "y" * 5_000})

    stage.world.create_schedule("a", **cancel, value={"instance": "x", "reason": "y"})
    stage.world.run()
    stage.world.advance("5s")
    assert stage.show("a")["runs"] == 5
    stage.world.close()


@pytest.mark.parametrize("more", [{"every_ms": 60_000}, {"cron": "* * * * *"}])
def test_old_times_are_counted_and_emit_nothing(more: dict[str, Any]) -> None:
    stage = Stage(sweep(id="often", catchup_ms=0, **more))

    stage.jump(7 * DAY + 30 * SECOND)

    assert stage.show("often")["runs"] == 1
    assert stage.show("often")["skipped"] == 7 * 24 * 60 - 1
    stage.world.close()


def test_a_clock_that_is_set_back_over_a_due_time_emits_nothing_again() -> None:
    """SC-12."""
    stage = Stage(sweep())
    stage.world.advance("1d")

    stage.jump(-23 * HOUR)
    stage.world.advance("23h")

    assert stage.due() == ["2026-03-01T02:30:00Z"]
    stage.world.advance("1d")
    assert stage.due()[1:] == ["2026-03-02T02:30:00Z"]
    stage.world.close()


def test_jitter_delays_the_event_and_not_its_due_time() -> None:
    """SC-5."""
    stage = Stage(sweep(jitter_ms=600_000))

    stage.world.advance("20d")

    runs = stage.show()["recent"]
    assert stage.due() == [f"2026-03-{day:02}T02:30:00Z" for day in range(1, 21)]
    late = {each["at"][14:16] for each in runs}
    assert all("30" <= each < "40" for each in late)
    assert len(late) > 3
    assert stage.show()["skipped"] == 0
    stage.world.close()


# Overlap


def test_skip_waits_until_the_last_event_is_done() -> None:
    """SC-11."""
    stage = Stage(sweep(overlap="skip"))

    stage.world.advance("3d")
    assert (stage.show()["runs"], stage.show()["overlapped"]) == (1, 2)
    assert stage.show()["waits_for_end"] is True
    assert stage.tell("Trigger") == "the last event is not done yet (overlap: skip)"

    assert stage.tell("Done") == "Done"
    stage.world.advance("1d")
    assert stage.show()["runs"] == 2
    stage.world.close()


# Commands


def test_times_in_a_pause_are_neither_made_up_nor_counted() -> None:
    """SC-12, SC-20."""
    stage = Stage(sweep())

    assert stage.tell("Pause") == "Done"
    assert stage.show()["next"] == []
    assert not stage.world.timers()
    stage.world.advance("5d")
    assert stage.tell("Trigger") == "Done"
    assert stage.tell("Pause") == "Done"
    assert stage.tell("Resume") == "Done"
    assert stage.tell("Resume") == "Done"
    stage.world.advance("1d")

    assert stage.due() == ["2026-03-06T00:00:00Z", "2026-03-06T02:30:00Z"]
    assert stage.show()["skipped"] == 0
    stage.world.close()


def test_two_triggers_in_one_second_have_different_ids() -> None:
    """SC-4."""
    stage = Stage(sweep(), now="2026-03-01T02:30:00Z")

    stage.tell("Trigger")
    stage.world.advance(1)
    stage.tell("Trigger")

    assert stage.due() == ["2026-03-01T02:30:00Z", "2026-03-01T02:30:00.000000001Z"]
    stage.world.close()


def test_a_deleted_schedule_leaves_nothing_open() -> None:
    """SC-20."""
    stage = Stage()
    stage.create()

    assert stage.tell("Delete") == "Done"

    assert stage.world.schedule("nightly") is None
    assert not stage.world.timers()
    stage.world.advance("3d")
    assert stage.due() == []
    with pytest.raises(InputRefused):
        stage.tell("Pause")
    stage.create()
    stage.world.advance("1d")
    assert len(stage.due()) == 1
    stage.world.close()


def test_the_same_definition_again_changes_nothing_and_another_one_keeps_the_counts() -> None:
    """SC-1."""
    stage = Stage()
    stage.create()
    stage.world.advance("2d")
    steps = stage.show()

    stage.create()
    assert stage.show() == steps
    stage.create(cron="0 12 * * *", paused=False)

    assert stage.show()["runs"] == 2
    assert stage.show()["next"][0] == "2026-03-03T12:00:00.000Z"
    assert len(stage.world.timers()) == 1
    stage.world.advance("1d")
    assert stage.due()[2:] == ["2026-03-03T12:00:00Z"]
    stage.world.close()


def test_a_pause_stays_unless_a_definition_changes_it() -> None:
    """SC-1."""
    stage = Stage()
    stage.create()
    stage.tell("Pause")

    stage.create(cron="0 12 * * *")
    assert stage.show()["paused"] is True
    stage.create(cron="0 12 * * *", paused=True)
    stage.tell("Resume")
    stage.create(cron="0 13 * * *", paused=True)
    assert stage.show()["paused"] is False
    stage.create(cron="0 13 * * *")
    assert stage.show()["paused"] is False
    stage.world.close()


# Refusals


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"cron": "61 * * * *"}, "/cron"),
        ({"cron": "0 0 30 2 *"}, "/cron"),
        ({"cron": "* * * * * *"}, "/cron"),
        ({"tz": "Europe/Atlantis"}, "/tz"),
        ({"every_ms": 999}, "/every_ms"),
        ({"every_ms": 60_000, "tz": "UTC"}, "/tz"),
        ({"every_ms": 60_000, "cron": "* * * * *"}, ""),
        ({"event": "shop/Nothing@1"}, "/event"),
        ({"event": "aos/ScheduleSet@1", "value": {}, "at_field": "x"}, "/event"),
        ({"event": "sys/EffectError@1", "value": {}, "at_field": "x"}, "/event"),
        ({"value": {"days": -1}}, "/value"),
        ({"value": {"days": 1, "id": "x"}}, "/at_field"),
        ({"at_field": "days", "value": {"id": "x"}}, "/value"),
        ({"value": {"days": 1, "more": 1}}, "/value"),
        ({"plan": "report"}, ""),
        ({"context": {}}, "/context"),
        ({"overlap": "wait"}, "/overlap"),
        ({"start": "tomorrow"}, "/start"),
        ({"catchup_ms": -1}, "/catchup_ms"),
        ({"jitter_ms": True}, "/jitter_ms"),
        ({"paused": 1}, "/paused"),
        ({"id": "x" * 201}, "/id"),
        ({"id": ""}, "/id"),
        ({"seconds": 1}, ""),
    ],
)
def test_a_definition_that_does_not_fit_is_refused_and_nothing_changes(
    more: dict[str, Any], pointer: str
) -> None:
    """M-75, SC-22, SC-23."""
    stage = Stage()
    definition = {"id": "nightly", **sweep()} | more
    if "cron" not in more and "every_ms" in more:
        del definition["cron"]
    records = stage.world.records

    with pytest.raises(ScheduleInvalid) as refused:
        stage.world.create_schedule(**definition)

    assert refused.value.pointer == pointer
    assert stage.world.records == records
    with pytest.raises(ManifestProblems):
        stage.world.apply(nodes(definition))
    assert stage.world.records == records
    stage.world.close()


@pytest.mark.parametrize(
    "more",
    [
        {"event": "shop/Nothing@1"},
        {"event": "aos/SchedulePause@1"},
        {"value": {"days": b"\x18\x01"}},
        {"value": {"days": b"\x61a"}},
        {"value": {}},
        {"at_field": None},
        {"by_manifest": True},
        {"when": {"$tag": "Cron", "$value": {"cron": "x", "tz": "UTC"}}},
    ],
)
def test_a_raw_event_that_sets_what_cannot_work_is_refused(more: dict[str, Any]) -> None:
    """SC-22."""
    stage = Stage()
    stage.create()
    set_ = stage.world.state(SCHEDULE, "nightly")["set"]

    with pytest.raises(InputRefused):
        stage.world.send("aos/ScheduleSet@1", set_ | {"id": "x"} | more)
    assert stage.world.schedule("x") is None
    stage.world.close()


@pytest.mark.parametrize(
    "more",
    [
        {"id": ""},
        {"catchup": -1},
        {"jitter": -1},
        {"when": {"$tag": "Every", "$value": {"interval": 1}}},
        {"when": {"$tag": "Every", "$value": {"interval": -SECOND}}},
    ],
)
def test_the_module_refuses_durations_and_names_out_of_bounds(more: dict[str, Any]) -> None:
    """SC-21: an instance never fails by a fault because of the values that are set."""
    stage = Stage()
    stage.create()
    set_ = stage.world.state(SCHEDULE, "nightly")["set"]
    id = str((set_ | {"id": "x"} | more)["id"])

    stage.world.send("aos/ScheduleSet@1", set_ | {"id": "x"} | more)
    stage.world.run()

    assert stage.world.annotations(SCHEDULE, id)[-1]["$tag"] == "Refused"
    assert stage.world.schedule(id) is None
    stage.world.close()


# Manifests


def test_schedules_of_a_manifest_come_and_go_with_it() -> None:
    """SC-30, SC-31."""
    stage = Stage(sweep(), sweep(id="weekly", cron="0 0 * * 1"))
    stage.create(id="mine")

    stage.world.apply(nodes(sweep(cron="0 3 * * *"), sweep(id="monthly", cron="0 0 1 * *")))
    stage.world.run()

    assert stage.world.schedule("weekly") is None
    assert stage.show("nightly")["next"][0] == "2026-03-01T03:00:00.000Z"
    assert stage.show("monthly")["by_manifest"] is True
    assert stage.show("mine")["by_manifest"] is False
    stage.world.apply(nodes(sweep(), sweep(id="weekly", cron="0 0 * * 1")))
    stage.world.run()
    assert stage.show("nightly")["next"][0] == "2026-03-01T02:30:00.000Z"
    assert stage.world.schedule("monthly") is None
    stage.world.close()


def test_a_schedule_of_the_manifest_is_changed_in_the_manifest_alone() -> None:
    """SC-32."""
    stage = Stage(sweep())

    with pytest.raises(InputRefused):
        stage.create(cron="0 0 * * *")
    with pytest.raises(InputRefused):
        stage.tell("Delete")

    assert stage.tell("Pause") == "Done"
    assert stage.tell("Trigger") == "Done"
    stage.world.close()


def test_a_manifest_that_a_schedule_no_longer_fits_is_refused() -> None:
    """SC-33: a schedule never emits what the manifest does not have."""
    stage = Stage(sweep())
    stage.create(id="mine")
    other = nodes()
    other[0]["type"] = {"record": {"id": {"text": {}}, "weeks": {"nat": {}}}}

    with pytest.raises(InputRefused) as refused:
        stage.world.apply(other)

    [blocker] = refused.value.blockers
    assert (blocker.kind, blocker.workflow) == ("schedule_does_not_fit", SCHEDULE)
    stage.tell("Delete", "mine")
    stage.world.apply(other)
    stage.world.run()
    assert stage.world.schedule("nightly") is None
    stage.world.advance("2d")
    stage.world.close()


def accepting(*schemas: str) -> dict[str, Any]:
    """The field of a manifest that accepts these events from outside, and those of its packages."""
    return {"routing": {"ingress": list(schemas)}}


def test_a_sender_cannot_define_a_schedule_for_an_event_that_it_cannot_send() -> None:
    """SC-22, M-30b: a schedule of a sender is no way around the list."""
    stage = Stage(sweep(), **accepting())
    set_ = stage.world.state(SCHEDULE, "nightly")["set"]
    records = stage.world.records

    for send in (
        lambda: stage.create(id="mine"),
        lambda: stage.world.send("aos/ScheduleSet@1", set_ | {"id": "mine", "by_manifest": False}),
    ):
        with pytest.raises(InputRefused) as refused:
            send()
        assert refused.value.rule == "event_is_internal"
        assert "shop/Sweep@1 is not accepted from outside" in str(refused.value)

    assert stage.world.records == records
    stage.world.create_schedule("plans", every_ms=60_000, plan="report")
    stage.world.close()


def test_a_schedule_of_the_manifest_emits_an_event_that_no_sender_can_send() -> None:
    """SC-32, M-30b: whoever applies the manifest decides it."""
    stage = Stage(sweep(), **accepting())

    with pytest.raises(InputRefused) as refused:
        stage.world.send(SWEEP, {"id": "x", "days": 1})
    assert refused.value.rule == "event_is_internal"
    stage.world.advance("1d")

    assert len(stage.due()) == 1
    stage.world.close()


def test_a_manifest_that_closes_the_event_of_a_users_schedule_is_refused() -> None:
    """SC-33, M-30b."""
    stage = Stage()
    stage.create(id="mine")

    with pytest.raises(InputRefused) as refused:
        stage.world.apply(nodes(**accepting()))

    [blocker] = refused.value.blockers
    assert blocker.kind == "schedule_does_not_fit"
    assert "shop/Sweep@1 is not accepted from outside" in blocker.detail
    stage.tell("Delete", "mine")
    stage.world.apply(nodes(**accepting()))
    stage.world.close()


def test_a_world_that_crashes_before_its_schedules_are_set_sets_them_then() -> None:
    """SC-30."""
    stage = Stage(sweep())

    stage.world.restart()
    stage.world.snapshot()
    stage.world.run()

    assert len(stage.world.timers()) == 1
    stage.world.advance("1d")
    assert len(stage.due()) == 1
    stage.world.close()


def test_a_manifest_without_the_package_cannot_have_schedules() -> None:
    """M-75."""
    with pytest.raises(ManifestProblems) as refused:
        World(nodes(sweep(), uses=["aos/linear@1"]))

    assert any(each.pointer.endswith("/schedules") for each in refused.value.problems)


def test_a_schedule_shows_no_time_that_no_time_can_be() -> None:
    """SC-40, X-36: the last time is 2262-04-11T23:47:16Z, for intervals and for cron texts."""
    stage = Stage()
    start = "2262-04-11T20:30:00Z"
    stage.create(id="every", every_ms=3_600_000, start=start)
    stage.create(id="cron", cron="30 * * * *", start=start)

    for id in ("every", "cron"):
        hours = [str(each)[11:16] for each in stage.show(id)["next"]]
        assert hours == ["20:30", "21:30", "22:30", "23:30"], id
        assert stage.show(id)["problem"] is None


def test_the_value_of_a_schedule_is_shown_as_send_accepts_it() -> None:
    """SC-40, A-3: by the schema of its event, times and durations as texts."""
    stage = Stage({"id": "report", "every_ms": 60_000, "plan": "report"}, sweep())

    [step] = stage.show("report")["value"]["steps"]
    assert (step["type"], step["lease"]) == ("MAKE", "30s")
    assert stage.show()["value"] == {"days": 30}
