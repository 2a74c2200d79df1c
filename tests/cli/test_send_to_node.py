"""``aos send --node`` answers as on the folder of the world (C-22, C-92)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.shell import here
from tests.free_ports import free_port
from tests.node.conftest import node, template
from tests.node.nodes import WANTED, Node, trip

__all__ = ["node", "template"]


def test_one_event_is_sent_to_a_node_and_to_its_folder_with_the_same_words(node: Node) -> None:
    value = json.dumps(trip("s-1"))
    first = here("send", WANTED, value, "--id", "s-1", "--node", node.url, "--json")
    again = here("send", WANTED, value, "--id", "s-1", "--node", node.path, "--json")
    text = here("send", WANTED, json.dumps(trip("s-2")), env={"AOS_NODE": node.url})
    refused = here("send", WANTED, "{}", "--node", node.url)
    by_folder = here("send", WANTED, "{}", "--world", node.path)

    seq = json.loads(first[1])["seq"]
    to = [{"workflow": "trip/booking@1", "key": "s-1"}]
    expected = {"number": 1, "answer": "admitted", "seq": seq, "to": to}
    assert (first[0], json.loads(first[1])) == (0, expected)
    assert again[0] == 4, "the folder has no node of its own"
    assert "no node serves this world" in again[2]
    assert (text[0], text[1].split("  ")[1]) == (0, "→ trip/booking@1 s-2\n")
    assert refused == by_folder
    assert refused[0] == 1


def test_many_events_are_sent_to_a_node_and_a_refused_one_does_not_stop_the_others(
    node: Node, tmp_path: Path
) -> None:
    good = [{"schema": WANTED, "value": trip(f"m-{each}")} for each in range(300)]
    lines = "\n".join(
        json.dumps(each) for each in [*good, {"schema": WANTED, "value": {}}, good[0]]
    )
    (tmp_path / "events.jsonl").write_text(lines)
    code, out, _ = here("send", "--jsonl", tmp_path / "events.jsonl", "--node", node.url, "--json")

    found = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert [each["number"] for each in found] == list(range(1, 303))
    assert [each["answer"] for each in found] == ["admitted"] * 300 + ["refused", "admitted"]
    assert found[300]["rule"] == "event_is_invalid"


def test_a_node_that_cannot_be_reached_is_exit_4(tmp_path: Path) -> None:
    port = free_port()
    code, out, err = here("send", WANTED, "{}", "--node", f"http://127.0.0.1:{port}")

    assert (code, out) == (4, "")
    assert f"the node at http://127.0.0.1:{port} does not answer" in err
    assert here("send", WANTED, "{}", "--node", tmp_path)[0] == 4


def test_a_token_that_is_not_valid_is_exit_1_with_the_remedy(node: Node) -> None:
    code, _, err = here("send", WANTED, "{}", "--node", node.url, env={"AOS_TOKEN": "unknown"})

    assert code == 1
    assert "set AOS_TOKEN" in err
