"""The page ``/cluster`` of the nodes of a replicated world (spec/cluster.md, CL-320 to CL-325)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.host.cluster.member_values import MemberBeat, drain_key, member_key
from aos.host.folder.folder import open_folder
from aos.host.folder.replica_file import replica_of
from aos.store.log.nats_bucket import BEATS, WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from tests.cli.shell import here
from tests.host.cluster.fronts import NAMES, Fronts, over_tcp, patiently
from tests.host.cluster.node_processes import waits
from tests.nats_servers import Servers
from tests.node.answers import check_response
from tests.page.browser import read_page
from tests.page.form_browser import FormBrowser
from tests.page.in_browser.chromium import Chromium
from tests.page.in_browser.conftest import chromium
from tests.page.in_browser.page_shots import FORMS, HEIGHT, PageShot
from tests.page.in_browser.test_looks import problems

__all__ = ["chromium"]

MEMBER = "m-1"


def browser(group: Fronts, name: str) -> FormBrowser:
    """A browser at the own socket of a node, which may do everything."""
    browser = FormBrowser("http://node")
    browser.client = group.http(name)
    return browser


@pytest.fixture
def member(group: Fronts, three: Servers) -> Iterator[str]:
    """The beat of a member that has the key of the world of the group, for one test."""
    world = open_folder(group.folders["a"]).world
    beat = MemberBeat(
        name=MEMBER, instance=bytes(16), standbys=1, worlds=(world,), seen=(MEMBER,)
    )  # fmt: skip
    with three.connected() as connection:
        beats = NatsBucket(connection, BEATS, replicas=None)
        beats.create(member_key(MEMBER), beat.to_bytes())
        yield MEMBER
        beats.remove(member_key(MEMBER))
        NatsBucket(connection, WORLDS, replicas=None).remove(drain_key(MEMBER))


def without_times(document: Any) -> Any:
    """A document without what changes from one moment to the next."""
    names = {"beat_age_ns", "silent_ns", "position", "last", "messages", "bytes", "behind_messages"}
    match document:
        case dict():
            return {
                name: without_times(value) for name, value in document.items() if name not in names
            }
        case list():
            return [without_times(value) for value in document]
    return document


def test_the_page_is_the_document_of_the_command(group: Fronts) -> None:
    """CL-320, CL-321: on each node, with the findings of the check."""
    owner, standby = group.owner, group.standby
    for name in (owner, standby):
        page = browser(group, name)
        address = f"{page.base}/cluster"
        document = page.get(f"{address}.json").json()
        printed = here("cluster", "status", "--world", group.folders[name], "--json").json
        printed["here"]["folder"] = None
        assert without_times(document) == without_times(printed)
        answered = here("cluster", "status", "--node", group.folders[name], "--json").json
        assert without_times(answered) == without_times(printed)
        [world] = document["worlds"]
        roles = {node["node"]: node["role"] for node in world["nodes"]}
        assert roles == {node: "owner" if node == owner else "standby" for node in NAMES}
        assert document["here"]["node"] == name

        shown = read_page(page.get(address))
        text = " ".join(shown.text.split())
        assert f"Owner{owner}" in text
        assert f"This node{name}, {roles[name]}" in text
        assert "Check" in text
        assert str(group.folders[name]) not in page.get(address).text
        check = here("cluster", "check", "--node", group.folders[name], "--json")
        kinds = {finding["kind"] for finding in check.json["findings"]}
        by_page = page.get(f"{page.base}/cluster").text
        assert all(kind in by_page for kind in kinds)
    metrics = group.http(standby).get("/metrics").text
    has_reference = document["here"]["reference"] is not None
    assert ("aos_replica_reference_differs 0.0" in metrics) is has_reference


def test_the_world_moves_by_a_form_of_any_node(group: Fronts) -> None:
    """CL-323: the form of a standby, and then one that is stale."""
    owner, to = group.owner, group.standby
    standby = next(name for name in NAMES if name not in (owner, to))
    page = browser(group, standby)
    address = f"{page.base}/cluster/move/{to}"
    assert f'href="{address}"' in page.get(f"{page.base}/cluster").text
    document = page.get(f"{address}.json").json()
    assert (document["action"], document["to"], document["seen"]) == ("move", to, owner)
    stale = page.form(address)
    done = page.press(address)
    assert (done.status_code, done.headers["location"]) == (303, f"{page.base}/cluster"), done.text
    patiently(lambda: group.ready(to).get("role") == "owner", lambda: group.nodes[to].output)
    back = f"{page.base}/cluster/move/{owner}"
    refused = page.post(back, page.form(back) | {"owner": owner})
    assert refused.status_code == 409, refused.text
    assert "owns the world now" in refused.text
    already = page.get(address)
    assert already.status_code == 409
    assert page.post(address, stale).status_code == 303, "the same form has the same outcome"
    assert page.get(f"{page.base}/cluster/move/none").status_code == 404
    group.all_ready()
    assert group.owner == to


def test_a_member_drains_and_ends_that_by_a_form(
    group: Fronts, member: str, three: Servers
) -> None:
    """CL-324"""
    page = browser(group, group.standby)
    address = f"{page.base}/cluster/drain/{member}"
    assert f'href="{address}"' in page.get(f"{page.base}/cluster").text
    address_of_servers = replica_of(group.folders["a"]).address
    with NatsConnection(address_of_servers) as connection:
        worlds = NatsBucket(connection, WORLDS, replicas=None)
        assert worlds.get(drain_key(member)) is None
        stale = page.form(address)
        assert page.press(address).status_code == 303
        assert worlds.get(drain_key(member)) is not None
        check_response(page.client.get("/v1/cluster"))
        waits(lambda: page.get(f"{address}.json").json()["action"] == "undrain")
        other = FormBrowser("http://node")
        other.client = group.http(group.owner)
        late = other.post(address, other.form(address) | {"drains": stale["drains"]})
        assert late.status_code == 409, late.text
        assert page.press(address).status_code == 303
        assert worlds.get(drain_key(member)) is None
    assert page.get(f"{page.base}/cluster/drain/none").status_code == 404


def test_other_worlds_are_for_those_that_may_operate(group: Fronts) -> None:
    """CL-322"""
    name = group.standby
    http = group.http(name)
    caller = '{"name": "auditor", "scopes": ["read"]}'
    own = http.get("/v1/cluster")
    assert [world["name"] for world in own.json()["worlds"]] == ["fronted"]
    every = http.get("/v1/cluster?all=1")
    for answer in (own, every, http.get("/v1/cluster/check")):
        check_response(answer)
    assert "fronted" in [world["name"] for world in every.json()["worlds"]]
    if group.ready(name)["role"] == "standby":
        refused = http.get("/v1/cluster?all=1", headers={"aos-caller": caller})
        assert (refused.status_code, refused.json()["rule"]) == (403, "token_does_not_allow")
    assert browser(group, name).get(f"{browser(group, name).base}/cluster?all=1").status_code == 200


def test_the_page_in_a_browser(
    group: Fronts, member: str, chromium: Chromium, tmp_path: Path
) -> None:
    """CL-320, PG-82, PG-83: small and large, light and dark; with its buttons."""
    name = group.standby
    base = browser(group, name).base
    with over_tcp(group.folders[name] / "node" / "http.sock") as url:
        for form in (FORMS[0], FORMS[-1]):
            chromium.window(form.width, HEIGHT, is_dark=form.is_dark)
            for address in ("/cluster", f"/cluster/move/{name}", f"/cluster/drain/{member}"):
                sight = chromium.visit(f"{url}{base}{address}")
                shot = PageShot(
                    "cluster", form, sight, tmp_path / f"{address.count('/')}-{form}.png"
                )
                chromium.shot(shot.file)
                assert problems(chromium, shot) == [], address
        chromium.visit(f"{url}{base}/cluster")
        sight = chromium.follow("a[href$='/cluster/drain/m-1']")
        assert "All worlds that it owns, not only this one" in sight.text
        assert "Members" in chromium.follow("a[href$='/cluster']").text
