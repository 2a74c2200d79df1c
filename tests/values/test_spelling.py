"""dec128, uuid, hash, time, duration and base64 (spec/values.md, V-32 to V-38)."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.values.codec import JsonForm
from aos.values.schema import compile_schemas
from aos.values.spelling import (
    base64_bytes,
    base64_text,
    duration_ns,
    duration_text,
    normal_decimal,
    normal_hash,
    normal_uuid,
    time_ns,
    time_text,
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("+0.000", "0"),
        ("-0e9", "0"),
        ("1.50", "1.5"),
        ("+1", "1"),
        ("007.5", "7.5"),
        ("100", "100"),
        ("1e3", "1000"),
        ("1.5E-2", "0.015"),
        ("-12.34e1", "-123.4"),
        ("0.5", "0.5"),
        ("1000e-3", "1"),
        ("9" * 34, "9" * 34),
        ("9" * 17 + "." + "9" * 17, "9" * 17 + "." + "9" * 17),
        ("0." + "0" * 33 + "1", "0." + "0" * 33 + "1"),
        ("1e33", "1" + "0" * 33),
        ("1e-34", "0." + "0" * 33 + "1"),
        ("0" * 5000 + "1." + "5" + "0" * 5000, "1.5"),
        ("0e999", "0"),
    ],
)
def test_a_decimal_has_one_normal_form(text: str, normal: str) -> None:
    """V-32"""
    assert normal_decimal(text) == normal
    assert normal_decimal(normal) == normal


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "-", "+", "1.", ".5", "1,5", "1_000", " 1", "1 ", "1\n", "0x10", "NaN", "Infinity",
        "-inf", "1e", "e1", "1e1.5", "--1", "1e0000", "1e999999999", "\u0661", "1.\u0662", "\uff11",
        "9" * 35, "1" + "0" * 34, "1e34", "1e-35", "9" * 18 + "." + "9" * 17, "1e999", "1e-999",
    ],
)  # fmt: skip
def test_no_other_text_is_a_decimal(text: str) -> None:
    """V-32"""
    assert normal_decimal(text) is None


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=None).filter(
        lambda d: len(d.as_tuple().digits) <= 34
    )
)
def test_decimals_agree_with_the_decimal_module(number: decimal.Decimal) -> None:
    """V-32"""
    text = normal_decimal(str(number))

    if text is not None:
        assert decimal.Decimal(text) == number
        assert "E" not in text.upper()
        assert not text.startswith("-0") or text.startswith("-0.")
        assert "." not in text or not text.endswith("0")


def test_a_long_text_that_is_no_decimal_is_refused_at_once() -> None:
    """V-32: no quadratic time, no expansion."""
    started = time.thread_time()

    for text in (
        "1" * 1_000_000,
        "0" * 1_000_000 + "x",
        "1." + "0" * 1_000_000 + "1",
        "1e" * 500_000,
    ):
        assert normal_decimal(text) is None

    assert time.thread_time() - started < 5


def test_a_uuid_is_lower_case() -> None:
    """V-38"""
    low = "0123abcd-4567-89ef-0123-456789abcdef"
    assert normal_uuid(low) == normal_uuid(low.upper()) == low
    for text in (
        "",
        low[:-1],
        low + "0",
        low.replace("-", ""),
        "{" + low + "}",
        low + "\n",
        "g" + low[1:],
    ):
        assert normal_uuid(text) is None


def test_a_hash_names_a_known_algorithm_and_has_its_length() -> None:
    """V-37"""
    for algorithm, digits in (("blake3", 64), ("sha256", 64), ("sha384", 96), ("sha512", 128)):
        text = f"{algorithm}:{'a' * digits}"
        assert normal_hash(text) == text
        for bad in (
            text[:-1],
            text + "a",
            text.upper(),
            text[:-1] + "A",
            text + "\n",
            text[:-1] + "g",
        ):
            assert normal_hash(bad) is None
    for bad in ("", ":", "a" * 64, "md5:" + "a" * 32, "blake3" + "a" * 64, "blake3:"):
        assert normal_hash(bad) is None


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("2026-01-02T03:04:05.123456789Z", 1_767_323_045_123_456_789),
        ("2026-01-02t03:04:05.1z", 1_767_323_045_100_000_000),
        ("2026-01-02T03:04:05+05:30", 1_767_303_245_000_000_000),
        ("2026-01-02T03:04:05-00:00", 1_767_323_045_000_000_000),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000_000_000),
        ("0000-01-01T00:00:00Z", -62_167_219_200_000_000_000),
        ("9999-12-31T23:59:59Z", 253_402_300_799_000_000_000),
        ("2262-04-11T23:47:16.854775807Z", (1 << 63) - 1),
        ("1677-09-21T00:12:43.145224192Z", -(1 << 63)),
    ],
)
def test_rfc_3339_is_read_to_the_nanosecond(text: str, ns: int) -> None:
    """V-35"""
    assert time_ns(text) == ns


@pytest.mark.parametrize(
    "text",
    [
        "", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z", "2026-1-2T03:04:05Z",
        "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-01-00T00:00:00Z",
        "2026-01-02T24:00:00Z", "2026-01-02T23:60:00Z",
        "2016-12-31T23:59:60Z", "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05.1234567890Z",
        "2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05+00:60", "2026-01-02T03:04:05+0530",
        "2026-01-02T03:04:05Z\n", "-2026-01-02T03:04:05Z", "\u0662026-01-02T03:04:05Z",
        "12026-01-02T03:04:05Z",
    ],
)  # fmt: skip
def test_no_other_text_is_a_time(text: str) -> None:
    """V-35"""
    assert time_ns(text) is None


@given(st.datetimes(timezones=st.timezones()))
def test_times_agree_with_the_datetime_module(at: dt.datetime) -> None:
    """V-35"""
    offset = at.utcoffset()
    assert offset is not None
    if offset.seconds % 60 or offset.microseconds:
        return  # local mean time before zones: RFC 3339 has no seconds in an offset
    epoch = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # both sides are plain UTC
    since = at.replace(tzinfo=None) - offset - epoch

    assert time_ns(at.isoformat()) == (since // dt.timedelta(microseconds=1)) * 1000


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0s", 0),
        ("1ns", 1),
        ("250ms", 250_000_000),
        ("1m30s", 90_000_000_000),
        ("2h", 7_200_000_000_000),
        ("1d", 86_400_000_000_000),
        ("-1d2h3m4s5ms6us7ns", -93_784_005_006_007),
        ("90s", 90_000_000_000),
        ("007s", 7_000_000_000),
        ("106751d23h47m16s854ms775us807ns", (1 << 63) - 1),
        ("-106751d23h47m16s854ms775us808ns", -(1 << 63)),
    ],
)
def test_a_duration_is_a_sum_of_units(text: str, ns: int) -> None:
    """V-36"""
    assert duration_ns(text) == ns


@pytest.mark.parametrize(
    "text",
    [
        "", "-", "5", "s", "1.5s", "1s1m", "1s1s", "1m 30s", "+1s", "1w", "1S", "1\u00b5s", "1s\n",
        "--1s", "1ms1s", "1" * 20 + "s", "\u0661s", "1h-1m",
    ],
)  # fmt: skip
def test_no_other_text_is_a_duration(text: str) -> None:
    """V-36"""
    assert duration_ns(text) is None


@given(st.binary(max_size=40))
def test_base64_is_one_text_for_each_byte_string(data: bytes) -> None:
    """V-34"""
    text = base64_text(data)

    assert text == base64.b64encode(data).decode()
    assert base64_bytes(text) == data


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "AA",
        "AAA",
        "AA=",
        "AA=A",
        "AB==",
        "AAB=",
        "A===",
        "AA==\n",
        " AA==",
        "AA==AA==",
        "-_==",
        "\u00e9",
        "====",
    ],
)
def test_no_other_text_is_base64(text: str) -> None:
    """V-34: "AB==" and "AAB=" have unused bits set."""
    assert base64_bytes(text) is None


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_duration_and_its_text_are_the_same(ns: int) -> None:
    assert duration_ns(duration_text(ns)) == ns


@given(st.integers(-62_135_596_800 * 10**9, 2**63 - 1))
def test_a_time_and_its_text_are_the_same(ns: int) -> None:
    assert time_ns(time_text(ns)) == ns


def test_times_and_durations_have_no_digits_that_say_nothing() -> None:
    assert duration_text(300 * 10**9) == "5m"
    assert duration_text(0) == "0s"
    assert duration_text(-5_400 * 10**9 - 7) == "-1h30m7ns"
    assert time_text(0) == "1970-01-01T00:00:00Z"
    assert time_text(1_500_000_000) == "1970-01-01T00:00:01.500Z"
    assert time_text(-(2**63)) == "1677-09-21T00:12:43.145224192Z"


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_a_document_has_times_and_durations_as_texts_that_json_accepts(at: int, wait: int) -> None:
    """V-51: exact, in both forms that can be read."""
    types: dict[str, object] = {
        "t/A@1": {
            "record": {
                "at": {"time": {}},
                "waits": {"list": {"option": {"duration": {}}}},
                "by": {"map": {"key": {"text": {}}, "value": {"time": {}}}},
                "way": {"variant": {"Until": {"time": {}}}},
                "raw": {"bytes": {}},
            }
        }
    }
    schema = compile_schemas(types)["t/A@1"]
    value: Any = {
        "at": at, "waits": [wait, None], "by": {"x": at}, "way": {"$tag": "Until", "$value": at},
        "raw": b"{}",
    }  # fmt: skip
    texts: Any = schema.to_json(value, form=JsonForm.TEXTS)
    assert texts == {
        "at": time_text(at), "waits": [duration_text(wait), None], "by": {"x": time_text(at)},
        "way": {"$tag": "Until", "$value": time_text(at)}, "raw": "e30=",
    }  # fmt: skip
    for form in (JsonForm.TEXTS, JsonForm.NUMBERS):
        assert schema.from_json_object(schema.to_json(value, form=form)) == value


def test_a_value_for_people_has_times_durations_and_documents() -> None:
    schema = compile_schemas(
        {
            "t/A@1": {
                "record": {
                    "wait": {"duration": {}},
                    "at": {"option": {"time": {}}},
                    "body": {"bytes": {}},
                }
            }
        }
    )["t/A@1"]

    def shown(body: bytes) -> object:
        return schema.to_json({"wait": 300 * 10**9, "at": 0, "body": body}, form=JsonForm.PEOPLE)

    at = "1970-01-01T00:00:00Z"
    found = shown(b'{"price": 1.5}')
    assert found == {"wait": "5m", "at": at, "body": {"price": 1.5}}
    assert isinstance(found, dict)
    assert list(found) == ["wait", "at", "body"]
    assert shown(b"hello\n") == {"wait": "5m", "at": at, "body": "hello\n"}
    assert shown(b"{broken") == {"wait": "5m", "at": at, "body": "{broken"}
    assert shown(b"\xff") == {"wait": "5m", "at": at, "body": "/w=="}
    assert schema.to_json({"wait": 5, "at": None, "body": b"{}"}) == {
        "wait": 5, "at": None, "body": "e30=",
    }  # fmt: skip
