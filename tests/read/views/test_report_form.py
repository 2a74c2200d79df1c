"""A journaled report is read only if it has the form of SH-50."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aos.core.journal.shadow_report import ReportInvalid
from aos.read.views.proposal_view import checked_report, read_report
from aos.values.cbor import decode_record, encode
from tests.prove.journals import SECOND
from tests.prove.whatif.naive_world import Rule, versioned
from tests.prove.whatif.shadows import shadow_bytes
from tests.prove.whatif.test_shadow import place, ruled


@pytest.fixture(scope="module")
def report() -> bytes:
    world = ruled(Rule())
    place(world, "o-1")
    return shadow_bytes(world, versioned(2), Rule(deadline_ns=SECOND).modules())


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every field and of every item, as far as the form goes."""
    match value:
        case dict():
            for name in value:
                yield (*at, name)
                yield from places(value[name], (*at, name))
        case list() if value:
            yield from places(value[0], (*at, 0))


def altered(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = new if len(at) == 1 else altered(value[at[0]], at[1:], new)
    return copy


def test_a_report_that_a_shadow_made_is_read(report: bytes) -> None:
    found = checked_report(report)

    assert found == read_report(report)
    assert found["differences"]


def test_every_other_type_at_every_place_is_refused(report: bytes) -> None:
    """SH-50: bytes are no JSON, so nothing of a report but its hashes may be bytes."""
    fields = decode_record(report)
    hashes = {("world",), ("base",), ("document",), ("frame",), ("answers",)}
    tried = 0
    for at in places(fields):
        if at in hashes:
            continue
        tried += 1
        with pytest.raises(ReportInvalid):
            checked_report(encode(altered(fields, at, b"\xff")))
    assert tried > 60


def test_every_missing_field_is_refused(report: bytes) -> None:
    fields: Any = decode_record(report)
    optional = {"answers"}
    for name in set(fields) - optional:
        with pytest.raises(ReportInvalid):
            checked_report(encode({each: fields[each] for each in fields if each != name}))


def test_answers_are_a_hash(report: bytes) -> None:
    fields: Any = decode_record(report)

    for answers in (7, "text", b"short"):
        with pytest.raises(ReportInvalid, match="answers: expected a hash or null"):
            checked_report(encode({**fields, "answers": answers}))
