"""The commands of a package, as it registers them for ``aos`` (spec/extending.md, EP-10).

An entry point of the group ``aos.commands`` names a tuple of ``Command``. Its module is imported to
list commands, so it should import nothing else; the functions are in other modules.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command of an extension. The first of a tuple has the name of the entry point as its path;
    the paths of the others, if it is a group, begin with that word."""

    path: str
    """The words after ``aos``."""

    help: str
    """One line, which begins with a verb."""

    examples: tuple[str, ...] = ()
    function: str = ""
    """``module:name``, imported when the command is called; empty for a group. Its parameters are
    those of a function of Typer; it returns the exit code, or None for 0."""

    is_writing: bool = False
    """Whether it opens a world through ``aos_cli.open_writing``: it has ``--timeout`` then."""
