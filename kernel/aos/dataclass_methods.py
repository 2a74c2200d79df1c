"""Make dataclasses without compiling text for each method, so that programs start faster (C-12).

Python 3.11 and 3.12 write the methods of a dataclass as text and compile each: that was two fifths
of the processor time in which ``aos run`` starts. Here all but ``__init__`` are closures that do the
same, and ``__init__`` is compiled when the first object of the class is made, which most programs do
of few of their classes. A later Python, which compiles the methods of a class together, keeps its
own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, Final

QUICK_PROGRAM: Final = ("-m", "aos.quick_program")
"""The words for Python before the name of a module, which runs as a program with such classes."""

Method = Callable[..., Any]


@contextmanager
def closures_as_methods() -> Iterator[None]:
    """Make the dataclasses of the block's imports with closures as methods."""
    module = vars(dataclasses)
    replaced = {
        name: module[name]
        for name, (_, parameters) in _MAKERS.items()
        if _parameters_of(module.get(name)) == parameters
    }
    module.update((name, _MAKERS[name][0]) for name in replaced)
    try:
        yield
    finally:
        module.update(replaced)


def _parameters_of(function: object) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount]


def _values_of(names: Sequence[str]) -> Callable[[object], tuple[Any, ...]]:
    """A function that returns the values of these attributes."""
    if not names:
        return lambda _: ()
    value_of = attrgetter(*names)
    return value_of if len(names) > 1 else lambda self: (value_of(self),)


def _make_init(*words: Any) -> Method:
    """An ``__init__`` that compiles the real one, puts it in its own place and calls it."""

    def __init__(self: object, *values: Any, **named: Any) -> None:  # noqa: N807  # the method
        compiled = _original_init(*words)
        compiled.__qualname__ = __init__.__qualname__
        for cls in type(self).__mro__:
            if vars(cls).get("__init__") is __init__:
                type.__setattr__(cls, "__init__", compiled)
        compiled(self, *values, **named)

    return __init__


def _make_repr(fields: Sequence[dataclasses.Field[Any]], _: object) -> Method:
    names = [field.name for field in fields]

    @recursive_repr()
    def __repr__(self: object) -> str:  # noqa: N807  # the method
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return __repr__


def _make_frozen(
    cls: Any, fields: Sequence[dataclasses.Field[Any]], _: object
) -> tuple[Method, Method]:
    names = frozenset(field.name for field in fields)

    def __setattr__(self: object, name: str, value: object) -> None:  # noqa: N807  # the method
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:  # noqa: N807  # the method
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _make_hash(fields: Sequence[dataclasses.Field[Any]], _: object) -> Method:
    values_of = _values_of([field.name for field in fields])

    def __hash__(self: object) -> int:  # noqa: N807  # the method
        return hash(values_of(self))

    return __hash__


def _make_comparison(
    name: str, op: str, self_tuple: str, other_tuple: str, globals: dict[str, Any]
) -> Method:
    """``self_tuple`` is a text such as ``(self.amount,self.unit,)``."""
    if op != "==":
        of_order: Method = _original_comparison(name, op, self_tuple, other_tuple, globals=globals)
        return of_order
    fields = self_tuple.strip("()").split(",")
    values_of = _values_of([field.removeprefix("self.") for field in fields if field])

    def __eq__(self: object, other: object) -> bool:  # noqa: N807  # the method
        if other.__class__ is self.__class__:
            return values_of(self) == values_of(other)
        return NotImplemented

    return __eq__


_original_init: Final[Method] = vars(dataclasses).get("_init_fn", _make_init)
_original_comparison: Final[Method] = vars(dataclasses).get("_cmp_fn", _make_comparison)

_MAKERS: Final[dict[str, tuple[Method, tuple[str, ...]]]] = {
    "_init_fn": (
        _make_init,
        (
            "fields", "std_fields", "kw_only_fields", "frozen", "has_post_init", "self_name",
            "globals", "slots",
        ),
    ),
    "_repr_fn": (_make_repr, ("fields", "globals")),
    "_frozen_get_del_attr": (_make_frozen, ("cls", "fields", "globals")),
    "_hash_fn": (_make_hash, ("fields", "globals")),
    "_cmp_fn": (_make_comparison, ("name", "op", "self_tuple", "other_tuple", "globals")),
}  # fmt: skip
"""The functions of ``dataclasses`` that write a method: ours instead, and the parameters."""
