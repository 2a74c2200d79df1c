"""JSON of others is read only if it can be written as JSON again."""

from __future__ import annotations

import json

import pytest

from aos.values.json_text import finite_json
from aos.values.scalars import held_by


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -1e999}', "1e400", "{"])
def test_a_number_that_no_json_can_have_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no number of JSON|Expecting"):
        finite_json(text)


def test_other_numbers_are_read() -> None:
    text = '[1e308, -0.5, 12345678901234567890, {"a": null}]'
    assert finite_json(text) == json.loads(text)


def test_bytes_with_such_a_number_are_shown_as_text() -> None:
    """A document that shows bytes as the JSON in them must stay JSON."""
    assert held_by(b'{"a": 1e999}') == '{"a": 1e999}'
    assert held_by(b'{"a": 1.5}') == {"a": 1.5}
