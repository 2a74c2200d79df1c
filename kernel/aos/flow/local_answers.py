"""The answers of effects and of other flows in a local run, and the compensations of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from aos.flow.declaring import Span
from aos.flow.flow_error import FlowError


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """The effect ends as ``error``. Another attempt follows if it is retryable, or if
    the code is ``exception``."""

    code: str
    message: str = ""
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class TimeoutAnswer:
    """The attempt ends as ``timeout``."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """The same answer, after a time span."""

    after: Span
    answer: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedEffect:
    """One attempt of an effect. ``path`` is that of its step; of a compensation it ends in
    ``/~undo``. ``at_ns`` is the time of the request."""

    path: str
    attempt: int
    effect: Any
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedFlow:
    """Another flow that the flow has called or spawned. ``path`` is that of the operation, ``name``
    that of the other flow."""

    path: str
    name: str
    input: Any
    is_called: bool


@dataclass(slots=True, kw_only=True)
class LocalCompensation:
    """A registered compensation, and how far it is."""

    path: str
    effect: Any
    state: Literal["registered", "running", "done", "stuck", "skipped"] = "registered"
    attempts: int = 0
    error: FlowError | None = None
