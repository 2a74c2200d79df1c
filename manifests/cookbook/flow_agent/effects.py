"""A fake model, its tools, and the action that needs approval.

    aos run --executors manifests/cookbook/flow_agent/effects.py:desk

The model looks up the order and the rules, then proposes a refund. If a person rejects it, the
model answers the customer. A customer who writes `everything` makes it call tools forever.
"""

from __future__ import annotations

from typing import Any, Final

from aos.worker import EffectContext, EffectFailed, Executors, effect

Plain = dict[str, Any]

TOKENS: Final = 100
"""Of each call of the model."""

LIBRARY: Final = {"orders": "o-7: 1 teapot, broken, 45 EUR", "rules": "refund what arrives broken"}


def _call(tool: str, argument: str) -> Plain:
    return {"id": f"{tool} {argument}", "tool": tool, "argument": argument}


@effect("desk/model.call@1")
async def think(params: Plain, _ctx: EffectContext) -> Plain:
    """Decide by the last message, as a model would by all of them."""
    first, last = params["conversation"][0], params["conversation"][-1]
    if last["from"] == "person":
        following = {"$tag": "Answer", "$value": {"text": "I am sorry, we cannot refund this."}}
    elif last["from"] == "customer" or first["text"] == "everything":
        calls = [_call("orders", "o-7"), _call("rules", "teapots"), _call("weather", "today")]
        following = {"$tag": "Tools", "$value": {"calls": calls}}
    else:
        following = {"$tag": "Propose", "$value": {"action": "refund 45 EUR of o-7"}}
    return {"tokens": min(TOKENS, params["tokens_max"]), "next": following}


@effect("desk/tool.use@1")
async def use(params: Plain, _ctx: EffectContext) -> Plain:
    """Look something up. There is no tool for the weather."""
    if params["tool"] not in LIBRARY:
        raise EffectFailed("no_such_tool", f"no tool {params['tool']}")
    return {"text": LIBRARY[params["tool"]]}


@effect("desk/action.do@1")
async def act(params: Plain, ctx: EffectContext) -> Plain:
    """Do it once under this key; a repeated request gets the same answer."""
    return {"receipt": f"{params['action']} ({ctx.idempotency_key[-8:]})"}


desk = Executors("desk", [think, use, act])
