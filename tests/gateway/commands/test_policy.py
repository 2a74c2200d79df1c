"""Policies: defaults, bounds and fees (C-122)."""

from __future__ import annotations

import re

import pytest
import typer

from aos.errors import BadUsage
from aos_gateway.policy import FIELDS, GWEI, fee, fee_text, policy_of
from tests.gateway.commands.samples import ROOT, SECOND, checked

RUST = (ROOT / "modules" / "gateway" / "src" / "policy.rs").read_text()
SPEC = (ROOT / "spec" / "cli.md").read_text()


def test_the_defaults_are_those_of_the_design() -> None:
    assert policy_of() == {
        "conf": 2, "wait_ms": 15_000, "bump_after": 3, "max_fee": 200 * GWEI, "retries": 5,
        "retry_base_ms": 1_000, "retry_cap_ms": 60_000, "stall_base_ms": 60_000,
        "stall_cap_ms": 900_000, "stall_cycles": 5, "arweave_conf": 10, "arweave_wait_ms": 15_000,
    }  # fmt: skip
    assert checked("gw/Policy@1", policy_of()) == policy_of()


def test_the_bounds_are_those_of_the_module() -> None:
    """A policy that the command accepts must not fail the record."""
    names = {
        found[1]: int(found[2].replace("_", ""))
        for found in re.finditer(r"const (\w+): u64 = ([\d_]+);", RUST)
    }
    rows = re.findall(r'\("(\w+)", self\.\w+, (\d+), ([\w:]+)\)', RUST)

    bounds = {
        name: (int(low), names.get(high) or int(high.replace("_", ""))) for name, low, high in rows
    }
    assert bounds == {name: (field.least, field.maximum) for name, field in FIELDS.items()}


@pytest.mark.parametrize("name", FIELDS)
def test_a_bound_is_accepted_and_one_beyond_is_refused(name: str) -> None:
    field = FIELDS[name]
    unit = 10**6 if name.endswith("_ms") else 1
    option = name.removesuffix("_ms")

    for value in (field.least, field.maximum):
        assert policy_of(**{option: value * unit})[name] == value
    for value in (field.least - 1, field.maximum + 1):
        with pytest.raises(BadUsage, match=f"^{field.option}: expected "):
            policy_of(**{option: value * unit})


def test_a_duration_has_whole_milliseconds() -> None:
    assert policy_of(wait=2 * SECOND)["wait_ms"] == 2_000
    with pytest.raises(BadUsage, match="--retry-base: expected whole milliseconds, found 1500000 "):
        policy_of(retry_base=1_500_000)


@pytest.mark.parametrize(
    ("text", "wei"),
    [
        ("200gwei", 200 * GWEI),
        ("200 gwei", 200 * GWEI),
        ("1.5Gwei", 1_500_000_000),
        ("0.000000001gwei", 1),
        ("30000000000", 30 * GWEI),
        ("7wei", 7),
    ],
)
def test_a_fee_is_in_gwei_or_wei(text: str, wei: int) -> None:
    assert fee(text) == wei


@pytest.mark.parametrize(
    "text", ["", "gwei", "1.5", "1.5wei", "-1", "1e9", "0.0000000001gwei", "1ether", "1,5gwei"]
)
def test_another_text_is_no_fee(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="expected a fee such as 200gwei or 30000000000"):
        fee(text)


@pytest.mark.parametrize("wei", [0, 1, 999_999, 10**6, GWEI, 1_500_000_000, 200 * GWEI, 2**64 - 1])
def test_a_shown_fee_is_read_back(wei: int) -> None:
    assert fee(fee_text(wei)) == wei


def test_the_page_has_the_default_of_each_option() -> None:
    for field in FIELDS.values():
        assert f"`{field.option} " in SPEC
