"""The chunks of one chat completion -> the whole answer, with every field checked (AG-75), and
progress frames of its text while it is written (AG-76).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aos.effects.llm.api_key import ApiKey
from aos.effects.llm.llm_errors import bad_answer, refused, unavailable
from aos.values.json_text import finite_json
from aos.worker import EffectContext

TOOL_CALLS_MAX: Final = 256
NUMBER_MAX: Final = 2**63 - 1
SHOWN_CHARS_MAX: Final = 300

REASONS: Final[Mapping[str, str]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
"""``finish_reason`` of an endpoint -> ``finish_reason.reason`` of a receipt; others are ``other``.
"""

TEXT: Final = "llm.text"
REASONING: Final = "llm.reasoning"

PAUSE_S: Final = 0.1
"""Between two frames of one kind: a workflow takes a bounded number of frames per second."""

FRAME_CHARS_MAX: Final = 8000
"""So that a frame has less than the 64 KiB that manifests allow by default."""

_PASSING_STATUSES: Final = frozenset({408, 409, 425, 429})
_SERVER_ERROR: Final = 500


@dataclass(slots=True, kw_only=True)
class CalledTool:
    """One tool call of the model. Its arguments are JSON, if the model wrote valid JSON."""

    id: str | None = None
    name: str = ""
    parts: list[str] = field(default_factory=list)
    """The arguments as they come: an endpoint may send one character at a time."""

    @property
    def arguments(self) -> str:
        """The text of the arguments."""
        return "".join(self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """Tokens as the endpoint counted them; None for those that it did not count."""

    prompt: int
    completion: int
    total: int | None
    reasoning: int | None
    cache_read: int | None
    cache_write: int | None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The text that one chunk adds."""

    text: str
    reasoning: str


@dataclass(slots=True)
class ChatAnswer:
    """The answer so far. ``add`` takes chunks; a complete one has ``finish``."""

    id: str | None = None
    model: str | None = None
    finish: str | None = None
    usage: ModelUsage | None = None
    raw_usage: object = None
    is_refusal: bool = False
    tools: dict[int, CalledTool] = field(default_factory=dict)
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _has_choice: bool = False

    @property
    def text(self) -> str:
        """The assistant's text, or the refusal of the model."""
        return clean("".join(self._text))

    @property
    def reasoning(self) -> str:
        """The reasoning, if the endpoint shows it."""
        return clean("".join(self._reasoning))

    @property
    def tool_calls(self) -> list[CalledTool]:
        """The tool calls, in the order of their index."""
        return [self.tools[index] for index in sorted(self.tools)]

    def add(self, data: bytes, *, part: str = "delta") -> TextDelta:
        """Add one chunk, or with ``part="message"`` a whole answer.

        Raises:
            EffectFailed: The endpoint reports an error, or it is no chunk of a completion.
        """
        document = read_document(data)
        error = document.get("error")
        if error is not None:
            code = error.get("code") if isinstance(error, dict) else None
            failed = unavailable if type(code) is int and may_pass(code) else refused
            raise failed(f"the endpoint reports: {error_words(document)}")
        self.id = self.id or _text_field(document, "id")
        self.model = self.model or _text_field(document, "model")
        if document.get("usage") is not None:
            self.raw_usage = document["usage"]
            self.usage = _parsed_usage(_object_field(document, "usage"))
        text, reasoning = len(self._text), len(self._reasoning)
        for choice in _list_field(document, "choices"):
            if not isinstance(choice, dict):
                raise bad_answer("choices: expected objects")
            if choice.get("index", 0) == 0:  # more than one is never asked for
                self._has_choice = True
                self._add_choice(choice, part)
        return TextDelta("".join(self._text[text:]), "".join(self._reasoning[reasoning:]))

    def check(self) -> None:
        """Check a finished answer.

        Raises:
            EffectFailed: It has no choice, or a tool call without a name.
        """
        if not self._has_choice:
            raise bad_answer("the endpoint answered no choice: expected one")
        for index, tool in self.tools.items():
            if not tool.name:
                raise bad_answer(f"tool_calls[{index}]: expected a name of the function")

    def to_document(self) -> dict[str, Any]:
        """The answer as one ``chat.completion``, as an endpoint gives it without ``stream``."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tools:
            message["tool_calls"] = [
                {
                    "id": call_id(index, tool),
                    "type": "function",
                    "function": {"name": clean(tool.name), "arguments": clean(tool.arguments)},
                }
                for index, tool in enumerate(self.tool_calls)
            ]
        return {
            "id": self.id,
            "object": "chat.completion",
            "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": self.finish}],
            "usage": self.raw_usage,
        }

    def _add_choice(self, choice: Mapping[str, Any], part: str) -> None:
        finish = _text_field(choice, "finish_reason")
        if finish:
            self.finish = clean(finish)
        delta = _object_field(choice, part)
        self._text += filter(None, [_text_field(delta, "content")])
        refusal = _text_field(delta, "refusal")
        if refusal:
            self.is_refusal = True
            self._text.append(refusal)
        reasoning = _text_field(delta, "reasoning_content") or _text_field(delta, "reasoning")
        self._reasoning += filter(None, [reasoning])
        for position, call in enumerate(_list_field(delta, "tool_calls")):
            if not isinstance(call, dict):
                raise bad_answer("tool_calls: expected objects")
            self._add_call(position, call)

    def _add_call(self, position: int, call: Mapping[str, Any]) -> None:
        index = call.get("index", position)
        if type(index) is not int or not 0 <= index < TOOL_CALLS_MAX:
            raise bad_answer(f"tool_calls: expected an index of 0 to {TOOL_CALLS_MAX - 1}")
        tool = self.tools.setdefault(index, CalledTool())
        tool.id = tool.id or _text_field(call, "id")
        function = _object_field(call, "function")
        # Most endpoints send the name once, some with each chunk, none in pieces.
        tool.name = tool.name or _text_field(function, "name") or ""
        tool.parts += filter(None, [_text_field(function, "arguments")])


def may_pass(status: int) -> bool:
    """Whether the same request may succeed later, after this status of HTTP."""
    return status in _PASSING_STATUSES or status >= _SERVER_ERROR


def call_id(index: int, call: CalledTool) -> str:
    """The id of a call: that of the endpoint, or one that is made from its place."""
    return clean(call.id) if call.id else f"call_{index}"


def clean(text: str) -> str:
    """Text that UTF-8 can encode: halves of a character that came apart are joined or replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read_document(data: bytes) -> dict[str, Any]:
    """A JSON object of an endpoint. Raises: EffectFailed: It is none."""
    try:
        document = finite_json(data)
    except (ValueError, RecursionError):
        raise bad_answer("the endpoint did not answer in JSON") from None
    if not isinstance(document, dict):
        raise bad_answer("the endpoint did not answer with a JSON object")
    return document


