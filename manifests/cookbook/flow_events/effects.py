"""The vans of the parcel service.

    aos run --executors manifests/cookbook/flow_events/effects.py:vans

No van finds Atlantis.
"""

from __future__ import annotations

from typing import Any

from aos.worker import EffectContext, EffectFailed, Executors, effect

Plain = dict[str, Any]


@effect("parcel/van.drive@1")
async def drive(params: Plain, ctx: EffectContext) -> Plain:
    """Drive once under this key; a repeated request gets the same van."""
    if params["city"] == "Atlantis":
        raise EffectFailed("no_road", "there is no road to Atlantis")
    return {"van": f"van-{ctx.idempotency_key[-8:]}"}


vans = Executors("vans", [drive])
