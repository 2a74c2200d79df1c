"""Where words go: results to stdout, progress and errors to stderr (spec/cli.md, C-3 to C-7).

On a terminal there are colours, tables and bars; elsewhere plain lines without any of them.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, TextIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from aos.errors import Unavailable

STATUS_STYLES: Final = {
    "failed": "red",
    "completed": "green",
    "waiting": "yellow",
    "running": "cyan",
    "abandoned": "dim",
    "settled": "green",
    "open": "yellow",
}

WITHOUT_UTF8: Final = "aos-without-utf8"
"""Name of the error handler for a terminal that cannot show what we write."""

_PLAIN_SIGNS: Final = {
    "…": "...",
    "→": "->",
    "←": "<-",
    "·": "-",
    "✓": "ok",
    "✗": "no",
    "▸": ">",
    "◀": "<",
    "└": "`",
    "├": "|",
    "│": "|",
    "─": "-",
}

_COMMANDS: Final = {
    code: f"\\u{code:04x}"
    for code in (
        *range(9),
        *range(11, 32),
        *range(127, 160),
        0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A),
    )
}  # fmt: skip
"""What a terminal would obey: controls, and marks that turn the direction of writing. Values come
from outside, so these are shown and not sent. Line ends and tabs are left."""

_JSON_DEPTH: Final = 20_000


class _Output:
    """Whether somebody still reads stdout. One for the process, as stdout is."""

    has_reader = True


def has_reader() -> bool:
    """False once the other end of our stdout was closed: there is no point in going on reading."""
    return _Output.has_reader


class _Console(Console):
    def on_broken_pipe(self) -> None:
        if self.stderr:
            _forget(sys.stderr)
        else:
            _lose_reader()


@cache
def _console(stream: TextIO, *, is_stderr: bool) -> Console:  # noqa: ARG001  # it is the cache's key
    return _Console(stderr=is_stderr, highlight=False)


def console() -> Console:
    """For results."""
    return _console(sys.stdout, is_stderr=False)


def errors() -> Console:
    """For what is going on, and what went wrong."""
    return _console(sys.stderr, is_stderr=True)


def prepare() -> None:
    """Make both streams usable, whatever the shell gave us. For the very beginning."""
    codecs.register_error(WITHOUT_UTF8, _without_utf8)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell: >&-
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # for the process's life
            setattr(sys, name, stream)
        stream.reconfigure(errors=WITHOUT_UTF8)


def finish() -> None:
    """Hand everything over.

    Raises:
        Unavailable: It cannot be written.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _lose_reader()
    except OSError as error:
        _forget(sys.stdout)
        raise _unwritable(error) from error


def write(text: str, *, at_once: bool = False) -> None:
    """Write a result as it is. ``at_once``: it is handed over now, for a reader who waits for it.

    Raises:
        Unavailable: It cannot be written.
    """
    try:
        sys.stdout.write(text)
        if at_once:
            sys.stdout.flush()
    except BrokenPipeError:
        _lose_reader()
    except OSError as error:
        _forget(sys.stdout)
        raise _unwritable(error) from error


def print_json(document: object, *, at_once: bool = False) -> None:
    """One JSON document: on one line, but indented on a terminal."""
    _write_json(document, indent=2 if sys.stdout.isatty() else None, at_once=at_once)


def print_json_line(document: object, *, at_once: bool = False) -> None:
    """One of many JSON documents, each on a line of its own."""
    _write_json(document, indent=None, at_once=at_once)


def _write_json(document: object, *, indent: int | None, at_once: bool) -> None:
    # A trace is as deep as what it shows: deeper than Python takes by itself.
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _JSON_DEPTH))
    try:
        text = json.dumps(document, ensure_ascii=not _is_utf8(sys.stdout), indent=indent)
    finally:
        sys.setrecursionlimit(limit)
    write(text.translate(_COMMANDS) + "\n", at_once=at_once)


def show(what: RenderableType) -> None:
    """Draw something of rich's, folded to the terminal's width."""
    console().print(what)


def line(text: str | Text = "", *, style: str | None = None) -> None:
    """One line of a result. It is never folded or cut."""
    if console().is_terminal:
        console().print(safe(text, style), soft_wrap=True)
    else:
        write(f"{safe(text)}\n")


