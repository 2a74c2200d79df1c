"""Attributes that CPython has and the interpreter of flows lacks (PF-34), with the remedy of each.

``tests/flow/test_lacking_attributes.py`` compares the tables with the interpreter.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from aos.author.python.interpreter_modules import LACKING_NAMES, MODULES, REMEDIES, UNLISTED
from aos.author.python.own_names import BUILTIN_TYPES, IMPORTED_TYPES
from aos.author.python.set_order import NameTypes

_MATCH: Final = "use group, start, end and the text that was searched"
_ERROR: Final = "use str(error)"
_EPOCH: Final = "datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)"

LACKING_ATTRIBUTES: Final[Mapping[str, str]] = {
    "add_note": "put it into the text of the exception",
    "bit_count": 'f"{abs(number):b}".count("1")',
    "bit_length": 'len(f"{abs(number):b}".lstrip("0"))',
    "colno": _ERROR,
    "ctime": "use strftime",
    "denominator": "the denominator of an int is 1",
    "difference_update": "values = values - others, or discard each item",
    "doc": _ERROR,
    "encoding": _ERROR,
    "endpos": _MATCH,
    "expand": _MATCH,
    "format_map": "text.format(**fields)",
    "from_bytes": 'int(data.hex() or "0", 16), of data[::-1] for little endian',
    "fromisocalendar": "add a timedelta to date(year, 1, 4), which is in week 1",
    "fromordinal": "date.min + timedelta(days=ordinal - 1)",
    "fromtimestamp": _EPOCH,
    "fromutc": "use astimezone",
    "groupindex": "use groupdict of a match",
    "intersection_update": "values = values & others, or discard each other item",
    "is_integer": "number % 1 == 0",
    "isocalendar": 'day.strftime("%G %V %u")',
    "lastgroup": _MATCH,
    "lastindex": _MATCH,
    "lineno": _ERROR,
    "maketrans": 'a dict, and "".join(table.get(char, char) for char in text)',
    "mapping": "use the dict itself",
    "msg": _ERROR,
    "numerator": "the numerator of an int is the int",
    "object": _ERROR,
    "pos": _MATCH,
    "re": "keep the pattern in a variable",
    "reason": _ERROR,
    "regs": _MATCH,
    "scanner": "use finditer",
    "stop": "keep the end of the range in a variable",
    "subn": "use sub, and len(pattern.findall(text)) for the count",
    "symmetric_difference_update": "values = values ^ others",
    "timetuple": "use the fields year, month, day, hour, minute, second and weekday()",
    "to_bytes": 'bytes.fromhex(f"{number:0{2 * length}x}"), big endian for number >= 0',
    "toordinal": "(day - date.min).days + 1",
    "translate": '"".join(table.get(char, char) for char in text), or replace',
    "utcfromtimestamp": _EPOCH,
    "utctimetuple": "use the fields year, month, day, hour, minute, second and weekday()",
    "with_traceback": "raise the exception as it is",
    "__cause__": "keep the first exception in a variable",
    "__code__": "a function shows nothing of itself",
    "__context__": "keep the first exception in a variable",
    "__dict__": "name the fields one by one",
    "__len__": "len(values)",
    "__qualname__": "write the name as a text",
    "__traceback__": "raise the exception as it is",
}
"""Attribute that no built-in value, type or module of the interpreter has -> the remedy."""

TYPE_ATTRIBUTES: Final[Mapping[str, str]] = {
    "bytes": "fromhex",
    "dict": "fromkeys",
    "Counter": "fromkeys",
    "defaultdict": "fromkeys",
    "date": "fromisoformat today max min resolution",
    "datetime": "combine fromisoformat now strptime max min resolution",
    "time": "fromisoformat max min resolution",
    "timedelta": "max min resolution",
    "timezone": "max min utc",
    "Decimal": "from_float",
}
"""Built-in type -> its attributes; of another value they are not."""

CONSTANTS: Final = ("max", "min", "resolution", "utc")
"""Attributes of types that are no methods."""

_CALLED_NAMES: Final = """
    add adjusted append appendleft as_integer_ratio as_tuple astimezone canonical capitalize
    casefold center clear compare compare_signal compare_total compare_total_mag conjugate copy
    copy_abs copy_negate copy_sign count date decode difference digest discard dst elements encode
    end endswith exp expandtabs extend extendleft find findall finditer fma format fromhex fromkeys
    fullmatch get group groupdict groups hex hexdigest index insert intersection is_canonical
    is_finite is_infinite is_nan is_normal is_qnan is_signed is_snan is_subnormal is_zero isalnum
    isalpha isascii isdecimal isdigit isdisjoint isidentifier islower isnumeric isoformat isoweekday
    isprintable isspace issubset issuperset istitle isupper items join keys ljust ln log10 logb
    logical_and logical_invert logical_or logical_xor lower lstrip match max_mag min_mag most_common
    next_minus next_plus next_toward normalize number_class partition pop popitem popleft quantize
    radix remainder_near remove removeprefix removesuffix replace reverse rfind rindex rjust rotate
    rpartition rsplit rstrip same_quantum scaleb search setdefault shift sort span split splitlines
    sqrt start startswith strftime strip sub subtract swapcase symmetric_difference time timestamp
    timetz title to_eng_string to_integral to_integral_exact to_integral_value total total_seconds
    tzname union update upper utcoffset values weekday zfill
