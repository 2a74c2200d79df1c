"""The pages that only a node has: tasks, schedules, batches (spec/page.md, PG-65, PG-66)."""

from __future__ import annotations

import shlex
from pathlib import Path

import httpx
import pytest

from aos.host.door.writer import open_writer
from aos.page.page_links import key_segment
from aos.page.page_text import pace
from aos.values.cbor import encode
from tests.cli.shell import here
from tests.host import puppet
from tests.host.conftest import template, world
from tests.node.test_node_process import started, wait_until
from tests.page.browser import Browser, read_page
from tests.page.form_browser import FormBrowser, buttons, made
from tests.page.operated import HOSTILE, WORKER, trigger

__all__ = ["template", "world"]

PAGES = ("/tasks", "/schedules", "/batches")


@pytest.fixture(scope="module")
def path(operated: Path) -> Path:
    return operated


def text(browser: FormBrowser, address: str) -> str:
    """The text of a page that is well-formed."""
    found = browser.get(browser.base + address)
    assert found.status_code == 200, (address, found.text)
    return " ".join(read_page(found).text.split())


def tabs(page: httpx.Response) -> list[str]:
    return [each.rpartition("/")[2] for each in read_page(page).links if each.count("/") == 3]


def test_a_page_is_the_document_of_its_command(
    operator: FormBrowser, path: Path, tasks: list[str], secrets: dict[str, str]
) -> None:
    """PG-3, PG-65"""
    assert tasks
    trigger(path)
    begun = here("batch", "retry", "--where", "key = f-0", "--id", "one", "--wait", "-w", path)
    assert begun.code == 0, begun.err
    nightly = key_segment(encode("nightly"))
    for address in (*PAGES, "/batch/one", f"/schedule/{nightly}"):
        page = operator.get(operator.base + address)
        words = read_page(page).command
        assert words is not None
        assert words[-2] == "--node"

        document = operator.get(f"{operator.base}{address}.json").json()
        printed = here(*words[1:], "--json", env={"AOS_TOKEN": secrets["operator"]})

        assert printed.code == 0, printed.err
        assert printed.json == document


def test_tasks_show_their_workers_and_those_that_wait_run_again(
    operator: FormBrowser, tasks: list[str]
) -> None:
    """PG-65, PG-64"""
    shown = text(operator, "/tasks")
    for each in ("At workers1", "Held or parked2", WORKER, "worker", "<i>no key</i>"):
        assert each in shown, shown
    page = operator.get(f"{operator.base}/tasks")
    leased, held, parked = (f"/intent/{each.removeprefix('blake3:')}" for each in tasks)
    assert page.text.count("Run it again…") == 2
    for each in (held, parked):
        assert f'href="{operator.base}{each}/retry"' in page.text
    assert f'href="{operator.base}{leased}"' in page.text

    done = operator.press(f"{operator.base}{parked}/retry")

    assert (done.status_code, done.headers["location"]) == (303, operator.base + parked)
    assert "Held or parked1" in text(operator, "/tasks")


def test_schedules_show_their_next_times_and_their_last(operator: FormBrowser, path: Path) -> None:
    """PG-66"""
    trigger(path)
    document = operator.get(f"{operator.base}/schedules.json").json()
    nightly = next(each for each in document["schedules"] if each["id"] == "nightly")

    shown = text(operator, "/schedules")
    for each in (HOSTILE, "30 2 * * * UTC", "every 1 h", "paused", "active"):
        assert each in shown
    for each in (nightly["next"][0], nightly["recent"][-1]["due"]):
        assert f'datetime="{each}"' in operator.get(f"{operator.base}/schedules").text

    address = f"/schedule/{key_segment(encode('nightly'))}"
    page = operator.get(operator.base + address).text
    for each in (*nightly["next"], *(run["at"] for run in nightly["recent"])):
        assert f'datetime="{each}"' in page
    assert "trigger" in text(operator, address)
    paused = operator.get(f"{operator.base}/schedule/{key_segment(encode(HOSTILE))}")
    resume = ["aos", "schedule", "resume", HOSTILE, "--node", operator.url]
    assert resume in [shlex.split(each) for each in read_page(paused).codes]


def test_the_cluster_of_an_embedded_world_is_a_sentence(
    operator: FormBrowser, secrets: dict[str, str]
) -> None:
    """CL-320"""
    shown = text(operator, "/cluster")
    assert "it is on one machine, and no other node takes over if that fails" in shown
    assert "aos adopt --store nats://HOST,HOST,HOST/NAME" in shown
    document = operator.get(f"{operator.base}/cluster.json").json()
    assert document == operator.get(f"{operator.base}/cluster.json?all=1").json()
    assert (document["address"], document["here"], document["worlds"]) == (None, None, [])
    assert "cluster" not in tabs(operator.get(f"{operator.base}/"))
    assert operator.get(f"{operator.base}/cluster/move/b").status_code == 409

    token = {"AOS_TOKEN": secrets["operator"]}
    printed = here("cluster", "status", "--node", operator.url, "--json", env=token)
    assert (printed.code, printed.json) == (0, document)
    refused = here("cluster", "status", "--node", operator.url, env=token)
    assert refused.code == 2
    assert "the world of this node is embedded" in refused.err
    checked = here("cluster", "check", "--node", operator.url, env=token)
    assert checked.code == 0


