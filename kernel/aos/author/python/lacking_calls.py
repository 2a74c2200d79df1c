"""Calls and assignments that work under CPython and differ in the interpreter (PF-34): arguments
that it does not take, and changes in place that it does not make."""

from __future__ import annotations

import ast
from typing import Final

from aos.author.python.set_order import NameTypes

UNKNOWN_ENCODINGS: Final = (
    "latin-1", "latin1", "iso-8859-1", "iso8859-1", "cp1252", "windows-1252", "utf-8-sig",
)  # fmt: skip
LACKING_OPTIONS: Final = {
    "json.dumps": ("check_circular", "cls", "default"),
    "json.loads": ("cls", "object_hook", "object_pairs_hook", "strict"),
}
_LISTS: Final = ("enumerate", "filter", "map", "reversed", "zip")
"""Built-in functions that give a list in the interpreter, and an iterator under CPython."""
_ITERABLES: Final = (*_LISTS, "list", "range", "set", "sorted", "tuple")
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.GeneratorExp)
_SET_METHODS: Final = ("difference", "intersection", "union", "update")
_SET_OPERATORS: Final = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)


def is_bytes_of_items(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node is ``bytes(…)`` of a visible list, range, tuple, set or comprehension."""
    return (
        isinstance(node, ast.Call)
        and _calls(node, types, "bytes")
        and len(node.args) == 1
        and not node.keywords
        and _is_all(node.args[0], types, _is_iterable)
    )


def is_next_of_list(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node is ``next(…)`` of an iterator that is a list in the interpreter."""
    return (
        isinstance(node, ast.Call)
        and _calls(node, types, "next")
        and bool(node.args)
        and _is_all(node.args[0], types, _is_eager)
    )


def is_set_method_of_several(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node is a method of sets with more than one argument."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    name, receiver = node.func.attr, node.func.value
    if name not in _SET_METHODS or types.own.defines(name):
        return False
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return types.is_set(receiver)
    return len(node.args) > 1


def is_lacking_option(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node is an option of a function of ``json`` that the interpreter lacks."""
    call = types.parents.get(node)
    return (
        isinstance(node, ast.keyword)
        and isinstance(call, ast.Call)
        and node.arg in LACKING_OPTIONS.get(types.own.qualified(call.func) or "", ())
    )


def is_computed_replacement(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node is ``sub`` of a regular expression with a visible function."""
    if not isinstance(node, ast.Call):
        return False
    if types.own.qualified(node.func) == "re.sub":
        replacement = node.args[1:2]
    elif (
        isinstance(node.func, ast.Attribute)
        and node.func.attr == "sub"
        and not types.own.defines("sub")
    ):
        replacement = node.args[:1]
    else:
        return False
    replacement += [keyword.value for keyword in node.keywords if keyword.arg == "repl"]
    return any(
        isinstance(value, ast.Lambda)
        or (isinstance(value, ast.Name) and value.id in types.own.functions)
        for value in replacement
    )


def is_search_from_position(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node is a method of a compiled pattern with a position in the text."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("match", "search")
        and len(node.args) > 1
        and types.own.qualified(node.func) is None
        and not types.own.defines(node.func.attr)
    )


def is_span_of_float(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node is a ``timedelta`` of a visible float."""
    if not isinstance(node, ast.Call) or types.own.type_of(node.func) != "timedelta":
        return False
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    return any(
        isinstance(part, ast.Constant) and isinstance(part.value, float)
        for argument in arguments
        for part in (argument, getattr(argument, "operand", argument))
    )


def is_unknown_encoding(node: ast.AST, _: NameTypes) -> bool:
    """Whether a node is a call of ``encode`` or ``decode`` with a text that names an encoding which
    the interpreter does not have."""
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or node.func.attr not in ("encode", "decode")
    ):
        return False
    named = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "encoding")]
    return any(
        isinstance(name, ast.Constant)
        and str(name.value).lower().replace("_", "-") in UNKNOWN_ENCODINGS
        for name in named
    )


def is_change_of_shared_set(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node is ``|=``, ``&=``, ``-=`` or ``^=`` for a visible set that others see, too: a
    parameter, or one with a second name. The interpreter makes a new set."""
    if (
        not isinstance(node, ast.AugAssign)
        or not isinstance(node.op, _SET_OPERATORS)
        or not isinstance(node.target, ast.Name)
    ):
        return False
    name, scope = node.target.id, types.scope(node)
    parameters = getattr(scope, "args", None)
    is_parameter = isinstance(parameters, ast.arguments) and any(
        name == argument.arg
        for argument in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)
    )
    return (is_parameter or (scope, name) in types.aliased) and types.is_set(node.target)


def is_extended_with_other(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node is ``+=`` of a visible list with a value that is visibly none."""
    return (
        isinstance(node, ast.AugAssign)
        and isinstance(node.op, ast.Add)
        and isinstance(node.target, ast.Name)
        and _is_no_list(node.value, types)
        and _is_all(node.target, types, _is_list)
    )


def _calls(node: ast.expr, types: NameTypes, *names: str) -> bool:
    """Whether a node is a call of a built-in function that the file does not define."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in names
        and node.func.id not in types.own.bound
    )


def _is_all(node: ast.expr, types: NameTypes, is_such: object) -> bool:
    """Whether an expression, or everything that a name is bound to, has a property."""
    assert callable(is_such)
    values = types.values(node) if isinstance(node, ast.Name) else [node]
    return bool(values) and all(value is not None and is_such(value, types) for value in values)


def _is_iterable(node: ast.expr, types: NameTypes) -> bool:
    is_display = isinstance(node, (ast.List, ast.Tuple, ast.Set, *_COMPREHENSIONS))
    return is_display or _calls(node, types, *_ITERABLES) or _is_list_annotation(node)


def _is_eager(node: ast.expr, types: NameTypes) -> bool:
    return isinstance(node, ast.GeneratorExp) or _calls(node, types, *_LISTS)


def _is_list(node: ast.expr, types: NameTypes) -> bool:
    is_display = isinstance(node, (ast.List, ast.ListComp))
    return is_display or _calls(node, types, "list", "sorted") or _is_list_annotation(node)


def _is_list_annotation(node: ast.expr) -> bool:
    value = node.value if isinstance(node, ast.Subscript) else None
    return isinstance(value, ast.Name) and value.id == "list"


def _is_no_list(node: ast.expr, types: NameTypes) -> bool:
    return (
        isinstance(node, (ast.Tuple, ast.Set, ast.SetComp, ast.Dict, ast.DictComp, ast.JoinedStr))
        or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)))
        or _calls(node, types, "dict", "range", "set", "str", "tuple")
    )
