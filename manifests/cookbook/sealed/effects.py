"""The executors of the payments: a vault that keeps cards, and a bank that charges them.

    aos run --executors manifests/cookbook/sealed/effects.py:cards    with CARDS_KEYRING set

CARDS_KEYRING names the keyring with which the card numbers are sealed. CARDS_BOOKS names a file:
one JSON line for each charge. A number with a wrong check digit is no card, and the card
4000 0000 0000 0002 is declined.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Final

from aos.worker import EffectContext, EffectFailed, Executors, effect

Plain = dict[str, Any]

DECLINED: Final = "4000000000000002"
LAST: Final = 4


@effect("card/keep@1")
def keep(params: Plain, _ctx: EffectContext) -> Plain:
    """Keep a card. `params["card"]` is the plaintext; the worker seals the token on its way out."""
    number = str(params["card"]).replace(" ", "")
    if not _is_card(number):
        # The worker withholds this text: it has the number in it.
        raise EffectFailed("card_invalid", f"{number} is not the number of a card")
    token = "tok-" + hashlib.sha256(f"vault {number}".encode()).hexdigest()[:24]
    if number == DECLINED:
        token = "tok-declined"  # noqa: S105  # no secret
    return {"token": token, "last_digits": number[-LAST:]}


@effect("card/charge@1")
def charge(params: Plain, ctx: EffectContext) -> Plain:
    """Charge a card once for each idempotency key."""
    if params["token"] == "tok-declined":  # noqa: S105  # no secret
        raise EffectFailed("card_declined", f"the bank declines {params['token']}")
    reference = f"charge-{ctx.idempotency_key[-8:]}"
    lines = _books().read_text().splitlines() if _books().exists() else []
    if not any(json.loads(line)["reference"] == reference for line in lines):
        line = {"reference": reference, "order": params["order_id"], "cents": params["cents"]}
        with _books().open("a") as file:
            file.write(json.dumps(line) + "\n")
    return {"reference": reference}


def _is_card(number: str) -> bool:
    """Whether the check digit is valid (Luhn)."""
    if not number.isdecimal() or len(number) < 12:
        return False
    digits = [int(each) for each in reversed(number)]
    doubled = [sum(divmod(2 * each, 10)) for each in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _books() -> Path:
    return Path(os.environ.get("CARDS_BOOKS", "charges.jsonl"))


cards = Executors("cards", [keep, charge], keyring=os.environ.get("CARDS_KEYRING", "cards.keyring"))
