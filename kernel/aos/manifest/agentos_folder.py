"""Folders of AgentOS: names with a suffix behind the version, and module files named by their
SHA-256 (spec/agentos.md, AG-42, AG-43)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

_SUFFIXED: Final = re.compile(
    r"([a-z][a-z0-9._-]*/[A-Za-z][A-Za-z0-9._-]*)@([1-9][0-9]*)([._-][A-Za-z0-9._-]*)"
)
_HASHED: Final = re.compile(r"modules/([^/]+/[^/]+)-([0-9a-f]{64})\.wasm")


def in_our_spelling(node: Any) -> Any:
    """The node with each name such as ``ns/Name@2_wasm`` spelled ``ns/Name_wasm@2``."""
    if isinstance(node, str):
        match = _SUFFIXED.fullmatch(node)
        return f"{match[1]}{match[3]}@{match[2]}" if match else node
    if isinstance(node, list):
        return [in_our_spelling(element) for element in node]
    if isinstance(node, dict):
        return {key: in_our_spelling(value) for key, value in node.items()}
    return node


def hashed_files(name: str, files: Iterable[str]) -> Iterator[str]:
    """Those of ``files`` that are ``modules/<ns>/<name>@<v>-<sha256>.wasm`` of a module."""
    for file in sorted(files):
        match = _HASHED.fullmatch(file)
        if match is not None and match[1] == name:
            yield file


def wrong_sha256(file: str, data: bytes) -> str | None:
    """The SHA-256 of ``data`` if the name of its file has another one."""
    match = _HASHED.fullmatch(file)
    actual = hashlib.sha256(data).hexdigest()
    return None if match is None or match[2] == actual else actual
