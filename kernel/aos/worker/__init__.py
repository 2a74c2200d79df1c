"""The API for authors of effect functions.

``from aos.worker import EffectContext, EffectFailed, Executors, NotConfigured, effect``. The
functions run in a separate process, so that they can neither block nor crash the node
(spec/executors.md).
"""

from __future__ import annotations

from aos.worker.api import EffectContext, EffectFunction, Executors, effect
from aos.worker.failure import EffectFailed, NotConfigured

__all__ = [
    "EffectContext",
    "EffectFailed",
    "EffectFunction",
    "Executors",
    "NotConfigured",
    "effect",
]
