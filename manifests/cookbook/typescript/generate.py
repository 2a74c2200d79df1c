"""Write client.ts: a TypeScript client of a node, from its OpenAPI document.

python manifests/cookbook/typescript/generate.py spec/openapi.json > client.ts

The document is that of your node, too: curl http://127.0.0.1:7460/v1/openapi.json
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

JSON: Final = "application/json"
STREAM: Final = "text/event-stream"
RUNTIME: Final = Path(__file__).with_name("runtime.ts")
WIDTH: Final = 100


def camel(name: str) -> str:
    """send_events -> sendEvents"""
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def pascal(name: str) -> str:
    """send_events -> SendEvents"""
    found = camel(name)
    return found[0].upper() + found[1:]


def type_of(schema: Mapping[str, Any], indent: str = "") -> str:
    """The TypeScript type of a JSON Schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(type_of(each, indent) for each in schema["anyOf"]))
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    kinds = schema.get("type", "any")
    if isinstance(kinds, list):
        found = [type_of({**schema, "type": each}, indent) for each in kinds]
        return " | ".join(f"({each})" if " | " in each else each for each in found)
    if kinds == "array":
        of = type_of(schema.get("items", {}), indent)
        return f"({of})[]" if " | " in of else f"{of}[]"
    if kinds == "object":
        return object_type(schema, indent)
    return {
        "string": "string", "integer": "number", "number": "number", "boolean": "boolean",
        "null": "null",
    }.get(kinds, "unknown")  # fmt: skip


def object_type(schema: Mapping[str, Any], indent: str) -> str:
    """The type of an object; one without properties may have any."""
    properties = schema.get("properties")
    if not properties:
        return "Record<string, unknown>"
    required, inner = schema.get("required", ()), indent + "  "
    lines = []
    for name, each in properties.items():
        lines += comment(each.get("description"), inner)
        lines.append(f"{inner}{name}{'' if name in required else '?'}: {type_of(each, inner)};")
    return "\n".join(["{", *lines, f"{indent}}}"])


def comment(text: str | None, indent: str) -> list[str]:
    """A documentation comment; long ones have several lines."""
    if not text:
        return []
    words, lines = text.replace("*/", "* /").split(), [""]
    for word in words:
        if len(indent) + 3 + len(lines[-1]) + len(word) > WIDTH:
            lines.append("")
        lines[-1] += f" {word}"
    if len(lines) == 1:
        return [f"{indent}/**{lines[0]} */"]
    return [f"{indent}/**", *(f"{indent} *{each}" for each in lines), f"{indent} */"]


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(method, path, operation) of each."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def query_type(operation: Mapping[str, Any]) -> str | None:
    """The type of the query of an operation; None without one."""
    lines = []
    for each in operation.get("parameters", ()):
        if each["in"] == "query":
            optional = "" if each.get("required") else "?"
            lines += comment(each.get("description"), "  ")
            lines.append(f"  {each['name']}{optional}: {type_of(each['schema'], '  ')};")
    return "\n".join(["{", *lines, "}"]) if lines else None


def answer_media(operation: Mapping[str, Any]) -> str:
    """The media type of the answer that the client reads."""
    media = list(operation["responses"]["200"]["content"])
    return JSON if JSON in media else str(media[0])


def method(verb: str, path: str, operation: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The types of an operation, and the lines of its method."""
    name = operation["operationId"]
    types: list[str] = []
    parameters: list[str] = []
    fields = [f'method: "{verb}"', f'path: "{path}"']
    content = operation.get("requestBody", {}).get("content")
    if content and JSON in content:
        types += [f"export type {pascal(name)}Body = {type_of(content[JSON]['schema'])};", ""]
        parameters.append(f"body: {pascal(name)}Body")
        fields.append("body")
    elif content:
        [media] = content
        parameters.append("bytes: Uint8Array")
        fields += ["bytes", f'type: "{media}"']
    query = query_type(operation)
    if query is not None:
        is_needed = any(
            each.get("required") and each["in"] == "query" for each in operation["parameters"]
        )
        types += [f"export type {pascal(name)}Query = {query};", ""]
        parameters.append(f"query: {pascal(name)}Query" + ("" if is_needed else " = {}"))
        fields.append("query")
    if any(each["in"] == "header" for each in operation.get("parameters", ())):
        parameters.append("idempotencyKey?: string")
        fields.append("idempotencyKey")
    media = answer_media(operation)
    call = f"{{ {', '.join(fields)} }}"
    head = f"  {camel(name)}({', '.join(parameters)})"
    lines = comment(operation["summary"], "  ")
    if media == STREAM:
        lines += [f"{head}: AsyncGenerator<StreamEvent> {{", f"    return this.stream({call});"]
    elif media == JSON:
        schema = operation["responses"]["200"]["content"][JSON]["schema"]
        types += [f"export type {pascal(name)}Answer = {type_of(schema)};", ""]
        lines.append(f"{head}: Promise<{pascal(name)}Answer> {{")
        lines.append(f"    return this.json({call});")
    else:
        kind, read = ("string", "text") if media.startswith("text/") else ("Uint8Array", "bytes")
        lines += [f"{head}: Promise<{kind}> {{", f"    return this.{read}({call});"]
    return types, [*lines, "  }", ""]


def generated(document: Mapping[str, Any]) -> str:
    """The whole file."""
    types: list[str] = []
    for name, schema in document["components"]["schemas"].items():
        types += [*comment(schema.get("description"), ""),
                  f"export type {name} = {type_of(schema)};", ""]  # fmt: skip
    methods: list[str] = []
    for verb, path, operation in operations(document):
        more, lines = method(verb, path, operation)
        types += more
        methods += lines
    head = "// Written by generate.py from the OpenAPI document of a node. Do not edit it."
    return "\n".join(
        [head, "", RUNTIME.read_text().rstrip(), "", *types,
         "/** A client of one node. Each method is an operation of its API. */",
         "export class Client extends Connection {", *methods[:-1], "}", ""]
    )  # fmt: skip


if __name__ == "__main__":
    sys.stdout.write(generated(json.loads(Path(sys.argv[1]).read_text())))
