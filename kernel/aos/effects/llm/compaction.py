"""``sys/llm.compact@1``: a window, summarized by the model (AG-79a)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aos.effects.llm.answer_blobs import AnswerBlobs, json_text
from aos.effects.llm.api_key import ApiKey
from aos.effects.llm.chat_answer import ChatAnswer
from aos.effects.llm.chat_request import LlmDocuments, Message, options, request
from aos.effects.llm.generated import token_usage, warnings_of
from aos.effects.llm.llm_errors import bad_answer, bad_request, unsupported
from aos.worker.results import WithBlobs

INSTRUCTION: Final = (
    "You summarize the beginning of a conversation, so that the conversation can continue without "
    "it. Keep the goals, decisions, facts, names, numbers, open questions and results of tools. "
    "Leave out greetings and repetitions. Answer with the summary alone, in the language of the "
    "conversation."
)
HEADING: Final = "Summary of the conversation so far:\n\n"
_TRUNCATED: Final = {
    "code": "summary_truncated",
    "message": "the model reached its limit of tokens before the end of the summary",
}


async def summary_request(params: Mapping[str, Any], documents: LlmDocuments) -> dict[str, Any]:
    """The request for a summary of the source window. Raises as ``LlmDocuments``; ``EffectFailed``
    also if the strategy is ``ProviderNative``, or there is nothing to summarize."""
    if params["strategy"]["$tag"] == "ProviderNative":
        raise unsupported("strategy: chat completions cannot compact by themselves: use AosSummary")
    messages = await documents.window(params["source_window_items"], params["provider"])
    if not messages:
        raise bad_request("source_window_items: expected at least one message")
    target = params["target_tokens"]
    wish = "" if target is None else f" Use at most {target} tokens."
    return request(
        params["model"],
        [
            {"role": "system", "content": INSTRUCTION + wish},
            {"role": "user", "content": transcript(messages)},
        ],
        {} if target is None else {"max_tokens": target},
        await options(params["provider_options_ref"], documents),
    )


def compacted(answer: ChatAnswer, params: Mapping[str, Any], key: ApiKey) -> WithBlobs:
    """The receipt: preserved items, the summary as one item, the recent tail.

    Raises:
        EffectFailed: The model wrote no summary.
    """
    summary = key.redactor.text(answer.text).strip()
    if not summary or answer.is_refusal or answer.finish == "content_filter":
        raise bad_answer("the model wrote no summary")
    blobs = AnswerBlobs(key)
    ref = blobs.json({"role": "user", "content": HEADING + summary})
    warnings = warnings_of(answer) + ([_TRUNCATED] if answer.finish == "length" else [])
    source: Sequence[Mapping[str, Any]] = params["source_window_items"]
    span = params["source_range"]
    usage = None if answer.usage is None else token_usage(answer)
    item = {
        "item_id": f"summary:{params['operation_id']}",
        "kind": {"$tag": "AosSummaryRef"},
        "ref_": ref,
        "lane": None,
        "source_range": span,
        "source_refs": list(dict.fromkeys(window_item["ref_"] for window_item in source)),
        "provider_compatibility": None,
        "estimated_tokens": None if usage is None else usage["completion"],
        "metadata": {},
    }
    active = [*params["preserve_window_items"], item, *params["recent_tail_items"]]
    value = {
        "operation_id": params["operation_id"],
        "artifact_kind": {"$tag": "AosSummary"},
        "artifact_refs": [ref],
        "source_range": span,
        "compacted_through": None if span is None else span["end_seq"],
        "active_window_items": active,
        "token_usage": usage,
        "provider_metadata_ref": blobs.json({"id": answer.id, "model": answer.model}),
        "warnings_ref": blobs.json(warnings) if warnings else None,
        "provider_id": params["provider"],
    }
    return WithBlobs(value=value, blobs=blobs.all)


def transcript(messages: Sequence[Message]) -> str:
    """Messages as one text: an endpoint may refuse tool calls in a request without tools."""
    return "\n\n".join(
        f"{message.get('role', 'user')}: {_message_text(message)}" for message in messages
    )


def _message_text(message: Message) -> str:
    content = message.get("content")
    parts = [content] if isinstance(content, str) else []
    if isinstance(content, list):
        parts += [
            part["text"]
            if isinstance(part, dict) and isinstance(part.get("text"), str)
            else json_text(part)
            for part in content
        ]
    if message.get("tool_calls"):
        parts.append(f"calls {json_text(message['tool_calls'])}")
    return "\n".join(parts)
