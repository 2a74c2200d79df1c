"""A read request, declared once (spec/node-api.md, N-114): its parameters, and its document.

    {"workflow": "order", "limit": 3} ──▶ READ_CELLS.read(view, query) ──▶ {"cells": […], …}

The parameters that several read requests share are here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aos.core.state.state import State
from aos.read.operations.across import Across
from aos.read.views.record_view import Document
from aos.read.views.view import LIMIT, LIMIT_MAX, View
from aos.read.where import EXAMPLE

Schema: TypeAlias = Mapping[str, Any]

Query: TypeAlias = Mapping[str, Any]
"""The parameters of a request by name. ``aliases`` are, by workflow, names of paths that its
condition may have (spec/search.md, SE-21); they are from ``node.toml``, never from the caller."""

ROWS_SHORT_MAX: Final = 200
"""Rows up to which a list is short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a query. ``schema`` is of type string, integer, boolean, or array of strings,
    which is given several times.

    A command has it as an option, or, with ``is_argument``, as an argument. ``metavar`` is its
    value in the command's help; ``words`` are further words that this help lists, or
    ``command_help`` is all of the help. A text with ``is_span`` is a duration. The command has no
    default with ``is_optional``, and no such option with ``is_for_people``: it sets the parameter
    itself if it prints text. With ``is_record`` it is a record that the journal must have.
    """

    name: str
    schema: Schema
    help: str
    required: bool = False
    metavar: str | None = None
    words: tuple[str, ...] = ()
    command_help: str | None = None
    is_argument: bool = False
    is_span: bool = False
    is_optional: bool = False
    is_for_people: bool = False
    is_record: bool = False


@dataclass(frozen=True, slots=True)
class ApiLink:
    """An operation that reads what an answer names: each parameter of its query, and the JSON
    pointer of its value in the answer."""

    operation: str
    query: Mapping[str, str]


def is_never_long(_query: Query) -> bool:
    """The cost of an operation that reads a single thing, or counts that the state keeps."""
    return False


def is_always_long(_query: Query) -> bool:
    """The cost of an operation that reads every cell, the journal, or the past."""
    return True


def has_many_rows(query: Query) -> bool:
    """Return whether a list of the journal or of intents has so many rows that it takes long."""
    rows: int = query.get("limit", LIMIT)
    return rows > ROWS_SHORT_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOperation:
    """A read request.

    ``path`` is that of the HTTP API, if that has it; ``command`` are the words after ``aos`` that
    print the same document. ``answers`` name the types of the document in ``document_types``; an
    operation without one answers with bytes. ``document`` makes it from a query with all defaults;
    it is None for bytes, and if only the process that serves the world has the document.

    ``is_long`` is the cost: whether the document of a query may take long. ``asks_process`` says
    that its advice depends on the work of the process that runs the world, ``has_process`` that its
    readers add this process and how the world came here, which a view does not know,
    ``reads_index`` that an index of the journal makes it faster. ``searched`` is of a list that can
    come from indexed values: it returns the workflow whose cells a query selects, None for all.
    ``reads_neighbours`` says that it continues in the worlds of the same folder, if its reader may.
    ``across`` is how a group answers; None: it does not, and a reader names a shard.
    """

    name: str
    summary: str
    path: str = ""
    answers: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    document: Callable[[View, Query], Document] | None = None
    command: str = ""
    is_long: Callable[[Query], bool] = is_never_long
    asks_process: bool = False
    has_process: bool = False
    reads_index: bool = False
    reads_neighbours: bool = False
    searched: Callable[[State, Query], str | None] | None = None
    links: tuple[ApiLink, ...] = ()
    across: Across | None = None

    def read(self, view: View, query: Query) -> Document:
        """Make the document; with ``spelled``, values are for people.

        Raises:
            BadUsage: The query names something that the world does not have.
        """
        assert self.document is not None, f"{self.name} is not read from a view"
        if query.get(SPELLED.name, False):
            view.spell()
        return self.document(view, {**self.defaults(), **query})

    def takes_long(self, query: Query) -> bool:
        """Return whether a document may take long: it reads every cell, the journal, or the
        past."""
        return "at" in query or self.is_long(query)

    def defaults(self) -> dict[str, Any]:
        """The values of parameters that a query does not have."""
        return {
            parameter.name: parameter.schema["default"]
            for parameter in self.parameters
            if "default" in parameter.schema
        }

    def has(self, name: str) -> bool:
        """Return whether it has a parameter of this name."""
        return any(parameter.name == name for parameter in self.parameters)

    def command_line(self, query: Query) -> tuple[list[str], list[str]]:
        """Return the arguments and the options of the command for a query; defaults are left
        out."""
        arguments: list[str] = []
        options: list[str] = []
        for parameter in self.parameters:
            if parameter.name not in query:
                continue
            value = query[parameter.name]
            if parameter.is_argument:
                arguments.append(str(value))
            elif parameter.is_optional or value != parameter.schema.get("default"):
                options += _option(parameter.name, value)
        return arguments, options


def names_fields(query: Query) -> bool:
    """Return whether a query names fields of states, so that it needs ``aliases``."""
    return "where" in query or "group_by" in query


def _option(name: str, value: object) -> Iterator[str]:
    option = f"--{name.replace('_', '-')}"
    match value:
        case True:
            yield option
        case False:
            return
        case list():
            for element in value:
                yield from (option, str(element))
        case _:
            yield from (option, str(value))


NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 512}
TEXT_KEY: Final[Schema] = {"type": "string", "maxLength": 65_536}
SEQ: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}
HASH: Final[Schema] = {"type": "string", "pattern": "^(blake3:)?[0-9a-f]{64}$"}
FLAG: Final[Schema] = {"type": "boolean"}

AT: Final = Parameter(
    name="at", schema=SEQ, metavar="SEQ",
    help="The world as it was after this record (default: now).",
)  # fmt: skip
LIMITED: Final = (
    Parameter(
        name="limit", metavar="N", help="Maximum number of rows.",
        schema={"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT},
    ),
    Parameter(
        name="offset", metavar="N", help="Number of rows to skip.",
        schema={"type": "integer", "minimum": 0, "maximum": 2**63 - 1, "default": 0},
    ),
)  # fmt: skip
WORKFLOW: Final = Parameter(
    name="workflow", schema=NAME, metavar="NAME",
    help="The name of the workflow, or a unique part of it.",
)  # fmt: skip
KEY: Final = Parameter(
    name="key", schema=TEXT_KEY, metavar="KEY", help="The key, as JSON or as plain text."
)
KEY_PREFIX: Final = Parameter(
    name="key_prefix", schema=TEXT_KEY, metavar="TEXT",
    help="Only cells whose key begins with this text.",
)  # fmt: skip
WHERE: Final = Parameter(
    name="where", schema={"type": "string", "minLength": 1, "maxLength": 1_024}, metavar="TEXT",
    help=f"Only those that pass this condition, such as {EXAMPLE}.",
)  # fmt: skip
GROUP_BY: Final = Parameter(
    name="group_by", schema=NAME, metavar="FIELD",
    help="Count also by the values of this name, which is one that a condition can have.",
)  # fmt: skip
SPELLED: Final = Parameter(
    name="spelled", schema=FLAG, is_for_people=True,
    help="Values as text for people: times, durations and bytes as the command shows them.",
)  # fmt: skip
