"""JSON-RPC answers and their hex are read strictly (EV-7, EV-8)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos_gateway.evm import hex_values
from aos_gateway.evm.hex_values import BadHex
from aos_gateway.evm.json_rpc import DEPTH_MAX, NoAnswer, RpcError, read_answer, request_bytes


def answered(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, **fields}).encode()


def test_a_request_is_json_rpc_2() -> None:
    assert json.loads(request_bytes(7, "eth_call", [{}, "latest"])) == {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "eth_call",
        "params": [{}, "latest"],
    }


@pytest.mark.parametrize("result", [None, "0x1", {"a": [1]}, [], False, 0])
def test_any_result_of_our_request_is_read(result: object) -> None:
    assert read_answer(answered(result=result), 7) == result
    assert read_answer(answered(result=result, error=None), 7) == result


def test_an_error_is_read_with_or_without_a_code() -> None:
    assert read_answer(answered(error={"code": 3, "message": "m", "data": "0x"}), 7) == RpcError(
        code=3, message="m", data="0x"
    )
    for code in ("3", True, None, 2**40, 1.5):
        assert read_answer(answered(error={"code": code, "message": "m"}), 7) == RpcError(
            code=None, message="m"
        )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"null",
        b"[1]",
        answered(result=1)[:-1],
        answered(result=1) + b"x",
        b'{"id":7,"result":1}',
        json.dumps({"jsonrpc": 2.0, "id": 7, "result": 1}).encode(),
        json.dumps({"jsonrpc": "2.0", "result": 1}).encode(),
        json.dumps({"jsonrpc": "2.0", "id": "7", "result": 1}).encode(),
        json.dumps({"jsonrpc": "2.0", "id": 7.0, "result": 1}).encode(),
        json.dumps({"jsonrpc": "2.0", "id": 8, "result": 1}).encode(),
        json.dumps({"jsonrpc": "2.0", "id": None, "error": {"message": "m"}}).encode(),
        answered(),
        answered(result=1, error={"message": "m"}),
        answered(error="m"),
        answered(error={"message": 5}),
        answered(error=[]),
    ],
)
def test_anything_else_is_no_answer(body: bytes) -> None:
    with pytest.raises(NoAnswer):
        read_answer(body, 7)


def test_true_is_no_id() -> None:
    with pytest.raises(NoAnswer):
        read_answer(json.dumps({"jsonrpc": "2.0", "id": True, "result": 1}).encode(), 1)


@pytest.fixture
def high_recursion_limit() -> Iterator[None]:
    """As py_ecc sets it, which eth_account imports: Python's parser then overflows the stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("high_recursion_limit")
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"[":'])
def test_deep_nesting_is_no_answer_and_does_not_end_the_process(opening: bytes) -> None:
    with pytest.raises(NoAnswer):
        read_answer(300_000 * opening, 7)


def test_nesting_is_allowed_up_to_its_limit() -> None:
    def nested(levels: int) -> bytes:
        return b'{"jsonrpc":"2.0","id":7,"result":' + levels * b"[" + levels * b"]" + b"}"

    many = [["[{"] for _ in range(500)]

    read_answer(nested(DEPTH_MAX - 1), 7)
    assert read_answer(answered(result=many), 7) == many
    with pytest.raises(NoAnswer):
        read_answer(nested(3 * DEPTH_MAX), 7)


@given(st.integers(0, 2**64 - 1))
def test_a_quantity_is_read(number: int) -> None:
    assert hex_values.quantity(hex(number)) == number


@pytest.mark.parametrize(
    "given_",
    [None, 1, True, "", "0x", "1", "0x01", "0x00", "-0x1", "0x-1", "0xg", "0x1 ", " 0x1", "0X1",
     "0x1_0", "0x" + 17 * "f", "0x" + 10**6 * "f", "٣", ["0x1"]],
)  # fmt: skip
def test_anything_else_is_no_quantity(given_: object) -> None:
    with pytest.raises(BadHex):
        hex_values.quantity(given_)


def test_a_balance_may_have_256_bits() -> None:
    most = hex_values.U256_MAX

    assert hex_values.quantity(hex(most), limit=most) == most
    with pytest.raises(BadHex):
        hex_values.quantity(hex(most + 1), limit=most)


@pytest.mark.parametrize("given_", [None, 5, "", "00", "0x0", "0xzz", "0x 00"])
def test_anything_else_is_no_bytes(given_: object) -> None:
    with pytest.raises(BadHex):
        hex_values.data(given_)


def test_addresses_and_hashes_have_their_length() -> None:
    assert hex_values.address("0x" + 20 * "Ab") == "0x" + 20 * "ab"
    assert hex_values.hash32("0x" + 32 * "Ab") == "0x" + 32 * "ab"
    for size in (19, 21, 32, 0):
        with pytest.raises(BadHex):
            hex_values.address("0x" + size * "ab")
    for size in (31, 33, 20, 0):
        with pytest.raises(BadHex):
            hex_values.hash32("0x" + size * "ab")
