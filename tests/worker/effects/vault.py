"""Effect functions with sealed params, each doing what ``what`` says; for test_sealed_calls.py."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from aos.worker import EffectContext, EffectFailed, Executors, NotConfigured, effect


@effect("test/vault@1", attempts=2, backoff_ms=1)
def vault(params: Any, ctx: EffectContext) -> Any:
    """Take any plaintext, and leak it in the way that ``what`` names."""
    card = params["card"]
    match params["what"]:
        case "type":
            params["card"] = "changed"  # the params are this attempt's own
            return {"said": type(card).__name__, "token": None}
        case "seal":
            return {"said": "ok", "token": {"number": card}}
        case "seal itself":
            return {"said": "ok", "token": ctx.seal(card, path="$.x")}
        case "twice":
            params["card"] = "changed"
            if ctx.attempt == 1:
                raise ConnectionError("away")
            return {"said": str(len(card)), "token": card}
        case "unseal":
            again = ctx.unseal(ctx.seal(card))
            return {"said": str(again == card), "token": None}
        case "return":
            return {"said": f"the card {card}", "token": None}
        case "misfit":
            return {"said": card, "extra": 5}
        case "no value":
            return {"said": "ok", "token": {1.5: card}}
        case "raise":
            raise ValueError(f"cannot use {card}")
        case "raise bare":
            raise ValueError(f"cannot use {card.replace(' ', '')}")
        case "raise a part":
            raise ValueError(f"cannot use {card[:9]}…")
        case "raise short":
            raise ValueError(f"cannot use code {card['code']}")
        case "fail":
            raise EffectFailed("declined", f"the bank says: {card} is unknown")
        case "lacks":
            raise NotConfigured("no_account", f"no account for {card}")
        case "print":
            sys.stdout.write(f"first {card}\n")
            logging.getLogger("vault").warning("logged %s", card)
            return {"said": "printed", "token": None}
        case "progress":
            ctx.progress("card", card)
            ctx.progress("sealed", ctx.seal(card))
            return {"said": "told", "token": None}
        case what:
            return {"said": what, "token": None}


keyed = Executors("vault", [vault], keyring=os.environ.get("VAULT_KEYRING", "vault.keyring"))
bare = Executors("vault", [vault])
