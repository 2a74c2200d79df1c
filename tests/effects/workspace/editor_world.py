"""A world with workspaces, and two workflows that obey their events: one of each ABI.

editor/aos@1       editor/Plain@1 {id, out}      by the puppet: ``out`` is the output of the step
editor/agentos@1   editor/Foreign@1 {id, out}    the same, as a module of the AgentOS SDK; one cell
sys/Workspace@1    sys/WorkspaceCommit@1         without a definition, as in folders of AIR 2

An answer becomes the state of the editor, as it was delivered.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import cbor2

from aos.host.folder.folder import open_folder
from aos.host.folder.reader import open_reader
from aos.manifest.builtin_definitions import EFFECTS
from aos.store.store import Store
from aos.values.cbor import Value, encode
from aos.values.sha256 import parse_sha256
from tests.cli.shell import in_silence
from tests.effects.workspace.trees import sha
from tests.host.puppet import WASM

PLAIN: Final = ("editor/aos@1", "editor/Plain@1")
FOREIGN: Final = ("editor/agentos@1", "editor/Foreign@1")
EDITORS: Final = (PLAIN, FOREIGN)
WORKSPACE: Final = "sys/Workspace@1"
COMMIT: Final = "sys/WorkspaceCommit@1"
EXECUTORS: Final = ("--executors", "workspace")
TREE_EFFECTS: Final = tuple(name for name in EFFECTS if name.startswith("sys/workspace."))
TIME: Final = 1_700_000_000_000_000_000


class Delivered(NamedTuple):
    """The answer to an effect in the form in which the module got it."""

    status: str
    value: Any


def nodes() -> list[dict[str, Any]]:
    answers = {
        "Receipt": {"ref": "sys/EffectReceiptEnvelope@1"},
        "Rejected": {"ref": "sys/EffectReceiptRejected@1"},
    }
    types: dict[str, object] = {"editor/Id@1": {"text": {}}, "editor/State@1": {"bytes": {}}}
    found: list[dict[str, Any]] = []
    routes = [{"event": COMMIT, "workflow": WORKSPACE, "key_field": "workspace"}]
    forms = (("aos/1", "step"), ("agentos", "step_returning_at"))
    for (workflow, event), (abi, entrypoint) in zip(EDITORS, forms, strict=True):
        types[event] = {"record": {"id": {"ref": "editor/Id@1"}, "out": {"bytes": {}}}}
        types[f"{event[:-2]}Event@1"] = {"variant": {"Go": {"ref": event}, **answers}}
        # The puppet does not read a key that begins with a tag (AG-5).
        is_keyed = abi == "aos/1"
        routes.append(
            {"event": event, "workflow": workflow} | ({"key_field": "id"} if is_keyed else {})
        )
        found += [
            {
                "$kind": "defmodule",
                "name": f"{workflow[:-2]}.module@1",
                "abi": abi,
                "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module", "path": "p.wasm"}},
            },
            {
                "$kind": "defworkflow",
                "name": workflow,
                "state": "editor/State@1",
                "event": f"{event[:-2]}Event@1",
                "context": "sys/WorkflowContext@1",
                "effects_emitted": list(TREE_EFFECTS),
                "impl": {"module": f"{workflow[:-2]}.module@1", "entrypoint": entrypoint},
            }
            | ({"key_schema": "editor/Id@1"} if is_keyed else {}),
        ]
    schemas = [{"$kind": "defschema", "name": name, "type": type_} for name, type_ in types.items()]
    manifest = {
        "$kind": "manifest",
        "air_version": "2",
        "schemas": [{"name": name} for name in types],
        "modules": [{"name": each["name"]} for each in found if each["$kind"] == "defmodule"],
        "workflows": [{"name": workflow} for workflow, _ in EDITORS],
        "effects": [],
        "routing": {"subscriptions": routes},
    }
    return [*schemas, *found, manifest]


def files() -> dict[str, bytes]:
    return {"m.air.json": json.dumps(nodes()).encode(), "p.wasm": WASM.read_bytes()}


def make_world(folder: Path) -> Path:
    """Create a world with this manifest, and return its folder."""
    source = folder / "manifest"
    source.mkdir()
    for name, data in files().items():
        (source / name).write_bytes(data)
    world = folder / "world"
    assert in_silence("init", world) == 0
    assert in_silence("apply", source, "--world", world) == 0
    return world


def commit(workspace: str, root: str, *, head: int | None = None, owner: str = "me") -> Any:
    """A ``sys/WorkspaceCommit@1`` as a plain value."""
    meta = {"root_hash": root, "owner": owner, "created_at": TIME}
    return {"workspace": workspace, "expected_head": head, "meta": meta}


def asks(*effects: tuple[str, Any], commits: tuple[Any, ...] = ()) -> bytes:
    """The output of a step that requests these effects and emits these commits, and is over. An
    answer becomes the state."""
    requested: list[Value] = [
        {
            "effect": f"sys/workspace.{name}@1",
            "params": encode(params),
            "issuer_ref": "echo_input",
        }
        for name, params in effects
    ]
    events: list[Value] = [{"schema": COMMIT, "value": encode(each)} for each in commits]
    output: Value = {"state": encode(b""), "effects": requested, "domain_events": events}
    return encode(output)


def send(world: Path, editor: tuple[str, str], id: str, out: bytes) -> None:
    value = {"id": id, "out": base64.b64encode(out).decode()}
    assert in_silence("send", editor[1], json.dumps(value), "--world", world) == 0


def send_commit(world: Path, *commits: Any) -> None:
    for each in commits:
        assert in_silence("send", COMMIT, json.dumps(each), "--world", world) == 0


def run(world: Path) -> None:
    assert in_silence("run", "--until-idle", *EXECUTORS, "--world", world) == 0


def answer(
    world: Path, effect: str, editor: tuple[str, str] = PLAIN, *, id: str = "asks", **params: Any
) -> Delivered:
    """Request an effect in a running world, and return the answer as the module got it."""
    send(world, editor, id, asks((effect, params)))
    run(world)
    return delivered(world, editor, id)


def delivered(world: Path, editor: tuple[str, str], id: str) -> Delivered:
    with open_reader(world) as reader:
        cell = reader.state.cells[editor[0], encode(id) if editor is PLAIN else b""]
        assert cell.fault is None, cell.fault
        assert cell.state is not None
        held = cell.state if isinstance(cell.state, bytes) else reader.store.blob(cell.state.hash)
    envelope = cbor2.loads(cbor2.loads(held))
    arm = cbor2.loads(envelope["event"]["value"])
    receipt = arm["$value"]
    if arm["$tag"] == "Rejected":
        return Delivered("rejected", receipt["error_message"])
    return Delivered(receipt["status"], cbor2.loads(receipt["receipt_payload"]))


def resolve(
    world: Path, workspace: str, version: int | None = None, editor: tuple[str, str] = PLAIN
) -> Any:
    found = answer(world, "resolve", editor, workspace=workspace, version=version)
    assert found.status == "ok"
    return found.value


def history(world: Path, workspace: str) -> Any:
    """The state of a workspace; None if there is none."""
    with open_reader(world) as reader:
        cell = reader.state.cells.get((WORKSPACE, encode(workspace)))
        if cell is None:
            return None
        assert cell.fault is None
        held = cell.state
        assert held is not None
        return cbor2.loads(held if isinstance(held, bytes) else reader.store.blob(held.hash))


def contents(world: Path, root: str) -> dict[str, bytes]:
    """All files of a tree, read from the blobs of a world as a stranger reads them."""
    with open_folder(world).open_store(readonly=True) as store:
        return dict(_contents(store, root, ""))


def _contents(store: Store, hash: str, prefix: str) -> Iterator[tuple[str, bytes]]:
    data = named(store, hash)
    assert data is not None, f"{prefix or 'the root'} is here"
    for entry in cbor2.loads(data)["entries"]:
        if entry["kind"] == "dir":
            yield from _contents(store, entry["hash"], f"{prefix}{entry['name']}/")
        else:
            file = named(store, entry["hash"])
            assert file is not None, f"{prefix}{entry['name']} is here"
            yield prefix + entry["name"], file


def named(store: Store, text: str) -> bytes | None:
    """The blob with this SHA-256 name; None if the world does not have it."""
    name = parse_sha256(text)
    assert name is not None
    blob = store.hash_by_sha256(name)
    if blob is None or not store.has_blob(blob):
        return None
    data = store.blob(blob)
    assert sha(data) == text
    return data