MESSAGE_CHARACTERS_MAX: Final = 4096
HEAD_CHARACTERS: Final = 3072
TAIL_CHARACTERS: Final = 512
"""A sentence ends with what to do, so that its end is kept, too."""


def note(text: str, *, style: str | None = None) -> None:
    """A line about what is going on; not part of the result."""
    errors().print(safe(text, style), soft_wrap=True)


def bounded(text: str) -> str:
    """One line of a message, with its middle left out where what it quotes would fill a screen."""
    if len(text) <= MESSAGE_CHARACTERS_MAX:
        return text
    left_out = len(text) - HEAD_CHARACTERS - TAIL_CHARACTERS
    return (
        f"{text[:HEAD_CHARACTERS]}… ({left_out:,} characters left out) …{text[-TAIL_CHARACTERS:]}"
    )


def safe(text: str | Text, style: str | None = None) -> Text:
    """Text that can be sent to a terminal."""
    return text if isinstance(text, Text) else Text(text.translate(_COMMANDS), style=style or "")


def status_text(status: str) -> Text:
    return Text(status, style=STATUS_STYLES.get(status, ""))


Row = Sequence[str | Text]


def table(columns: Sequence[str], rows: Iterable[Row], *, right: Sequence[str] = ()) -> None:
    """A table on a terminal, if it has rows; elsewhere tab-separated lines under their header.

    ``right`` are columns of figures.
    """
    if not console().is_terminal:
        write("\t".join(columns) + "\n")
        for row in rows:
            if not has_reader():
                return
            write("\t".join(map(_one_line, row)) + "\n")
        return
    rows = list(rows)
    if not rows:
        return
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        is_right = column in right
        drawn.add_column(
            column, justify="right" if is_right else "left", overflow="fold", no_wrap=is_right
        )
    for row in rows:
        drawn.add_row(*map(safe, row))
    show(drawn)


def fields(pairs: Iterable[tuple[str, str | Text]]) -> None:
    """Names and what they stand for: two columns on a terminal, tab-separated lines elsewhere."""
    if not console().is_terminal:
        for name, value in pairs:
            write(f"{name}\t{_one_line(value)}\n")
        return
    drawn = Table.grid(padding=(0, 2))
    drawn.add_column(style="bold", no_wrap=True)
    drawn.add_column(overflow="fold")
    for name, value in pairs:
        drawn.add_row(name, safe(value))
    show(drawn)


def entry(columns: Sequence[tuple[str, int]], text: str, *, style: str | None = None) -> None:
    """One line of a list that streams: narrow columns, each with its width, and one that is folded
    beside them. Tab-separated where there is no terminal."""
    if not console().is_terminal:
        write("\t".join([*(value for value, _ in columns), _one_line(text)]) + "\n", at_once=True)
        return
    drawn = Table.grid(padding=(0, 2), expand=False)
    for _, width in columns:
        drawn.add_column(width=width, no_wrap=True, justify="right" if width < 0 else "left")
    drawn.add_column(overflow="fold")
    drawn.add_row(*(safe(value, style) for value, _ in columns), safe(text))
    show(drawn)


def _one_line(cell: str | Text) -> str:
    """A cell of a tab-separated line: no tab or line end in it."""
    return str(cell).replace("\t", " ").replace("\n", " ").translate(_COMMANDS)


def _is_utf8(stream: TextIO) -> bool:
    return codecs.lookup(stream.encoding or "ascii").name == "utf-8"


def _without_utf8(error: UnicodeError) -> tuple[str, int]:
    """What a stream of another encoding writes: our own signs in ASCII, the rest as ``\\uXXXX``."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(_PLAIN_SIGNS.get(sign) or _escaped(sign) for sign in found), error.end


def _escaped(sign: str) -> str:
    return json.dumps(sign)[1:-1]


def _lose_reader() -> None:
    _Output.has_reader = False
    _forget(sys.stdout)


def _forget(stream: Any) -> None:
    """What is still in its buffer goes nowhere, so that the end of the process is quiet."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # a device, not a path of ours
        os.dup2(nowhere.fileno(), stream.fileno())


def _unwritable(error: OSError) -> Unavailable:
    return Unavailable(f"stdout: cannot be written: {error.strerror or error}")
