"""Places where a program sees the order of a set, or the address of an instance (PF-32, PF-33).

Only expressions whose type is visible are recognised: literals, calls, names that are only bound
to such expressions or have an annotation, and fields of schemas.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from aos.author.python.own_names import OwnNames
from aos.author.python.python_source import bodies
from aos.author.python.type_annotations import last_name

_SETS: Final = ("set", "frozenset")
_SET_METHODS: Final = ("union", "intersection", "difference", "symmetric_difference", "copy")
_SET_OPERATORS: Final = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
_ORDERED_CALLS: Final = (
    "list", "tuple", "enumerate", "iter", "next", "zip", "map", "filter", "dict", "str", "repr",
    "reversed",
)  # fmt: skip
_BLIND_CALLS: Final = ("sorted", "set", "frozenset", "len", "sum", "min", "max", "any", "all")
"""Calls whose result does not depend on the order of their argument."""
_VALUES: Final = ("schema", "effect")
_TEXT_CALLS: Final = ("repr", "str", "format", "print", "ascii")

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


@dataclass(slots=True)
class NameTypes:
    """The expressions that are visibly sets, or instances of a class without ``__repr__``."""

    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    set_fields: set[str] = field(default_factory=set)
    plain_classes: set[str] = field(default_factory=set)
    shown_classes: set[str] = field(default_factory=set)
    """Plain classes with ``__str__``, whose ``repr`` alone shows an address."""

    bound_names: set[str] = field(default_factory=set)
    schema_names: set[str] = field(default_factory=set)
    aliased: set[tuple[ast.AST, str]] = field(default_factory=set)
    own: OwnNames = field(init=False)
    _is_set: dict[ast.AST, bool] = field(default_factory=dict)
    _bindings: dict[tuple[ast.AST, str], list[ast.AST | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.own = OwnNames(self.tree)
        other_fields: set[str] = set()
        for node in bodies(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
            if isinstance(node, ast.ClassDef):
                for line in node.body:
                    if isinstance(line, ast.AnnAssign):
                        is_set = is_set_annotation(line.annotation)
                        (self.set_fields if is_set else other_fields).add(last_name(line.target))
                if any(
                    last_name(getattr(decorator, "func", decorator)) in _VALUES
                    for decorator in node.decorator_list
                ):
                    self.schema_names.add(node.name)
                if not node.decorator_list and not _has_method(node, "__repr__"):
                    self.plain_classes.add(node.name)
                    if _has_method(node, "__str__"):
                        self.shown_classes.add(node.name)
        self.set_fields -= other_fields
        for node in bodies(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.bound_names.add(node.name)
            for name, value in _bound(node):
                self.bound_names.add(name)
                self._bindings.setdefault((self.scope(node), name), []).append(value)
                if isinstance(node, ast.Assign) and isinstance(value, ast.Name):
                    self.aliased |= {(self.scope(node), value.id), (self.scope(node), name)}

    def scope(self, node: ast.AST) -> ast.AST:
        """The function, class or module in which a node is; of a parameter its function."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, Scope):
                return node
        return node

    def is_in_annotation(self, node: ast.AST) -> bool:
        """Whether a node is in an annotation, which the interpreter does not evaluate."""
        child = node
        while (parent := self.parents.get(child)) is not None:
            if isinstance(parent, (ast.AnnAssign, ast.arg)):
                return child is parent.annotation
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return child is parent.returns
            child = parent
        return False

    def is_set(self, node: ast.AST) -> bool:
        """Whether an expression is visibly a set."""
        if node not in self._is_set:
            self._is_set[node] = False  # of a name that is bound to itself
            self._is_set[node] = self._decide_set(node)
        return self._is_set[node]

    def _decide_set(self, node: ast.AST) -> bool:
        if isinstance(node, (ast.Set, ast.SetComp)):
            return True
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute) and function.attr in _SET_METHODS:
                return self.is_set(function.value)
            return isinstance(function, ast.Name) and function.id in _SETS
        if isinstance(node, ast.BinOp) and isinstance(node.op, _SET_OPERATORS):
            return self.is_set(node.left) or self.is_set(node.right)
        if isinstance(node, ast.Attribute):
            return node.attr in self.set_fields
        if isinstance(node, ast.Name):
            values = self.values(node)
            return bool(values) and all(
                value is not None and (is_set_annotation(value) or self._is_set_value(value))
                for value in values
            )
        return False

    def _is_set_value(self, node: ast.AST) -> bool:
        """Not through a second name: a chain of names may be as long as the file."""
        return not isinstance(node, ast.Name) and self.is_set(node)

    def is_plain_instance(self, node: ast.AST, *, of_repr: bool) -> bool:
        """Whether an expression is visibly an instance whose text shows its address."""
        if isinstance(node, ast.Call):
            classes = self.plain_classes if of_repr else self.plain_classes - self.shown_classes
            return isinstance(node.func, ast.Name) and node.func.id in classes
        if isinstance(node, ast.Name):
            values = self.values(node)
            return bool(values) and all(
                isinstance(value, ast.Call) and self.is_plain_instance(value, of_repr=of_repr)
                for value in values
            )
        return False

    def values(self, node: ast.Name) -> list[ast.AST | None]:
        """The expressions and annotations that a name is bound to, in the nearest scope."""
        scope = self.scope(node)
        while True:
            if (scope, node.id) in self._bindings:
                return self._bindings[scope, node.id]
            if scope not in self.parents:
                return []
            scope = self.scope(scope)


