"""The text of a condition -> its terms (spec/search.md, SE-1 to SE-4).

Names and literals keep their columns, and get a meaning in ``attributes.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from aos.errors import BadUsage, excerpt
from aos.read.where import EXAMPLE

BYTES_MAX: Final = 1_024
TERMS_MAX: Final = 16
ITEMS_MAX: Final = 64

DEPTH_MAX: Final = 16
"""Levels of brackets and ``not``."""

EQUAL, NOT_EQUAL, PREFIX, IN = "=", "!=", "^=", "in"
LIKE: Final = "like"
AND, OR, NOT = "and", "or", "not"
ANY_END: Final = "%"
"""At the end of the pattern of ``like``: any text."""
ORDERED: Final = ("<", "<=", ">", ">=")
OPERATORS: Final = (EQUAL, NOT_EQUAL, *ORDERED, PREFIX)
"""A condition on the orders of ``manifests/orders``, for help texts."""

_FORM: Final = f"a condition such as {EXAMPLE}"

_WORD: Final = re.compile(r'[^\s"=<>!^(),]+')
_TOKEN: Final = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*")|(?P<sign>\^=|!=|<=|>=|[=<>(),])'
    rf"|(?P<word>{_WORD.pattern})"
)


class WhereInvalid(BadUsage):
    """A text is not a condition, or does not fit the cells. ``column`` counts from 1."""

    option = "where"
    rule = "where_is_invalid"
    """The rule of the problem document of a node."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(f"{self.option}, column {column}: {message}")
        self.message = message
        self.column = column


class GroupByInvalid(WhereInvalid):
    """A text is not a name that cells can be grouped by."""

    option = "group by"
    rule = "group_by_is_invalid"


@dataclass(frozen=True, slots=True)
class WhereToken:
    """A word, a sign, or a quoted text without its quotes."""

    word: str
    column: int
    kind: str

    @property
    def is_word(self) -> bool:
        return self.kind == "word"

    def is_sign(self, sign: str) -> bool:
        return self.kind == "sign" and self.word == sign


@dataclass(frozen=True, slots=True)
class Term:
    """``name operator literal``; with ``in`` several literals."""

    name: WhereToken
    operator: str
    literals: tuple[WhereToken, ...]


@dataclass(frozen=True, slots=True)
class WhereGroup:
    """Terms and groups with ``and`` or ``or`` between them, or one with ``not`` before it."""

    word: str
    parts: tuple[WherePart, ...]


WherePart: TypeAlias = Term | WhereGroup


@dataclass(frozen=True, slots=True)
class ParsedWhere:
    """Terms and groups of which all must hold, and an order. ``condition`` is the text before the
    order."""

    terms: tuple[WherePart, ...]
    condition: str = ""
    order: WhereToken | None = None
    is_descending: bool = False

    @property
    def is_choice(self) -> bool:
        """Whether ``or`` is between the outermost parts: more terms then need brackets."""
        outermost = self.terms[0] if len(self.terms) == 1 else None
        return isinstance(outermost, WhereGroup) and outermost.word == OR


