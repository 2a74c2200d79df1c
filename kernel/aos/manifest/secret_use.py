"""Check the secrets that an effect's params name (spec/manifest.md, M-56).

It is pure: a step that names a wrong one faults in the same way when it is replayed. Whether the
value of a secret can be found is decided by the node at dispatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aos.manifest.effective import Effective
from aos.manifest.manifest_secrets import SECRET_REF, secret_name
from aos.values.cbor import Value
from aos.values.errors import quoted, segment
from aos.values.expressions import (
    ListOf,
    MapOf,
    Option,
    Record,
    Scalar,
    SetOf,
    Type,
    TypeRef,
    Variant,
)
from aos.values.schema import Schema


def problem(effective: Effective, workflow: str, effect: str, params_value: Value) -> str | None:
    """A sentence about the first reference that is not allowed; None if all are. It is hashed.

    ``params_value`` must be in normal form. Without secrets in the manifest the answer is None:
    then HTTP refuses references at its gate (M-52), and for other effects they are plain data.
    """
    definition = effective.effects[effect]
    if not definition.takes_secrets or not effective.secrets:
        return None
    for path, name in named_secrets(definition.params, params_value, effective.schemas):
        secret = effective.secrets.get(name)
        if secret is None:
            return f"{path}: secret {quoted(name)} is not in the manifest"
        if not secret.may_be_used_by(workflow):
            return f"{path}: secret {quoted(name)} may not be used by {workflow}"
    return None


def named_secrets(
    params: Schema, value: Value, schemas: Mapping[str, Schema]
) -> Iterator[tuple[str, str]]:
    """(path, name of a definition) of every reference in a value in normal form, in fixed order."""
    return _secrets_in(TypeRef(params.name), value, "$", schemas)


def _secrets_in(
    type_: Type, value: Any, path: str, schemas: Mapping[str, Schema]
) -> Iterator[tuple[str, str]]:
    while isinstance(type_, TypeRef):  # a chain of aliases may be as long as a manifest
        if type_.name == SECRET_REF:
            yield path, secret_name(value["alias"], value["version"])
            return
        type_ = schemas[type_.name].type
    match type_:
        case Record(fields):
            # By name, because the document does not keep the order in which the author wrote them.
            for name, inside in sorted(fields, key=lambda field: field[0]):
                yield from _secrets_in(inside, value[name], path + segment(name), schemas)
        case Variant(arms):
            if "$value" in value:
                inside = dict(arms)[value["$tag"]]
                yield from _secrets_in(inside, value["$value"], path + segment("$value"), schemas)
        case Option(inside):
            if value is not None:
                yield from _secrets_in(inside, value, path, schemas)
        case MapOf(item=item) if not isinstance(item, Scalar):
            for key in sorted(value):
                yield from _secrets_in(item, value[key], path + segment(key), schemas)
        case ListOf(item) | SetOf(item) if not isinstance(item, Scalar):
            for index, inner in enumerate(value):
                yield from _secrets_in(item, inner, path + segment(index), schemas)
