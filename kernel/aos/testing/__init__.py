"""Test workflows in a world in memory, with a clock that the test moves (spec/testing.md).

    from aos.testing import World

The names below are imported on first use: pytest loads the plugin of this package in every project
of an environment, even if no test of it needs a world.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # the names below, only for type checkers
    from aos.testing.effects import Effect
    from aos.testing.governing import ProposalSeen
    from aos.testing.plain import like
    from aos.testing.play import everywhere
    from aos.testing.problems import (
        BlockerSeen,
        CellFailed,
        FaultSeen,
        InputRefused,
        WorldProblem,
    )
    from aos.testing.scripts import NEVER, After, Fail, Timeout, in_turn, response
    from aos.testing.transition import (
        Asked,
        Transition,
        answered,
        canceled,
        failed,
        frame,
        rejected,
        step,
        timed_out,
    )
    from aos.testing.views import Cell, Emitted, Flow, FlowCompensation, FlowOperation, FlowWait
    from aos.testing.world import Sent, World

_PLACES: Final = {
    "After": "scripts",
    "Asked": "transition",
    "BlockerSeen": "problems",
    "Cell": "views",
    "CellFailed": "problems",
    "Effect": "effects",
    "Emitted": "views",
    "Fail": "scripts",
    "FaultSeen": "problems",
    "Flow": "views",
    "FlowCompensation": "views",
    "FlowOperation": "views",
    "FlowWait": "views",
    "InputRefused": "problems",
    "NEVER": "scripts",
    "ProposalSeen": "governing",
    "Sent": "world",
    "Timeout": "scripts",
    "Transition": "transition",
    "World": "world",
    "WorldProblem": "problems",
    "answered": "transition",
    "canceled": "transition",
    "everywhere": "play",
    "failed": "transition",
    "frame": "transition",
    "in_turn": "scripts",
    "like": "plain",
    "rejected": "transition",
    "response": "scripts",
    "step": "transition",
    "timed_out": "transition",
}

__all__ = [
    "NEVER", "After", "Asked", "BlockerSeen", "Cell", "CellFailed", "Effect", "Emitted", "Fail",
    "FaultSeen", "Flow", "FlowCompensation", "FlowOperation", "FlowWait", "InputRefused",
    "ProposalSeen", "Sent", "Timeout", "Transition", "World", "WorldProblem", "answered",
    "canceled", "everywhere", "failed", "frame", "in_turn", "like", "rejected", "response", "step",
    "timed_out",
]  # fmt: skip


def __getattr__(name: str) -> object:
    module_name = _PLACES.get(name)
    if module_name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module_name}"), name)
