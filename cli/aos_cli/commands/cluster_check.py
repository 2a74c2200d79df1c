"""``aos cluster check``: the findings about servers and their worlds (C-117b; spec/cluster.md,
CL-174 to CL-178)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from aos.host.cluster.checking import ClusterCheck
from aos.host.cluster.cluster_documents import report_document
from aos.host.cluster.findings import exit_code_of
from aos.read.lens.words import count
from aos.read.operations.cluster_reads import READ_CLUSTER_CHECK
from aos_cli.cluster_target import (
    ClusterAddress,
    Credentials,
    check_one_source,
    cluster_target,
)
from aos_cli.options import DEFAULT_WORLD, Json, NodeUrl, World, option
from aos_cli.output import line, note, print_json
from aos_cli.world_reading import NodeReading


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
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> int:
    if node is not None:
        check_one_source(address, node, creds)
        return _shown(NodeReading(node).document(READ_CLUSTER_CHECK, {}), json=json)
    target = cluster_target(address, world, creds)
    replica = None if target.folder is None else target.folder.replica
    report = ClusterCheck(
        address=target.address,
        access=target.access,
        monitors=monitor or ([] if replica is None else replica.monitors),
        folder=target.folder,
        unverified_durability=replica is not None and replica.unverified_durability,
    ).run()
    return _shown(report_document(report), json=json)


def _shown(document: Mapping[str, Any], *, json: bool) -> int:
    """Print the findings; return the exit code (CL-177)."""
    findings = document["findings"]
    if json:
        print_json(document)
    else:
        for finding in findings:
            line(f"{finding['kind']}: {finding['text']}")
        for name in document["unchecked"]:
            note(
                f"world {name}: signatures were not checked; name the folder of a node with --world"
            )
        note(f"{count(len(document['worlds']), 'world')}, {count(len(findings), 'finding')}")
    return exit_code_of(finding["exit_code"] for finding in findings)
