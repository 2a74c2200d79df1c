"""The page of a world that is mounted behind a router (spec/page.md, PG-134, PG-135)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from aos.client import Client
from aos.client.sending import Accepted
from aos.host.folder.folder import open_folder
from aos.node.application import serves_path
from aos.node.tokens import revoke
from aos.page.node_parts import NODE_PAGES
from aos.page.page_headers import HEADERS
from aos.page.page_table import PAGES
from tests.cli.shell import here
from tests.client.conftest import template, trips
from tests.copies import copied
from tests.node.nodes import SERVER, Node, event, front, running_kernel
from tests.node.test_mounted import HOSTILE, logged, raw
from tests.node.test_node_process import wait_until
from tests.page.browser import read_page
from tests.page.form_browser import hidden, made

__all__ = ["template", "trips"]

PAGE = "aos.page.node_page"
ROOT = "/w/alpha"
OWN = {"origin": f"http://{SERVER}"}
COOKIE = "aos_node_page_7460"


@pytest.fixture(scope="module")
def mounted(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """The world ``alpha`` of a router that clients reach at ``url``, without tokens."""
    folder = tmp_path_factory.mktemp("mounted")
    path = copied(template, folder / "a folder")
    with (
        running_kernel(path) as kernel,
        front(path, folder / "front", kernel, module=PAGE, mount={}, has_tcp_door=True) as found,
    ):
        assert found.owner().post("/v1/events?wait=ran", json=event("t-1")).status_code == 200
        yield found


def crawled(client: httpx.Client) -> dict[str, httpx.Response]:
    """The answers of the pages to which links lead from the first page of the world."""
    found: dict[str, httpx.Response] = {}
    todo = [f"{ROOT}/"]
    while todo and len(found) < 60:
        address = todo.pop(0)
        found[address] = client.get(address)
        if found[address].headers["content-type"][:9] == "text/html":
            for link in read_page(found[address], ROOT).links:
                assert link.startswith((f"{ROOT}/", "#")) or link == "/", link
                if ".json" not in link and link != "/" and link not in (*found, *todo):
                    todo.append(link)
    return found


def test_all_addresses_are_below_the_name_of_the_world(mounted: Node) -> None:
    digits = open_folder(mounted.path).world.hex()[:12]
    found = crawled(mounted.client())

    assert len(found) > 20
    for address, answer in found.items():
        assert answer.status_code in (200, 303), (address, answer.text)
        assert answer.headers["content-security-policy"] == HEADERS[0][1]
        assert f"/w/{digits}" not in answer.text
        assert str(mounted.path) not in answer.text
        if answer.status_code == 303:
            assert answer.headers["location"].startswith(f"{ROOT}/")
    first = found[f"{ROOT}/"]
    assert "<title>Overview · alpha · AOS</title>" in first.text
    assert '<a href="/">All worlds</a>' in first.text


def test_the_files_of_a_page_are_below_the_name_of_the_world_too(mounted: Node) -> None:
    client = mounted.client()
    first = client.get(f"{ROOT}/").text
    for name in ("page.css", "page.js", "icon.svg"):
        address = f"{ROOT}/static/{name}"
        assert f'="{address}"' in first
        assert client.get(address).content == client.get(f"/static/{name}").content
    assert client.get(f"{ROOT}/static/none").status_code == 404
    assert f'data-stream="{ROOT}/live"' in first
    with client.stream("GET", f"{ROOT}/live") as answer:
        assert "event: figures" in next(text for text in answer.iter_text() if "event" in text)


def test_the_first_page_has_a_slash_at_its_end(mounted: Node) -> None:
    """A browser sends the cookie of the world only below its name."""
    client = mounted.client()
    for address, target in ((ROOT, f"{ROOT}/"), (f"{ROOT}?at=2", f"{ROOT}/?at=2")):
        found = client.get(address)
        assert (found.status_code, found.headers["location"]) == (303, target)
    first = client.get(f"{ROOT}/")
    assert f'href="{ROOT}/.json"' in first.text
    document = client.get(f"{ROOT}/.json").json()
    assert (document["path"], document["journal"]["records"] > 1) == (None, True)
    assert client.get(f"{ROOT}.json").json()["rule"] == "path_is_unknown", "another name"


def test_a_page_names_the_command_for_the_world_of_the_router(mounted: Node) -> None:
    client = mounted.client()
    for path in ("cells", "journal?from=1&limit=3", "record/2"):
        words = read_page(client.get(f"{ROOT}/{path}"), ROOT).command
        assert words is not None
        assert words[words.index("--node") + 1] == f"{mounted.url}{ROOT}"

        before, _, query = path.partition("?")
        printed = here(*words[1:], "--json")
        assert printed.code == 0, printed.err
        document = client.get(f"{ROOT}/{before}.json?{query}").text
        assert [json.loads(line) for line in printed.out.splitlines()] == [
            json.loads(line) for line in document.splitlines()
        ]


def test_commands_and_clients_reach_the_world_by_its_address(mounted: Node) -> None:
    address = f"{mounted.url}{ROOT}/"
    value = '{"trip_id": "t-command", "city": "Lisbon"}'
    sent = here("send", "trip/Requested@1", value, "--node", address)
    assert sent.code == 0, sent.err

    with Client(address) as client:
        by_client = client.send("trip/Requested@1", {"trip_id": "t-client", "city": "Oslo"})
    cells = here("inspect", "cells", "--node", address, "--json").json["cells"]
    assert {"t-command", "t-client"} <= {cell["key"] for cell in cells}
    assert isinstance(by_client, Accepted)
    lines = {line["path"] for line in mounted.requests() if line["method"] == "POST"}
    assert f"{ROOT}/v1/events" in lines


def test_the_list_of_a_front_leads_to_the_name_of_its_world(mounted: Node) -> None:
    [row] = mounted.owner().get("/.json").json()["worlds"]

    assert (row["address"], row["path"]) == (f"{ROOT}/", "alpha")
    assert mounted.owner().get(row["address"]).status_code == 200


@pytest.mark.parametrize("path", sorted({*HOSTILE, "/w/other/", "/w/other/cells"} - {ROOT}))
def test_a_path_that_is_not_exactly_of_this_world_is_unknown(mounted: Node, path: str) -> None:
    status, body = raw(mounted, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{mounted.port}\r\n")

    assert status == 404, body
    assert b"path_is_unknown" in body or b"world_is_unknown" in body


@pytest.mark.parametrize("path", ["/w/other/v1/world", "/w/other/cells", "/w/alpha%2Fv1/world"])
def test_a_path_of_another_world_is_refused_with_a_problem(mounted: Node, path: str) -> None:
    found = mounted.client().get(path)

    assert found.headers["content-type"] == "application/problem+json"
    assert (found.status_code, found.json()["rule"]) == (404, "path_is_unknown")


@pytest.mark.parametrize("fields", [{"host": "evil.example"}, {"origin": "http://evil.example"}])
def test_a_foreign_host_or_origin_is_refused(mounted: Node, fields: dict[str, str]) -> None:
    for path in ("/", "/cells", "/open"):
        assert mounted.client().get(f"{ROOT}{path}", headers=fields).status_code == 403


def test_no_page_has_a_path_of_the_api() -> None:
    assert not [page.path for page in (*PAGES, *NODE_PAGES) if serves_path(page.path)]


# Sessions and forms (PG-135)


class Router(httpx.BaseTransport):
    """Passes requests on to the front of the world that they name, as a client sent them."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        self._doors = {
            name: httpx.HTTPTransport(uds=str(node.door)) for name, node in nodes.items()
        }

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._doors[request.url.path.split("/")[2]].handle_request(request)

    def close(self) -> None:
        for door in self._doors.values():
            door.close()


