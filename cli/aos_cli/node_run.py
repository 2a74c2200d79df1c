"""What ``aos node`` runs a world with: the same options for one world, and for each of many."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from aos.dataclass_methods import QUICK_PROGRAM
from aos.fastcore.core_kind import CoreKind
from aos.host.executors.task import Report
from aos.host.folder.folder import read_key
from aos.host.folder.secrets import Secrets
from aos.host.process import NO_REPLICA_OPTIONS, ReplicaOptions
from aos.host.world.snapshots import Every
from aos.node.node_settings import read_settings
from aos.node.running import NodeOptions
from aos.worker.host_root import host_environment, with_machine
from aos_cli.output import note
from aos_cli.run_process import standard_executors

FRONT: Final = (sys.executable, *QUICK_PROGRAM, "aos.page.node_page")
"""The front with the page. It is a process of its own: the kernel process imports none of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """The options of ``aos node`` that concern a world, and not an address."""

    operator_key: Path | None
    executors: tuple[str, ...]
    workers: tuple[str, ...]
    allow_http: tuple[str, ...]
    secrets: Path | None
    host_root: Path | None
    snapshot_records: int
    cell_cache_size: int
    core: CoreKind | None
    has_neighbours: bool = False
    """Whether it exchanges events with its neighbours, as each of many worlds does."""
    replica: ReplicaOptions = NO_REPLICA_OPTIONS

    def document(self) -> dict[str, Any]:
        """The options as JSON, for the process of a world."""
        return {
            "operator_key": _text(self.operator_key),
            "executors": list(self.executors),
            "workers": list(self.workers),
            "allow_http": list(self.allow_http),
            "secrets": _text(self.secrets),
            "host_root": _text(self.host_root),
            "snapshot_records": self.snapshot_records,
            "cell_cache_size": self.cell_cache_size,
            "core": None if self.core is None else self.core.value,
            "has_neighbours": self.has_neighbours,
            "lease_ns": self.replica.lease_ns,
            "credentials": _text(self.replica.credentials),
            "has_reference": self.replica.has_reference,
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read what ``document`` wrote. Raises KeyError or ValueError for anything else."""
        core = document["core"]
        return cls(
            operator_key=_path(document["operator_key"]),
            executors=tuple(document["executors"]),
            workers=tuple(document["workers"]),
            allow_http=tuple(document["allow_http"]),
            secrets=_path(document["secrets"]),
            host_root=_path(document["host_root"]),
            snapshot_records=document["snapshot_records"],
            cell_cache_size=document["cell_cache_size"],
            core=None if core is None else CoreKind(core),
            has_neighbours=document["has_neighbours"],
            replica=ReplicaOptions(
                lease_ns=document["lease_ns"],
                credentials=_path(document["credentials"]),
                has_reference=document["has_reference"],
            ),
        )

    def options(self, world: Path, report: Report = note) -> NodeOptions:
        """The options of a node that runs ``world``, also with what its ``node.toml`` names.

        Raises:
            BadUsage, Refused: A file or an option is not valid.
        """
        settings = read_settings(world)
        values = Secrets(self.secrets)
        specs = with_machine([*self.executors, *settings.run.executors], self.host_root)
        environment = host_environment(self.host_root, world)
        hosts = [*self.allow_http, *settings.run.allow_http]
        return NodeOptions(
            operator_key=None if self.operator_key is None else read_key(self.operator_key),
            executors=lambda read, world_id: standard_executors(
                read,
                world_id,
                specs,
                hosts,
                values,
                limits=settings.limits,
                environment=environment,
                neighbours_of=world if self.has_neighbours else None,
                credentials=self.replica.credentials,
            ),
            has_neighbours=self.has_neighbours,
            workers=(*self.workers, *settings.run.workers),
            front=FRONT,
            snapshot_every=Every(records=self.snapshot_records),
            cells_kept=self.cell_cache_size,
            core=self.core,
            replica=self.replica,
            report=report,
        )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
