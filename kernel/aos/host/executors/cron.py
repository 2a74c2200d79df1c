"""``sys/cron.next@1``: the next times of a cron text in a time zone (X-36 to X-39).

Rules of time zones change several times a year. So a workflow asks for times, and gets them in a
receipt: a new release of the rules needs no new module, and a replay needs none at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aos.host.executors.at_once import AtOnceExecutor, TaskEnd
from aos.host.executors.task import Report, Task, report_to_stderr
from aos.host.stamps import now_ns
from aos.manifest.cron_times import CronProblem, next_times, release
from aos.manifest.names import CRON
from aos.values.cbor import Value, decode_record, encode
from aos.worker.failure import AttemptFailure


def carry_out(params: bytes) -> TaskEnd:
    """The receipt of ``sys/cron.next@1``: the times, or one of the errors of X-39."""
    fields: Any = decode_record(params)
    try:
        times = next_times(fields["cron"], fields["tz"], fields["after_ns"], fields["count"])
    except CronProblem as problem:
        failure = AttemptFailure(code=problem.code, message=problem.message, retryable=False)
        return TaskEnd("error", failure.payload())
    answer: Value = {"times": list(times), "tzdata": release()}
    return TaskEnd("ok", encode(answer))


class CronExecutor(AtOnceExecutor):
    """The ``TaskExecutor`` of ``sys/cron.next@1``."""

    def __init__(
        self, *, clock: Callable[[], int] = now_ns, report: Report = report_to_stderr
    ) -> None:
        super().__init__("cron", frozenset({CRON}), clock=clock, report=report)

    def carry_out(self, task: Task) -> TaskEnd:
        return carry_out(task.params)
