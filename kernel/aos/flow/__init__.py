"""Write flows in Python (spec/python-flows.md), and read the state and the history of a flow: a
workflow written as one async function (spec/flow.md).

``from aos.flow import Cx, effect, flow, schema`` is the interface for authors. Its modules load
when one of its names is first used, because most readers of histories need none.

Everything here is pure: bytes and a manifest in, typed views out.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aos.flow.declaring import Break as Break
    from aos.flow.declaring import Continue as Continue
    from aos.flow.declaring import Nat as Nat
    from aos.flow.declaring import Retry as Retry
    from aos.flow.declaring import by as by
    from aos.flow.declaring import effect as effect
    from aos.flow.declaring import flow as flow
    from aos.flow.declaring import other_flow as other_flow
    from aos.flow.declaring import schema as schema
    from aos.flow.flow_context import Cx as Cx
    from aos.flow.flow_context import Local as Local
    from aos.flow.flow_error import Canceled as Canceled
    from aos.flow.flow_error import Critical as Critical
    from aos.flow.flow_error import Exhausted as Exhausted
    from aos.flow.flow_error import FlowError as FlowError
    from aos.flow.flow_error import JoinFailed as JoinFailed
    from aos.flow.flow_error import RaceFailed as RaceFailed
    from aos.flow.flow_error import Rollback as Rollback
    from aos.flow.flow_error import Timeout as Timeout

_HOMES = {
    "declaring": (
        "Break", "Continue", "Nat", "Retry", "by", "effect", "flow", "other_flow", "schema",
    ),
    "flow_context": ("Cx", "Local"),
    "flow_error": (
        "Canceled", "Critical", "Exhausted", "FlowError", "JoinFailed", "RaceFailed", "Rollback",
        "Timeout",
    ),
}  # fmt: skip


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"aos.flow.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
