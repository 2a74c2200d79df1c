"""A world with one plan of three plan steps. It accepts one event from outside, and those of its
package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.manifest.load import load

PLAN: Final = {
    "type": "job",
    "version": 1,
    "steps": [
        {"type": "WORK", "max_attempts": 20, "backoff_ms": 10, "lease_ms": 800},
        {"type": "WAIT", "max_attempts": 20, "backoff_ms": 10, "lease_ms": 800},
        {"type": "END", "max_attempts": 20, "backoff_ms": 10, "lease_ms": 800},
    ],
}


def manifest(**more: Any) -> dict[str, bytes]:
    """The files of the world."""
    nodes = [
        {
            "$kind": "manifest", "air_version": "2", "uses": ["aos/linear@1"], "plans": [PLAN],
            "schemas": [{"name": "job/Done@1"}, {"name": "job/Audited@1"}], "modules": [],
            "workflows": [], "effects": [], "routing": {"ingress": ["job/Done@1"]},
            **more,
        },
        {"$kind": "defschema", "name": "job/Audited@1", "type": {"record": {"job": {"text": {}}}}},
        {"$kind": "defschema", "name": "job/Done@1", "type": {"record": {"job": {"text": {}}}}},
    ]  # fmt: skip
    return {"m.air.json": json.dumps(nodes).encode()}


def make_world(path: Path) -> Path:
    """Create the world in this folder."""
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(load(manifest()))
    return path
