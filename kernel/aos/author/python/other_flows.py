"""The flows of other files that a file declares with ``other_flow`` (PF-27)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.author.python.decorators import Decorator, derived_name, read_call
from aos.author.python.python_source import PythonSource, bodies
from aos.author.python.schema_classes import SchemaClass
from aos.author.python.type_annotations import Expression, TypeReader, last_name

OTHER_FLOW: Final = "other_flow"
_EXAMPLE: Final = 'other_flow("shop/ship@1", input=Parcel, output=Sent, key="parcel_id")'
_ARGUMENTS: Final = ("input", "output", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherFlowDeclaration:
    """A flow of another file. ``output`` is the type of its result, None if it has none."""

    name: str
    input: str
    output: Expression | None
    key_field: str

    def facts(self) -> dict[str, Any]:
        """Its entry in ``calls`` of the program in the interpreter (spec/pyflow.md, PY-12)."""
        return {
            "call": derived_name(self.name, "Call"),
            "input": self.input,
            "output": self.output or {"unit": {}},
            "control": derived_name(self.name, "Control"),
            "key_field": self.key_field,
        }


def read_other_flows(
    source: PythonSource, reader: TypeReader, classes: Mapping[str, SchemaClass]
) -> dict[str, OtherFlowDeclaration]:
    """The flows of other files by the names of their variables. Problems are reported."""
    declared: dict[str, OtherFlowDeclaration] = {}
    top: set[int] = set()
    for line in source.tree.body:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call):
                pass
            case _:
                continue
        if last_name(call.func) != OTHER_FLOW:
            continue
        top.add(id(call))
        declaration = _read(source, reader, classes, call)
        if declaration is not None:
            declared[name] = declaration
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or last_name(node.func) != OTHER_FLOW:
            continue
        if id(node) not in top:
            source.report(
                node,
                "a flow of another file",
                expected=f"NAME = {_EXAMPLE} at the top of the file",
                actual=source.shown(node),
            )
    return declared


def _read(
    source: PythonSource,
    reader: TypeReader,
    classes: Mapping[str, SchemaClass],
    call: ast.Call,
) -> OtherFlowDeclaration | None:
    decorator = read_call(source, call, OTHER_FLOW, _ARGUMENTS, example=_EXAMPLE)
    if decorator is None:
        return None
    input_node, key = decorator.arguments.get("input"), decorator.text("key", example='"id"')
    of_class = classes.get(last_name(input_node)) if input_node is not None else None
    if of_class is None or of_class.effect is not None or key is None:
        source.report(
            input_node or call,
            f"the flow {decorator.name}",
            expected=f"{_EXAMPLE}, whose input is a class of this file with @schema",
            actual=source.shown(input_node or call),
        )
        return None
    return OtherFlowDeclaration(
        name=decorator.name,
        input=of_class.schema,
        output=_output(reader, decorator),
        key_field=key,
    )


def _output(reader: TypeReader, decorator: Decorator) -> Expression | None:
    node = decorator.arguments.get("output")
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return None
    if isinstance(node, ast.Name):
        return reader.read(node)
    reader.source.report(
        node,
        f"the result of {decorator.name}",
        expected="a class with @schema, or bool, int, str, bytes, Decimal, datetime or timedelta",
        actual=reader.source.shown(node),
        hint="put it into a class with @schema in the other flow",
    )
    return None


def read_calls(
    source: PythonSource, decorator: Decorator, declared: Mapping[str, OtherFlowDeclaration]
) -> tuple[str, ...]:
    """The variables of ``calls=[…]`` of ``@flow``."""
    node = decorator.arguments.get("calls")
    if node is None:
        return ()
    elements = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
    for element in elements:
        if last_name(element) not in declared:
            source.report(
                element,
                "calls of the flow",
                expected=f"a list of flows that are declared with NAME = {_EXAMPLE}",
                actual=source.shown(element),
            )
    return tuple(name for element in elements if (name := last_name(element)) in declared)


def check_calls(
    source: PythonSource,
    declared: Mapping[str, OtherFlowDeclaration],
    calls: tuple[str, ...],
    is_operation: Callable[[ast.Call, str], bool],
) -> None:
    """The result of any other call would not come back (``flow_listen``)."""
    for node in bodies(source.tree):
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        is_call = is_operation(node, "call")
        if not is_call and not is_operation(node, "spawn"):
            continue
        name = last_name(node.args[1])
        if name not in declared:
            source.report(
                node.args[1],
                "the flow of cx.call or cx.spawn",
                expected=f"a name that is declared with NAME = {_EXAMPLE}",
                actual=source.shown(node.args[1]),
            )
        elif is_call and name not in calls:
            source.report(
                node.args[1],
                f"the flow does not call {name}: its result would not come back",
                hint=f"add {name} to calls=[…] of @flow",
            )
