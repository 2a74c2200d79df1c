"""A path in a tree, ``src/lib.rs`` -> its names, or ``path_invalid`` (AG-53a)."""

from __future__ import annotations

from typing import Final, TypeAlias

from aos.effects.workspace.tree_errors import PATH_INVALID
from aos.worker import EffectFailed

Names: TypeAlias = tuple[str, ...]
"""The names of a path, from the root's child on. Empty for the root itself."""

PATH_BYTES_MAX: Final = 4_096
NAME_BYTES_MAX: Final = 255
DEPTH_MAX: Final = 64
"""Names in a path."""


def names_of(path: str | None) -> Names:
    """Split a path of the params into its names. None is the root.

    Raises:
        EffectFailed: ``path_invalid``.
    """
    if path is None:
        return ()
    names = tuple(path.split("/"))
    problem = _path_problem(path, names)
    if problem is not None:
        raise EffectFailed(
            PATH_INVALID,
            f"path {path[:80]!r}: {problem} (a path has names joined by /, such as src/lib.rs)",
        )
    return names


def path_of(names: Names) -> str:
    """The inverse of ``names_of``; empty for the root."""
    return "/".join(names)


def name_problem(name: str) -> str | None:
    """Return why this cannot be the name of an entry; None if it can."""
    if name in ("", ".", ".."):
        return f"{name!r} is no name"
    if any(bad in name for bad in "/\\\0"):
        return "a name has no slash, backslash or NUL"
    size = len(name.encode())
    return None if size <= NAME_BYTES_MAX else _too_long("a name", NAME_BYTES_MAX, size, "bytes")


def _path_problem(path: str, names: Names) -> str | None:
    if path.startswith("/"):
        return "it is absolute"
    size = len(path.encode())
    if size > PATH_BYTES_MAX:
        return _too_long("a path", PATH_BYTES_MAX, size, "bytes")
    if len(names) > DEPTH_MAX:
        return _too_long("a path", DEPTH_MAX, len(names), "names")
    return next((problem for name in names if (problem := name_problem(name)) is not None), None)


def _too_long(subject: str, limit: int, actual: int, unit: str) -> str:
    return f"{subject} has at most {limit:,} {unit}, this one {actual:,}"
