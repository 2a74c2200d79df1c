"""Requests to language models: ``--executors llm`` (spec/agentos.md, AG-70).

The effects ``sys/llm.*`` over any HTTP endpoint that speaks the chat completions of OpenAI.
"""

from __future__ import annotations

from aos.effects.llm.effects import llm

__all__ = ["llm"]
