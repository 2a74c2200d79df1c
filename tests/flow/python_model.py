"""The programs of ``programs.py`` on the flow in Python, modules/conformance/flow/flow_programs.py,
as ``aos build`` makes it. Its children are flows in Rust."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from typing import Any, Final

from aos.author.python.python_program import read_program
from aos.manifest.load import Loaded
from aos.testing.sources import loaded
from tests.flow import programs
from tests.flow.model import TIME_MAX
from tests.flow.programs import FOLDER, MODULE
from tests.flow.python_flow import module_node, module_of, without_comments
from tests.modules.guests import MODULES

FILE: Final = "flow_programs.py"
SOURCE: Final = (MODULES / "conformance/flow" / FILE).read_text()
CLOCK: Final = """
def started_at():
    from datetime import datetime, timezone

    return datetime.now(timezone.utc)
"""
"""Code that the reader does not see, and would refuse. It returns the time of the flow's start."""

PYTHON_MODULE: Final = "f/flow-programs-python.module@1"

Nodes = dict[tuple[str, str], Any]


def by_name(nodes: list[Any]) -> Nodes:
    return {(node["$kind"], node["name"]): node for node in nodes if "name" in node}


@cache
def python_manifest() -> Loaded:
    """The manifest of ``programs.manifest``, whose code of ``f/run@1`` is in Python."""
    *nodes, manifest = programs.manifest_nodes()
    read = read_program(SOURCE.encode(), FILE)
    merged = (
        by_name(nodes) | by_name(read.air(PYTHON_MODULE)) | by_name([module_node(PYTHON_MODULE)])
    )
    manifest["modules"].append({"name": PYTHON_MODULE})
    segment = read.segment(FILE)
    segment["source"] += CLOCK
    modules = {
        MODULE: (MODULES / f"{FOLDER}.wasm").read_bytes(),
        PYTHON_MODULE: module_of(segment),
    }
    return loaded([*merged.values(), manifest], modules, abi=None)


def definitions() -> tuple[Nodes, Nodes]:
    """Those of the flow in Python, and those with the same names in Rust, without comments. The
    flow in Rust names the schema of its key itself."""
    rust = by_name(programs.manifest_nodes()[:-1])
    text = json.dumps(read_program(SOURCE.encode(), FILE).air(MODULE))
    python = by_name(json.loads(text.replace("f/RunKey@1", "f/Id@1")))
    return plain(python), plain({name: rust[name] for name in python})


def plain(nodes: Nodes) -> Nodes:
    """Without comments, and without the name of the entrypoint, which each language has."""
    plain_nodes = {name: without_comments(deepcopy(node)) for name, node in nodes.items()}
    for node in plain_nodes.values():
        if "type" in node:
            node["type"] = without_comments(node["type"])
        node.get("impl", {}).pop("entrypoint", None)
        if node.get("upgrade") == "quiesce":  # the default
            del node["upgrade"]
    return plain_nodes


def in_microseconds(program: dict[str, Any]) -> dict[str, Any]:
    """The program with the time spans that Python has (spec/pyflow.md, PY-34)."""
    program = deepcopy(program)
    for node in program["nodes"]:
        if node["span"] in (-1, TIME_MAX):
            node["span"] = node["span"] // 1_000 * 1_000
    return program
