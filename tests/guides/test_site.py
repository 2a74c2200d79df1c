"""The site of ``make docs`` has every page, every command and every link, and needs no network."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from spec.site import pages
from spec.site.commands import FOLDER, command_pages
from spec.site.dialect import Links, converted

from aos_cli import registry
from aos_cli.lazy_group import LazyCommand
from tests.cookbook.worlds import ROOT
from tests.page.in_browser.chromium import browser
from tests.tools import missing

EVERY = list(pages.repository_pages())
DOCS = ROOT / ".venv" / "docs"
LOADED = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc="?([^"\s>]+)|<link[^>]*>""")
"""Elements that make a browser load something. A link that a reader follows is none."""


FOR_DEVELOPERS = re.compile(
    r"kernel/aos|\btests/|cite (?:these )?(?:rules|numbers)|\bA test \w+s\b"
)
FIRST_WORDS = re.compile(r".*?(?=\n## |\n\||\n```|\Z)", re.DOTALL)


def test_no_guide_begins_with_the_code_or_the_tests_of_aos() -> None:
    """Their readers use AOS, and the first words are for them."""
    groups = {name: group for part in pages.navigation(EVERY) for name, group in part.items()}
    beginnings = {
        path: FIRST_WORDS.match((ROOT / path).read_text("utf-8"))
        for name in ("Start", "Guides", "Tutorials")
        for path in flat(groups[name])
    }

    assert len(beginnings) > 15
    assert [
        path for path, text in beginnings.items() if text and FOR_DEVELOPERS.search(text[0])
    ] == []


@pytest.fixture(scope="module")
def reference() -> Mapping[str, str]:
    return command_pages()


def test_every_page_is_in_one_group_with_the_guides_first_and_the_rules_last() -> None:
    groups = pages.navigation(EVERY)

    names = [name for group in groups for name in group]
    assert names[:2] == ["Start", "Guides"]
    assert names[-1] == "Rules"
    assert sorted(flat(groups)) == sorted(EVERY)


def test_a_new_page_of_the_specification_and_of_the_cookbook_is_on_the_site() -> None:
    new = ["spec/guides/new.md", "spec/new.md", "manifests/cookbook/new/README.md"]

    placed = set(flat(pages.navigation([*EVERY, *new])))

    assert placed >= set(new)


def test_a_page_that_no_group_has_is_refused_with_its_path() -> None:
    with pytest.raises(ValueError, match=r"no group .* has \['elsewhere/new.md'\]"):
        pages.navigation(["elsewhere/new.md"])


def flat(group: object) -> list[str]:
    if isinstance(group, str):
        return [group]
    parts = group.values() if isinstance(group, dict) else group
    assert not isinstance(parts, str)
    return [path for part in parts for path in flat(part)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", registry.COMMANDS, ids=lambda command: command.path)
def test_the_reference_has_every_command_with_its_options_and_examples(
    command: registry.Command, reference: Mapping[str, str]
) -> None:
    page = reference[f"{command.path.split()[0]}.md"]
    heading = re.search(rf"^#+ aos {re.escape(command.path)}(?: \{{.*)?$", page, re.MULTILINE)
    assert heading is not None

    section = page[heading.end() :].split("\n## ")[0]

    if not command.is_group:
        for parameter in LazyCommand(command).load().params:
            spelling = parameter.opts[0]
            if spelling.startswith("-"):
                assert f"| `{spelling}" in section
        for example in command.examples:
            assert example in section


def test_the_reference_lists_each_command_on_its_first_page(
    reference: Mapping[str, str],
) -> None:
    for command in registry.below(""):
        assert f"[`aos {command.path}`]({command.name}.md)" in reference["README.md"]


RULES = {"K-1": "kernel.md#k-1", "K-2": "#k-2"}
LINKS = Links(
    rules=RULES,
    named={"kernel.md": "kernel.md"}.get,
    target={"a.md": "b.md", "folder": None}.get,
)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("see K-1 to K-3", "see [K-1](kernel.md#k-1) to K-3"),
        ("`K-1` and\n# K-1", "`K-1` and\n# K-1"),
        ("- **K-2** A rule.", "- **K-2**{ #k-2 } A rule."),
        ("| **K-2** | K-1 |", "| **K-2**{ #k-2 } | [K-1](kernel.md#k-1) |"),
        ("`kernel.md`, `x.md`", "[`kernel.md`](kernel.md), `x.md`"),
        ("[K-1](a.md) [x](folder)", "[K-1](b.md) x"),
        ("```\nK-1 `a\n```\n", "```\nK-1 `a\n```\n"),
        ("\n\n    aos K-1\n", "\n\n    aos K-1\n"),
    ],
)
def test_rules_and_pages_become_links_but_not_in_code(source: str, shown: str) -> None:
    assert converted(source, LINKS) == shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("- a\n  b\n- c", "- a\n    b\n- c"),
        ("- a\n  - b\n    c\n  d", "- a\n    - b\n        c\n        d"),
        ("- a:\n  1. b\n  2. c", "- a:\n    1. b\n    2. c"),
        ("- a\n\n  b\n- c", "- a\n\n    b\n\n- c"),
        ("- a\n\n  b\n  - c", "- a\n\n    b\n\n    - c"),
        ("- a\n  405. b", "- a\n    405\\. b"),
        ("- a\n\n  ```sh\n  b\n\n  c\n  ```\n", "- a\n\n    ```sh\n    b\n\n    c\n    ```\n"),
        ("- a\n\nb\n  c", "- a\n\nb\n  c"),
        ("```\n- a\n  b\n```", "```\n- a\n  b\n```"),
    ],
)
def test_the_content_of_an_item_is_indented_by_four_spaces(source: str, shown: str) -> None:
    assert converted(source, LINKS) == shown


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site as ``make docs`` builds it: with a broken link, it would not be built."""
    if not (DOCS / ".ready").exists():
        missing("MkDocs is not installed, so no site is built: make docs")
    build = tmp_path_factory.mktemp("build")
    pages.main([str(build)])
    done = subprocess.run(
        [DOCS / "bin/mkdocs", "build", "--quiet", "--strict", "-f", build / "site-pages.yml"],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return build / "site"


@pytest.mark.long
def test_the_site_can_be_read_and_searched_from_the_disk_without_a_network(site: Path) -> None:
    origin = site.as_uri()
    with browser() as chromium:
        for width, is_dark in ((1280, False), (375, True)):
            chromium.window(width, 900, is_dark=is_dark)
            for page in ("index.html", f"{FOLDER}/inspect.html", "spec/kernel.html"):
                sight = chromium.visit(f"{origin}/{page}")
                assert sight.happened == [], page
                assert sight.width == sight.view, page
        chromium.window(1280, 900)
        chromium.visit(f"{origin}/spec/guides/deploy.html")
        chromium.click("input[name=query]")
        chromium.type("--dry-run")
        ends = time.monotonic() + 90
        while "matching document" not in (sight := chromium.look()).text:
            assert time.monotonic() < ends, "the search does not answer"
            time.sleep(0.1)

    assert sight.happened == []
    assert "aos apply" in sight.text


@pytest.mark.long
def test_no_page_of_the_site_loads_anything_from_elsewhere(site: Path) -> None:
    files = list(site.rglob("*.html"))
    loaded = {
        element[0]
        for file in files
        for element in LOADED.finditer(file.read_text("utf-8"))
        if "//" in (element[1] or element[0]) and 'rel="canonical"' not in element[0]
    }

    assert len(files) > 100
    assert loaded == set()
