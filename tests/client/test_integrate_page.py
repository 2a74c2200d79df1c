"""spec/guides/integrate.md is true: its scripts run against a world, and print what it quotes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from aos.node.running import LISTEN
from tests.cookbook.typed import bin_, blocks, follow
from tests.cookbook.worlds import ROOT
from tests.node.nodes import front, running_kernel

__all__ = ["bin_"]

PAGE: Final = ROOT / "spec" / "guides" / "integrate.md"
SCRIPTS: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT: Final = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_scripts_of_the_page_print_the_output_that_it_shows(bin_: Path) -> None:
    for name in ("manifests", "modules"):
        Path(name).symlink_to(ROOT / name)
    [commands] = blocks(PAGE)
    book, copy, _ = SCRIPTS.findall(PAGE.read_text("utf-8"))
    booked, waits, copied, *_ = OUTPUT.findall(PAGE.read_text("utf-8"))
    Path("book_trip.py").write_text(book)
    Path("copy_bookings.py").write_text(copy)

    printed = lines(follow(commands, bin_=bin_))
    # The journal is read from the store: the process that ran the world has ended.
    first = follow("python copy_bookings.py\n", bin_=bin_)
    again = follow("python copy_bookings.py\n", bin_=bin_)

    assert [line for line in printed if line in lines(booked)] == lines(booked)
    assert first == again == copied
    assert all(line.startswith("world.wait(") for line in waits.splitlines())


def test_the_script_of_the_page_books_over_http(trips: Path, bin_: Path, tmp_path: Path) -> None:
    *_, book = SCRIPTS.findall(PAGE.read_text("utf-8"))
    *_, started, booked = OUTPUT.findall(PAGE.read_text("utf-8"))
    script = started.splitlines()[1].split()
    assert script[:2] == ["python", "book_over_http.py"]
    assert script[2] == f"http://{LISTEN.host}:{LISTEN.port}"
    Path("book_over_http.py").write_text(book)

    with running_kernel(trips) as kernel, front(trips, tmp_path / "front", kernel) as node:
        words = " ".join([*script[:2], node.url, *script[3:]])
        printed = follow(f"{words}\n", bin_=bin_)

    # This world has only this trip.
    assert printed.splitlines() == [line for line in booked.splitlines() if line[:3] == script[3]]


def lines(text: str) -> list[str]:
    """The lines without sequence numbers, which depend on the order of the receipts."""
    return [re.sub(r"record \d+", "record N", line) for line in text.splitlines()]
