"""Type expression (parsed JSON) -> Type, or all its problems (spec/values.md, V-20 to V-27).

A Type is a small frozen tree in which a reference is still a name. ``read_types`` reads all schemas
of a manifest together, checks the references between them and orders them so that each schema
follows those that it refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from aos.values.cbor import INGRESS_DEPTH_MAX
from aos.values.errors import SchemaProblem, SchemaProblems, quoted
from aos.values.show import describe

SCALARS: Final = (
    "bool",
    "int",
    "nat",
    "dec128",
    "bytes",
    "text",
    "time",
    "duration",
    "hash",
    "uuid",
    "unit",
)
MAP_KEYS: Final = ("int", "nat", "text", "uuid", "hash")
FORMS: Final = (*SCALARS, "record", "variant", "list", "set", "map", "option", "ref")
NAME_BYTES_MAX: Final = 256
TYPE_DEPTH_MAX: Final = 2 * INGRESS_DEPTH_MAX + 2
"""An option around each container and around the scalar: no gate reads values of deeper types."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One of ``SCALARS``."""

    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """Fields by name, in canonical order."""

    fields: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """Arms by tag, in canonical order."""

    arms: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of items of one type."""

    item: Type


@dataclass(frozen=True, slots=True)
class SetOf:
    """A set of items of one type."""

    item: Type


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map with keys of one of ``MAP_KEYS``."""

    key: Scalar
    item: Type


@dataclass(frozen=True, slots=True)
class Option:
    """A value or null."""

    item: Type


@dataclass(frozen=True, slots=True)
class TypeRef:
    """A reference to a schema by its name."""

    name: str


Type: TypeAlias = Scalar | Record | Variant | ListOf | SetOf | MapOf | Option | TypeRef
UNIT: Final = Scalar("unit")


@dataclass(frozen=True, slots=True)
class ReadTypes:
    """Valid types by name, which refer to no others, and the depth of the values of each."""

    types: Mapping[str, Type]
    depths: Mapping[str, int]

    @staticmethod
    def of(expressions: Mapping[str, object]) -> ReadTypes:
        """Read types that other types refer to, to check them once.

        Raises SchemaProblems as ``read_types`` does.
        """
        types = read_types(expressions)
        depths: dict[str, int] = {}
        for name, type_ in types.items():
            depths[name] = _depth(type_, depths)
        return ReadTypes(types, depths)


_NO_TYPES: Final = ReadTypes({}, {})


def read_types(expressions: Mapping[str, object], others: ReadTypes = _NO_TYPES) -> dict[str, Type]:
    """Read and check all types together. In the result a schema follows all that it refers to.

    ``others`` have been read before. The types can refer to them, and have other names.

    Raises SchemaProblems with all problems of all expressions.
    """
    assert expressions.keys().isdisjoint(others.types)
    reader = _Reader(expressions.keys() | others.types.keys())
    types: dict[str, Type] = {}
    for name in sorted(expressions):
        reader.schema = name
        type_ = reader.read(expressions[name], "", TYPE_DEPTH_MAX)
        if type_ is not None:
            types[name] = type_
    problems = reader.problems
    order, cycles = _dependency_order(
        {name: [ref for ref in reader.refs.get(name, {}) if ref in types] for name in types}
    )
    for cycle in cycles:
        for name in sorted(cycle):
            ref = next(ref for ref in reader.refs[name] if ref in cycle)
            problems.append(
                SchemaProblem(
                    schema=name,
                    pointer=reader.refs[name][ref],
                    message=f"cyclic ref to {quoted(ref)}",
                    hint="a value of a cyclic type would have no end; refer to it by a key instead",
                )
            )
    if not cycles:
        readable = dict(others.types)  # with all that they refer to
        for name in order:
            if readable.keys() >= reader.refs.get(name, {}).keys():
                readable[name] = types[name]
        problems.extend(_check_resolved(readable, others.depths))
    if problems:
        raise SchemaProblems(sorted(problems, key=lambda problem: problem.schema))
    return {name: types[name] for name in order}


