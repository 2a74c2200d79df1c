"""A source file as definitions of AIR: the one entry of this package (PF-1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aos.author.python.flow_function import FlowFunction, read_flow
from aos.author.python.python_source import read_source
from aos.author.python.schema_classes import SchemaClass, schema_classes
from aos.author.python.unsupported_python import check_constructs


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonProgram:
    """The content of a source file. ``classes`` are its schemas and effects by class name."""

    text: str
    classes: Mapping[str, SchemaClass]
    flow: FlowFunction

    def air(self, module: str) -> list[dict[str, Any]]:
        """Its definitions and routes, as the section ``aos.air`` of a module has them. ``module``
        is the name of the ``defmodule``, which is not among them."""
        nodes = [of_class.air() for of_class in self.classes.values()]
        nodes += [dict(of.effect) for of in self.classes.values() if of.effect is not None]
        return [*nodes, *self.flow.air(module)]

    def segment(self, file: str) -> dict[str, Any]:
        """The program as the interpreter runs it (spec/pyflow.md, PY-12); ``file`` is the name of
        the source in tracebacks."""
        flow = self.flow
        nodes = self.air("")
        return {
            "file": file,
            "source": self.text,
            "schemas": {node["name"]: node["type"] for node in nodes if _is_schema(node)},
            "effects": {
                str(of.effect["name"]): {
                    "params": of.schema,
                    "receipt": {"ref": of.effect["receipt"]},
                }
                for of in self.classes.values()
                if of.effect is not None
            },
            "flows": [
                {
                    "function": flow.node.name,
                    "event": flow.schema("FlowEvent"),
                    "input": flow.input,
                    "output": None if flow.output is None else flow.output.get("ref"),
                    "result": flow.output or {"unit": {}},
                    "view": flow.view,
                    "control": flow.schema("Control"),
                    "listens": [listened.schema for listened in flow.listens],
                    "returned": flow.returned,
                }
            ],
            "calls": {other.name: other.facts() for other in flow.others},
        }


def _is_schema(node: Mapping[str, Any]) -> bool:
    return bool(node["$kind"] == "defschema")


def read_program(data: bytes, path: str) -> PythonProgram:
    """Read the bytes of a source file. It is never executed.

    Raises:
        BuildFailed: All problems of the file, one on each line, with line and column.
    """
    source = read_source(data, path)
    check_constructs(source)
    reader, classes = schema_classes(source)
    flow = read_flow(source, reader, classes)
    source.raise_problems()
    assert flow is not None, "a file without a flow has a problem"
    return PythonProgram(text=source.text, classes=classes, flow=flow)
