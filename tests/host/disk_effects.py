"""An executor that waits until a test lets it go: ``aos run --executors disk_effects.py:gated``.

In the folder ``DISK_FOLDER`` it appends the idempotency key of each call to ``asked``, and answers
once there is a file ``open``.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from aos.worker import EffectContext, Executors, effect


@effect("host/echo@1")
async def echo(params: dict[str, Any], ctx: EffectContext) -> dict[str, Any]:
    folder = Path(os.environ["DISK_FOLDER"])
    with (folder / "asked").open("a") as asked:
        asked.write(ctx.idempotency_key + "\n")
    while not (folder / "open").exists():  # noqa: ASYNC110  # another process makes it
        await asyncio.sleep(0.02)
    return params


gated = Executors("gated", [echo])
