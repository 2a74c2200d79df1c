"""``aos cluster check``: the findings about servers and their worlds (C-117b; spec/cluster.md,
CL-174 to CL-178)."""

from __future__ import annotations

from typing import Annotated

from aos.host.cluster.checking import ClusterCheck
from aos.host.cluster.cluster_documents import report_document
from aos.read.lens.words import count
from aos_cli.cluster_target import ClusterAddress, Credentials, cluster_target
from aos_cli.options import DEFAULT_WORLD, Json, World, option
from aos_cli.output import line, note, print_json


def check(
    address: ClusterAddress = None,
    *,
    monitor: Annotated[
        list[str] | None,
        option(
            "URL",
            "Address of a server for monitoring, such as http://10.0.0.1:8222; once for each "
            "server (default: those of the folder).",
        ),
    ] = None,
    creds: Credentials = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    target = cluster_target(address, world, creds)
    replica = None if target.folder is None else target.folder.replica
    report = ClusterCheck(
        address=target.address,
        access=target.access,
        monitors=monitor or ([] if replica is None else replica.monitors),
        folder=target.folder,
        unverified_durability=replica is not None and replica.unverified_durability,
    ).run()
    if json:
        print_json(report_document(report))
        return report.exit_code
    for finding in report.findings:
        line(f"{finding.kind.value}: {finding.text}")
    for name in report.unchecked:
        note(f"world {name}: signatures were not checked; name the folder of a node with --world")
    note(f"{count(len(report.worlds), 'world')}, {count(len(report.findings), 'finding')}")
    return report.exit_code
