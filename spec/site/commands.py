"""The command reference: one page for each command of ``aos``, from the command line itself.

The extensions that ship with AOS have pages, too; those of other packages do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any, Final

from aos_cli import extension_commands, registry
from aos_cli.lazy_group import LazyCommand

FOLDER: Final = "commands"
EXTENSIONS: Final = ("gateway",)
PANELS: Final = (*registry.PANELS, extension_commands.PANEL)


@cache
def _commands() -> tuple[registry.Command, ...]:
    shipped = (extension_commands.commands_of(word) for word in EXTENSIONS)
    return (*registry.COMMANDS, *chain.from_iterable(shipped))


def command_pages() -> Mapping[str, str]:
    """The path of each page below ``FOLDER`` -> its text, in the order of ``aos --help``."""
    pages = {"README.md": "".join(_overview())}
    for panel in PANELS:
        for command in registry.below("", _commands()):
            if command.panel == panel:
                pages[f"{command.name}.md"] = "".join(_page(command))
    return pages


def _overview() -> Iterator[str]:
    yield (
        "# Commands\n\nEvery command of `aos`, as `aos COMMAND --help` shows it. Exit codes and "
        "the documents of `--json` are in [The command line](../spec/cli.md).\n"
    )
    for panel in PANELS:
        yield f"\n## {panel}\n\n| command | does |\n|---|---|\n"
        for command in registry.below("", _commands()):
            if command.panel == panel:
                yield f"| [`aos {command.path}`]({command.name}.md) | {_plain(command.help)} |\n"


def _page(command: registry.Command) -> Iterator[str]:
    yield f"# aos {command.path}\n\n{_plain(command.help)}\n"
    if command.is_group:
        yield "\n| command | does |\n|---|---|\n"
        for part in registry.below(command.path, _commands()):
            yield f"| [`aos {part.path}`](#{_anchor(part)}) | {_plain(part.help)} |\n"
    else:
        yield from _body(command)
    for part in registry.below(command.path, _commands()):
        yield f"\n## aos {part.path} {{ #{_anchor(part)} }}\n\n{_plain(part.help)}\n"
        yield from _body(part)


def _anchor(command: registry.Command) -> str:
    return command.path.replace(" ", "-")


def _body(command: registry.Command) -> Iterator[str]:
    parameters: list[Any] = LazyCommand(command).load().params
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    options = [parameter for parameter in parameters if parameter.param_type_name == "option"]
    words = [f"aos {command.path}", *map(_usage, arguments)]
    words += [_spelling(option) for option in options if option.required]
    words += ["[OPTIONS]"] if any(not option.required for option in options) else []
    yield f"\n```text\n{' '.join(words)}\n```\n"
    if arguments:
        yield "\n| argument | is |\n|---|---|\n"
        yield from (f"| `{_usage(argument)}` | {_help(argument)} |\n" for argument in arguments)
    if options:
        yield "\n| option | does |\n|---|---|\n"
        yield from (f"| `{_spelling(option)}` | {_help(option)} |\n" for option in options)
    if command.examples:
        yield "\n```sh\n" + "\n".join(command.examples) + "\n```\n"


def _usage(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    if not argument.required and not name.startswith("["):
        name = f"[{name}]"
    return f"{name}…" if argument.nargs == -1 and "…" not in name else name


def _spelling(option: Any) -> str:
    words = ", ".join([*option.opts, *option.secondary_opts])
    return words if option.is_flag else f"{words} {option.metavar or 'TEXT'}"


def _help(parameter: Any) -> str:
    text = _plain((parameter.help or "").strip())
    if getattr(parameter, "multiple", False):
        text += " Repeatable."
    if getattr(parameter, "required", False) and parameter.param_type_name == "option":
        text += " Required."
    if getattr(parameter, "envvar", None):
        text += f" Without it: `{parameter.envvar}`."
    default = _default(parameter)
    if default and "default" not in text.lower():
        text += f" Default: `{default}`."
    return text


def _default(parameter: Any) -> str | None:
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    if parameter.show_default is False or callable(parameter.default):
        return None
    if parameter.default in (None, False, True, (), []):
        return None
    return str(parameter.default)


def _plain(text: str) -> str:
    """The text in a cell of a table, where no sign has another meaning."""
    text = re.sub(r"\s+", " ", text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\|*_\[\]`{}#~^])", r"\\\1", text)
