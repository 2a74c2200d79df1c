"""The kinds and classes that AIR nodes need, with every ref followed, and unique AssemblyScript
identifiers for the names of AIR (spec/sdk.md, SA-20 to SA-22).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aos.author.assemblyscript import kinds
from aos.author.assemblyscript.kinds import SCALARS, Kind
from aos.author.errors import BuildFailed
from aos.manifest.builtin_definitions import EFFECTS, SCHEMAS
from aos.manifest.effective import FLOW_STATE
from aos.manifest.names import is_system
from aos.manifest.packages import package
from aos.manifest.sealed_places import SEALED, SEALED_PACKAGE
from aos.values.expressions import FORMS, read_types

Node = Mapping[str, Any]
Expression = Mapping[str, Any]

HANDLE: Final = re.compile(r"pending (?P<set>set )?(?P<effect>[a-z][^ /]*/[^ @]+@[1-9][0-9]*)")
"""The ``$comment`` on a type that makes it a handle (SD-20)."""

FLOW_ARMS: Final = ["Start", "Control", "Receipt", "Rejected"]
"""The arms with which the event of every flow begins (spec/flow.md, FL-3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A field of a record, or an arm of a variant."""

    name: str
    identifier: str
    kind: Kind
    is_unit_arm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """A record or variant. ``schema`` is its schema's name; None for an inline type."""

    name: str
    schema: str | None
    is_variant: bool
    members: tuple[Member, ...]


def _is_flow(workflow: Node) -> bool:
    return bool(workflow["state"] == FLOW_STATE)


def _is_of_the_flow_engine(schema: Node) -> bool:
    """Whether only the engine of flows reads a schema: their state, or the event of one. It gets a
    class only if another schema refers to it."""
    arms = schema["type"].get("variant")
    return schema["name"] == FLOW_STATE or (arms is not None and [*arms][:4] == FLOW_ARMS)


class Model:
    """The content of one generated file. ``classes`` are in the order in which they were found.

    ``system``: it is the SDK's own file, for the ``sys/`` definitions.
    """

    def __init__(self, nodes: Sequence[Node], *, system: bool = False) -> None:
        self.nodes = nodes
        self.system = system
        self.classes: dict[str, Class] = {}
        self.claims = Claims()
        sdk_schemas = {} if system else {**SCHEMAS, SEALED: package(SEALED_PACKAGE).definitions[0]}
        self.schemas: dict[str, Node] = dict(
            sorted({**sdk_schemas, **self._nodes_of("defschema")}.items())
        )
        self.effects = dict(sorted({**EFFECTS, **self._nodes_of("defeffect")}.items()))
        workflows = sorted(self._nodes_of("defworkflow").items())
        self.workflows = {name: node for name, node in workflows if not _is_flow(node)}
        read_types({name: node["type"] for name, node in self.schemas.items()})
        self.class_names = self._names(self.schemas)
        self.effect_names = self._names(self.effects)
        self.workflow_names = class_names(self.workflows)
        for name in self.own_schemas():
            if not _is_of_the_flow_engine(self.schemas[name]):
                self.kind_of(name)

    def _names(self, definitions: Iterable[str]) -> Mapping[str, str]:
        """A class name for each definition; those of the SDK begin with ``aos.``."""
        own_classes = class_names(name for name in definitions if self._is_own(name))
        sdk_names = (name for name in definitions if not self._is_own(name))
        return {**own_classes, **{name: f"aos.{short_name(name)}" for name in sdk_names}}

    def _nodes_of(self, kind: str) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        for node in self.nodes:
            if node.get("$kind") == kind:
                name = node["name"]
                if nodes.setdefault(name, node) != node:
                    raise BuildFailed("it has two different definitions", location=name)
        return nodes

    def _is_own(self, name: str) -> bool:
        return self.system or not (is_system(name) or name == SEALED)

    def own_schemas(self) -> Iterator[str]:
        return (name for name in self.schemas if self._is_own(name))

    def own_effects(self) -> Iterator[Node]:
        return (node for name, node in self.effects.items() if self._is_own(name))

    def resolved(self, name: str) -> str:
        """The schema behind a name whose type is only a ref, followed to its end."""
        expression = self.schemas[name]["type"]
        return self.resolved(expression["ref"]) if "ref" in expression else name

    def schema(self, name: str, *, location: str) -> Kind:
        """The kind of the schema that a definition names. Raises BuildFailed if it is unknown."""
        if name not in self.schemas:
            raise BuildFailed(f"unknown schema {name}", location=location)
        return self.kind_of(name)

    def helpers(self) -> Iterator[tuple[str, str]]:
        """(label, text) of the functions that the generated code calls."""
        for class_def in self.classes.values():
            for member in class_def.members:
                yield from member.kind.helpers()
        for node in self.own_effects():
            for part in ("params", "receipt"):
                yield from self.schema(node[part], location=node["name"]).helpers()
        for node in self.workflows.values():
            for part in ("state", "event", "key_schema", "annotations"):
                if part in node:
                    yield from self.schema(node[part], location=node["name"]).helpers()
            if "migrate" in node:
                source = node["migrate"]["from"]
                yield from self.schema(source, location=node["name"]).helpers()

    def kind_of(self, schema: str) -> Kind:
        expression = self.schemas[schema]["type"]
        name = self.class_names[schema]
        if schema == SEALED:
            return kinds.class_kind(name, default=f"new {name}()")
        if _form(expression) not in ("record", "variant"):
            return self._kind(expression, name, schema)
        if self._is_own(schema):
            self._add(name, expression, schema=schema, location=schema)
        return self._class_kind(name, expression, schema)

    def _kind(self, expression: Expression, path: str, location: str) -> Kind:
        """``path`` names an inline record or variant; ``location`` is for errors."""
        form = _form(expression)
        argument = expression[form]
        handle = self._handle(expression, form, location)
        if handle is not None:
            return handle
        match form:
            case "ref":
                return self.kind_of(argument)
            case "record" | "variant":
                self._add(path, expression, schema=None, location=location)
                return self._class_kind(path, expression, location)
            case "option":
                return kinds.option(self._kind(argument, path, location))
            case "list":
                return kinds.list_of(self._kind(argument, path, location))
            case "set":
                return kinds.set_of(self._kind(argument, path, location))
            case "map":
                key = SCALARS[_form(argument["key"])]
                return kinds.map_of(key, self._kind(argument["value"], path, location))
            case _:
                return SCALARS[form]

    def _class_kind(self, name: str, expression: Expression, location: str) -> Kind:
        if "record" in expression:
            return kinds.class_kind(name, default=f"new {name}()")
        arm_types = expression["variant"]
        first = next(iter(arm_types))
        identifier = arms(arm_types)[first]
        if _form(arm_types[first]) == "unit":
            return kinds.class_kind(name, default=f"{name}.{identifier}()")
        kind = self._kind(arm_types[first], name + pascal(first), f"{location}.{first}")
        return kinds.class_kind(name, default=f"{name}.{identifier}({kind.default})")

    def _add(self, name: str, expression: Expression, *, schema: str | None, location: str) -> None:
        self.claims.claim(name, schema or f"the inline type {location}")
        if name in self.classes:
            return
        form = _form(expression)
        identifiers = (arms if form == "variant" else fields)(expression[form])
        self.classes[name] = class_def = Class(
            name=name,
            schema=schema,
            is_variant=form == "variant",
            members=tuple(
                Member(
                    name=member,
                    identifier=identifiers[member],
                    kind=self._kind(member_type, name + pascal(member), f"{location}.{member}"),
                    is_unit_arm=form == "variant" and _form(member_type) == "unit",
                )
                for member, member_type in expression[form].items()
            ),
        )
        if class_def.is_variant:
            self.claims.claim(f"{name}Tag", f"the tags of {location}")

    def _handle(self, expression: Expression, form: str, location: str) -> Kind | None:
        comment = expression.get("$comment")
        match = HANDLE.fullmatch(comment) if isinstance(comment, str) else None
        if match is None:
            return None
        effect = match["effect"]
        if effect not in self.effects:
            raise BuildFailed(
                f"the handle is of an unknown effect {effect}",
                location=location,
                hint="$comment: pending <effect>",
            )
        stem = self.effect_names[effect]
        argument = expression[form]
        if not match["set"] and form == "option" and _form(argument) == "text":
            return kinds.pending(f"{stem}Pending")
        if match["set"] and form == "map" and _form(argument["value"]) == "text":
            return kinds.pending_set(f"{stem}PendingSet", SCALARS[_form(argument["key"])])
        raise BuildFailed(
            f"$comment {comment!r} does not fit the type",
            location=location,
            expected='{"map": {"key": …, "value": {"text": {}}}}'
            if match["set"]
            else '{"option": {"text": {}}}',
            actual=form,
        )


def _form(expression: Expression) -> str:
    return next(key for key in expression if key in FORMS)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED: Final = _words(
    """
    async await break case catch class const constructor continue debugger default delete do else
    enum export extends false finally for function if implements import in instanceof interface let
    new null of override package private protected public readonly return static super switch this
    throw true try typeof var void while with yield
    """
)
"""Names that the compiler refuses for members, parameters or constants (each was tried)."""

_OWN: Final = _words("aos readFrom schemaName tag writeTo r w")
"""Names that generated classes and their methods use themselves."""

GLOBALS: Final = _words(
    """
    Array ArrayBuffer Atomics BigInt Boolean DataView Date Error Float32Array Float64Array Function
    Infinity Int16Array Int32Array Int64Array Int8Array JSON LOG Map Math NaN Number Object Promise
    RangeError Reflect RegExp Set StaticArray String Symbol TypeError URIError Uint16Array
    Uint32Array Uint64Array Uint8Array Uint8ClampedArray aos console process
    """
)


def pascal(text: str) -> str:
    """``card.charge`` -> ``CardCharge``: characters that identifiers cannot have separate words."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+", text) if word]
    joined = "".join(word[0].upper() + word[1:] for word in words)
    return f"_{joined}" if not joined or joined[0].isdigit() else joined


def short_name(name: str) -> str:
    """``shop/Placed@1`` -> ``Placed``; ``shop/Placed@2`` -> ``PlacedV2``."""
    local, version = name.split("/", 1)[1].rsplit("@", 1)
    return pascal(local) + (f"V{version}" if version != "1" else "")


def long_name(name: str) -> str:
    return pascal(name.split("/", 1)[0]) + short_name(name)


def class_names(names: Iterable[str]) -> Mapping[str, str]:
    """A class name for each definition: the short one, unless two would share it."""
    unique_names = sorted(set(names))
    uses = Counter(short_name(name) for name in unique_names)
    return {
        name: long_name(name)
        if uses[short_name(name)] > 1 or short_name(name) in GLOBALS
        else short_name(name)
        for name in unique_names
    }


def fields(names: Iterable[str]) -> Mapping[str, str]:
    """An identifier for each field of a record: its own name if that is an identifier.

    A name that begins with a capital gets a ``_``, because it would hide the class of that name.
    """
    return _members(names, lambda name: f"{name}_" if name[:1].isupper() else name)


def arms(names: Iterable[str]) -> Mapping[str, str]:
    """An identifier for each arm of a variant, for its tag and for its constructor function."""
    return _members(names, lambda name: name)


def getters(names: Iterable[str]) -> Mapping[str, str]:
    """An identifier for the value of each arm: the arm's, with a lower-case first letter."""
    return _members(names, lambda name: name[:1].lower() + name[1:])


def _members(names: Iterable[str], to_identifier: Callable[[str], str]) -> Mapping[str, str]:
    """Replace characters that identifiers cannot have by ``_``, and append ``_`` until the name is
    free."""
    identifiers: dict[str, str] = {}
    in_use: set[str] = set()
    for name in sorted(names):
        plain = re.sub(r"[^A-Za-z0-9_]", "_", to_identifier(name))
        if not plain or plain[0].isdigit():
            plain = f"_{plain}"
        while plain in in_use or plain in RESERVED or plain in _OWN:
            plain += "_"
        in_use.add(plain)
        identifiers[name] = plain
    return identifiers


class Claims:
    """The names in use in one generated file, and the purpose of each."""

    def __init__(self) -> None:
        self._purpose_by_name: dict[str, str] = {}

    def claim(self, name: str, purpose: str) -> str:
        """Reserve a name. Raises BuildFailed if it is in use."""
        first_purpose = self._purpose_by_name.setdefault(name, purpose)
        if first_purpose != purpose:
            raise BuildFailed(
                f"two definitions need the class name {name}: {first_purpose} and {purpose}",
                hint="rename one, or give an inline type its own schema",
            )
        return name
