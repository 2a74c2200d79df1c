"""The worlds of the cookbook."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from aos.host.apply.manifest_files import read_manifest_files
from aos.manifest.load import Loaded, load

ROOT: Final = Path(__file__).parents[2]
COOKBOOK: Final = ROOT / "manifests" / "cookbook"
PATTERNS: Final = (
    "saga",
    "choreography",
    "backoff",
    "idempotency",
    "fence",
    "fan_in",
    "sealed",
    "billing",
    "approval",
    "flow_saga",
    "flow_subscription",
    "flow_agent",
    "flow_events",
)


def recipe(name: str) -> Path:
    return COOKBOOK / name


def changed_manifest(folder: Path, *, is_open: bool = False, **fields: Any) -> Loaded:
    """A committed manifest with these fields; if it is open, without its list of the events from
    outside, so that a test can send what a workflow emits."""
    files, problems = read_manifest_files(folder)
    assert problems == []
    for name, data in list(files.items()):
        if name.endswith(".json"):
            nodes = json.loads(data)
            for node in nodes if isinstance(nodes, list) else [nodes]:
                if node["$kind"] == "manifest":
                    node.update(fields)
                    if is_open:
                        node.get("routing", {}).pop("ingress", None)
            files[name] = json.dumps(nodes).encode()
    return load(files)


def executors(name: str, attribute: str) -> str:
    """As ``--executors`` takes it."""
    return f"{COOKBOOK / name / 'effects.py'}:{attribute}"
