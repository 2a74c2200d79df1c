"""Print results to stdout, progress and errors to stderr (spec/cli.md, C-3 to C-7).

On a terminal there are colours, tables and bars; elsewhere plain lines. ``aos_cli.terminal`` draws
them; it is imported only if there is a terminal.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final, TextIO

from aos.document_text import CONTROLS, document_text
from aos.errors import Unavailable
from aos_cli.styled import Styled

if TYPE_CHECKING:  # rich would double the start-up of a small command
    from aos_cli.terminal import Screen

STATUS_STYLES: Final = {
    "failed": "red",
    "completed": "green",
    "waiting": "yellow",
    "running": "cyan",
    "idle": "dim",
    "abandoned": "dim",
    "settled": "green",
    "open": "yellow",
}

WITHOUT_UTF8: Final = "aos-without-utf8"
"""Name of the error handler for streams that cannot encode a character."""

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
"""Environment variables that make rich treat any stream as a terminal."""

PLAIN_WIDTH: Final = 80

PLAIN_EVERY_S: Final = 2.0
"""Interval of plain progress lines, in seconds. Shorter work prints none."""

_BREAKS: Final = frozenset("\n\t")

Advance = Callable[[int, int], None]
"""Called with the number done and the total, which is 0 if unknown."""


class _Output:
    """One for the process, like stdout: whether stdout still has a reader, and words of the command
    line with line ends or tabs, with their escapes."""

    has_reader = True
    escapes: ClassVar[dict[str, str]] = {}


def has_reader() -> bool:
    """False once the other end of stdout was closed: a reading command can then stop."""
    return _Output.has_reader


@cache
def _screen(stream: TextIO, *, is_stderr: bool) -> Screen:  # noqa: ARG001  # the key of the cache
    from aos_cli.terminal import Screen  # noqa: PLC0415  # the only import of rich

    return Screen(is_stderr=is_stderr, on_broken_pipe=_lose_errors if is_stderr else _lose_reader)


def screen() -> Screen:
    """The screen that draws results on stdout."""
    return _screen(sys.stdout, is_stderr=False)


def errors_screen() -> Screen:
    """The screen that draws progress and errors on stderr."""
    return _screen(sys.stderr, is_stderr=True)


def is_terminal() -> bool:
    """Whether results are drawn on a terminal."""
    return _may_be_terminal(sys.stdout) and screen().is_terminal


def errors_are_on_terminal() -> bool:
    """Whether progress and errors are drawn on a terminal."""
    return _may_be_terminal(sys.stderr) and errors_screen().is_terminal


def _may_be_terminal(stream: TextIO) -> bool:
    """False only if rich would agree. The check avoids the import of rich."""
    return any(os.environ.get(name) for name in TERMINAL_NAMES) or stream.isatty()


def terminal_width() -> int:
    """Columns of the terminal, also if stdout is a pipe (a pager has the same width); else 80."""
    if is_terminal():
        return screen().width
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit():
        return int(columns)
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None and (
                column_count := os.get_terminal_size(stream.fileno()).columns
            ):
                return column_count
        except (OSError, ValueError, AttributeError):
            continue
    return PLAIN_WIDTH


def prepare() -> None:
    """Make stdout and stderr usable, also if the shell closed them. Call it first."""
    codecs.register_error(WITHOUT_UTF8, _without_utf8)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell: >&-
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # open until the process ends
            setattr(sys, name, stream)
        stream.reconfigure(errors=WITHOUT_UTF8)


def escape_words(words: Iterable[str]) -> None:
    """Print line ends and tabs in names that the user gave as escapes from now on. Other control
    characters are always escaped; these two also occur in our own texts."""
    names = (word for word in words if not word.lstrip().startswith(("{", "[")))  # no JSON
    parts = {part for name in names for part in name.split("/")}
    _Output.escapes = {
        part: "".join(_escaped(sign) if sign in _BREAKS else sign for sign in part)
        for part in sorted(parts, key=len, reverse=True)
        if not _BREAKS.isdisjoint(part) and part.strip()
    }


def with_escapes(text: str) -> str:
    for part, escaped in _Output.escapes.items():
        text = text.replace(part, escaped)
    return text


def finish() -> None:
    """Flush stdout.

    Raises:
        Unavailable: stdout cannot be written.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _lose_reader()
    except OSError as error:
        _forget(sys.stdout)
        raise _unwritable(error) from error


def write(text: str, *, at_once: bool = False) -> None:
    """Write a result unchanged; with ``at_once``, flush it for a reader that waits for it.

    Raises:
        Unavailable: stdout cannot be written.
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


_gathered: list[Any] | None = None
"""The documents that ``print_json`` keeps instead of printing them."""


@contextmanager
def gathered_json() -> Iterator[list[Any]]:
    """Keep the documents that ``print_json`` would print in the block, in this list."""
    global _gathered  # noqa: PLW0603  # stdout is global, too
    outer, _gathered = _gathered, []
    try:
        yield _gathered
    finally:
        _gathered = outer


def print_json(document: object, *, at_once: bool = False) -> None:
    """Print one JSON document: on one line, but indented on a terminal."""
    if _gathered is not None:
        _gathered.append(document)
        return
    _write_json(document, indent=2 if sys.stdout.isatty() else None, at_once=at_once)


def print_json_line(document: object, *, at_once: bool = False) -> None:
    """Print one of many JSON documents, each on one line."""
    _write_json(document, indent=None, at_once=at_once)


def _write_json(document: object, *, indent: int | None, at_once: bool) -> None:
    text = document_text(document, is_ascii=not _is_utf8(sys.stdout), indent=indent)
    write(text, at_once=at_once)


def print_bytes(data: bytes) -> None:
    """Write bytes to stdout unchanged, also to a terminal."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _lose_reader()
    except OSError as error:
        raise _unwritable(error) from None


