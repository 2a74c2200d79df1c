"""Programs that would use up the stack of a step, if the interpreter had no limits of its own."""

import asyncio
import copy
import functools
import itertools
import json
import re
from dataclasses import dataclass


@dataclass
class Node:
    inner: object


@dataclass(frozen=True)
class Frozen:
    inner: object


class Shown:
    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return repr(self.inner)

    def __eq__(self, other):
        return self.inner == other.inner

    def __hash__(self):
        return hash(self.inner)


def nested(make, count):
    value = make(())
    for _ in range(count):
        value = make(value)
    return value


def a_list(inner):
    return [inner]


def a_tuple(inner):
    return (inner,)


def a_dict(inner):
    return {"a": inner}


def chained(inner):
    return itertools.chain(inner, [1])


def partial(inner):
    return functools.partial(print, inner)


def recursive(number):
    return recursive(number + 1) + 1


def sorting(number):
    return sorted([1, 2], key=lambda value: sorting(number + 1)) or value


def run(source):
    return exec(source)


async def gathered():
    inner = asyncio.gather()
    for _ in range(5_000):
        inner = asyncio.gather(inner)
    return await inner


MAKERS = [a_list, a_tuple, a_dict, Node, Frozen, Shown, partial]

VALUES = {
    "repr": lambda value, other: repr(value),
    "str": lambda value, other: f"{value}",
    "percent": lambda value, other: "%s" % (value,),
    "format": lambda value, other: "{0}".format(value),
    "eq": lambda value, other: value == other,
    "in": lambda value, other: value in [other],
    "hash": lambda value, other: hash(value),
    "less": lambda value, other: value < other,
    "deepcopy": lambda value, other: copy.deepcopy(value),
    "json": lambda value, other: json.dumps(value),
    "isinstance": lambda value, other: isinstance(1, value),
    "set": lambda value, other: {value},
    "max": lambda value, other: max([value, other]),
    "list": lambda value, other: list(value),
}

SOURCES = {
    "plus": "x = 1" + " + 1" * 5_000,
    "parentheses": "x = " + "(" * 5_000 + "1" + ")" * 5_000,
    "tuples": "x = " + "(" * 3_000 + "1" + ",)" * 3_000,
    "lists": "x = " + "[" * 5_000 + "]" * 5_000,
    "dicts": "x = " + "{1: " * 3_000 + "1" + "}" * 3_000,
    "sets": "x = " + "{" * 3_000 + "1" + "}" * 3_000,
    "attributes": "x = a" + ".b" * 5_000,
    "calls": "x = a" + "()" * 5_000,
    "subscripts": "x = a" + "[0]" * 5_000,
    "methods": "x = a" + ".b()" * 3_000,
    "signs": "x = " + "-" * 5_000 + "1",
    "inversions": "x = " + "~" * 5_000 + "1",
    "nots": "x = " + "not " * 5_000 + "1",
    "powers": "x = 1" + " ** 1" * 5_000,
    "ands": "x = 1" + " and 1" * 5_000,
    "alternating": "x = 1" + " and 1 or 1" * 3_000,
    "comparisons": "x = 1" + " < 1" * 5_000,
    "bars": "x = a" + " | a" * 5_000,
    "mixed": "x = 1" + " + 1 * 1 - (1)" * 2_000,
    "lambdas": "x = " + "lambda: " * 3_000 + "1",
    "conditions": "x = " + "1 if 1 else " * 3_000 + "1",
    "awaits": "async def f():\n    x = " + "await " * 3_000 + "1",
    "comprehensions": "x = " + "[1 for a in " * 1_000 + "[]" + "]" * 1_000,
    "loops of a comprehension": "x = [1" + " for a in a" * 3_000 + "]",
    "conditions of a comprehension": "x = [1 for a in a" + " if a" * 3_000 + "]",
    "formats": 'x = f"' + "{1:" * 200 + "}" * 200 + '"',
    "strings in formats": "x = " + "f'{" * 200 + "1" + "}'" * 200,
    "text": "x = 'a'" + " 'a'" * 5_000,
    "functions": "".join(" " * level + "def f():\n" for level in range(500)) + " " * 500 + "pass",
    "classes": "".join(" " * level + "class A:\n" for level in range(500)) + " " * 500 + "pass",
    "ifs": "".join(" " * level + "if 1:\n" for level in range(500)) + " " * 500 + "pass",
    "tries": "".join(" " * level + "try:\n" for level in range(500)) + " " * 500 + "pass",
    "elifs": "if 1:\n    pass\n" + "elif 1:\n    pass\n" * 3_000,
    "withs": "with " + "a, " * 2_000 + "a:\n    pass",
    "targets": "(" * 3_000 + "x" + ",)" * 3_000 + " = 1",
    "assignments": "x = " * 5_000 + "1",
    "starred": "x = " + "[*" * 3_000 + "[]" + "]" * 3_000,
    "patterns": "match 1:\n    case " + "[" * 3_000 + "]" * 3_000 + ":\n        pass",
    "alternatives": "match 1:\n    case 1" + " | 1" * 5_000 + ":\n        pass",
    "complex patterns": "match 1:\n    case 1" + " + 1" * 3_000 + ":\n        pass",
    "walrus": "x = " + "(a := " * 3_000 + "1" + ")" * 3_000,
    "decorators": "@a\n" * 5_000 + "def f():\n    pass",
    "slices": "x = a[" * 3_000 + "1" + "]" * 3_000,
    "annotations": "x: " + "a[" * 3_000 + "a" + "]" * 3_000 + " = 1",
    "arguments": "def f(" + ", ".join(f"a{number}" for number in range(3_000)) + "):\n    pass",
    "del": "del " + "(" * 3_000 + "x" + ")" * 3_000,
}

OTHERS = {
    "recursion": lambda: recursive(0),
    "sorting": lambda: sorting(0),
    "json lists": lambda: json.loads("[" * 100_000),
    "json objects": lambda: json.loads('{"a":' * 100_000),
    "groups": lambda: re.compile("(" * 5_000 + ")" * 5_000),
    "repetitions": lambda: re.compile("(?:" * 500 + "a" + ")*" * 500),
    "alternation": lambda: re.match("(a|b|ab)*c", "ab" * 2_000),
    "lookahead": lambda: re.compile("(?=" * 2_000 + ")" * 2_000),
    "eval": lambda: run("exec('" * 1 + 'exec("exec(1)")' + "')"),
    "chains": lambda: list(nested(chained, 5_000)),
    "partials": lambda: nested(lambda inner: functools.partial(inner or print), 5_000)(),
    "evals": lambda: [eval("repr", {})(nested(a_list, 5_000))],
    "digits": lambda: len(str(7**20_000)),
    "closures": lambda: copy.deepcopy(nested(lambda inner: lambda: inner, 5_000)),
}

CASES = [
    *[
        (
            f"{work} {maker}",
            lambda work=work, make=make: VALUES[work](nested(make, 3_000), nested(make, 3_000)),
        )
        for maker, make in enumerate(MAKERS)
        for work in VALUES
    ],
    *[(name, lambda name=name: run(SOURCES[name])) for name in SOURCES],
    *[(name, OTHERS[name]) for name in OTHERS],
]


def outcome(case):
    try:
        case()
    except RecursionError:
        return "RecursionError"
    except SyntaxError:
        return "SyntaxError"
    except Exception as error:
        return "Exception"
    return "ended"
