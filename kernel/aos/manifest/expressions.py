"""Questions about the type expressions of ``defschema.type``, without a value.

They are which schemas a type refers to, whether two types are the same, and the type at a path;
``aos.values.schema`` checks values. Every function expects expressions that ``compile_schemas``
accepts, unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

Expression = Mapping[str, Any]
Types = Mapping[str, Expression]
"""Schema name -> its type."""

COMMENT: Final = "$comment"
FIELDS_OF: Final = ("record", "variant")
ITEMS_OF: Final = ("list", "set", "option")
_TEXT: Final[Expression] = {"text": {}}


def without_comments(expression: Any) -> Any:
    """The expression as it is hashed. Anything that is not a type expression is unchanged."""
    if not isinstance(expression, Mapping):
        return expression
    return {
        form: _without_comments_inside(form, argument)
        for form, argument in expression.items()
        if form != COMMENT
    }


def _without_comments_inside(form: str, argument: Any) -> Any:
    if form in FIELDS_OF and isinstance(argument, Mapping):
        return {name: without_comments(field) for name, field in argument.items()}
    if form in ITEMS_OF:
        return without_comments(argument)
    if form == "map" and isinstance(argument, Mapping):
        return {part: without_comments(expression) for part, expression in argument.items()}
    return dict(argument) if isinstance(argument, Mapping) else argument


def form_of(expression: Expression) -> tuple[str, Any]:
    """The one form of an expression and what it holds: ``("record", {…})``."""
    ((form, argument),) = ((key, value) for key, value in expression.items() if key != COMMENT)
    return form, argument


def references(expression: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Every ref below: (JSON pointer of its name, name). Skips parts that are not types."""
    if not isinstance(expression, Mapping):
        return
    for form, argument in expression.items():
        at = f"{pointer}/{escape(form)}"
        if form == "ref" and isinstance(argument, str):
            yield at, argument
        elif form in ITEMS_OF:
            yield from references(argument, at)
        elif form in (*FIELDS_OF, "map") and isinstance(argument, Mapping):
            for name, field in argument.items():
                yield from references(field, f"{at}/{escape(name)}")


def closure(names: Iterable[str], types: Types) -> set[str]:
    """``names`` and every schema that they reach, as far as ``types`` has them."""
    reached: set[str] = set()
    waiting = [name for name in names if name in types]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(ref for _, ref in references(types[name]) if ref in types)
    return reached


def resolved(expression: Expression, types: Types) -> Expression:
    """The type at the end of a chain of refs."""
    while "ref" in expression:
        expression = types[expression["ref"]]
    return expression


def same(first: Expression, second: Expression, types: Types) -> bool:
    """Whether two types have the same values, with refs followed. Linear in the schemas' size."""
    return alike(first, types, second, types)


def alike(first: Expression, types: Types, second: Expression, other_types: Types) -> bool:
    """``same`` for types of two manifests, in which one name may mean different types."""
    return _same(first, second, (types, other_types), set())


def extends(old: Expression, types: Types, new: Expression, new_types: Types) -> bool:
    """Whether ``new`` is ``old`` except for further fields of type option in its records, at any
    depth (M-62)."""
    return _same(old, new, (types, new_types), set(), may_grow=True)


def _same(
    first: Expression,
    second: Expression,
    types: tuple[Types, Types],
    visited: set[tuple[str, str]],
    *,
    may_grow: bool = False,
) -> bool:
    if "ref" in first and "ref" in second:
        pair = (first["ref"], second["ref"])
        if (pair[0] == pair[1] and types[0] is types[1]) or pair in visited:
            return True
        visited.add(pair)
    first, second = resolved(first, types[0]), resolved(second, types[1])
    (form, argument), (second_form, second_argument) = form_of(first), form_of(second)
    if form != second_form:
        return False
    if form in ITEMS_OF:
        return _same(argument, second_argument, types, visited, may_grow=may_grow)
    if form in (*FIELDS_OF, "map"):
        added_fields = (
            set(second_argument) - set(argument) if may_grow and form == "record" else set()
        )
        return (
            set(argument) == set(second_argument) - added_fields
            and all(_is_option(second_argument[name], types[1]) for name in added_fields)
            and all(
                _same(argument[name], second_argument[name], types, visited, may_grow=may_grow)
                for name in argument
            )
        )
    return True


def _is_option(expression: Expression, types: Types) -> bool:
    return form_of(resolved(expression, types))[0] == "option"


def found_at(expression: Expression, path: str, types: Types) -> list[tuple[str, Expression]]:
    """The types at a dotted path: (place, type), one for each variant arm that has it.

    A step is the name of a record field, or ``$value`` of a variant; ``$tag`` is text. Empty if
    the path leads nowhere.
    """
    matches = [("$", resolved(expression, types))]
    for step in path.split("."):
        # One entry per distinct type: otherwise arms that share a schema multiply at every step.
        next_found: dict[int, tuple[str, Expression]] = {}
        for at, type_ in matches:
            for label, inner in _step(type_, step):
                inner_type = resolved(inner, types)
                next_found.setdefault(id(inner_type), (f"{at}{label}", inner_type))
        matches = list(next_found.values())
    return matches


def paths_of(expression: Expression, types: Types) -> set[str]:
    """Paths of one or two steps, as candidates for suggestions."""
    form, argument = form_of(resolved(expression, types))
    if form == "record":
        deeper = {
            f"{field}.{inner_field}"
            for field, type_ in argument.items()
            if form_of(resolved(type_, types))[0] == "record"
            for inner_field in form_of(resolved(type_, types))[1]
        }
        return {*argument, *deeper}
    paths = set()
    if form == "variant":
        for arm in argument.values():
            inner = form_of(resolved(arm, types))
            paths |= {f"$value.{field}" for field in inner[1]} if inner[0] == "record" else set()
    return paths


def _step(expression: Expression, step: str) -> Iterator[tuple[str, Expression]]:
    form, argument = form_of(expression)
    if form == "record" and step in argument:
        yield f".{step}", argument[step]
    elif form == "variant" and step == "$tag":
        yield ".$tag", _TEXT
    elif form == "variant" and step == "$value":
        for tag, arm in argument.items():
            if form_of(arm)[0] != "unit":
                yield f".{tag}", arm


def type_text(expression: Expression, types: Types) -> str:
    """One line for an error: ``text``, ``record {order_id, total}``, ``list of nat``."""
    form, argument = form_of(resolved(expression, types))
    if form in FIELDS_OF:
        return f"{form} {{{', '.join(argument)}}}"
    if form in ITEMS_OF:
        return f"{form} of {type_text(argument, types)}"
    if form == "map":
        return (
            f"map from {type_text(argument['key'], types)} to {type_text(argument['value'], types)}"
        )
    return form


def escape(part: str) -> str:
    """One reference token of a JSON pointer (RFC 6901)."""
    return part.replace("~", "~0").replace("/", "~1")
