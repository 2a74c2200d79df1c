"""Requests to language models: ``--executors aos.executors.llm:llm`` (spec/agentos.md, AG-70).

The effects ``sys/llm.*`` over any HTTP endpoint that speaks the chat completions of OpenAI.
"""

from __future__ import annotations

from aos.executors.llm.effects import llm

__all__ = ["llm"]
