"""Text of a model -> progress frames, while the answer is written (AG-76)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aos.executors.llm.api_key import ApiKey
from aos.executors.llm.chat_answer import TextDelta, clean
from aos.worker import EffectContext

TEXT: Final = "llm.text"
REASONING: Final = "llm.reasoning"

PAUSE_S: Final = 0.1
"""Between two frames of one kind: a workflow takes a bounded number of frames per second."""

FRAME_CHARS_MAX: Final = 8000
"""So that a frame has less than the 64 KiB that manifests allow by default."""


@dataclass(slots=True)
class _Pending:
    kind: str
    text: str = ""
    offset: int = 0
    sent_s: float = float("-inf")


class DeltaReports:
    """Reports the text of one answer in frames ``{"offset": …, "text": …}``.

    The end of the text is kept back while it may be the beginning of the API key or of a token of
    the endpoint's URL, and these are replaced: a frame never holds one, in whole or in parts.
    """

    def __init__(
        self, ctx: EffectContext, key: ApiKey, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ctx = ctx
        self._key = key
        self._clock = clock
        self._text = _Pending(TEXT)
        self._reasoning = _Pending(REASONING)

    def add(self, delta: TextDelta) -> None:
        """Take the text of one chunk; report it if the last frame is long enough ago."""
        now = self._clock()
        for pending, text in ((self._text, delta.text), (self._reasoning, delta.reasoning)):
            pending.text += text
            if pending.text and now - pending.sent_s >= PAUSE_S:
                pending.sent_s = now
                self._send(pending, is_end=False)

    def end(self) -> None:
        """The answer is complete: report the rest."""
        for pending in (self._text, self._reasoning):
            self._send(pending, is_end=True)

    def _send(self, pending: _Pending, *, is_end: bool) -> None:
        raw_text, half = pending.text, ""
        if not is_end and "\ud800" <= raw_text[-1:] <= "\udbff":
            raw_text, half = (
                raw_text[:-1],
                raw_text[-1],
            )  # the other half of this character comes later
        # First whole keys are replaced, then the beginning of one is kept back.
        text = self._key.redactor.text(clean(raw_text)) if raw_text else ""
        end = len(text) if is_end else self._key.redactor.begun_at(text)
        pending.text = text[end:] + half
        for start in range(0, end, FRAME_CHARS_MAX):
            part = text[start : min(end, start + FRAME_CHARS_MAX)]
            self._ctx.progress(pending.kind, {"offset": pending.offset, "text": part})
            pending.offset += len(part)
