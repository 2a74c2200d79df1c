"""A node with an index of its journal: its page and its API, whichever process is killed
(spec/index.md, IX-61 to IX-66; spec/page.md, PG-50, PG-106)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from aos.host.door.writer import Item, open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos.node.kept_index import INDEXED_RECORDS
from aos.page.page_app import LINES
from aos.page.page_worlds import SLUG_DIGITS
from aos.read.index.cached_index import OF_NODE
from aos.values.cbor import encode
from tests.cli.shell import here, in_silence
from tests.copies import copied
from tests.host import puppet
from tests.host.puppet import PUPPET
from tests.node.test_node_process import WAIT_S, Started, post, started, wait_until
from tests.own_cache import use_own_cache
from tests.page.browser import Browser, patiently
from tests.read.index.index_oracle import read_at_head

CELLS: Final = 300

WRITER: Final = b"aos.node.kept_index"

PAGES: Final = (
    "cells.json?limit=5", "cells.json?sort=activity&limit=7&offset=2",
    "cells.json?key_prefix=c1&limit=3", "cells.json?status=waiting",
    "intents.json?status=all&limit=9", "intents.json?status=canceled", "intents.json?status=error",
    "intents.json?status=ok&effect=echo", "journal.json?workflow=puppet&key=c6",
    "journal.json?workflow=puppet&key=c6&from=1&kind=step", "journal.json?limit=3",
    "trace/12.json", f"trace/{PUPPET}/YmM2.json", "search.json?q=c29", "search.json?q=nothing",
)  # fmt: skip
"""Addresses below that of the world."""

API: Final = (
    ("/v1/cells?limit=5", "cells.json?limit=5"),
    ("/v1/cells?status=waiting", "cells.json?status=waiting"),
    ("/v1/intents?status=canceled", "intents.json?status=canceled"),
    ("/v1/records?workflow=puppet&key=c6", "journal.json?workflow=puppet&key=c6"),
    ("/v1/trace?seq=12", "trace/12.json"),
    (f"/v1/trace?workflow={PUPPET}&key=c6", f"trace/{PUPPET}/YmM2.json"),
)
"""Routes with the page that has the same document."""

COMMANDS: Final = (
    ["inspect", "cells", "--key-prefix", "c1"],
    ["inspect", "intents", "--status", "canceled"],
    ["inspect", "journal", "--workflow", "puppet", "--key", "c6"],
    ["trace", "12"],
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world of more than 10,000 records: most are events that no cell takes."""
    path = tmp_path_factory.mktemp("large") / "world"
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(puppet.manifest())
        word = Item(schema="host/Word@1", value=encode({"word": "hello"}))
        list(writer.send([word] * INDEXED_RECORDS))
        outs = (None, puppet.asks("hello"))
        list(writer.send([puppet.do(f"c{number}", outs[number % 2]) for number in range(CELLS)]))
        list(writer.send([puppet.do("c6"), puppet.do("c6", b"\xff")]))
    assert in_silence("run", "--until-idle", "--world", path) == 0
    with open_reader(path) as reader:
        assert reader.seq > INDEXED_RECORDS
        some = list(reader.state.intents)[:12]
    with open_writer(path) as writer:
        for number, intent in enumerate(some):
            match number % 3:
                case 0:
                    writer.control("cancel", intent=intent)
                case 1:
                    given = encode({"word": "done"})
                    writer.control("settle", intent=intent, status="ok", payload=given)
                case _:
                    given = encode({"code": "closed", "message": "no", "retryable": False})
                    writer.control("settle", intent=intent, status="error", payload=given)
    assert in_silence("run", "--until-idle", "--world", path) == 0
    return path


class Compared:
    """A node, and what a page without an index shows of the same world."""

    def __init__(self, path: Path, plain: Browser) -> None:
        self.path = path
        self.base = f"/w/{open_folder(path).world.hex()[:SLUG_DIGITS]}"
        self._plain = plain
        self._expected: dict[str, Any] = {}

    def expect(self) -> None:
        """Read what there is now without an index."""
        answers = {address: self._plain.get(f"{self.base}/{address}") for address in PAGES}
        assert {each.status_code for each in answers.values()} == {200}
        self._expected = {address: document(each) for address, each in answers.items()}

    def check(self, node: Started) -> None:
        """Compare the documents of the page and of the API."""
        with httpx.Client(
            base_url=node.url, timeout=WAIT_S, trust_env=False, verify=False
        ) as client:
            for address, expected in self._expected.items():
                answer = patiently(partial(client.get, f"{self.base}/{address}"))
                assert answer.status_code == 200, (address, answer.text)
                assert document(answer) == expected, address
            for route, address in API:
                found = client.get(route)
                assert found.status_code == 200, (route, found.text)
                assert document(found) == self._expected[address], route

    def has_index(self, node: Started) -> bool:
        """Whether the front reads by an index: without one, a node counts no minutes (PG-104)."""
        with (
            httpx.Client(
                base_url=node.url, timeout=WAIT_S, trust_env=False, verify=False
            ) as client,
            contextlib.suppress(httpx.TransportError),
        ):
            return "Records a minute" in client.get(f"{self.base}/").text
        return False

    def is_whole(self) -> bool:
        """Whether the index in the folder of the node is of all records."""
        with (
            open_reader(self.path) as reader,
            read_at_head(self.path / OF_NODE, reader.store, reader.state) as found,
        ):
            return found is not None and found.as_of == reader.seq


