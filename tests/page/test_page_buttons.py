"""The buttons of a node's page: each makes exactly one control record (spec/page.md, PG-60 to
PG-65)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from aos.core.journal.inputs import PIN
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Control
from aos.host.door.writer import open_writer
from aos.host.folder.reader import open_reader
from aos.page.page_links import key_segment
from aos.values.cbor import encode
from tests.cli.shell import here, in_silence
from tests.cli.test_commands import GARBAGE
from tests.copies import copied
from tests.host import puppet
from tests.host.conftest import template, world
from tests.node.test_node_process import Started, started
from tests.page.browser import Browser, read_page
from tests.page.conftest import HOSTILE
from tests.page.form_browser import FormBrowser, buttons, hidden, made

__all__ = ["template", "world"]

FAILED = tuple(f"f-{n}" for n in range(8))


@pytest.fixture(scope="module")
def resting(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cells that have failed and fail again when they are retried, one of them with a hostile key;
    one that waits for effects; and one that is pinned."""
    path = copied(template, tmp_path_factory.mktemp("shop") / "world")
    with open_writer(path) as writer:
        list(
            writer.send(
                [
                    *(puppet.do(key, GARBAGE) for key in (*FAILED, *HOSTILE)),
                    puppet.do("waits", puppet.asks("one", "two")),
                ]
            )
        )
    assert in_silence("run", "--until-waiting", "--world", path) == 0
    with open_writer(path) as writer:
        writer.apply(puppet.manifest(version=2), mode=PIN)
    return path