def test_a_page_of_nothing_has_a_sentence(operator: FormBrowser) -> None:
    """PG-65, PG-66"""
    for address, sentence in (
        (f"/schedule/{key_segment(encode('none'))}", "there is no schedule 'none'"),
        (f"/schedule/{key_segment(encode(1))}", "expected base64url of the CBOR of its id"),
        ("/schedule/!", "expected base64url"),
        ("/batch/none", "there is no batch none"),
        (f"/batch/{'x' * 4000}", "there is no batch xxx"),
        ("/batch/none/stop", "there is no batch none"),
        ("/tasks?at=1", "expected no parameter"),
    ):
        found = operator.get(operator.base + address)
        assert found.status_code in (400, 404), (address, found.text)
        assert sentence in read_page(found).text
        assert len(read_page(found).text) < 2_000


def test_a_world_without_schedules_and_workers(world: Path, tmp_path: Path) -> None:
    """PG-65, PG-66: an executor of the node itself gives up, so there is no task."""
    effects = tmp_path / "effects.py"
    effects.write_text(
        "from aos.worker import Executors, effect\n\n\n"
        f'@effect("{puppet.ECHO}", attempts=1)\n'
        "def echo(params, ctx):\n    raise TypeError('a mistake')\n\n\n"
        'puppets = Executors("puppets", [echo])\n'
    )
    with open_writer(world) as writer:
        list(writer.send([puppet.do("w", puppet.asks("one"))]))
    secret = made(world, "operator", "read", "operate")
    with started(world, tmp_path / "log", "--executors", f"{effects}:puppets") as node:
        browser = FormBrowser(node.url).open(secret)
        wait_until(lambda: "Held or parked1" in text(browser, "/tasks"))
        shown = text(browser, "/tasks")
        assert "a mistake" in shown
        assert "No worker has a task" in shown
        assert list(buttons(browser.get(f"{browser.base}/tasks"))) == ["Run it again…"]

        refused = browser.get(f"{browser.base}/schedules")
        assert refused.status_code == 404
        assert "the manifest in force has no schedules" in read_page(refused).text
        assert {"tasks", "batches"} <= set(tabs(refused))
        assert "schedules" not in tabs(refused)
        assert "There is no batch yet" in text(browser, "/batches")
        browser.close()


def test_a_reader_sees_no_task(reader: FormBrowser, operator: FormBrowser) -> None:
    """PG-65"""
    found = reader.get(f"{reader.base}/tasks")
    assert (found.status_code, "the scope operate is missing" in found.text) == (403, True)
    assert reader.get(f"{reader.base}/tasks.json").status_code == 403
    first = reader.get(f"{reader.base}/")
    assert {"schedules", "batches"} <= set(tabs(first))
    assert "tasks" not in tabs(first)
    assert "tasks" in tabs(operator.get(f"{operator.base}/"))


OWN = ("tasks", "schedules", "schedule", "batches", "batch", "faults", "cells", "intents")
"""Pages that only a node has, and those with links to them. Other tests follow the others."""


def test_every_form_and_page_of_an_operator_is_harmless(
    operator: FormBrowser, path: Path, tasks: list[str]
) -> None:
    """PG-21: nothing runs, and every text is escaped."""
    assert tasks
    words = ("retry", "--where", "key = f-1", "--rate", "1/h", "--id", "slow")
    begun = here("batch", *words, "-w", path)
    assert begun.code == 0, begun.err
    starts = (*PAGES, "/cells?status=failed", "/faults", "/intents?parked=1")
    todo = [operator.base + each for each in starts]
    seen = set(todo)
    while todo:
        found = operator.get(todo.pop())
        assert found.status_code == 200, found.text
        forms = buttons(found).values()
        for link in read_page(found).links:
            kind = f"{link}/".removeprefix(operator.base).split("/")[1].partition("?")[0]
            is_own = link.startswith(operator.base) and ".json" not in link and kind in OWN
            is_form = link in forms and "/cell/" not in link
            if (is_own or is_form) and link not in seen:
                seen.add(link)
                todo.append(link)
    kinds = {each.removeprefix(operator.base).split("/")[1].partition("?")[0] for each in seen}
    assert kinds == {*OWN, "intent"}
    assert f"{operator.base}/batch/slow/stop" in seen
    assert any("/cells/retry?" in each for each in seen)


def test_the_page_without_a_node_does_not_have_them(path: Path) -> None:
    """PG-65"""
    browser = Browser(path)
    base = browser.get("/.json").json()["worlds"][0]["address"].rstrip("/")
    for each in (*PAGES, "/cells/retry", "/batch/one", "/batch/one/stop"):
        assert browser.get(base + each).status_code == 404
    browser.close()


@pytest.mark.parametrize(
    ("count", "seconds", "expected"),
    [
        (0, 10, "none yet"), (5, 0, "none yet"), (90, 60, "1.5 a second"),
        (3, 60, "3.0 a minute"), (1, 3_600, "1.0 an hour"), (1, 7_200, "0.5 an hour"),
        (5_000, 1, "5,000.0 a second"),
    ],
)  # fmt: skip
def test_a_pace_is_shown_in_a_unit_that_fits(count: int, seconds: int, expected: str) -> None:
    """PG-66"""
    assert pace(count, seconds * 10**9) == expected
