"""Every command of ``aos``, with those that the packages of this environment register."""

from __future__ import annotations

from typing import Final

from aos_cli import registry
from aos_cli.extension_commands import commands_of, listed_words

ALL_COMMANDS: Final = (
    *registry.COMMANDS,
    *(command for word in listed_words() for command in commands_of(word)),
)
