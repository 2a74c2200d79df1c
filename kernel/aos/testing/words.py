"""The actions of a scenario's steps, and the fields of each (spec/testing.md, T-60 to T-64)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

TEXT: Final = "text"
TIME: Final = "a time"
BOOL: Final = "true or false"
TRUE: Final = "true"
WHOLE: Final = "a whole number"
TABLE: Final = "a table"
TEXTS: Final = "a list of texts"
TABLES: Final = "a list of tables"
ANY: Final = "a value"

Fields = Mapping[str, str]

_WHICH: Final[Fields] = {"workflow": TEXT, "key": ANY, "issuer_ref": TEXT, "params": TABLE}
_GIVES: Final[Fields] = {"hold": BOOL, "may_fail": BOOL, "refused": TEXT}
_MOVES: Final[Fields] = {"may_fail": BOOL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One action: the kind of its own ``value``, and its other ``fields`` with their kinds.

    ``runs``: the world runs after it.
    """

    value: str
    fields: Fields = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    runs: bool = False


def _input_word(value: str, /, *required: str, **fields: str) -> Word:
    return Word(value=value, fields={**fields, **_GIVES}, required=frozenset(required), runs=True)


def _settles(*required: str, **fields: str) -> Word:
    return _input_word(TEXT, *required, **fields, **_WHICH)


WORDS: Final[Mapping[str, Word]] = {
    "send": _input_word(TEXT, value=ANY, id=TEXT),
    "run": Word(value=TRUE, fields=_MOVES),
    "advance": Word(value=TEXT, fields=_MOVES),
    "advance_to": Word(value=TIME, fields=_MOVES),
    "finish": Word(value=TEXT, fields=_MOVES),
    "answer": _settles(value=ANY, response=TABLE, cost_cents=WHOLE, after=TEXT),
    "fail": _settles("code", code=TEXT, message=TEXT, retryable=BOOL, after=TEXT),
    "timeout": _settles(message=TEXT, after=TEXT),
    "cancel": _settles(),
    "duplicate": _settles(),
    "begin": _settles(),
    "forge": _settles(value=ANY),
    "misfit": _settles(),
    "frame": _settles("kind", kind=TEXT, payload=ANY),
    "on": _input_word(TEXT, "answers", answers=TABLES),
    "retry": _input_word(TEXT, key=ANY),
    "skip": _input_word(TEXT, key=ANY),
    "restart": Word(value=TRUE, fields=_GIVES, runs=True),
    "snapshot": Word(value=TRUE, fields=_GIVES, runs=True),
    "erase": _input_word(TEXT, "value", value=ANY),
    "apply": _input_word(TEXT, mode=TEXT, leave=TEXTS),
    "expect": Word(value=TEXT),
}


def _rows(**filters: str) -> Word:
    fields = {"are": TABLES, "count": WHOLE, "exactly": BOOL, **filters}
    return Word(value=TEXT, fields=fields)


_SELECTING: Final = frozenset({"workflow", "key", "effect", "schema", "exactly"})

EXPECTED: Final[Mapping[str, Word]] = {
    "cell": Word(
        value=TEXT,
        fields={
            "workflow": TEXT,
            "key": ANY,
            "status": TEXT,
            "state": ANY,
            "annotation": ANY,
            "is_gone": TRUE,
            "exactly": BOOL,
        },
        required=frozenset({"workflow"}),
    ),
    "flow": Word(
        value=TEXT,
        fields={
            "workflow": TEXT,
            "key": ANY,
            "status": TEXT,
            "input": ANY,
            "output": ANY,
            "error": TABLE,
            "view": ANY,
            "operations": TABLES,
            "waits": TABLES,
            "compensations": TABLES,
            "inbox": TABLES,
            "is_gone": TRUE,
            "exactly": BOOL,
        },
        required=frozenset({"workflow", "key"}),
    ),
    "cells": _rows(workflow=TEXT),
    "effects": _rows(effect=TEXT),
    "timers": _rows(),
    "events": _rows(schema=TEXT),
    "faults": _rows(workflow=TEXT),
}
"""The subjects of ``expect``, and the fields of each."""

ROWS: Final[Mapping[str, Fields]] = {
    "cells": {"workflow": TEXT, "key": ANY, "status": TEXT, "state": ANY},
    "effects": {"effect": TEXT, **_WHICH},
    "timers": dict(_WHICH),
    "events": {"schema": TEXT, "value": ANY, "workflow": TEXT, "key": ANY},
    "faults": {"workflow": TEXT, "key": ANY, "kind": TEXT, "message": TEXT},
}
"""The fields of an item of ``are``."""

ANSWER: Final[Fields] = {
    "value": ANY,
    "response": TABLE,
    "fail": TEXT,
    "message": TEXT,
    "retryable": BOOL,
    "timeout": TRUE,
    "never": TRUE,
    "after": TEXT,
}
"""The fields of an item of ``answers``."""

RESPONSE: Final[Fields] = {"status": WHOLE, "json": ANY, "body": TEXT, "headers": TABLE}
"""The fields of a ``response``: an HTTP response (T-62a)."""

FILE: Final[Fields] = {
    "about": TEXT,
    "manifest": TEXT,
    "now": TIME,
    "seed": TEXT,
    "abi": TEXT,
    "executors": TEXTS,
    "replay": BOOL,
    "crash": TEXT,
    "step": TABLES,
}

EVERYWHERE: Final = "everywhere"
"""The value of ``crash``: play the scenario once for each step, with a crash right after it."""

CHECKS: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(field_name for field_name in word.fields if field_name not in _SELECTING)
    for name, word in EXPECTED.items()
}
"""The fields of each subject of ``expect`` that check something; the others select it."""
