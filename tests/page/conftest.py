"""Worlds to look at, and pages over them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aos.core.journal.inputs import PIN
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.values.cbor import Value, encode
from tests.cli.shell import in_silence
from tests.host import puppet
from tests.node.test_node_process import Started, started
from tests.page.browser import Browser, crawled
from tests.page.form_browser import FormBrowser, made
from tests.page.operated import operated_world, work_on
from tests.page.part_worlds import governed_world

TIMER, PUT = "sys/timer.set@1", "sys/blob.put@1"
EFFECTS = (puppet.ECHO, TIMER, PUT)
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% if 1 %}{# x #}",
    "]]>&lt;b&gt;&#x3c;",
    "\u202egnp.exe\u2066",
    "bell\x07esc\x1b[31mnul\x00end",
    "../../etc/passwd?a=1&b=2#c",
    "line\nbreak\ttab",
)
"""Keys that would do something in a page that did not escape them."""


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No world by chance, and no colours."""
    for name in ("AOS_WORLD", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture(scope="session")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cells that count, wait, fail and settled effects, under two manifests; and hostile words."""
    path = tmp_path_factory.mktemp("page") / "world"
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(puppet.manifest(effects=EFFECTS))
        list(
            writer.send(
                [
                    puppet.do("ada", submission_id="first"),
                    puppet.do("bob"),
                    puppet.do("ada"),
                    puppet.do("wait", puppet.asks("hello")),
                    puppet.do("bad", b"\xff"),
                    puppet.trap("trap"),
                    puppet.do(
                        "stored",
                        puppet.asks_for(
                            (PUT, {"bytes": b"x" * 5000, "blob_ref": None, "refs": None})
                        ),
                    ),
                    puppet.do("soon", puppet.asks_for((TIMER, {"deliver_at_ns": 1, "key": None}))),
                ]
            )
        )
    assert in_silence("run", "--until-idle", "--world", path) == 0
    with open_writer(path) as writer:
        writer.apply(puppet.manifest(version=2, effects=EFFECTS), mode=PIN)
        list(
            writer.send(
                [
                    *(puppet.do(key, puppet.asks(key)) for key in HOSTILE),
                    puppet.do("large", puppet.asks("<b>" * 345_000)),
                    puppet.do("deep", encode(_nested(60))),
                ]
            )
        )
    assert in_silence("run", "--until-idle", "--world", path) == 0
    return path


def _nested(levels: int) -> Value:
    found: Value = "<script>"
    for _ in range(levels):
        found = [found]
    return found


@pytest.fixture(scope="session")
def page(lived_in: Path) -> Iterator[Browser]:
    browser = Browser(lived_in)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def base(page: Browser) -> str:
    """The address of the world's pages."""
    return str(page.get("/.json").json()["worlds"][0]["address"])


@pytest.fixture(scope="session")
def addresses(page: Browser, base: str) -> dict[str, str]:
    """Every page of the world, by following the links."""
    return crawled(page, base)


@pytest.fixture(scope="session")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The world of ``operated_node``."""
    return operated_world(tmp_path_factory.mktemp("operated") / "world")


@pytest.fixture(scope="session")
def secrets(operated: Path) -> dict[str, str]:
    """The tokens of the node."""
    return {
        "operator": made(operated, "operator", "read", "operate"),
        "reader": made(operated, "reader", "read", "send"),
        "worker": made(operated, "worker", "work"),
    }


@pytest.fixture(scope="session")
def operated_node(
    operated: Path, secrets: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Started]:
    """A node with tokens and a key of an operator."""
    assert secrets
    log = tmp_path_factory.mktemp("log") / "node.log"
    key = operated / "keys" / "operator.key"
    with started(operated, log, "--operator-key", key) as found:
        yield found


@pytest.fixture(scope="session")
def tasks(operated_node: Started, secrets: dict[str, str]) -> list[str]:
    """A task that a worker has, one that is held, and one that is parked."""
    return work_on(operated_node.url, secrets["worker"])


@pytest.fixture(scope="session")
def operator(operated_node: Started, secrets: dict[str, str]) -> Iterator[FormBrowser]:
    """A browser with the token of an operator."""
    browser = FormBrowser(operated_node.url).open(secrets["operator"])
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def reader(operated_node: Started, secrets: dict[str, str]) -> Iterator[FormBrowser]:
    """A browser with the token of a reader."""
    browser = FormBrowser(operated_node.url).open(secrets["reader"])
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def governed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """See ``governed_world``. Tests that change it copy it."""
    return governed_world(tmp_path_factory.mktemp("governed") / "governed")
