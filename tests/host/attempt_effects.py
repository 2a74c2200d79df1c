"""Effects that are run, retried and killed: each run obeys the plan's next word.

RUNS gets a line for each run when it begins, DONE one when the effect happens. PLAN is a list of
words, one for each run; the last word is used for all further runs.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from aos.worker import EffectContext, Executors, NotConfigured, effect

Plain = dict[str, Any]

NODE = os.getppid()


def note(name: str, ctx: EffectContext) -> int:
    """Write a line; return how many were there before."""
    file = Path(os.environ["ATTEMPTS_FOLDER"]) / name
    before = len(file.read_text().splitlines()) if file.exists() else 0
    with file.open("a") as out:
        out.write(f"{ctx.intent} {ctx.attempt}\n")
    return before


def strike(who: str) -> None:
    """Kill one of the two; nothing happens in this thread after."""
    if who == "child":
        os.kill(os.getpid(), signal.SIGKILL)
    elif os.getppid() == NODE:  # else it is dead already
        os.kill(NODE, signal.SIGKILL)
    time.sleep(60)


def act(params: Plain, ctx: EffectContext) -> Plain:
    file = os.environ.get("ATTEMPTS_PLAN_FILE")
    plan = (os.environ["ATTEMPTS_PLAN"] if file is None else Path(file).read_text()).split(",")
    word, _, who = plan[min(note("runs", ctx), len(plan) - 1)].partition(":")
    ctx.progress("begun", ctx.attempt)
    if word == "before":
        strike(who)
    if word == "lack":
        raise NotConfigured("no_bank", "no key of the bank", "set BANK_KEY")
    note("done", ctx)
    if word == "after":
        strike(who)
    if word == "fail":
        raise ConnectionError("as planned")
    if word == "bug":
        raise KeyError("as planned")
    return params


@effect("host/once@1", concurrency=1)
def once(params: Plain, ctx: EffectContext) -> Plain:
    return act(params, ctx)


@effect("host/retried@1", concurrency=1)
def retried(params: Plain, ctx: EffectContext) -> Plain:
    return act(params, ctx)


@effect("host/plain@1", concurrency=4, backoff_ms=1)
def plain(params: Plain, ctx: EffectContext) -> Plain:
    return act(params, ctx)


effects = Executors("effects", [once, retried, plain])
