"""Write out the constructors of dataclasses, so that mypyc compiles them (spec/compiled.md).

A constructor that ``dataclass`` generates at import is interpreted, and that of a frozen class sets
each field by a call. Here each class gets a plain constructor, and support for copying and
pickling, which compiled classes lack. All else (equality, hash, representation, frozen fields)
still comes from ``dataclass``. Constants of a class move into a base class, because mypyc takes
them for fields.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final

# Only the compiler reads the decorator; it has no effect at run time.
_MYPYC_ATTR: Final = """\
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
"""
_MADE_AGAIN: Final = "from aos.values.compiled import made_again\n"

OPEN: Final = frozenset({"Kernel", "Schema"})
"""Classes that interpreted code derives from."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    annotation: str
    default: str | None


def written_out(source: str, name: str) -> str:
    """The source of the module ``name`` with constructors; all else is unchanged.

    Raises:
        ValueError: A dataclass has a form that is not supported; the text names it and its place.
    """
    edits = _Edits(source)
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            if (options := _options(node, name)) is not None:
                _write_out(edits, node, options, name)
            if node.name in OPEN:
                edits.before(_first_line(node), "@mypyc_attr(allow_interpreted_subclasses=True)\n")
                edits.after(edits.future, _MYPYC_ATTR)
    return edits.text()


class _Edits:
    """Changes to the lines of a source. Lines keep their original numbers, from 1."""

    def __init__(self, source: str) -> None:
        self._lines = ["", *source.splitlines(keepends=True)]
        self._before: dict[int, str] = {}
        self._after: dict[int, str] = {}
        self.future = next(
            (i for i, line in enumerate(self._lines) if line.startswith("from __future__ ")), 0
        )

    def before(self, line: int, text: str) -> None:
        self._before[line] = text + self._before.get(line, "")

    def after(self, line: int, text: str) -> None:
        if text not in self._after.get(line, ""):
            self._after[line] = self._after.get(line, "") + text

    def change(self, line: int, old: str, new: str) -> bool:
        changed = self._lines[line].replace(old, new, 1)
        was, self._lines[line] = self._lines[line], changed
        return was != changed

    def drop(self, first: int, last: int) -> None:
        for line in range(first, last + 1):
            self._lines[line] = ""

    def text(self) -> str:
        return "".join(
            self._before.get(i, "") + line + self._after.get(i, "")
            for i, line in enumerate(self._lines)
        )


def _options(node: ast.ClassDef, name: str) -> dict[str, bool] | None:
    """The arguments of a class's ``dataclass`` decorator; None without one."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(called, ast.Name) and called.id == "dataclass":
            given = decorator.keywords if isinstance(decorator, ast.Call) else []
            return {str(each.arg): bool(ast.literal_eval(each.value)) for each in given}
        if ast.unparse(called).endswith("dataclass"):
            raise ValueError(f"{name}:{node.lineno}: write @dataclass, by that name alone")
    return None


def _write_out(edits: _Edits, node: ast.ClassDef, options: dict[str, bool], name: str) -> None:
    fields: list[_Field] = []
    constants: list[ast.AnnAssign] = []
    last = 0
    has_constructor = bool(node.bases)
    for each in node.body:
        if isinstance(each, ast.FunctionDef):
            has_constructor |= each.name in ("__init__", "__post_init__")
        if not (isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)):
            continue
        annotation = ast.unparse(each.annotation)
        if annotation.partition("[")[0] == "ClassVar":
            constants.append(each)
            continue
        default = ast.unparse(each.value) if each.value else None
        # A field with more than a name and a default is left to dataclass.
        has_constructor |= default is not None and default.startswith("field(")
        fields.append(_Field(each.target.id, annotation, default))
        last = each.end_lineno or each.lineno
    if constants:
        _move(edits, node, constants, name)
    if fields and not has_constructor:
        line = node.decorator_list[-1].lineno
        if not (
            edits.change(line, "@dataclass(", "@dataclass(init=False, ")
            or edits.change(line, "@dataclass", "@dataclass(init=False)")
        ):
            raise ValueError(f"{name}:{line}: expected @dataclass right above class {node.name}")
        edits.after(last, _constructor(fields, options) + _reduce(node.name, fields))
        edits.after(edits.future, _MADE_AGAIN)


def _constructor(fields: list[_Field], options: dict[str, bool]) -> str:
    star = "*, " if options.get("kw_only") else ""
    # The type checker sees an assignment to a frozen field; compiled code writes it.
    frozen = "  # type: ignore[misc]" if options.get("frozen") else ""
    parameters = ", ".join(
        f"{each.name}: {each.annotation}" + (f" = {each.default}" if each.default else "")
        for each in fields
    )
    body = "".join(f"        self.{each.name} = {each.name}{frozen}\n" for each in fields)
    return f"\n    def __init__(self, {star}{parameters}) -> None:\n{body}"


def _reduce(name: str, fields: list[_Field]) -> str:
    pairs = ", ".join(f'"{each.name}": self.{each.name}' for each in fields)
    return (
        "\n    def __reduce__(self) -> tuple[object, ...]:\n"
        f"        return made_again, ({name}, {{{pairs}}})\n"
    )


def _move(edits: _Edits, node: ast.ClassDef, constants: list[ast.AnnAssign], name: str) -> None:
    base = f"_{node.name}Constants"
    lines = [f"class {base}:\n"]
    for each in constants:
        annotation = ast.unparse(each.annotation)
        assert each.value is not None, f"{name}:{each.lineno}: a constant without a value"
        typed = annotation if "[" in annotation else f"ClassVar[{_type(each.value)}]"
        lines.append(f"    {ast.unparse(each.target)}: {typed} = {ast.unparse(each.value)}\n")
        edits.drop(each.lineno, each.end_lineno or each.lineno)
    if not edits.change(node.lineno, f"class {node.name}:", f"class {node.name}({base}):"):
        raise ValueError(f"{name}:{node.lineno}: expected class {node.name} without bases")
    edits.before(_first_line(node), "".join(lines) + "\n\n")


def _type(value: ast.expr) -> str:
    return type(ast.literal_eval(value)).__name__


def _first_line(node: ast.ClassDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])
