"""Questions about values and manifests to the core in Rust, and the answers of the reference.

Both answer with a value, or with the words of a problem. A question about a schema is about the
schemas that were compiled or read last.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from aos.errors import Damage
from aos.manifest import secret_use
from aos.manifest.effective import Effective
from aos.manifest.manifest_secrets import Secret
from aos.manifest.shapes import Shapes
from aos.values.cbor import Value, decode_record, encode
from aos.values.errors import ValueProblem
from aos.values.foreign import from_foreign
from aos.values.hash_rewrite import HashRewrite
from aos.values.schema import Schema, SchemaProblems, compile_schemas, value_at
from aos.values.sha256 import given_text

QUESTION: Final = 110
"""The number of the probe (kernel/rust-core/src/probes.rs)."""

_ONLY_OF_THE_HOST: Final = {
    Effective: {"document", "plans", "schedules", "sealing"},
    Secret: {"binding", "expected_digest", "hosts"},
}
"""Fields that the core does not read."""


class Words(str):
    """The words of a problem."""

    __slots__ = ()


Answer: TypeAlias = "Value | Words"


class Pair:
    """The reference, and the core in Rust, which ``probe`` asks: bytes of a question -> those of
    its answer."""

    def __init__(self, probe: Callable[[bytes], bytes | Words]) -> None:
        self._probe = probe
        self.schemas: Mapping[str, Schema] = {}

    def agree(self, name: str, *arguments: Any) -> Answer:
        """Put a question to both. Returns their answer; fails if there are two."""
        reference = self._answer(name, *arguments)
        answer = self._probe(encode([name, *arguments]))
        other = answer if isinstance(answer, Words) else decode_record(answer)
        assert type(other) is type(reference)
        assert other == reference
        return reference

    def _answer(self, name: str, *arguments: Any) -> Answer:
        of_schema = _OF_SCHEMA.get(name)
        try:
            if of_schema is not None:
                schema, *others = arguments
                return of_schema(self.schemas, self.schemas[schema], *others)
            if name == "compiled":
                self.schemas = compile_schemas(decoded(arguments[0]))
                return list(self.schemas)
            if name == "effective":
                effective = Effective.from_document(*arguments)
                self.schemas = effective.schemas
                return _typed_view(effective)
            return _ANSWERS[name](*arguments)
        except (ValueProblem, SchemaProblems, Damage) as problem:
            return Words(problem)


def decoded(value: Any) -> Any:
    """A value as the core in Rust reads it: with its keys in canonical order."""
    return decode_record(encode(value))


def _rewritten(schemas: Mapping[str, Schema], schema: Schema, data: bytes) -> Value:
    rewrite = HashRewrite(schemas)
    value = rewrite.rewritten(schema, schema.from_record(data), given_text)
    return [rewrite.has_hashes(schema), value]


_OF_SCHEMA: Final[Mapping[str, Callable[..., Value]]] = {
    "from_ingress": lambda _, schema, data, size: schema.from_ingress(data, max_bytes=size),
    "from_record": lambda _, schema, data: schema.from_record(data),
    "completed": lambda _, schema, data: schema.completed(data),
    "completed_value": lambda _, schema, data: schema.completed_value(data),
    "fitted": lambda _, schema, data: schema.fitted(data),
    "from_foreign": lambda schemas, schema, data, size: from_foreign(
        schema, schemas, data, max_bytes=size
    )[0],
    "rewritten": _rewritten,
}


def _shapes(old_document: bytes, new_document: bytes) -> Value:
    old, new = Effective.from_document(old_document), Effective.from_document(new_document)
    shapes = Shapes(old, new)
    rows: list[Value] = [
        [name, shapes.same(schema, new.schemas[name]), shapes.extends(schema, new.schemas[name])]
        for name, schema in old.schemas.items()
        if name in new.schemas
    ]
    return rows + [
        [name, shapes.same_effect(effect, new.effects[name])]
        for name, effect in old.effects.items()
        if name in new.effects
    ]


_ANSWERS: Final[Mapping[str, Callable[..., Value]]] = {
    "shapes": _shapes,
    "secrets": lambda document, *use: secret_use.problem(Effective.from_document(document), *use),
    "key": lambda document, index, value: (
        Effective.from_document(document).subscriptions[index].key(decoded(value))
    ),
    "part": lambda value, dotted: value_at(decoded(value), dotted),
}


def _typed_view(effective: Effective) -> Value:
    view: Any = _view(effective)
    view["schemas"] = list(effective.schemas)
    view["by_event"] = [
        [event, [route.workflow for route in routes]]
        for event, routes in effective.by_event.items()
    ]
    for workflow, node in zip(effective.workflows.values(), view["workflows"], strict=True):
        node["module"] = workflow.module.name
        node["arms"] = [list(arm) for arm in workflow.arms.items()]
        node["has_opaque_state"] = workflow.has_opaque_state
        node["is_flow"] = workflow.is_flow
    value: Value = decoded(view)
    return value


def _view(part: Any) -> Any:
    """A part of a typed view as a value: schemas by their names, maps without their keys."""
    if isinstance(part, Schema):
        return part.name
    if isinstance(part, enum.Enum):
        return part.value
    if dataclasses.is_dataclass(part):
        left_out = _ONLY_OF_THE_HOST.get(type(part), set())
        names = [field.name for field in dataclasses.fields(part) if field.name not in left_out]
        return {name: _view(getattr(part, name)) for name in names}
    if isinstance(part, Mapping):
        return [_view(value) for value in part.values()]
    if isinstance(part, frozenset):
        return sorted(part)
    return [_view(item) for item in part] if isinstance(part, tuple) else part
