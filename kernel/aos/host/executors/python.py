"""The effects of ``aos run --executors MODULE:ATTR``: your functions, in a process of their own."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from aos.host.executors.backlog import NO_LIMITS
from aos.host.executors.child import ChildExecutor
from aos.host.executors.limiter import Limit
from aos.host.executors.task import Report, report_to_stderr
from aos.values.digests import Hash


class PythonExecutor(ChildExecutor):
    """``spec`` is ``package.module:attr`` or ``path/to/file.py:attr``, from the working directory.

    ``limits`` are those of a node, by effect. ``effects``, ``name`` and ``signer`` are known after
    ``start``.
    """

    def __init__(
        self,
        spec: str,
        *,
        world: Hash,
        report: Report = report_to_stderr,
        limits: Mapping[str, Limit] = NO_LIMITS,
    ) -> None:
        super().__init__(
            label=spec,
            command=[sys.executable, "-m", "aos.worker.child", spec],
            world=world,
            report=report,
            limits=limits,
        )
