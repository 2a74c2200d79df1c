"""The commands that installed packages register (spec/extending.md, EP-10 to EP-14).

Imported only for a word that ``aos`` does not know, and to list all commands: reading the entry
points of an environment takes longer than a small command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from aos import extensions
from aos.errors import sentence
from aos.extensions import Registration, UnusableExtension
from aos_cli import registry
from aos_cli.extension import Command
from aos_cli.output import note

PANEL: Final = "Extensions"
_PANEL_OF_GROUP: Final = "Commands"

_WORD: Final = re.compile(r"[a-z][a-z0-9-]*")
_FUNCTION: Final = re.compile(r"[\w.]+:\w+")


@cache
def commands_of(word: str) -> tuple[registry.Command, ...]:
    """The commands that a package registers under a word, the first with this path; none if no
    package does.

    Raises:
        UnusableExtension: They cannot be used.
    """
    registration = extensions.find(extensions.COMMANDS, word, subject=f"the command {word!r}")
    if registration is None:
        return ()
    commands = _checked(registration, registration.load())
    package = "" if registration.is_ours else registration.package
    return tuple(
        registry.Command(
            command.path,
            PANEL if command.path == word else _PANEL_OF_GROUP,
            command.help,
            command.examples,
            command.function,
            is_writing=command.is_writing,
            is_builtin=False,
            package=package,
        )
        for command in commands
    )


@cache
def listed_words() -> tuple[str, ...]:
    """The words that packages register and that can be used. Prints a line about each other one,
    once."""
    words = []
    for word in extensions.registered_names(extensions.COMMANDS):
        if _is_builtin(word):
            _note_hidden(word)
            continue
        try:
            command = commands_of(word)[0]
        except UnusableExtension as problem:
            note(f"aos: {problem}", style="yellow")
            continue
        words.append(word)
        if not command.package:
            _note_hidden(word)
    return tuple(words)


def package_of(word: str) -> str:
    """The package whose command ``word`` is, with its version; empty for a command of aos."""
    try:
        commands = commands_of(word)
    except UnusableExtension:
        return ""
    return commands[0].package if commands else ""


def _is_builtin(word: str) -> bool:
    return any(command.path == word for command in registry.COMMANDS)


def _note_hidden(word: str) -> None:
    for registration in extensions.hidden(
        extensions.COMMANDS, word, subject=f"the command {word!r}"
    ):
        problem = registration.unusable(
            "aos has a command of this name, so this one is not used (remove the package: pip "
            f"uninstall {registration.distribution})"
        )
        note(f"aos: {problem}", style="yellow")


def _checked(registration: Registration, value: object) -> Sequence[Command]:
    """The commands of a registration, if they are well-formed (EP-11)."""
    if not isinstance(value, tuple | list) or not all(
        isinstance(command, Command) for command in value
    ):
        raise _malformed(registration, "a tuple of aos_cli.extension.Command", type(value).__name__)
    word = registration.entry.name
    if not value or value[0].path != word or not _WORD.fullmatch(word):
        actual = repr(value[0].path) if value else "none"
        raise _malformed(registration, f"a first command with the path {word!r}", actual)
    paths = [command.path for command in value]
    for command in value:
        above = command.path.rpartition(" ")[0]
        if paths.count(command.path) > 1 or (command is not value[0] and above not in paths):
            raise _malformed(
                registration, "each path once, below another command", repr(command.path)
            )
        is_group = any(path.startswith(f"{command.path} ") for path in paths)
        if not _FUNCTION.fullmatch(command.function) and not (is_group and not command.function):
            raise _malformed(
                registration,
                f"a function of {command.path!r} as module:name",
                repr(command.function),
            )
    return value


def _malformed(registration: Registration, expected: str, actual: str) -> UnusableExtension:
    return registration.unusable(
        sentence(
            f"its object {registration.entry.value} is malformed",
            expected=expected,
            actual=actual,
            hint=f"install another release of it, or remove it: pip uninstall "
            f"{registration.distribution}",
        )
    )
