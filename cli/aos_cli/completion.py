"""Completes a command line: commands, options, and values that an option lists (C-14).

A shell calls ``aos --complete SHELL WORD…`` for each press of Tab, so this imports neither the
parser of the command line nor a command, unless an option of that command is completed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from aos.errors import AosError
from aos_cli import registry

_CHOICE: Final = re.compile(r"[a-z0-9/-]+(?:\|[a-z0-9/-]+)+")


class Candidate(NamedTuple):
    """A word that may be next. ``help`` is one line, or empty."""

    word: str
    help: str = ""


ROOT_OPTIONS: Final = (
    Candidate("--help", "Show the help."),
    Candidate("--version", "Print the version and exit."),
    Candidate("--install-completion", "Install completion for your shell."),
    Candidate("--show-completion", "Print the script of completion for your shell."),
)
_HELP: Final = (ROOT_OPTIONS[0],)


def print_candidates(arguments: Sequence[str]) -> None:
    """Print the candidates, in the form that a shell reads. The arguments are the name of the shell
    and the words after ``aos``, the last of which is incomplete. An error prints none."""
    shell, *words = arguments or [""]
    try:
        entries = list(candidates(words or [""]))
    except AosError:
        return
    for candidate in entries:
        sys.stdout.write(f"{_FORMS.get(shell, _plain)(candidate)}\n")


def candidates(words: Sequence[str]) -> Iterator[Candidate]:
    """The candidates for the last of the words after ``aos``; none where a value or file follows.

    Raises:
        UnusableExtension: A word names a command of a package that cannot be used.
    """
    *before, start = words
    if not before:
        yield from _first_words(start)
        return
    commands = _commands_of(before[0])
    command = next((command for command in commands if command.path == before[0]), None)
    if command is None:
        return
    rest = before[1:]
    children = registry.below(command.path, commands)
    child = next((child for child in children if rest[:1] == [child.name]), None)
    if child is not None:
        command, rest, children = child, rest[1:], ()
    if command.is_group:
        entries: Iterable[Candidate] = _HELP if start.startswith("-") else _described(children)
        yield from _beginning(start, entries if not rest else ())
        return
    if not rest and not start.startswith("-"):
        yield from _beginning(start, _described(children))
    yield from _of_options(command, commands, rest, start)


def _first_words(start: str) -> Iterator[Candidate]:
    if start.startswith("-"):
        yield from _beginning(start, ROOT_OPTIONS)
        return
    ours = list(_beginning(start, _described(registry.below(""))))
    yield from ours
    if start and ours:
        return
    # Reading the names that packages register takes longer than all the rest (EP-2).
    from aos.extensions import COMMANDS, registered_names  # noqa: PLC0415

    yield from _beginning(start, map(Candidate, registered_names(COMMANDS)))


def _commands_of(word: str) -> Sequence[registry.Command]:
    """The table with a command of aos, or with the one that a package registers."""
    if any(command.path == word for command in registry.COMMANDS):
        return registry.COMMANDS
    from aos_cli.extension_commands import commands_of  # noqa: PLC0415  # as above

    return commands_of(word)


def _of_options(
    command: registry.Command, commands: Sequence[registry.Command], rest: list[str], start: str
) -> Iterator[Candidate]:
    """Names of options, or values of the option before."""
    option = rest[-1] if rest else ""
    if not start.startswith("-") and not option.startswith("-"):
        return
    # The parser of the command line, and the module of the command with what it needs.
    from aos_cli.lazy_group import LazyCommand  # noqa: PLC0415

    parameters: list[Any] = [
        parameter
        for parameter in LazyCommand(command, commands).load().params
        if any(name.startswith("-") for name in parameter.opts)
    ]
    if not start.startswith("-"):
        of_option = (parameter for parameter in parameters if option in parameter.opts)
        yield from _beginning(
            start, (value for parameter in of_option for value in _values(parameter))
        )
        return
    yield from _beginning(
        start,
        (
            *(
                Candidate(name, parameter.help or "")
                for parameter in parameters
                for name in parameter.opts
                if name.startswith("--")
            ),
            *_HELP,
        ),
    )


def _values(parameter: Any) -> Iterator[Candidate]:
    """The values of an option that lists them all."""
    metavar = parameter.metavar or ""
    if _CHOICE.fullmatch(metavar):
        yield from map(Candidate, metavar.split("|"))


def _described(commands: Iterable[registry.Command]) -> Iterator[Candidate]:
    return (Candidate(command.name, command.help) for command in commands)


def _beginning(start: str, entries: Iterable[Candidate]) -> Iterator[Candidate]:
    return (candidate for candidate in entries if candidate.word.startswith(start))


def _plain(candidate: Candidate) -> str:
    return candidate.word


def _with_tab(candidate: Candidate) -> str:
    return f"{candidate.word}\t{candidate.help}" if candidate.help else candidate.word


def _with_colon(candidate: Candidate) -> str:
    word = candidate.word.replace(":", "\\:")
    return f"{word}:{candidate.help}" if candidate.help else word


_FORMS: Final = {"bash": _plain, "zsh": _with_colon, "fish": _with_tab}
