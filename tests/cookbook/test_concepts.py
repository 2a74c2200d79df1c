"""spec/concepts.md is true: its commands are run in order, and print the lines that it quotes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.cookbook.typed import bin_, blocks, follow
from tests.cookbook.worlds import ROOT

__all__ = ["bin_"]

PAGE: Final = ROOT / "spec" / "concepts.md"
OUTPUT: Final = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVICE: Final = re.compile(r"^\.venv/bin/python (manifests/\S+ .*) &\n", re.MULTILINE)
PORT: Final = "7461"
VARIES: Final = (
    (r"[0-9a-f]{64}|[0-9a-f]{8}…", "HASH"),
    (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME"),
    (r"[0-9.]+ s\b", "SECONDS"),
    (r"of [0-9,]+ bytes", "SIZE"),
    (r"\(core \w+, written by \w+\)", "CORES"),
    (r"\s+", " "),
)


def comparable(line: str) -> str:
    """A line without hashes and times, which differ from world to world, and without the kernels:
    tests use one (tests/conftest.py)."""
    for pattern, name in VARIES:
        line = re.sub(pattern, name, line)
    return line.strip()


@contextmanager
def shop(arguments: str) -> Iterator[str]:
    """The demo's service on a free port: its port."""
    command = [sys.executable, *arguments.replace(f"--port {PORT}", "--port 0").split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            yield service.stdout.readline().strip().rpartition(":")[2]
        finally:
            service.terminate()


def test_the_concepts_page_quotes_the_output_of_its_own_commands(bin_: Path) -> None:
    for folder in ("manifests", "modules"):
        Path(folder).symlink_to(ROOT / folder)

    printed = ""
    for block in blocks(PAGE):
        if service := SERVICE.search(block):
            with shop(service[1]) as port:
                commands = SERVICE.sub("", block).replace(PORT, port)
                printed += follow(commands, bin_=bin_)
        else:
            printed += follow(block, bin_=bin_)

    found = [comparable(line) for line in printed.splitlines()]
    quotes = [line for quote in OUTPUT.findall(PAGE.read_text()) for line in quote.splitlines()]
    assert len(quotes) > 20
    for quote in quotes:
        begin, shortened, end = comparable(quote).partition(",… ")
        assert any(
            line.startswith(begin) and line.endswith(end) if shortened else line == begin
            for line in found
        ), f"{quote}\n{printed}"


def test_every_term_of_the_concepts_page_is_in_the_glossary() -> None:
    terms = set(re.findall(r"\*\*(\w+)\*\*", PAGE.read_text()))
    glossary = (ROOT / "spec" / "glossary.md").read_text()

    assert {"world", "manifest", "AIR", "workflow", "cell", "event", "effect"} <= {
        term if term == "AIR" else term.lower() for term in terms
    }
    known = {term.lower() for term in re.findall(r"\*\*([\w -]+)\*\*", glossary)}
    assert {term.lower() for term in terms} <= known
