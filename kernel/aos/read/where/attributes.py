"""Find the values of a cell by the names in a condition, and read and compare values of each kind
(spec/search.md, SE-5, SE-6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, TypeAlias

from aos.core.journal.faults import FaultKind
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import slot_bytes
from aos.core.journal.vocabulary import CELL_STATUSES
from aos.core.state.cell import Cell
from aos.core.state.state import State
from aos.core.state.version import is_pinned
from aos.errors import Damage, Erased, excerpt
from aos.flow.flow_state import FLOW_STATUSES
from aos.manifest.catalog import did_you_mean
from aos.manifest.effective import FLOW_STATE, Effective
from aos.read.where.condition import WhereInvalid, WhereToken, is_word
from aos.read.where.flow_names import (
    ERROR,
    FAILURE_FIELDS,
    INPUT,
    PACKED,
    STATUS,
    packed_types,
    status_of,
    unpacked,
)
from aos.values.cbor import decode_record
from aos.values.codec import JsonForm, Room
from aos.values.errors import ValueProblem
from aos.values.expressions import (
    ListOf,
    MapOf,
    Option,
    Record,
    Scalar,
    SetOf,
    Type,
    TypeRef,
    Variant,
)
from aos.values.scalars import SCALAR_CODECS
from aos.values.spelling import normal_decimal

Comparable: TypeAlias = Any
"""A value as it is compared: text, a number, a Decimal, a bool or bytes."""

STATE_PREFIX: Final = "state."
"""Before a path whose first word is also the name of something that every cell has."""

_WHOLE: Final = re.compile(r"-?[0-9]{1,20}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A kind of attribute: how a literal is read, and how values compare (SE-6).

    ``read`` makes a value of a literal; ``of`` one of a leaf of a state, None if the leaf is of
    another kind. ``is_ordered``: it can be compared with ``<``; ``is_text``: with ``^=``.
    """

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


def _leaf_of(type_: type) -> Callable[[Any], Comparable | None]:
    return lambda leaf: leaf if type(leaf) is type_ else None


def _scalar_reader(name: str) -> Callable[[WhereToken], Comparable]:
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


def _decimal_of(leaf: Any) -> Decimal | None:
    is_number = type(leaf) is str and normal_decimal(leaf) is not None
    return Decimal(leaf) if is_number else None


