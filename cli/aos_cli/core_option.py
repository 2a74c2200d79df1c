"""The kernel that a command opens: ``--core``, else ``AOS_CORE``, else the host chooses
(spec/cli.md, C-8b; spec/core.md, CR-33)."""

from __future__ import annotations

from typing import Annotated

import typer

from aos.errors import either
from aos.fastcore.core_kind import CORES, CoreKind, core_of_environment
from aos_cli.options import option


def core_kind(text: str) -> CoreKind:
    """Parse a kernel's name. Raises ``typer.BadParameter``."""
    try:
        return CoreKind(text)
    except ValueError:
        raise typer.BadParameter(f"expected {either(CORES)}, found {text!r}") from None


Core = Annotated[
    CoreKind | None,
    option(
        "|".join(CORES),
        "Kernel that decides, unless a process runs the world already: python, the reference, or "
        "fast, the second kernel (default: AOS_CORE, else the host chooses).",
        "--core",
        parser=core_kind,
    ),
]


def chosen_core(core: CoreKind | None) -> CoreKind | None:
    """The kernel that ``--core`` names, else ``AOS_CORE``; None: the host chooses.

    Raises:
        BadUsage: ``AOS_CORE`` names none.
    """
    return core or core_of_environment()
