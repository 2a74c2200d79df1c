"""The trial of a manifest on a world of this machine, in a child process (spec/host.md, H-71c): for
the front of a node, and for an operator who has only the address of a replicated world.

    operator ──signed trial, modules──▶ owner ──▶ child reads the store ──▶ report ──▶ operator
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from nacl.signing import SigningKey

from aos.core.journal.inputs import STRICT
from aos.core.journal.records import Principal
from aos.core.journal.signing import is_signed
from aos.dataclass_methods import QUICK_PROGRAM
from aos.errors import Refused, Unavailable
from aos.host.apply.commands import principal_of
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash

COMMAND: Final = (sys.executable, *QUICK_PROGRAM, "aos.host.apply.trial_process")
TRIAL_S: Final = 120.0
"""Seconds that one trial may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestTrial:
    """An operator's request to try the manifest ``document`` in a mode. ``serial`` is the number of
    the world's next manifest, so the signature ends with that."""

    document: bytes
    mode: str = STRICT
    leave_cells: bool = False
    principal: str = ""
    serial: int = 0
    signature: bytes = b""

    def message(self, world: Hash) -> bytes:
        """The bytes that the operator signs. No command has such a signature."""
        document = content_hash(self.document)
        return encode(["aos/try/1", world, self.serial, document, self.mode, self.leave_cells])

    def signed(
        self, world: Hash, serial: int, operators: Iterable[Principal], key: SigningKey
    ) -> Self:
        """Return the trial with the signature of the operator who owns the key. Raises: Refused: No
        operator owns it."""
        principal = principal_of(key, operators, action="try a manifest on")
        unsigned = replace(self, principal=principal, serial=serial)
        return replace(unsigned, signature=key.sign(unsigned.message(world)).signature)

    def check(self, world: Hash, serial: int, operators: Iterable[Principal]) -> None:
        """Check the signature. Raises: Refused: No operator has signed it for this number."""
        keys = {operator.name: operator.key for operator in operators}
        key = keys.get(self.principal, b"")
        if self.serial != serial or not is_signed(self.message(world), self.signature, key):
            raise Refused(
                "the trial of a manifest is not signed by an operator of this world, or another "
                "manifest has come into force since",
                hint="run the command again, with the key of an operator: --operator-key FILE",
            )


async def run_trial(
    world: Path,
    document: bytes,
    modules: Mapping[Hash, bytes],
    options: Mapping[str, object],
    *,
    seconds: float = TRIAL_S,
) -> dict[str, Any]:
    """Run the child process on the folder ``world``; return its document, as ``trial_process`` has
    it. ``options`` are the fields of its first line next to ``lengths``.

    Raises:
        TimeoutError: It took too long.
        Unavailable: It ended unexpectedly.
    """
    parts = [document, *modules.values()]
    head = json.dumps({"lengths": [len(part) for part in parts], **options}).encode()
    process = await asyncio.create_subprocess_exec(
        *COMMAND, str(world), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(seconds):
            data, _ = await process.communicate(head + b"\n" + b"".join(parts))
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.shield(process.wait())
    if process.returncode:
        raise Unavailable("the process that tries the manifest ended unexpectedly")
    outcome: dict[str, Any] = json.loads(data)
    return outcome
