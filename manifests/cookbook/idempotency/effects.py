"""The executors of the transfers: a bank that knows idempotency keys, and one that does not.

    aos run --executors manifests/cookbook/idempotency/effects.py:banks    with BANK_BOOKS set

BANK_BOOKS names a file: one JSON line for each payment that was really made. A transfer to `slow`
is paid at once and answered after 2.5 s, so that there is time to kill the process in between.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, Final

from aos.errors import BadUsage
from aos.worker import EffectContext, Executors, effect

Plain = dict[str, Any]

SLOW: Final = "slow"
SLOW_S: Final = 2.5


@effect("bank/pay@1")
async def pay(params: Plain, ctx: EffectContext) -> Plain:
    """Pay once per idempotency key: a repeated call gets the same answer and pays nothing."""
    known = [line for line in _lines() if line["key"] == ctx.idempotency_key]
    line = known[0] if known else _book(params, key=ctx.idempotency_key)
    if not known:
        await _answer_late(params)
    return {"reference": line["reference"]}


@effect("bank/wire@1")
async def wire(params: Plain, _ctx: EffectContext) -> Plain:
    """An old interface without keys: each call is a payment. The effect is `at_most_once`."""
    line = _book(params, key="")
    await _answer_late(params)
    return {"reference": line["reference"]}


@effect("bank/look@1")
async def look(params: Plain, _ctx: EffectContext) -> Plain:
    """Whether a transfer was paid: a question, which may be asked any number of times."""
    found = [line for line in _lines() if line["transfer_id"] == params["transfer_id"]]
    return {"reference": found[0]["reference"] if found else None}


def _book(params: Plain, *, key: str) -> Plain:
    line = {**params, "key": key, "reference": f"payment-{len(_lines()) + 1}"}
    with _books().open("a") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return line


def _lines() -> list[Plain]:
    if not _books().exists():
        return []
    return [json.loads(line) for line in _books().read_text().splitlines()]


def _books() -> Path:
    path = os.environ.get("BANK_BOOKS")
    if not path:
        raise BadUsage("BANK_BOOKS is not set: expected the file of the bank's books")
    return Path(path)


async def _answer_late(params: Plain) -> None:
    if params["to"] == SLOW:
        await asyncio.sleep(SLOW_S)


banks = Executors("banks", [pay, wire, look])
