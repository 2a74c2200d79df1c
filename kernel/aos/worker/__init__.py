"""For people who write effects.

``from aos.worker import EffectContext, EffectFailed, Executors, effect``. The functions run in a
process of their own, so that they neither stall nor end the node (spec/executors.md).
"""

from __future__ import annotations

from aos.worker.api import EffectContext, EffectFunction, Executors, effect
from aos.worker.failure import EffectFailed

__all__ = ["EffectContext", "EffectFailed", "EffectFunction", "Executors", "effect"]
