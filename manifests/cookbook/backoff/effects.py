"""The executor of the report: a source that is busy most of the time.

    aos run --executors manifests/cookbook/backoff/effects.py:source

`ready-after-3` fails twice and answers the third time, `gone` does not exist, any other name is
busy for ever. The number of the attempt is in the params: the workflow counts, not the executor.
"""

from __future__ import annotations

from typing import Any

from aos.worker import EffectContext, EffectFailed, Executors, effect

Plain = dict[str, Any]


@effect("report/fetch@1")
async def fetch(params: Plain, _ctx: EffectContext) -> Plain:
    name, attempt = params["name"], params["attempt"]
    if name == "gone":
        raise EffectFailed("not_found", "there is no such report")
    if name == "ready-after-3" and attempt >= 3:
        return {"text": f"the report, fetched by attempt {attempt}"}
    raise EffectFailed("busy", "try again later", retryable=True)


source = Executors("source", [fetch])
