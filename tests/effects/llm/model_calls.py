"""Calls of the effects ``sys/llm.*`` against a stub."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from aos.effects.llm.effects import (
    ENDPOINTS,
    TOKENIZERS,
    compact,
    connected,
    count_tokens,
    generate,
)
from aos.worker import EffectFailed, EffectFunction
from tests.effects.builtin_effects import Blobs, Progress, context, params_of, receipt_of

KEY_REF: Final = {"alias": "llm/key", "version": 1}
KEY: Final = "sk-test-0123456789abcdef"
NO_RUNTIME: Final = dict.fromkeys(
    (
        "temperature", "top_p", "max_tokens", "tool_refs", "tool_choice", "reasoning_effort",
        "stop_sequences", "metadata", "provider_options_ref", "response_format_ref",
    )
)  # fmt: skip


def item(ref: str, kind: str = "MessageRef", **changes: Any) -> dict[str, Any]:
    """A window item."""
    custom = changes.pop("custom", None)
    tagged = {"$tag": kind} if custom is None else {"$tag": "Custom", "$value": {"kind": custom}}
    return {
        "item_id": f"item of {ref[-4:]}",
        "kind": tagged,
        "ref_": ref,
        "lane": None,
        "source_range": None,
        "source_refs": [],
        "provider_compatibility": None,
        "estimated_tokens": None,
        "metadata": {},
        **changes,
    }


@dataclass
class ModelCalls:
    """A world with blobs, and a process that may use one endpoint, ``local``."""

    url: str = "http://127.0.0.1:1/v1"
    tokenizer: str = ""
    blobs: Blobs = field(default_factory=Blobs)
    progress: Progress = field(default_factory=Progress)
    timeout_s: float = 30.0
    secret: str = KEY

    def window(self, *messages: Any) -> list[dict[str, Any]]:
        return [item(self.blobs.put(each)) for each in messages or ["hello"]]

    def generate(
        self, *messages: Any, runtime: Mapping[str, Any] | None = None, **changes: Any
    ) -> Any:
        given = {
            "correlation_id": None,
            "provider": "local",
            "model": "m",
            "window_items": self.window(*messages),
            "runtime": {**NO_RUNTIME, **(runtime or {})},
            "api_key": None,
            **changes,
        }
        return self.call(generate, given)

    def count(self, *messages: Any, **changes: Any) -> Any:
        given = {
            "correlation_id": None,
            "provider": "local",
            "model": "m",
            "window_items": self.window(*messages),
            "tool_definitions_ref": None,
            "response_format_ref": None,
            "provider_options_ref": None,
            "rendering_profile": None,
            "candidate_plan_id": None,
            "metadata": {},
            "api_key": None,
            **changes,
        }
        return self.call(count_tokens, given)

    def compact(self, *messages: Any, **changes: Any) -> Any:
        given = {
            "correlation_id": None,
            "operation_id": "op-1",
            "provider": "local",
            "model": "m",
            "strategy": {"$tag": "Auto"},
            "source_window_items": self.window(*messages),
            "preserve_window_items": [],
            "recent_tail_items": [],
            "source_range": None,
            "target_tokens": None,
            "provider_options_ref": None,
            "api_key": None,
            **changes,
        }
        return self.call(compact, given)

    def call(
        self, function: EffectFunction[Coroutine[Any, Any, Any]], given: Mapping[str, Any]
    ) -> Any:
        params = params_of(function.name, given)

        async def body() -> Any:
            async with connected() as access:
                ctx = context(
                    function.name,
                    self.blobs,
                    resource=access,
                    secrets={("llm/key", 1): self.secret},
                    progress=self.progress,
                    timeout_s=self.timeout_s,
                )
                return await function(params, ctx)

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(ENDPOINTS, f"other=http://127.0.0.1:1/v1 local={self.url}")
            patch.setenv(TOKENIZERS, self.tokenizer and f"local={self.tokenizer}")
            result = asyncio.run(body())
        return receipt_of(function.name, result, self.blobs)

    def failure(self, *messages: Any, **changes: Any) -> EffectFailed:
        """The failure of a generation."""
        with pytest.raises(EffectFailed) as failed:
            self.generate(*messages, **changes)
        return failed.value

    def document(self, ref: str) -> Any:
        """A blob in JSON, by its name."""
        return json.loads(self.blobs[ref])
