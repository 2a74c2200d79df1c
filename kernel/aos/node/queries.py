"""Read the query of a request by the parameters of its route (spec/node-api.md, N-112)."""

from __future__ import annotations

import difflib
import re
from typing import Any, Final
from urllib.parse import parse_qsl

from aos.errors import excerpt
from aos.node import json_schema
from aos.node.problems import Problem
from aos.node.routes import ApiRoute
from aos.read.operations.operation import Parameter

FIELDS_MAX: Final = 200
_FLAGS: Final = {"1": True, "true": True, "0": False, "false": False}
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,19})")


def read_query(route: ApiRoute, query: bytes) -> dict[str, Any]:
    """Return the parameters of a query, with the defaults of those that are missing.

    Raises:
        Problem: A parameter is unknown, missing, given twice, or of another type (400).
    """
    parameters = {parameter.name: parameter for parameter in route.query}
    texts: dict[str, list[str]] = {}
    for name, text in _pairs(query):
        if name not in parameters:
            raise _unknown(name, list(parameters))
        texts.setdefault(name, []).append(text)
    values: dict[str, Any] = {}
    for parameter in route.query:
        if parameter.name in texts:
            values[parameter.name] = _read(parameter, texts[parameter.name])
        elif parameter.required:
            raise Problem(400, "query_is_invalid", f"{parameter.name}: expected this parameter")
        elif "default" in parameter.schema:
            values[parameter.name] = parameter.schema["default"]
    return values


def pairs_of(text: bytes, *, fields_max: int = FIELDS_MAX) -> list[tuple[str, str]]:
    """Return the names and values of a query or a form, ``name=value&…``. Nothing between two
    ``&``, before the first or after the last one is no pair.

    Raises:
        ValueError: It is something else, or not UTF-8, or has more fields.
    """
    parts = [part for part in text.decode("ascii").split("&") if part]
    if not parts:
        return []
    return parse_qsl(
        "&".join(parts), keep_blank_values=True, strict_parsing=True, errors="strict",
        max_num_fields=fields_max,
    )  # fmt: skip


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return pairs_of(query)
    except ValueError as error:  # also of bytes that are not ASCII or not UTF-8
        raise Problem(
            400, "query_is_invalid", f"query: expected name=value&… in UTF-8 ({error})"
        ) from None


def _read(parameter: Parameter, texts: list[str]) -> object:
    kind = parameter.schema["type"]
    if kind == "array":
        return _checked(parameter, list(texts))
    if len(texts) > 1:
        raise Problem(400, "query_is_invalid", f"{parameter.name}: given {len(texts)} times")
    [text] = texts
    match kind:
        case "integer":
            if not _INTEGER.fullmatch(text):
                raise _misfit(parameter, "a whole number", text)
            return _checked(parameter, int(text))
        case "boolean":
            if text not in _FLAGS:
                raise _misfit(parameter, "1 or 0, true or false", text)
            return _FLAGS[text]
    return _checked(parameter, text)


def _checked(parameter: Parameter, value: object) -> object:
    try:
        return json_schema.read(parameter.schema, value)
    except Problem as problem:
        detail = problem.detail.removeprefix("body").removeprefix(" ").removeprefix(": ")
        raise Problem(400, "query_is_invalid", f"{parameter.name}: {detail}") from None


def _misfit(parameter: Parameter, expected: str, text: str) -> Problem:
    actual = excerpt(repr(text), characters_max=60)
    return Problem(
        400, "query_is_invalid", f"{parameter.name}: expected {expected}, found {actual}"
    )


def _unknown(name: str, names: list[str]) -> Problem:
    name_text = excerpt(name, characters_max=60)
    near = difflib.get_close_matches(name_text, names, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    expected = ", ".join(names) if names else "no parameter"
    return Problem(
        400, "query_is_invalid", f"query: {name_text!r} is unknown here: expected {expected}{hint}"
    )
