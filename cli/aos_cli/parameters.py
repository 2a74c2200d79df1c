"""Read texts, paths and parsed numbers without pydantic, which Typer would import for them.

Pydantic takes longer to import than a small command takes to run. A parameter of any other type,
such as an ``Enum`` or a number with bounds, is left to Typer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import typer

_MAKERS: Final[dict[Any, Callable[[Any], Any]]] = {
    str: str,
    Path: Path,
    bool: bool,
    list[str]: str,
    list[Path]: Path,
}


class _Reader:
    """Makes the value of one parameter; Typer calls it."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        is_many = param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        try:
            return [self._make(element) for element in value] if is_many else self._make(value)
        except typer.BadParameter as problem:
            raise typer.BadParameter(problem.message, ctx=ctx, param=param) from problem


def read_without_pydantic(parameters: list[Any]) -> list[Any]:
    """Give each parameter of a simple type a ``_Reader``; returns the same list."""
    for parameter in parameters:
        descriptor = parameter.type_descriptor
        make = descriptor.parameter_info.parser or _MAKERS.get(descriptor.annotation)
        if make is not None:
            parameter._runtime_param = _Reader(make)  # noqa: SLF001  # Typer uses its own if this is None
    return parameters