def parse(text: str) -> ParsedWhere:
    """Read a condition.

    Raises:
        WhereInvalid: It is not one, or too long.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise WhereInvalid("expected UTF-8, found half of a surrogate pair", 1) from None
    if size > BYTES_MAX:
        raise WhereInvalid(f"expected at most {BYTES_MAX} bytes, found {size}", 1)
    return _Parser(text).read_where()


def is_word(text: str) -> bool:
    """Whether a condition reads this text as one word, without quotes."""
    return _WORD.fullmatch(text) is not None


def parse_name(text: str) -> WhereToken:
    """Read a single name, as a condition has it.

    Raises:
        WhereInvalid: It is not one.
    """
    match = _WORD.match(text)
    if match is None or match.end() != len(text):
        column = 1 if match is None else match.end() + 1
        raise WhereInvalid(f"expected one name, found {excerpt(text) or 'nothing'}", column)
    return WhereToken(text, 1, "word")


class _Parser:
    """Reads the tokens of one text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0
        self._end = len(text) + 1
        self._terms = 0
        self._depth = 0

    def read_where(self) -> ParsedWhere:
        terms: tuple[WherePart, ...] = ()
        if self._at < len(self._tokens) and not self._is_order():
            condition = self._any_of()
            is_all = isinstance(condition, WhereGroup) and condition.word == AND
            terms = (
                condition.parts if is_all and isinstance(condition, WhereGroup) else (condition,)
            )
            if self._at < len(self._tokens) and not self._is_order():
                raise _unexpected("and, or, or order by", self._tokens[self._at])
        if not terms and not self._is_order():
            raise WhereInvalid(f"expected {_FORM}, found nothing", 1)
        end = self._column() - 1
        order, is_descending = self._order()
        return ParsedWhere(terms, self._text[:end].strip(), order, is_descending)

    def _any_of(self) -> WherePart:
        """Parts with ``or`` between them, which binds less than ``and``."""
        return self._joined(OR, self._all_of)

    def _all_of(self) -> WherePart:
        return self._joined(AND, self._part)

    def _joined(self, word: str, part: Callable[[], WherePart]) -> WherePart:
        parts = [part()]
        while self._is_word(word):
            self._at += 1
            parts.append(part())
        return parts[0] if len(parts) == 1 else WhereGroup(word, tuple(parts))

    def _part(self) -> WherePart:
        """A term, one with ``not`` before it, or a condition in brackets."""
        if self._is_word(NOT) and not self._is_operator(self._at + 1):
            return self._deeper(lambda: WhereGroup(NOT, (self._part(),)))
        if self._at < len(self._tokens) and self._tokens[self._at].is_sign("("):
            return self._deeper(self._bracketed)
        if self._terms == TERMS_MAX:
            raise WhereInvalid(f"expected at most {TERMS_MAX} terms", self._column())
        self._terms += 1
        return self._term()

    def _deeper(self, read: Callable[[], WherePart]) -> WherePart:
        if self._depth == DEPTH_MAX:
            raise WhereInvalid(f"expected at most {DEPTH_MAX} brackets and not", self._column())
        self._depth += 1
        self._at += 1
        part = read()
        self._depth -= 1
        return part

    def _bracketed(self) -> WherePart:
        part = self._any_of()
        self._sign(")")
        return part

    def _is_word(self, word: str) -> bool:
        if self._at == len(self._tokens):
            return False
        token = self._tokens[self._at]
        return token.is_word and token.word.lower() == word

    def _is_operator(self, at: int) -> bool:
        """Whether a token is an operator, so that the word before it is a name."""
        if at >= len(self._tokens):
            return False
        token = self._tokens[at]
        return token.kind == "sign" and token.word in OPERATORS

    def _is_order(self) -> bool:
        words = [token.word.lower() for token in self._tokens[self._at : self._at + 2]]
        return words == ["order", "by"]

    def _order(self) -> tuple[WhereToken | None, bool]:
        if not self._is_order():
            return None, False
        self._at += 2
        name = self._name()
        is_descending = False
        if self._at < len(self._tokens):
            word = self._next("asc or desc")
            if word.word.lower() not in ("asc", "desc"):
                raise _unexpected("asc or desc", word)
            is_descending = word.word.lower() == "desc"
        if self._at < len(self._tokens):
            raise _unexpected("the end", self._tokens[self._at])
        return name, is_descending

    def _term(self) -> WherePart:
        name = self._name()
        sign = self._next("an operator")
        if sign.is_word and sign.word.lower() == NOT and (self._is_word(IN) or self._is_word(LIKE)):
            return WhereGroup(NOT, (self._word_term(name, self._next("in or like")),))
        if sign.is_word and sign.word.lower() in (IN, LIKE):
            return self._word_term(name, sign)
        if sign.word not in OPERATORS or sign.kind != "sign":
            raise _unexpected(f"one of {' '.join(OPERATORS)} in like", sign)
        return Term(name, sign.word, (self._literal(),))

    def _word_term(self, name: WhereToken, operator: WhereToken) -> Term:
        if operator.word.lower() == IN:
            return Term(name, IN, self._items())
        pattern = self._literal()
        prefix = pattern.word.removesuffix(ANY_END)
        if prefix == pattern.word or ANY_END in prefix:
            raise WhereInvalid(
                f"like: expected a text with one {ANY_END}, at its end, found "
                f"{excerpt(pattern.word)} (of a whole text: =)",
                pattern.column,
            )
        return Term(name, PREFIX, (replace(pattern, word=prefix, kind="text"),))

    def _items(self) -> tuple[WhereToken, ...]:
        self._sign("(")
        literals = [self._literal()]
        while (sign := self._next(", or )")).word == "," and sign.kind == "sign":
            if len(literals) == ITEMS_MAX:
                raise WhereInvalid(f"expected at most {ITEMS_MAX} values", sign.column)
            literals.append(self._literal())
        if sign.word != ")" or sign.kind != "sign":
            raise _unexpected(", or )", sign)
        return tuple(literals)

    def _name(self) -> WhereToken:
        token = self._next("a name")
        if not token.is_word:
            raise _unexpected("a name", token)
        return token

    def _literal(self) -> WhereToken:
        token = self._next("a value")
        if token.kind == "sign":
            raise _unexpected("a value", token)
        return token

    def _sign(self, sign: str) -> None:
        token = self._next(sign)
        if token.kind != "sign" or token.word != sign:
            raise _unexpected(sign, token)

    def _next(self, expected: str) -> WhereToken:
        if self._at == len(self._tokens):
            raise WhereInvalid(f"expected {expected}, found the end", self._end)
        self._at += 1
        return self._tokens[self._at - 1]

    def _column(self) -> int:
        return self._tokens[self._at].column if self._at < len(self._tokens) else self._end


def _tokens(text: str) -> list[WhereToken]:
    tokens, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            actual = "a text without its end" if text[at] == '"' else excerpt(text[at])
            raise WhereInvalid(f"expected {_FORM}, found {actual}", at + 1)
        kind = str(match.lastgroup)
        word = match.group()
        if kind == "text":
            try:
                word = str(json.loads(word, strict=False))
            except ValueError:
                raise WhereInvalid("expected a JSON text, found another escape", at + 1) from None
        tokens.append(WhereToken(word, at + 1, kind))
        at = match.end()
    return tokens


def _unexpected(expected: str, token: WhereToken) -> WhereInvalid:
    return WhereInvalid(f"expected {expected}, found {excerpt(token.word)}", token.column)
