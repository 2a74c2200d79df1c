"""The bytes of a transaction are a function of its params (EV-50, EV-52); the packages (EV-70)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from eth_account import Account
from eth_keys.backends import get_default_backend_class
from hypothesis import given
from hypothesis import strategies as st

from aos_gateway.evm.evm_keys import sign
from aos_gateway.evm.inputs import SubmitParams
from tests.gateway.evm.stage import KEYS, SIGNER

SIGN = """
import sys
{first}
before = sys.getrecursionlimit()
from aos_gateway.evm.evm_keys import sign
from aos_gateway.evm.inputs import SubmitParams
from eth_keys.backends import get_default_backend_class

params = SubmitParams(keys=None, chain=31337, signer="0x19e7e376e7c213b7e7e7e46cc70a5dd086daff2a",
    nonce=7, to="0x" + 20 * "ab", data=b"data", value=5, gas=90000, max_fee=3, max_tip=1)
signed = sign("0x" + 32 * "11", "gw/evm-keys@1", params)
print(get_default_backend_class(), signed.hash, signed.raw.hex(), sys.getrecursionlimit() == before)
"""
WITHOUT_COINCURVE = "sys.modules['coincurve'] = None"


def signed(first: str) -> list[str]:
    """From a process of its own: the backend, the hash, the bytes, and whether the recursion limit
    is as it was."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SIGN.format(first=first)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "random"},
    )
    return done.stdout.split()


def test_every_process_signs_the_same_bytes_with_and_without_coincurve() -> None:
    slow_backend, hash, raw, is_kept = signed(WITHOUT_COINCURVE)
    here = sign(KEYS[0], "gw/evm-keys@1", PARAMS)

    assert "Native" in slow_backend
    assert "CoinCurve" in get_default_backend_class()
    assert here is not None
    assert (hash, raw) == (here.hash, here.raw.hex())
    assert (hash, raw) == (EXPECTED_HASH, EXPECTED_RAW), "RFC 6979: they never change"
    assert is_kept == "True", "eth_account would raise the recursion limit beyond the stack"


EXPECTED_HASH = "0x0ce4548dfd18744e704c17cd3fc0414ab468646ddca90171b1ba00ab038e999e"
EXPECTED_RAW = (
    "02f869827a6907010383015f9094abababababababababababababababababababab058464617461c080a0"
    "fe3c3f84b23397223073aad2cd50b29c95bea4868d13146dc7367d15f164d8f4a06e4c74e90ab89e9254cb8a0369"
    "dedb0b0f9f42532df9450ba01421c444efb82b"
)

PARAMS = SubmitParams(
    keys=None,
    chain=31337,
    signer=SIGNER,
    nonce=7,
    to="0x" + 20 * "ab",
    data=b"data",
    value=5,
    gas=90000,
    max_fee=3,
    max_tip=1,
)

NUMBERS = st.sampled_from([0, 1, 127, 128, 255, 256, 2**32, 2**64 - 2])


@given(
    chain=NUMBERS.filter(bool),
    nonce=NUMBERS,
    value=NUMBERS | st.sampled_from([10**18, 2**256 - 1]),
    gas=NUMBERS,
    max_fee=NUMBERS,
    max_tip=NUMBERS,
    data=st.sampled_from([0, 1, 55, 56, 200, 300, 70_000]).map(bytes) | st.binary(max_size=60),
    key=st.sampled_from(KEYS),
)
def test_bytes_and_hash_are_those_of_eth_account(key: str, **fields: Any) -> None:
    account = Account.from_key(key)
    params = SubmitParams(keys=None, signer=account.address.lower(), to="0x" + 20 * "ab", **fields)

    signed = sign(",".join(KEYS), "gw/evm-keys@1", params)

    expected = account.sign_transaction(
        {
            "type": 2,
            "chainId": params.chain,
            "nonce": params.nonce,
            "to": bytes.fromhex(params.to[2:]),
            "data": params.data,
            "value": params.value,
            "gas": params.gas,
            "maxFeePerGas": params.max_fee,
            "maxPriorityFeePerGas": params.max_tip,
        }
    )
    assert signed is not None
    assert signed.raw == bytes(expected.raw_transaction)
    assert signed.hash == "0x" + bytes(expected.hash).hex()


LOAD = """
import sys
sys.modules["eth_keys"] = None
from aos.worker.load_executors import load
from aos.errors import BadUsage
try:
    load("evm")
except BadUsage as refused:
    print(refused)
"""


def test_without_its_packages_the_executor_names_the_extra_in_one_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOAD], capture_output=True, text=True, check=True
    )

    (line,) = done.stdout.splitlines()
    assert line.startswith("executors 'evm' of the package aos-kernel ")
    assert ": it needs packages that are not installed (" in line
    assert line.endswith("is missing): run pip install 'aos-kernel[gateway]'")
    assert done.stderr == ""
