"""Turn a page of the repository, which GitHub can show, into one that MkDocs can show.

Python-Markdown wants the content of a list item indented by four spaces. The site also gets links
that the repository has in another form: rules by number, pages as code, and files of source code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

RULE: Final = r"[A-Z]{1,3}-\d+[a-z]?"
DEFINED: Final = re.compile(rf"^(?:- |\| )\*\*({RULE})\*\*", re.MULTILINE)
"""A rule where its page specifies it: it begins an item of a list, or a row of a table."""

_MARKER: Final = re.compile(r"(?:[-*]|(\d+)\.) +(?=\S)")
_PARTS: Final = re.compile(
    rf"""
      (?P<fence>^\ *```.*?^\ *```$)
    | (?P<indented>(?<=\n\n)(?:\ {{4}}[^\n]*\n)+)
    | (?P<heading>^\#[^\n]*$)
    | (?P<code>(?P<ticks>`+)(?!`)(?:(?!\n\n).)+?(?<!`)(?P=ticks)(?!`))
    | \[(?P<words>(?:[^\]\[`]|`[^`]*`)*)\]\((?P<target>[^)\s]+)\)
    | (?P<defined>(?<=^-\ |^\|\ )\*\*{RULE}\*\*)
    | (?<![\w/-])(?P<rule>{RULE})(?![\w-])
    """,
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where the links of one page lead.

    ``rules`` is the address of each rule, seen from this page. ``named`` is the address of a page
    that is named as code, or None. ``target`` is the address on the site for one in the repository,
    or None for a link that the site does not have.
    """

    rules: Mapping[str, str]
    named: Callable[[str], str | None]
    target: Callable[[str], str | None]


def converted(text: str, links: Links) -> str:
    """The text for MkDocs."""
    return _indented(_linked(text, links))


def anchor(rule: str) -> str:
    return rule.lower()


def _linked(text: str, links: Links) -> str:
    def replaced(part: re.Match[str]) -> str:
        if part["code"]:
            page = links.named(part["code"].strip("`"))
            return part[0] if page is None else f"[{part[0]}]({page})"
        if part["target"]:
            target = links.target(part["target"])
            return part["words"] if target is None else f"[{part['words']}]({target})"
        if part["defined"]:
            return f"{part[0]}{{ #{anchor(part[0].strip('*'))} }}"
        if part["rule"] in links.rules:
            return f"[{part['rule']}]({links.rules[part['rule']]})"
        return part[0]

    return _PARTS.sub(replaced, text)


@dataclass(slots=True)
class _Item:
    """An item of a list that is open: where its content begins in the source, and on the site."""

    source: int
    site: int


def _indented(text: str) -> str:
    """Indent the content of each item by four spaces for each list that it is in."""
    return "\n".join(_indented_lines(text))


def _indented_lines(text: str) -> Iterator[str]:
    items: list[_Item] = []
    fence = ""
    is_after_blank, is_item_text = True, False
    for line in text.split("\n"):
        content = line.lstrip(" ")
        spaces = len(line) - len(content)
        if fence:
            shift = items[-1].site - items[-1].source if items else 0
            yield " " * (spaces + shift) + content if content else ""
            fence = "" if content.startswith(fence) else fence
            continue
        if not content:
            yield ""
            is_after_blank = True
            continue
        marker = _MARKER.match(content)
        if marker and not is_after_blank and not _begins_item(marker, items, spaces):
            # A number at the beginning of a line, in the middle of a sentence.
            marker, content = None, content.replace(".", r"\.", 1)
        if marker or is_after_blank:
            while items and spaces < items[-1].source:
                items.pop()
        if marker and not is_after_blank and not is_item_text:
            yield ""  # without it, the item would be a part of this paragraph
        if marker or is_after_blank:
            is_item_text = marker is not None
        shift = items[-1].site - items[-1].source if items else 0
        yield " " * (max(spaces, items[-1].source if items else 0) + shift) + content
        if marker:
            items.append(_Item(source=spaces + len(marker[0]), site=4 * (len(items) + 1)))
        fence = content[:3] if content.startswith("```") else ""
        is_after_blank = False


def _begins_item(marker: re.Match[str], items: list[_Item], spaces: int) -> bool:
    """Whether a marker in the line after a text begins an item: a number does if it is 1, or if an
    item of its list is open."""
    is_first = marker[1] in (None, "1")
    return is_first or any(item.source - spaces == len("1. ") for item in items)