def shows_set_order(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node goes through a set in its order."""
    if isinstance(node, (ast.For, ast.Starred)):
        return types.is_set(node.iter if isinstance(node, ast.For) else node.value)
    if isinstance(node, (ast.ListComp, ast.DictComp, ast.GeneratorExp)):
        parent = types.parents.get(node)
        is_blind = isinstance(parent, ast.Call) and last_name(parent.func) in _BLIND_CALLS
        return not is_blind and any(types.is_set(part.iter) for part in node.generators)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Tuple, ast.List)):
        return types.is_set(node.value)
    if isinstance(node, ast.FormattedValue):
        return types.is_set(node.value)
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    if isinstance(function, ast.Attribute):
        is_pop = function.attr == "pop" and types.is_set(function.value)
        takes_set = function.attr in ("join", "extend") and bool(node.args)
        return is_pop or (takes_set and types.is_set(node.args[0]))
    is_ordered = isinstance(function, ast.Name) and function.id in _ORDERED_CALLS
    return is_ordered and any(types.is_set(argument) for argument in node.args)


def shows_address(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node shows the default text of an instance."""
    if isinstance(node, ast.FormattedValue):
        return types.is_plain_instance(node.value, of_repr=node.conversion == ord("r"))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    of_repr = node.func.id == "repr"
    return node.func.id in _TEXT_CALLS and any(
        types.is_plain_instance(argument, of_repr=of_repr) for argument in node.args
    )


def is_set_annotation(node: ast.AST) -> bool:
    """Whether an expression is the type ``set[…]``, which no value is."""
    name = last_name(node.value if isinstance(node, ast.Subscript) else node)
    return name in _SETS and isinstance(node, (ast.Subscript, ast.Name))


def _has_method(node: ast.ClassDef, name: str) -> bool:
    return any(isinstance(line, ast.FunctionDef) and line.name == name for line in node.body)


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """(name, expression or annotation) of each name that a node binds; None if neither is known."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
            else:
                yield from ((name, None) for name in _stored(target))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, node.annotation
    elif isinstance(node, ast.arg):
        yield node.arg, node.annotation
    elif isinstance(node, ast.NamedExpr):
        yield node.target.id, node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield from ((name, None) for name in _stored(node.target))
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from ((name, None) for name in _stored(node.optional_vars))


def _stored(target: ast.AST) -> Iterator[str]:
    return (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
