"""JSON in both SDKs, against spec/vectors/json.json and Python (SD-40 to SD-44)."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.run_seed import examples
from tests.sdk.documents.expected import HOSTILE, document_of, documents, joined, load, rewritten
from tests.sdk.documents.guests import AssemblyScriptGuest, DocumentGuest

BODY_BYTES_MAX = 65_536
"""The largest body that a response has (spec/executors.md X-66)."""


def test_the_vectors_are_what_python_reads() -> None:
    for vector in load("json.json"):
        expected = None if "message" in vector else joined(vector, "written")

        assert rewritten(document_of(vector)) == expected, vector["name"]


def test_a_document_of_the_vectors_is_read_or_refused_as_it_says(guest: DocumentGuest) -> None:
    for vector in load("json.json"):
        is_read = "message" not in vector
        expected = is_read, joined(vector, "written") if is_read else vector["message"]

        assert guest.rewrite(document_of(vector)) == expected, vector["name"]


@settings(max_examples=examples(30))
@given(document=documents() | HOSTILE)
def test_a_document_is_read_if_and_only_if_it_is_strict_json(
    guest: DocumentGuest, document: bytes
) -> None:
    expected = rewritten(document)

    is_read, answer = guest.rewrite(document)

    if expected is None:
        assert not is_read, answer
        place = re.fullmatch("byte ([0-9]+): expected .+", answer)
        assert place is not None
        assert int(place[1]) <= len(document)
    else:
        assert (is_read, answer) == (True, expected)


@settings(max_examples=examples(15))
@given(document=st.binary(max_size=12))
def test_any_bytes_are_read_or_refused(guest: DocumentGuest, document: bytes) -> None:
    assert guest.rewrite(document)[0] is (rewritten(document) is not None)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("0", ["0", "0", "0"]),
        ("-0", ["", "0", "0"]),
        ("-7", ["", "-7", "-7"]),
        ("1.0", ["", "", "1"]),
        ("1.50", ["", "", "1.5"]),
        ("15e-1", ["", "", "1.5"]),
        ("1E+2", ["", "", "100"]),
        ("9223372036854775807", ["9223372036854775807"] * 3),
        ("9223372036854775808", ["9223372036854775808", "", "9223372036854775808"]),
        ("-9223372036854775808", ["", "-9223372036854775808", "-9223372036854775808"]),
        ("-9223372036854775809", ["", "", "-9223372036854775809"]),
        ("18446744073709551615", ["18446744073709551615", "", "18446744073709551615"]),
        ("18446744073709551616", ["", "", "18446744073709551616"]),
        ("184467440737095516150", ["", "", "184467440737095516150"]),
        ("1e34", ["", "", ""]),
        ("1e9999", ["", "", ""]),
        ('"1"', ["", "", ""]),
        ("true", ["", "", ""]),
    ],
)
def test_a_number_is_read_as_each_type_that_it_fits(
    guest: DocumentGuest, number: str, expected: list[str]
) -> None:
    assert guest.number(number) == expected


@pytest.mark.parametrize(
    "document",
    [
        '"' + "\\n" * 32_000,
        "[" + ",".join('"\\n"' for _ in range(13_000)) + "]",
        "{" + ",".join(f'"{key:05}":0' for key in range(6_500, 0, -1)) + "}",
        "[" + ",".join("[]" for _ in range(21_000)) + "]",
        "9" * 65_000,
    ],
    ids=["an open text", "many texts", "many keys", "many lists", "a long number"],
)
def test_the_largest_body_fits_the_memory_and_the_fuel_of_a_step(
    guest: DocumentGuest, document: str
) -> None:
    """The guest has 64 MiB and 10⁹ units of fuel."""
    assert len(document) <= BODY_BYTES_MAX

    assert guest.rewrite(document.encode())[0] is (rewritten(document.encode()) is not None)


@pytest.fixture(scope="module")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> AssemblyScriptGuest:
    return AssemblyScriptGuest(tmp_path_factory.mktemp("typescript"))


def test_a_request_is_made_of_every_type_of_value(typescript: AssemblyScriptGuest) -> None:
    method, content_type, body = typescript.ask("build")

    assert (method, content_type) == ("POST", "application/json")
    assert body == (
        b'{"text":"a\\"\\n","nat":18446744073709551615,"int":-9223372036854775808,"i32":-1,'
        b'"decimal":-1.5,"texts":["x","y"],"numbers":[1,2],"list":[{"b":true,"none":null},[]],'
        b'"again":"later"}'
    )


def test_a_path_that_a_response_does_not_have_is_null(typescript: AssemblyScriptGuest) -> None:
    body = json.dumps({"charge": {"id": "ch_1"}, "list": [1, True]}).encode()

    assert typescript.ask("read", body) == ["ch_1", "bool", 1, ""]
    assert typescript.ask("read", b"{") == ["", "", 1, "byte 1: expected a key"]
    assert typescript.ask("read") == ["", "", 1, "byte 0: expected a value"]
