"""The classes with ``@schema`` and ``@effect``, as definitions of AIR (PF-14 to PF-18)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.author.python.decorators import (
    EFFECT,
    SCHEMA,
    Decorator,
    decorator_kind,
    derived_name,
    read_decorator,
)
from aos.author.python.python_source import PythonSource
from aos.author.python.type_annotations import Expression, TypeReader, last_name
from aos.manifest.expressions import references

_SCHEMA_ARGUMENTS: Final = ("frozen",)
_EFFECT_ARGUMENTS: Final = (
    "executor", "frozen", "params", "timeout_ms", "delivery", "idempotency_scope",
)  # fmt: skip
_DAY_MS: Final = 86_400_000
_RECEIPT: Final = "receipt"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaClass:
    """A class whose instances are values of a schema. ``type`` is a record with a type for each
    field; ``effect`` is the ``defeffect`` of an effect, whose params the fields are."""

    node: ast.ClassDef
    schema: str
    type: Expression
    effect: Mapping[str, Any] | None = None

    @property
    def comment(self) -> str | None:
        return documentation(self.node)

    def air(self) -> dict[str, Any]:
        """Its ``defschema``."""
        comment = None if self.effect is not None else self.comment
        return {"$kind": "defschema", **commented(comment), "name": self.schema, "type": self.type}


def schema_classes(source: PythonSource) -> tuple[TypeReader, dict[str, SchemaClass]]:
    """The reader of types of this file, and the classes by name. Problems are reported."""
    marked = dict(_marked_classes(source))
    reader = TypeReader(
        source=source,
        schemas={name: _schema_name(decorator) for name, (_, decorator) in marked.items()},
    )
    classes = {
        name: _read_class(reader, node, decorator) for name, (node, decorator) in marked.items()
    }
    _check_names(source, classes)
    _check_cycles(source, classes)
    return reader, classes


def documentation(node: ast.ClassDef | ast.AsyncFunctionDef) -> str | None:
    """The first paragraph of the docstring, on one line."""
    text = ast.get_docstring(node)
    return " ".join(text.split("\n\n")[0].split()) if text else None


def commented(comment: str | None) -> dict[str, str]:
    """The field ``$comment`` of a node, if there is one."""
    return {"$comment": comment} if comment else {}


def _marked_classes(source: PythonSource) -> Iterator[tuple[str, tuple[ast.ClassDef, Decorator]]]:
    names: dict[str, ast.ClassDef] = {}
    for node in source.tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        kinds = [kind for line in node.decorator_list if (kind := decorator_kind(line))]
        if not kinds or kinds[0] not in (SCHEMA, EFFECT):
            continue
        arguments = _EFFECT_ARGUMENTS if kinds[0] == EFFECT else _SCHEMA_ARGUMENTS
        decorator = read_decorator(source, node, kinds[0], arguments)
        if node.name in names:
            source.report(
                node,
                f"the class {node.name} is there twice",
                hint=f"rename it: the first is in line {names[node.name].lineno}",
            )
        elif decorator is not None:
            yield node.name, (node, decorator)
        names.setdefault(node.name, node)


def _is_effect(decorator: Decorator) -> bool:
    return decorator_kind(decorator.node) == EFFECT


def _schema_name(decorator: Decorator) -> str:
    if not _is_effect(decorator):
        return decorator.name
    params = decorator.arguments.get("params")
    if isinstance(params, ast.Constant) and isinstance(params.value, str):
        return params.value
    return derived_name(decorator.name, "Params")


def _read_class(reader: TypeReader, node: ast.ClassDef, decorator: Decorator) -> SchemaClass:
    fields: dict[str, Expression] = {}
    receipt: str | None = None
    decorator.flag("frozen")
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            if last_name(line.target) == _RECEIPT and _is_effect(decorator):
                receipt = _read_receipt(reader, line)
                continue
            _read_field(reader, node, line, fields)
        elif not _is_allowed(line):
            reader.source.report(
                line,
                f"the class {node.name}",
                expected="fields such as `cents: int`, methods and a docstring",
                actual=reader.source.shown(line),
                hint="give the field a type" if isinstance(line, ast.Assign) else None,
            )
    effect = _read_effect(reader, node, decorator, receipt) if _is_effect(decorator) else None
    return SchemaClass(
        node=node, schema=reader.schemas[node.name], type={"record": fields}, effect=effect
    )


def _is_allowed(line: ast.stmt) -> bool:
    if isinstance(line, ast.Expr):
        return isinstance(line.value, ast.Constant)
    return isinstance(line, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Pass))


def _read_field(
    reader: TypeReader, node: ast.ClassDef, line: ast.AnnAssign, fields: dict[str, Expression]
) -> None:
    name = last_name(line.target)
    if name in fields:
        reader.source.report(line, f"{node.name} has the field {name} twice", hint="remove one")
    if last_name(getattr(line.annotation, "value", line.annotation)) == "ClassVar":
        reader.source.report(
            line,
            f"{name} of {node.name} is no field: only `receipt` of an effect is a ClassVar",
            hint="write a constant outside of the class",
        )
        return
    if isinstance(line.value, (ast.List, ast.Dict, ast.Set)):
        factory = {ast.List: "list", ast.Dict: "dict", ast.Set: "set"}[type(line.value)]
        reader.source.report(
            line.value,
            f"the default of {name}: all instances would share it",
            hint=f"write field(default_factory={factory})",
        )
    expression = reader.read(line.annotation)
    if expression is not None:
        fields.setdefault(name, expression)


def _read_receipt(reader: TypeReader, line: ast.AnnAssign) -> str | None:
    """The schema of ``receipt: ClassVar[type[Charged]]``."""
    match line.annotation:
        case ast.Subscript(value=outer, slice=ast.Subscript(value=inner, slice=receipt)) if (
            last_name(outer) == "ClassVar" and last_name(inner) == "type" and line.value is None
        ):
            schema = reader.schemas.get(last_name(receipt))
            if schema is not None:
                return schema
    reader.source.report(
        line,
        "the receipt of an effect",
        expected="receipt: ClassVar[type[RECEIPT]] with a class with @schema",
        actual=reader.source.shown(line),
    )
    return None


def _read_effect(
    reader: TypeReader, node: ast.ClassDef, decorator: Decorator, receipt: str | None
) -> Mapping[str, Any]:
    has_line = any(
        isinstance(line, ast.AnnAssign) and last_name(line.target) == _RECEIPT for line in node.body
    )
    if not has_line:
        reader.source.report(
            node,
            f"the effect {node.name} names no receipt",
            hint="add `receipt: ClassVar[type[RECEIPT]]` with the class of its result",
        )
    executor = decorator.text("executor", example='"shop"')
    if "executor" not in decorator.arguments:
        reader.source.report(
            decorator.node,
            f"the effect {node.name} names no executor",
            hint='add executor="NAME", the name of the Executors in effects.py',
        )
    settings: dict[str, Any] = {"timeout_ms": decorator.number("timeout_ms", most=_DAY_MS)}
    settings["delivery"] = decorator.choice("delivery", ("at_least_once", "at_most_once"))
    settings["idempotency_scope"] = decorator.choice("idempotency_scope", ("cell", "world"))
    decorator.text("params", example='"shop/ChargeParams@1"')
    return {
        "$kind": "defeffect",
        **commented(documentation(node)),
        "name": decorator.name,
        "params": reader.schemas[node.name],
        "receipt": receipt,
        "impl": {"executor": executor},
        **{name: value for name, value in settings.items() if value is not None},
    }


def _check_names(source: PythonSource, classes: Mapping[str, SchemaClass]) -> None:
    """Two classes of one schema would make two values of one."""
    first_classes: dict[str, SchemaClass] = {}
    for of_class in classes.values():
        names = [of_class.schema]
        if of_class.effect is not None:
            names.append(f"effect {of_class.effect['name']}")
        for name in names:
            first = first_classes.setdefault(name, of_class)
            if first is not of_class:
                source.report(
                    of_class.node,
                    f"{of_class.node.name} and {first.node.name} have the name {name}",
                    hint=f"rename one; {first.node.name} is in line {first.node.lineno}",
                )


def _check_cycles(source: PythonSource, classes: Mapping[str, SchemaClass]) -> None:
    types = {of_class.schema: of_class for of_class in classes.values()}
    for schema, of_class in types.items():
        reached, todo = set[str](), [schema]
        while todo:
            inner = types.get(todo.pop())
            names = {name for _, name in references(inner.type)} if inner is not None else set()
            todo.extend(names - reached)
            reached |= names
        if schema in reached:
            source.report(
                of_class.node,
                f"the schema {schema} contains itself",
                hint="schemas are finite: refer to the other value by its id",
            )