@pytest.fixture(scope="module")
def shop(resting: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of it, which the node runs."""
    return copied(resting, tmp_path_factory.mktemp("node") / "world")


@pytest.fixture(scope="module")
def secrets(shop: Path) -> dict[str, str]:
    return {
        "operator": made(shop, "operator", "read", "operate"),
        "reader": made(shop, "reader", "read", "send"),
    }


@pytest.fixture(scope="module")
def node(
    shop: Path, secrets: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Started]:
    assert secrets
    log = tmp_path_factory.mktemp("log") / "node.log"
    with started(shop, log, "--operator-key", shop / "keys" / "operator.key") as found:
        yield found


@pytest.fixture(scope="module")
def operator(node: Started, secrets: dict[str, str]) -> Iterator[FormBrowser]:
    browser = FormBrowser(node.url).open(secrets["operator"])
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def reader(node: Started, secrets: dict[str, str]) -> Iterator[FormBrowser]:
    browser = FormBrowser(node.url).open(secrets["reader"])
    yield browser
    browser.close()


def cell(key: str) -> str:
    return f"/cell/{puppet.PUPPET}/{key_segment(encode(key))}"


def controls(path: Path, key: str | None = None) -> list[Control]:
    """The control records of a world; of one cell."""
    with open_reader(path) as reader:
        return [
            each
            for frame in reader.store.frames(1)
            for each in map(from_bytes, frame.records)
            if isinstance(each, Control)
            and (key is None or each.cell == (puppet.PUPPET, encode(key)))
        ]


def effect(browser: FormBrowser) -> str:
    """The address of an open effect."""
    found = browser.get(f"{browser.base}/intents.json").json()["intents"]
    return f"/intent/{found[0]['intent'].removeprefix('blake3:')}"


def button(browser: FormBrowser, action: str) -> str:
    """The address of a form of this kind."""
    if action == "cancel":
        return f"{browser.base}{effect(browser)}/cancel"
    keys = {"retry": "f-0", "skip": "f-1", "unpin": "waits"}
    return f"{browser.base}{cell(keys[action])}/{action}"


@pytest.mark.parametrize("action", ["retry", "skip", "cancel", "unpin"])
def test_a_button_makes_one_control_record_however_often_it_is_pressed(
    shop: Path, operator: FormBrowser, action: str
) -> None:
    """PG-61, PG-62, PG-64"""
    address = button(operator, action)
    back = address.rpartition("/")[0]
    assert address in buttons(operator.get(back)).values()
    before = len(controls(shop))
    plan = operator.get(f"{address}.json").json()
    form = operator.form(address)

    first = operator.post(address, form)
    again = operator.post(address, form)

    assert (first.status_code, again.status_code) == (303, 303), first.text
    assert first.headers["location"] == again.headers["location"]
    record = operator.get(f"{first.headers['location']}.json").json()
    assert (record["kind"], record["action"]) == ("control", plan["action"])
    assert record["principal"] == "operator"
    assert len(controls(shop)) == before + 1
    assert operator.get(first.headers["location"]).status_code == 200


def test_two_presses_at_the_same_time_are_one(shop: Path, operator: FormBrowser) -> None:
    """PG-62"""
    address = f"{operator.base}{cell('f-2')}/retry"
    form = operator.form(address)
    before = len(controls(shop))
    found: list[httpx.Response] = []

    together(*[lambda: found.append(operator.post(address, form))] * 4)

    assert [each.status_code for each in found] == [303] * 4
    assert len({each.headers["location"] for each in found}) == 1
    assert len(controls(shop)) == before + 1


def together(*work: object) -> None:
    threads = [threading.Thread(target=each) for each in work]  # type: ignore[arg-type]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def test_two_forms_of_one_fault_are_one_command(shop: Path, operator: FormBrowser) -> None:
    """PG-62: the cell fails again, so a second retry would be possible."""
    address = f"{operator.base}{cell('f-3')}/retry"
    forms = [operator.form(address) for _ in range(3)]
    found: list[httpx.Response] = []

    together(*(lambda form=form: found.append(operator.post(address, form)) for form in forms))

    assert sorted(each.status_code for each in found) == [303, 409, 409]
    assert len(controls(shop, "f-3")) == 1
    late = next(each for each in found if each.status_code == 409)
    assert "this was done already" in late.text
    assert read_page(late).tags


def test_a_form_that_a_command_has_overtaken_is_stale(shop: Path, operator: FormBrowser) -> None:
    """PG-62"""
    address = f"{operator.base}{cell('f-4')}/retry"
    form = operator.form(address)
    assert here("cells", "retry", "puppet", "f-4", "--world", shop).code == 0

    late = operator.post(address, form)

    assert late.status_code == 409
    assert "form_is_stale" in late.text
    assert len(controls(shop, "f-4")) == 1
    assert operator.press(address).status_code == 303, "the new fault has a form of its own"
    assert len(controls(shop, "f-4")) == 2


@pytest.mark.parametrize("key", ["f-5", "f-6", "f-7"])
def test_a_button_and_the_command_at_the_same_time_are_one(
    shop: Path, operator: FormBrowser, key: str
) -> None:
    """PG-62"""
    address = f"{operator.base}{cell(key)}/skip"
    form = operator.form(address)
    words = ("cells", "retry", "puppet", key, "--skip", "--world", shop)
    page: list[int] = []
    shell: list[int] = []

    together(
        lambda: page.append(operator.post(address, form).status_code),
        lambda: shell.append(here(*words).code),
    )

    assert len(controls(shop, key)) == 1
    assert page[0] in (303, 409)
    assert (page[0] == 303) != (shell[0] == 0), (page, shell)


def test_without_the_scope_there_is_no_button_and_no_form(
    shop: Path, reader: FormBrowser, operator: FormBrowser
) -> None:
    """PG-60, PG-63"""
    before = len(controls(shop))
    for address in (cell("f-0"), "/faults", effect(operator), "/cells?status=failed"):
        page = reader.get(reader.base + address)
        assert page.status_code == 200
        assert buttons(page) == {}
    assert "aos cells retry" in reader.get(reader.base + cell("f-0")).text

    for address in (f"{cell('f-0')}/retry", f"{cell('f-0')}/skip", f"{effect(operator)}/cancel"):
        assert reader.get(reader.base + address).status_code == 403
        form = operator.form(operator.base + address)
        refused = reader.post(reader.base + address, form)
        assert (refused.status_code, "operate" in refused.text) == (403, True)
    assert len(controls(shop)) == before


def test_a_form_of_another_site_browser_or_page_is_refused(
    shop: Path, operator: FormBrowser, node: Started, secrets: dict[str, str]
) -> None:
    """PG-63"""
    address = f"{operator.base}{cell('f-0')}/retry"
    form, before = operator.form(address), len(controls(shop))
    other = FormBrowser(node.url).open(secrets["operator"])
    stranger = FormBrowser(node.url)

    def status(fields: object, browser: FormBrowser = operator, /, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return browser.post(address, fields, **named).status_code

    for site in ("cross-site", "same-site", "none", ""):
        assert status(form, sec_fetch_site=site) == 403
    for origin in ("http://evil.example", "null", "https://127.0.0.1:1", "http://localhost:1"):
        assert status(form, origin=origin) == 403
        assert status(form, origin=origin, sec_fetch_site="same-origin") == 403
    assert operator.client.post(address, data=form).status_code == 403, "no Origin at all"
    assert status(form, host="evil.example") == 403
    assert status(form, other) == 403
    assert status(form, stranger) == 401
    assert status(operator.form(f"{operator.base}{cell('f-0')}/skip")) == 403
    id, _, mac = form["form"].partition(".")
    for token in ("", "x", id, f"{id}.", f".{mac}", f"{mac}.{id}", f"{id[::-1]}.{mac}", "ü.ü"):
        assert status(form | {"form": token}) == 403
    assert len(controls(shop)) == before
    assert status(form, sec_fetch_site="same-origin") == 303
    assert len(controls(shop)) == before + 1
    for each in (other, stranger):
        each.close()


def test_a_form_that_was_sent_to_another_path_is_one_of_its_own_there(
    shop: Path, operator: FormBrowser
) -> None:
    """PG-62, PG-76: it is shown again with its id and what it has seen, which both forms share."""
    address = f"{operator.base}{cell('f-3')}"
    form, before = operator.form(f"{address}/retry"), len(controls(shop, "f-3"))
    shown = operator.post(f"{address}/skip", form)
    assert (shown.status_code, len(controls(shop, "f-3"))) == (403, before)
    other = hidden(shown)
    assert other["form"].partition(".")[0] == form["form"].partition(".")[0]

    assert operator.post(f"{address}/retry", form).status_code == 303
    late = operator.post(f"{address}/skip", other)

    assert (late.status_code, "form_is_stale" in late.text) == (409, True)
    commands = [(each.action, each.restamp) for each in controls(shop, "f-3")[before:]]
    assert commands == [("retry", True)]


def test_a_form_is_bounded_and_read_strictly(shop: Path, operator: FormBrowser) -> None:
    """PG-63"""
    address = f"{operator.base}{cell('f-0')}/retry"
    form, before = operator.form(address), len(controls(shop))

    def status(body: str) -> int:
        headers = {"origin": operator.url, "content-type": "application/x-www-form-urlencoded"}
        return operator.client.post(address, content=body, headers=headers).status_code

    assert operator.post(address, form | {"more": "x" * 4096}).status_code == 413
    assert status("a") == 400
    assert status("a=%ff") == 400
    assert status("a=1&a=2") == 400
    assert status("&".join(f"f{n}=1" for n in range(30))) == 400
    assert status("ü=1") == 400
    for seen in ("", "x", "-1", "9" * 30, "1.0", "<script>"):
        assert operator.post(address, form | {"seen": seen}).status_code == 400
    assert operator.post(address, form | {"seen": "1"}).status_code == 409
    assert operator.client.put(address, headers={"origin": operator.url}).status_code == 405
    assert len(controls(shop)) == before


def test_the_cookie_of_the_page_is_no_key_to_the_api(operator: FormBrowser) -> None:
    """PG-52, PG-63"""
    body = {"action": "retry", "workflow": puppet.PUPPET, "key": "f-0"}
    answer = operator.client.post("/v1/commands", json=body, headers={"origin": operator.url})
    assert (answer.status_code, answer.json()["rule"]) == (401, "token_is_missing")


def test_forms_of_hostile_keys_show_them_as_text(operator: FormBrowser, shop: Path) -> None:
    """PG-21, PG-61"""
    for key in HOSTILE:
        address = f"{operator.base}{cell(key)}/skip"
        page = operator.get(address)
        assert page.status_code == 200
        assert read_page(page).command is not None
        if "\n" not in key and "\x00" not in key and "\u202e" not in key:
            assert key in read_page(page).text
        assert operator.press(address).status_code == 303
        assert len(controls(shop, key)) == 1


def test_a_thing_that_is_not_there_has_no_form(operator: FormBrowser) -> None:
    """PG-61"""
    base = operator.base
    for path, status in (
        (f"{cell('none')}/retry", 404),
        ("/cell/host/none@1/-/retry", 404),
        (f"/cell/{puppet.PUPPET}/!/retry", 404),
        (f"{cell('waits')}/retry", 409),
        (f"/intent/{'0' * 64}/cancel", 404),
        (f"/intent/{'0' * 64}/retry", 404),
        (f"{effect(operator)}/retry", 409),
    ):
        found = operator.get(base + path)
        assert found.status_code == status, (path, found.text)
        assert read_page(found).tags


def test_without_a_key_of_an_operator_there_is_no_button(resting: Path, tmp_path: Path) -> None:
    """PG-60, PG-63"""
    path = copied(resting, tmp_path / "twin")
    secret = made(path, "operator", "read", "operate")
    with started(path, tmp_path / "log") as node:
        browser = FormBrowser(node.url).open(secret)
        page = browser.get(browser.base + cell("f-0"))
        assert page.status_code == 200
        assert buttons(page) == {}
        refused = browser.get(f"{browser.base}{cell('f-0')}/retry")
        assert (refused.status_code, "--operator-key" in refused.text) == (403, True)
        assert buttons(browser.get(f"{browser.base}/cells?status=failed")) == {}
        assert browser.get(f"{browser.base}/cells/retry").status_code == 403
        browser.close()


def test_the_page_without_a_node_has_no_form(resting: Path) -> None:
    """PG-1"""
    browser = Browser(resting)
    base = browser.get("/.json").json()["worlds"][0]["address"].rstrip("/")
    for form in (f"{cell('f-0')}/retry", f"{cell('waits')}/unpin", "/batch", "/send"):
        assert browser.get(base + form).status_code == 404
        assert browser.ask("POST", base + form).status_code == 405
    assert 'class="action"' not in browser.get(base + cell("f-0")).text
    browser.close()
