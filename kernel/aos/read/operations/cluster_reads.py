"""Read requests about the servers and the nodes of a replicated world, which the process of a node
carries out: only it has the credentials of the servers (spec/cluster.md, CL-320, CL-321)."""

from __future__ import annotations

from typing import Final

from aos.read.operations.operation import FLAG, Parameter, ReadOperation

READ_CLUSTER: Final = ReadOperation(
    name="read_cluster", path="/v1/cluster", command="cluster status",
    summary="Show the cluster of a replicated world: nodes, owner, log, lag and members.",
    parameters=(
        Parameter(
            name="all", schema=FLAG,
            help="All worlds of the servers, not only that of this node.",
        ),
    ),
    answers=("ClusterDocument",),
)  # fmt: skip

READ_CLUSTER_CHECK: Final = ReadOperation(
    name="read_cluster_check", path="/v1/cluster/check", command="cluster check",
    summary="Check the servers of a replicated world: findings, each with what to change.",
    answers=("ClusterCheckDocument",),
)  # fmt: skip
