"""The Python that a flow cannot use: one table that refuses it and makes the list of
spec/python-flows.md (PF-30).

    python -m aos.author.python.unsupported_python     print the list as Markdown
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aos.author.python.flow_function import is_operation
from aos.author.python.interpreter_modules import (
    LACKING_NAMES,
    MODULES,
    OTHER_REMEDY,
    REMEDIES,
    TYPES_ONLY,
)
from aos.author.python.lacking_attributes import (
    LACKING_ATTRIBUTES,
    attribute_remedy,
    is_lacking_attribute,
    is_lacking_of_module,
    is_method_of_type,
    is_method_without_call,
)
from aos.author.python.lacking_calls import (
    LACKING_OPTIONS,
    UNKNOWN_ENCODINGS,
    is_bytes_of_items,
    is_change_of_shared_set,
    is_computed_replacement,
    is_extended_with_other,
    is_lacking_option,
    is_next_of_list,
    is_search_from_position,
    is_set_method_of_several,
    is_span_of_float,
    is_unknown_encoding,
)
from aos.author.python.python_source import PythonSource, bodies
from aos.author.python.set_order import NameTypes, shows_address, shows_set_order
from aos.author.python.type_annotations import last_name

OPERATIONS: Final = (
    "step", "local", "emit", "sleep", "listen", "join", "race", "scope", "loop", "version",
    "removed", "checkpoint", "rollback_to", "commit", "call", "spawn",
)  # fmt: skip
LACKING_BUILTINS: Final = (
    "__import__", "aiter", "anext", "ascii", "breakpoint", "bytearray", "callable", "classmethod",
    "compile", "delattr", "dir", "eval", "exec", "exit", "globals", "help", "input", "issubclass",
    "locals", "memoryview", "object", "open", "property", "quit", "staticmethod", "super", "vars",
)  # fmt: skip
LACKING_METHODS: Final = (
    "__await__", "__aenter__", "__aexit__", "__aiter__", "__anext__", "__bool__", "__del__",
    "__delattr__", "__format__", "__ge__", "__getattr__", "__getattribute__", "__gt__",
    "__init_subclass__", "__le__", "__len__", "__lt__", "__new__", "__setattr__",
)  # fmt: skip
_DATACLASS_OPTIONS: Final = ("frozen", "eq")
_CLOCKS: Final = ("now", "today", "utcnow")
_EXCEPTIONS: Final = frozenset(
    name
    for name, item in vars(builtins).items()
    if isinstance(item, type) and issubclass(item, BaseException)
)
_LIST_TITLES: Final = (
    "the methods ", "the built-in names ", "the attributes ", "the options ", "the encodings ",
)  # fmt: skip
_TYPE_ALIAS: Final = getattr(ast, "TypeAlias", ())
_TEMPLATE: Final = getattr(ast, "TemplateStr", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Construct:
    """One row of the table. ``title`` and ``remedy`` are Markdown for the page, and a message
    without its back quotes."""

    title: str
    remedy: str
    matches: Callable[[ast.AST, NameTypes], bool]


def _is(*kinds: type[ast.AST]) -> Callable[[ast.AST, NameTypes], bool]:
    return lambda node, _: isinstance(node, kinds)


def _calls(*names: str) -> Callable[[ast.AST, NameTypes], bool]:
    return lambda node, _: (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    )


def _is_async_comprehension(node: ast.AST, _: NameTypes) -> bool:
    return isinstance(node, ast.comprehension) and bool(node.is_async)


def _is_subclass(node: ast.AST, _: NameTypes) -> bool:
    return isinstance(node, ast.ClassDef) and bool(node.bases or node.keywords)


def _is_decorated_method(node: ast.AST, types: NameTypes) -> bool:
    return (
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and bool(node.decorator_list)
        and isinstance(types.parents.get(node), ast.ClassDef)
    )


def _is_lacking_method(node: ast.AST, types: NameTypes) -> bool:
    return (
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name in LACKING_METHODS
        and isinstance(types.parents.get(node), ast.ClassDef)
    )


def _is_class_statement(node: ast.AST, types: NameTypes) -> bool:
    parent = types.parents.get(node)
    if not isinstance(parent, ast.ClassDef) or node not in parent.body:
        return False
    if isinstance(node, ast.Assign):
        return len(node.targets) > 1 or not isinstance(node.targets[0], ast.Name)
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    return not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.AnnAssign, ast.Pass))


def _is_dataclass_option(node: ast.AST, types: NameTypes) -> bool:
    call = types.parents.get(node)
    return (
        isinstance(node, ast.keyword)
        and isinstance(call, ast.Call)
        and last_name(call.func) == "dataclass"
        and node.arg not in _DATACLASS_OPTIONS
    )


def _is_special_form(node: ast.AST, types: NameTypes) -> bool:
    """``Literal[…]`` or ``Annotated[…]`` that is evaluated: in an annotation it stays text."""
    return (
        isinstance(node, ast.Subscript)
        and last_name(node.value) in ("Literal", "Annotated")
        and not types.is_in_annotation(node)
    )


def _has_two_arguments(node: ast.AST, _: NameTypes) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _EXCEPTIONS
        and len(node.args) + len(node.keywords) > 1
    )


def _is_lacking_builtin(node: ast.AST, types: NameTypes) -> bool:
    return (
        isinstance(node, ast.Name)
        and node.id in LACKING_BUILTINS
        and node.id not in types.bound_names
        and isinstance(node.ctx, ast.Load)
        and not _is_annotation_of(node, types)
    )


def _is_annotation_of(node: ast.AST, types: NameTypes) -> bool:
    parent = types.parents.get(node)
    return isinstance(parent, (ast.arg, ast.AnnAssign)) and node is parent.annotation


def _reads_clock(node: ast.AST, _: NameTypes) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _CLOCKS
        and last_name(node.func.value) in ("datetime", "date")
    )


def _is_unawaited(node: ast.AST, _: NameTypes) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and any(is_operation(node.value, name) for name in OPERATIONS)
    )


def _gives_float(node: ast.AST, types: NameTypes) -> bool:
    """A float as an argument of a schema, an effect, an operation, Continue or Break."""
    if not isinstance(node, ast.Call):
        return False
    name = last_name(node.func)
    is_operation_call = any(
        is_operation(node, name) for name in (*OPERATIONS, "publish", "annotate")
    )
    is_value = name in ("Continue", "Break") or name in types.schema_names
    if not (is_operation_call or is_value):
        return False
    return any(map(_is_float, (*node.args, *(keyword.value for keyword in node.keywords))))


def _is_float(node: ast.AST) -> bool:
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return any(map(_is_float, node.elts))
    if isinstance(node, ast.Dict):
        return any(map(_is_float, node.values))
    if isinstance(node, ast.UnaryOp):
        return _is_float(node.operand)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "float"
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def _is_unknown_import(node: ast.AST, types: NameTypes) -> bool:
    return import_remedy(node, types) is not None


def import_remedy(node: ast.AST, types: NameTypes) -> str | None:
    """The way to do without an import that the interpreter cannot do; None for any other node."""
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return None
    is_type_import = _is_below_type_checking(node, types)
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name == "aos.flow":
                return "write from aos.flow import …"
            if alias.name not in MODULES and not is_type_import:
                return REMEDIES.get(alias.name.split(".")[0], OTHER_REMEDY)
        return None
    module = node.module or ""
    if node.level:
        return "a program is one file: move the code into it"
    if module not in MODULES:
        if is_type_import and module == TYPES_ONLY:
            return None
        return REMEDIES.get(module, REMEDIES.get(module.split(".")[0], OTHER_REMEDY))
    names = MODULES[module]
    for alias in node.names:
        if alias.name == "*":
            return "name the imported functions"
        if names is not None and alias.name not in names.split():
            return REMEDIES.get(alias.name, f"{module} has {', '.join(names.split())}")
        if alias.name in LACKING_NAMES.get(module, "").split():
            return REMEDIES.get(f"{module}.{alias.name}", OTHER_REMEDY)
    return None


def _is_below_type_checking(node: ast.AST, types: NameTypes) -> bool:
    parent = types.parents.get(node)
    return (
        isinstance(parent, ast.If)
        and last_name(parent.test) == "TYPE_CHECKING"
        and node in parent.body
    )


CONSTRUCTS: Final = (
    Construct(
        title="generators (`yield`)",
        remedy="build a list and return it",
        matches=_is(ast.Yield, ast.YieldFrom),
    ),
    Construct(
        title="`async for`",
        remedy="use `for`; to wait for several things, use `cx.join`",
        matches=_is(ast.AsyncFor),
    ),
    Construct(
        title="comprehensions with `async for`",
        remedy="use `for` and append to a list",
        matches=_is_async_comprehension,
    ),
    Construct(
        title="`async with`",
        remedy="use `try` and `finally`",
        matches=_is(ast.AsyncWith),
    ),
    Construct(
        title="`del`",
        remedy="use `pop` for items; let other names be",
        matches=_is(ast.Delete),
    ),
    Construct(
        title="`global` and `nonlocal`",
        remedy="return the value: a body that has ended is not run again, so its assignments "
        "would be lost",
        matches=_is(ast.Global, ast.Nonlocal),
    ),
    Construct(
        title="`except*`",
        remedy="use `except`; the failures of branches are the `causes` of a `FlowError`",
        matches=_is(ast.TryStar),
    ),
    Construct(
        title="`type` statements",
        remedy="write the type in each annotation",
        matches=lambda node, _: isinstance(node, _TYPE_ALIAS),
    ),
    Construct(
        title="template strings",
        remedy="use an f-string",
        matches=lambda node, _: isinstance(node, _TEMPLATE),
    ),
    Construct(
        title="base classes, own exceptions among them",
        remedy="write a plain class; raise `Critical(CODE, MESSAGE)` for a failure",
        matches=_is_subclass,
    ),
    Construct(
        title="properties and other decorators of methods",
        remedy="write a method without a decorator, or a function outside of the class",
        matches=_is_decorated_method,
    ),
    Construct(
        title="the methods " + ", ".join(f"`{name}`" for name in LACKING_METHODS),
        remedy="the interpreter never calls them: write a method with a name of your own",
        matches=_is_lacking_method,
    ),
    Construct(
        title="statements in a class other than fields, methods and a docstring",
        remedy="move them out of the class",
        matches=_is_class_statement,
    ),
    Construct(
        title="options of `@dataclass` other than `frozen` and `eq`",
        remedy="leave them out",
        matches=_is_dataclass_option,
    ),
    Construct(
        title="`Literal[…]` and `Annotated[…]` outside of annotations",
        remedy="write them in the annotation of a field, a parameter or a variable",
        matches=_is_special_form,
    ),
    Construct(
        title="built-in exceptions with more than one argument",
        remedy="give one text",
        matches=_has_two_arguments,
    ),
    Construct(
        title="the built-in names " + ", ".join(f"`{name}`" for name in LACKING_BUILTINS),
        remedy="the interpreter does not have them, or they show its insides",
        matches=_is_lacking_builtin,
    ),
    Construct(
        title="the attributes " + ", ".join(f"`{name}`" for name in LACKING_ATTRIBUTES),
        remedy="the message has the remedy of each; a class of the file may define such a name",
        matches=is_lacking_attribute,
    ),
    Construct(
        title="methods by the name of their type, such as `str.lower`, except calls of "
        "`dict.fromkeys`, `bytes.fromhex` and class methods of dates and times",
        remedy="call the method of a value: `lambda text: text.lower()`",
        matches=is_method_of_type,
    ),
    Construct(
        title="methods of built-in values without a call, such as `key=counts.get`",
        remedy="write a lambda that calls the method: `key=lambda name: counts.get(name)`",
        matches=is_method_without_call,
    ),
    Construct(
        title="names of modules that the next list lacks, such as `re.subn`",
        remedy=OTHER_REMEDY,
        matches=is_lacking_of_module,
    ),
    Construct(
        title="`bytes(…)` of the items of a list, a range or another iterable",
        remedy='use `bytes.fromhex("".join(f"{number:02x}" for number in numbers))`',
        matches=is_bytes_of_items,
    ),
    Construct(
        title="`next(…)` of a generator expression, `enumerate`, `filter`, `map`, `reversed` or "
        "`zip`",
        remedy="they are lists in the interpreter: use `next(iter([…]), None)`",
        matches=is_next_of_list,
    ),
    Construct(
        title="several arguments of `difference`, `intersection`, `union` and `update` of sets",
        remedy="call the method for each",
        matches=is_set_method_of_several,
    ),
    Construct(
        title="operators with assignment for a set that is a parameter or has a second name",
        remedy="they make a new set in the interpreter: use `update`, `add` and `discard`, or "
        "return the set",
        matches=is_change_of_shared_set,
    ),
    Construct(
        title="`+=` of a list with another type",
        remedy="use `extend`",
        matches=is_extended_with_other,
    ),
    Construct(
        title="a function as the replacement of `re.sub`",
        remedy="go through `re.finditer` and join the parts of the text",
        matches=is_computed_replacement,
    ),
    Construct(
        title="a position in `match` and `search` of a compiled pattern",
        remedy="search in a part of the text, `text[start:]`",
        matches=is_search_from_position,
    ),
    Construct(
        title="the options "
        + ", ".join(
            f"`{name}` of `{of}`" for of, names in LACKING_OPTIONS.items() for name in names
        ),
        remedy="convert the values before or after the call",
        matches=is_lacking_option,
    ),
    Construct(
        title="floats in a `timedelta`",
        remedy="write an int of a smaller unit: `timedelta(milliseconds=1500)`",
        matches=is_span_of_float,
    ),
    Construct(
        title="the encodings " + ", ".join(f"`{name}`" for name in UNKNOWN_ENCODINGS),
        remedy="use `utf-8`; other encodings are for effects: request one with `cx.step`",
        matches=is_unknown_encoding,
    ),
    Construct(
        title="`id()` and `hash()`",
        remedy="they differ between runs: use a field as the identity, and `hashlib` for a digest",
        matches=_calls("id", "hash"),
    ),
    Construct(
        title="the text of an instance whose class has no `__repr__`",
        remedy="it shows an address: make the class a `@dataclass`, or write `__repr__`",
        matches=shows_address,
    ),
    Construct(
        title="the order of a set: iteration, `list`, `join`, `pop`, unpacking, its text",
        remedy="use `sorted(…)`",
        matches=shows_set_order,
    ),
    Construct(
        title="the clock: `datetime.now()`, `today()`, `utcnow()`",
        remedy='use `cx.local("NAME", lambda local: local.now)`, which records the time',
        matches=_reads_clock,
    ),
    Construct(
        title="floats in values of schemas, params, states of loops and times",
        remedy="use an `int` in the smallest unit, `Decimal`, or a text such as `1500ms`",
        matches=_gives_float,
    ),
    Construct(
        title="an operation without `await`",
        remedy="write `await`: without it nothing is requested",
        matches=_is_unawaited,
    ),
    Construct(
        title="imports other than those of the next list",
        remedy=OTHER_REMEDY,
        matches=_is_unknown_import,
    ),
)


def check_constructs(source: PythonSource) -> None:
    """Report each use of a construct of the table, with its line and the remedy."""
    types = NameTypes(source.tree)
    for node in bodies(source.tree):
        for construct in CONSTRUCTS:
            if construct.matches(node, types):
                source.report(
                    _placed(node, types),
                    f"not in the Python of flows: {_short(construct.title)}",
                    actual=source.shown(_placed(node, types)),
                    hint=import_remedy(node, types)
                    or attribute_remedy(node, types)
                    or construct.remedy.replace("`", ""),
                )


def _placed(node: ast.AST, types: NameTypes) -> ast.AST:
    """The node, or the nearest one around it that has a line."""
    while not hasattr(node, "lineno") and node in types.parents:
        node = types.parents[node]
    return node


def _short(title: str) -> str:
    """The title for a message: without the list of names that the page has."""
    head, _, names = title.replace("`", "").partition(", ")
    is_list = head.startswith(_LIST_TITLES)
    if is_list:
        return head.rpartition(" ")[0] + " that the interpreter lacks"
    return f"{head}, {names}" if names else head


def markdown() -> str:
    """The lists of the page: constructs, then modules."""
    rows = [f"| {construct.title} | {construct.remedy} |" for construct in CONSTRUCTS]
    modules = [f"| `{module}` | {_names_of(module, names)} |" for module, names in MODULES.items()]
    heads = ("| not in flows | instead |", "| module | names |")
    parts = (
        (head, "|---|---|", *lines) for head, lines in zip(heads, (rows, modules), strict=True)
    )
    return "\n\n".join("\n".join(part) for part in parts)


def _names_of(module: str, names: str | None) -> str:
    quoted = [f"`{name}`" for name in (names or LACKING_NAMES.get(module, "")).split()]
    return ("all except " if quoted and not names else "" if names else "all") + ", ".join(quoted)


if __name__ == "__main__":
    sys.stdout.write(f"{markdown()}\n")
