"""No function is longer than a page, or has more branches than a reader can hold in mind.

The complexity is McCabe's, counted as radon counts it: besides statements that branch, each
``and``/``or``, conditional expression and clause of a comprehension is a branch. Ruff's C901, which
counts statements alone, has the same limit.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).parent.parent
LINES_MAX: Final = 90
COMPLEXITY_MAX: Final = 20

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
ONE_BRANCH: Final = (
    ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert,
    ast.match_case,
)  # fmt: skip


@cache
def functions() -> tuple[tuple[str, Function], ...]:
    """Every function of the product, with its file and line."""
    return tuple(_functions())


def _functions() -> Iterator[tuple[str, Function]]:
    for folder in (ROOT / "kernel" / "aos", ROOT / "cli" / "aos_cli"):
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, Function):
                    yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def lines(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def complexity(function: Function) -> int:
    """Branches plus 1. A function inside counts by itself, and not for the one around it."""
    return 1 + sum(map(branches, inner_nodes(function)))


def branches(node: ast.AST) -> int:
    match node:
        case ast.BoolOp(values=values):
            return len(values) - 1
        case ast.comprehension(ifs=conditions):
            return 1 + len(conditions)
        case _:
            return int(isinstance(node, ONE_BRANCH))


def inner_nodes(function: Function) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def test_no_function_is_longer_than_a_page() -> None:
    too_long = {
        name: lines(function) for name, function in functions() if lines(function) > LINES_MAX
    }

    assert too_long == {}


def test_no_function_has_more_branches_than_a_reader_holds_in_mind() -> None:
    too_complex = {
        name: complexity(function)
        for name, function in functions()
        if complexity(function) > COMPLEXITY_MAX
    }

    assert too_complex == {}


def test_the_linter_has_the_same_limit() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]

    assert "C901" not in settings["ignore"]
    assert settings["mccabe"]["max-complexity"] == COMPLEXITY_MAX


def test_branches_are_counted_wherever_they_are() -> None:
    source = """
def example(numbers):
    if numbers and numbers[0] or not numbers:
        return [number if number else 1 for number in numbers if number]
    def inner():
        if numbers:
            return 1
    try:
        pass
    except ValueError:
        pass
"""
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)

    assert complexity(function) == 1 + 1 + 2 + 1 + 2 + 1
