"""The API for authors of effect functions.

``from aos.worker import EffectContext, EffectFailed, Executors, NotConfigured, effect``, and for
plan steps ``Dead, Retry, StepContext, Waiting, step``. The functions run in a separate process, so
that they can neither block nor crash the node (spec/executors.md, spec/linear.md).
"""

from __future__ import annotations

from aos.worker.api import EffectContext, EffectFunction, effect
from aos.worker.executors import Executors
from aos.worker.failure import EffectFailed, NotConfigured
from aos.worker.step_api import Dead, Retry, StepContext, StepFunction, Waiting, WokenBy, step

__all__ = [
    "Dead",
    "EffectContext",
    "EffectFailed",
    "EffectFunction",
    "Executors",
    "NotConfigured",
    "Retry",
    "StepContext",
    "StepFunction",
    "Waiting",
    "WokenBy",
    "effect",
    "step",
]
