"""``sys/http.request@1`` in a process of its own, which gets its blobs from here (X-60 to X-69)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aos.core.journal.ports import BlobReader
from aos.errors import Damage
from aos.host.executors.agentos_http import in_their_form
from aos.host.executors.blob import BLOB_MISSING, BLOB_TOO_LARGE
from aos.host.executors.child import ChildExecutor
from aos.host.executors.enclosures import Enclosed, permitted, secret_failure, without_value
from aos.host.executors.naming import blob_of
from aos.host.executors.task import Halted, Report, Task, report_to_stderr
from aos.host.folder.secrets import SecretProblem, Secrets
from aos.manifest.forms import AGENTOS
from aos.manifest.manifest_secrets import secret_name
from aos.values.cbor import decode_record
from aos.values.errors import ValueProblem
from aos.worker.failure import AttemptFailure
from aos.worker.http_settings import (
    CONCURRENCY,
    HTTP,
    NOT_ALLOWED,
    REQUEST_BYTES_MAX,
    AllowList,
    HttpLimits,
)
from aos.worker.outcome import Outcome
from aos.worker.worker_secrets import MISMATCH, UNAVAILABLE, SecretValue

DEFAULT: Final = HttpLimits()

PASSED_ON: Final = (
    "DYLD_LIBRARY_PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONHOME",
    "TMPDIR",
)
"""Of the environment: what an interpreter may need to start. No setting of TLS, names or proxies,
and none of the node's secrets."""


class HttpExecutor(ChildExecutor):
    """``allow`` is the hosts that may be reached (``aos.worker.http_settings``), by default none.

    ``read`` reads the store for ``body_ref``. ``secrets`` has the values that headers may name. The
    process is started for the first request.

    Raises:
        BadUsage: An entry of ``allow`` is not one.
    """

    def __init__(
        self,
        allow: Sequence[str] = (),
        *,
        read: BlobReader,
        secrets: Secrets | None = None,
        limits: HttpLimits = DEFAULT,
        report: Report = report_to_stderr,
    ) -> None:
        AllowList(allow)
        self._allows_any = bool(allow)
        # -P: no module of the folder that the node happens to run in.
        command = [sys.executable, "-P", "-m", "aos.worker.http"]
        command += [f"--allow={entry}" for entry in allow]
        command += [
            f"--response-bytes-max={limits.response_bytes_max}",
            f"--inline-bytes-max={limits.inline_bytes_max}",
            f"--timeout-s={limits.timeout_s}",
        ]
        super().__init__(
            label="http",
            command=command,
            world=None,
            report=report,
            slots={HTTP: CONCURRENCY},
            environment={name: os.environ[name] for name in PASSED_ON if name in os.environ},
        )
        self._read = read
        self._secrets = secrets or Secrets()

    def lacking(self) -> Sequence[str]:
        """Say before the first request does that no host is allowed, and which secrets have no
        value (X-19)."""
        if self._manifest is None or HTTP not in self._manifest.effects:
            return []
        problems = [] if self._allows_any else [f"{HTTP}: no host is allowed (--allow-http HOST)"]
        secrets = tuple(self._manifest.secrets.values())
        return [*problems, *without_value(secrets, self._secrets.value)]

    def prepare(self, task: Task) -> Enclosed | AttemptFailure:
        """The body, if it is a blob, and the secrets that headers name."""
        params: Any = decode_record(task.params)
        blobs: dict[str, bytes] = {}
        ref = params["body_ref"]
        if ref is not None:
            body = self._body(ref)
            if isinstance(body, AttemptFailure):
                return body
            blobs[ref] = body
        names = _secret_names(params)
        try:
            secrets = tuple(self._secret(name, task.workflow) for name in names)
        except SecretProblem as problem:
            return secret_failure(problem)
        return Enclosed(blobs=blobs, secrets=secrets)

    def still_lacks(self, task: Task, halted: Halted) -> bool:
        if halted.code == NOT_ALLOWED:
            return not self._allows_any
        if halted.code not in (UNAVAILABLE, MISMATCH):
            return False
        prepared = self.prepare(task)
        return isinstance(prepared, AttemptFailure) and (prepared.code, prepared.message) == (
            halted.code,
            halted.problem,
        )

    def finish(self, task: Task, outcome: Outcome) -> Outcome:
        return in_their_form(task.params, outcome) if task.abi == AGENTOS else outcome

    def _body(self, ref: str) -> bytes | AttemptFailure:
        try:
            data = self._read(blob_of(ref, self._read))
        except (Damage, ValueProblem) as error:
            return AttemptFailure(code=BLOB_MISSING, message=f"body_ref: {error}", retryable=False)
        if len(data) > REQUEST_BYTES_MAX:
            return AttemptFailure(
                code=BLOB_TOO_LARGE,
                message=f"body_ref: expected at most {REQUEST_BYTES_MAX} bytes, found {len(data)}",
                retryable=False,
            )
        return data

    def _secret(self, name: str, workflow: str) -> SecretValue:
        secrets = {} if self._manifest is None else self._manifest.secrets
        secret = permitted(secrets, name, workflow)
        return SecretValue(name=name, value=self._secrets.value(secret), hosts=secret.hosts)


def _secret_names(params: Mapping[str, Any]) -> list[str]:
    names = {
        secret_name(header["$value"]["alias"], header["$value"]["version"])
        for header in params["headers"].values()
        if header["$tag"] != "literal"
    }
    return sorted(names)
