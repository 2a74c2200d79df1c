"""Try the flows in progress on the code of a manifest before it is applied (spec/host.md, H-77)."""

from __future__ import annotations

from pathlib import Path

from aos.core.decide.flow_gate import NO_FLOWS, FlowGate, flow_gate, taken_over
from aos.host.apply.apply import check_modules
from aos.host.apply.migrator import migrator_with
from aos.host.folder.reader import open_reader
from aos.host.folder.restore import Progress
from aos.manifest.load import Loaded
from aos.sandbox.stack import run_on_big_stack


def gate_flows(path: Path, loaded: Loaded, *, progress: Progress | None = None) -> FlowGate:
    """Try every flow in progress of the world at ``path`` that ``loaded`` would take over.

    Reads the durable world, and needs neither the lock nor the process that runs it. Without a flow
    in the manifest, the world is not opened.

    Raises:
        Refused: A module is refused.
        Damage: A stored state cannot be read.
    """
    flow_statuses = taken_over(loaded.effective)
    if not flow_statuses:
        return NO_FLOWS
    with open_reader(path, progress=progress) as reader:
        if reader.manifest is None:
            return NO_FLOWS
        check_modules(loaded.effective, loaded.modules, in_force=reader.manifest)

        def run() -> FlowGate:
            read = reader.store.blob
            migrator = migrator_with(read, loaded.modules)
            try:
                return flow_gate(
                    reader.state, loaded.effective, flow_statuses, runner=migrator, read=read
                )
            finally:
                migrator.close()

        return run_on_big_stack(run)
