"""A committed manifest with other fields, for a measurement or a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aos.host.apply.manifest_files import read_manifest_files
from aos.manifest.load import AIR_SUFFIX, Loaded, load


def changed_manifest(folder: Path, *, is_open: bool = False, **fields: Any) -> Loaded:
    """Load the manifest of a folder with these fields. If it is open, it lacks its list of the
    events from outside, so that a workflow can be sent what another one emits."""
    files, problems = read_manifest_files(folder)
    assert problems == [], problems
    for name, data in list(files.items()):
        if name.endswith(AIR_SUFFIX):
            nodes = json.loads(data)
            for node in nodes if isinstance(nodes, list) else [nodes]:
                if node["$kind"] == "manifest":
                    node.update(fields)
                    if is_open:
                        node.get("routing", {}).pop("ingress", None)
            files[name] = json.dumps(nodes).encode()
    return load(files)
