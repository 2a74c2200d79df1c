"""Forms of a node's page while its processes are killed (spec/page.md, PG-62, PG-69, PG-73,
PG-76).

At every moment between the form and its answer, each form of each kind makes at most one record or
batch, and one that was answered is there after the restart.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest

from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Control, Event
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.reader import open_reader
from aos.node.batches.batch import BatchFiles
from aos.page.page_links import key_segment
from aos.values.cbor import encode
from aos.values.digests import parse_hash
from tests.cli.shell import in_silence
from tests.cli.test_commands import GARBAGE
from tests.copies import copied
from tests.host import puppet
from tests.host.conftest import template, world
from tests.node.nodes import front, running_kernel
from tests.node.test_node_process import Started, is_alive, started, wait_until
from tests.page.browser import read_page
from tests.page.form_browser import FormBrowser, hidden, made
from tests.page.test_send_form import Filled, do, events, record_of, text_of
from tests.tools import long_form

__all__ = ["template", "world"]

SHOWN, ANSWERED = "after the form was shown", "after the answer"
MOMENTS: tuple[str | float, ...] = (SHOWN, 0.0, 0.004, 0.02, ANSWERED)
"""When a process is killed: as named, or so many seconds after the button was pressed."""


@pytest.fixture(scope="module")
def shop(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For each moment and each process: cells that have failed, and an effect that is open."""
    path = copied(template, tmp_path_factory.mktemp("killed") / "world")
    names = [name(victim, moment) for victim in ("front", "node") for moment in MOMENTS]
    with open_writer(path) as writer:
        failing = [puppet.do(f"{each}-{kind}", GARBAGE) for each in names for kind in "rsb"]
        list(writer.send([*failing, puppet.do("waits", puppet.asks(*names))]))
    assert in_silence("run", "--until-waiting", "--world", path) == 0
    return path


@pytest.fixture(scope="module")
def secret(shop: Path) -> str:
    return made(shop, "ann", "read", "operate", "send")


def moments(*short: int) -> list[str | float]:
    """All moments, or in the short form of a test those with these numbers."""
    return [each for n, each in enumerate(MOMENTS) if n in short or long_form()]


def name(victim: str, moment: str | float) -> str:
    return f"{victim}{MOMENTS.index(moment)}"


@dataclass
class Press:
    """One form in a browser. ``count`` is how many records have come of it."""

    address: str
    count: Callable[[], int]
    query: str = ""
    text: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    answer: httpx.Response | None = None

    def show(self, browser: FormBrowser) -> None:
        self.fields = browser.form(self.address + self.query)
        if self.text is not None:
            self.fields["value"] = self.text

    def send(self, browser: FormBrowser) -> None:
        with contextlib.suppress(httpx.HTTPError):
            self.answer = browser.post(self.address, self.fields)

    @property
    def location(self) -> str | None:
        """The record that was answered."""
        if self.answer is None or self.answer.status_code != 303:
            return None
        return self.answer.headers["location"]


def presses(path: Path, browser: FormBrowser, of: str, number: int) -> list[Press]:
    """A form of each kind, for one moment."""
    base = browser.base

    def records() -> Iterator[object]:
        with open_reader(path) as found:
            yield from (
                from_bytes(each) for frame in found.store.frames(1) for each in frame.records
            )

    def controls(key: str) -> int:
        cell = (puppet.PUPPET, encode(key))
        return sum(isinstance(each, Control) and each.cell == cell for each in records())

    def address(key: str) -> str:
        return f"{base}/cell/{puppet.PUPPET}/{key_segment(encode(key))}"

    intents = browser.get(f"{base}/intents.json?status=all&limit=50").json()["intents"]
    hash = sorted(each["intent"] for each in intents)[number]
    intent = parse_hash(hash)

    def batches() -> int:
        found, damaged = BatchFiles(open_folder(path)).load()
        assert damaged == []
        return sum(f"key = {of}-b" in (each.order.where or "") for each in found)

    return [
        Press(f"{address(f'{of}-r')}/retry", lambda: controls(f"{of}-r")),
        Press(f"{address(f'{of}-s')}/skip", lambda: controls(f"{of}-s")),
        Press(
            f"{base}/intent/{hash.partition(':')[2]}/cancel",
            lambda: sum(isinstance(each, Control) and each.intent == intent for each in records()),
        ),
        Press(f"{base}/cells/retry", batches, query=f"?where=key+%3D+{of}-b"),
        Press(
            f"{base}/send",
            lambda: sum(
                isinstance(each, Event)
                and isinstance(each.value, bytes)
                and f"{of}-sent".encode() in each.value
                for each in records()
            ),
            query=f"?schema={puppet.DO}",
            text=do(f"{of}-sent"),
        ),
    ]


