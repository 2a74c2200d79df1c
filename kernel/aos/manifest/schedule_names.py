"""The names of the package ``aos/schedule@1``: workflow and schemas (spec/schedule.md)."""

from __future__ import annotations

from typing import Final

from aos.manifest.names import SYSTEM

SCHEDULE_PACKAGE: Final = "aos/schedule@1"

SCHEDULE: Final = "aos/schedule@1"
"""The workflow of schedules."""

SET: Final = "aos/ScheduleSet@1"
PAUSE: Final = "aos/SchedulePause@1"
RESUME: Final = "aos/ScheduleResume@1"
TRIGGER: Final = "aos/ScheduleTrigger@1"
DELETE: Final = "aos/ScheduleDelete@1"

SENT_TO_SCHEDULES: Final = frozenset({SET, PAUSE, RESUME, TRIGGER, DELETE})
"""Events of senders, and those that set the schedules of a manifest (spec/schedule.md, SC-30)."""

NOT_SCHEDULED: Final = (SYSTEM, "aos/Schedule")
"""Beginnings of schemas that a schedule cannot emit."""
