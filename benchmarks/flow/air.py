"""Write the manifest of the flows that are measured: ``python -m benchmarks.flow.air``.

The nodes are those that ``modules/build`` takes from the modules in ``modules/bench-sdk``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "modules" / "bench-sdk"
FILE: Final = ROOT / "benchmarks" / "worlds" / "flow.air.json"
PACKAGES: Final = ("flow-steps", "flow-shapes")
SECTIONS: Final = {
    "defschema": "schemas",
    "defmodule": "modules",
    "defworkflow": "workflows",
    "defeffect": "effects",
}

Node = dict[str, Any]


def nodes() -> list[Node]:
    """Return the nodes of the modules and the manifest that lists them."""
    found: dict[str, Node] = {}
    routes: list[Node] = []
    for package in PACKAGES:
        for node in _read(package):
            if node["$kind"] == "subscription":
                routes.append({key: value for key, value in node.items() if key != "$kind"})
            else:
                found[node["name"]] = node
    return [*found.values(), _manifest(found.values(), routes)]


def _read(package: str) -> list[Node]:
    folder = SOURCES / package
    given: list[Node] = json.loads((folder / f"{package}.nodes.json").read_text())
    for node in given:
        if node["$kind"] == "defmodule":
            wasm = f"../../modules/bench-sdk/{package}/{package}.wasm"
            node["runtime"]["artifact"]["path"] = wasm
    return given


def _manifest(found: Iterable[Node], routes: Sequence[Node]) -> Node:
    manifest: Node = {"$kind": "manifest", "air_version": "2"}
    manifest |= {section: [] for section in SECTIONS.values()}
    for node in found:
        manifest[SECTIONS[node["$kind"]]].append({"name": node["name"]})
    return {**manifest, "routing": {"subscriptions": list(routes)}}


def text() -> str:
    """Return the file's text: one node a line."""
    return "[\n" + ",\n".join(json.dumps(node) for node in nodes()) + "\n]\n"


if __name__ == "__main__":
    FILE.write_text(text())
