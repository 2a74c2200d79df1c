"""Read requests about schedules."""

from __future__ import annotations

from typing import Final

from aos.read.operations.across import MergedRows, OneOf, by_field
from aos.read.operations.operation import NAME, Parameter, ReadOperation, is_always_long
from aos.read.views import schedule_view

READ_SCHEDULES: Final = ReadOperation(
    name="read_schedules", path="/v1/schedules", command="schedule list",
    summary="List schedules, by id.",
    answers=("SchedulesDocument",), is_long=is_always_long,
    across=MergedRows("schedules", by_field("id")),
    document=lambda view, _: schedule_view.schedules(view),
)  # fmt: skip

READ_SCHEDULE: Final = ReadOperation(
    name="read_schedule", path="/v1/schedule", command="schedule show",
    summary="Show a schedule: its definition, its next times, and its last runs.",
    parameters=(
        Parameter(
            name="id", schema=NAME, help="Its id.", required=True, metavar="ID", is_argument=True,
            command_help="The id of the schedule.",
        ),
    ),
    answers=("ScheduleDocument",), across=OneOf(),
    document=lambda view, query: schedule_view.schedule(view, query["id"]),
)  # fmt: skip
