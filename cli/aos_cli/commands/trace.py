"""``aos trace``: show causes and effects of a record, an intent or a cell (spec/cli.md, C-39)."""

from __future__ import annotations

from typing import Annotated, Final

from aos.errors import BadUsage
from aos.read.operations.trace_reads import READ_TRACE
from aos.read.trace.render import Branch, from_documents, plain
from aos_cli.options import argument
from aos_cli.output import is_terminal, line, print_json, safe, screen
from aos_cli.reading_command import ReadingCall, reading
from aos_cli.styled import Styled

TARGET_WORDS_MAX: Final = 2
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


@reading(READ_TRACE, without=("seq", "intent", "workflow", "key"))
def trace(
    call: ReadingCall,
    *,
    words: Annotated[
        list[str],
        argument(
            "SEQ|INTENT|WORKFLOW KEY",
            "A record number, an intent (its hash or at least 8 of its first digits), or a cell.",
        ),
    ],
) -> None:
    if len(words) > TARGET_WORDS_MAX:
        raise BadUsage("expected SEQ, INTENT or WORKFLOW KEY")
    # A single word is a record, an intent or a workflow without keys: the document finds out.
    target = dict(zip(("workflow", "key"), words, strict=False))
    if call.json:
        print_json(call.document(more=target))
        return
    width = screen().width if is_terminal() else None
    document = call.document(more={**target, "drawn": True, "width": width})
    show_branches(from_documents(document["lines"]))


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
