"""The function with ``@flow`` of a file, as definitions of AIR (PF-20 to PF-26)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.author.python.decorators import (
    FLOW,
    Decorator,
    decorator_kind,
    derived_name,
    read_decorator,
)
from aos.author.python.other_flows import (
    OtherFlowDeclaration,
    check_calls,
    read_calls,
    read_other_flows,
)
from aos.author.python.python_source import PythonSource, bodies
from aos.author.python.schema_classes import SchemaClass, commented, documentation
from aos.author.python.type_annotations import Expression, TypeReader, last_name

_ARGUMENTS: Final = ("key", "listens", "view", "upgrade", "calls", "callable", "annotations")
_SHAPE: Final = "async def NAME(cx: Cx, input: INPUT) -> OUTPUT"
_OWN_EFFECTS: Final = ("sys/timer.set@1", "sys/effect.cancel@1")
_LIMITS: Final = {"effects": 1024, "events": 1024, "keys": 64}
_KEY_TYPES: Final = ("text", "int", "nat")
_CALLER: Final[Expression] = {
    "record": {
        "schema": {"text": {}}, "key": {"bytes": {}}, "path": {"text": {}}, "attempt": {"nat": {}},
    }
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Listened:
    """A schema whose events reach the flow. ``key_field`` is the path to the key in it."""

    schema: str
    key_field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowFunction:
    """The flow of a file. ``output`` is the type of its result, None if it has none;
    ``effects`` are those that the file uses, in the order of their declarations; ``others`` are
    the flows that it may call or spawn, and ``calls_others`` whether it may call any."""

    node: ast.AsyncFunctionDef
    name: str
    input: str
    output: Expression | None
    view: str | None
    key_field: str
    key_type: Expression
    listens: tuple[Listened, ...]
    effects: tuple[str, ...]
    upgrade: str | None
    others: tuple[OtherFlowDeclaration, ...] = ()
    calls_others: bool = False
    is_callable: bool = False
    annotations: str | None = None

    @property
    def returned(self) -> str | None:
        """The schema by which the results of its calls come back; None if it has none."""
        return self.schema("Return") if self.calls_others else None

    def schema(self, suffix: str) -> str:
        """The name of a schema that comes with the flow: ``shop/OrderControl@1``."""
        return derived_name(self.name, suffix)

    def air(self, module: str) -> list[dict[str, Any]]:
        """The ``defworkflow`` with the schemas and routes that come with it; ``module`` is the name
        of the ``defmodule``."""
        workflow = {
            "$kind": "defworkflow",
            **commented(documentation(self.node)),
            "name": self.name,
            "state": "aos/Flow@1",
            "event": self.schema("FlowEvent"),
            "context": "sys/WorkflowContext@1",
            "key_schema": self.schema("Key"),
            "effects_emitted": [*self.effects, *_OWN_EFFECTS],
            "limits": dict(_LIMITS),
            "lifecycle": "explicit",
            **({"upgrade": self.upgrade} if self.upgrade else {}),
            **({"annotations": self.annotations} if self.annotations else {}),
            "impl": {"module": module, "entrypoint": "step"},
        }
        schemas = {
            "Key": self.key_type,
            "Control": self._control(),
            "FlowEvent": self._event(),
            **({"Call": self._call()} if self.is_callable else {}),
            **({"Return": self._return()} if self.calls_others else {}),
        }
        return [
            *(_defschema(self.schema(suffix), of) for suffix, of in schemas.items()),
            _defschema("aos/Flow@1", flow_state()),
            workflow,
            *self._routes(),
        ]

    def _control(self) -> Expression:
        cancel = {"record": {"rollback": {"bool": {}}, "parent": {"option": _CALLER}}}
        command = {
            "Cancel": cancel,
            "Resume": {"record": {"skip": {"bool": {}}}},
            "Continue": {"unit": {}},
        }
        return {"record": {"instance": self.key_type, "command": {"variant": command}}}

    def _call(self) -> Expression:
        return {"record": {"input": {"ref": self.input}, "reply": _CALLER}}

    def _return(self) -> Expression:
        result: Expression = {"variant": {"Ok": {"bytes": {}}, "Failed": {"bytes": {}}}}
        fields = {"instance": self.key_type, "path": {"text": {}}, "attempt": {"nat": {}}}
        return {"record": {**fields, "result": result}}

    def _event(self) -> Expression:
        arms = {
            "Start": self.input,
            "Control": self.schema("Control"),
            "Receipt": "sys/EffectReceiptEnvelope@1",
            "Rejected": "sys/EffectReceiptRejected@1",
            **({"Call": self.schema("Call")} if self.is_callable else {}),
            **({"Return": self.schema("Return")} if self.calls_others else {}),
            **{f"M{number}": listened.schema for number, listened in enumerate(self.listens)},
        }
        return {"variant": {arm: {"ref": schema} for arm, schema in arms.items()}}

    def _routes(self) -> Iterator[dict[str, Any]]:
        route = {"$kind": "subscription", "workflow": self.name}
        yield {**route, "event": self.input, "key_field": self.key_field}
        for listened in self.listens:
            yield {**route, "event": listened.schema, "key_field": listened.key_field}
        control = self.schema("Control")
        yield {**route, "event": control, "key_field": "instance", "creates": False}
        if self.is_callable:
            key_field = f"input.{self.key_field}"
            yield {**route, "event": self.schema("Call"), "key_field": key_field}
        if self.calls_others:
            returned = self.schema("Return")
            yield {**route, "event": returned, "key_field": "instance", "creates": False}


def flow_state() -> Expression:
    """The type of ``aos/Flow@1``, the state of every flow (spec/flow.md, FL-10)."""
    optional_bytes: Expression = {"option": {"bytes": {}}}
    schemas: dict[str, Expression] = {name: {"option": {"text": {}}} for name in ("output", "view")}
    return {
        "record": {
            "ops": {"bytes": {}},
            "view": optional_bytes,
            "error": optional_bytes,
            "inbox": {"bytes": {}},
            "input": optional_bytes,
            "output": optional_bytes,
            "schemas": {"record": {"input": {"text": {}}, **schemas}},
            "parent": {"option": _CALLER},
            "refs": {"set": {"hash": {}}},
            "status": {"text": {}},
            "started_ns": {"nat": {}},
        }
    }


def _defschema(name: str, of: Expression) -> dict[str, Any]:
    return {"$kind": "defschema", "name": name, "type": of}


def read_flow(
    source: PythonSource, reader: TypeReader, classes: Mapping[str, SchemaClass]
) -> FlowFunction | None:
    """The flow of the file; None after a problem, which is then reported."""
    functions = [
        node
        for node in source.tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and any(decorator_kind(decorator) == FLOW for decorator in node.decorator_list)
    ]
    if not functions:
        source.report(
            None, "the file has no flow", expected='@flow("NAMESPACE/NAME@1", key="FIELD")'
        )
        return None
    for further in functions[1:]:
        source.report(
            further,
            f"{further.name} is a second flow; the first is {functions[0].name} in line "
            f"{functions[0].lineno}",
            expected="one flow in each file",
            hint="move it to a file and a project of its own, or make it a function without @flow",
        )
    node = functions[0]
    decorator = read_decorator(source, node, FLOW, _ARGUMENTS)
    if decorator is None or not _has_shape(source, node):
        return None
    return _FlowReader(source, reader, classes).read(node, decorator)


def _has_shape(source: PythonSource, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    arguments = node.args
    is_plain = not (arguments.vararg or arguments.kwarg or arguments.kwonlyargs)
    count = len(arguments.posonlyargs) + len(arguments.args)
    if isinstance(node, ast.AsyncFunctionDef) and is_plain and count == 2:
        return True
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    actual = f"{kind} {node.name}({ast.unparse(arguments)})"
    source.report(node, "a flow is a function with two parameters", expected=_SHAPE, actual=actual)
    return False


@dataclass(frozen=True, slots=True)
class _FlowReader:
    source: PythonSource
    types: TypeReader
    classes: Mapping[str, SchemaClass]

    def read(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, decorator: Decorator
    ) -> FlowFunction | None:
        assert isinstance(node, ast.AsyncFunctionDef)
        parameter = [*node.args.posonlyargs, *node.args.args][1]
        input_class = self._class(parameter.annotation or parameter, "the input of the flow")
        key_field = decorator.text("key", example='"order_id"')
        if "key" not in decorator.arguments:
            self.source.report(
                decorator.node,
                f"the flow {node.name} names no key",
                hint='add key="FIELD", the field of its input that names an instance',
            )
        if input_class is None or key_field is None:
            return None
        key_type = self._key(decorator.arguments["key"], input_class, key_field)
        view = decorator.arguments.get("view")
        view_class = self._class(view, "the view of the flow") if view is not None else None
        listens = self._listens(decorator, input_class, key_field, key_type)
        self._check_listens(listens)
        others = read_other_flows(self.source, self.types, self.classes)
        calls = read_calls(self.source, decorator, others)
        check_calls(self.source, others, calls, is_operation)
        annotations = self._annotations(decorator)
        if key_type is None:
            return None
        return FlowFunction(
            node=node,
            name=decorator.name,
            input=input_class.schema,
            output=self._output(node),
            view=view_class.schema if view_class is not None else None,
            key_field=key_field,
            key_type=key_type,
            listens=tuple(listens.values()),
            effects=self._effects(),
            upgrade=decorator.choice("upgrade", ("quiesce", "in_place")),
            others=tuple(others.values()),
            calls_others=bool(calls),
            is_callable=decorator.flag("callable"),
            annotations=annotations,
        )

    def _annotations(self, decorator: Decorator) -> str | None:
        """The schema of ``cx.annotate``, which a workflow has to declare."""
        node = decorator.arguments.get("annotations")
        of_class = self._class(node, "the annotations of the flow") if node is not None else None
        for call in bodies(self.source.tree):
            if node is None and isinstance(call, ast.Call) and is_operation(call, "annotate"):
                self.source.report(
                    call,
                    "the flow has no annotations",
                    hint="add annotations=CLASS to @flow, a class with @schema",
                )
        return of_class.schema if of_class is not None else None

    def _class(self, node: ast.AST, meaning: str) -> SchemaClass | None:
        """The class with ``@schema`` that a node names; None after a problem."""
        of_class = self.classes.get(last_name(node))
        if of_class is not None and of_class.effect is None:
            return of_class
        actual = "no type" if isinstance(node, ast.arg) else self.source.shown(node)
        self.source.report(
            node, meaning, expected="a class of this file with @schema", actual=actual
        )
        return None

    def _output(self, node: ast.AsyncFunctionDef) -> Expression | None:
        if node.returns is None:
            self.source.report(
                node,
                f"the flow {node.name} has no type of its result",
                expected=_SHAPE,
                hint="write `-> None` for a flow without a result",
            )
            return None
        if isinstance(node.returns, ast.Constant) and node.returns.value is None:
            return None
        return self.types.read(node.returns)

    def _key(self, node: ast.AST, of_class: SchemaClass, path: str) -> Expression | None:
        """The type at a path of fields; None after a problem."""
        expression: Expression = of_class.type
        schemas = {other.schema: other.type for other in self.classes.values()}
        for part in path.split("."):
            while "ref" in expression:
                expression = schemas.get(expression["ref"], {})
            fields = expression.get("record", {})
            if part not in fields:
                self.source.report(
                    node,
                    f"the key of {of_class.node.name}",
                    expected=f"one of its fields: {', '.join(fields) or 'there is none'}",
                    actual=repr(path),
                )
                return None
            expression = fields[part]
        if not any(name in expression for name in _KEY_TYPES):
            self.source.report(
                node,
                f"the key {path} of {of_class.node.name}",
                expected="a field of the type str, int or Annotated[int, Nat]",
                actual=str(next(iter(expression))),
            )
            return None
        return expression

    def _listens(
        self,
        decorator: Decorator,
        input_class: SchemaClass,
        key_field: str,
        key_type: Expression | None,
    ) -> dict[str, Listened]:
        """The class of each listened schema -> the schema and its key."""
        node = decorator.arguments.get("listens")
        if node is None:
            return {}
        if not isinstance(node, (ast.List, ast.Tuple)):
            self.source.report(
                node,
                "listens of the flow",
                expected='a list such as [Canceled, by(Extended, "order.id")]',
                actual=self.source.shown(node),
            )
            return {}
        listens: dict[str, Listened] = {}
        for element in node.elts:
            name_node, path = _route(element, key_field)
            of_class = self._class(name_node, "a schema that the flow listens for")
            if of_class is None:
                continue
            name = of_class.node.name
            if name in listens or of_class is input_class:
                meaning = "the input" if of_class is input_class else "in the list"
                self.source.report(element, f"{name} is already {meaning}", hint="remove it")
                continue
            path_type = self._key(element, of_class, path)
            if key_type is not None and path_type is not None and path_type != key_type:
                self.source.report(
                    element,
                    f"the key {path} of {name}",
                    expected=f"the type of the flow's key, {next(iter(key_type))}",
                    actual=str(next(iter(path_type))),
                )
            listens[name] = Listened(schema=of_class.schema, key_field=path)
        return listens

    def _check_listens(self, listens: Mapping[str, Listened]) -> None:
        """A listen for any other schema would wait forever (``flow_listen``)."""
        for node in bodies(self.source.tree):
            if not isinstance(node, ast.Call) or not is_operation(node, "listen"):
                continue
            if len(node.args) < 2:
                continue
            argument = node.args[1]
            elements = argument.elts if isinstance(argument, (ast.List, ast.Tuple)) else [argument]
            for element in elements:
                name = last_name(element)
                if name in self.classes and name not in listens:
                    self.source.report(
                        element,
                        f"the flow does not listen for {name}: it would wait forever",
                        hint=f"add {name} to listens=[…] of @flow",
                    )

    def _effects(self) -> tuple[str, ...]:
        names = {node.id for node in bodies(self.source.tree) if isinstance(node, ast.Name)}
        return tuple(
            str(of_class.effect["name"])
            for name, of_class in self.classes.items()
            if of_class.effect is not None and name in names
        )


def is_operation(node: ast.Call, name: str) -> bool:
    """Whether a call is ``cx.NAME(…)``, of any variable whose name begins with ``cx``."""
    function = node.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr == name
        and isinstance(function.value, ast.Name)
        and function.value.id.startswith("cx")
    )


def _route(node: ast.expr, key_field: str) -> tuple[ast.expr, str]:
    """The class and the key of an element of ``listens``."""
    match node:
        case ast.Call(func=function, args=[of_class, ast.Constant(value=str(path))]) if (
            last_name(function) == "by"
        ):
            return of_class, path
    return node, key_field
