"""Hostile text, addresses and clients (spec/page.md, PG-20 to PG-28)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.page.page_headers import HEADERS, LINES
from aos.page.page_links import key_segment, read_key_segment
from aos.page.page_server import PageProtocol
from aos.page.page_table import PAGES
from aos.page.page_text import TEXT_MAX
from aos.values.cbor import encode
from tests.page.browser import HOST, Browser, crawled, read_page
from tests.page.conftest import HOSTILE
from tests.page.hostile import FEW, hostile_world
from tests.tools import long_form

SOURCES = Path(__file__).parents[2] / "kernel" / "aos" / "page"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def locked(lived_in: Path) -> Iterator[Browser]:
    browser = Browser(lived_in, needs_token=True)
    yield browser
    browser.close()


# Text of a journal


def test_hostile_text_is_shown_and_does_nothing_on_any_page(
    page: Browser, addresses: dict[str, str]
) -> None:
    """PG-21: ``read_page`` refuses scripts, handlers, styles and foreign addresses, and finds
    each tag that ends too early."""
    shown = ""
    for address in addresses:
        answer = page.get(address)
        if answer.headers.get("content-type", "")[:9] == "text/html":
            assert not CONTROL.search(answer.text), address
            found = read_page(answer)
            assert "49" not in found.text or "{{" not in found.text.split("49")[0][-9:]
            shown += found.text
    for key in HOSTILE:
        visible = "".join(f"\\u{ord(sign):04x}" if CONTROL.match(sign) else sign for sign in key)
        assert visible in shown, key


@pytest.mark.long
def test_every_page_of_a_world_in_which_every_text_is_hostile_is_read_strictly(
    tmp_path: Path,
) -> None:
    """PG-21: a browser looks at the same pages in ``in_browser/test_hostile_pages.py``."""
    path = tmp_path / "<b>world"
    world = hostile_world(path) if long_form() else hostile_world(path, FEW, lives=1)
    browser = Browser(world)
    try:
        for address in crawled(browser, f"/w/{next(iter(browser.worlds._worlds))}/"):
            answer = browser.get(address)
            if answer.headers.get("content-type", "")[:9] == "text/html":
                assert not CONTROL.search(answer.text), address
                assert len(answer.content) < 20 * TEXT_MAX, address
    finally:
        browser.close()


def test_a_key_in_an_attribute_stays_in_it(page: Browser, base: str) -> None:
    """PG-21"""
    for key in HOSTILE:
        answer = page.get(f"{base}cells?key_prefix={quote(key)}")

        assert answer.status_code == 200
        assert read_page(answer).text.count("Key begins with") == 1


def test_long_text_is_cut_with_a_link_to_all_of_it(page: Browser, base: str) -> None:
    """PG-21"""
    [row] = page.get(f"{base}intents.json?key_prefix=large").json()["intents"]
    address = f"{base}intent/{row['intent'].removeprefix('blake3:')}"

    answer = page.get(address)

    assert len(answer.content) < 6 * TEXT_MAX
    assert f"{address}.json" in read_page(answer).links
    assert len(page.get(f"{address}.json").content) > 1_000_000


def test_the_templates_turn_off_no_escaping_and_have_no_script(page: Browser) -> None:
    """PG-21"""
    assert page.app is not None
    for path in [*SOURCES.rglob("*.html"), *SOURCES.rglob("*.py")]:
        text = path.read_text("utf-8")
        for word in ("|safe", "| safe", "Markup", "autoescape false", "autoescape=False"):
            assert word not in text, f"{path}: {word}"
        if path.suffix == ".html":
            assert not re.search(r"\s(on[a-z]+|style)=", text), path
            assert not re.search(r"=\s*{{", text.replace("{% set", "")), f"{path}: quote it"


def test_a_value_is_only_ever_an_attachment(
    page: Browser, base: str, addresses: dict[str, str]
) -> None:
    """PG-25"""
    record = next(
        each
        for each in page.get(f"{base}journal.json?limit=1000").text.splitlines()
        if '"$large"' in each or "blob_ref" in each
    )
    assert record
    values = [
        link
        for address in addresses
        if "/record/" in address
        for link in read_page(page.get(address)).links
        if "/value/" in link
    ]
    assert values

    answer = page.get(f"{values[0]}/bytes")

    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith('attachment; filename="')
    assert len(answer.content) > 1024


# Requests


def routes(base: str) -> list[str]:
    paths = [each.path.format(ns="host", name="puppet@1", key="Y2FkYQ", word="3") for each in PAGES]
    more = ["/", "/open", "/open?token=x", "/static/page.css", "/static/no", "/no", "/w/no/"]
    below = [base.rstrip("/") + path for path in [*paths, "/search?q=a", "/value/00/bytes"]]
    return [*more, *below, *(f"{each.partition('?')[0]}.json" for each in below)]


def test_every_answer_of_every_route_has_the_headers(
    page: Browser, locked: Browser, base: str
) -> None:
    """PG-20"""
    for browser in (page, locked):
        for address in routes(base):
            for method in ("GET", "HEAD", "POST", "DELETE"):
                answer = browser.ask(method, address)
                for name, value in HEADERS:
                    assert answer.headers.get_list(name) == [value], (method, address, name)
    assert PageProtocol.refusal_headers == LINES


def test_nothing_but_reading_is_possible(page: Browser, base: str) -> None:
    """PG-1"""
    for address in routes(base):
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            answer = page.ask(method, address)
            assert answer.status_code == 405, (method, address)
            assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"}, {"host": "evil.example:7470"}, {"host": "127.0.0.1:80"},
        {"host": "localhost.evil.example:7470"}, {"origin": "http://evil.example"},
        {"origin": "null"}, {"origin": f"https://{HOST}.evil.example"},
    ],
)  # fmt: skip
def test_a_foreign_host_or_origin_is_refused(
    page: Browser, base: str, headers: dict[str, str]
) -> None:
    """PG-23"""
    answer = page.ask("GET", base, headers)

    assert answer.status_code == 403
    assert ">ada<" not in answer.text


def test_the_own_names_are_accepted(page: Browser, base: str) -> None:
    """PG-23"""
    for host in ("localhost:7470", "127.0.0.1:7470", "[::1]:7470"):
        assert page.get(base, host=host, origin=f"http://{host}").status_code == 200


def test_an_address_of_more_than_8_kib_is_refused(page: Browser, base: str) -> None:
    """PG-22"""
    fits = page.get(f"{base}search?q={'a' * (8192 - len(base) - len('searchq='))}")
    longer = page.get(f"{base}search?q={'a' * 8192}")

    assert (fits.status_code, longer.status_code) == (200, 414)


def test_a_header_that_is_given_twice_is_refused(page: Browser) -> None:
    """PG-23"""
    scope = {
        "type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"",
        "scheme": "http", "server": ("127.0.0.1", 7470),
        "headers": [(b"host", HOST.encode()), (b"host", b"evil.example")],
    }  # fmt: skip

    [start, _] = page.raw(scope)

    assert start["status"] == 400


@given(
    path=st.text(max_size=40),
    query=st.text(alphabet="abk=&%?+;\x00\u202e1<\"'", max_size=30),
    name=st.sampled_from(["cell/", "trace/", "value/", "record/", "manifest/", "proposals/", ""]),
)
def test_no_address_is_a_bug(page: Browser, base: str, path: str, query: str, name: str) -> None:
    """PG-22: any address has a page, or a refusal with a sentence."""
    address = f"{base}{name}{quote(path, safe='/%')}?{quote(query, safe='=&%;+')}"

    answer = page.get(address)

    assert answer.status_code < 500, (address, answer.text)
    if answer.status_code == 200 and answer.headers["content-type"][:9] == "text/html":
        read_page(answer)


def test_the_address_of_a_cell_is_that_of_the_specification() -> None:
    """PG-5"""
    assert key_segment(encode("o-1")) == "Y28tMQ"
    assert key_segment(b"") == "-"


@given(st.binary(max_size=24))
def test_a_key_is_read_back_from_its_segment(key: bytes) -> None:
    """PG-5"""
    assert read_key_segment(key_segment(key)) == key


def test_a_key_of_a_cell_that_is_not_there_is_not_found(page: Browser, base: str) -> None:
    """PG-5, PG-81"""
    for segment in (key_segment(encode("none")), "-", "%%%", "AA", key_segment(encode(7)), "e"):
        answer = page.get(f"{base}cell/host/puppet@1/{quote(segment)}")
        assert answer.status_code == 404, segment
    answer = page.get(f"{base}cell/host/puppet@1/{key_segment(encode('none'))}")
    trace = f"{base}trace/host/puppet@1/{key_segment(encode('none'))}"
    assert trace in read_page(answer).links
    assert page.get(trace).status_code == 200


# Opening it


def test_the_link_opens_the_page_once(locked: Browser) -> None:
    """PG-24"""
    token = locked.session.token
    assert locked.get("/").status_code == 401
    assert locked.get("/.json").status_code == 401

    opened = locked.get(f"/open?token={token}")

    assert (opened.status_code, opened.headers["location"]) == (303, "/")
    cookie = opened.headers["set-cookie"]
    assert cookie.startswith("aos_page_7470=")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert token is not None
    assert token not in cookie
    value = cookie.partition(";")[0]
    assert locked.get("/", cookie=value).status_code == 200
    assert locked.get("/", cookie=f"a=b; {value}").status_code == 200
    again = locked.get(f"/open?token={token}")
    assert (again.status_code, "set-cookie" in again.headers) == (401, False)


def test_another_cookie_or_token_opens_nothing(locked: Browser) -> None:
    """PG-24"""
    for cookie in ("", "aos_page_7470=", "aos_page_7470=x", "aos_page_7471=x", "a=b;;;="):
        assert locked.ask("GET", "/", {"cookie": cookie}).status_code == 401, cookie
    for query in ("", "?token=", "?token=x", "?token=x&token=y", "?token=\xe9"):
        assert locked.get(f"/open{query}").status_code == 401
    assert locked.session.token is not None, "a wrong token does not use up the right one"


# The world


def test_the_page_changes_nothing_in_the_folder_of_a_world(lived_in: Path) -> None:
    """PG-2"""
    before = hashes(lived_in)
    browser = Browser(lived_in)
    try:
        [slug] = browser.worlds._worlds
        for address in crawled(browser, f"/w/{slug}/"):
            browser.get(address)
            browser.get(f"{address.partition('?')[0].rstrip('/')}.json")
        browser.get(f"/w/{slug}/cells?at=9")
    finally:
        browser.close()

    assert hashes(lived_in) == before


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock.mdb"
    }
