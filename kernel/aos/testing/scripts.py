"""Scripted executors: the answers that a test gives to effects (spec/testing.md, T-24, T-26)."""

from __future__ import annotations

import inspect
import json as json_module
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aos.errors import BadUsage
from aos.testing.problems import WorldProblem
from aos.testing.times import Span, read_span
from aos.worker.failure import CODE_CHARS_MAX


@dataclass(frozen=True, slots=True)
class Fail:
    """The effect ends as ``error`` with this code."""

    code: str
    message: str = ""
    retryable: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.code) <= CODE_CHARS_MAX:
            raise BadUsage(f"Fail: expected a code of 1 to {CODE_CHARS_MAX} characters")


@dataclass(frozen=True, slots=True)
class Timeout:
    """The effect ends as ``timeout``."""

    message: str = ""


class _Never:
    def __repr__(self) -> str:
        return "NEVER"


NEVER: Final = _Never()
"""The effect stays open."""


@dataclass(frozen=True, slots=True)
class After:
    """Answer as ``script``, but later by this span. A function is called immediately; its answer
    is delayed."""

    span: Span
    script: object = None


class InTurn:
    """Scripts used one after the other; made by ``in_turn``."""

    def __init__(self, scripts: tuple[object, ...], then: object) -> None:
        self._scripts = scripts
        self._then = then
        self._request_count = 0

    def next(self) -> object:
        """The next script. Raises: WorldProblem: All scripts are used, and there is no ``then``."""
        self._request_count += 1
        if self._request_count <= len(self._scripts):
            return self._scripts[self._request_count - 1]
        if self._then is _NOTHING:
            raise WorldProblem(
                f"requested {self._request_count} times, but in_turn(…) has {len(self._scripts)} "
                "answers "
                "(then=… answers all further requests)"
            )
        return self._then


_NOTHING: Final = object()


def in_turn(*scripts: object, then: object = _NOTHING) -> InTurn:
    """Answer with one script after the other, then with ``then`` for ever, if it is given."""
    return InTurn(scripts, then)


def response(
    status: int = 200,
    *,
    json: object = None,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A receipt of ``sys/http.request@1``; ``json`` is encoded and used as the body."""
    header_fields = dict(headers or {})
    if json is not None:
        body = json_module.dumps(json, separators=(",", ":")).encode()
        header_fields.setdefault("content-type", "application/json")
    return {
        "status": status,
        "headers": header_fields,
        "body_ref": None,
        "body": body,
        "timings": {"start_ns": 0, "end_ns": 0},
    }


Ask: TypeAlias = Callable[[Callable[..., object], int], object]
"""Calls a function of a script with this number of parameters: 1 or 2."""


def resolved(script: object, ask: Ask) -> tuple[int, object]:
    """Return (delay in ns, answer). The answer is a value, ``Fail``, ``Timeout`` or ``NEVER``."""
    wait_ns = 0
    while True:
        match script:
            case After():
                wait_ns += read_span(script.span)
                script = script.script
            case InTurn():
                script = script.next()
            case function if callable(function):
                script = ask(function, _parameters(function))
            case _:
                return wait_ns, script


def _parameters(function: Callable[..., object]) -> int:
    try:
        inspect.signature(function).bind("params", "ctx")
    except TypeError:
        return 1
    return 2
