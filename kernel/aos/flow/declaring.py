"""The decorators and values with which a flow in Python is written (spec/python-flows.md).

Under CPython they make plain dataclasses and functions. ``aos.author.python`` reads them from the
syntax tree of the file, and does not execute them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    Protocol,
    TypeVar,
    dataclass_transform,
    overload,
)

T = TypeVar("T")
InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")
FlowT = TypeVar("FlowT", bound=Callable[..., Awaitable[Any]])
ReceiptT = TypeVar("ReceiptT")

FLOW_NAME: Final = "__aos_flow__"
SCHEMA_NAME: Final = "__aos_schema__"
EFFECT_NAME: Final = "__aos_effect__"
LISTENS: Final = "__aos_listens__"
CALLS: Final = "__aos_calls__"


class Nat:
    """``Annotated[int, Nat]`` is an int that is never below 0, the type ``nat`` of AIR."""


class EffectOf(Protocol[ReceiptT]):
    """An instance of a class with ``@effect``; its receipt is the result of the step."""

    receipt: ClassVar[type[ReceiptT]]


@dataclass_transform()
def schema(name: str, *, frozen: bool = False) -> Callable[[type[T]], type[T]]:
    """Make a dataclass whose instances are values of the schema ``name``."""

    def decorated(of_class: type[T]) -> type[T]:
        dataclass_type = dataclass(frozen=frozen)(of_class)
        setattr(dataclass_type, SCHEMA_NAME, name)
        return dataclass_type

    return decorated


@dataclass_transform()
def effect(
    name: str,
    *,
    executor: str,
    frozen: bool = False,
    params: str | None = None,
    timeout_ms: int | None = None,
    delivery: str | None = None,
    idempotency_scope: str | None = None,
) -> Callable[[type[T]], type[T]]:
    """Make a dataclass whose instances are the params of the effect ``name``. The class has a line
    ``receipt: ClassVar[type[RECEIPT]]``.

    The other arguments are those of the definition (spec/python-flows.md, PF-15).
    """
    del executor, params, timeout_ms, delivery, idempotency_scope  # read from the syntax tree

    def decorated(of_class: type[T]) -> type[T]:
        dataclass_type = dataclass(frozen=frozen)(of_class)
        setattr(dataclass_type, EFFECT_NAME, name)
        return dataclass_type

    return decorated


@dataclass(frozen=True, slots=True)
class MessageKey(Generic[T]):
    """A class of messages, and the path to the key in it."""

    message: type[T]
    path: str


def by(message: type[T], path: str) -> MessageKey[T]:
    """For ``listens``: a class of messages whose key is in another field than the flow's."""
    return MessageKey(message, path)


@dataclass(frozen=True, slots=True)
class OtherFlow(Generic[InputT, OutputT]):
    """A flow of another file, which a flow calls or spawns."""

    name: str
    input: type[InputT]
    output: type[OutputT] | None
    key: str


@overload
def other_flow(
    name: str, *, input: type[InputT], output: type[OutputT], key: str
) -> OtherFlow[InputT, OutputT]: ...
@overload
def other_flow(
    name: str, *, input: type[InputT], output: None = None, key: str
) -> OtherFlow[InputT, None]: ...
def other_flow(
    name: str, *, input: type[Any], output: type[Any] | None = None, key: str
) -> OtherFlow[Any, Any]:
    """Declare a flow of another file for ``cx.call`` and ``cx.spawn``, at the top of the file.

    Args:
        name: Its name, ``NAMESPACE/NAME@VERSION``.
        input: The class of its input.
        output: The type of its result; None if it has none.
        key: The path to the key in its input.
    """
    return OtherFlow(name, input, output, key)


def flow(
    name: str,
    *,
    key: str,
    listens: Sequence[type[Any] | MessageKey[Any]] = (),
    view: type[Any] | None = None,
    upgrade: str | None = None,
    calls: Sequence[OtherFlow[Any, Any]] = (),
    callable: bool = False,
    annotations: type[Any] | None = None,
) -> Callable[[FlowT], FlowT]:
    """Mark the function of a flow.

    Args:
        name: Its name, ``NAMESPACE/NAME@VERSION``.
        key: The path to the key in the input.
        listens: The classes of its messages; a new one comes at the end.
        view: The class of ``cx.publish``.
        upgrade: ``quiesce`` or ``in_place``, as in a manifest.
        calls: The flows of ``cx.call``.
        callable: Whether other flows may call it.
        annotations: The class of ``cx.annotate``.
    """
    del key, view, upgrade, callable, annotations  # read from the syntax tree
    messages = tuple(of.message if isinstance(of, MessageKey) else of for of in listens)

    def decorated(function: FlowT) -> FlowT:
        setattr(function, FLOW_NAME, name)
        setattr(function, LISTENS, messages)
        setattr(function, CALLS, tuple(calls))
        return function

    return decorated


Span = str | timedelta
"""A time span: a ``timedelta``, or a text such as ``1m30s``."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Attempts of a step in all, the first pause, which doubles, and the longest one. With
    ``jitter`` each pause is shortened by a random part, by at most half of it."""

    attempts: int = 3
    first: Span = "100ms"
    most: Span = "30s"
    jitter: bool = False


@dataclass(frozen=True, slots=True)
class Continue:
    """The result of an iteration: go to the next one, with this state."""

    state: Any


@dataclass(frozen=True, slots=True)
class Break:
    """The result of an iteration: the loop ends with this value."""

    value: Any = None
