"""Read a source file into a syntax tree, and collect the problems of it (PF-1 to PF-4)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from aos.author.errors import BuildFailed
from aos.errors import excerpt, sentence

SOURCE_BYTES_MAX: Final = 512 * 1024
PROBLEMS_MAX: Final = 50
DEPTH_MAX: Final = 100
"""Levels of expressions and blocks that the interpreter reads."""

_BOM: Final = b"\xef\xbb\xbf"
_OTHER_BOMS: Final = {
    b"\xff\xfe\x00\x00": "UTF-32", b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
}  # fmt: skip
_UTF8_NAMES: Final = ("utf-8", "utf-8-sig")
_CODING: Final = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_SAVE_AS_UTF8: Final = "save the file as UTF-8"


@dataclass(slots=True, kw_only=True)
class PythonSource:
    """A source file. ``path`` is its name in messages; ``problems`` are those found so far, by
    line and column."""

    path: str
    text: str
    tree: ast.Module
    problems: dict[tuple[int, int, str], str] = field(default_factory=dict)

    def report(
        self,
        node: ast.AST | None,
        problem: str,
        *,
        expected: str | None = None,
        actual: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Add a problem at a node of the tree; None is the file as a whole."""
        line = getattr(node, "lineno", 1)
        column = self._column(line, getattr(node, "col_offset", 0))
        text = sentence(
            problem,
            location=f"{self.path}:{line}:{column}",
            expected=expected,
            actual=actual,
            hint=hint,
        )
        self.problems.setdefault((line, column, text), text)

    def raise_problems(self) -> None:
        """Raise BuildFailed with one line for each problem, in the order of the file."""
        texts = [self.problems[key] for key in sorted(self.problems)]
        if not texts:
            return
        if len(texts) > PROBLEMS_MAX:
            further = f"{self.path}: {len(texts) - PROBLEMS_MAX} further problems"
            texts = [*texts[:PROBLEMS_MAX], further]
        raise BuildFailed("\n".join(texts))

    def shown(self, node: ast.AST) -> str:
        """The source of a node, on one line, for a message."""
        text = ast.get_source_segment(self.text, node) or ast.unparse(node)
        return excerpt(" ".join(text.split()), characters_max=60)

    def _column(self, line: int, byte_offset: int) -> int:
        """The column in characters, from 1; the tree counts bytes of UTF-8."""
        lines = self.text.split("\n")
        text = lines[line - 1] if line <= len(lines) else ""
        return len(text.encode()[:byte_offset].decode(errors="replace")) + 1


def read_source(data: bytes, path: str) -> PythonSource:
    """Read the bytes of a source file. CRLF and CR end lines as LF does.

    Raises:
        BuildFailed: It is too large, is not UTF-8, or is no Python.
    """
    text = _decoded(data, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text, filename=path)
    except SyntaxError as error:
        raise _syntax_problem(error, path) from None
    except (RecursionError, MemoryError):
        raise _too_deep(path) from None
    except ValueError as error:
        raise BuildFailed(f"{path}: no Python: {error}") from None
    _check_depth(tree, path)
    return PythonSource(path=path, text=text, tree=tree)


def _decoded(data: bytes, path: str) -> str:
    if len(data) > SOURCE_BYTES_MAX:
        raise BuildFailed(
            "the source is too large",
            location=path,
            expected=f"at most {SOURCE_BYTES_MAX:,} bytes",
            actual=f"{len(data):,}",
            hint="move data out of the program, for example into the input of the flow",
        )
    for mark, encoding in _OTHER_BOMS.items():
        if data.startswith(mark):
            raise _encoding_problem(f"{path}:1:1", f"{encoding} (a byte order mark)")
    _check_coding_comment(data, path)
    if (position := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, position) + 1
        problem = f"a zero byte at byte {position}; UTF-16 without a byte order mark has many"
        raise _encoding_problem(f"{path}:{line}", problem)
    try:
        text = data.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"byte {data[error.start]:#04x} at byte {error.start}"
        raise _encoding_problem(f"{path}:{line}", problem) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _check_coding_comment(data: bytes, path: str) -> None:
    for number, line in enumerate(data.removeprefix(_BOM).splitlines()[:2], 1):
        declared = _CODING.match(line)
        if declared is None:
            continue
        try:
            name, _ = tokenize.detect_encoding(io.BytesIO(line + b"\n").readline)
        except SyntaxError:
            name = declared[1].decode("ascii", "replace")
        if name not in _UTF8_NAMES:
            raise _encoding_problem(f"{path}:{number}", f"a comment that declares {name}")


def _encoding_problem(location: str, actual: str) -> BuildFailed:
    return BuildFailed(
        "the encoding of the source",
        location=location,
        expected="UTF-8",
        actual=actual,
        hint=_SAVE_AS_UTF8,
    )


def _syntax_problem(error: SyntaxError, path: str) -> BuildFailed:
    location = f"{path}:{error.lineno or 1}:{error.offset or 1}"
    hint = None
    if isinstance(error, TabError):
        hint = "indent with spaces only, four for each level"
    elif isinstance(error, IndentationError):
        hint = "lines of one block begin in the same column"
    problem = f"no valid Python: {error.msg}"
    line_text = excerpt((error.text or "").strip(), characters_max=60)
    actual = repr(line_text) if line_text else None
    return BuildFailed(problem, location=location, actual=actual, hint=hint)


def _too_deep(location: str) -> BuildFailed:
    return BuildFailed(
        "expressions or blocks are nested too deeply",
        location=location,
        expected=f"at most {DEPTH_MAX} levels",
        hint="give parts of it a name; a long sum or text is a loop or a join of a list",
    )


def _check_depth(tree: ast.Module, path: str) -> None:
    """Without recursion: the interpreter's parser has the same limit."""
    todo: list[tuple[ast.AST, int]] = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > DEPTH_MAX:
            line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
            raise _too_deep(f"{path}:{line}:{column}")
        todo.extend((child, depth + _is_level(child)) for child in ast.iter_child_nodes(node))


def _is_level(node: ast.AST) -> int:
    return int(isinstance(node, (ast.expr, ast.stmt, ast.excepthandler, ast.match_case)))


def bodies(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node below a node, without recursion, in the order of the file."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(list(ast.iter_child_nodes(node))))
