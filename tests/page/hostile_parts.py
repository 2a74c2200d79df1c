"""A world with flows and linear instances in which every text that others write is hostile."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from aos.flow.operation import OperationKind as Kind
from aos.flow.operation import OperationState, UndoState
from aos.host.door.writer import Item, open_writer
from aos.host.folder.making import init_world
from aos.manifest.load import load
from aos.manifest.plans import plan_of, start_event
from aos.values.cbor import Value, encode
from tests.cli.shell import in_silence
from tests.flow import shop
from tests.flow.histories import failure, listen_extra, op, ops, state, step_extra, undo
from tests.node.linear.worlds import PLAN

DEEP = 300
"""Scopes in one another: more than templates could call themselves."""


def hostile_parts(path: Path, texts: Sequence[str]) -> Path:
    """Write the world with the texts into the folder ``path``, which is new."""
    files = shop.files()
    nodes: list[Any] = json.loads(files["m.air.json"])
    nodes[-1] |= {"uses": ["aos/linear@1"], "plans": [PLAN]}
    files["m.air.json"] = json.dumps(nodes).encode()
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(load(files))
        list(writer.send([item for text in texts for item in (*_flows(text), *_linear(text))]))
    assert in_silence("run", "--until-idle", "--world", path) == 0
    return path


def _flows(text: str) -> Iterator[Item]:
    """Flows whose every word is ``text``: in progress, failed, stuck, diverged."""
    inputs: Any = {"order_id": text, "cents": 1, "out": None}
    running = ops(
        op(Kind.STEP, text, attempts=3, outcome={text: text}, extra=[shop.CHARGE]),
        op(Kind.RACE, text, state=OperationState.RUNNING, extra=[[text, "other"]]),
        op(Kind.BRANCH, text, parent=2, state=OperationState.RUNNING),
        op(Kind.STEP, text, parent=3, state=OperationState.RUNNING, extra=step_extra(text)),
        op(Kind.LISTEN, f"{text}2", parent=3, state=OperationState.RUNNING,
           extra=listen_extra(text)),
        op(Kind.STEP, f"{text}3", state=OperationState.FAILED,
           outcome=failure(text, text, kind=text, path=text), extra=[shop.CHARGE]),
        *(op(Kind.SCOPE, f"{text}4", parent=6 + each if each else 0, state=OperationState.RUNNING)
          for each in range(DEEP)),
        undos=[undo(text, shop.REFUND, {text: text}, state=UndoState.STUCK,
                    failure=failure(text, text, path=text))],
    )  # fmt: skip
    why: Any = failure(text, text, kind=text, path=text)
    for _ in range(20):  # CBOR nests at most 128 levels
        why = failure(text, text, path=text, causes=[why])
    inbox = [(text, text), (shop.PAID, {text: text})]
    parent: Any = {"schema": text, "key": encode(text), "path": text, "attempt": 1}
    more: Any = {"inputs": inputs, "view": text, "inbox": inbox, "parent": parent}
    for name, out in (
        ("running", shop.step(state(running, **more))),
        ("failed", shop.step(state(status="failed", error=why, **more), status="failed")),
        ("stuck", shop.step(state(running, status="stuck", **more), status="failed")),
        ("done", shop.step(state(status="completed", output=text, **more), status="completed")),
        ("diverged", shop.diverged(text, text, text)),
    ):
        yield Item(schema=shop.PLACED, value=encode(shop.placed(f"{name} {text}", out)))


def _linear(text: str) -> Iterator[Item]:
    """A linear instance that a signal reached too early, and one that was canceled."""
    plan = plan_of(PLAN, "plan")
    for name in (text, f"canceled {text}"):
        schema, value = start_event(plan, name, {text: text}, biz_key=None)
        yield Item(schema=schema, value=encode(cast("Value", value)))
    signal: Any = {"instance": text, "event_id": text, "type": text, "payload": encode(text)}
    yield Item(schema="aos/LinearSignal@1", value=encode(signal))
    cancel: Any = {"instance": f"canceled {text}", "reason": text}
    yield Item(schema="aos/LinearCancel@1", value=encode(cancel))
