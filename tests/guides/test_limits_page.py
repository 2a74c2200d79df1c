"""spec/guides/limits.md has every limit that a manifest sets, and the values that are in force."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

from aos.manifest.forms import ATTEMPTS_DEFAULT, BASE_MS_DEFAULT, CAP_MS_DEFAULT, TIMEOUT_MS_DEFAULT
from aos.manifest.limits import (
    EFFECT_RANGES,
    FRESH_WORLD_LIMITS,
    STEP_RANGES,
    WORLD_RANGES,
    StepLimits,
    WorldLimits,
)

PAGE: Final = Path(__file__).parents[2] / "spec" / "guides" / "limits.md"
SOURCE: Final = re.compile(r"`(?P<file>\w[\w/]*\.py)` `(?P<name>\w+(?:\.\w+)?)`")
UNITS: Final[Mapping[str, int]] = {
    "": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
    "ns": 1, "ms": 1, "s": 1, "h": 3600, "hour": 3600 * 10**9, "days": 24 * 3600 * 10**9,
}  # fmt: skip
DEFAULTS_OF_EFFECT: Final[Mapping[str, int]] = {
    "attempts": ATTEMPTS_DEFAULT, "base_ms": BASE_MS_DEFAULT, "cap_ms": CAP_MS_DEFAULT,
    "timeout_ms": TIMEOUT_MS_DEFAULT,
}  # fmt: skip
IN_MS: Final[Mapping[str, int]] = {"ms": 1, "s": 1000, "h": 3_600_000}


def rows() -> list[tuple[str, str, str, str, str]]:
    found = [
        tuple(cell.strip() for cell in line.strip("|").split("|"))
        for line in PAGE.read_text("utf-8").splitlines()
        if line.startswith("| ")
    ]
    return [row for row in found[1:] if len(row) == 5]


def number(text: str, *, units: Mapping[str, int] = UNITS) -> int:
    digits, _, unit = text.partition(" ")
    return int(digits.replace(",", "")) * units[unit]


def limits(prefix: str) -> dict[str, tuple[str, str]]:
    """Name of a limit -> its default and range, of the rows whose source begins so."""
    return {
        source.strip("`").removeprefix(prefix): (default, range_)
        for _, default, range_, _, source in rows()
        if source.startswith(f"`{prefix}")
    }


@pytest.mark.parametrize(
    ("prefix", "defaults", "ranges"),
    [
        ("limits.step.", StepLimits(), STEP_RANGES),
        ("limits.world.", FRESH_WORLD_LIMITS, WORLD_RANGES),
    ],
)
def test_each_limit_of_a_manifest_is_there_with_its_default_and_range(
    prefix: str, defaults: Any, ranges: Any
) -> None:
    shown = limits(prefix)

    assert list(shown) == [each.name for each in fields(defaults)]
    for name, (default, range_) in shown.items():
        low, high = range_.split(" to ")
        if name == "keys":
            assert default == "`limits.world.instance_keys`"
        else:
            assert number(default) == getattr(defaults, name), name
        assert (number(low), number(high)) == (ranges[name].low, ranges[name].high), name


def test_each_limit_of_an_effect_is_there_with_its_default_and_range() -> None:
    shown = {**limits("retry."), **limits("timeout_ms")}
    shown["timeout_ms"] = shown.pop("")

    assert set(shown) == set(EFFECT_RANGES)
    for name, (default, range_) in shown.items():
        units = {"": 1} if name == "attempts" else IN_MS
        low, high = (number(each, units=units) for each in range_.split(" to "))
        assert number(default, units=units) == DEFAULTS_OF_EFFECT[name], name
        assert (low, high) == (EFFECT_RANGES[name].low, EFFECT_RANGES[name].high), name


def test_each_constant_has_the_value_that_the_page_gives() -> None:
    named = [(row, found) for row in rows() if (found := SOURCE.search(row[4]))]

    for row, found in named:
        module = importlib.import_module(
            "aos." + found["file"].removesuffix(".py").replace("/", ".")
        )
        value: Any = module
        for part in found["name"].split("."):
            value = getattr(value, part)
        assert number(row[1]) == value, row[0]
    assert len(named) > 15
    assert len(rows()) == len(named) + len(fields(StepLimits)) + len(fields(WorldLimits)) + 4