@pytest.fixture(scope="module")
def worlds(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Node]]:
    """Two worlds of a router, each with tokens, and one token for both."""
    folder = tmp_path_factory.mktemp("worlds")
    shared = copied(template, folder / "all")
    made(shared, "first", "read")
    nodes = {}
    with ExitStack() as stack:
        for name in ("alpha", "beta"):
            path = copied(template, folder / name)
            made(path, "first", "read")
            kernel = stack.enter_context(running_kernel(path, executors=False))
            mount = {"name": name, "tokens": str(shared / "node" / "tokens.json")}
            nodes[name] = stack.enter_context(
                front(path, folder / f"front-{name}", kernel, module=PAGE, mount=mount)
            )
        yield nodes


@pytest.fixture
def browser(worlds: dict[str, Node]) -> Iterator[httpx.Client]:
    """One browser at the router of both worlds."""
    with httpx.Client(base_url=f"http://{SERVER}", transport=Router(worlds), timeout=60) as found:
        yield found


def entered(browser: httpx.Client, name: str, secret: str) -> httpx.Response:
    """Enter a token of a world."""
    fields = hidden(browser.get(f"/w/{name}/open"))
    return browser.post(f"/w/{name}/open", data=fields | {"token": secret}, headers=OWN)


def secret_of(node: Node, name: str, *scopes: str) -> str:
    """A new token, which the front has seen."""
    secret = made(node.path, name, *scopes)
    fields = {"authorization": f"Bearer {secret}"}
    wait_until(lambda: node.client().get("/v1/world", headers=fields).status_code != 401)
    return secret


