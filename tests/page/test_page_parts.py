"""Flows and linear instances in the page (spec/page.md, PG-88 to PG-90)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from aos.page.page_links import key_segment
from aos.values.cbor import encode
from aos_cli.main import run_command
from tests.cli.shell import here
from tests.cli.test_flow import empty, template
from tests.copies import copied
from tests.fake_clock import set_machine_clock
from tests.node.nodes import front, running_kernel
from tests.page.browser import ReadersHere, read_page
from tests.page.hostile import TEXTS
from tests.page.hostile_parts import DEEP, hostile_parts
from tests.page.part_site import PartSite
from tests.page.part_worlds import CARRIER, agents_world, orders_world, trips_world
from tests.page.test_page_documents import NOW_NS
from tests.tools import long_form

__all__ = ["empty", "template"]

AGENT, TRIP, ORDER = "flow/desk/agent@1", "flow/trip/booking@1", "flow/shop/order@1"


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agents_world(tmp_path_factory.mktemp("agents") / "agents")


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trips_world(tmp_path_factory.mktemp("trips") / "trips")


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return orders_world(tmp_path_factory.mktemp("orders") / "orders")


@pytest.fixture(scope="module")
def site(agents: Path, trips: Path, orders: Path, template: Path) -> Iterator[PartSite]:
    """``world`` has flows that ended in each way, diverged, or have a history of a later format."""
    found = PartSite(agents, trips, orders, template)
    yield found
    found.browser.close()


def key(text: str) -> str:
    return key_segment(encode(text))


def test_every_page_of_a_part_is_the_document_of_its_command(
    site: PartSite, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-3, PG-88: by following every link of worlds with flows and with linear instances."""
    set_machine_clock(monkeypatch, NOW_NS)
    browser, kinds = site.browser, set()
    for path, world in zip(site.paths, browser.worlds._worlds.values(), strict=True):
        browser.get(f"/w/{world.slug}/")
        monkeypatch.setattr(world, "_readers", ReadersHere(path))
        for address, seen in site.parts(f"/w/{world.slug}/"):
            page, _, query = address.partition("?")
            document = browser.get(f"{page}.json?{query}").content
            assert seen.command is not None, address
            capsysbinary.readouterr()

            assert run_command([*seen.command[1:], "--json"]) == 0, seen.command

            assert capsysbinary.readouterr().out == document, address
            kinds.add((*seen.command[1:3], "--history" in seen.command))
    assert kinds == {
        ("flow", "list", False), ("flow", "show", False), ("flow", "show", True),
        ("linear", "list", False), ("linear", "show", False),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("world", "path"),
    [
        ("trips", "flows?status=failed"),
        ("trips", "flows?flow=booking&key_prefix=t-&limit=1&offset=1"),
        ("trips", "flows?at=9"),
        ("trips", f"{TRIP}/{key('t-1')}?at=9&history=1"),
        ("orders", "linear?status=RUNNING&plan=order.process&step=PAY"),
        ("orders", 'linear?where=status = "RUNNING"&limit=1&offset=1'),
        ("orders", "linear?at=12"),
        ("orders", f"linear/{key('i-1')}?at=12"),
    ],
)  # fmt: skip
def test_a_query_of_a_part_is_the_options_of_its_command(
    site: PartSite, world: str, path: str
) -> None:
    """PG-6, PG-88"""
    words = site.seen(world, path).command
    assert words is not None
    document = site.document(world, path)
    printed = here(*words[1:], "--json")
    assert printed.code == 0, printed.err
    assert printed.json == document


def test_the_pages_of_a_part_are_there_where_the_manifest_has_it(site: PartSite) -> None:
    """PG-88"""
    for world, has, lacks, text in (
        ("trips", "flows", "linear", "this world has no linear instances: its manifest does not"),
        ("orders", "linear", "flows", "this world has no flow: no workflow of its manifest has"),
    ):
        for path in ("", "cells", "journal", has):
            links = site.seen(world, path).links
            assert f"{site.bases[world]}{has}" in links
            assert f"{site.bases[world]}{lacks}" not in links
        assert text in site.text(world, lacks, 404)
        answer = site.browser.get(f"{site.bases[world]}{lacks}.json")
        assert (answer.status_code, text in answer.json()["detail"]) == (404, True)
    listed = f"{site.bases['trips']}flows?flow=trip%2Fbooking%401"
    assert listed in site.seen("trips", "").links
    assert f"{site.bases['trips']}{TRIP}/{key('t-1')}" in site.seen("trips", "cells").links
    assert f"{site.bases['orders']}linear/{key('i-1')}" in site.seen("orders", "cells").links


