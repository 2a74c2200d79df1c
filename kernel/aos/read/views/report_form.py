"""A shadow report as a JSON document, and whether it has the form of SH-50.

The kernel checks only the head of a report that is journaled, so the rest may be anything that a
principal has signed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aos.core.journal.shadow_report import ReportInvalid, read_report_head
from aos.values.cbor import decode_record
from aos.values.digests import HASH_BYTES, Hash, content_hash, hash_text

Fields: TypeAlias = dict[Any, Any]
"""A map of a report."""

_BYTES: Final = ("world", "base", "document", "frame", "answers")
"""Fields that are hashes; all others are as in JSON."""


@dataclass(frozen=True, slots=True)
class _MapOf:
    """A map of texts to values of one form."""

    form: object


@dataclass(frozen=True, slots=True)
class _Option:
    """A value of this form, or null."""

    form: object


_ANY: Final = object
"""Every JSON value."""

_CELL: Final = {"workflow": str, "key": _ANY}
_SIDE: Final = _Option({"status": str, "state": _ANY, "fault": _Option(str)})
_PLACE: Final = {"path": str, "recorded": _ANY, "shadow": _ANY}
_DIFFERENCE: Final = {"field": str, "recorded": _ANY, "shadow": _ANY, "places": [_PLACE]}
_SIDES: Final = {"recorded": _MapOf(_MapOf(int)), "shadow": _MapOf(_MapOf(int))}
_ASKED: Final = _MapOf({"asked": int, "receipts": _MapOf(int)})
_LIST: Final = _Option([str])

_BEGINNING: Final = {
    "same": bool,
    "blocked": bool,
    "blockers": {"total": int, "first": [{"kind": str, "cell": _CELL, "detail": str}]},
}
_REST: Final = {
    "clock_ns": int,
    "steps": dict.fromkeys(
        ("compared", "different", "missing", "extra", "erased", "environmental"), int
    ),
    "inputs": {"admitted": int, "refused": int},
    "by_class": _MapOf(int),
    "cells": _MapOf({"same": int, "different": int, "by_class": _MapOf(int)}),
    "differences": [
        {
            "cell": _CELL,
            "classes": [str],
            "first": {"record": int, "on": str, "classes": [str], "differences": [_DIFFERENCE]},
            "last": {"recorded": _SIDE, "shadow": _SIDE},
        }
    ],
    "left_out": int,
    "effects": {"recorded": _ASKED, "shadow": _ASKED},
    "answered": dict.fromkeys(("timers", "blobs", "core", "file"), int),
    "instances": _SIDES,
    "allowlists": _MapOf({"recorded": _LIST, "shadow": _LIST}),
    "pending": {"recorded": int, "shadow": int},
    "open": [{"effect": str, "cell": _CELL, "params": str, "recorded": bool}],
}
"""The other fields, of a shadow that was not blocked (SH-9)."""


def read_report(report: bytes) -> Fields:
    """Return a report as a JSON document.

    Raises:
        ValueProblem: It is not canonical CBOR.
    """
    fields: Any = decode_record(report)
    return {
        "hash": hash_text(content_hash(report)),
        **{
            name: hash_text(Hash(value)) if name in _BYTES and value is not None else value
            for name, value in fields.items()
        },
    }


def checked_report(report: bytes) -> Fields:
    """Return a report as a JSON document, as ``read_report``.

    Raises:
        ReportInvalid: It does not have the form of a report.
    """
    read_report_head(report)
    fields: Any = decode_record(report)
    answers = fields.get("answers")
    if answers is not None and (not isinstance(answers, bytes) or len(answers) != HASH_BYTES):
        raise ReportInvalid("answers: expected a hash or null")
    document = read_report(report)
    _check(document, _BEGINNING, "")
    if not document["blocked"]:
        _check(document, _REST, "")
    _check(document, _ANY, "")
    return document


def _check(value: Any, form: Any, path: str) -> None:
    """Raise ReportInvalid unless a value has a form: a type, a map of names, a list of one."""
    match form:
        case _Option():
            if value is not None:
                _check(value, form.form, path)
        case _MapOf():
            for name, part in _expected(value, dict, path).items():
                _check(part, form.form, f"{path}.{name}")
        case Mapping():
            _expected(value, dict, path)
            for name, part in form.items():
                if name not in value:
                    raise ReportInvalid(f"{path}.{name}: expected this field".lstrip("."))
                _check(value[name], part, f"{path}.{name}")
        case [part]:
            for index, item in enumerate(_expected(value, list, path)):
                _check(item, part, f"{path}[{index}]")
        case _ if form is _ANY:
            _check_json(value, path)
        case _:
            _expected(value, form, path)


def _check_json(value: Any, path: str) -> None:
    match value:
        case None | bool() | int() | str():
            pass
        case list():
            for index, part in enumerate(value):
                _check_json(part, f"{path}[{index}]")
        case dict() if all(isinstance(name, str) for name in value):
            for name, part in value.items():
                _check_json(part, f"{path}.{name}")
        case _:
            raise ReportInvalid(f"{path}: expected JSON, found {type(value).__name__}".lstrip("."))


def _expected(value: Any, kind: type, path: str) -> Any:
    if type(value) is not kind:
        problem = f"expected {kind.__name__}, found {type(value).__name__}"
        raise ReportInvalid(f"{path}: {problem}".lstrip("."))
    return value
