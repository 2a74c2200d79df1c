"""Nothing is decided by the words of a message that was made for people."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
MESSAGES: Final = frozenset({"message", "text", "problem", "why"})
PARSING: Final = frozenset(
    {"startswith", "endswith", "partition", "rpartition", "split", "rsplit", "find", "index"}
)

ELSEWHERE: Final = {
    # jsonschema names a missing field in its words only.
    ("kernel/aos/manifest/structure.py", "error.message"),
    # Words of a foreign, compiled module: the message of its fault contains its panic.
    ("kernel/aos/testing/problems.py", "fault.message"),
    # The signed text of a checkpoint, which is data.
    ("kernel/aos/prove/headerlog/checkpoint.py", "checkpoint.text"),
    ("kernel/aos/prove/headerlog/checkpoint.py", "note.text"),
    ("kernel/aos/host/checkpoints/checkpointing.py", "extended.note.text"),
    ("kernel/aos/host/checkpoints/checkpointing.py", "note.text"),
    # The core hands back the words of a reader's exception: they tell whether it is that one.
    ("kernel/aos/fastcore/buffer.py", "str(problem)"),
}


def is_message(node: ast.expr) -> bool:
    """``x.message`` and the like, or ``str(error)``."""
    if isinstance(node, ast.Attribute):
        return node.attr in MESSAGES and not (
            isinstance(node.value, ast.Name) and node.value.id == "self"
        )
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("str", "repr")
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id in ("error", "problem", "answer", "refusal", "failure")
    )


def parsed(source: str) -> list[str]:
    """The messages that are searched, cut or compared in a file."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            operators = (ast.In, ast.NotIn, ast.Eq, ast.NotEq)
            if any(isinstance(each, operators) for each in node.ops):
                # ``x.message in known`` and ``part in x.message`` are both decisions by words.
                found += [ast.unparse(each) for each in (node.left, *node.comparators)
                          if is_message(each)]  # fmt: skip
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in PARSING
            and is_message(node.func.value)
        ):
            found.append(ast.unparse(node.func.value))
    return found


@pytest.mark.parametrize(
    "line",
    [
        "'timer_is_not_due' in answer.message",
        "str(error) == 'no room'",
        "refusal.text.startswith('late')",
        "str(problem).partition(': ')",
    ],
)
def test_a_decision_by_a_message_is_found(line: str) -> None:
    assert len(parsed(line)) == 1


def test_no_message_is_searched_cut_or_compared() -> None:
    found = {
        (str(path.relative_to(ROOT)), text)
        for package in ("kernel/aos", "cli/aos_cli", "manifests/gateway/aos_gateway")
        for path in sorted((ROOT / package).rglob("*.py"))
        for text in parsed(path.read_text())
    }

    assert found == ELSEWHERE