SCALAR_KINDS: Final[Mapping[str, ValueKind]] = {
    "bool": ValueKind("bool", _read_bool, _leaf_of(bool), is_ordered=False),
    "int": ValueKind("int", _scalar_reader("int"), _leaf_of(int)),
    "nat": ValueKind("nat", _scalar_reader("nat"), _leaf_of(int)),
    "time": ValueKind("time", _scalar_reader("time"), _leaf_of(int)),
    "duration": ValueKind("duration", _scalar_reader("duration"), _leaf_of(int)),
    "dec128": ValueKind(
        "dec128", lambda token: Decimal(_scalar_reader("dec128")(token)), _decimal_of
    ),
    "text": ValueKind("text", lambda token: token.word, _leaf_of(str), is_text=True),
    "uuid": ValueKind("uuid", _scalar_reader("uuid"), _leaf_of(str), is_text=True),
    "hash": ValueKind("hash", _scalar_reader("hash"), _leaf_of(str), is_text=True),
    "bytes": ValueKind("bytes", _scalar_reader("bytes"), _leaf_of(bytes)),
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


@dataclass(slots=True)
class Subject:
    """A cell that conditions look at. ``state`` is its state's value, None without one; ``key`` the
    text of its key."""

    cell: Cell
    world: Any
    read_state: Callable[[], Any]
    read_key: Callable[[], str]
    _state: Any = None
    _has_state: bool = False

    @property
    def state(self) -> Any:
        if not self._has_state:
            self._state, self._has_state = self.read_state(), True
        return self._state


Leaves: TypeAlias = Callable[[Subject], Iterator[Any]]


@dataclass(frozen=True, slots=True)
class Attribute:
    """A name with a meaning: ``leaves`` yields its values in a cell, none if it has none.

    ``path`` is the place in the state, or ``@`` and the name for something that every cell has.
    """

    path: str
    kind: ValueKind
    leaves: Leaves

    def comparable(self, subject: Subject) -> Iterator[Comparable | None]:
        """Its values in a cell as they are compared; None for one of another type."""
        return (self.kind.of(leaf) for leaf in self.leaves(subject))


def _fault_kind(subject: Subject) -> Iterator[Any]:
    if subject.cell.fault is not None:
        yield subject.cell.fault.kind.value


def _fault_message(subject: Subject) -> Iterator[Any]:
    if subject.cell.fault is not None:
        yield subject.cell.fault.message


def _fault_record(subject: Subject) -> Iterator[Any]:
    if subject.cell.fault is not None:
        yield subject.cell.fault_seq


OF_EVERY_CELL: Final[Mapping[str, Attribute]] = {
    "status": Attribute(
        "@status", word_kind(CELL_STATUSES), lambda subject: iter((subject.cell.status,))
    ),
    "key": Attribute("@key", SCALAR_KINDS["text"], lambda subject: iter((subject.read_key(),))),
    "fault": Attribute("@fault", word_kind(kind.value for kind in FaultKind), _fault_kind),
    "fault_message": Attribute("@fault_message", SCALAR_KINDS["text"], _fault_message),
    "fault_record": Attribute("@fault_record", SCALAR_KINDS["nat"], _fault_record),
    "pinned": Attribute(
        "@pinned",
        SCALAR_KINDS["bool"],
        lambda subject: iter((is_pinned(subject.world, subject.cell),)),
    ),
    "last_active": Attribute(
        "@last_active", SCALAR_KINDS["time"], lambda subject: iter((subject.cell.last_active_ns,))
    ),
}


def subject_of(state: State, cell: Cell, read: BlobReader, key: Callable[[], str]) -> Subject:
    """A cell of this state, for conditions; ``key`` returns the text of its key."""

    def read_state() -> Any:
        if cell.state is None:
            return None
        try:
            return decode_record(slot_bytes(cell.state, read))
        except (Damage, Erased, ValueProblem):
            return None  # a list is not the place to learn of damage, and erased is no value

    return Subject(cell, state, read_state, key)


class Names:
    """The names that conditions on the cells of one workflow may have.

    Args:
        manifest: The manifest in force.
        workflow: None for a list of cells of all workflows, whose states have nothing in common.
        aliases: Other names of paths into the state, which come before all others.
    """

    def __init__(
        self,
        manifest: Effective | None,
        workflow: str | None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self._manifest = manifest
        self._workflow = workflow
        self._aliases = aliases or {}

    def attribute(self, name: WhereToken) -> Attribute:
        """The attribute of this name. Raises: WhereInvalid: There is none."""
        path = self._aliases.get(name.word)
        if path is None and name.word in OF_EVERY_CELL:
            return OF_EVERY_CELL[name.word]
        words = (path or name.word.removeprefix(STATE_PREFIX)).split(".")
        if self._workflow is None:
            raise WhereInvalid(
                f"expected one of {', '.join(OF_EVERY_CELL)}, found {excerpt(name.word)} "
                "(fields of states need a workflow: --workflow)",
                name.column,
            )
        workflow = None if self._manifest is None else self._manifest.workflows.get(self._workflow)
        if workflow is None:
            raise WhereInvalid(
                f"the manifest in force has no {self._workflow}, so its states have no types",
                name.column,
            )
        if workflow.state.name == FLOW_STATE and words[0] in (*PACKED, ERROR, STATUS):
            return self._of_flow(words, name)
        kind = self._kind(workflow.state.type, words, name)
        is_packed = kind is ANY
        return Attribute(
            ".".join(words),
            kind,
            lambda subject: _leaves(subject.state, words, is_packed=is_packed),
        )

    def _of_flow(self, words: list[str], name: WhereToken) -> Attribute:
        """A name below the state of a flow (SE-5a)."""
        field, tail = words[0], words[1:]
        path = ".".join(words)
        if field == STATUS:
            if tail:
                raise WhereInvalid(
                    f"{excerpt(name.word)}: there is nothing below 'status'", name.column
                )
            kind = replace(word_kind(FLOW_STATUSES), of=status_of)
            return Attribute(path, kind, lambda subject: _leaves(subject.state, words))
        kind = self._packed_kind(field, tail, name)
        return Attribute(path, kind, lambda subject: _leaves(unpacked(subject.state, field), tail))

    def _packed_kind(self, field: str, tail: list[str], name: WhereToken) -> ValueKind:
        """The type below a packed field: the one of its schemas, or what a value looks like."""
        if not tail:
            return ANY
        if field == ERROR:
            types: dict[str, Type] = {word: Scalar("text") for word in FAILURE_FIELDS}
            return self._kind(Record(tuple(types.items())), tail, name)
        assert self._manifest is not None
        assert self._workflow is not None
        kinds: dict[str, ValueKind] = {}
        problem: WhereInvalid | None = None
        for type_ in packed_types(self._manifest, self._workflow, field):
            try:
                kind = self._kind(type_, tail, name)
            except WhereInvalid as error:
                problem = problem or error
            else:
                # Tags of several variants are any words.
                is_other = kind.name == "word" and kind.name in kinds
                kinds[kind.name] = (
                    replace(kind, read=lambda token: token.word) if is_other else kind
                )
        if not kinds and field == INPUT and problem is not None:
            raise problem
        if not kinds:
            raise WhereInvalid(
                f"{excerpt(name.word)}: no schema of the manifest has this name", name.column
            )
        return next(iter(kinds.values())) if len(kinds) == 1 else ANY

    def _kind(self, type_: Type, words: list[str], name: WhereToken) -> ValueKind:
        type_ = self._bare(type_)
        if not words:
            return self._end(type_, name)
        word, tail = words[0], words[1:]
        match type_:
            case Record(fields) | Variant(fields):
                return self._kind(self._field(dict(fields), word, name), tail, name)
            case MapOf(key, item) if key.name == "text":
                if self._bare(item) == Scalar("bytes"):
                    return ANY
                return self._kind(item, tail, name)
        raise WhereInvalid(f"{excerpt(name.word)}: there is nothing below {word!r}", name.column)

    def _field(self, fields: Mapping[str, Type], word: str, name: WhereToken) -> Type:
        if word in fields:
            return fields[word]
        # A name without a dot may also be one that needs no path.
        aliases = {**self._aliases, **OF_EVERY_CELL} if word == name.word else {}
        names = [*fields, *(alias for alias in aliases if alias not in fields)]
        hint = did_you_mean(word, names)
        advice = "" if hint is None else f"{hint} "
        message = f"unknown field {excerpt(word)} ({advice}known: {', '.join(names)})"
        raise WhereInvalid(message, name.column)

    def _end(self, type_: Type, name: WhereToken) -> ValueKind:
        if isinstance(type_, Variant):
            return word_kind(tag for tag, _ in type_.arms)
        if isinstance(type_, Scalar) and type_.name in SCALAR_KINDS:
            return SCALAR_KINDS[type_.name]
        fields = ", ".join(field for field, _ in type_.fields) if isinstance(type_, Record) else ""
        hint = f": name one of its fields, {fields}" if fields else ""
        raise WhereInvalid(f"{excerpt(name.word)} cannot be compared{hint}", name.column)

    def _bare(self, type_: Type) -> Type:
        """The type of the items at a place: without references, options and lists."""
        assert self._manifest is not None
        while True:
            match type_:
                case TypeRef(name):
                    type_ = self._manifest.schemas[name].type
                case Option(item) | ListOf(item) | SetOf(item):
                    type_ = item
                case _:
                    return type_


def _leaves(value: Any, words: list[str], *, is_packed: bool = False) -> Iterator[Any]:
    """The values at a path. Of a list each item counts; null is no value."""
    if value is None:
        return
    if is_packed and isinstance(value, bytes):
        try:
            unpacked = decode_record(value)
        except ValueProblem:
            return
        yield from _leaves(unpacked, words, is_packed=False)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, words, is_packed=is_packed)
    elif not words:
        yield value
    elif isinstance(value, dict):
        if value.get("$tag") == words[0]:
            yield from _leaves(value.get("$value"), words[1:], is_packed=is_packed)
        elif words[0] in value:
            yield from _leaves(value[words[0]], words[1:], is_packed=is_packed)
