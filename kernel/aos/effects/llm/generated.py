"""A complete answer -> the receipt of ``sys/llm.generate@1`` and its blobs (AG-74)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aos.effects.llm.api_key import AnswerBlobs, ApiKey
from aos.effects.llm.chat_answer import REASONS, ChatAnswer, call_id, clean
from aos.effects.llm.chat_client import Completion
from aos.effects.llm.chat_request import REFS
from aos.values.json_text import finite_json
from aos.worker.results import WithBlobs

WORD_CHARS_MAX: Final = 256
RATE_HEADERS_MAX: Final = 32
_RATE_HEADERS: Final = ("x-ratelimit-", "ratelimit", "retry-after")


def receipt(completion: Completion, key: ApiKey, provider: str) -> WithBlobs:
    """The receipt of a generation. The API key is replaced in all of it."""
    answer, blobs = completion.answer, AnswerBlobs(key)
    text = key.redactor.text(answer.text) or None
    calls_ref, arguments = _calls(answer, blobs, key)
    reasoning_ref = blobs.text(answer.reasoning) if answer.reasoning else None
    # Options without a value are left out.
    envelope = {
        "assistant_text": text,
        "tool_calls_ref": calls_ref,
        "reasoning_ref": reasoning_ref,
    }
    output_ref = blobs.json({name: ref for name, ref in envelope.items() if ref is not None})
    inner_refs = [ref for ref in (calls_ref, reasoning_ref, *arguments) if ref is not None]
    warnings = warnings_of(answer)
    rates = _rates(completion.headers)
    value = {
        "output_ref": output_ref,
        "raw_output_ref": blobs.json(answer.to_document()),
        "provider_response_id": _bounded_word(answer.id, key),
        "provider_context_items": [_keeper(output_ref, inner_refs)] if inner_refs else [],
        "finish_reason": {
            "reason": REASONS.get(answer.finish or "", "other"),
            "raw": _bounded_word(answer.finish, key),
        },
        "token_usage": token_usage(answer),
        "usage_details": _details(answer),
        "warnings_ref": blobs.json(warnings) if warnings else None,
        "rate_limit_ref": blobs.json(rates) if rates else None,
        "cost_cents": None,
        "provider_id": provider,
    }
    return WithBlobs(value=value, blobs=blobs.all)


def token_usage(answer: ChatAnswer) -> dict[str, int | None]:
    """``sys/TokenUsage@1``; zeros if the endpoint gave none, with a warning (``warnings_of``)."""
    usage = answer.usage
    if usage is None:
        return {"prompt": 0, "completion": 0, "total": None}
    return {"prompt": usage.prompt, "completion": usage.completion, "total": usage.total}


def warnings_of(answer: ChatAnswer) -> list[dict[str, str]]:
    """Facts about an answer that its receipt has no field for: ``{"code", "message"}`` each."""
    warnings = []
    if answer.usage is None:
        warnings.append(_warning("usage_missing", "the endpoint gave no usage: tokens are 0"))
    if answer.is_refusal:
        warnings.append(_warning("refusal", "the text is a refusal of the model"))
    warnings += [
        _warning("arguments_not_json", f"the arguments of call {index} are no JSON object")
        for index, call in enumerate(answer.tool_calls)
        if not _is_object(call.arguments)
    ]
    return warnings


def _warning(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message}


def _calls(answer: ChatAnswer, blobs: AnswerBlobs, key: ApiKey) -> tuple[str | None, list[str]]:
    """The list of tool calls, and the names of their arguments."""
    if not answer.tools:
        return None, []
    calls: list[dict[str, str]] = []
    for index, call in enumerate(answer.tool_calls):
        call_document = {
            "call_id": key.redactor.text(call_id(index, call)),
            "tool_name": key.redactor.text(clean(call.name)),
            "arguments_ref": blobs.text(clean(call.arguments) or "{}"),
        }
        if call.id:
            call_document["provider_call_id"] = key.redactor.text(clean(call.id))
        calls.append(call_document)
    return blobs.json(calls), [call["arguments_ref"] for call in calls]


def _keeper(output_ref: str, inner_refs: list[str]) -> dict[str, Any]:
    """The window item that names the blobs inside of other blobs, so that the world keeps them.

    A workflow may put it into its window: it is no message.
    """
    return {
        "item_id": REFS,
        "kind": {"$tag": "Custom", "$value": {"kind": REFS}},
        "ref_": output_ref,
        "lane": None,
        "source_range": None,
        "source_refs": inner_refs,
        "provider_compatibility": None,
        "estimated_tokens": None,
        "metadata": {},
    }


def _details(answer: ChatAnswer) -> dict[str, int | None] | None:
    usage = answer.usage
    if usage is None or (usage.reasoning, usage.cache_read, usage.cache_write) == (None,) * 3:
        return None
    return {
        "reasoning_tokens": usage.reasoning,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
    }


def _rates(headers: Mapping[str, str]) -> dict[str, str]:
    names = sorted(name for name in headers if name.startswith(_RATE_HEADERS))
    return {name: headers[name] for name in names[:RATE_HEADERS_MAX]}


def _bounded_word(text: str | None, key: ApiKey) -> str | None:
    """A word of the endpoint that is in the receipt itself, so it is bounded."""
    return None if text is None else key.redactor.text(clean(text))[:WORD_CHARS_MAX]


def _is_object(text: str) -> bool:
    try:
        return isinstance(finite_json(text or "{}"), dict)
    except (ValueError, RecursionError):
        return False
