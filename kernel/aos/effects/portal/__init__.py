"""Events to other worlds of this machine: ``--executors portal``
(spec/agentos.md, AG-85).

The effect ``sys/portal.send@1``, through the socket of the world that gets the event.
"""

from __future__ import annotations

from aos.effects.portal.effects import portal

__all__ = ["portal"]
