"""Text from outside stays text on every page (EX-75, EX-76)."""

from __future__ import annotations

import re
from copy import deepcopy
from functools import cache
from html.parser import HTMLParser

import pytest

from aos.core.journal.vocabulary import CELL_STATUSES
from aos.prove.replay.journal_source import source_of_store
from aos.prove.report.audit_report import audit_report
from aos.prove.report.html_page import html_page
from aos.prove.report.markdown_page import markdown_page
from aos.prove.report.page_layout import TEXT_MAX, visible
from aos.prove.report.report_part import ReportDocument
from aos.prove.verify.verify import verify_store
from tests.core.desk import cell_id, tell
from tests.prove.desks import Desk
from tests.prove.journals import store_of

TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "h1", "nav", "ul", "li", "a",
    "section", "h2", "p", "dl", "dt", "dd", "figure", "figcaption", "table", "thead", "tr", "th",
    "tbody", "td", "code", "details", "summary", "time",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "href", "id", "class", "scope",
    "data-label",
}  # fmt: skip
VOID = {"meta"}

ATTACKS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</td></tr></table></main><h1>all is well</h1>",
    "<!--",
    "]]>",
    "&lt;script&gt;",
    "{{7*7}}${7*7}",
    "\x1b[2J\x1b[31m",
    "\u202egnp.exe",
    "a\u200bb\ufeffc\u2066d\U000e0041",
    "\n\n# Verify: sound\n\n| a | b |\n|---|---|\n",
    "**bold** _it_ `code` ~~gone~~ ![x](http://evil.example/p.png) [y](javascript:alert(1))",
    "| a | b |",
    "``` `` `",
    "1. one",
    "+ plus",
    "https://evil.example/ and www.evil.example and me@evil.example",
    "x" * 5000,
]  # fmt: skip


class Page(HTMLParser):
    """The elements of a page; every element must be closed where it should be."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.values: list[tuple[str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.values += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


@cache
def told() -> ReportDocument:
    """A report with a failed cell and a command."""
    world = Desk()
    tell(world, "told", note="fail")
    world.command("end", cell=cell_id("told"), status="failed", why="because")
    store = store_of(world)
    return audit_report(source_of_store(store), verify_store(store))


def report_with(text: str) -> ReportDocument:
    """A report that shows ``text`` as a key, a reason, a principal, and more."""
    found = deepcopy(told())
    found["faults"]["list"][0]["cell"]["key"] = text
    found["faults"]["list"][0]["message"] = text
    found["commands"]["list"][0]["summary"] = f"end by {text}"
    found["open"]["cells"]["by_workflow"] = {text: dict.fromkeys((*CELL_STATUSES, "idle"), 1)}
    found["replay"] = {"identical": False, "message": text}
    found["commands"]["counts"][0]["principal"] = text
    found["identity"]["genesis"]["operators"][0]["name"] = text
    found["manifests"]["list"][0]["authority"].append(text)
    found["manifests"]["list"][0]["principal"] = text
    found["verify"]["findings"] = [{"kind": text, "frame": 1, "record": None, "message": text}]
    found["verify"]["sound"] = False
    found["verify"]["left_out"] = 3
    found["executors"].append(
        {
            "name": text,
            "first": 1,
            "in_force": True,
            "effects": [text],
            "keys": [
                {
                    "key": text,
                    "state": "signs",
                    "first": 1,
                    "receipts": 0,
                    "frames": 0,
                    "last_signed": None,
                }
            ],
        }
    )
    return found


@pytest.mark.parametrize("text", ATTACKS)
def test_a_hostile_text_adds_no_element_to_the_html(text: str) -> None:
    page = Page()
    source = html_page(report_with(text))
    page.feed(source)
    page.close()

    assert page.open == []
    assert page.tags <= TAGS
    assert page.attributes <= ATTRIBUTES
    assert not re.search(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", source
    )
    assert visible(text) in " ".join(page.text)
    links = [value for name, value in page.values if name == "href"]
    assert all(re.fullmatch("#[a-z]+", each) for each in links)


@pytest.mark.parametrize("text", ATTACKS)
def test_a_hostile_text_stays_in_its_place_in_markdown(text: str) -> None:
    plain = markdown_page(report_with("plain"))
    page = markdown_page(report_with(text))

    assert shape(page) == shape(plain)
    outside = re.sub(r"(`+).*?(?<!`)\1(?!`)", "", page)
    assert not re.search(r"(?<!\\)[<>]|(?<!\\)!?(?<!\\)\[|(?<!\\)://|www\.", outside)
    assert "\x1b" not in page
    assert "\u202e" not in page


def shape(page: str) -> list[str]:
    """The kind of each line, and the number of cells in a row of a table."""
    found = []
    for line in page.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line))
        found.append(f"{line[:2] if line[:1] in '#-' else '|' if cells else 'text'} {cells}")
    return found


def test_a_page_loads_and_runs_nothing() -> None:  # EX-75
    source = html_page(report_with("x"))

    assert "default-src 'none'" in source
    assert not re.search(r"(?i)<script|<link|<iframe|<img|url\(|@import|javascript:", source)
    assert "prefers-color-scheme:dark" in source


def test_every_character_of_a_text_can_be_seen() -> None:  # EX-76
    assert visible("a\x00\u202e\U000e0001\ud800\n") == "a\\u0000\\u202e\\U000e0001\\ud800\\u000a"
    assert visible("grün ½ 日本 😀") == "grün ½ 日本 😀"
    assert len(visible("x" * (TEXT_MAX + 1))) == TEXT_MAX
