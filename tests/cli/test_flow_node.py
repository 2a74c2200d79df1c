"""``aos flow list`` and ``show``, and ``aos linear`` of the past, show a node as the folder of its
world (C-92, C-74, C-75, C-96, C-97)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aos_cli import open_view, world_reading
from tests.cli.shell import here, in_silence
from tests.cli.test_flow import empty, template
from tests.copies import copied
from tests.node.linear.worlds import make_world
from tests.node.nodes import Node, front, running_kernel

__all__ = ["empty", "template"]

AGES = re.compile(r'"age_ns": \d+|(since|for) [\d.]+ \w+')
"""Times that pass between the two commands."""

FLOWS = [
    ("flow", "list"),
    ("flow", "list", "--status", "running"),
    ("flow", "list", "--flow", "order", "--key-prefix", "o-", "--limit", "1"),
    ("flow", "list", "--limit", "2", "--offset", "2"),
    ("flow", "list", "--at", "4"),
    ("flow", "list", "--where", "input.cents > 400 and not status = running order by key desc"),
    ("flow", "list", "--flow", "order", "--where", "input.cent > 400"),
    ("flow", "list", "--status", "asleep"),
    ("flow", "list", "--flow", "ledger"),
    ("flow", "list", "--at", "999999"),
    ("flow", "show", "order", "o-1", "--at", "4"),
    ("flow", "show", "order", "bad"),
    ("flow", "show", "order", "bad", "--history"),
    ("flow", "show", "order", "stuck"),
    ("flow", "show", "order", "lost"),
    ("flow", "show", "order", "later"),
    ("flow", "show", "order", "never"),
    ("flow", "show", "ordeal", "o-1"),
]
LINEAR: list[tuple[str, ...]] = [
    ("linear", "list", "--at", "{started}"),
    ("linear", "list", "--at", "2"),
    ("linear", "list"),
    ("linear", "show", "i-1", "--at", "{started}"),
    ("linear", "show", "i-1", "--at", "2"),
    ("linear", "show", "i-1"),
]


@pytest.fixture(scope="module")
def node(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("flow-node")
    path = copied(template, folder / "world")
    with (
        running_kernel(path, executors=False) as kernel,
        front(path, folder / "front", kernel) as found,
    ):
        yield found


def shown_alike(node: Node, words: tuple[str, ...]) -> None:
    for form in ((), ("--json",)):
        by_folder = here(*words, *form, "--world", node.path)
        by_node = here(*words, *form, "--node", node.url)

        assert by_node.code == by_folder.code, by_node.err
        assert AGES.sub("", by_node.out) == AGES.sub("", by_folder.out)
        if by_folder.code:
            assert by_node.err.startswith("aos: ")
        else:
            assert by_node.err == by_folder.err


@pytest.mark.parametrize("words", FLOWS, ids=" ".join)
def test_flows_of_a_node_and_of_its_folder_are_shown_alike(
    node: Node, words: tuple[str, ...]
) -> None:
    """C-74, C-75, C-92"""
    shown_alike(node, words)


@pytest.mark.parametrize("words", [("flow", "list"), ("flow", "show", "order", "o-1")])
def test_flows_of_the_past_restore_it_once(
    template: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-74, C-75: times are measured against the clock of the view that has the flows."""
    opened: list[int | None] = []

    def looking_at(world: Path, at: int | None = None, **options: Any) -> Any:
        opened.append(at)
        return open_view.looking_at(world, at, **options)

    monkeypatch.setattr(world_reading, "looking_at", looking_at)
    assert here(*words, "--at", "4", "--world", template).code == 0
    assert opened == [4]


@pytest.mark.parametrize(
    ("path", "query", "status", "part"),
    [
        ("/v1/flow", {"flow": "order"}, 400, "key: expected this parameter"),
        ("/v1/flow", {"flow": "ledger", "key": "x"}, 404, "shop/ledger@1 is no flow"),
        ("/v1/flow", {"flow": "order", "key": "x"}, 404, "there is no such instance of the flow"),
        ("/v1/flows", {"status": "asleep"}, 400, "expected one of"),
        ("/v1/flows", {"workflow": "order"}, 400, "'workflow' is unknown here"),
        ("/v1/flows", {"limit": 0}, 400, "limit: expected 1 to"),
    ],
)
def test_a_flow_that_is_not_there_is_named(
    node: Node, path: str, query: dict[str, str], status: int, part: str
) -> None:
    """N-114b, N-121"""
    answer = node.client().get(path, params=query)

    assert answer.status_code == status, answer.text
    assert part in answer.json()["detail"]


def test_linear_instances_of_the_past_are_shown_as_they_were(tmp_path: Path) -> None:
    """C-96, C-97, L-50: before its start, after it, and after it was canceled."""
    path = make_world(tmp_path / "world")
    at: list[int] = []
    for words in (("start", "job", "--id", "i-1"), ("cancel", "i-1", "--reason", "a test")):
        assert in_silence("linear", *words, "--world", path) == 0
        assert in_silence("run", "--until-idle", "--world", path) == 0
        at.append(here("inspect", "world", "--json", "--world", path).json["journal"]["records"])
    began, ended = (here("linear", "list", "--at", str(seq), "--json", "-w", path) for seq in at)

    assert [each["status"] for each in began.json["instances"]] == ["RUNNING"]
    assert [each["status"] for each in ended.json["instances"]] == ["CANCELED"]
    with (
        running_kernel(path, executors=False) as kernel,
        front(path, tmp_path / "front", kernel) as node,
    ):
        for shown in LINEAR:
            shown_alike(node, tuple(each.format(started=at[0]) for each in shown))
        document = node.client().get(f"/v1/linear/instance?instance=i-1&at={at[0]}").json()
    assert document == here("linear", "show", "i-1", "--at", str(at[0]), "--json", "-w", path).json
