"""The portal, but after its first send it waits to be killed: the event is there, the receipt not.

The file that ``SENT_FILE`` names is made then; if it is there already, nothing waits.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aos.effects.portal import open_destinations
from aos.effects.portal import send as send_event
from aos.worker import EffectContext, Executors, effect


@effect("sys/portal.send@1", timeout_s=60, attempts=100, backoff_ms=300, backoff_cap_ms=1_000)
async def send(params: Mapping[str, Any], ctx: EffectContext) -> dict[str, Any]:
    receipt = await send_event(params, ctx)
    if is_first(receipt["message_id"]):
        await asyncio.sleep(60)
    return receipt


def is_first(message: str) -> bool:
    """Make the file, unless it is there."""
    marker = Path(os.environ["SENT_FILE"])
    if marker.exists():
        return False
    marker.write_text(message)
    return True


portal = Executors("portal", (send,), setup=open_destinations)