def kill_while(
    browser: FormBrowser, forms: list[Press], moment: str | float, kill: Callable[[], None]
) -> None:
    """Show forms, press their buttons, and kill a process at this moment."""
    for each in forms:
        each.show(browser)
    if moment == SHOWN:
        kill()
        return
    threads = [threading.Thread(target=each.send, args=[browser]) for each in forms]
    for thread in threads:
        thread.start()
    if moment != ANSWERED:
        time.sleep(float(moment))
        kill()
    for thread in threads:
        thread.join()
    if moment == ANSWERED:
        kill()
        assert all(each.location for each in forms)


def check(browser: FormBrowser, each: Press) -> None:
    """Check the world after the restart, and after the old form was sent again."""
    before = each.count()
    assert before <= 1
    if each.location is not None:
        assert browser.get(f"{each.location}.json").status_code == 200
        assert before == 1, "it was answered"

    old = browser.post(each.address, each.fields)
    assert old.status_code in ((403,) if before == 0 else (403, 404, 409)), old.text
    assert each.count() == before, "an old form changes nothing"
    page = read_page(old)
    if each.text is not None:
        assert (old.status_code, text_of(old)) == (403, each.text)
        again = browser.post(each.address, hidden(old) | {"value": each.text})
        assert again.status_code == 303, again.text
        assert each.location in (None, again.headers["location"])
    elif before == 0:
        assert "press the button again" in page.text
        assert browser.post(each.address, hidden(old)).status_code == 303
    elif old.status_code != 403:
        assert each.address.rpartition("/")[0] in page.links, "to continue with"
    assert each.count() == 1


@pytest.mark.long
def test_a_form_makes_one_record_while_the_front_is_killed(
    shop: Path, secret: str, tmp_path: Path
) -> None:
    """PG-62, PG-69, PG-73, PG-76"""
    options = ("--operator-key", shop / "keys" / "operator.key")
    chosen = moments(0, 2)
    for some in filter(None, (chosen[:3], chosen[3:])):  # the fifth quick death would be the last
        with started(shop, tmp_path / "log", *options) as node:
            for moment in some:
                browser = FormBrowser(node.url).open(secret)
                forms = presses(shop, browser, name("front", moment), MOMENTS.index(moment))
                kill_while(browser, forms, moment, partial(kill_front, node))

                late = browser.post(forms[0].address, forms[0].fields)
                assert late.status_code == 401, "the session has ended with the front"
                assert "/open" in read_page(late).links
                browser.open(secret)
                for each in forms:
                    check(browser, each)
                browser.close()


def kill_front(node: Started) -> None:
    [pid] = node.fronts()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: node.fronts() not in ([], [pid]))


@pytest.mark.long
def test_a_form_makes_one_record_while_the_node_is_killed(
    shop: Path, secret: str, tmp_path: Path
) -> None:
    """PG-62, PG-69, PG-73, PG-76"""
    options = ("--operator-key", shop / "keys" / "operator.key")
    forms: list[Press] = []
    for moment in (*moments(2, 4), None):
        with started(shop, tmp_path / "log", *options) as node:
            browser = FormBrowser(node.url).open(secret)
            for each in forms:
                check(browser, each)
            if moment is not None:
                number = len(MOMENTS) + MOMENTS.index(moment)
                forms = presses(shop, browser, name("node", moment), number)
                kill_while(browser, forms, moment, partial(kill_node, node))
            browser.close()


def kill_node(node: Started) -> None:
    fronts = node.fronts()
    node.process.kill()
    for pid in fronts:
        wait_until(lambda pid=pid: not is_alive(pid))


def test_a_text_is_kept_while_no_kernel_answers(template: Path, tmp_path: Path) -> None:
    """PG-73, PG-74: a text of 600 KB, which may have been sent; it is sent once."""
    path = copied(template, tmp_path / "world")
    text = json.dumps({"key": "large", "out": "AAAA" * 150_000})
    with contextlib.ExitStack() as stack:
        kernel = stack.enter_context(running_kernel(path, executors=False))
        node = stack.enter_context(
            front(path, tmp_path / "front", kernel, module="aos.page.node_page")
        )
        browser = FormBrowser(node.url)
        form = Filled(browser)
        kernel.kill()
        kernel.wait()

        refused = form.send(text)

        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert text_of(refused) == text
        assert "may have been sent" in read_page(refused).text
        assert events(path) == []

        stack.enter_context(running_kernel(path, executors=False))
        first = record_of(form.send(text))
        assert record_of(form.send(text)) == first
        assert [each.seq for each in events(path)] == [first]
        browser.close()
