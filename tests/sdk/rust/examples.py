"""The modules of modules/sdk-rust, with the manifest that their own AIR makes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from aos.manifest.load import Loaded, load
from aos.sandbox.inspect import check_module
from tests.modules.guests import MODULES, ROOT

SDK: Final = ROOT / "modules/sdk-rust"
SECTIONS: Final = {
    "defschema": "schemas",
    "defmodule": "modules",
    "defworkflow": "workflows",
    "defeffect": "effects",
}


def read_nodes(name: str) -> list[dict[str, Any]]:
    """Return the content of a module's section: nodes and subscriptions."""
    found: list[dict[str, Any]] = json.loads((MODULES / f"{name}.nodes.json").read_text())
    return found


@cache
def example(name: str) -> Loaded:
    """An example of the SDK, loaded as a manifest."""
    nodes = read_nodes(f"sdk-rust/examples/{name}/{name}")
    wasm = (MODULES / f"sdk-rust/examples/{name}/{name}.wasm").read_bytes()
    files = {f"{name}.air.json": json.dumps(with_manifest(nodes, f"{name}.wasm")).encode()}
    return load({**files, f"{name}.wasm": wasm}, check=check_module)


def with_manifest(nodes: list[dict[str, Any]], artifact: str) -> list[Mapping[str, Any]]:
    """The nodes with what ``aos build`` adds: the artifact's path, and the manifest."""
    kept: list[Mapping[str, Any]] = []
    manifest: dict[str, Any] = {"$kind": "manifest", "air_version": "2"}
    manifest |= {section: [] for section in SECTIONS.values()}
    subscriptions = []
    for node in nodes:
        kind = node["$kind"]
        if kind == "subscription":
            subscriptions.append({key: value for key, value in node.items() if key != "$kind"})
            continue
        if kind == "defmodule":
            node["runtime"]["artifact"]["path"] = artifact
        kept.append(node)
        manifest[SECTIONS[kind]].append({"name": node["name"]})
    manifest["routing"] = {"subscriptions": subscriptions}
    return [*kept, manifest]