def error_words(document: Mapping[str, Any]) -> str:
    """An endpoint's own words about an error, as far as it has some; not bounded."""
    error = document.get("error", document)
    if isinstance(error, dict):
        words = next(
            (
                error[name]
                for name in ("message", "detail", "type", "code")
                if isinstance(error.get(name), str)
            ),
            None,
        )
        error = "an error without a message" if words is None else words
    return clean(error) if isinstance(error, str) else "an error without a message"


def _text_field(of: Mapping[str, Any], name: str) -> str | None:
    value = of.get(name)
    if value is None or isinstance(value, str):
        return value
    raise bad_answer(f"{name}: expected text, found {type(value).__name__}")


def _list_field(of: Mapping[str, Any], name: str) -> list[Any]:
    value = of.get(name)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise bad_answer(f"{name}: expected a list, found {type(value).__name__}")


def _object_field(of: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = of.get(name)
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise bad_answer(f"{name}: expected an object, found {type(value).__name__}")


def _natural_field(of: Mapping[str, Any], name: str) -> int | None:
    value = of.get(name)
    if value is None:
        return None
    if type(value) is int and 0 <= value <= NUMBER_MAX:
        return value
    raise bad_answer(f"{name}: expected a whole number of 0 or more")


def _parsed_usage(usage: Mapping[str, Any]) -> ModelUsage:
    prompt_details = _object_field(usage, "prompt_tokens_details")
    cache_read = _natural_field(prompt_details, "cached_tokens")
    return ModelUsage(
        prompt=_natural_field(usage, "prompt_tokens") or 0,
        completion=_natural_field(usage, "completion_tokens") or 0,
        total=_natural_field(usage, "total_tokens"),
        reasoning=_natural_field(
            _object_field(usage, "completion_tokens_details"), "reasoning_tokens"
        ),
        cache_read=_natural_field(usage, "cache_read_input_tokens")
        if cache_read is None
        else cache_read,
        cache_write=_natural_field(usage, "cache_creation_input_tokens"),
    )


@dataclass(slots=True)
class _PendingText:
    kind: str
    text: str = ""
    offset: int = 0
    sent_s: float = float("-inf")


class DeltaReports:
    """Reports the text of one answer, while it is written, in progress frames
    ``{"offset": …, "text": …}`` (AG-76).

    The end of the text is kept back while it may be the beginning of the API key or of a token of
    the endpoint's URL, and these are replaced: a frame never holds one, in whole or in parts.
    """

    def __init__(
        self, ctx: EffectContext, key: ApiKey, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ctx = ctx
        self._key = key
        self._clock = clock
        self._text = _PendingText(TEXT)
        self._reasoning = _PendingText(REASONING)

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

    def _send(self, pending: _PendingText, *, is_end: bool) -> None:
        raw_text, half = pending.text, ""
        if not is_end and "\ud800" <= raw_text[-1:] <= "\udbff":
            # The other half of this character comes later.
            raw_text, half = raw_text[:-1], raw_text[-1]
        # First whole keys are replaced, then the beginning of one is kept back.
        text = self._key.redactor.text(clean(raw_text)) if raw_text else ""
        end = len(text) if is_end else self._key.redactor.begun_at(text)
        pending.text = text[end:] + half
        for start in range(0, end, FRAME_CHARS_MAX):
            part = text[start : min(end, start + FRAME_CHARS_MAX)]
            self._ctx.progress(pending.kind, {"offset": pending.offset, "text": part})
            pending.offset += len(part)
