"""The names that a source file gives to its own things, and those that it imports."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final

from aos.author.python.python_source import bodies
from aos.author.python.type_annotations import last_name

BUILTIN_TYPES: Final = (
    "int", "str", "bytes", "bool", "float", "list", "dict", "set", "frozenset", "tuple", "range",
)  # fmt: skip
IMPORTED_TYPES: Final = {
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "collections": ("Counter", "defaultdict", "deque"),
}


@dataclass(slots=True)
class OwnNames:
    """``attributes`` are the fields, methods and other attributes that the file defines, in any
    class; None if it computes names of attributes. ``functions`` are names that are bound to
    functions alone. ``modules``, ``types`` and ``members`` are local names of imported modules, of
    built-in types and of other members of modules, unless the file binds the name to something
    else, too; ``bound`` are all other names."""

    tree: ast.Module
    attributes: set[str] | None = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    modules: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=lambda: {name: name for name in BUILTIN_TYPES})
    members: dict[str, str] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    _imported: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        functions: list[str] = []
        for node in bodies(self.tree):
            self._read_imports(node)
            self._read_attributes(node)
            names = _bound_by(node)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                functions.extend(names)
            else:
                self.bound |= names
        self.functions = set(functions) - self.bound
        self.bound |= set(functions)
        for name, targets in self._imported.items():
            self.types.pop(name, None)
            if len(targets) > 1 or name in self.bound:
                self.bound.add(name)
            else:
                self._place(name, *targets)
        for name in self.bound:
            self.types.pop(name, None)

    def defines(self, name: str) -> bool:
        """Whether an attribute of this name may be one of the file's own."""
        return self.attributes is None or name in self.attributes

    def module_of(self, node: ast.expr) -> str | None:
        """The module that an expression is, such as ``re`` or ``dt`` after its import."""
        return self.modules.get(node.id) if isinstance(node, ast.Name) else None

    def type_of(self, node: ast.expr) -> str | None:
        """The built-in type that an expression is: ``str``, ``date`` or ``datetime.date``."""
        if isinstance(node, ast.Name):
            return self.types.get(node.id)
        if isinstance(node, ast.Attribute):
            module = self.module_of(node.value)
            return node.attr if node.attr in IMPORTED_TYPES.get(module or "", ()) else None
        return None

    def qualified(self, node: ast.expr) -> str | None:
        """``re.sub`` for a name or an attribute that is this member of a module."""
        if isinstance(node, ast.Name):
            return self.members.get(node.id)
        if isinstance(node, ast.Attribute) and (module := self.module_of(node.value)):
            return f"{module}.{node.attr}"
        return None

    def _read_imports(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._imported.setdefault(alias.asname or alias.name, set()).add(alias.name)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                self._imported.setdefault(alias.asname or alias.name, set()).add(target)

    def _place(self, name: str, target: str) -> None:
        module, _, member = target.rpartition(".")
        if not module:
            self.modules[name] = target
        elif member in IMPORTED_TYPES.get(module, ()):
            self.types[name] = member
        else:
            self.bound.add(name)
            self.members[name] = target

    def _read_attributes(self, node: ast.AST) -> None:
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                self._add(*_class_names(line))
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            self._add(node.attr)
        elif isinstance(node, ast.Call) and last_name(node.func) in ("namedtuple", "setattr"):
            self._add_fields(node.args[1:2])

    def _add(self, *names: str) -> None:
        if self.attributes is not None:
            self.attributes.update(names)

    def _add_fields(self, fields: list[ast.expr]) -> None:
        try:
            values = [ast.literal_eval(value) for value in fields]
        except ValueError:
            self.attributes = None
            return
        for value in values:
            texts = [value] if isinstance(value, str) else value
            for text in texts:
                self._add(*str(text).replace(",", " ").split())


def _class_names(line: ast.stmt) -> list[str]:
    if isinstance(line, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [line.name]
    targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _bound_by(node: ast.AST) -> set[str]:
    """The names that a node binds, other than by an import."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return {name}
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case (
            ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
        ):
            return {name}
        case _:
            return set()
