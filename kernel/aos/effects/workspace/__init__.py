"""The effects of AIR 2 on trees of files: ``--executors workspace``
(spec/agentos.md, AG-51 to AG-53).

A tree is stored as blobs of the world, one for each folder. Writing makes a new root and changes no
old one, so the answer is a function of the params and the blobs.
"""

from __future__ import annotations

from aos.effects.workspace.effects import workspace

__all__ = ["workspace"]
