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
        form: _without_comments_inside(form, inside)
        for form, inside in expression.items()
        if form != COMMENT
    }


def _without_comments_inside(form: str, inside: Any) -> Any:
    if form in FIELDS_OF and isinstance(inside, Mapping):
        return {name: without_comments(field) for name, field in inside.items()}
    if form in ITEMS_OF:
        return without_comments(inside)
    if form == "map" and isinstance(inside, Mapping):
        return {part: without_comments(expression) for part, expression in inside.items()}
    return dict(inside) if isinstance(inside, Mapping) else inside


def form_of(expression: Expression) -> tuple[str, Any]:
    """The one form of an expression and what it holds: ``("record", {…})``."""
    ((form, inside),) = ((key, value) for key, value in expression.items() if key != COMMENT)
    return form, inside


def references(expression: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Every ref below: (JSON pointer of its name, name). Skips parts that are not types."""
    if not isinstance(expression, Mapping):
        return
    for form, inside in expression.items():
        at = f"{pointer}/{escape(form)}"
        if form == "ref" and isinstance(inside, str):
            yield at, inside
        elif form in ITEMS_OF:
            yield from references(inside, at)
        elif form in (*FIELDS_OF, "map") and isinstance(inside, Mapping):
            for name, field in inside.items():
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


def same(one: Expression, other: Expression, types: Types) -> bool:
    """Whether two types have the same values, with refs followed. Linear in the schemas' size."""
    return alike(one, types, other, types)


def alike(one: Expression, types: Types, other: Expression, other_types: Types) -> bool:
    """``same`` for types of two manifests, in which one name may mean different types."""
    return _same(one, other, (types, other_types), set())


def extends(old: Expression, types: Types, new: Expression, new_types: Types) -> bool:
    """Whether ``new`` is ``old`` except for further fields of type option in its records, at any
    depth (M-62)."""
    return _same(old, new, (types, new_types), set(), may_grow=True)


def _same(
    one: Expression,
    other: Expression,
    types: tuple[Types, Types],
    seen: set[tuple[str, str]],
    *,
    may_grow: bool = False,
) -> bool:
    if "ref" in one and "ref" in other:
        pair = (one["ref"], other["ref"])
        if (pair[0] == pair[1] and types[0] is types[1]) or pair in seen:
            return True
        seen.add(pair)
    one, other = resolved(one, types[0]), resolved(other, types[1])
    (form, inside), (form_2, inside_2) = form_of(one), form_of(other)
    if form != form_2:
        return False
    if form in ITEMS_OF:
        return _same(inside, inside_2, types, seen, may_grow=may_grow)
    if form in (*FIELDS_OF, "map"):
        more = set(inside_2) - set(inside) if may_grow and form == "record" else set()
        return (
            set(inside) == set(inside_2) - more
            and all(_is_option(inside_2[name], types[1]) for name in more)
            and all(
                _same(inside[name], inside_2[name], types, seen, may_grow=may_grow)
                for name in inside
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
    found = [("$", resolved(expression, types))]
    for step in path.split("."):
        # One entry per distinct type: otherwise arms that share a schema multiply at every step.
        next_found: dict[int, tuple[str, Expression]] = {}
        for at, here in found:
            for label, inside in _step(here, step):
                there = resolved(inside, types)
                next_found.setdefault(id(there), (f"{at}{label}", there))
        found = list(next_found.values())
    return found


def paths_of(expression: Expression, types: Types) -> set[str]:
    """Paths of one or two steps, as candidates for suggestions."""
    form, inside = form_of(resolved(expression, types))
    if form == "record":
        deeper = {
            f"{field}.{more}"
            for field, type_ in inside.items()
            if form_of(resolved(type_, types))[0] == "record"
            for more in form_of(resolved(type_, types))[1]
        }
        return {*inside, *deeper}
    paths = set()
    if form == "variant":
        for arm in inside.values():
            inner = form_of(resolved(arm, types))
            paths |= {f"$value.{field}" for field in inner[1]} if inner[0] == "record" else set()
    return paths


def _step(here: Expression, step: str) -> Iterator[tuple[str, Expression]]:
    form, inside = form_of(here)
    if form == "record" and step in inside:
        yield f".{step}", inside[step]
    elif form == "variant" and step == "$tag":
        yield ".$tag", _TEXT
    elif form == "variant" and step == "$value":
        for tag, arm in inside.items():
            if form_of(arm)[0] != "unit":
                yield f".{tag}", arm


def shown(expression: Expression, types: Types) -> str:
    """One line for an error: ``text``, ``record {order_id, total}``, ``list of nat``."""
    form, inside = form_of(resolved(expression, types))
    if form in FIELDS_OF:
        return f"{form} {{{', '.join(inside)}}}"
    if form in ITEMS_OF:
        return f"{form} of {shown(inside, types)}"
    if form == "map":
        return f"map from {shown(inside['key'], types)} to {shown(inside['value'], types)}"
    return form


def escape(part: str) -> str:
    """One reference token of a JSON pointer (RFC 6901)."""
    return part.replace("~", "~0").replace("/", "~1")
