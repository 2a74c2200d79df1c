"""A function that has secrets and blobs, and tries to give them away."""

from __future__ import annotations

import base64
import logging
import sys
from pathlib import Path
from typing import Any

from aos.values.digests import content_hash, hash_text
from aos.worker import EffectContext, EffectFailed, Executors, NotConfigured, effect

Plain = dict[str, Any]


@effect("test/keyed@1", attempts=1, blobs=("data", "pages"))
def keyed(params: Plain, ctx: EffectContext) -> Plain:
    value = ctx.secret(params["keys"][0]) if params["keys"] else ""
    said = hash_text(content_hash(value.encode()))
    match params["what"]:
        case "print":
            print("first", value)  # noqa: T201  # what the tests look at
            sys.stderr.write(f"in {value[:9]}")
            sys.stderr.flush()
            sys.stderr.write(f"{value[9:]} two writes\n")
            logging.getLogger("keeper").error("logged %s", value.removeprefix("0x"))
            sys.stdout.buffer.write(base64.b64encode(value.encode()) + b" without a line feed")
        case "fail":
            raise EffectFailed("refused", f"the bank says: {value} is unknown")
        case "lacks":
            raise NotConfigured("no_account", f"no account for {value}", "open one")
        case "crash":
            raise ValueError(f"cannot use {value}")
        case "return":
            said = f"the key is {value}"
        case "raw":
            return {"said": "", "raw": bytes.fromhex(value.removeprefix("0x"))}
        case "misfit":
            return {"said": value, "more": 1}
        case "progress":
            ctx.progress("step", {"key": value})
            ctx.progress("step", {"n": 1}, blob=value.encode())
            ctx.progress("step", {"n": 2})
        case "blobs":
            named = [params["data"], *(each["image"] for each in params["pages"])]
            said = " ".join(ctx.blob(each).decode() for each in named)
        case "manifest":
            said = str(len(ctx.blob(params["manifest"])))
        case "second":
            said = ctx.secret({"alias": "test/hosted", "version": 1})
        case "look":
            own = Path("/proc/self")
            seen = (own / "environ").read_bytes() + (own / "cmdline").read_bytes()
            said = str(value.removeprefix("0x").encode() in seen)
            print("reached", value)  # noqa: T201  # what the test waits for
    return {"said": said}


keeper = Executors("keeper", [keyed])
