"""The executor of the mails: it writes to a subscriber whose charge was refused.

    aos run --allow-http 127.0.0.1:17471 --executors manifests/cookbook/billing/effects.py:mail

The charges themselves are HTTP requests, which `aos run` sends; `bank.py` answers them.
"""

from __future__ import annotations

from typing import Any

from aos.worker import EffectContext, Executors, effect

Plain = dict[str, Any]

TEXTS = {
    False: "we could not charge your card and will try again in three days",
    True: "we could not charge your card; your subscription has ended",
}


@effect("billing/notify@1")
async def notify(params: Plain, ctx: EffectContext) -> Plain:
    """Print the mail. The key lets a mail service recognize a mail that it has sent before."""
    print(f"to {params['subscription_id']}: {TEXTS[params['is_last']]}")  # noqa: T201
    return {"message_id": f"mail-{ctx.idempotency_key[-8:]}"}


mail = Executors("mail", [notify])
