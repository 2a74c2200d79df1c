"""Params of an effect -> the body of a request for a chat completion (AG-73)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.executors.llm.llm_documents import LlmDocuments, Message
from aos.executors.llm.llm_errors import bad_request, document_invalid

OURS: Final = frozenset({"messages", "model", "n", "stream", "stream_options", "tools"})
"""Fields of the request that ``provider_options_ref`` may not set."""

_CHOICES: Final = {"Auto": "auto", "None": "none", "Required": "required"}


async def generation(params: Mapping[str, Any], documents: LlmDocuments) -> dict[str, Any]:
    """The request of ``sys/llm.generate@1``. Raises as ``LlmDocuments``."""
    runtime = params["runtime"]
    messages = await documents.window(params["window_items"], params["provider"])
    tools = await documents.tools(runtime["tool_refs"] or ())
    format_ref = runtime["response_format_ref"]
    fields = {
        "temperature": _number(runtime["temperature"]),
        "top_p": _number(runtime["top_p"]),
        "max_tokens": runtime["max_tokens"],
        "stop": runtime["stop_sequences"],
        "reasoning_effort": runtime["reasoning_effort"],
        "metadata": runtime["metadata"],
        "tools": tools or None,
        "tool_choice": _choice(runtime["tool_choice"]),
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


def _number(decimal: str | None) -> float | None:
    return None if decimal is None else float(decimal)


def _choice(choice: Mapping[str, Any] | None) -> object:
    if choice is None:
        return None
    if choice["$tag"] == "Tool":
        return {"type": "function", "function": {"name": choice["$value"]["name"]}}
    return _CHOICES[choice["$tag"]]
