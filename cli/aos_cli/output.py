"""Where words go: results to stdout, progress and errors to stderr (spec/cli.md, C-3 to C-7).

On a terminal there are colours, tables and bars; elsewhere plain lines. Drawing is in
``aos_cli.terminal``, which is imported only where a terminal is there.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TextIO

from aos.errors import Unavailable
from aos_cli.styled import CONTROLS, Styled

if TYPE_CHECKING:  # rich would double the start-up of a small command
    from aos_cli.terminal import Screen

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

TERMINAL_NAMES: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""What makes rich draw as on a terminal, whatever the stream is."""

PLAIN_WIDTH: Final = 80
_JSON_DEPTH: Final = 20_000


class _Output:
    """Whether somebody still reads stdout. One for the process, as stdout is."""

    has_reader = True


def has_reader() -> bool:
    """False once the other end of our stdout was closed: there is no point in going on reading."""
    return _Output.has_reader


@cache
def _screen(stream: TextIO, *, is_stderr: bool) -> Screen:  # noqa: ARG001  # it is the cache's key
    from aos_cli.terminal import Screen  # noqa: PLC0415  # the one door to rich

    return Screen(is_stderr=is_stderr, on_broken_pipe=_lose_errors if is_stderr else _lose_reader)


def screen() -> Screen:
    """Draws results on the terminal that stdout is."""
    return _screen(sys.stdout, is_stderr=False)


def errors_screen() -> Screen:
    """Draws progress and errors on the terminal that stderr is."""
    return _screen(sys.stderr, is_stderr=True)


def is_terminal() -> bool:
    """Whether results are drawn on a terminal."""
    return _may_be_terminal(sys.stdout) and screen().is_terminal


def errors_are_on_terminal() -> bool:
    """Whether progress and errors are drawn on a terminal."""
    return _may_be_terminal(sys.stderr) and errors_screen().is_terminal


def _may_be_terminal(stream: TextIO) -> bool:
    """False only where rich would say so too. Asking rich means importing it."""
    return any(os.environ.get(name) for name in TERMINAL_NAMES) or stream.isatty()


def terminal_width() -> int:
    """Columns of the terminal, also where results go elsewhere (a pager is as wide); else 80."""
    if is_terminal():
        return screen().width
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit():
        return int(columns)
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None and (found := os.get_terminal_size(stream.fileno()).columns):
                return found
        except (OSError, ValueError, AttributeError):
            continue
    return PLAIN_WIDTH


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
    write(text.translate(CONTROLS) + "\n", at_once=at_once)


def line(text: str | Styled = "", *, style: str | None = None) -> None:
    """One line of a result. It is never folded or cut."""
    if is_terminal():
        screen().line(safe(text, style))
    else:
        write(f"{safe(text)}\n")


MESSAGE_BYTES_MAX: Final = 4096
HEAD_BYTES: Final = 3072
TAIL_BYTES: Final = 512
"""A sentence ends with its advice, so its end is kept as well."""


def note(text: str, *, style: str | None = None) -> None:
    """A line about progress, a problem or an error; not part of the result. A long one is cut."""
    text = bounded(text)
    if errors_are_on_terminal():
        errors_screen().line(safe(text, style))
        return
    try:
        sys.stderr.write(f"{safe(text)}\n")
        sys.stderr.flush()
    except BrokenPipeError:
        _lose_errors()


def bounded(text: str) -> str:
    """One line of a message as it is printed: without its middle where what it quotes is long."""
    text = text.translate(CONTROLS)
    if len(text) * 4 <= MESSAGE_BYTES_MAX:
        return text
    data = text.encode(errors="backslashreplace")
    if len(data) <= MESSAGE_BYTES_MAX:
        return text
    head, tail = (
        data[:HEAD_BYTES].decode(errors="ignore"),
        data[-TAIL_BYTES:].decode(errors="ignore"),
    )
    return f"{head}… ({len(data) - HEAD_BYTES - TAIL_BYTES:,} bytes left out) …{tail}"


def safe(text: str | Styled, style: str | None = None) -> Styled:
    """Text that can be sent to a terminal."""
    if isinstance(text, Styled):
        return text
    return Styled(text, style or "")


def status_text(status: str) -> Styled:
    return Styled(status, style=STATUS_STYLES.get(status, ""))


Row = Sequence[str | Styled]


def table(columns: Sequence[str], rows: Iterable[Row], *, right: Sequence[str] = ()) -> None:
    """A table on a terminal, if it has rows; elsewhere tab-separated lines under their header.

    ``right`` are columns of figures.
    """
    if is_terminal():
        drawn = [[safe(cell) for cell in row] for row in rows]
        if drawn:
            screen().table(columns, drawn, right=right)
        return
    write("\t".join(columns) + "\n")
    for row in rows:
        if not has_reader():
            return
        write("\t".join(map(_one_line, row)) + "\n")


def fields(pairs: Iterable[tuple[str, str | Styled]]) -> None:
    """Names and their values: two columns on a terminal, tab-separated lines elsewhere."""
    if is_terminal():
        screen().fields([(name, safe(value)) for name, value in pairs])
        return
    for name, value in pairs:
        write(f"{name}\t{_one_line(value)}\n")


def entry(columns: Sequence[tuple[str, int]], text: str, *, style: str | None = None) -> None:
    """One line of a list that streams: narrow columns, each with its width, and one after them that
    is folded. Tab-separated where there is no terminal."""
    if is_terminal():
        narrow = [(safe(value, style), width) for value, width in columns]
        screen().entry(narrow, safe(text))
        return
    write("\t".join([*(value for value, _ in columns), _one_line(text)]) + "\n", at_once=True)


def _one_line(cell: str | Styled) -> str:
    """A cell of a tab-separated line: no tab or line end in it."""
    return str(cell).replace("\t", " ").replace("\n", " ").translate(CONTROLS)


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


def _lose_errors() -> None:
    _forget(sys.stderr)


def _forget(stream: Any) -> None:
    """What is still in its buffer goes nowhere, so that the end of the process is quiet."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # a device, not a path of ours
        os.dup2(nowhere.fileno(), stream.fileno())


def _unwritable(error: OSError) -> Unavailable:
    return Unavailable(f"stdout: cannot be written: {error.strerror or error}")
