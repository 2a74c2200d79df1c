"""``node.toml`` is read strictly (N-65 to N-67)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.errors import BadUsage
from aos.host.executors.limiter import Limit
from aos.node.node_settings import NodeSettings, read_settings

WHOLE = """
[effects."shop/charge@1"]
concurrency = 8
rate = "50/s"
burst = 10
by = ["merchant.id", "currency"]

[effects."shop/ship@1"]
rate = "90/min"
"""


def settings(path: Path, text: str) -> NodeSettings:
    (path / "node.toml").write_text(text, "utf-8")
    return read_settings(path)


def test_limits_are_read(tmp_path: Path) -> None:
    assert settings(tmp_path, WHOLE).limits == {
        "shop/charge@1": Limit(
            concurrency=8, interval_ns=20_000_000, burst=10, by=("merchant.id", "currency")
        ),
        "shop/ship@1": Limit(interval_ns=666_666_666),
    }


def test_a_world_without_the_file_has_no_limits(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == NodeSettings()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "effect = 1",
            "expected one of effects, run, webhooks, search (did you mean effects?)",
        ),
        (
            '[effects."a/b@1"]\nconcurency = 1',
            "expected one of concurrency, rate, burst, by (did you mean concurrency?)",
        ),
        ("effects = 1", "effects: expected a table, found 1"),
        ('[effects."charge"]\nrate = "1/s"', "expected an effect such as com.acme/charge@1"),
        ('[effects."sys/timer.set@1"]\nrate = "1/s"', "expected an effect such as"),
        ('[effects."a/b@1"]', "expected concurrency or rate, found neither"),
        ('[effects."a/b@1"]\nconcurrency = 0', "expected a whole number from 1 to 1,000,000"),
        ('[effects."a/b@1"]\nconcurrency = true', "expected a whole number from 1 to 1,000,000"),
        ('[effects."a/b@1"]\nconcurrency = 1\nburst = 2', "burst: expected a rate with it"),
        ('[effects."a/b@1"]\nrate = 50', 'expected text such as "50/s"'),
        ('[effects."a/b@1"]\nrate = "0/s"', 'expected text such as "50/s"'),
        ('[effects."a/b@1"]\nrate = "1/d"', 'expected text such as "50/s"'),
        ('[effects."a/b@1"]\nrate = "1/s"\nby = "x"', "expected paths of the params"),
        ('[effects."a/b@1"]\nrate = "1/s"\nby = ["x."]', "expected paths of the params"),
        ("search = 1", "search: expected a table, found 1"),
        ('[search."shop"]\nx = "y"', "expected a workflow such as shop/order@1"),
        ('[search."a/b@1"]\n"x y" = "z"', "expected names of letters, digits and underscores"),
        ('[search."a/b@1"]\nx = 1', "expected a path into the state, such as customer.id"),
        ('[search."a/b@1"]\nx = "a..b"', "expected a path into the state"),
        ('[search."a/b@1"]\nstatus = "x"', "expected a name that is not one of every cell"),
        ('[search."aos/linear@1"]\nplan = "x"', "expected a name that is not one of every cell"),
        (
            '[search."a/b@1"]\n' + "".join(f'x{n} = "y"\n' for n in range(17)),
            "expected at most 16 attributes, found 17",
        ),
        ("[", "the file is not TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    """N-67."""
    with pytest.raises(BadUsage) as caught:
        settings(tmp_path, text)
    assert problem in str(caught.value)
    assert str(tmp_path / "node.toml") in str(caught.value)
