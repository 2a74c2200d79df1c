"""Compile the methods of dataclasses when they are first called, so that programs start faster
(C-12).

Python 3.11 and 3.12 write each method of a dataclass as text and compile it: that was two fifths of
the processor time in which ``aos run`` starts. Most programs call few of these methods. A later
Python, which compiles the methods of a class together, keeps its own way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

QUICK_PROGRAM: Final = ("-m", "aos.quick_program")
"""The words for Python before the name of a module, which runs as a program with such classes."""

_Method = Callable[..., Any]

_MAKERS: Final = {
    "_init_fn": (
        "fields", "std_fields", "kw_only_fields", "frozen", "has_post_init", "self_name", "globals",
        "slots",
    ),
    "_repr_fn": ("fields", "globals"),
    "_hash_fn": ("fields", "globals"),
    "_cmp_fn": ("name", "op", "self_tuple", "other_tuple", "globals"),
    "_frozen_get_del_attr": ("cls", "fields", "globals"),
}  # fmt: skip
"""The functions of ``dataclasses`` that compile a method, or a pair of methods, and their
parameters. One with other parameters is left alone."""


PACKAGES: Final = frozenset({"aos", "aos_cli", "aos_gateway"})
"""Ours. Classes of users are made as ever: one may read the signature of its ``__init__``."""


@contextmanager
def late_methods(packages: Collection[str] = PACKAGES) -> Iterator[None]:
    """Let the dataclasses of these packages that are made in the block compile each method at its
    first call."""
    module = vars(dataclasses)
    makers = {
        name: module[name]
        for name, parameters in _MAKERS.items()
        if _parameters_of(module.get(name)) == parameters
    }
    module.update((name, _late_maker(name, maker, packages)) for name, maker in makers.items())
    try:
        yield
    finally:
        module.update(makers)


def _parameters_of(function: object) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount]


def _late_maker(name: str, maker: _Method, packages: Collection[str]) -> _Method:
    """A function as ``maker``, whose methods call it when they are first called."""

    def make(*words: Any, **named: Any) -> Any:
        def compiled() -> Any:
            return maker(*words, **named)

        module = dict(zip(_MAKERS[name], words, strict=False), **named)["globals"]
        if module.get("__name__", "").partition(".")[0] not in packages:
            return compiled()

        if name == "_frozen_get_del_attr":
            return (
                _late("__setattr__", lambda: compiled()[0]),
                _late("__delattr__", lambda: compiled()[1]),
            )
        return _late(words[0] if name == "_cmp_fn" else f"__{name[1:-3]}__", compiled)

    return make


def _late(name: str, make: Callable[[], _Method]) -> _Method:
    """A method that makes the real one, puts it in its own place and calls it."""

    def method(self: object, *values: Any, **named: Any) -> Any:
        real = make()
        real.__qualname__ = method.__qualname__
        for cls in type(self).__mro__:
            if vars(cls).get(name) is method:
                type.__setattr__(cls, name, real)
        return real(self, *values, **named)

    method.__name__ = name
    return method
