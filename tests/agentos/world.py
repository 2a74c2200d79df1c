"""The manifest of ``modules/agentos-guest``, as an AIR 2 folder: no hashes, and no ``abi``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aos.manifest.builtin_definitions import EFFECTS
from aos.manifest.names import CRON, EFFECT_CANCEL, TIMER_CANCEL, WORLD_SEND
from tests.modules.guests import MODULES

COUNTER: Final = "agentos/counter@1"
CLOCK: Final = "agentos/clock@1"
ECHO: Final = "agentos/echo@1"
CASE: Final = "agentos/case@1"
TALE: Final = "agentos/tale@1"
ASK: Final = "agentos/ask@1"
AGENT: Final = "agentos/agent@1"

THEIRS: Final = tuple(sorted(EFFECTS.keys() - {CRON, WORLD_SEND, TIMER_CANCEL, EFFECT_CANCEL}))
"""The effects of AIR 2 that are built in."""

_UNIT: Final[Mapping[str, object]] = {"unit": {}}
_TEXT: Final[Mapping[str, object]] = {"text": {}}
_NAT: Final[Mapping[str, object]] = {"nat": {}}
_BYTES: Final[Mapping[str, object]] = {"bytes": {}}
_HASH: Final[Mapping[str, object]] = {"hash": {}}


def _option(inside: object) -> object:
    return {"option": inside}


def _variant(**arms: object) -> object:
    return {"variant": arms}


def _record(**fields: object) -> object:
    return {"record": fields}


def _ref(name: str) -> object:
    return {"ref": name if "/" in name else f"agentos/{name}@1"}


_PC: Final = _variant(
    **dict.fromkeys(("Counting", "Awaiting", "Putting", "Getting", "Done"), _UNIT)
)
_ENVELOPE: Final = _ref("sys/EffectReceiptEnvelope@1")

TYPES: Final[Mapping[str, object]] = {
    "Pc": _PC,
    "CounterState": _record(pc=_ref("Pc"), remaining=_NAT),
    "CounterStart": _record(target=_NAT),
    "CounterTick": _UNIT,
    "CounterEvent": _variant(Start=_ref("CounterStart"), Tick=_ref("CounterTick")),
    "ClockState": _record(pc=_ref("Pc"), deadline_ns=_NAT),
    "ClockStart": _record(deliver_at_ns=_NAT),
    "ClockEvent": _variant(Start=_ref("ClockStart"), Fired=_ref("sys/TimerFired@1")),
    "EchoState": _record(pc=_ref("Pc"), name=_TEXT),
    "EchoStart": _record(data=_BYTES),
    "EchoEvent": _variant(
        Start=_ref("EchoStart"),
        PutResult=_ref("sys/BlobPutResult@1"),
        GetResult=_ref("sys/BlobGetResult@1"),
    ),
    "Id": _TEXT,
    "CaseState": _record(
        pending={"map": {"key": _TEXT, "value": _TEXT}},
        settled={"list": _TEXT},
        blob=_option(_TEXT),
    ),
    "Open": _record(id=_ref("Id"), data=_BYTES),
    "Close": _record(id=_ref("Id")),
    "CaseEvent": _variant(Open=_ref("Open"), Close=_ref("Close"), Receipt=_ENVELOPE),
    "Told": _record(id=_ref("Id"), how=_variant(Named={"hash": {}})),
    "TaleState": _record(name={"hash": {}}, size=_option(_NAT)),
    "TaleEvent": _variant(Told=_ref("Told"), Receipt=_ENVELOPE),
    "Ask": _record(id=_ref("Id"), effect=_TEXT, params=_BYTES),
    "Answer": _record(
        effect=_TEXT,
        status=_TEXT,
        payload=_option(_BYTES),
        code=_option(_TEXT),
        message=_option(_TEXT),
    ),
    "AskState": _record(answers={"list": _ref("Answer")}),
    "AskEvent": _variant(
        Ask=_ref("Ask"), Receipt=_ENVELOPE, Rejected=_ref("sys/EffectReceiptRejected@1")
    ),
    "Begin": _record(id=_ref("Id"), url=_TEXT),
    "AgentState": _record(
        stage=_TEXT,
        brief=_option(_HASH),
        answer=_option(_HASH),
        session=_option(_TEXT),
        tries=_NAT,
        printed=_option(_HASH),
        root=_option(_HASH),
        version=_option(_NAT),
    ),
    "AgentEvent": _variant(
        Begin=_ref("Begin"), Receipt=_ENVELOPE, Rejected=_ref("sys/EffectReceiptRejected@1")
    ),
}

_EFFECTS: Final[Mapping[str, Sequence[str]]] = {
    "counter": (),
    "clock": ("sys/timer.set@1",),
    "echo": ("sys/blob.put@1", "sys/blob.get@1"),
    "case": (
        "sys/blob.put@1",
        "sys/blob.get@1",
        "sys/timer.set@1",
        "sys/introspect.list_cells@1",
    ),
    "tale": ("sys/blob.get@1",),
    "ask": THEIRS,
    "agent": (
        "sys/http.request@1",
        "sys/llm.generate@1",
        "sys/host.session.open@1",
        "sys/host.fs.write_file@1",
        "sys/host.exec@1",
        "sys/workspace.empty_root@1",
        "sys/workspace.write_ref@1",
        "sys/workspace.write_bytes@1",
        "sys/workspace.read_bytes@1",
        "sys/workspace.resolve@1",
    ),
}
WORKSPACES: Final[Mapping[str, str]] = {
    "event": "sys/WorkspaceCommit@1",
    "workflow": "sys/Workspace@1",
    "key_field": "workspace",
}
"""The route of a folder that uses workspaces (AG-54)."""

_KEYED: Final = ("case", "tale", "ask", "agent")


def _workflow(name: str) -> dict[str, Any]:
    keyed = {"key_schema": "agentos/Id@1"} if name in _KEYED else {}
    return {
        "$kind": "defworkflow",
        "name": f"agentos/{name}@1",
        "state": f"agentos/{name.capitalize()}State@1",
        "event": f"agentos/{name.capitalize()}Event@1",
        "context": "sys/WorkflowContext@1",
        "effects_emitted": list(_EFFECTS[name]),
        "impl": {"module": "agentos/guest_wasm@1", "entrypoint": "step"},
        **keyed,
    }


def nodes(*routes: Mapping[str, str]) -> list[dict[str, Any]]:
    """The definitions, with more routes if they are given."""
    module = {
        "$kind": "defmodule",
        "name": "agentos/guest_wasm@1",
        "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module"}},
    }
    whole = [
        {"event": f"agentos/{name.capitalize()}Event@1", "op": f"agentos/{name}@1"}
        for name in ("counter", "clock", "echo")
    ]
    keyed = [
        {"event": f"agentos/{event}@1", "workflow": workflow, "key_field": "id"}
        for event, workflow in (
            ("Open", CASE),
            ("Close", CASE),
            ("Told", TALE),
            ("Ask", ASK),
            ("Begin", AGENT),
        )
    ]
    manifest = {
        "$kind": "manifest",
        "air_version": "2",
        "schemas": [{"name": f"agentos/{name}@1"} for name in TYPES],
        "modules": [{"name": "agentos/guest_wasm@1"}],
        "workflows": [{"name": f"agentos/{name}@1"} for name in _EFFECTS],
        "effects": [],
        "routing": {"subscriptions": [*whole, *keyed, *routes]},
    }
    schemas = [
        {"$kind": "defschema", "name": f"agentos/{name}@1", "type": type_}
        for name, type_ in TYPES.items()
    ]
    return [*schemas, module, *map(_workflow, _EFFECTS), manifest]


def guest() -> bytes:
    return (MODULES / "agentos-guest" / "agentos-guest.wasm").read_bytes()


def files() -> dict[str, bytes]:
    return {
        "air/all.air.json": json.dumps(nodes()).encode(),
        "modules/agentos.guest_wasm@1.wasm": guest(),
    }


def published() -> dict[str, bytes]:
    """The folder in the layout in which AgentOS publishes folders (AG-43), with workspaces."""
    place = f"modules/agentos/guest_wasm@1-{hashlib.sha256(guest()).hexdigest()}.wasm"
    return {"air/all.air.json": json.dumps(nodes(WORKSPACES)).encode(), place: guest()}


def write_folder(folder: Path, given: Mapping[str, bytes] | None = None) -> Path:
    """Write these files, by default ``files()``, into a folder."""
    for name, data in (files() if given is None else given).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
