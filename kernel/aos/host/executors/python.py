"""The effects of ``aos run --executors MODULE:ATTR``: your functions, in a process of their own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from aos.core.journal.ports import BlobReader
from aos.host.executors.backlog import NO_LIMITS
from aos.host.executors.child import ChildExecutor
from aos.host.executors.enclosures import Enclosed, Enclosing, no_blobs, without_value
from aos.host.executors.life import Ready
from aos.host.executors.limiter import Limit
from aos.host.executors.task import Halted, Report, Task, report_to_stderr
from aos.host.folder.secrets import Secrets
from aos.manifest.effective import Effective
from aos.values.digests import Hash
from aos.worker.failure import AttemptFailure
from aos.worker.worker_secrets import MISMATCH, UNAVAILABLE


def path_flags(spec: str) -> Sequence[str]:
    """The flags of Python for a process that loads ``spec``: a name is that of an installed
    package, so a package in the working directory must not be loaded instead (EP-4)."""
    return () if ":" in spec else ("-P",)


class PythonExecutor(ChildExecutor):
    """``spec`` is ``package.module:attr`` or ``path/to/file.py:attr``, from the working directory,
    or a name that an installed package registers.

    ``limits`` are those of a node, by effect. ``read`` reads the store for ``ctx.blob``, and
    ``secrets`` has the values for ``ctx.secret``. ``environment`` is that of the process (default:
    the host's). ``effects``, ``name`` and ``signer`` are known
    after ``start``.
    """

    def __init__(
        self,
        spec: str,
        *,
        world: Hash,
        read: BlobReader = no_blobs,
        secrets: Secrets | None = None,
        report: Report = report_to_stderr,
        limits: Mapping[str, Limit] = NO_LIMITS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            label=spec,
            command=[sys.executable, *path_flags(spec), "-m", "aos.worker.child", spec],
            world=world,
            report=report,
            limits=limits,
            environment=environment,
        )
        self._secrets = secrets or Secrets()
        self._enclosing = Enclosing(read, self._secrets.value)
        self._blobs: Mapping[str, Sequence[str]] = {}

    def use(self, effective: Effective) -> None:
        super().use(effective)
        self._use_enclosing()

    def _get_ready(self, ready: Ready) -> None:
        self._blobs = ready.blobs
        super()._get_ready(ready)
        self._use_enclosing()

    def _use_enclosing(self) -> None:
        if self._manifest is not None:
            for problem in self._enclosing.use(self._manifest, self._blobs):
                self._report(f"executor {self.name}: {problem}")

    def lacking(self) -> Sequence[str]:
        """Report which secrets have no value before the first task is held for one (X-19)."""
        if self._manifest is None:
            return []
        effects = self._manifest.effects
        if not any(name in effects and effects[name].takes_secrets for name in self.effects):
            return []
        # One with hosts goes to no function.
        secrets = [secret for secret in self._manifest.secrets.values() if secret.hosts is None]
        return without_value(secrets, self._secrets.value)

    def prepare(self, task: Task) -> Enclosed | AttemptFailure:
        """The secrets and blobs that the params name (X-75, X-79)."""
        return self._enclosing.of(task.effect.name, task.workflow, task.params)

    def read_blob(self, hash: str) -> bytes | AttemptFailure:
        return self._enclosing.read_blob(hash)

    def still_lacks(self, task: Task, halted: Halted) -> bool:
        if halted.code not in (UNAVAILABLE, MISMATCH):
            return False
        prepared = self.prepare(task)
        return isinstance(prepared, AttemptFailure) and (prepared.code, prepared.message) == (
            halted.code,
            halted.problem,
        )