def document(answer: httpx.Response) -> Any:
    """The document of an answer, without what depends on the moment at which it was made. Records
    of the journal are lines on the page, and one document of the API."""
    if answer.headers["content-type"].startswith(LINES):
        return [json.loads(line) for line in answer.text.splitlines()]
    found = answer.json()
    return found["records"] if "records" in found else without_times(found)


def without_times(found: Any) -> Any:
    """A document without what depends on the moment at which it was made."""
    if isinstance(found, dict):
        left = {"age_ns", "cases"}
        return {name: without_times(each) for name, each in found.items() if name not in left}
    return [without_times(each) for each in found] if isinstance(found, list) else found


def writers(node: Started) -> list[int]:
    """The process ids of the processes that keep the index."""
    fronts = node.fronts()
    return [pid for front in fronts for pid in children(front, WRITER)]


def children(parent: int, word: bytes) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        pids = [
            int(pid)
            for each in Path(f"/proc/{parent}/task").glob("*/children")
            for pid in each.read_text().split()
        ]
        found = [pid for pid in pids if word in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found


@pytest.fixture
def large(template: Path, tmp_path: Path) -> Path:
    return copied(template, tmp_path / "world")


@pytest.fixture
def compared(large: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Compared]:
    use_own_cache(monkeypatch, None)
    plain = Browser(large)
    yield Compared(large, plain)
    plain.close()


def test_a_node_shows_the_same_whatever_happens_to_its_index(
    compared: Compared, tmp_path: Path
) -> None:
    """PG-106, IX-61, IX-62, IX-64: before the index is whole, with it, after a kill of the process
    that writes it and of the front, and after a restart."""
    path, log = compared.path, tmp_path / "log"
    with started(path, log) as node:
        compared.expect()
        compared.check(node)
        wait_until(lambda: compared.has_index(node))
        assert compared.is_whole()
        compared.check(node)

        with httpx.Client(base_url=node.url, timeout=WAIT_S, verify=False) as client:
            for number in range(20):
                post(client, f"c{number}")
        compared.expect()
        compared.check(node)

        [writer] = writers(node)
        os.kill(writer, signal.SIGKILL)
        compared.check(node)
        wait_until(lambda: writers(node) not in ([], [writer]) and compared.has_index(node))
        compared.check(node)

        [front] = node.fronts()
        os.kill(front, signal.SIGKILL)
        wait_until(lambda: node.fronts() not in ([], [front]) and compared.has_index(node))
        compared.check(node)
        assert len(writers(node)) == 1

        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(WAIT_S) == 0
        wait_until(lambda: not children(front, WRITER))
    said = log.read_text()
    assert "the process that keeps the index has ended; it is started again" in said
    assert "rebuilt" not in said, "each process continued the index of the one before"
    assert "Traceback" not in said

    by_index = [here(*words, "--json", "--world", path).out for words in COMMANDS]
    assert compared.is_whole()
    (path / OF_NODE).rename(tmp_path / "index")
    plain = [here(*words, "--json", "--world", path).out for words in COMMANDS]
    assert by_index == plain
    (tmp_path / "index").rename(path / OF_NODE)

    with started(path, log) as node:
        compared.expect()
        wait_until(lambda: compared.has_index(node))
        compared.check(node)
        node.process.kill()
        wait_until(lambda: not node.fronts())
    assert "rebuilt" not in log.read_text()
    assert in_silence("verify", "--world", path) == 0


def test_a_node_without_a_place_for_its_index_says_so_without_its_path(
    compared: Compared, tmp_path: Path
) -> None:
    """PG-51, PG-106, PG-108: and shows the same."""
    (compared.path / OF_NODE.parent).mkdir(mode=0o700)
    (compared.path / OF_NODE).write_text("no folder")
    with (
        started(compared.path, tmp_path / "log") as node,
        httpx.Client(base_url=node.url, timeout=WAIT_S, trust_env=False, verify=False) as client,
    ):
        compared.expect()
        address = f"{compared.base}/cells"
        wait_until(lambda: "This world has no index now: DIR/node/" in client.get(address).text)
        assert str(compared.path) not in client.get(address).text
        compared.check(node)
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_small_world_of_a_node_has_no_index(tmp_path: Path) -> None:
    """IX-63"""
    path = tmp_path / "world"
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(puppet.manifest())
    with started(path, tmp_path / "log") as node:
        with httpx.Client(base_url=node.url, timeout=WAIT_S, verify=False) as client:
            post(client, "a")
            slug = open_folder(path).world.hex()[:SLUG_DIGITS]
            assert "The index of this world" not in client.get(f"/w/{slug}/cells").text
        assert writers(node) == []
    assert not (path / OF_NODE).exists()
