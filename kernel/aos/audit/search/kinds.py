"""Kinds of attributes: how a literal is read, and how values compare (spec/search.md, SE-6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from aos.audit.search.where import WhereInvalid, WhereToken, is_word
from aos.errors import excerpt
from aos.manifest.catalog import did_you_mean
from aos.values.codec import JsonForm, Room
from aos.values.errors import ValueProblem
from aos.values.scalars import SCALAR_CODECS
from aos.values.spelling import normal_decimal

Comparable: TypeAlias = Any
"""A value as it is compared: text, a number, a Decimal, a bool or bytes."""

_WHOLE: Final = re.compile(r"-?[0-9]{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ValueKind:
    """``read`` makes a value of a literal; ``of`` one of a leaf of a state, None if the leaf is of
    another kind. ``is_ordered``: it can be compared with ``<``; ``is_text``: with ``^=``."""

    name: str
    read: Callable[[WhereToken], Comparable]
    of: Callable[[Any], Comparable | None]
    is_ordered: bool = True
    is_text: bool = False

    def to_json(self, value: Comparable) -> object:
        """A value as a state has it in JSON; a condition can read it."""
        if isinstance(value, Decimal):
            return normal_decimal(format(value, "f"))
        codec = SCALAR_CODECS.get(self.name)
        return value if codec is None else codec.to_json(value, form=JsonForm.TEXTS)


def _is(type_: type) -> Callable[[Any], Comparable | None]:
    return lambda leaf: leaf if type(leaf) is type_ else None


def _scalar(name: str) -> Callable[[WhereToken], Comparable]:
    codec = SCALAR_CODECS[name]

    def read(token: WhereToken) -> Comparable:
        value: object = token.word
        if token.is_word and _WHOLE.fullmatch(token.word) and name not in ("dec128", "text"):
            value = int(token.word)
        try:
            return codec.from_json(value, Room())
        except ValueProblem as problem:
            raise WhereInvalid(problem.message, token.column) from problem

    return read


def _read_bool(token: WhereToken) -> bool:
    if not token.is_word or token.word not in ("true", "false"):
        raise WhereInvalid(f"expected true or false, found {excerpt(token.word)}", token.column)
    return token.word == "true"


def _decimal(leaf: Any) -> Decimal | None:
    is_number = type(leaf) is str and normal_decimal(leaf) is not None
    return Decimal(leaf) if is_number else None


SCALAR_KINDS: Final[Mapping[str, ValueKind]] = {
    "bool": ValueKind("bool", _read_bool, _is(bool), is_ordered=False),
    "int": ValueKind("int", _scalar("int"), _is(int)),
    "nat": ValueKind("nat", _scalar("nat"), _is(int)),
    "time": ValueKind("time", _scalar("time"), _is(int)),
    "duration": ValueKind("duration", _scalar("duration"), _is(int)),
    "dec128": ValueKind("dec128", lambda token: Decimal(_scalar("dec128")(token)), _decimal),
    "text": ValueKind("text", lambda token: token.word, _is(str), is_text=True),
    "uuid": ValueKind("uuid", _scalar("uuid"), _is(str), is_text=True),
    "hash": ValueKind("hash", _scalar("hash"), _is(str), is_text=True),
    "bytes": ValueKind("bytes", _scalar("bytes"), _is(bytes)),
}


def word_kind(words: Iterable[str]) -> ValueKind:
    """One of these words, such as the tags of a variant or the statuses of a cell."""
    vocabulary = tuple(words)

    def read(token: WhereToken) -> str:
        if token.word not in vocabulary:
            hint = did_you_mean(token.word, vocabulary)
            message = f"expected one of {', '.join(vocabulary)}, found {excerpt(token.word)}"
            raise WhereInvalid(message + (f" ({hint})" if hint else ""), token.column)
        return token.word

    def of(leaf: Any) -> str | None:
        tag = leaf.get("$tag") if isinstance(leaf, dict) else leaf
        return tag if isinstance(tag, str) else None

    return ValueKind("word", read, of, is_text=True)


def _read_any(token: WhereToken) -> Comparable:
    if not token.is_word:
        return token.word
    if token.word in ("true", "false"):
        return token.word == "true"
    return int(token.word) if _WHOLE.fullmatch(token.word) else token.word


ANY: Final = ValueKind(
    "any", _read_any, lambda leaf: leaf if type(leaf) in (str, int, bool) else None, is_text=True
)
"""A value without a schema: each literal has the type that it looks like."""


def is_text_word(text: str) -> bool:
    """Whether this text, as a word of a condition, is the same text for a name of any type."""
    return is_word(text) and text != "null" and _read_any(WhereToken(text, 1, "word")) == text
