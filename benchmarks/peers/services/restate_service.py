"""The three steps for Restate's Python SDK: each step is durable before the next one begins.

python restate_service.py PORT      with the interpreter in which restate-sdk is installed
"""

# mypy: disable-error-code="import-not-found"
# The SDK is installed separately from the product.

from __future__ import annotations

import asyncio
import sys

import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config
from restate import Context, ObjectContext, Service, VirtualObject

steps = Service("steps")
line = VirtualObject("line")


async def three_steps(ctx: Context | ObjectContext) -> int:
    total = 0
    for step in (1, 2, 3):
        total += await ctx.run_typed(f"step {step}", lambda step=step: step)
    return total


async def run(ctx: Context, _: object) -> int:
    return await three_steps(ctx)


async def run_in_line(ctx: ObjectContext, _: object) -> int:
    return await three_steps(ctx)


steps.handler(name="run")(run)
# One invocation at a time for each key; the others wait.
line.handler(name="run")(run_in_line)


def main() -> None:
    config = Config()
    config.bind = [f"127.0.0.1:{sys.argv[1]}"]
    config.errorlog = "-"
    asyncio.run(serve(restate.app([steps, line]), config))


if __name__ == "__main__":
    main()