def test_a_session_is_that_of_one_world(worlds: dict[str, Node], browser: httpx.Client) -> None:
    secret = secret_of(worlds["alpha"], "reader", "read")
    refused = browser.get("/w/alpha/cells")
    assert refused.status_code == 401
    assert "enter a token of the node at /w/alpha/open" in refused.text
    assert 'href="/w/alpha/open"' in refused.text

    opened = entered(browser, "alpha", secret)

    assert (opened.status_code, opened.headers["location"]) == (303, "/w/alpha/")
    cookie = opened.headers["set-cookie"]
    assert re.fullmatch(rf"{COOKIE}=[\w-]{{43}}; Path=/w/alpha/; HttpOnly; SameSite=Strict", cookie)
    assert browser.get("/w/alpha/cells").status_code == 200
    assert browser.get("/w/beta/cells").status_code == 401
    value = cookie.partition(";")[0]
    stolen = {"cookie": value}
    with worlds["beta"].routed() as other:
        assert other.get("/w/beta/cells", headers=stolen).status_code == 401, "of another world"
    with worlds["alpha"].routed() as other:
        assert other.get("/w/alpha/cells", headers=stolen).status_code == 200
        assert other.get("/w/alpha/v1/cells", headers=stolen).status_code == 401, "the API"
        assert other.get("/open").status_code == 401, "only below the name"

    revoke(open_folder(worlds["alpha"].path), "reader")
    wait_until(lambda: browser.get("/w/alpha/cells").status_code == 401)


def test_a_token_for_all_worlds_opens_a_session_in_each(
    worlds: dict[str, Node], browser: httpx.Client
) -> None:
    folder = worlds["alpha"].path.parent / "all"
    secret = made(folder, "everywhere", "read")
    for name in worlds:
        wait_until(lambda name=name: entered(browser, name, secret).status_code == 303)
    assert [browser.get(f"/w/{name}/").status_code for name in worlds] == [200, 200]
    assert len({cookie.value for cookie in browser.cookies.jar if cookie.name == COOKIE}) == 2

    revoke(open_folder(folder), "everywhere")
    for name in worlds:
        wait_until(lambda name=name: browser.get(f"/w/{name}/").status_code == 401)


def test_a_cookie_that_an_earlier_node_left_hides_no_session(
    worlds: dict[str, Node], browser: httpx.Client
) -> None:
    """A browser sends both, that of the longest path first."""
    secret = secret_of(worlds["alpha"], "again", "read")
    value = entered(browser, "alpha", secret).headers["set-cookie"].partition(";")[0]
    with worlds["alpha"].routed() as other:
        for cookies, status in (
            (f"{value}; {COOKIE}={'x' * 43}", 200),
            (f"path=x; a; {value}; {COOKIE}={'x' * 43}; c=d", 200),
            (f"{COOKIE}={'x' * 43}", 401),
            ("", 401),
        ):
            assert other.get("/w/alpha/", headers={"cookie": cookies}).status_code == status


def test_a_form_is_taken_below_the_name_of_the_world(
    worlds: dict[str, Node], browser: httpx.Client
) -> None:
    secret = secret_of(worlds["alpha"], "sender", "read", "send")
    assert entered(browser, "alpha", secret).status_code == 303
    address = "/w/alpha/send?schema=trip/Requested@1"
    page = browser.get(address)
    assert f'action="{address}"' in page.text or 'action="/w/alpha/send"' in page.text
    text = '{"trip_id": "t-form", "city": "Lisbon"}'
    fields = hidden(page) | {"value": text}

    for headers, status in (
        ({}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site", **OWN}, 403),
        (OWN, 303),
    ):
        sent = browser.post(address, data=fields, headers=headers)
        assert sent.status_code == status, sent.text
    assert re.fullmatch(r"/w/alpha/record/\d+", sent.headers["location"])
    assert "t-form" in browser.get(sent.headers["location"]).text
    line = [each for each in worlds["alpha"].requests() if each["method"] == "POST"][-1]
    assert (line["path"], line["token"]) == ("/w/alpha/send", "sender")


def test_under_tls_of_the_router_a_cookie_is_for_tls_alone(template: Path, tmp_path: Path) -> None:
    path = copied(template, tmp_path / "alpha")
    secret = made(path, "reader", "read")
    with (
        running_kernel(path, executors=False) as kernel,
        front(
            path, tmp_path / "front", kernel, module=PAGE,
            mount={"scheme": "https", "server": ["192.0.2.1", 443]},
        ) as node,
        node.routed(headers={"host": "worlds.example"}) as router,
    ):  # fmt: skip
        shown = router.get(f"{ROOT}/open")
        form_cookie = shown.headers["set-cookie"]
        own = {"origin": "https://worlds.example", "cookie": form_cookie.partition(";")[0]}
        opened = router.post(f"{ROOT}/open", data=hidden(shown) | {"token": secret}, headers=own)

        assert opened.status_code == 303, opened.text
        for cookie in (form_cookie, opened.headers["set-cookie"]):
            assert cookie.endswith(f"; Path={ROOT}/; HttpOnly; SameSite=Strict; Secure")
        cookie = opened.headers["set-cookie"].partition(";")[0]
        page = router.get(f"{ROOT}/cells", headers={"cookie": cookie})
        assert f"--node https://worlds.example{ROOT}" in page.text


def test_the_access_log_has_the_client_of_the_router(mounted: Node) -> None:
    path = f"{ROOT}/of-a-client"
    fields = f"Host: 127.0.0.1:{mounted.port}\r\naos-peer: 192.0.2.7\r\n"
    status, body = raw(mounted, f"GET {path} HTTP/1.1\r\n{fields}")

    assert status == 404, body
    assert logged(mounted, path)["peer"] == "192.0.2.7"
