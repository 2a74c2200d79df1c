"""Check the shape of nodes with the JSON Schemas in ``spec/schemas`` (M-1 to M-4).

Reading those files, once, is the only file access of this package. An installed wheel has them in
this folder, a checkout in ``spec/schemas``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from aos.errors import excerpt
from aos.manifest.catalog import did_you_mean
from aos.manifest.expressions import escape
from aos.manifest.forms import KINDS
from aos.values.digests import parse_hash
from aos.values.errors import ValueProblem

NODE_KINDS: Final = (*KINDS, "manifest")

_HASH_TITLE: Final = "blake3:<64 lower-case hex digits>"
_ARTICLE: Final[Mapping[str, str]] = {
    "object": "an object",
    "array": "an array",
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
}


def schema_folder() -> Path:
    """The folder of the JSON Schemas, in the installed package or in the checkout."""
    this_file = Path(__file__).resolve()
    installed = this_file.parent / "schemas"
    return installed if installed.is_dir() else this_file.parents[3] / "spec" / "schemas"


def problems(node: object) -> list[tuple[str, str, str | None]]:
    """Every problem with the shape of one node: (JSON pointer, message, hint).

    The type of a defschema is not checked here: ``aos.values`` has better messages. Empty if the
    node has the shape of its ``$kind``.
    """
    if not isinstance(node, dict):
        return [
            ("", f"expected a node, found {_json_text(node)}", "a node is an object with $kind")
        ]
    kind = node.get("$kind")
    if not isinstance(kind, str) or kind not in NODE_KINDS:
        return [_bad_kind(node)]
    if kind == "defschema" and "type" in node:
        node = {**node, "type": {"unit": {}}}
    return list(_shape_problems(json.dumps(node)))


@lru_cache(maxsize=1_024)
def _shape_problems(text: str) -> Sequence[tuple[str, str, str | None]]:
    """The problems of a node in JSON. An author's nodes are read more than once: to find the files
    that a manifest needs, to load it, and at each change under ``aos dev``."""
    node = json.loads(text)
    errors = _validator(node["$kind"]).iter_errors(node)
    return [
        problem
        for error in sorted(errors, key=lambda error: list(map(str, error.path)))
        for problem in _worded(error)
    ]


def _bad_kind(node: Mapping[str, Any]) -> tuple[str, str, str | None]:
    kinds = ", ".join(NODE_KINDS)
    if "$kind" not in node:
        return "", "the field $kind is missing", f"a node is one of {kinds}"
    kind = node["$kind"]
    near = did_you_mean(kind, NODE_KINDS) if isinstance(kind, str) else None
    return "/$kind", f"expected one of {kinds}, found {_json_text(kind)}", near


@cache
def _validator(kind: str) -> Draft202012Validator:
    return _Strict(_schemas()[f"{kind}.schema.json"], registry=_registry())


@cache
def _schemas() -> Mapping[str, Any]:
    return {
        path.name: json.loads(path.read_text("utf-8"))
        for path in sorted(schema_folder().glob("*.schema.json"))
    }


@cache
def _registry() -> Registry[Any]:
    resources = [(name, DRAFT202012.create_resource(schema)) for name, schema in _schemas().items()]
    return Registry[Any]().with_resources(resources)


def _whole_pattern(
    _validator: Validator, pattern: str, instance: object, _schema: Mapping[str, Any]
) -> Iterator[ValidationError]:
    # In Python $ also matches before a newline at the end; in JSON Schema it does not.
    strict = re.sub(r"\$$", r"\\Z", pattern)
    if isinstance(instance, str) and not re.search(strict, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


_Strict: Final[type[Draft202012Validator]] = extend(  # type: ignore[no-untyped-call]  # no stubs
    Draft202012Validator, {"pattern": _whole_pattern}
)


def _worded(error: ValidationError) -> Iterator[tuple[str, str, str | None]]:
    """One error of jsonschema in our words, with one message for each unknown field."""
    at = "".join(f"/{escape(str(part))}" for part in error.absolute_path)
    instance: Any = error.instance
    schema: Any = error.schema
    title = schema.get("title")
    match error.validator:
        case "additionalProperties":
            yield from _unknown_fields(at, instance, schema)
        case "required" | "dependentRequired":
            yield at, f"the field {_missing_field(error)} is missing", None
        case "type":
            expected = title or _ARTICLE.get(str(error.validator_value), error.validator_value)
            yield at, f"expected {expected}, found {_json_text(instance)}", None
        case "enum" | "const":
            allowed = error.validator_value
            options: list[str] = allowed if isinstance(allowed, list) else [str(allowed)]
            near = did_you_mean(instance, options) if isinstance(instance, str) else None
            options_text = " or ".join(json.dumps(option) for option in options)
            yield at, f"expected {options_text}, found {_json_text(instance)}", near
        case "minimum" | "maximum":
            low, high = schema["minimum"], schema.get("maximum")
            expected = f"{low} to {high}" if high is not None else f"{low} or more"
            yield at, f"expected {expected}, found {_json_text(instance)}", None
        case "minLength" | "minItems":
            yield at, f"expected {title or 'something'}, found nothing", None
        case "maxItems":
            yield at, f"expected {title or 'fewer items'}, found {len(instance)}", None
        case "maxLength":
            length_max = error.validator_value
            yield at, f"expected at most {length_max} characters, found {len(instance)}", None
        case "pattern" if title == _HASH_TITLE:
            yield (at, *_bad_hash(instance))
        case _:
            yield at, f"expected {title or error.message}, found {_json_text(instance)}", None


def _unknown_fields(
    at: str, instance: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[tuple[str, str, str | None]]:
    known_fields = schema["properties"]
    known_text = f"known are {', '.join(known_fields)}"
    for field in instance:
        if field not in known_fields:
            near = did_you_mean(field, [name for name in known_fields if name not in instance])
            hint = f"{near} {known_text}" if near else known_text
            yield f"{at}/{escape(excerpt(field))}", f"unknown field {excerpt(field)}", hint


def _missing_field(error: ValidationError) -> str:
    """The field of a ``required`` error: jsonschema names it only in the message."""
    instance: Any = error.instance
    required: Any = error.validator_value
    if error.validator == "dependentRequired":
        required = [name for field in instance for name in required.get(field, ())]
    return next(str(name) for name in required if repr(name) in error.message)


def _bad_hash(text: str) -> tuple[str, str | None]:
    try:
        parse_hash(text)
    except ValueProblem as problem:
        return problem.message, None
    raise AssertionError("the pattern and parse_hash disagree")


def _json_text(value: object) -> str:
    """``describe`` in the terms of JSON, which the author wrote."""
    if isinstance(value, dict):
        fields = ", ".join(map(excerpt, list(value)[:8]))
        return f"an object with {fields}" if value else "an empty object"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    if isinstance(value, str):
        return json.dumps(value if len(value) <= 80 else value[:80] + "…", ensure_ascii=False)
    return excerpt(json.dumps(value))
