"""``aos trace``: show causes and effects of a record, an intent or a cell (spec/cli.md, C-39)."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from aos.read.trace.render import DRAWN_BYTES_MAX, Branch, lines, plain
from aos.read.trace.trace import trace as find_trace
from aos_cli.node_option import NodeUrl
from aos_cli.open_view import looking_at
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import is_terminal, line, print_json, safe, screen
from aos_cli.styled import Styled

_STYLES: Final = {
    "event": "cyan",
    "emitted": "cyan",
    "step": "green",
    "intent": "yellow",
    "receipt": "yellow",
    "case": "bold",
    "left_out": "dim",
    "log": "dim",
}


def trace(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="SEQ|INTENT|WORKFLOW KEY",
            help="A record number, an intent (its hash or at least 8 of its first digits), or a "
            "cell.",
        ),
    ],
    *,
    follow_events: Annotated[
        bool,
        typer.Option(
            "--follow-events",
            help="For a cell: show also what the events that it emitted caused in other cells.",
        ),
    ] = False,
    node: NodeUrl = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    width = screen().width if is_terminal() else None
    if node is not None:
        from aos_cli import node_world  # noqa: PLC0415  # it imports much

        if json:
            print_json(node_world.trace(node, words, follow_events=follow_events))
        else:
            show_branches(
                node_world.drawn_trace(node, words, follow_events=follow_events, width=width)
            )
        return
    with looking_at(world, asks=True, by_index=True) as view:
        if not json:
            view.spell(bytes_max=DRAWN_BYTES_MAX)
        trace = find_trace(view, words, follow_events=follow_events)
    if json:
        print_json(trace.to_document())
        return
    show_branches(lines(trace, width=width))


def show_branches(branches: tuple[Branch, ...]) -> None:
    """Print trees: drawn by rich on a terminal, elsewhere lines with box characters."""
    if not is_terminal():
        for text in plain(branches):
            line(text)
        return
    for branch in branches:
        screen().tree(branch, _label)


def _label(branch: Branch) -> Styled:
    text = safe(branch.text, "red" if branch.is_bad else _STYLES.get(branch.kind))
    if branch.is_target:
        text.append("  ◀", style="bold")
    return text
