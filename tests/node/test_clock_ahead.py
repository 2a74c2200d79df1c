"""A node whose journal clock is far ahead of its machine reports it everywhere, until an operator
sets it back (spec/kernel.md K-109b)."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from aos.manifest.limits import DAY_NS
from tests.cli.shell import here
from tests.copies import copied
from tests.fake_clock import set_machine_clock
from tests.node.nodes import event
from tests.node.test_access import made
from tests.node.test_node_process import Started, started, wait_until

LEAP_NS: Final = 8 * DAY_NS
SLOW_NS: Final = 600 * 10**9
WARNING: Final = re.compile(
    r"the journal clock is (\d+ d \d+ h) ahead of this machine's clock: sleeps and times that "
    r"workflows compute from it are that much too late \(set it: aos clock --set\)"
)
GAUGE: Final = re.compile(r"^aos_journal_clock_ahead_seconds (\S+)$", re.MULTILINE)


@pytest.fixture
def world(template: Path, tmp_path: Path) -> Path:
    """A world of which a machine that was eight days ahead has stamped one input."""
    path = copied(template, tmp_path / "trips")
    given = event("early")
    with pytest.MonkeyPatch.context() as patch:
        set_machine_clock(patch, time.time_ns() + LEAP_NS)
        sent = here("send", given["schema"], json.dumps(given["value"]), "--world", path)
        assert sent.code == 0, sent.err
    return path


@pytest.fixture
def node(world: Path, tmp_path: Path) -> Iterator[Started]:
    """A node of it that signs commands."""
    key = world / "keys" / "operator.key"
    with started(world, tmp_path / "node.log", "--operator-key", key) as found:
        yield found


def read(node: Started, path: str, token: str | None = None) -> httpx.Response:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    answer = httpx.get(node.url + path, headers=headers, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer


def ready(node: Started) -> Any:
    return read(node, "/readyz").json()


def ahead_s(node: Started, token: str | None = None) -> float:
    [found] = GAUGE.findall(read(node, "/metrics", token).text)
    return float(found)


def page_text(node: Started) -> str:
    """The page of the world."""
    with httpx.Client(base_url=node.url, headers={"accept": "text/html"}, timeout=120) as browser:
        [address] = set(re.findall(r'href="(/w/[^/"?]+)/?"', browser.get("/").text))
        answer = browser.get(address, follow_redirects=True)
    assert answer.status_code == 200
    return html.unescape(answer.text)


def test_a_clock_that_is_ahead_is_reported_until_it_is_set(world: Path, node: Started) -> None:
    """N-119, N-119a, PG-104a, C-29b, A-61a."""
    wait_until(lambda: ready(node)["clock_problem"] is not None)
    problem = ready(node)["clock_problem"]
    assert WARNING.fullmatch(problem), problem
    assert LEAP_NS - SLOW_NS < ahead_s(node) * 10**9 <= LEAP_NS
    assert WARNING.search(page_text(node))

    shown = here("clock", "--node", node.url)
    assert shown.code == 0
    assert "ahead" in shown.out
    assert WARNING.search(shown.err.replace("\n", " ")), shown.err
    document = here("clock", "--json", "--node", node.url).json
    served = read(node, "/v1/clock").json()
    assert set(document) == {*served, "seq"}
    assert (document["seq"], document["is_ahead"]) == (None, True)
    assert document["journal_ns"] == served["journal_ns"]
    assert LEAP_NS - SLOW_NS < document["ahead_ns"] <= LEAP_NS

    token = made(world, "operator", "read", "operate")
    commanded = here("clock", "--set", "--json", "--node", node.url, env={"AOS_TOKEN": token})

    assert commanded.code == 0, commanded.err
    after = commanded.json
    assert (after["is_ahead"], after["journal_ns"] < document["journal_ns"]) == (False, True)
    record = read(node, f"/v1/record?seq={after['seq']}", token).json()
    assert (record["kind"], record["action"]) == ("control", "clock")
    assert ready(node)["clock_problem"] is None
    assert ahead_s(node, token) == 0
    again = here("clock", "--set", "--node", node.url, env={"AOS_TOKEN": token})
    assert again.code == 1
    assert "the journal clock is not ahead of this machine's clock" in again.err
