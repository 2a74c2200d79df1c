"""The three effects: a generation, a count of tokens by the tokenizer of an endpoint or estimated
here (AG-79), and a summary of a window by the model (AG-79a); and the endpoints (AG-70) and
connections of the process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

import httpx

from aos.effects.llm.api_key import AnswerBlobs, ApiKey, json_text
from aos.effects.llm.chat_answer import NUMBER_MAX, ChatAnswer, DeltaReports
from aos.effects.llm.chat_client import CONNECT_S, SILENCE_S, ChatClient, Completion
from aos.effects.llm.chat_request import LlmDocuments, Message, generation, options, request
from aos.effects.llm.generated import receipt, token_usage, warnings_of
from aos.effects.llm.llm_errors import bad_answer, bad_request, not_configured, unsupported
from aos.effects.named_addresses import NamedUrl, read_urls
from aos.worker import EffectContext, Executors, effect
from aos.worker.results import WithBlobs
from aos.worker.secret_leaks import process_secrets
from aos.worker.worker_secrets import SecretValue

Params = Mapping[str, Any]

CONCURRENCY: Final = 32
ATTEMPTS: Final = 3
BACKOFF_MS: Final = 2000

ENDPOINTS: Final = "AOS_LLM_ENDPOINTS"
TOKENIZERS: Final = "AOS_LLM_TOKENIZERS"

_EXAMPLE: Final = f'{ENDPOINTS}="local=http://127.0.0.1:8000/v1"'

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

EXACT: Final = "Exact"
PROVIDER_ESTIMATE: Final = "ProviderEstimate"
LOCAL_ESTIMATE: Final = "LocalEstimate"

BYTES_PER_TOKEN: Final = 4
AT_ONCE: Final = 8
"""Requests to a tokenizer at the same time, for one effect."""


@dataclass(frozen=True, slots=True)
class ModelEndpoints:
    """The endpoints that this process may use, by provider: those of ``AOS_LLM_ENDPOINTS`` and
    ``AOS_LLM_TOKENIZERS`` (AG-70)."""

    endpoints: Mapping[str, NamedUrl]
    tokenizers: Mapping[str, NamedUrl]

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read both variables. Raises BadUsage, as ``read_urls``."""
        return cls(
            read_urls(ENDPOINTS, environment.get(ENDPOINTS, ""), example=_EXAMPLE),
            read_urls(
                TOKENIZERS,
                environment.get(TOKENIZERS, ""),
                example=f'{TOKENIZERS}="local=http://127.0.0.1:8000/tokenize"',
            ),
        )

    @property
    def secrets(self) -> list[SecretValue]:
        """The parts of all URLs that may be tokens."""
        addresses = (*self.endpoints.values(), *self.tokenizers.values())
        return [secret for address in addresses for secret in address.secrets]

    def endpoint(self, provider: str) -> NamedUrl:
        """The endpoint of a provider.

        Raises:
            NotConfigured: There is none, so the effect is held.
        """
        address = self.endpoints.get(provider)
        if address is None:
            provider_names = ", ".join(sorted(self.endpoints)) or "none"
            raise not_configured(
                f"{ENDPOINTS} has no endpoint of {provider!r:.80}: found {provider_names}",
                f"set {_EXAMPLE.replace('local=', f'{provider:.40}=')} and restart the process",
            )
        return address


@dataclass(frozen=True, slots=True)
class LlmAccess:
    """The resource of the process: its endpoints, and one pool of connections for them all."""

    http: httpx.AsyncClient
    configured: ModelEndpoints


@effect(
    "sys/llm.generate@1",
    concurrency=CONCURRENCY,
    attempts=ATTEMPTS,
    timeout_s=600,
    backoff_ms=BACKOFF_MS,
)
async def generate(params: Params, ctx: EffectContext) -> WithBlobs:
    """Ask a model for one answer to a window; its text comes as progress meanwhile (AG-70)."""
    address = _access(ctx).configured.endpoint(params["provider"])
    key = ApiKey.of(params["api_key"], ctx, address.secrets)
    body = await generation(params, LlmDocuments(ctx))
    completion = await _complete(body, address, key, ctx)
    return receipt(completion, key, params["provider"])


@effect(
    "sys/llm.count_tokens@1",
    concurrency=CONCURRENCY,
    attempts=ATTEMPTS,
    timeout_s=60,
    backoff_ms=BACKOFF_MS,
)
async def count_tokens(params: Params, ctx: EffectContext) -> WithBlobs:
    """Count the tokens of a window (AG-79). Needs an endpoint only for an exact number."""
    address = _access(ctx).configured.tokenizers.get(params["provider"])
    key = ApiKey.of(params["api_key"], ctx, () if address is None else address.secrets)
    parts = await counted(params, LlmDocuments(ctx))
    tokenizer = None if address is None else _client(address, key, ctx)
    return await count(params, parts, tokenizer, key)


@effect(
    "sys/llm.compact@1",
    concurrency=CONCURRENCY,
    attempts=ATTEMPTS,
    timeout_s=600,
    backoff_ms=BACKOFF_MS,
)
async def compact(params: Params, ctx: EffectContext) -> WithBlobs:
    """Summarize the source window, and return the window that replaces it (AG-79a)."""
    address = _access(ctx).configured.endpoint(params["provider"])
    key = ApiKey.of(params["api_key"], ctx, address.secrets)
    body = await summary_request(params, LlmDocuments(ctx))
    completion = await _complete(body, address, key, ctx)
    return compacted(completion.answer, params, key)


@asynccontextmanager
async def connected() -> AsyncIterator[LlmAccess]:
    """Read the endpoints from the environment. Connects to none: an unreachable endpoint keeps no
    worker from starting."""
    configured = ModelEndpoints.read()
    with process_secrets(configured.secrets):
        async with httpx.AsyncClient(
            timeout=httpx.Timeout(SILENCE_S, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=CONCURRENCY),
            trust_env=False,
            follow_redirects=False,
        ) as http:
            yield LlmAccess(http, configured)


async def _complete(
    body: Mapping[str, Any], address: NamedUrl, key: ApiKey, ctx: EffectContext
) -> Completion:
    reports = DeltaReports(ctx, key)
    completion = await _client(address, key, ctx).complete(body, reports.add)
    reports.end()
    return completion


def _client(address: NamedUrl, key: ApiKey, ctx: EffectContext) -> ChatClient:
    return ChatClient(_access(ctx).http, address, key, ctx)


def _access(ctx: EffectContext) -> LlmAccess:
    assert isinstance(ctx.resource, LlmAccess)
    return ctx.resource


llm = Executors("llm", (generate, count_tokens, compact), setup=connected)


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
