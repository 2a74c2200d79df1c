"""Ask the interpreter which attributes its built-in values, types and modules have."""

from __future__ import annotations

import base64
import binascii
import bisect
import collections
import copy
import dataclasses
import datetime  # noqa: ICN001
import decimal
import functools
import hashlib
import itertools
import json
import math
import re
import typing
import unicodedata
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final, Literal

from aos.sandbox.stack import run_on_big_stack
from aos.testing.world import World
from tests.flow.python_flow import built

State = Literal["lacking", "called", "value"]
"""Not there; there in a call alone, such as ``text.upper()``; there as a value as well."""

MODULES: Final[tuple[ModuleType, ...]] = (
    base64, binascii, bisect, collections, copy, dataclasses, datetime, decimal, functools,
    hashlib, itertools, json, math, re, typing, unicodedata,
)  # fmt: skip

TYPES: Final[tuple[type, ...]] = (
    int, str, bytes, bool, float, list, dict, set, frozenset, tuple, range, datetime.date,
    datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone, decimal.Decimal,
    collections.Counter, collections.deque, collections.defaultdict,
)  # fmt: skip

VALUES: Final = {
    "int": "7", "str": "'a'", "bytes": "b'a'", "bool": "True", "float": "1.5", "list": "[1]",
    "dict": "{'a': 1}", "set": "{1}", "frozenset": "frozenset([1])", "tuple": "(1,)",
    "range": "range(3)", "date": "datetime.date(2024, 1, 2)",
    "datetime": "datetime.datetime(2024, 1, 2)", "time": "datetime.time(1, 2)",
    "timedelta": "datetime.timedelta(1)", "timezone": "datetime.timezone.utc",
    "Decimal": "decimal.Decimal(1)", "Counter": "collections.Counter('a')",
    "deque": "collections.deque([1])", "defaultdict": "collections.defaultdict(int)",
    "Pattern": "re.compile('a')", "Match": "re.match('a', 'a')", "hash": "hashlib.md5(b'')",
    "exception": "ValueError('x')", "function": "state", "class": "Start",
    "instance": "Start('a')", "JSONDecodeError": "caught(lambda: json.loads('x'))",
    "PatternError": "caught(lambda: re.compile('('))",
    "UnicodeDecodeError": "caught(lambda: b'\\xff'.decode())",
    "StopIteration": "caught(lambda: next(iter([])))", "KeyError": "caught(lambda: {}[1])",
    "Context": "decimal.getcontext()", "DecimalTuple": "decimal.Decimal(1).as_tuple()",
    "partial": "functools.partial(state)", "chain": "itertools.chain()", "items": "{}.items()",
    "namedtuple": "collections.namedtuple('Pair', 'left right')(1, 2)",
}  # fmt: skip
"""Name of a type -> an expression of it."""

_NAMESPACE: Final = {module.__name__: module for module in MODULES}


@dataclasses.dataclass
class Start:
    id: str


def caught(action: Callable[[], object]) -> Exception:
    try:
        action()
    except Exception as problem:  # noqa: BLE001
        return problem
    raise ValueError("an action without an exception")


_NAMES: Final = {"state": caught, "Start": Start, "caught": caught}
"""Under CPython, the names that the expressions use."""

_READER: Final = f"""
import {", ".join(_NAMESPACE)}
from aos.flow import Cx, flow, schema


@schema("t/Start@1")
class Start:
    id: str


@flow("t/run@1", key="id")
async def run(cx: Cx, start: Start) -> list[str]:
    return [state(*probe) for probe in PROBES]
"""

_HIDDEN: Final = """

def caught(action):
    try:
        action()
    except Exception as problem:
        return problem


def is_lacking(action, name):
    try:
        action()
    except AttributeError as problem:
        return f"'{name}'" in str(problem)
    except Exception:
        return False
    return False


def state(name, read, call):
    if not is_lacking(read, name):
        return "value"
    return "lacking" if is_lacking(call, name) else "called"

"""


def expressions() -> dict[str, str]:
    """Title -> expression: ``int value``, ``int type`` or ``math module``."""
    types = {
        f"{kind.__name__} type": kind.__name__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__name__}"
        for kind in TYPES
    }
    values = {f"{name} value": text for name, text in VALUES.items()}
    return {**types, **values, **{f"{name} module": name for name in _NAMESPACE}}


def names_under_cpython(expression: str) -> list[str]:
    """Its public attributes in this Python, without modules that it imports."""
    value = eval(expression, {**_NAMESPACE, **_NAMES})  # our own text
    names = [name for name in dir(value) if not name.startswith("_")]
    return [name for name in names if not isinstance(getattr(value, name, None), ModuleType)]


def states(wanted: Callable[[str], Iterable[str]]) -> dict[tuple[str, str], State]:
    """(title, attribute) -> state, for the attributes that ``wanted`` has for an expression."""
    keys, probes = [], []
    for title, expression in expressions().items():
        for name in wanted(expression):
            keys.append((title, name))
            read = f"({expression}).{name}"
            probes.append(f'    ("{name}", lambda: {read}, lambda: {read}()),')
    hidden = "\n".join([_HIDDEN, "PROBES = [", *probes, "]\n"])

    return dict(zip(keys, output_with(hidden), strict=True))


def output_with(hidden: str) -> Any:
    """The output of a flow in a world, from ``state(*probe)`` for each of ``PROBES``. The code is
    hidden from the reader."""

    def output() -> Any:
        nodes, modules = built(_READER, hidden=hidden)
        with World(nodes, modules=modules) as world:
            world.send("t/Start@1", {"id": "one"})
            world.run()
            flow = world.flow("t/run@1", "one")
            assert flow is not None
            return flow.output

    return run_on_big_stack(output)
