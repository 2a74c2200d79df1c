"""``aos inspect`` and ``aos trace`` show a node as they show the folder of its world (C-92)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aos.read.trace.render import Branch, from_documents, to_documents
from tests.cli.shell import environment, here
from tests.free_ports import free_port
from tests.node.conftest import client, node, template
from tests.node.nodes import Node, event

__all__ = ["client", "node", "template"]

INTENTS = ("inspect", "intents", "--status", "settled")
COMMANDS = [
    ("inspect", "manifest"),
    ("inspect", "manifest", "trip/booking@1"),
    ("inspect", "manifest", "trip/nothing@1"),
    ("inspect", "manifest", "--at", "3"),
    ("inspect", "cells", "--workflow", "booking", "--state", "--sort", "age"),
    ("inspect", "cells", "--key-prefix", "look-", "--limit", "1", "--offset", "1"),
    ("inspect", "cells", "--status", "asleep"),
    ("inspect", "cells", "--older-than", "1ms", "--pinned"),
    ("inspect", "cells", "--limit", "0"),
    ("inspect", "cell", "booking", "look-1"),
    ("inspect", "cell", "booking", '"look-1"'),
    ("inspect", "cell", "booking", "nothing"),
    ("inspect", "cell", "boking", "look-1"),
    ("inspect", "cell", "booking", "look-1", "--at", "5"),
    (*INTENTS, "--key-prefix", "look-1"),
    (*INTENTS, "--effect", "nothing"),
    ("inspect", "intents", "--parked"),
    ("inspect", "intents", "--code", "declined", "--workflow", "booking"),
    ("inspect", "intent", "0123abcd0123abcd"),
    ("inspect", "faults", "--kind", "trap"),
    ("inspect", "record", "3"),
    ("inspect", "record", "999999"),
    ("inspect", "value", "blake3:" + "0" * 64),
    ("inspect", "journal", "--from", "1", "--to", "20"),
    ("inspect", "journal", "--from", "2", "--limit", "3"),
    ("inspect", "journal", "--to", "8", "--limit", "4"),
    ("inspect", "journal", "--kind", "event", "--to", "20"),
    ("inspect", "journal", "--workflow", "booking", "--key", "look-1"),
    ("inspect", "journal", "--key", "look-1"),
    ("inspect", "journal", "--kind", "nothing"),
    ("inspect", "journal", "--from", "999999"),
    ("inspect", "journal", "--to", "0"),
    ("trace", "booking", "look-1"),
    ("trace", "booking", "look-1", "--follow-events"),
    ("trace", "3"),
    ("trace", "999999"),
    ("trace", "booking", "nothing"),
    ("trace", "a", "b", "c"),
]


@pytest.fixture(scope="module", autouse=True)
def _trips(node: Node) -> None:
    """Three trips that have ended, and nothing that runs."""
    client = node.client()
    for name in ("look-1", "look-2", "look-3"):
        client.post("/v1/events", json=event(name), params={"wait": "settled"})
    until = time.monotonic() + 90
    while client.get("/v1/world").json()["intents"]["open"]:
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_node_and_its_folder_are_shown_alike(node: Node, words: tuple[str, ...]) -> None:
    """C-92"""
    for form in ((), ("--json",)):
        by_folder = here(*words, *form, "--world", node.path)
        by_node = here(*words, *form, "--node", node.url)

        assert by_node.code == by_folder.code, by_node.err
        assert by_node.out == by_folder.out
        if by_folder.code:
            assert by_node.err.startswith("aos: ")
        else:
            assert by_node.err == by_folder.err


def test_an_intent_and_a_stored_value_of_a_node(node: Node) -> None:
    """C-92"""
    row = here(*INTENTS, "--json", "--node", node.url).json["intents"][0]
    intent, module = row["intent"], here("inspect", "cell", "booking", "look-1", "--json",
                                         "--node", node.url).json["module_hash"]  # fmt: skip
    for words in [("inspect", "intent", intent), ("inspect", "value", module), ("trace", intent)]:
        assert here(*words, "--node", node.url) == here(*words, "--world", node.path)

    raw = [
        subprocess.run(
            [sys.executable, "-m", "aos_cli.entry", "inspect", "value", module, "--raw", *where],
            capture_output=True, check=True, env=environment(),
        ).stdout
        for where in (["--node", node.url], ["--world", str(node.path)])
    ]  # fmt: skip
    assert raw[0] == raw[1]
    assert raw[0].startswith(b"\x00asm")


def test_the_world_of_a_node(node: Node) -> None:
    """C-92"""
    found = here("inspect", "world", "--json", "--node", node.url).json
    shown = here("inspect", "world", "--json", "--world", node.path).json
    text = here("inspect", "world", "--node", node.url)

    assert found["path"] == node.url
    assert found["process"]["pid"] == node.kernel.pid
    assert {**found, "path": None, "process": None} == {**shown, "path": None, "process": None}
    assert (text.code, node.url in text.out) == (0, True)


def test_new_records_of_a_node_are_followed(node: Node) -> None:
    """C-37, C-92"""
    words = ["inspect", "journal", "--follow", "--json", "--kind", "event", "--workflow", "booking"]
    with subprocess.Popen(
        [sys.executable, "-m", "aos_cli.entry", *words, "--key", "look-9", "--node", node.url],
        stdout=subprocess.PIPE, text=True, env=environment(),
    ) as following:  # fmt: skip
        try:
            sent = node.client().post("/v1/events", json=event("look-9")).json()
            assert following.stdout is not None
            assert json.loads(following.stdout.readline())["seq"] == sent["seq"]
        finally:
            following.kill()


def test_a_node_that_does_not_answer_or_does_not_allow_it(node: Node, tmp_path: Path) -> None:
    """C-92"""
    away = f"http://127.0.0.1:{free_port()}"
    for words in [("inspect", "world"), ("inspect", "journal"), ("trace", "3")]:
        unreached = here(*words, "--node", away)
        refused = here(*words, "--node", node.url, env={"AOS_TOKEN": "unknown"})

        assert unreached == (4, "", unreached.err)
        assert f"the node at {away} does not answer" in unreached.err
        assert (refused.code, refused.out) == (1, "")
        assert here(*words, "--node", tmp_path).code == 4


def test_a_trace_deeper_than_json_can_be_nested_keeps_its_shape() -> None:
    deep = Branch(kind="step", text="last", is_target=True)
    for number in range(5_000):
        deep = Branch(kind="step", text=str(number), children=(deep, Branch(kind="log", text="l")))
    found = from_documents(json.loads(json.dumps(to_documents([deep, deep]))))

    assert to_documents(found) == to_documents([deep, deep])
    assert len(found) == 2
