"""Commands that print the document of a read request: their arguments and options are made from its
parameters (spec/cli.md, C-30, C-92).

    @reading(READ_CELL)
    def inspect_cell(call: ReadingCall, *, unseal: Unseal = None) -> None: …

    ──▶ aos inspect cell WORKFLOW [KEY] --at --unseal --node --world --json
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter as SignatureParameter
from inspect import Signature, signature
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from aos.errors import BadUsage, either
from aos.read.operations.operation import SPELLED, Parameter, Query, ReadOperation
from aos.read.views.record_view import Document
from aos_cli.options import DEFAULT_WORLD, Json, NodeUrl, World, flag, number, span
from aos_cli.output import print_json
from aos_cli.world_reading import WorldReading, reading_of

_TYPES: Final[Mapping[str, Any]] = {
    "string": str, "integer": int, "boolean": bool, "array": list[str],
}  # fmt: skip


Count = Annotated[bool, flag("--count", "Print how many there are instead of a list.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingCall:
    """One call of such a command. ``query`` has all parameters; those that are not given are
    None. ``reading`` reads the world."""

    operation: ReadOperation
    query: Mapping[str, Any]
    reading: WorldReading
    world: Path
    node: str | None
    json: bool

    def document(
        self, operation: ReadOperation | None = None, *, more: Query | None = None
    ) -> Document:
        """Return the document, or that of another operation with the same parameters and ``more``
        of them. Values are for people unless it is printed as JSON."""
        request, words = operation or self.operation, {**self.query, **(more or {})}
        query = {parameter.name: words.get(parameter.name) for parameter in request.parameters}
        if SPELLED.name in query:
            query[SPELLED.name] = not self.json
        return self.reading.document(request, query)

    def show(self, document: Document, words: Callable[[Document], None]) -> None:
        """Print a document as JSON, or as text."""
        if self.json:
            print_json(document)
        else:
            words(document)


def reading(
    operation: ReadOperation, *, also: Sequence[Parameter] = (), without: Collection[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a command of a function that prints a document. The function gets a ``ReadingCall``,
    and the options that it names itself: one with the name of a parameter takes its place.
    ``also`` are further parameters, ``without`` are those that no option gives."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        _, *own_options = signature(function, eval_str=True).parameters.values()
        own_names = {option.name for option in own_options}
        parameters = [
            parameter
            for parameter in (*operation.parameters, *also)
            if not (parameter.is_for_people or parameter.name in without)
        ]

        def command(*, world: Path, node: str | None, json: bool, **values: Any) -> Any:
            call = ReadingCall(
                operation=operation, reading=reading_of(world, node), world=world, node=node,
                json=json,
                query={
                    parameter.name: _value(parameter, values[_identifier(parameter)])
                    for parameter in parameters
                },
            )  # fmt: skip
            return function(call, **{name: values[name] for name in own_names})

        options = [
            *(
                _command_parameter(parameter)
                for parameter in sorted(parameters, key=lambda parameter: not parameter.is_argument)
                if parameter.name not in own_names
            ),
            *own_options,
            _keyword("node", NodeUrl, None),
            _keyword("world", World, DEFAULT_WORLD),
            _keyword("json", Json, False),
        ]
        command.__signature__ = Signature(options)  # type: ignore[attr-defined]
        command.__annotations__ = {option.name: option.annotation for option in options}
        return command

    return decorated


def printed(operation: ReadOperation, words: Callable[[Document], None]) -> Callable[..., Any]:
    """Make the command of an operation that prints its document as it is."""

    @reading(operation)
    def command(call: ReadingCall) -> None:
        call.show(call.document(), words)

    return command


def counted_list(
    operation: ReadOperation,
    counting: ReadOperation,
    words: Callable[[Document], None],
    noun: str,
) -> Callable[..., Any]:
    """Make the command of a list whose rows can be counted by ``counting`` instead (C-33a): then it
    refuses options that apply to rows alone. ``noun`` is the singular of the things counted."""
    also = [parameter for parameter in counting.parameters if not operation.has(parameter.name)]
    rows_only = [
        parameter.name
        for parameter in operation.parameters
        if not (parameter.is_for_people or counting.has(parameter.name))
    ]

    @reading(operation, also=also)
    def command(call: ReadingCall, *, context: typer.Context, is_count: Count = False) -> None:
        if not is_count and call.query["group_by"] is None:
            call.show(call.document(), words)
            return
        for name in rows_only:
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                raise BadUsage(
                    f"a count has no rows: leave out --{name}, or --count and --group-by"
                )
        from aos_cli.count_text import show_counts  # noqa: PLC0415  # few lists count

        show_counts(call.document(counting), noun, json=call.json)

    return command


def _value(parameter: Parameter, value: Any) -> Any:
    return f"{value}ns" if parameter.is_span and value is not None else value


def _command_parameter(parameter: Parameter) -> SignatureParameter:
    """An argument or an option with the type, the default and the help of a parameter."""
    kind = parameter.schema["type"]
    default = None if parameter.is_optional else parameter.schema.get("default")
    settings: dict[str, Any] = {"help": _help(parameter), "metavar": parameter.metavar}
    value_type: Any = int if parameter.is_span else _TYPES[kind]
    if parameter.is_span or kind == "integer":
        settings["parser"] = span if parameter.is_span else number
    if kind == "boolean":
        default = False
    elif parameter.required:
        default = SignatureParameter.empty
    elif default is None:
        value_type = value_type | None
    option = f"--{parameter.name.replace('_', '-')}"
    info = typer.Argument(**settings) if parameter.is_argument else typer.Option(option, **settings)
    return _keyword(_identifier(parameter), Annotated[value_type, info], default)


def _help(parameter: Parameter) -> str:
    """The help of a parameter, with the values that it can have after its first sentence."""
    if parameter.command_help is not None:
        return parameter.command_help
    choices = parameter.words or parameter.schema.get("enum", ())
    sentence, dot, others = parameter.help.partition(". ")
    if not choices:
        return parameter.help
    return f"{sentence.rstrip('.')}: {either(choices)}." + (f" {others}" if dot else "")


def _identifier(parameter: Parameter) -> str:
    """The name of a parameter in Python."""
    return f"{parameter.name}_" if iskeyword(parameter.name) else parameter.name


def _keyword(name: str, annotation: Any, default: Any) -> SignatureParameter:
    return SignatureParameter(
        name, SignatureParameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
