"""Draw with rich: colours, tables, trees, bars.

Other modules import this one only if there is a terminal: rich takes longer to import than a small
command takes to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from aos.read.trace.render import Branch
from aos_cli.styled import Styled

SHOWN_AFTER_S: Final = 0.3
"""A bar for work that takes less than this would only flicker."""

Advance = Callable[[int, int], None]


class _Console(Console):
    """A console that does not end the process when its reader closes the stream."""

    def __init__(self, *, is_stderr: bool, on_broken_pipe: Callable[[], None]) -> None:
        super().__init__(stderr=is_stderr, highlight=False)
        self._on_broken_pipe = on_broken_pipe

    def on_broken_pipe(self) -> None:
        self._on_broken_pipe()


class Screen:
    """Draws on stdout or stderr. Callers remove control characters first (``output.safe``)."""

    def __init__(self, *, is_stderr: bool, on_broken_pipe: Callable[[], None]) -> None:
        self._console = _Console(is_stderr=is_stderr, on_broken_pipe=on_broken_pipe)

    @property
    def is_terminal(self) -> bool:
        return self._console.is_terminal

    @property
    def width(self) -> int:
        return self._console.width

    def line(self, text: Styled) -> None:
        """Print one line, never folded or cut."""
        self._console.print(_rich(text), soft_wrap=True)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Styled]],
        *,
        right_aligned: Sequence[str],
    ) -> None:
        drawn = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            is_right = column in right_aligned
            drawn.add_column(
                column, justify="right" if is_right else "left", overflow="fold", no_wrap=is_right
            )
        for row in rows:
            drawn.add_row(*map(_rich, row))
        self._console.print(drawn)

    def fields(self, pairs: Iterable[tuple[str, Styled]]) -> None:
        drawn = Table.grid(padding=(0, 2))
        drawn.add_column(style="bold", no_wrap=True)
        drawn.add_column(overflow="fold")
        for name, value in pairs:
            drawn.add_row(name, _rich(value))
        self._console.print(drawn)

    def entry(self, columns: Sequence[tuple[Styled, int]], text: Styled) -> None:
        drawn = Table.grid(padding=(0, 2), expand=False)
        for _, width in columns:
            drawn.add_column(width=width, no_wrap=True, justify="right" if width < 0 else "left")
        drawn.add_column(overflow="fold")
        drawn.add_row(*(_rich(value) for value, _ in columns), _rich(text))
        self._console.print(drawn)

    def tree(self, root: Branch, label: Callable[[Branch], Styled]) -> None:
        """Draw a tree without recursion, because a trace may be deeper than Python's stack."""
        drawn = Tree(_rich(label(root)), guide_style="dim")
        todo = [(root, drawn)]
        while todo:
            branch, at = todo.pop()
            todo.extend((child, at.add(_rich(label(child)))) for child in branch.children)
        self._console.print(drawn)

    @contextmanager
    def bar(self, label: str) -> Iterator[Advance]:
        """A progress bar, shown once the block has run for ``SHOWN_AFTER_S``."""
        began = monotonic()
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        task = bar.add_task(label, total=None)

        def advance(completed: int, total: int) -> None:
            if not bar.live.is_started and monotonic() - began > SHOWN_AFTER_S:
                bar.start()
            bar.update(task, completed=completed, total=total or None)

        try:
            yield advance
        finally:
            bar.stop()

    @contextmanager
    def status_line(self) -> Iterator[Callable[[str, str], None]]:
        """A live line, redrawn for each (text, style) and removed after the block."""
        with Live(
            console=self._console,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as live:
            yield lambda text, style: live.update(
                Text(text, style=style, no_wrap=True, overflow="ellipsis")
            )


def _rich(text: Styled) -> Text:
    drawn = Text()
    for piece, style in text.pieces:
        drawn.append(piece, style=style)
    return drawn
