"""The executor of the quotes: it asks one supplier for a price.

    aos run --executors manifests/cookbook/fan_in/effects.py:suppliers

`closed` has shut down, `asleep` never answers; the others want a cent for each letter of the item
and of their own name.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aos.worker import EffectContext, EffectFailed, Executors, effect

Plain = dict[str, Any]


@effect("quote/supplier.ask@1")
async def ask(params: Plain, _ctx: EffectContext) -> Plain:
    if params["supplier"] == "closed":
        raise EffectFailed("closed", "this supplier has shut down")
    if params["supplier"] == "asleep":
        await asyncio.sleep(3600)
    return {"cents": len(params["item"]) + len(params["supplier"])}


suppliers = Executors("suppliers", [ask])
