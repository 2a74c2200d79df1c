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
    "the attributes": (
        "def f(n): return n.bit_length()",
        "int.from_bytes(b'a', 'big')",
        "str.maketrans('a', 'b')",
        "date.fromtimestamp(1)",
        "def f(error): return error.__cause__",
    ),
    "methods by": (
        "sorted([], key=str.lower)",
        "str.lower('A')",
        "from datetime import date as day\nmap(day.isoformat, [])",
        "import datetime\nmap(datetime.date.fromisoformat, [])",
        "map(dict.fromkeys, [])",
        "float.fromhex('0x1')",
        "from datetime import date\ndate(2024, 1, 1)\ndate.year",
    ),
    "methods of": (
        "out = []\nappend = out.append",
        "def f(counts): return sorted(counts, key=counts.get)",
        "map('a b'.count, 'ab')",
        "import re\nfilter(re.compile('a').match, [])",
    ),
    "names of modules": (
        "import re\nre.subn('a', 'b', 'c')",
        "import re as patterns\npatterns.compile('a', patterns.X)",
        "import datetime\ndatetime.UTC",
        "import collections\ncollections.OrderedDict()",
        "import functools\nfunctools.cmp_to_key(1)",
    ),
    "`bytes(…)`": (
        "bytes([1])",
        "bytes(v for v in [1])",
        "bytes(range(3))",
        "bytes(reversed(b'ab'))",
        "def f(numbers: list[int]): return bytes(numbers)",
        "def f():\n    numbers = [1]\n    return bytes(numbers)",
    ),
    "`next(…)`": (
        "next(v for v in [])",
        "next((v for v in [] if v), None)",
        "def f(x):\n    pairs = zip(x, x)\n    return next(pairs)",
    ),
    "several arguments": (
        "def f(a, b, c): return a.union(b, c)",
        "def f(x): return set().union(*x)",
    ),
    "operators with": (
        "def f(seen: set[int]): seen |= {1}",
        "def f():\n    a = {1}\n    b = a\n    a -= {1}\n    return len(b)",
    ),
    "`+=` of": ("x = [1]\nx += (2,)", "def f(x: list[int]): x += range(3)"),
    "a function": (
        "import re\nre.sub('a', lambda match: match[0], 'b')",
        "from re import sub\ndef f(match): return 'a'\nsub('a', f, 'b')",
        "def f(pattern): return pattern.sub(lambda match: 'a', 'b')",
    ),
    "a position": ("def f(pattern): return pattern.match('ab', 1)",),
    "the options": (
        "import json\njson.dumps([], default=str)",
        "from json import loads\nloads('1', object_hook=dict)",
    ),
    "floats in a": ("from datetime import timedelta\ntimedelta(seconds=-1.5)",),
    "the encodings": ("'a'.encode('latin-1')", "b'a'.decode(encoding='ISO_8859-1')"),
    "`id()`": ("id(1)", "x = hash('a')"),
    "the text of an instance": (
        "class A: pass\nprint(A())",
        "class A:\n    def __str__(self): return 'a'\nprint(repr(A()))",
        "class A:\n    def __str__(self): return 'a'\nprint(f'{A()!r}')",
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
    "floats in values": (
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
        "from re import subn",
        "from unicodedata import digit",
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
    "class A:\n    def __str__(self): return 'a'\nprint(A(), str(A()), f'{A()}')",
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
    "@dataclass\nclass A:\n    pos: int\n    title: str\ndef f(a): return a.pos, a.title",
    "class A:\n    def get(self): return 1\ndef f(a): return map(a.get, [])",
    "class A:\n    def __init__(self): self.translate = 1\nA().translate",
    "P = namedtuple('P', 'stop, count')\ndef f(p): return p.stop + p.count",
    "P = namedtuple('P', ['stop', 'count'])\ndef f(p): return p.stop + p.count",
    "def f(a, name): setattr(a, name, 1)\ndef g(a): return a.stop",
    "def f(a):\n    a.stop = 1\n    return a.stop",
    "import math\nmap(math.gcd, [], [])",
    "import copy, itertools\nf = copy.copy\ng = itertools.count",
    "import datetime\ndatetime.date(2024, 1, 1).isoformat()\nx: datetime.tzinfo = 1",
    "from datetime import date, datetime\nx = date.max, date.min, datetime.strptime('a', 'b')",
    "dict.fromkeys('a')\nbytes.fromhex('00')\nstr.__name__",
    "def f(str): return str.lower()",
    "class str:\n    def lower(self): return 1\nstr.lower(str())",
    "import typing\ndef f(x: typing.Sequence[int]) -> typing.Deque: return typing.Iterable",
    "bytes(3)\nbytes(b'a')\nbytes('a', 'utf-8')\ndef f(x): return bytes(x)",
    "def f(bytes): return bytes([1])",
    "next(iter([1]), None)\ndef f(x): return next(x)",
    "def next(x): return 1\nnext(v for v in [])",
    "def f(a, b): return a.union(b), {1}.union(b), a.update(b)",
    "def f():\n    a = {1}\n    a |= {2}\n    return len(a)",
    "def f(a: int, b: list[int]):\n    a |= 1\n    b += [1]\n    b += b\n    b *= 2",
    "import re\nre.sub('a', 'b', 'c')\nre.match('a', 'b', re.I)\nre.compile('a').sub('b', 'c')",
    "from re import match\nmatch('a', 'b')\nmatch('a', 'b', 2)",
    "import json\njson.dumps([], indent=1, sort_keys=True)\njson.loads('1', parse_float=str)",
    "from datetime import timedelta\ntimedelta(seconds=1)",
    "'a'.encode('ascii')\nb'a'.decode('utf-8', 'replace')",
    "async def f(cx): await cx.join('a', x)",
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


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("def f(n): return n.bit_length()", 'len(f"{abs(number):b}".lstrip("0"))'),
        ("map(str.lower, [])", "lambda value: value.lower()"),
        ("str.lower('A')", "value.lower(…)"),
        ("map(bytes.fromhex, [])", "lambda value: bytes.fromhex(value)"),
        ("out = []\nout.append", "lambda value: out.append(value)"),
        ("import re\nre.X", "begin the pattern with (?x)"),
        ("from re import X", "begin the pattern with (?x)"),
        ("import dataclasses\ndataclasses.replace(1)", "call the class with all fields"),
    ],
)
def test_the_remedy_is_that_of_the_attribute(text: str, remedy: str) -> None:
    """PF-34."""
    [line] = refusals(text)

    assert line.endswith(f"({remedy})")


def test_constructs_and_declarations_are_reported_together() -> None:
    with pytest.raises(BuildFailed) as failure:
        read_program(b"import os\nclass A(B): pass\n", "flow.py")

    assert len(str(failure.value).split("\n")) == 3
