"""The flow of ``probe.py`` with its code in Python: the same manifest, another module."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

from aos.author.program_segment import with_program
from aos.testing.world import World
from tests.flow import probe
from tests.modules.guests import MODULES

INTERPRETER: Final = MODULES / "pyflow/pyflow.wasm"

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
def wasm(source: str = SOURCE) -> bytes:
    """The interpreter with this program."""
    return with_program(INTERPRETER.read_bytes(), program(source))


class PythonProbe(probe.Probe):
    """A world, and the one flow in it, whose code is Python."""

    def __init__(
        self, name: str, *, source: str = SOURCE, answers: bool = True, **start: Any
    ) -> None:
        super().__init__(name, answers=False, **start)
        nodes = [node for node in deepcopy(probe.nodes("step")) if not of_child(node)]
        for node in nodes:
            if node["$kind"] == "manifest":
                without_child(node)
        self.world = World(nodes, modules={probe.MODULE: wasm(source)})
        if answers:
            self.answer()


def of_child(node: Any) -> bool:
    return bool(node["$kind"] == "defworkflow" and node["name"] == probe.CHILD)


def without_child(manifest: Any) -> None:
    """The child of the Rust flow is another entrypoint of its module, which Python has not."""
    manifest["workflows"] = [ref for ref in manifest["workflows"] if ref["name"] != probe.CHILD]
    routing = manifest["routing"]
    routing["subscriptions"] = [
        route for route in routing["subscriptions"] if route["workflow"] != probe.CHILD
    ]
