"""The codes with which the effects on trees end (AG-53a). None of them is retryable."""

from __future__ import annotations

from typing import Final

from aos.worker import EffectFailed

PATH_INVALID: Final = "path_invalid"
NOT_FOUND: Final = "not_found"
IS_A_DIRECTORY: Final = "is_a_directory"
NOT_A_DIRECTORY: Final = "not_a_directory"
NOT_EMPTY: Final = "not_empty"
NODE_INVALID: Final = "node_invalid"
RANGE_INVALID: Final = "range_invalid"
SCOPE_INVALID: Final = "scope_invalid"
NO_NAME: Final = "no_name"
TOO_LARGE: Final = "too_large"


def not_found(path: str) -> EffectFailed:
    return EffectFailed(NOT_FOUND, f"{path:.200}: this tree has nothing at this path")


def is_a_directory(path: str) -> EffectFailed:
    return EffectFailed(IS_A_DIRECTORY, f"{path:.200}: expected a file, found a folder")


def not_a_directory(path: str) -> EffectFailed:
    return EffectFailed(NOT_A_DIRECTORY, f"{path:.200}: expected a folder, found a file")


def too_large(subject: str, *, limit: int, actual: int, hint: str = "") -> EffectFailed:
    message = f"{subject}: expected at most {limit:,}, found {actual:,}"
    return EffectFailed(TOO_LARGE, f"{message} ({hint})" if hint else message)
