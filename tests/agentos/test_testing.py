"""``aos.testing``, scenarios and projects with modules of the AgentOS SDK."""

from __future__ import annotations

from pathlib import Path

import cbor2
import pytest

from aos.errors import BadUsage
from aos.manifest.names import HTTP
from aos.testing import Fail, Timeout, World, response
from aos.testing.play import play
from aos.testing.scenario import parse
from aos.values.cbor import Value, encode
from tests.agentos.world import ASK, COUNTER

SCENARIO = """
manifest = "{folder}"
abi = "agentos"

[[step]]
send = "agentos/CounterEvent@1"
value = {{ Start = {{ target = 2 }} }}

[[step]]
expect = "cell"
workflow = "agentos/counter@1"
state = {{ pc = "Counting", remaining = 2 }}
"""


def test_an_opaque_state_is_read_by_its_schema(folder: Path) -> None:
    """T-30, AG-13: its fields are not in canonical order."""
    with World(folder, abi="agentos") as world:
        world.send("agentos/CounterEvent@1", {"$tag": "Start", "$value": {"target": 3}})
        world.run()

        assert world.state(COUNTER) == {"pc": {"$tag": "Counting"}, "remaining": 3}
        assert [each.state for each in world.cells(COUNTER)] == [world.state(COUNTER)]


def test_a_scenario_names_the_abi(folder: Path, tmp_path: Path) -> None:
    """T-60."""
    text = SCENARIO.format(folder=folder)

    assert play(parse(text.encode(), tmp_path / "x.scenario.toml")).failure is None
    with pytest.raises(BadUsage, match="the file: abi: invalid value: expected aos/1 or agentos"):
        parse(text.replace('"agentos"', '"aos/9"', 1).encode(), tmp_path / "x.scenario.toml")


def test_a_scripted_failure_of_a_request_comes_as_in_a_real_world(folder: Path) -> None:
    """AG-15, T-23."""
    get: Value = {"method": "GET", "url": "http://a/", "headers": {}}
    ask = {"id": "a", "effect": HTTP, "params": encode(get)}
    for script, status, number in (
        (response(200, body=b"hello"), "ok", 200),
        (Fail("http_connect_failed"), "error", 599),
        (Timeout(), "timeout", 598),
    ):
        with World(folder, abi="agentos") as world:
            world.on(HTTP, script)
            world.send("agentos/Ask@1", ask)
            world.run()

            (answer,) = world.state(ASK, "a")["answers"]
            receipt = cbor2.loads(answer["payload"])
            assert (answer["status"], receipt["status"]) == (status, number)
            assert receipt["body"] is None
            assert receipt["body_ref"].startswith("sha256:")
