"""spec/guides/statuses.md has every status, outcome and phase, and a page links only to pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from aos.core.journal.vocabulary import CELL_STATUSES, OUTCOMES, PHASES, STATUSES

GUIDES: Final = Path(__file__).parents[2] / "spec" / "guides"
README: Final = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize("word", sorted({*CELL_STATUSES, *OUTCOMES, *PHASES, *STATUSES}))
def test_each_status_outcome_and_phase_is_explained(word: str) -> None:
    assert f"`{word}`" in (GUIDES / "statuses.md").read_text("utf-8")


@pytest.mark.parametrize("page", sorted(GUIDES.glob("*.md")), ids=lambda page: page.name)
def test_each_link_of_a_guide_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))

    assert [each for each in links if not (page.parent / each).exists()] == []


def test_the_readme_leads_to_every_guide() -> None:
    text = README.read_text("utf-8")

    assert [
        page.name for page in GUIDES.glob("*.md") if f"(spec/guides/{page.name})" not in text
    ] == []
