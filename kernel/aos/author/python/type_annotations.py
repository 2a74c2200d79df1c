"""Annotations of Python as types of AIR (PF-10 to PF-13)."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aos.author.python.python_source import PythonSource

Expression = Mapping[str, Any]

_PLAIN: Final[Mapping[str, str]] = {
    "bool": "bool", "int": "int", "str": "text", "bytes": "bytes", "Decimal": "dec128",
    "datetime": "time", "timedelta": "duration",
}  # fmt: skip
_KEYS: Final[tuple[Expression, ...]] = ({"int": {}}, {"nat": {}}, {"text": {}})

_REMEDIES: Final[Mapping[str, str]] = {
    "float": "use int in the smallest unit, or Decimal: floats differ between machines and "
    "have no place in a schema",
    "complex": "use two fields",
    "tuple": "use list, or a class with @schema and a field for each part",
    "frozenset": "use set",
    "Any": "a schema has one type for each field: name it",
    "object": "a schema has one type for each field: name it",
    "Optional": "write X | None",
    "Union": "write A | B",
    "List": "write list[…]",
    "Dict": "write dict[…, …]",
    "Set": "write set[…]",
    "date": "use datetime at midnight, or str",
    "time": "use timedelta since midnight, or str",
    "Enum": 'use Literal["a", "b"]',
    "TypedDict": "use a class with @schema",
    "Mapping": "use dict",
    "Sequence": "use list",
}
_TYPES: Final = (
    "bool, int, str, bytes, Decimal, datetime, timedelta, list[…], set[…], dict[…, …], X | None, "
    "A | B of schemas, Literal[…], Annotated[int, Nat], or a class with @schema"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeReader:
    """Reads annotations of one file. ``schemas`` has the schema name of each class."""

    source: PythonSource
    schemas: Mapping[str, str]

    def read(self, node: ast.expr) -> Expression | None:
        """The type of an annotation; None after a problem, which is then reported."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self._quoted(node, node.value)
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._named(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._union(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        self._refuse(node, hint="None alone has no value" if _is_none(node) else None)
        return None

    def _quoted(self, node: ast.Constant, text: str) -> Expression | None:
        try:
            inner = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._refuse(node)
            return None
        for part in ast.walk(inner):
            ast.copy_location(part, node)
        return self.read(inner)

    def _named(self, node: ast.Name | ast.Attribute) -> Expression | None:
        name = last_name(node)
        if (schema := self.schemas.get(name)) is not None:
            return {"ref": schema}
        if (plain := _PLAIN.get(name)) is not None:
            return {plain: {}}
        hint = _REMEDIES.get(name)
        if name in ("list", "set", "dict"):
            hint = f"say of which type: {name}[{'str, int' if name == 'dict' else 'str'}]"
        self._refuse(node, hint=hint)
        return None

    def _subscript(self, node: ast.Subscript) -> Expression | None:
        name = last_name(node.value)
        arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name in ("list", "set") and len(arguments) == 1:
            item = self.read(arguments[0])
            return None if item is None else {name: item}
        if name == "dict" and len(arguments) == 2:
            return self._dict(arguments[0], arguments[1])
        if name == "Literal":
            return self._literal(node, arguments)
        if name == "Annotated":
            return self._annotated(node, arguments)
        self._refuse(node, hint=_REMEDIES.get(name))
        return None

    def _dict(self, key_node: ast.expr, item_node: ast.expr) -> Expression | None:
        key, item = self.read(key_node), self.read(item_node)
        if key is None or item is None:
            return None
        if key not in _KEYS:
            self.source.report(
                key_node,
                "the key of a dict",
                expected="str, int or Annotated[int, Nat]",
                actual=self.source.shown(key_node),
                hint="use list of a class with @schema for other keys",
            )
            return None
        return {"map": {"key": key, "value": item}}

    def _literal(self, node: ast.Subscript, arguments: list[ast.expr]) -> Expression | None:
        arms: dict[str, Expression] = {}
        for argument in arguments:
            text = argument.value if isinstance(argument, ast.Constant) else None
            if not isinstance(text, str) or not is_part_name(text):
                self.source.report(
                    argument,
                    "an arm of Literal",
                    expected="a text of 1 to 256 bytes that does not begin with $",
                    actual=self.source.shown(argument),
                )
                return None
            if text in arms:
                self.source.report(argument, f"Literal has {text!r} twice", hint="remove one")
                return None
            arms[text] = {"unit": {}}
        if not arms:
            self._refuse(node)
            return None
        return {"variant": arms}

    def _annotated(self, node: ast.Subscript, arguments: list[ast.expr]) -> Expression | None:
        match arguments:
            case [ast.Name(id="int"), ast.Name(id="Nat") | ast.Attribute(attr="Nat")]:
                return {"nat": {}}
        self._refuse(node, hint="Annotated[int, Nat] is the only one: an int that is never below 0")
        return None

    def _union(self, node: ast.BinOp) -> Expression | None:
        members = _members(node)
        types = [member for member in members if not _is_none(member)]
        if len(members) - len(types) > 1 or not types:
            self._refuse(node, hint="None is there once, next to a type")
            return None
        if len(types) == 1:
            item = self.read(types[0])
            if item is None:
                return None
            return {"option": item}
        arms = self._arms(types)
        if arms is None:
            return None
        variant = {"variant": arms}
        return variant if len(types) == len(members) else {"option": variant}

    def _arms(self, types: list[ast.expr]) -> dict[str, Expression] | None:
        arms: dict[str, Expression] = {}
        for member in types:
            name = last_name(member)
            schema = self.schemas.get(name)
            if schema is None or name in arms:
                self.source.report(
                    member,
                    "a member of a union",
                    expected="different classes with @schema, or one type and None",
                    actual=self.source.shown(member),
                    hint="give each member a class with @schema: its name is the arm",
                )
                return None
            arms[name] = {"ref": schema}
        return arms

    def _refuse(self, node: ast.expr, *, hint: str | None = None) -> None:
        self.source.report(
            node,
            "a type that no schema has",
            expected=_TYPES,
            actual=self.source.shown(node),
            hint=hint,
        )


def last_name(node: ast.AST) -> str:
    """``datetime`` of ``datetime`` and of ``datetime.datetime``; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def is_part_name(text: str) -> bool:
    """Whether a text can be the name of a field or an arm."""
    try:
        return 1 <= len(text.encode()) <= 256 and not text.startswith("$")
    except UnicodeEncodeError:
        return False


def _members(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_members(node.left), *_members(node.right)]
    return [node]


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
