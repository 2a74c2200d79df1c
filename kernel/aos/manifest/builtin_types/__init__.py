"""A short notation for type expressions, in the tables of built-in schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from aos.manifest.names import SYSTEM

Type: TypeAlias = Mapping[str, Any]

BOOL: Final[Type] = {"bool": {}}
INT: Final[Type] = {"int": {}}
NAT: Final[Type] = {"nat": {}}
DEC128: Final[Type] = {"dec128": {}}
BYTES: Final[Type] = {"bytes": {}}
TEXT: Final[Type] = {"text": {}}
TIME: Final[Type] = {"time": {}}
HASH: Final[Type] = {"hash": {}}
UUID: Final[Type] = {"uuid": {}}
UNIT: Final[Type] = {"unit": {}}


def option(item_type: Type) -> Type:
    return {"option": item_type}


def list_of(item_type: Type) -> Type:
    return {"list": item_type}


def set_of(item_type: Type) -> Type:
    return {"set": item_type}


def map_of(value: Type, *, key: Type = TEXT) -> Type:
    return {"map": {"key": key, "value": value}}


def record(**fields: Type) -> Type:
    return {"record": fields}


def variant(arms: Mapping[str, Type]) -> Type:
    return {"variant": arms}


def ref(short: str) -> Type:
    """A reference to a built-in schema: ``SecretRef``, or ``WorkspaceTree@2`` for another version
    than the first."""
    return {"ref": full_name(short)}


def full_name(short: str) -> str:
    """``SecretRef`` -> ``sys/SecretRef@1``; ``WorkspaceTree@2`` -> ``sys/WorkspaceTree@2``."""
    return f"{SYSTEM}{short}" if "@" in short else f"{SYSTEM}{short}@1"
