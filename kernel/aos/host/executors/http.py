"""``sys/http.request@1`` in a process of its own, which gets its blobs from here (X-60 to X-66)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import cbor2

from aos.core.ports import BlobReader
from aos.errors import Damage
from aos.host.executors.blob import BLOB_MISSING, BLOB_TOO_LARGE
from aos.host.executors.child import ChildExecutor
from aos.host.executors.task import Report, Task, report_to_stderr
from aos.values.digests import parse_hash
from aos.values.errors import ValueProblem
from aos.worker.allow import AllowList
from aos.worker.failure import Failure
from aos.worker.limits import CONCURRENCY, HTTP, REQUEST_BYTES_MAX, Limits

DEFAULT: Final = Limits()


class HttpExecutor(ChildExecutor):
    """``allow`` is the hosts that may be reached (``aos.worker.allow``), by default none.

    ``read`` reads the store for ``body_ref``. The process is started for the first request.

    Raises:
        BadUsage: An entry of ``allow`` is not one.
    """

    def __init__(
        self,
        allow: Sequence[str] = (),
        *,
        read: BlobReader,
        limits: Limits = DEFAULT,
        report: Report = report_to_stderr,
    ) -> None:
        AllowList(allow)
        command = [sys.executable, "-m", "aos.worker.http"]
        command += [f"--allow={entry}" for entry in allow]
        command += [
            f"--response-bytes-max={limits.response_bytes_max}",
            f"--inline-bytes-max={limits.inline_bytes_max}",
        ]
        super().__init__(
            label="http", command=command, world=None, report=report, slots={HTTP: CONCURRENCY}
        )
        self._read = read

    def prepare(self, task: Task) -> Sequence[bytes] | Failure:
        # What is published was read at the record gate.
        params: dict[str, Any] = cbor2.loads(task.params)
        ref = params["body_ref"]
        if ref is None:
            return ()
        try:
            data = self._read(parse_hash(ref))
        except (Damage, ValueProblem) as error:
            return Failure(code=BLOB_MISSING, message=f"body_ref: {error}", retryable=False)
        if len(data) > REQUEST_BYTES_MAX:
            return Failure(
                code=BLOB_TOO_LARGE,
                message=f"body_ref: expected at most {REQUEST_BYTES_MAX} bytes, found {len(data)}",
                retryable=False,
            )
        return (data,)
