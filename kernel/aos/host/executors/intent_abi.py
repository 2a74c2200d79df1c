"""(open intent) -> the ABI of the module that asked (spec/agentos.md AG-26).

An instance may be pinned under another manifest than the one in force, so where those that the
world can run under do not agree, the step that asked tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from aos.core.journal.frame import Frame
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Manifest, Step
from aos.core.state.cell import OpenIntent
from aos.errors import Damage, Pruned
from aos.manifest.effective import Effective
from aos.manifest.forms import ABI_DEFAULT
from aos.values.digests import Hash


class _RecordSource(Protocol):
    """The part of a store that is read here."""

    def frame_at(self, seq: int) -> Frame | None: ...

    def blob(self, hash: Hash) -> bytes: ...


class IntentAbis:
    """Finds the ABI of each intent's module. ``add`` every manifest that comes into force."""

    def __init__(self, store: _RecordSource) -> None:
        self._store = store
        self._by_workflow: dict[str, dict[str, None]] = {}  # its ABIs, the newest last

    def start(self, manifests: Iterable[Effective]) -> None:
        """Add every manifest that an instance of the restored world can run under, the one in force
        last."""
        for manifest in manifests:
            self.add(manifest)

    def add(self, manifest: Effective) -> None:
        """Add a manifest that is now in force. For a workflow whose manifests differ in the ABI,
        ``of`` reads the journal from now on."""
        for name, workflow in manifest.workflows.items():
            abis = self._by_workflow.setdefault(name, {})
            abis.pop(workflow.module.abi, None)
            abis[workflow.module.abi] = None

    def of(self, intent: OpenIntent) -> str:
        """Return the ABI of the module that opened ``intent``. If the step that opened it was
        pruned, return the newest ABI of the workflow.

        Raises:
            Damage: The step, or the manifest that it ran under, cannot be read.
        """
        abis = self._by_workflow.get(intent.cell[0], {ABI_DEFAULT: None})
        if len(abis) == 1:
            return next(iter(abis))
        try:
            document = self._document(intent)
        except Pruned:
            return next(reversed(abis))
        workflow = Effective.from_document(self._store.blob(document)).workflows[intent.cell[0]]
        return workflow.module.abi

    def _document(self, intent: OpenIntent) -> Hash:
        step = self._record(intent.seq)
        under = self._record(step.under) if isinstance(step, Step) and step.under else None
        return under.document.hash if isinstance(under, Manifest) else intent.manifest

    def _record(self, seq: int) -> object:
        frame = self._store.frame_at(seq)
        if frame is None:
            raise Damage(f"record {seq} is not here")
        return from_bytes(frame.records[seq - frame.header.first])