def line(text: str | Styled = "", *, style: str | None = None) -> None:
    """Print one line of a result. It is never folded or cut."""
    text = with_escapes(text) if isinstance(text, str) else text
    if is_terminal():
        screen().line(safe(text, style))
    else:
        write(f"{safe(text)}\n")


MESSAGE_BYTES_MAX: Final = 4096
HEAD_BYTES: Final = 3072
TAIL_BYTES: Final = 512
"""An error ends with its advice, so its end is kept as well."""


def note(text: str, *, style: str | None = None) -> None:
    """Print progress, a problem or an error to stderr. A long line loses its middle."""
    text = bounded(with_escapes(text))
    if errors_are_on_terminal():
        errors_screen().line(safe(text, style))
        return
    try:
        sys.stderr.write(f"{safe(text)}\n")
        sys.stderr.flush()
    except BrokenPipeError:
        _lose_errors()


def bounded(text: str) -> str:
    """One line of a message; the middle of a line over ``MESSAGE_BYTES_MAX`` is left out."""
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
    """The text with its control characters replaced, so that a terminal can show it."""
    if isinstance(text, Styled):
        return text
    return Styled(text, style or "")


def status_text(status: str) -> Styled:
    return Styled(status, style=STATUS_STYLES.get(status, ""))


Row = Sequence[str | Styled]


def table(
    columns: Sequence[str], rows: Iterable[Row], *, right_aligned: Sequence[str] = ()
) -> None:
    """Print a table on a terminal, if it has rows; elsewhere tab-separated lines under a header.

    ``right_aligned`` names the columns to align right.
    """
    if is_terminal():
        drawn = [[safe(cell) for cell in row] for row in rows]
        if drawn:
            screen().table(columns, drawn, right_aligned=right_aligned)
        return
    write("\t".join(columns) + "\n")
    for row in rows:
        if not has_reader():
            return
        write("\t".join(map(_one_line, row)) + "\n")


def list_table(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    cells: Callable[[Any], Row],
    *,
    right_aligned: Sequence[str] = (),
) -> None:
    """Print the rows of a document as a table, with their shard if a group has listed them.
    ``cells`` makes those of a row."""
    if any("shard" in row for row in rows):
        columns = ["shard", *columns]
        table(columns, ([row["shard"], *cells(row)] for row in rows), right_aligned=right_aligned)
    else:
        table(columns, map(cells, rows), right_aligned=right_aligned)


def fields(pairs: Iterable[tuple[str, str | Styled]]) -> None:
    """Print names and values: two columns on a terminal, tab-separated lines elsewhere."""
    if is_terminal():
        screen().fields([(name, safe(value)) for name, value in pairs])
        return
    for name, value in pairs:
        write(f"{name}\t{_one_line(value)}\n")


def entry(columns: Sequence[tuple[str, int]], text: str, *, style: str | None = None) -> None:
    """Print one line of a streamed list: narrow columns, each with its width, then a folded text.
    Without a terminal the line is tab-separated."""
    if is_terminal():
        narrow = [(safe(value, style), width) for value, width in columns]
        screen().entry(narrow, safe(text))
        return
    write("\t".join([*(value for value, _ in columns), _one_line(text)]) + "\n", at_once=True)


@contextmanager
def progress(label: str) -> Iterator[Advance]:
    """Show the progress of ``label`` while the block runs: a bar on a terminal, elsewhere a line
    every 2 s (C-4)."""
    with errors_screen().bar(label) if errors_are_on_terminal() else _plain_lines(label) as advance:
        yield advance


@contextmanager
def _plain_lines(label: str) -> Iterator[Advance]:
    last = monotonic()

    def advance(completed: int, total: int) -> None:
        nonlocal last
        if monotonic() - last >= PLAIN_EVERY_S:
            last = monotonic()
            note(f"{label}: {completed:,} of {total:,}" if total else f"{label}: {completed:,}")

    yield advance


def _one_line(cell: str | Styled) -> str:
    """A cell of a tab-separated line, without tabs and line ends."""
    return with_escapes(str(cell)).replace("\t", " ").replace("\n", " ").translate(CONTROLS)


def _is_utf8(stream: TextIO) -> bool:
    return codecs.lookup(stream.encoding or "ascii").name == "utf-8"


def _without_utf8(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that a stream cannot encode: our signs by ASCII, others by ``\\uXXXX``."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_PLAIN_SIGNS.get(sign) or _escaped(sign) for sign in signs), error.end


def _escaped(sign: str) -> str:
    return json.dumps(sign)[1:-1]


def _lose_reader() -> None:
    _Output.has_reader = False
    _forget(sys.stdout)


def _lose_errors() -> None:
    _forget(sys.stderr)


def _forget(stream: Any) -> None:
    """Discard the rest of the buffer, so that the process ends without another error."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # a device, not a path of ours
        os.dup2(nowhere.fileno(), stream.fileno())


def _unwritable(error: OSError) -> Unavailable:
    return Unavailable(f"stdout: cannot be written: {error.strerror or error}")
