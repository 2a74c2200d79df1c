"""Errors of values and schemas, and the notation of places in a value (spec/values.md, V-3).

Refused
├── ValueProblem        a value is invalid at ``path``
│   ├── FieldsMissing   fields of records are missing, each at its own path
│   └── MalformedCbor   the bytes are not acceptable CBOR at this gate, at byte ``offset``
└── SchemaProblems      type expressions are invalid; it has all their problems
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Self

from aos.errors import Refused, sentence

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_SEGMENT_CHARACTERS_MAX: Final = 64
_MISSING_SHOWN_MAX: Final = 15
"""How many missing fields an error lists after the first."""


class ValueProblem(Refused):
    """A value is invalid. Nothing has changed.

    Attributes:
        path: The invalid part, from the root ``$`` ("$.items[2].qty").
        message: The problem there. ``str()`` joins the two.
    """

    def __init__(self, message: str, *, path: str = "$") -> None:
        super().__init__(message, path)
        self.message = message
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"

    def __reduce__(self) -> tuple[object, ...]:
        # By default pickle rebuilds an exception from its positional arguments and loses the rest.
        return _revived, (type(self), self._fields())

    def _fields(self) -> dict[str, object]:
        return {"message": self.message, "path": self.path}

    def under(self, key: str | int) -> Self:
        """Prepend a step to the path: ``key`` is the field, map key or index of the outer value."""
        self.path = "$" + segment(key) + self.path[1:]
        return self


class FieldsMissing(ValueProblem):
    """Fields of records are missing: this one, and ``others``, each with its own path."""

    def __init__(self, first: ValueProblem, others: Iterable[ValueProblem] = ()) -> None:
        super().__init__(first.message, path=first.path)
        self.others = tuple(others)

    def problems(self) -> Iterator[ValueProblem]:
        yield ValueProblem(self.message, path=self.path)
        yield from self.others

    def is_below(self, name: str) -> bool:
        """Whether the first missing field is the field ``name`` or in it."""
        prefix = "$" + segment(name)
        return self.path == prefix or self.path.startswith((f"{prefix}.", f"{prefix}["))

    def __str__(self) -> str:
        hidden_count = len(self.others) - _MISSING_SHOWN_MAX
        texts = [str(problem) for problem in self.others[:_MISSING_SHOWN_MAX]]
        if hidden_count > 0:
            texts.append(f"and {hidden_count} more")
        return "; ".join([super().__str__(), *texts])

    def _fields(self) -> dict[str, object]:
        return {**super()._fields(), "others": self.others}

    def under(self, key: str | int) -> Self:
        for problem in self.others:
            problem.under(key)
        return super().under(key)


def _revived(kind: type[ValueProblem], fields: dict[str, object]) -> ValueProblem:
    problem = kind.__new__(kind)
    for name, value in fields.items():
        setattr(problem, name, value)
    return problem


class MalformedCbor(ValueProblem):
    """The bytes are not acceptable CBOR at this gate.

    Attributes:
        offset: Index of the first invalid byte.
    """

    def __init__(self, message: str, *, offset: int, path: str = "$") -> None:
        super().__init__(f"{message} (byte {offset})", path=path)
        self.offset = offset

    def _fields(self) -> dict[str, object]:
        return {**super()._fields(), "offset": self.offset}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaProblem:
    """One problem: ``pointer`` is a JSON pointer into the type expression of ``schema``."""

    schema: str
    pointer: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return sentence(self.message, location=f"{self.schema}#{self.pointer}", hint=self.hint)


class SchemaProblems(Refused):
    """Type expressions are invalid. ``problems`` has all problems, ordered by schema name."""

    def __init__(self, problems: Iterable[SchemaProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def segment(key: str | int) -> str:
    """One step of a path: ``.qty`` for a plain name, ``[2]`` for a number, else ``["a b"]``."""
    if isinstance(key, int):
        return f"[{key}]"
    if len(key) <= _SEGMENT_CHARACTERS_MAX and _PLAIN_NAME.fullmatch(key):
        return f".{key}"
    return f"[{quoted(key)}]"


def quoted(text: str) -> str:
    """``text`` in JSON quotes, cut after 64 characters so that a hostile key cannot flood a log."""
    if len(text) <= _SEGMENT_CHARACTERS_MAX:
        return json.dumps(text)
    return json.dumps(text[:_SEGMENT_CHARACTERS_MAX])[:-1] + '…"'
