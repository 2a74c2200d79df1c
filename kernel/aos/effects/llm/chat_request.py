"""Params of an effect, and the documents that they name (AG-72) -> the body of a request for a chat
completion (AG-73).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from aos.effects.llm.api_key import json_text
from aos.effects.llm.llm_errors import bad_request, document_invalid, unsupported
from aos.values.json_text import finite_json
from aos.worker import EffectContext

OURS: Final = frozenset({"messages", "model", "n", "stream", "stream_options", "tools"})
"""Fields of the request that ``provider_options_ref`` may not set."""

ROLES: Final = ("system", "developer", "user", "assistant", "tool")
BLOBS_BYTES_MAX: Final = 16 * 1024 * 1024
REFS: Final = "aos.refs"
"""Kind of the window item that only keeps the blobs of an answer: it is no message (AG-74)."""

Message = dict[str, Any]

_TOOL_CHOICES: Final = {"Auto": "auto", "None": "none", "Required": "required"}


async def generation(params: Mapping[str, Any], documents: LlmDocuments) -> dict[str, Any]:
    """The request of ``sys/llm.generate@1``. Raises as ``LlmDocuments``."""
    runtime = params["runtime"]
    messages = await documents.window(params["window_items"], params["provider"])
    tools = await documents.tools(runtime["tool_refs"] or ())
    format_ref = runtime["response_format_ref"]
    fields = {
        "temperature": _float_of(runtime["temperature"]),
        "top_p": _float_of(runtime["top_p"]),
        "max_tokens": runtime["max_tokens"],
        "stop": runtime["stop_sequences"],
        "reasoning_effort": runtime["reasoning_effort"],
        "metadata": runtime["metadata"],
        "tools": tools or None,
        "tool_choice": _tool_choice(runtime["tool_choice"]),
        "response_format": None if format_ref is None else await documents.object(format_ref),
    }
    return request(
        params["model"],
        messages,
        {name: value for name, value in fields.items() if value is not None},
        await options(runtime["provider_options_ref"], documents),
    )


async def options(ref: str | None, documents: LlmDocuments) -> dict[str, Any]:
    """The provider's own options.

    Raises:
        EffectFailed: They set a field of ``OURS``, or as ``LlmDocuments``.
    """
    provider_options = {} if ref is None else await documents.object(ref)
    reserved_names = sorted(provider_options.keys() & OURS)
    if reserved_names:
        raise document_invalid(f"{ref}: provider options may not set {', '.join(reserved_names)}")
    return provider_options


def request(
    model: str,
    messages: list[Message],
    fields: Mapping[str, Any],
    provider_options: Mapping[str, Any],
) -> dict[str, Any]:
    """The body of a request. ``provider_options`` win over ``fields``.

    Raises:
        EffectFailed: There is no message.
    """
    if not messages:
        raise bad_request("window_items: expected at least one message")
    return {
        "model": model,
        "messages": messages,
        **fields,
        **provider_options,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _float_of(decimal: str | None) -> float | None:
    return None if decimal is None else float(decimal)


def _tool_choice(choice: Mapping[str, Any] | None) -> object:
    if choice is None:
        return None
    if choice["$tag"] == "Tool":
        return {"type": "function", "function": {"name": choice["$value"]["name"]}}
    return _TOOL_CHOICES[choice["$tag"]]


class LlmDocuments:
    """Reads the documents that the params of one effect name: blobs -> messages, tools and options
    (AG-72, AG-73). Together they have at most ``BLOBS_BYTES_MAX``.

    Methods raise ``EffectFailed``: ``llm_document_invalid``, ``llm_unsupported``, and as
    ``ctx.read_blob``.
    """

    def __init__(self, ctx: EffectContext) -> None:
        self._ctx = ctx
        self._bytes_left = BLOBS_BYTES_MAX

    async def window(self, items: Iterable[Mapping[str, Any]], provider: str) -> list[Message]:
        """The messages of a window, in the order of its items."""
        return [message for item in items for message in await self.item(item, provider)]

    async def item(self, item: Mapping[str, Any], provider: str) -> list[Message]:
        """The messages of one window item (AG-72)."""
        kind, ref = item["kind"]["$tag"], item["ref_"]
        if kind == "Custom":
            custom = item["kind"]["$value"]["kind"]
            if custom == REFS:
                return []
            if custom == "text":
                return [_user_message(_utf8_text(await self._read(ref), ref))]
            raise unsupported(
                f"window item {item['item_id']:.80}: expected the kind text of Custom, found "
                f"{custom!r:.80}"
            )
        if kind == "ProviderNativeArtifactRef":
            raise unsupported(
                f"window item {item['item_id']:.80}: chat completions take no native artifacts"
            )
        if kind == "ProviderRawWindowRef":
            _check_compatible(item, provider)
            return _raw_window(await self.json(ref), ref)
        return await self._messages(ref)

    async def tools(self, refs: Iterable[str]) -> list[Mapping[str, Any]]:
        """Tool definitions, as an endpoint takes them."""
        definitions: list[Mapping[str, Any]] = []
        for ref in refs:
            document = await self.json(ref)
            tools = document.get("tools", document) if isinstance(document, dict) else document
            definitions += [
                _tool_definition(tool, ref)
                for tool in (tools if isinstance(tools, list) else [tools])
            ]
        return definitions

    async def object(self, ref: str) -> dict[str, Any]:
        """A document that is one JSON object."""
        document = await self.json(ref)
        if not isinstance(document, dict):
            raise document_invalid(f"{ref}: expected a JSON object")
        return document

    async def json(self, ref: str) -> Any:
        """A document in JSON."""
        document = _parsed_json(await self._read(ref))
        if document is None:
            raise document_invalid(f"{ref}: expected a document in JSON")
        return document

    async def _messages(self, ref: str) -> list[Message]:
        data = await self._read(ref)
        document = _parsed_json(data)
        if not isinstance(document, dict | list):
            return [_user_message(_utf8_text(data, ref))]
        entries = document if isinstance(document, list) else [document]
        messages: list[Message] = []
        for entry in entries:
            if not isinstance(entry, dict):
                raise document_invalid(f"{ref}: expected messages, each a JSON object")
            messages.append(await self._message(entry, ref))
        return messages

    async def _message(self, document: Mapping[str, Any], ref: str) -> Message:
        if document.get("type") == "function_call_output":
            return _tool_result(document, ref)
        if "role" not in document and document.keys() & {"assistant_text", "tool_calls_ref"}:
            return await self._output(document, ref)
        message = {"role": "user", **document}
        if message["role"] not in ROLES:
            raise document_invalid(
                f"{ref}: role: expected one of {', '.join(ROLES)}, found {message['role']!r:.40}"
            )
        content = message.get("content")
        if content is None and message["role"] != "assistant":
            raise document_invalid(f"{ref}: content: expected text or a list of parts")
        if not isinstance(content, str | list | None):
            raise document_invalid(f"{ref}: content: expected text or a list of parts")
        return message

    async def _output(self, envelope: Mapping[str, Any], ref: str) -> Message:
        """The message of an earlier answer, from its ``sys/LlmOutputEnvelope@1``."""
        message: Message = {"role": "assistant", "content": envelope.get("assistant_text")}
        calls_ref = envelope.get("tool_calls_ref")
        if calls_ref is not None:
            calls = await self.json(_text_field(envelope, "tool_calls_ref", ref))
            message["tool_calls"] = [
                await self._call(call, calls_ref) for call in _checked_list(calls, calls_ref)
            ]
        return message

    async def _call(self, call: Any, ref: str) -> Mapping[str, Any]:
        if not isinstance(call, dict):
            raise document_invalid(f"{ref}: expected tool calls, each a JSON object")
        arguments = await self._read(_text_field(call, "arguments_ref", ref))
        return {
            "id": _text_field(call, "call_id", ref),
            "type": "function",
            "function": {
                "name": _text_field(call, "tool_name", ref),
                "arguments": arguments.decode("utf-8", "replace"),
            },
        }

    async def _read(self, ref: str) -> bytes:
        data = await self._ctx.read_blob(ref)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise document_invalid(
                f"the documents of the request have more than {BLOBS_BYTES_MAX:,} bytes together"
            )
        return data


def _user_message(text: str) -> Message:
    return {"role": "user", "content": text}


def _tool_result(call_output: Mapping[str, Any], ref: str) -> Message:
    output = call_output.get("output")
    return {
        "role": "tool",
        "tool_call_id": _text_field(call_output, "call_id", ref),
        "content": output if isinstance(output, str) else json_text(output),
    }


def _check_compatible(item: Mapping[str, Any], provider: str) -> None:
    stated = item["provider_compatibility"]
    if stated is not None and stated["provider"] != provider:
        raise unsupported(
            f"window item {item['item_id']:.80}: a raw window of {stated['provider']:.80} cannot "
            f"be sent to {provider:.80}"
        )


def _raw_window(document: Any, ref: str) -> list[Message]:
    messages = _checked_list(document, ref)
    if not all(isinstance(message, dict) for message in messages):
        raise document_invalid(f"{ref}: expected a list of messages, each a JSON object")
    return messages


def _tool_definition(definition: Any, ref: str) -> Mapping[str, Any]:
    inner = definition.get("function", definition) if isinstance(definition, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str) or not inner["name"]:
        raise document_invalid(f"{ref}: expected a tool as a JSON object with a name")
    schema = inner.get("parameters", inner.get("input_schema", {"type": "object"}))
    if not isinstance(schema, dict):
        raise document_invalid(f"{ref}: parameters: expected a JSON Schema")
    function = {"name": inner["name"], "parameters": schema}
    if isinstance(inner.get("description"), str):
        function["description"] = inner["description"]
    if isinstance(inner.get("strict"), bool):
        function["strict"] = inner["strict"]
    return {"type": "function", "function": function}


def _text_field(of: Mapping[str, Any], name: str, ref: str) -> str:
    value = of.get(name)
    if not isinstance(value, str):
        raise document_invalid(f"{ref}: {name}: expected text")
    return value


def _checked_list(document: Any, ref: str) -> list[Any]:
    if not isinstance(document, list):
        raise document_invalid(f"{ref}: expected a JSON list")
    return document


def _utf8_text(data: bytes, ref: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise document_invalid(f"{ref}: expected JSON, or text in UTF-8") from None


def _parsed_json(data: bytes) -> Any:
    """The value of a document; None for bytes that are not JSON."""
    try:
        return finite_json(data)
    except (ValueError, RecursionError):
        return None
