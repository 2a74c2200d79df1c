"""The Python that a flow cannot use: PF-30 to PF-33."""

from __future__ import annotations

import pytest

from aos.author.errors import BuildFailed
from aos.author.python.python_program import read_program
from aos.author.python.python_source import read_source
from aos.author.python.unsupported_python import CONSTRUCTS, check_constructs, markdown
from tests.author.fakes import ROOT

REFUSED: dict[str, tuple[str, ...]] = {
    "generators": ("def f():\n    yield 1", "def f():\n    yield from []"),
    "`async for`": ("async def f(x):\n    async for y in x: pass",),
    "comprehensions": ("async def f(x):\n    return [y async for y in x]",),
    "`async with`": ("async def f(x):\n    async with x: pass",),
    "`del`": ("x = 1\ndel x",),
    "`global`": ("def f():\n    global x", "def f():\n    x = 1\n    def g():\n        nonlocal x"),
    "`except*`": ("try:\n    pass\nexcept* ValueError:\n    pass",),
    "base classes": ("class A(B): pass", "class E(Exception): pass", "class A(metaclass=B): pass"),
    "properties": ("class A:\n    @property\n    def x(self): return 1",),
    "the methods": ("class A:\n    def __bool__(self): return False",),
    "statements in a class": (
        "class A:\n    for x in []: pass",
        "class A:\n    class B: pass",
        "class A:\n    a = b = 1",
        "class A:\n    a, b = 1, 2",
        "class A:\n    print(1)",
    ),
    "options of": ("@dataclass(kw_only=True)\nclass A: pass", "@dataclass(**x)\nclass A: pass"),
    "`Literal": ('X = Literal["a"]', "def f(x=Annotated[int, 3]): pass"),
    "built-in exceptions": ('raise ValueError("a", 1)',),
    "the built-in names": ("open('x')", "x = property", "def f(): return eval('1')"),
    "`id()`": ("id(1)", "x = hash('a')"),
    "the text of an instance": (
        "class A: pass\nprint(A())",
        "class A: pass\ndef f():\n    a = A()\n    return f'{a}'",
    ),
    "the order of a set": (
        "for x in {1, 2}: pass",
        "[x for x in {1, 2}]",
        "{x: 1 for x in set(y)}",
        "def f(s: set[int]):\n    for x in s: pass",
        "def f(x):\n    s = set(x) | {1}\n    return list(s)",
        "def f(x):\n    s = {1} & x.union({2})\n    return list(s - {1})",
        "','.join({'a'})",
        "{1}.pop()",
        "a, b = {1, 2}",
        "[*{1, 2}]",
        "f'{ {1, 2} }'",
        "@schema('a/B@1')\nclass B:\n    tags: set[str]\ndef f(b): return list(b.tags)",
        "next(iter({1}))",
    ),
    "the clock": ("datetime.now()", "datetime.datetime.utcnow()", "date.today()"),
    "floats": (
        "async def f(cx): await cx.sleep('x', 1.5)",
        "x = Continue(1.5)",
        "x = Break([float(y)])",
        "async def f(cx): await cx.loop('x', {'a': -1.5}, g)",
        "@effect('a/b@1')\nclass B:\n    x: int\nB(x=0.5)",
    ),
    "an operation": ("async def f(cx): cx.sleep('x', '1s')",),
    "imports": (
        "import os",
        "import os.path",
        "from os import path",
        "import random as math",
        "from math import *",
        "from . import x",
        "from .x import y",
        "from dataclasses import replace",
        "from typing import NamedTuple",
        "from collections.abc import Callable",
        "from __future__ import division",
        "import aos.flow",
        "from aos.worker import effect",
        "import numpy",
        "if TYPE_CHECKING:\n    from numpy import x",
    ),
}
"""The beginning of a title -> sources that use the construct."""

ACCEPTED = (
    "x = sorted({1, 2})",
    "for x in sorted({1, 2}): pass",
    "{y for y in {1, 2}}",
    "sum(y for y in {1, 2})",
    "len({1})",
    "1 in {1}",
    "def f(s: list[int]):\n    for x in s: pass",
    "def f(s):\n    s = s - {1}\n    return list(s)",
    "def f(s: set[int]): pass\ndef g(s: list[int]): return list(s)",
    "class A:\n    def __repr__(self): return 'a'\nprint(A())",
    "@dataclass\nclass A:\n    x: int = 3\nprint(A())",
    "@dataclass(frozen=True)\nclass A:\n    x: Literal['a']\n    y: Annotated[int, 3] = 3",
    "def f(x: Literal['a']) -> Annotated[int, 3]: return 1",
    "def f(help): return help",
    "def open(x): return x\nopen(1)",
    "x = 1.5\ny = round(x * 2.5)",
    "async def f(cx): await cx.sleep('x', '1500ms')",
    "async def f(cx): await cx.step('x', B(round(1.5)))",
    "def f(cx): return cx.sleep('x', '1s')",
    "f = lambda cx: cx.sleep('x', '1s')",
    "if TYPE_CHECKING:\n    from collections.abc import Callable",
    "from datetime import datetime as time",
    "raise ValueError('a') from None",
    "raise Critical('a', 'b')",
    "match x:\n    case {'a': 1}: pass",
    "with x as y: pass",
    "a = b\nb = a\nlist(a)",
    "[x for x in y]",
    "datetime.fromisoformat('2026-01-01')",
)


def refusals(text: str) -> list[str]:
    source = read_source(text.encode(), "flow.py")
    check_constructs(source)
    return list(source.problems.values())


def row(title: str) -> str:
    [construct] = [row for row in CONSTRUCTS if row.title.startswith(title)]
    return construct.title


def test_the_page_has_the_table_that_refuses() -> None:
    """PF-30."""
    page = (ROOT / "spec" / "python-flows.md").read_text("utf-8")

    assert page.endswith(f"{markdown()}\n")


def test_each_row_of_the_table_has_an_example() -> None:
    later = {"`type` statements", "template strings"}  # the syntax of later Pythons

    assert {row(title) for title in REFUSED} == {
        construct.title for construct in CONSTRUCTS
    } - later


@pytest.mark.parametrize(
    ("title", "text"), [(title, text) for title, texts in REFUSED.items() for text in texts]
)
def test_an_unsupported_construct_is_refused_with_line_and_remedy(title: str, text: str) -> None:
    """PF-30 to PF-33."""
    words = row(title).replace("`", "").split(" ")[:2]
    matching = [line for line in refusals(text) if " ".join(words) in line]

    assert matching, refusals(text)
    assert all(line.startswith("flow.py:") and line.endswith(")") for line in matching)


@pytest.mark.parametrize("text", ACCEPTED)
def test_other_python_is_accepted(text: str) -> None:
    assert refusals(text) == []


def test_a_message_has_place_construct_source_and_remedy() -> None:
    """PF-3."""
    head = "flow.py:2:1: not in the Python of flows: "
    order = "the order of a set: iteration, list, join, pop, unpacking, its text"
    [line] = refusals("x = 1\nfor y in {1}: pass")
    assert line == f"{head}{order}: found for y in {{1}}: pass (use sorted(…))"

    other = "imports other than those of the next list"
    remedy = 'use cx.local("NAME", lambda local: local.random(BELOW))'
    [line] = refusals("\nimport random")
    assert line == f"{head}{other}: found import random ({remedy})"


def test_constructs_and_declarations_are_reported_together() -> None:
    with pytest.raises(BuildFailed) as failure:
        read_program(b"import os\nclass A(B): pass\n", "flow.py")

    assert len(str(failure.value).split("\n")) == 3
