"""The cause of a revert comes from its data (EV-30 to EV-33)."""

from __future__ import annotations

from typing import Any

import pytest
from eth_abi.abi import encode
from hypothesis import given
from hypothesis import strategies as st

from aos_gateway.evm.json_rpc import RpcError
from aos_gateway.evm.revert_data import Cause, cause_of, decode_cause
from tests.gateway.evm.studio import custom, panic, required

SENTENCE = required("expected 1 to 32 scores").data
HEX = "0x" + SENTENCE.hex()


@pytest.mark.parametrize(
    "error",
    [
        {"code": 3, "message": "execution reverted: other words", "data": HEX},
        {"code": -32603, "message": "Internal error", "data": {"message": "m", "data": HEX}},
        {"code": -32603, "message": "m", "data": {"originalError": {"data": HEX}}},
        {"code": -32603, "message": "m", "data": {"originalError": {"data": {"data": HEX}}}},
        {"code": -32015, "message": "VM execution error.", "data": f"Reverted {HEX}"},
        {"code": -32000, "message": "m", "data": {"result": HEX}},
    ],
)
def test_the_data_is_found_in_each_nesting(error: dict[str, Any]) -> None:
    cause = cause_of(RpcError(**error))

    assert cause == Cause(kind="Error", text="expected 1 to 32 scores", data=SENTENCE)


@pytest.mark.parametrize(
    ("code", "message", "data"),
    [
        (3, "execution reverted", None),
        (3, "", "0x"),
        (3, "execution reverted", "not hex"),
        (3, "execution reverted", {"data": "0x1"}),
        (-32000, "execution reverted", None),
        (-32603, "Error: VM Exception while processing transaction: reverted", {"data": "0x"}),
        (-32603, "EVM error InvalidFEOpcode", None),
        (-32000, "out of gas", None),
        (-32000, "invalid opcode: INVALID", None),
    ],
)
def test_a_failed_execution_without_data_is_empty(code: int, message: str, data: Any) -> None:
    assert cause_of(RpcError(code=code, message=message, data=data)) == Cause(kind="Empty")


@pytest.mark.parametrize(
    ("code", "message", "data"),
    [
        (-32000, "header not found", None),
        (-32000, "missing trie node 00", None),
        (-32005, "limit exceeded", {"see": "https://rate.example"}),
        (-32602, "invalid argument 0", "the revert of a state"),
        (-32603, "Internal error", {"message": "Internal error"}),
        (-32000, "insufficient funds for gas * price + value", None),
        (None, "gas required exceeds allowance (21000)", 5),
    ],
)
def test_an_error_about_something_else_is_no_revert(code: int, message: str, data: Any) -> None:
    assert cause_of(RpcError(code=code, message=message, data=data)) is None


def test_a_panic_has_its_code() -> None:
    assert decode_cause(panic(0x11).data) == Cause(kind="Panic", text="0x11", data=panic(0x11).data)


def test_a_custom_error_has_its_data() -> None:
    data = custom("EpochClosed", 7).data

    assert decode_cause(data) == Cause(kind="Custom", data=data)


ERROR = SENTENCE[:4]


@pytest.mark.parametrize(
    "arguments",
    [
        b"",
        bytes(31),
        bytes(32),
        bytes(64),  # offset 0
        (2**255).to_bytes(32) + bytes(64),
        (33).to_bytes(32) + bytes(32),
        (64).to_bytes(32) + bytes(32),  # the length would be past the end
        (32).to_bytes(32) + (1).to_bytes(32),
        (32).to_bytes(32) + (2**256 - 1).to_bytes(32) + bytes(32),
    ],
)
def test_an_impossible_text_is_custom(arguments: bytes) -> None:
    data = ERROR + arguments

    assert decode_cause(data) == Cause(kind="Custom", data=data)


@pytest.mark.parametrize("rest", [b"", bytes(31), bytes(33)])
def test_a_panic_of_another_size_is_custom(rest: bytes) -> None:
    assert decode_cause(panic(1).data[:4] + rest).kind == "Custom"


@pytest.mark.parametrize("size", [1, 2, 3])
def test_less_than_a_selector_is_custom(size: int) -> None:
    assert decode_cause(SENTENCE[:size]) == Cause(kind="Custom", data=SENTENCE[:size])


def test_a_long_text_is_cut_between_characters_and_long_data_at_4096_bytes() -> None:
    data = required("a" + 5_000 * "ä").data

    cause = decode_cause(data)

    assert cause.text == "a" + 511 * "ä"
    assert cause.data == data[:4096]
    assert len(decode_cause(required(1_024 * "b").data).text) == 1_024


def test_text_that_is_no_utf8_keeps_what_is() -> None:
    data = ERROR + encode(["bytes"], [b"ok \xff\xfe"])

    assert decode_cause(data).text == "ok \ufffd\ufffd"


@given(st.binary(max_size=200), st.sampled_from([b"", ERROR, panic(1).data[:4]]))
def test_any_data_has_a_bounded_cause(rest: bytes, selector: bytes) -> None:
    cause = decode_cause(selector + rest)

    assert (cause.kind == "Empty") == (selector + rest == b"")
    assert cause.data == selector + rest
    assert len(cause.text.encode()) <= 1_024


@given(st.text(max_size=400))
def test_every_text_of_a_require_is_read(text: str) -> None:
    data = ERROR + encode(["string"], [text])

    assert decode_cause(data) == Cause(kind="Error", text=text, data=data)