"""
CALLED: Final = frozenset(_CALLED_NAMES.split())
"""Methods of built-in values, which the interpreter has in calls alone."""

TYPES: Final = (*BUILTIN_TYPES, *(name for names in IMPORTED_TYPES.values() for name in names))


def is_lacking_attribute(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node reads an attribute that no built-in value has, and nothing of the file."""
    return (
        _is_read(node, types)
        and isinstance(node, ast.Attribute)
        and node.attr in LACKING_ATTRIBUTES
        and not types.own.defines(node.attr)
        and types.own.module_of(node.value) is None
    )


def is_method_of_type(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node is a method by the name of its type, such as ``str.lower``."""
    if not _is_read(node, types) or not isinstance(node, ast.Attribute):
        return False
    kind = types.own.type_of(node.value)
    if kind is None or node.attr.startswith("__") or is_lacking_attribute(node, types):
        return False
    has = node.attr in TYPE_ATTRIBUTES.get(kind, "").split()
    return not has or (node.attr not in CONSTANTS and not _is_called(node, types))


def is_method_without_call(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node is a method of a built-in value that is not called, such as ``out.append``."""
    return (
        _is_read(node, types)
        and isinstance(node, ast.Attribute)
        and node.attr in CALLED
        and not _is_called(node, types)
        and not types.own.defines(node.attr)
        and types.own.module_of(node.value) is None
        and types.own.type_of(node.value) is None
        and not (isinstance(node.value, ast.Name) and node.value.id.startswith("cx"))
    )


def is_lacking_of_module(node: ast.AST, types: NameTypes) -> bool:
    """Whether a node is a name that the interpreter's module lacks, such as ``re.subn``."""
    if not _is_read(node, types) or not isinstance(node, ast.Attribute):
        return False
    module = types.own.module_of(node.value)
    if module is None or module not in MODULES:
        return False
    names = MODULES[module]
    if names is None:
        return node.attr in LACKING_NAMES.get(module, "").split()
    return not node.attr.startswith("__") and node.attr not in (
        *names.split(), *UNLISTED.get(module, "").split(),
    )  # fmt: skip


def attribute_remedy(node: ast.AST, types: NameTypes) -> str | None:
    """The remedy for an attribute that is refused; None for any other node."""
    if not isinstance(node, ast.Attribute):
        return None
    if is_lacking_attribute(node, types):
        return LACKING_ATTRIBUTES[node.attr]
    if is_lacking_of_module(node, types):
        module = types.own.module_of(node.value)
        return REMEDIES.get(f"{module}.{node.attr}", REMEDIES.get(node.attr))
    if is_method_of_type(node, types):
        kind = types.own.type_of(node.value) or ""
        if node.attr in TYPE_ATTRIBUTES.get(kind, "").split():
            return f"lambda value: {ast.unparse(node)}(value)"
        is_called = _is_called(node, types)
        return f"{'' if is_called else 'lambda value: '}value.{node.attr}({'…' * is_called})"
    if is_method_without_call(node, types):
        return f"lambda value: {ast.unparse(node)}(value)"
    return None


def _is_read(node: ast.AST, types: NameTypes) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and not types.is_in_annotation(node)
    )


def _is_called(node: ast.AST, types: NameTypes) -> bool:
    parent = types.parents.get(node)
    return isinstance(parent, ast.Call) and parent.func is node
