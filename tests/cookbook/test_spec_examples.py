"""The examples at the beginning of the pages of spec/ are real."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from aos.values.cbor import decode_record
from aos.worker.load_executors import load
from tests.cookbook.worlds import ROOT

SPEC: Final = ROOT / "spec"


def fenced(page: str, language: str) -> str:
    """The first block of code in ``language`` on a page."""
    found = re.search(
        rf"^```{language}\n(.*?)^```$", (SPEC / page).read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None, page
    return found[1]


@pytest.mark.parametrize("page", ["kernel.md", "audit.md"])
def test_output_that_other_pages_quote_is_output_of_the_concepts_page(page: str) -> None:
    # test_concepts.py proves that page by running its commands.
    proved = (SPEC / "concepts.md").read_text().splitlines()
    quoted = [line for line in fenced(page, "text").splitlines() if not line.startswith("$ ")]

    assert quoted
    assert [line for line in quoted if line not in proved] == []


def test_the_record_in_the_journal_page_is_the_one_of_the_vectors() -> None:
    vectors = json.loads((SPEC / "vectors" / "journal.json").read_text())
    record = decode_record(bytes.fromhex(vectors["proof"]["record"]))
    notation = fenced("journal.md", "text")
    shown = json.loads(re.sub(r"h'([0-9a-f]*)(…?)'", r'"\1\2"', notation))

    assert isinstance(record, dict)
    assert set(shown) == set(record)
    assert is_shown(shown, record)


def is_shown(shown: Any, value: Any) -> bool:
    """Whether the notation shows this value. It may shorten bytes and leave out the end of a
    list."""
    if isinstance(value, bytes):
        start = shown.removesuffix("…")
        return value.hex().startswith(start) and (shown != start or value.hex() == shown)
    if isinstance(value, dict):
        return set(shown) == set(value) and all(is_shown(shown[key], value[key]) for key in shown)
    if isinstance(value, list):
        return bool(shown) and all(map(is_shown, shown, value))
    return bool(shown == value)


def test_the_function_in_the_executors_page_is_an_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "warehouse.py").write_text(fenced("executors.md", "python"))

    [found] = load("warehouse.py:reserve").effects.values()

    assert found.name == "shop/stock.reserve@1"
    assert (found.concurrency, found.attempts, found.timeout_s) == (4, 3, 10)