def test_a_flow_is_a_tree_of_its_operations(site: PartSite) -> None:
    """PG-89"""
    found = site.text("agents", f"{AGENT}/{key('t-1')}")
    past = site.text("agents", f"{AGENT}/{key('t-1')}?history=1")

    assert "Next: aos flow signal desk/agent@1 t-1 desk/Verdict@1 JSON" in found
    operations = found.partition(" Operations ")[2].partition(" Input and output")[0]
    places = [
        operations.index(each)
        for each in (
            "loop thought running since", "iteration ~1 running", "step model completed",
            "desk/model.call@1 took", "loop decision running", "listen verdict running",
            "desk/Verdict@1 since", ", until 20",
        )
    ]  # fmt: skip
    assert places == sorted(places)
    assert '"action":"refund 45 EUR of o-7"' in operations
    assert "branch" not in operations
    assert "join tools ended record" in past
    assert "step use failed desk/tool.use@1 took" in past
    assert "from the journal error no_such_tool" in past


def test_a_tree_is_nested_as_the_operations_are(site: PartSite) -> None:
    """PG-89: ``verdict`` is in five lists, one in another."""
    answer = site.browser.get(f"{site.bases['agents']}{AGENT}/{key('t-1')}")
    before = answer.text.partition("<h2>Operations</h2>")[2].partition(">verdict</b>")[0]

    assert before.count("<ul") - before.count("</ul") == 5


def test_the_page_of_a_cell_shows_what_the_page_of_its_flow_shows(site: PartSite) -> None:
    """PG-88"""
    cell = site.text("agents", f"cell/desk/agent@1/{key('t-1')}")
    flow = site.text("agents", f"{AGENT}/{key('t-1')}")
    own = flow.partition(" Operations ")[2].partition(" Open effects ")[0]

    assert own in cell
    assert "This is what the page of the flow shows." in cell
    links = site.seen("agents", f"cell/desk/agent@1/{key('t-1')}").links
    assert f"{site.bases['agents']}{AGENT}/{key('t-1')}" in links
    last = site.document("agents", f"{AGENT}/{key('t-1')}")["last_record"]
    past = site.text("agents", f"cell/desk/agent@1/{key('t-1')}?at={last - 1}")
    assert "step model running" in past
    assert "verdict" not in past


def test_a_flow_that_ended_shows_its_error_its_compensations_and_its_output(site: PartSite) -> None:
    """PG-89"""
    failed = site.text("trips", f"{TRIP}/{key('t-2')}")
    done = site.text("trips", f"{TRIP}/{key('t-1')}")
    new = site.text("trips", f"{TRIP}/{key('t-4')}")

    assert "Error critical sold_out nothing left at hotel" in failed
    assert "flight trip/cancel@1 done 1 20" in failed
    assert "The flow keeps none now. Read those that it had from the journal" in failed
    assert "Output" in done
    assert '"hotel": "Hotel-' in site.seen("trips", f"{TRIP}/{key('t-1')}").text
    assert "They are not known: the flow has taken no step yet." in new
    assert "Started not yet" in new


def test_flows_that_cannot_continue_say_why(site: PartSite) -> None:
    """PG-89"""
    diverged = site.text("world", f"{ORDER}/{key('bad')}")
    lost = site.text("world", f"{ORDER}/{key('lost')}")
    later = site.text("world", f"{ORDER}/{key('later')}")
    stuck = site.text("world", f"{ORDER}/{key('stuck')}")

    for text in ("Operation charge", "In its history step charge", "In the code step pay"):
        assert text in diverged
    assert "join join 2 branches failed at all critical gone at all/a/x timeout late" in lost
    assert "Its operations cannot be read: " in later
    assert "charge shop/refund@1 stuck 5" in stuck
    assert "the bank is closed" in stuck


def test_a_list_of_flows_has_the_place_at_which_each_waits(site: PartSite) -> None:
    """PG-88"""
    found = site.text("agents", "flows")
    trips = site.text("trips", "flows")
    none = site.text("trips", "flows?status=stuck")

    assert "thought/~1/decision/~0/verdict desk/Verdict@1" in found
    assert "1 canceled 1 completed 1 failed 1 pending" in trips
    assert "No flow passes these filters." in none


