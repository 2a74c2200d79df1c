"""The page of a node (spec/page.md, PG-50 to PG-53)."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from aos.page.page_headers import HEADERS
from tests.cli.shell import here
from tests.client.conftest import template, trips
from tests.copies import copied
from tests.node.nodes import WAIT_S, Node, event, front, running_kernel
from tests.node.test_node_process import wait_until
from tests.page.browser import read_page
from tests.page.form_browser import made

__all__ = ["template", "trips"]


@pytest.fixture(scope="module")
def node(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("node")
    path = copied(template, folder / "trips")
    with (
        running_kernel(path) as kernel,
        front(path, folder / "front", kernel, module="aos.page.node_page") as found,
    ):
        yield found


def pages(client: httpx.Client) -> dict[str, httpx.Response]:
    found: dict[str, httpx.Response] = {}
    todo = ["/"]
    while todo and len(found) < 60:
        address = todo.pop(0)
        found[address] = client.get(address)
        if found[address].headers["content-type"][:9] == "text/html":
            links = read_page(found[address]).links
            todo += [
                each
                for each in dict.fromkeys(links)
                if each.startswith("/w/") and ".json" not in each
                and each not in found and each not in todo
            ]  # fmt: skip
    return found


def logged(node: Node) -> list[tuple[str, str, int]]:
    return [(each["method"], each["path"], each["status"]) for each in node.requests()]


def test_a_node_serves_the_page_and_its_api(node: Node) -> None:
    """PG-50, PG-51"""
    client = node.client()
    assert client.post("/v1/events?wait=ran", json=event("t-1")).status_code == 200
    found = pages(client)

    assert len(found) > 20
    for address, answer in found.items():
        assert answer.status_code in (200, 303), (address, answer.text)
        assert answer.headers["content-security-policy"] == HEADERS[0][1]
        assert str(node.path) not in answer.text
    assert client.get("/v1/world").json()["path"] is None
    assert client.get("/healthz").status_code == 200
    assert client.get("/v1/none").json()["rule"] == "path_is_unknown"
    assert client.post("/").status_code == 405
    wait_until(lambda: ("POST", "/", 405) in logged(node))  # a line is written after the answer
    assert {each.partition("?")[0] for each in found} <= {path for _, path, _ in logged(node)}
    assert 'operation="page"' in client.get("/metrics").text


def test_a_page_of_a_node_names_the_command_for_the_node(node: Node) -> None:
    """PG-51"""
    client = node.client()
    [address] = [row["address"] for row in client.get("/.json").json()["worlds"]]
    for path in ("cells", "manifest", "journal?from=1&limit=3", "record/2", "proposals"):
        words = read_page(client.get(f"{address}{path}")).command
        assert words is not None
        assert words[-2:] == ["--node", node.url] or "--node" in words

        before, _, query = path.partition("?")
        document = client.get(f"{address}{before}.json?{query}").text
        printed = here(*words[1:], "--json")
        assert printed.code == 0, printed.err
        assert [json.loads(each) for each in printed.out.splitlines()] == [
            json.loads(each) for each in document.splitlines()
        ]


def test_on_the_own_socket_the_page_needs_no_token(node: Node) -> None:
    """PG-52"""
    assert node.owner().get("/").status_code == 200


def test_a_foreign_host_or_origin_is_refused(node: Node) -> None:
    """PG-23"""
    client = node.client()
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
        assert client.get("/", headers=headers).status_code == 403


def test_with_tokens_a_form_takes_one_and_the_session_ends_with_it(
    template: Path, tmp_path: Path
) -> None:
    """PG-52, PG-53"""
    path = copied(template, tmp_path / "trips")
    token = made(path, "reader", "read")
    sender = made(path, "sender", "send")
    with (
        running_kernel(path) as kernel,
        front(path, tmp_path / "front", kernel, module="aos.page.node_page") as node,
    ):
        client = node.client()
        assert client.get("/").status_code == 401
        form = field(client)

        foreign = {"sec-fetch-site": "cross-site"}
        own = {"origin": node.url}
        for given, headers, status in (
            ({"form": form, "token": "x"}, {}, 401),
            ({"form": "x", "token": token}, {}, 403),
            ({"token": token}, {}, 403),
            ({"form": form, "token": token}, foreign, 403),
            ({"form": form, "token": token}, {"origin": "http://evil.example"}, 403),
            ({"form": form, "token": "x" * 5000}, {}, 413),
        ):
            answer = client.post("/open", data=given, headers=own | headers)
            assert answer.status_code == status
        assert client.post("/open", data={"form": form, "token": token}).status_code == 403
        assert client.get("/").status_code == 401

        opened = client.post("/open", data={"form": form, "token": token}, headers=own)
        assert (opened.status_code, opened.headers["location"]) == (303, "/")
        assert "HttpOnly; SameSite=Strict" in opened.headers["set-cookie"]
        assert token not in opened.headers["set-cookie"]
        assert client.get("/").status_code == 200
        assert client.get("/v1/world").status_code == 401, "the API ignores the cookie"

        other = node.client()
        given = {"form": field(other), "token": sender}
        assert other.post("/open", data=given, headers=own).status_code == 303
        assert other.get("/").status_code == 403

        assert here("token", "revoke", "reader", "-w", path).code == 0
        wait_until(lambda: client.get("/").status_code == 401)
        assert token not in node.log.read_text()


def test_two_nodes_on_one_host_keep_their_sessions(template: Path, tmp_path: Path) -> None:
    """PG-52: a browser sends the cookies of a host to all its ports."""
    with contextlib.ExitStack() as stack:
        browser = httpx.Client(timeout=WAIT_S, trust_env=False)
        stack.enter_context(browser)
        nodes = []
        for name in ("one", "two"):
            path = copied(template, tmp_path / name)
            token = made(path, name, "read")
            kernel = stack.enter_context(running_kernel(path, executors=False))
            node = stack.enter_context(
                front(path, tmp_path / f"front-{name}", kernel, module="aos.page.node_page")
            )
            nodes.append(node)
            shown = browser.get(f"{node.url}/open")
            fields = {"form": form_in(shown), "token": token}
            opened = browser.post(f"{node.url}/open", data=fields, headers={"origin": node.url})
            assert opened.status_code == 303, opened.text

        for node in nodes * 2:
            assert browser.get(f"{node.url}/").status_code == 200
        names = {each.name for each in browser.cookies.jar}
        assert {f"aos_node_page_{node.port}" for node in nodes} <= names
        assert len(names) == 4


def test_a_stream_of_a_node_is_one_of_its_streams_and_ends_with_its_token(
    template: Path, tmp_path: Path
) -> None:
    """PG-123: a browser whose token was revoked learns nothing more."""
    path = copied(template, tmp_path / "trips")
    token = made(path, "reader", "read")
    made(path, "other", "read")
    with (
        running_kernel(path) as kernel,
        front(path, tmp_path / "front", kernel, module="aos.page.node_page") as node,
    ):
        client = node.client()
        own = {"sec-fetch-site": "same-origin"}
        client.post("/open", data={"form": field(client), "token": token}, headers=own)
        [row] = client.get("/.json").json()["worlds"]
        live = f"{row['address']}live"
        assert client.get(f"{live}.json").json()["record"] == row["records"]
        with client.stream("GET", live) as answer:
            parts = answer.iter_text()
            await_figures(parts)
            assert node.owner().post("/v1/events", json=event("t-live")).status_code == 200
            await_figures(parts)

            assert here("token", "revoke", "reader", "-w", path).code == 0
            list(parts)  # the stream ends

        assert client.get(live).status_code == 401
        wait_until(lambda: ("GET", live, 200) in logged(node))
        assert 'operation="page_live"' in node.owner().get("/metrics").text


def await_figures(parts: Iterator[str]) -> None:
    """Read a stream up to its next figures. A part may have less or more than one event."""
    assert any("event: figures" in part for part in parts), "the stream has ended"


def field(client: httpx.Client) -> str:
    return form_in(client.get("/open"))


def form_in(page: httpx.Response) -> str:
    found = re.search(r'name="form" value="([0-9a-f]{32}\.[0-9a-f]{64})"', page.text)
    assert found is not None
    return found[1]
