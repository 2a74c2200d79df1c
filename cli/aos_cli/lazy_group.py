"""Click groups that list commands from the registry and import a command when it is called, without
pydantic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from aos.errors import BadUsage, either
from aos_cli import registry

_MAKERS: Final[dict[Any, Callable[[Any], Any]]] = {
    str: str,
    Path: Path,
    bool: bool,
    list[str]: str,
    list[Path]: Path,
}


Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="On the folder of a node: wait until it has everything that the world had "
        "acknowledged before (at most 30s).",
    ),
]


class LeafCommand(TyperCommand):
    """A command with its arguments and options."""

    def get_params(self, ctx: Any) -> list[Any]:
        return read_without_pydantic(super().get_params(ctx))


class LazyCommand(TyperCommand):
    """A command as its group's help shows it. ``load`` imports the command's module."""

    def __init__(
        self, command: registry.Command, commands: Sequence[registry.Command] = registry.COMMANDS
    ) -> None:
        """``commands`` has the command, and those below it."""
        super().__init__(command.name, help=command.help, rich_help_panel=command.panel)
        self._command = command
        self._commands = commands

    def part(self, word: str) -> LazyCommand | None:
        """The command below this one that ``word`` names. A group finds its own commands."""
        command = self._command
        if command.is_group:
            return None
        return next(
            (
                LazyCommand(child, self._commands)
                for child in registry.below(command.path, self._commands)
                if child.name == word
            ),
            None,
        )

    def load(self) -> TyperCommand | TyperGroup:
        """The command itself, with its arguments and options."""
        command = self._command
        if command.is_group:
            return Group(
                name=command.name,
                path=command.path,
                table=self._commands,
                help=command.help,
                epilog=_epilog(command),
                no_args_is_help=True,
            )
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(command.name, cls=LeafCommand, help=command.help, epilog=_epilog(command))(
            _command_function(command)
        )
        typer_command = typer.main.get_command(app)
        assert isinstance(typer_command, TyperCommand)
        return typer_command


class Group(TyperGroup):
    """The commands of ``table`` below ``path``: of ``aos`` itself, or of a group in it."""

    def __init__(
        self,
        *,
        path: str = "",
        table: Sequence[registry.Command] = registry.COMMANDS,
        **settings: Any,
    ) -> None:
        settings["commands"] = {
            command.name: LazyCommand(command, table) for command in registry.below(path, table)
        }
        super().__init__(**settings)

    def get_params(self, ctx: Any) -> list[Any]:
        return read_without_pydantic(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, remaining_args = super().resolve_command(ctx, args)
        if not isinstance(command, LazyCommand):
            return name, command, remaining_args
        part = command.part(remaining_args[0]) if remaining_args else None
        if part is not None:
            return f"{name} {part.name}", part.load(), remaining_args[1:]
        return name, command.load(), remaining_args


class RootGroup(Group):
    """The commands of ``aos`` itself, and those that installed packages register. The latter are
    read only for a word that is not one of the former, and to list all commands (EP-2)."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        from aos_cli.extension_commands import commands_of  # noqa: PLC0415  # see above

        commands = commands_of(cmd_name)
        return LazyCommand(commands[0], commands) if commands else None

    def list_commands(self, ctx: Any) -> list[str]:
        from aos_cli.extension_commands import listed_words  # noqa: PLC0415  # see above

        return [*super().list_commands(ctx), *listed_words()]

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        word = args[0]
        is_option = word.startswith("-")
        if not (is_option or ctx.resilient_parsing) and self.get_command(ctx, word) is None:
            raise self._unknown(word)
        return super().resolve_command(ctx, args)

    def _unknown(self, word: str) -> BadUsage:
        """The error for a word that is no command, with the commands like it."""
        from aos.extensions import COMMANDS, registered_names  # noqa: PLC0415  # see above

        near = get_close_matches(word, [*self.commands, *registered_names(COMMANDS)])
        suggestion = f"; did you mean {either(near)}?" if near else ""
        return BadUsage(f"there is no command {word!r}{suggestion}", hint="see aos --help")


def _command_function(command: registry.Command) -> Any:
    function = command.load()
    if command.is_builtin and command.path in registry.FRESH:
        function = _with_fresh(function)
    is_writing = command.path in registry.WRITING or command.is_writing
    is_addressed = command.is_builtin and command.path in registry.ADDRESSED
    if not (is_writing or is_addressed):
        return function
    # Commands that only read do not need what makes the options.
    from aos_cli.open_writing import with_writing_options  # noqa: PLC0415

    return with_writing_options(function, is_writing=is_writing, is_addressed=is_addressed)


def _with_fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--fresh`` to the function of a command that reads a world (C-8d)."""
    function_signature = signature(function, eval_str=True)

    @wraps(function)
    def wrapper(*words: Any, fresh: bool = False, **options: Any) -> Any:
        if fresh:
            # Few commands wait.
            from aos_cli.fresh_reading import wait_for_folder  # noqa: PLC0415

            wait_for_folder(options["world"], options.get("node"))
        return function(*words, **options)

    parameters = [
        *function_signature.parameters.values(),
        Parameter("fresh", Parameter.KEYWORD_ONLY, default=False, annotation=Fresh),
    ]
    wrapper.__signature__ = function_signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def _epilog(command: registry.Command) -> str:
    """The examples below the options. ``[`` is escaped, because rich reads it as markup."""
    if not command.examples:
        return ""
    title = "Examples:" if len(command.examples) > 1 else "Example:"
    lines = [title, *(f"  {example}" for example in command.examples)]
    return "\n".join(lines).replace("[", r"\[")


class _ParameterReader:
    """Makes the value of one parameter; Typer calls it."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_many = param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        try:
            return [self._make(element) for element in value] if is_many else self._make(value)
        except typer.BadParameter as problem:
            raise typer.BadParameter(problem.message, ctx=ctx, param=param) from problem


class _DefaultReader:
    """Lets Typer read the value of one parameter, with pydantic, unless it is the default."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_many = param.multiple or param.nargs == -1
        if not is_many and (value is None or value is param.default):
            return value
        param._runtime_param = None  # noqa: SLF001  # then Typer makes its own
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def read_without_pydantic(parameters: list[Any]) -> list[Any]:
    """Give each parameter a reader that does without pydantic if it can; returns the same list.

    Texts, paths and parsed numbers are read without pydantic, which Typer would import for them:
    it takes longer to import than a small command takes to run. A value of any other type, such as
    an ``Enum`` or a number with bounds, is left to Typer, but a default is not read at all.
    """
    for parameter in parameters:
        descriptor = parameter.type_descriptor
        make = descriptor.parameter_info.parser or _MAKERS.get(descriptor.annotation)
        parameter._runtime_param = _DefaultReader() if make is None else _ParameterReader(make)  # noqa: SLF001  # Typer uses its own if this is None
    return parameters
