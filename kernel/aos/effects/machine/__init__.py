"""Commands and files of this machine, in one folder: ``aos run --host-root DIR`` (AG-60 to AG-121).

The effects ``sys/host.…`` of AIR 2, for workflows of every ABI (spec/agentos.md).
"""

from __future__ import annotations

from aos.effects.machine.effects import machine

__all__ = ["machine"]
