"""Read requests about linear instances and their plans."""

from __future__ import annotations

from typing import Any, Final

from aos.core.state.state import State
from aos.manifest.names import LINEAR
from aos.read.operations.across import MergedRows, OneOf, Same, Summed, by_field
from aos.read.operations.operation import (
    AT,
    GROUP_BY,
    LIMITED,
    NAME,
    WHERE,
    Parameter,
    Query,
    ReadOperation,
    is_always_long,
)
from aos.read.views import count_view, linear_view
from aos.read.views.record_view import Document
from aos.read.views.view import View

FILTERS: Final = (
    Parameter(
        name="status", help="Only instances of this status.", metavar="STATUS",
        schema={"type": "string", "enum": list(linear_view.STATUSES)},
    ),
    Parameter(name="plan", schema=NAME, help="Only instances of this plan.", metavar="TYPE"),
    Parameter(
        name="step", schema=NAME, help="Only with this current plan step.", metavar="STEP"
    ),
    WHERE,
)  # fmt: skip


def _filters(query: Query) -> dict[str, Any]:
    names = (parameter.name for parameter in FILTERS)
    return {name: query.get(name) for name in names} | {"aliases": query.get("aliases", {})}


def _instances(view: View, query: Query) -> Document:
    return linear_view.instances(
        view, limit=query["limit"], offset=query["offset"], **_filters(query)
    )


def _counts(view: View, query: Query) -> Document:
    return count_view.linear_counts(view, group_by=query.get("group_by"), **_filters(query))


def _searched(_state: State, _query: Query) -> str:
    return LINEAR


READ_PLANS: Final = ReadOperation(
    name="read_plans", path="/v1/linear/plans", command="linear plans",
    summary="List the plans of the manifest in force.",
    answers=("PlansDocument",), across=Same(), document=lambda view, _: linear_view.plans(view),
)  # fmt: skip

READ_LINEAR_INSTANCES: Final = ReadOperation(
    name="read_linear_instances", path="/v1/linear/instances", command="linear list",
    summary="List linear instances, by id.", parameters=(*FILTERS, *LIMITED, AT),
    answers=("LinearInstancesDocument",), document=_instances,
    across=MergedRows("instances", by_field("instance")),
    is_long=is_always_long, reads_index=True, searched=_searched,
)  # fmt: skip

READ_LINEAR_COUNTS: Final = ReadOperation(
    name="read_linear_counts", path="/v1/linear/instances/count", command="linear list --count",
    summary="Count the linear instances that a list would have, in all and by the values of a "
    "name.",
    parameters=(*FILTERS, GROUP_BY, AT),
    answers=("CountsDocument",), document=_counts, across=Summed(),
    is_long=is_always_long, reads_index=True, searched=_searched,
)  # fmt: skip

READ_LINEAR_INSTANCE: Final = ReadOperation(
    name="read_linear_instance", path="/v1/linear/instance", command="linear show",
    summary="Show a linear instance: all rows of its plan, its context, and its next event.",
    parameters=(
        Parameter(
            name="instance", schema=NAME, help="Its id.", required=True, metavar="INSTANCE",
            is_argument=True, command_help="The id of the instance.",
        ),
        AT,
    ),
    answers=("LinearInstanceDocument",), across=OneOf(),
    document=lambda view, query: linear_view.instance(view, query["instance"]),
)  # fmt: skip
