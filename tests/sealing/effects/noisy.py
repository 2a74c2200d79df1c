"""The effects of the cookbook's payments, by functions that say everything that they know."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from aos.worker import EffectContext, EffectFailed, Executors, effect


@effect("card/keep@1")
def keep(params: Any, ctx: EffectContext) -> Any:
    number = params["card"]
    print(f"the card is {number}")  # noqa: T201
    logging.getLogger("noisy").warning("params %r", params)
    sys.stderr.write(f"without blanks {number.replace(' ', '')}\n")
    ctx.progress("card", number)
    if number.endswith("4"):
        raise EffectFailed("card_invalid", f"{number} is no card")
    return {"token": f"token-of-{number}", "last_digits": number[-4:]}


@effect("card/charge@1", attempts=2, backoff_ms=1)
def charge(params: Any, ctx: EffectContext) -> Any:
    if ctx.attempt == 1:
        raise ConnectionError(f"the bank did not answer about {params['token']}")
    if params["cents"] == 13:
        raise ValueError(f"cannot charge {params!r}")
    return {"reference": f"charge-{params['order_id']}"}


noisy = Executors("noisy", [keep, charge], keyring=os.environ.get("CARDS_KEYRING", "x"))
