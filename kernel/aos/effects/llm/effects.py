"""The three effects: a generation, a count of tokens, a summary; and the endpoints (AG-70) and
connections of the process.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

import httpx

from aos.effects.llm.api_key import ApiKey
from aos.effects.llm.chat_answer import DeltaReports
from aos.effects.llm.chat_client import CONNECT_S, SILENCE_S, ChatClient, Completion
from aos.effects.llm.chat_request import LlmDocuments, generation
from aos.effects.llm.compaction import compacted, summary_request
from aos.effects.llm.generated import receipt
from aos.effects.llm.llm_errors import not_configured
from aos.effects.llm.token_counts import count, counted
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
