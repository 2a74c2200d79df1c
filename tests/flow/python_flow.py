"""The flow of ``probe.py`` with its code in Python: the same manifest, another module."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

from aos.author.prepared_program import Interpreter
from aos.author.program_segment import with_program
from aos.author.python.python_program import read_program
from aos.sandbox.cache import standard_cache
from aos.testing.world import World
from tests.flow import probe
from tests.modules.guests import MODULES
from tests.sdk.rust.examples import with_manifest

INTERPRETER: Final = MODULES / "pyflow/pyflow.wasm"

CHILD_MODULE: Final = "t/child.module@1"

SOURCE: Final = (Path(__file__).parent / "python_programs.py.txt").read_text()

FLOW: Final[dict[str, Any]] = {
    "event": "t/ProbeFlowEvent@1",
    "function": "probe",
    "input": "t/Go@1",
    "output": None,
    "result": {"text": {}},
    "view": "t/Shown@1",
    "control": "t/ProbeControl@1",
    "listens": ["t/Note@1", "t/Bell@1"],
    "returned": "t/ProbeReturn@1",
}


def without_comments(type_expression: Any) -> Any:
    if isinstance(type_expression, dict):
        return {
            key: without_comments(inner)
            for key, inner in type_expression.items()
            if key != "$comment"
        }
    return type_expression


def program(source: str) -> dict[str, Any]:
    """What the build puts into the interpreter (spec/pyflow.md, PY-12)."""
    nodes = probe.nodes()
    return {
        "file": "flow.py",
        "source": source,
        "flows": [FLOW],
        "calls": {
            probe.CHILD: {
                "call": "t/ChildCall@1",
                "input": "t/Work@1",
                "output": {"text": {}},
                "control": "t/ChildControl@1",
                "key_field": "id",
            }
        },
        "schemas": {
            node["name"]: without_comments(node["type"])
            for node in nodes
            if node["$kind"] == "defschema"
        },
        "effects": {
            node["name"]: {"params": node["params"], "receipt": {"ref": node["receipt"]}}
            for node in nodes
            if node["$kind"] == "defeffect"
        },
    }


@cache
def interpreter() -> Interpreter:
    return Interpreter(INTERPRETER.read_bytes(), standard_cache(outside=None), print)


def module_of(segment: Mapping[str, Any]) -> bytes:
    """The interpreter with this program, as the build makes it."""
    prepared = interpreter().prepared(segment)
    return with_program(interpreter().wasm, {**segment, "prepared": prepared})


@cache
def wasm(source: str = SOURCE) -> bytes:
    return module_of(program(source))


def world_of(*sources: str) -> World:
    """A world with the flows of whole source files, whose definitions the reader has read."""
    nodes, modules = built(*sources)
    return World(nodes, modules=modules)


def built(*sources: str, hidden: str = "") -> tuple[list[Mapping[str, Any]], dict[str, bytes]]:
    """The nodes and the modules of source files. ``hidden`` is code behind the last one, which the
    reader does not see."""
    nodes: dict[tuple[str, ...], dict[str, Any]] = {}
    modules: dict[str, bytes] = {}
    for number, source in enumerate(sources):
        read, module = read_program(source.encode(), "flow.py"), f"t/flow{number}.module@1"
        for node in [*read.air(module), module_node(module)]:
            name = node.get("name", f"{node.get('event')} to {node.get('workflow')}")
            known = nodes.setdefault((node["$kind"], name), node)
            assert known == node, name
        segment = read.segment("flow.py")
        segment["source"] += hidden
        modules[module] = module_of(segment)
    return with_manifest(list(nodes.values()), "flow.wasm"), modules


def module_node(name: str) -> dict[str, Any]:
    runtime = {"kind": "wasm", "artifact": {"kind": "wasm_module", "path": ""}}
    return {"$kind": "defmodule", "name": name, "runtime": runtime}


class PythonProbe(probe.Probe):
    """A world, and the one flow in it, whose code is Python."""

    def __init__(
        self,
        name: str,
        *,
        source: str = SOURCE,
        answers: bool = True,
        is_prepared: bool = True,
        **start: Any,
    ) -> None:
        super().__init__(name, answers=False, **start)
        nodes = with_module_of_child(deepcopy(probe.nodes("step")))
        module = wasm(source) if is_prepared else with_program(interpreter().wasm, program(source))
        modules = {probe.MODULE: module, CHILD_MODULE: probe.wasm()}
        self.world = World(nodes, modules=modules)
        if answers:
            self.answer()


def with_module_of_child(nodes: list[Any]) -> list[Any]:
    """The child of the flow stays in Rust, in a module of its own."""
    for node in list(nodes):
        match node["$kind"]:
            case "defworkflow" if node["name"] == probe.CHILD:
                node["impl"]["module"] = CHILD_MODULE
            case "defmodule":
                nodes.append({**deepcopy(node), "name": CHILD_MODULE})
            case "manifest":
                node["modules"].append({"name": CHILD_MODULE})
    return nodes
