"""``sys/llm.count_tokens@1``: by the tokenizer of an endpoint, or estimated here (AG-79)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aos.effects.llm.answer_blobs import AnswerBlobs, json_text
from aos.effects.llm.api_key import ApiKey
from aos.effects.llm.chat_answer import NUMBER_MAX
from aos.effects.llm.chat_client import ChatClient
from aos.effects.llm.chat_request import LlmDocuments, Message, options
from aos.effects.llm.compaction import transcript
from aos.effects.llm.llm_errors import bad_answer
from aos.worker.results import WithBlobs

EXACT: Final = "Exact"
PROVIDER_ESTIMATE: Final = "ProviderEstimate"
LOCAL_ESTIMATE: Final = "LocalEstimate"

BYTES_PER_TOKEN: Final = 4
AT_ONCE: Final = 8
"""Requests to a tokenizer at the same time, for one effect."""


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens, and how good the number is."""

    tokens: int
    quality: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The parts of a request whose tokens are counted."""

    items: Sequence[tuple[str, list[Message]]]
    tools: Sequence[Mapping[str, Any]]
    response_format: Mapping[str, Any] | None

    @property
    def messages(self) -> list[Message]:
        """All messages of the window."""
        return [message for _, messages in self.items for message in messages]


async def counted(params: Mapping[str, Any], documents: LlmDocuments) -> Counted:
    """Read the documents of the params. Raises as ``LlmDocuments``."""
    tools_ref, format_ref = params["tool_definitions_ref"], params["response_format_ref"]
    await options(params["provider_options_ref"], documents)
    return Counted(
        items=[
            (item["ref_"], await documents.item(item, params["provider"]))
            for item in params["window_items"]
        ],
        tools=[] if tools_ref is None else await documents.tools([tools_ref]),
        response_format=None if format_ref is None else await documents.object(format_ref),
    )


async def count(
    params: Mapping[str, Any], parts: Counted, tokenizer: ChatClient | None, key: ApiKey
) -> WithBlobs:
    """The receipt. Without a tokenizer every number is an estimate of this process."""
    model = params["model"]
    if tokenizer is None:
        by_ref = [_estimate(transcript(messages)) for _, messages in parts.items]
        tools, response_format = map(_extra_estimate, (parts.tools, parts.response_format))
        total = TokenCount(sum(token_count.tokens for token_count in by_ref), LOCAL_ESTIMATE)
    else:
        limit = asyncio.Semaphore(AT_ONCE)

        async def ask(text: str) -> TokenCount:
            async with limit:
                return await _text_tokens(tokenizer, model, text)

        by_ref = await asyncio.gather(*(ask(transcript(messages)) for _, messages in parts.items))
        tools = await ask(json_text(parts.tools)) if parts.tools else None
        response_format = (
            None if parts.response_format is None else await ask(json_text(parts.response_format))
        )
        total = await _window_tokens(tokenizer, model, parts.messages)
    extra = [token_count for token_count in (tools, response_format) if token_count is not None]
    quality = total.quality if not extra else extra[0].quality
    blobs = AnswerBlobs(key)
    warnings = _warnings(quality)
    value = {
        "input_tokens": total.tokens + sum(token_count.tokens for token_count in extra),
        "original_input_tokens": total.tokens,
        "counts_by_ref": [
            {"ref_": ref, "tokens": token_count.tokens, "quality": {"$tag": token_count.quality}}
            for (ref, _), token_count in zip(parts.items, by_ref, strict=True)
        ],
        "tool_tokens": None if tools is None else tools.tokens,
        "response_format_tokens": None if response_format is None else response_format.tokens,
        "quality": {"$tag": quality},
        "provider": params["provider"],
        "model": model,
        "candidate_plan_id": params["candidate_plan_id"],
        "provider_metadata_ref": None,
        "warnings_ref": blobs.json(warnings) if warnings else None,
    }
    return WithBlobs(value=value, blobs=blobs.all)


def _estimate(text: str) -> TokenCount:
    size = len(text.encode("utf-8", "replace"))
    return TokenCount(-(-size // BYTES_PER_TOKEN), LOCAL_ESTIMATE)


def _extra_estimate(document: Any) -> TokenCount | None:
    return _estimate(json_text(document)) if document else None


async def _text_tokens(tokenizer: ChatClient, model: str, text: str) -> TokenCount:
    """Tokens of a text alone. A model adds some around each message, so it is an estimate."""
    if not text:
        return TokenCount(0, PROVIDER_ESTIMATE)
    # vLLM reads ``prompt``, llama.cpp ``content``.
    answer = await tokenizer.json({"model": model, "prompt": text, "content": text})
    return TokenCount(_tokens(answer), PROVIDER_ESTIMATE)


async def _window_tokens(tokenizer: ChatClient, model: str, messages: list[Message]) -> TokenCount:
    """Tokens of a window. A tokenizer that gives ``count`` has read ``messages`` by the template of
    the model, so the number is exact; another has read the text alone."""
    if not messages:
        return TokenCount(0, PROVIDER_ESTIMATE)
    answer = await tokenizer.json(
        {"model": model, "messages": messages, "content": transcript(messages)}
    )
    return TokenCount(_tokens(answer), EXACT if "count" in answer else PROVIDER_ESTIMATE)


def _tokens(answer: Mapping[str, Any]) -> int:
    number = answer.get("count")
    if type(number) is int and 0 <= number <= NUMBER_MAX:
        return number
    tokens = answer.get("tokens")
    if number is None and isinstance(tokens, list):
        return len(tokens)
    raise bad_answer("the tokenizer answered neither a count nor a list of tokens")


def _warnings(quality: str) -> list[dict[str, str]]:
    if quality != LOCAL_ESTIMATE:
        return []
    message = f"no tokenizer is configured: one token for each {BYTES_PER_TOKEN} bytes"
    return [{"code": "estimated", "message": message}]
