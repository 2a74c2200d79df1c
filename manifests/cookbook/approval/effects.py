"""The executor of the mails: it writes to the persons who may decide.

    aos run --executors manifests/cookbook/approval/effects.py:desk

The decision is not the result of the effect. It is an event: the web page or the mail
program in which the person decides sends it.
"""

from __future__ import annotations

from typing import Any

from aos.worker import EffectContext, Executors, effect

Plain = dict[str, Any]


@effect("approval/ask@1")
async def ask(params: Plain, ctx: EffectContext) -> Plain:
    """Print the mail. The key lets a mail service recognize a mail that it has sent before."""
    late = ", and no one has decided in time" if params["is_escalation"] else ""
    print(f"to {params['person']}: {params['what']} waits for a decision{late}")  # noqa: T201
    return {"message_id": f"mail-{ctx.idempotency_key[-8:]}"}


desk = Executors("desk", [ask])
