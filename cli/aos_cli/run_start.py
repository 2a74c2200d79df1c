"""The executors of a process that runs a world, and its first lines (spec/cli.md, C-25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aos.audit.lens.words import FAR_NS, count, span_text, time_text
from aos.audit.views.clock_view import ahead_ns, ahead_text
from aos.core.journal.ports import BlobReader
from aos.host.executors.backlog import NO_LIMITS
from aos.host.executors.blob import BlobExecutor
from aos.host.executors.cron import CronExecutor
from aos.host.executors.http import HttpExecutor
from aos.host.executors.limiter import Limit
from aos.host.executors.pool import Coverage
from aos.host.executors.python import PythonExecutor
from aos.host.executors.task import TaskExecutor
from aos.host.executors.timer import TimerExecutor
from aos.host.folder.secrets import Secrets
from aos.host.machine_clock import now_ns
from aos.host.process import Started
from aos.manifest.effective import Effective
from aos.values.digests import Hash
from aos.worker.shipped import option_for
from aos_cli.output import note


def standard_executors(
    read: BlobReader,
    world: Hash,
    specs: Sequence[str],
    allow_http: Sequence[str],
    secrets: Secrets,
    *,
    limits: Mapping[str, Limit] = NO_LIMITS,
    environment: Mapping[str, str] | None = None,
) -> list[TaskExecutor]:
    """Return the host's own executors, and one for each of ``specs``, which name Python effects.
    ``limits`` are those of a node; ``environment`` is that of the processes of ``specs``."""
    return [
        TimerExecutor(report=note),
        BlobExecutor(read, report=note),
        CronExecutor(report=note),
        HttpExecutor(allow_http, read=read, secrets=secrets, report=note),
        *(
            PythonExecutor(
                spec,
                world=world,
                read=read,
                secrets=secrets,
                report=note,
                limits=limits,
                environment=environment,
            )
            for spec in specs
        ),
    ]


def _started(start: Started) -> None:
    number = start.open_intents
    published_text = f", {count(number, 'open effect')} published again" if number else ""
    note(f"running {start.folder.path} from record {start.seq:,}{published_text} (Ctrl-C stops it)")
    _clock(start.clock_ns, now_ns())


def _clock(clock_ns: int, machine_ns: int) -> None:
    """Print a line if the machine's clock and the last record are far from each other (C-25f)."""
    found_ns = ahead_ns(clock_ns, machine_ns)
    if found_ns:
        note(ahead_text(found_ns), style="yellow")
    elif machine_ns - clock_ns > FAR_NS:
        note(
            f"this machine's clock is {span_text(machine_ns - clock_ns)} after the last record, of "
            f"{time_text(clock_ns)}: if that clock is wrong, set it, and then see aos clock",
            style="yellow",
        )


class RunStart:
    """Prints that the world runs, and then the things that its manifest may ask for and this
    process does not provide (C-25). Unless it ``needs_executors``, workers may carry out the
    effects that this process does not."""

    def __init__(self, *, needs_executors: bool = True) -> None:
        self._needs_executors = needs_executors
        self._noted: set[str] = set()
        self._waiting: list[str] = []
        self._has_started = False

    def started(self, start: Started) -> None:
        """Print the first line, and the block after it."""
        _started(start)
        self._has_started = True
        self._tell()

    def covered(self, coverage: Coverage, _manifest: Effective) -> None:
        """Print a short block, once the world runs; a later manifest adds only new lines."""
        unserved = coverage.unserved if self._needs_executors else ()
        lacks = [f"{name}: no executor ({option_for(name)})" for name in unserved]
        new = [text for text in (*lacks, *coverage.lacking) if text not in self._noted]
        self._noted.update(new)
        self._waiting += new
        if self._has_started:
            self._tell()

    def _tell(self) -> None:
        new, self._waiting = self._waiting, []
        if new:
            note("effects for which this process lacks something stay open:")
        for text in new:
            note(f"  {text}")
