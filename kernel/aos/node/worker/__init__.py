"""Carry out tasks of a node elsewhere (spec/worker.md).

``from aos.node.worker import Worker``, then ``await Worker("https://node:7460", shop).run()``. The
functions are those of ``aos.worker``.
"""

from __future__ import annotations

from aos.node.worker.remote_worker import Worker

__all__ = ["Worker"]
