"""Valid results of a function, and the errors for invalid ones (X-46)."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from aos.values.cbor import Value, decode_record
from aos.values.errors import ValueProblem
from aos.values.schema import compile_schemas
from aos.worker.failure import AttemptFailure
from aos.worker.results import cost_problem, payload_of, to_value

SCHEMA = compile_schemas(
    {
        "acme/Receipt@1": {
            "record": {
                "id": {"text": {}},
                "items": {"list": {"record": {"qty": {"nat": {}}}}},
                "tags": {"set": {"text": {}}},
                "raw": {"option": {"bytes": {}}},
            }
        }
    }
)["acme/Receipt@1"]


class Colour(enum.StrEnum):
    RED = "red"


class Count(enum.IntEnum):
    TWO = 2


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (None, None),
        (True, True),
        ((1, [2], {3}), [1, [2], [3]]),
        (frozenset({"a"}), ["a"]),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        ({Colour.RED: Count.TWO, 5: Colour.RED}, {"red": 2, 5: "red"}),
    ],
)
def test_kinds_of_python_become_values(result: object, value: Value) -> None:
    found = to_value(result)

    assert found == value
    assert repr(found) == repr(value)  # no subclass is left in it


async def coroutine() -> int:
    return 1


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (1.5, "$: expected no floats, found float 1.5 (use an integer, or dec128 text)"),
        (
            {"a": [0, object]},
            "$.a[1]: expected None, bool, int, str, bytes, list or dict, found type",
        ),
        ({"a": {1.5: 1}}, "$.a: map key: expected text or an integer, found 1.5"),
        ({True: 1}, "$: map key: expected text or an integer, found True"),
    ],
)
def test_an_invalid_value_is_named_with_its_path(result: object, message: str) -> None:
    with pytest.raises(ValueProblem) as caught:
        to_value(result)

    assert str(caught.value).startswith(message)


def test_a_coroutine_that_was_not_awaited_is_named() -> None:
    with pytest.raises(ValueProblem, match="found a coroutine"):
        to_value(coroutine())


def test_a_result_that_contains_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)

    with pytest.raises(ValueProblem, match="nested too deep"):
        to_value(endless)


GOOD: dict[str, Any] = {"id": "a", "items": [{"qty": 1}], "tags": {"b", "a"}}


def test_a_result_is_brought_into_normal_form() -> None:
    payload = payload_of(GOOD, SCHEMA, bytes_max=1000)

    assert isinstance(payload, bytes)
    assert decode_record(payload) == {
        "id": "a",
        "items": [{"qty": 1}],
        "tags": ["a", "b"],
        "raw": None,
    }


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            {**GOOD, "items": [{"qty": -1}]},
            "the result does not fit acme/Receipt@1: $.items[0].qty: expected nat",
        ),
        ({**GOOD, "more": 1}, "the result does not fit acme/Receipt@1: $"),
        (None, "the result does not fit acme/Receipt@1: $: expected record"),
    ],
)
def test_a_misfit_is_an_error_that_names_the_path(result: object, message: str) -> None:
    failure = payload_of(result, SCHEMA, bytes_max=1000)

    assert isinstance(failure, AttemptFailure)
    assert (failure.code, failure.end) == ("executor_result_invalid", "park")
    assert failure.message.startswith(message)


def test_a_result_at_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    payload = payload_of(GOOD, SCHEMA, bytes_max=1000)
    assert isinstance(payload, bytes)
    size = len(payload)

    assert payload_of(GOOD, SCHEMA, bytes_max=size) == payload
    failure = payload_of(GOOD, SCHEMA, bytes_max=size - 1)

    assert isinstance(failure, AttemptFailure)
    assert failure.code == "executor_result_too_large"
    assert failure.message.startswith(f"the result has {size} bytes: expected at most {size - 1}")


@pytest.mark.parametrize(("cost", "is_fine"), [(None, True), (0, True), (-1, False), (1.5, False)])
def test_a_cost_is_a_whole_number(cost: object, is_fine: bool) -> None:
    assert (cost_problem(cost) is None) == is_fine


@pytest.mark.parametrize(
    ("given", "path", "text"),
    [
        ("\ud83e", "$", "half of a surrogate pair at character 0"),
        ({"a": ["b", "c\udfff"]}, "$.a[1]", "half of a surrogate pair at character 1"),
        ({"\ud83e": 1}, "$", "half of a surrogate pair"),
        ({"a": {2**64: 1}}, "$.a", "between -2^64 and 2^64-1"),
        ([-(2**64) - 1], "$[0]", "between -2^64 and 2^64-1"),
    ],
)
def test_a_value_without_canonical_bytes_is_refused_with_its_path(
    given: object, path: str, text: str
) -> None:
    """X-46: half a surrogate pair has no UTF-8, and a larger integer has no head in CBOR."""
    with pytest.raises(ValueProblem) as caught:
        to_value(given)
    assert str(caught.value).startswith(f"{path}: ")
    assert text in str(caught.value)
