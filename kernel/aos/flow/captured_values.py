"""Copies of functions with copies of the values that they capture."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

from aos.flow.flow_context import Cx


def isolated(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose changes of captured values are lost, as in the interpreter: a body
    that has ended is not run again (spec/python-flows.md, PF-43)."""
    copied: Callable[..., Any] = _copied(function, {})
    return copied


def _copied(value: object, copies: dict[int, Any]) -> Any:
    if isinstance(value, Cx):
        return value
    if not isinstance(value, FunctionType):
        return copy.deepcopy(value, copies)
    if id(value) in copies:
        return copies[id(value)]
    cells = tuple(CellType() for _ in value.__closure__ or ())
    duplicate = FunctionType(
        value.__code__, value.__globals__, value.__name__, value.__defaults__, cells or None
    )
    duplicate.__kwdefaults__ = value.__kwdefaults__
    copies[id(value)] = duplicate  # before its cells: a function may capture itself
    for cell, original in zip(cells, value.__closure__ or (), strict=True):
        try:
            cell.cell_contents = _copied(original.cell_contents, copies)
        except ValueError:  # the variable has no value yet
            continue
    if value.__defaults__:
        duplicate.__defaults__ = tuple(_copied(default, copies) for default in value.__defaults__)
    return duplicate
