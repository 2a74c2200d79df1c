"""Answer requests to try a manifest (spec/host.md, H-71c)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aos.core.journal.inputs import STRICT
from aos.core.journal.records import Principal
from aos.core.journal.vocabulary import MODES, word_of
from aos.errors import BadUsage, Refused, either
from aos.host.apply.manifest_trial import TRIAL_S, ManifestTrial, run_trial
from aos.host.door.protocol import BLOCKERS_MAX, SIGNED_FIELDS
from aos.message_fields import Message, field
from aos.values.cbor import Value
from aos.values.digests import Hash

REPORT_BYTES_MAX: Final = 16 * 1024 * 1024
"""The longest report that is sent to a client."""


class TrialRequests:
    """Tries manifests on the world in the folder ``path``, one at a time. Used from one event loop.
    ``path`` is None in a process without a folder, which tries nothing."""

    def __init__(self, path: Path | None, world: Hash, operators: Sequence[Principal]) -> None:
        self._path = path
        self._world = world
        self._operators = operators
        self._turn = asyncio.Lock()

    async def answer(
        self, request: Message, modules: Mapping[Hash, bytes], serial: int
    ) -> Mapping[str, Value]:
        """Try the manifest of a request, and answer with the report. A request without a signature
        is one of a client that may use the socket of this process. ``serial`` is the number of the
        world's next manifest.

        Raises:
            BadUsage: A field is malformed, or this process has no folder.
            Refused: The signature is not valid, the manifest or a module is refused, or the trial
                took too long.
            Unavailable: The child process ended.
        """
        trial = _read_trial(request)
        if SIGNED_FIELDS & request.keys():
            trial.check(self._world, serial, self._operators)
        if self._path is None:
            raise BadUsage("this process tries no manifest")
        options = {"mode": trial.mode, "leave_cells": trial.leave_cells, "show": 0}
        async with self._turn:
            try:
                report = await run_trial(self._path, trial.document, modules, {"report": options})
            except TimeoutError:
                raise Refused(  # the bus would ask for it again
                    f"the manifest was not tried within {TRIAL_S:g} s",
                    hint="apply it in the folder of a node: aos apply PATH --world DIR",
                ) from None
        if "problem" in report:
            raise Refused(report["problem"])
        report["blockers"] = report["blockers"][:BLOCKERS_MAX]  # its groups have the whole counts
        data = json.dumps(report).encode()
        if len(data) > REPORT_BYTES_MAX:
            raise Refused(
                "the report of the trial is too long",
                expected=f"at most {REPORT_BYTES_MAX} bytes",
                actual=str(len(data)),
                hint="apply it in the folder of a node: aos apply PATH --world DIR",
            )
        return {"report": data}


def _read_trial(request: Message) -> ManifestTrial:
    """Raises: BadUsage: A field is malformed."""
    complete = {
        "mode": STRICT, "leave_cells": False, "principal": "", "serial": 0, "signature": b"",
        **request,
    }  # fmt: skip
    mode = field(complete, "mode", str)
    if word_of(MODES, mode) is None:
        raise BadUsage("mode", expected=either(MODES), actual=f"{mode!r:.40}")
    return ManifestTrial(
        document=field(complete, "document", bytes),
        mode=mode,
        leave_cells=field(complete, "leave_cells", bool),
        principal=field(complete, "principal", str),
        serial=field(complete, "serial", int),
        signature=field(complete, "signature", bytes),
    )