def resolve(type_: Type, types: Mapping[str, Type]) -> Type:
    """Follow references to the type at their end. There must be no cycles."""
    while isinstance(type_, TypeRef):
        type_ = types[type_.name]
    return type_


class _Reader:
    """Reads expressions and collects all problems; an unreadable part becomes None."""

    def __init__(self, schema_names: Iterable[str]) -> None:
        self.schema_names = frozenset(schema_names)
        self.schema = ""
        self.problems: list[SchemaProblem] = []
        self.refs: dict[str, dict[str, str]] = {}  # schema -> name referred to -> first pointer

    def read(self, expression: object, pointer: str, levels: int) -> Type | None:
        if levels == 0:
            return self._refuse(
                pointer, f"nested too deep: expected at most {TYPE_DEPTH_MAX} levels"
            )
        if not isinstance(expression, dict):
            return self._refuse(
                pointer, f'expected a type such as {{"text": {{}}}}, found {describe(expression)}'
            )
        forms = [key for key in expression if key != "$comment"]
        if len(forms) != 1:
            actual = ", ".join(quoted(str(form)) for form in forms[:8]) if forms else "none"
            return self._refuse(pointer, f"expected one type form, found {actual}", _FORMS_HINT)
        form = forms[0]
        if form not in FORMS:
            return self._refuse(pointer, f"unknown type form {quoted(str(form))}", _FORMS_HINT)
        argument = cast("object", expression[form])
        inner = f"{pointer}/{form}"
        if form in SCALARS:
            if argument != {}:
                return self._refuse(inner, f"expected {{}}, found {describe(argument)}")
            return Scalar(form)
        if form == "ref":
            return self._ref(argument, inner)
        if form in ("record", "variant"):
            parts = self._parts(form, argument, inner, levels)
            if parts is None:
                return None
            return Record(parts) if form == "record" else Variant(parts)
        if form == "map":
            return self._map(argument, inner, levels)
        item = self.read(argument, inner, levels - 1)
        return None if item is None else _WRAPPERS[form](item)

    def _ref(self, argument: object, pointer: str) -> Type | None:
        if not isinstance(argument, str):
            return self._refuse(pointer, f"expected a schema name, found {describe(argument)}")
        if argument not in self.schema_names:
            return self._refuse(
                pointer,
                f"unknown ref {quoted(argument)}",
                "define that schema, or correct its name and version",
            )
        self.refs.setdefault(self.schema, {}).setdefault(argument, pointer)
        return TypeRef(argument)

    def _parts(
        self, form: str, argument: object, pointer: str, levels: int
    ) -> tuple[tuple[str, Type], ...] | None:
        noun = "field" if form == "record" else "arm"
        if not isinstance(argument, dict):
            self._refuse(pointer, f"expected an object of {noun}s, found {describe(argument)}")
            return None
        if form == "variant" and not argument:
            self._refuse(pointer, "expected at least one arm, found none")
            return None
        parts: list[tuple[str, Type]] = []
        complete = True
        for name, expression in argument.items():
            inner = f"{pointer}/{_escaped(str(name))}"
            if not _is_part_name(name):
                self._refuse(
                    inner,
                    f"bad {noun} name {quoted(str(name))}: expected 1 to {NAME_BYTES_MAX} bytes"
                    " of text that does not begin with $",
                )
                complete = False
                continue
            type_ = self.read(expression, inner, levels - 1)
            if type_ is None:
                complete = False
            else:
                parts.append((name, type_))
        return tuple(parts) if complete else None

    def _map(self, argument: object, pointer: str, levels: int) -> Type | None:
        if not isinstance(argument, dict) or set(argument) != {"key", "value"}:
            return self._refuse(pointer, 'expected {"key": K, "value": T}')
        key = self.read(argument["key"], f"{pointer}/key", levels - 1)
        item = self.read(argument["value"], f"{pointer}/value", levels - 1)
        if key is not None and not (isinstance(key, Scalar) and key.name in MAP_KEYS):
            return self._refuse(
                f"{pointer}/key", f"expected a map key type: one of {', '.join(MAP_KEYS)}"
            )
        if key is None or item is None:
            return None
        return MapOf(key, item)

    def _refuse(self, pointer: str, message: str, hint: str | None = None) -> Type | None:
        """Note a problem. Returns None, the unreadable type, which the caller can return."""
        self.problems.append(
            SchemaProblem(schema=self.schema, pointer=pointer, message=message, hint=hint)
        )
        return None