def test_a_linear_instance_is_a_table_of_its_plan_steps(site: PartSite) -> None:
    """PG-90"""
    waiting = site.text("orders", f"linear/{key('i-2')}")
    retried = site.text("orders", f"linear/{key('i-5')}")
    leased = site.text("orders", f"linear/{key('i-6')}")
    canceled = site.text("orders", f"linear/{key('i-4')}")
    done = site.text("orders", f"linear/{key('i-1')}")
    woken = site.text("orders", f"linear/{key('i-7')}")

    assert "Next: it waits for a signal PAID, and is claimed after 20" in waiting
    assert "PAY WAITING lease 30 s 0 of 10 deadline 20" in waiting
    assert "waits for PAID" in waiting
    assert "VALIDATE READY lease 30 s 1 of 10 from 20" in retried
    assert CARRIER in retried
    assert "VALIDATE RUNNING w-1@local until 20" in leased
    assert "Signals that wait for their plan step PAID p-17" in leased
    assert "ordered twice" in canceled
    assert "woken by PAID p-17" in woken
    assert "SHIP DONE lease 5.0 s 0 of 3" in done
    assert "Business key o-i-1" in done


def test_the_page_of_a_cell_shows_its_plan_steps(site: PartSite) -> None:
    """PG-88"""
    cell = site.text("orders", f"cell/aos/linear@1/{key('i-6')}")
    past = site.text("orders", f"cell/aos/linear@1/{key('i-1')}?at=12")

    assert "VALIDATE RUNNING w-1@local until 20" in cell
    assert "This is what the page of the linear instance shows." in cell
    assert "SHIP PENDING" in past


@pytest.mark.parametrize(
    ("world", "path", "text"),
    [
        ("trips", f"{TRIP}/{key('t-9')}", "there is no such instance of the flow"),
        ("trips", f"{TRIP}/-", "expected the canonical CBOR of a key of trip/booking@1"),
        ("trips", f"{TRIP}/AA", "expected the canonical CBOR of a key of trip/booking@1"),
        ("trips", f"flow/trip/other@1/{key('t-1')}", "no workflow is called 'trip/other@1'"),
        ("world", f"flow/shop/ledger@1/{key('x')}", "shop/ledger@1 is no flow: its state is not"),
        ("trips", "flows?flow=other", "no flow is called 'other'"),
        ("orders", f"linear/{key('i-9')}", "there is no linear instance 'i-9'"),
        ("orders", "linear/-", "expected base64url of the CBOR of its id, found '-'"),
        ("orders", "linear/AA", "expected base64url of the CBOR of its id, found 'AA'"),
        ("orders", "linear/!", "the key in the address: expected base64url"),
        ("orders", "linear?at=1", "the manifest in force has no linear workflows"),
        ("orders", "linear?where=(", "where, column 2: expected a name"),
    ],
)
def test_a_part_that_is_not_there_has_a_sentence(
    site: PartSite, world: str, path: str, text: str
) -> None:
    """PG-88"""
    status = 400 if "where=" in path else 404
    assert text in site.text(world, path, status)


def test_every_page_of_hostile_flows_and_linear_instances_is_shown(tmp_path: Path) -> None:
    """PG-12, PG-21"""
    world = hostile_parts(tmp_path / "world", TEXTS if long_form() else TEXTS[:1])
    site = PartSite(world)
    try:
        base = site.bases["world"]
        found = dict(site.parts(base))
        assert len(found) > 8
        assert all(len(seen.text) > 200 for seen in found.values())
        cells = site.seen("world", "cells").links
        for address in [each for each in cells if each.startswith(f"{base}cell/")][:12]:
            assert site.browser.get(address).status_code == 200
        running = site.seen("world", f"{ORDER}/{key(f'running {TEXTS[0]}')}")
        shown = running.text.partition("Operations")[2].partition("Compensations")[0]
        assert shown.split().count("scope") == DEEP
        [signal] = re.findall(r"Next: (aos flow signal .* JSON)$", running.text, re.MULTILINE)
        assert shlex.join(shlex.split(signal)) == signal, "a shell runs nothing in it"
    finally:
        site.browser.close()


def test_a_node_shows_its_flows(template: Path, tmp_path: Path) -> None:
    """PG-50, PG-51, PG-88"""
    path = copied(template, tmp_path / "world")
    with (
        running_kernel(path, executors=False) as kernel,
        front(path, tmp_path / "front", kernel, module="aos.page.node_page") as node,
    ):
        client = node.client()
        [address] = [row["address"] for row in client.get("/.json").json()["worlds"]]
        answer = client.get(f"{address}{ORDER}/{key('done')}")
        words = read_page(answer).command
        assert words is not None
        assert words[-2:] == ["--node", node.url]
        document = client.get(f"{address}{ORDER}/{key('done')}.json").json()
        assert here(*words[1:], "--json").json == document
        assert client.get(f"{address}flows.json").json() == client.get("/v1/flows").json()
        refused = client.get(f"{address}linear")
        assert refused.status_code == 404
        assert "this world has no linear instances" in refused.text