_WRAPPERS: Final[Mapping[str, Callable[[Type], Type]]] = {
    "list": ListOf,
    "set": SetOf,
    "option": Option,
}
_FORMS_HINT: Final = f"a type is one of {', '.join(FORMS)}, and may also have a $comment"


def _is_part_name(name: object) -> bool:
    if not isinstance(name, str) or name.startswith("$"):
        return False
    try:
        return 1 <= len(name.encode()) <= NAME_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _children(type_: Type) -> Iterator[tuple[str, Type]]:
    """(JSON pointer from this type, inner type)."""
    match type_:
        case Record(parts) | Variant(parts):
            form = "record" if isinstance(type_, Record) else "variant"
            for name, inner in parts:
                yield f"/{form}/{_escaped(name)}", inner
        case ListOf(item):
            yield "/list", item
        case SetOf(item):
            yield "/set", item
        case MapOf(_, item):
            yield "/map/value", item
        case Option(item):
            yield "/option", item
        case Scalar() | TypeRef():
            return


def _check_resolved(
    types: Mapping[str, Type], other_depths: Mapping[str, int]
) -> Iterator[SchemaProblem]:
    """Problems that need the references followed: options of options, and depth of values. Types
    with a depth in ``other_depths`` have none."""
    depths = dict(other_depths)
    for name, root in types.items():
        if name in other_depths:
            continue
        depths[name] = _depth(root, depths)
        if depths[name] > INGRESS_DEPTH_MAX:
            yield SchemaProblem(
                schema=name,
                pointer="",
                message=f"values would nest {depths[name]} levels deep:"
                f" expected at most {INGRESS_DEPTH_MAX}",
            )
        pending = [("", root)]
        while pending:
            pointer, type_ = pending.pop()
            if isinstance(type_, Option):
                inner = resolve(type_.item, types)
                if isinstance(inner, Option) or inner == UNIT:
                    content = "an option" if isinstance(inner, Option) else "unit"
                    yield SchemaProblem(
                        schema=name,
                        pointer=f"{pointer}/option",
                        message=f"option of {content}",
                        hint="null would mean two things; use a variant",
                    )
            pending.extend((pointer + step, inner) for step, inner in _children(type_))


def _depth(type_: Type, depths: Mapping[str, int]) -> int:
    """Levels of containers in the deepest value of this type."""
    if isinstance(type_, TypeRef):
        return depths[type_.name]
    inner = max((_depth(child, depths) for _, child in _children(type_)), default=0)
    return inner if isinstance(type_, Scalar | Option) else inner + 1


def _dependency_order(
    needs: Mapping[str, list[str]],
) -> tuple[list[str], list[frozenset[str]]]:
    """(names, each after all that it refers to; the cycles). Tarjan, without recursion."""
    order: list[str] = []
    cycles: list[frozenset[str]] = []
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: dict[str, None] = {}
    for root in needs:
        work = [] if root in index else [(root, iter(needs[root]))]
        while work:
            name, remaining_needs = work[-1]
            if name not in index:
                index[name] = low[name] = len(index)
                open_[name] = None
            for need in remaining_needs:
                if need not in index:
                    work.append((need, iter(needs[need])))
                    break
                if need in open_:
                    low[name] = min(low[name], low[need])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    group: list[str] = []
                    while not group or group[-1] != name:
                        group.append(open_.popitem()[0])
                    if len(group) > 1 or name in needs[name]:
                        cycles.append(frozenset(group))
                    order.extend(group)
    return order, cycles
