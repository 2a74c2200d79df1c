"""manifests/gateway/README.md is true: its commands work as typed, and its tables are complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3
from chain import Chain

from aos_gateway.waits import CODES, HELD
from tests.cookbook import typed
from tests.cookbook.typed import bin_, blocks, follow
from tests.cookbook.worlds import ROOT
from tests.gateway import GATEWAY
from tests.gateway.real_chain import require_anvil
from tests.tools import long_form

__all__ = ["bin_"]

PAGE = GATEWAY / "README.md"
EVIDENCE = b'{"result": 42}\n'

FASTER = {
    "chain.py up chain ": "chain.py up chain --block-time 0.2 ",
    "--evidence report.json": "--evidence report.json --arweave-conf 2",
}
"""Shorter blocks and a shallower upload, which change nothing but the time."""


@pytest.fixture
def chain(bin_: Path) -> Iterator[Path]:
    """The folder of the chain that the page starts, in the empty folder that is the current one."""
    require_anvil()
    for folder in ("manifests", "modules"):
        Path(folder).symlink_to(ROOT / folder)
    yield Path("chain")
    if Path("chain/chain.json").exists():
        Chain.open(Path("chain")).down()


def script() -> str:
    """The commands of the page, with the key that their reader puts in the place of KEY. In short:
    the first work alone, on a faster chain."""
    typed_blocks = blocks(PAGE)
    if not long_form():
        start, work, *_, end = typed_blocks
        typed_blocks = [start, work, end]
    found = "\n".join(typed_blocks)
    for slow, fast in {} if long_form() else FASTER.items():
        assert slow in found
        found = found.replace(slow, fast)
    return re.sub(r"\bKEY\b", f"31337/$STUDIO/0x{blake3(EVIDENCE).hexdigest()}", found)


SHOWN = (
    r"ready: `\. chain/env` sets the variables",
    r"applied as record 2",
    r"^work\t31337/0x\w+/0x\w+\nid\t",
    r"state\tCOMPLETED(.|\n)*why\tthe record is COMPLETED",
    r"the programs of chain have ended",
)
SHOWN_IN_FULL = (
    r"score\tCOMPLETED(.|\n)*score\tCOMPLETED(.|\n)*epoch\tCOMPLETED",
    r'"steps": 8(.|\n)*"findings": \[\]',
    r"byte-identical",
    r"^lane \S+: record \d+\n(?:.*\n)?work \S+: record \d+\nscore \S+: record \d+\n",
    r"work\tSTALLED \(parked\)\tUPLOAD_EVIDENCE\ta new manifest",
    r"(work\tCOMPLETED(.|\n)*){2}the programs of chain have ended",
)


@pytest.mark.long
def test_the_page_as_an_operator_types_it(
    bin_: Path, chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typed, "ENDS_S", 600.0)

    found = follow(script(), bin_=bin_)

    for each in (*SHOWN, *(SHOWN_IN_FULL if long_form() else ())):
        assert re.search(each, found, re.MULTILINE), f"{each}\n{found}"
    assert not Chain.open(chain).running()


def cells(heading: str) -> list[list[str]]:
    """The rows of every table with this first line, without its head."""
    tables = re.findall(
        rf"^{re.escape(heading)}\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text("utf-8"), re.MULTILINE
    )
    rows = [row for table in tables for row in table.splitlines()]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def written(text: str) -> str:
    """A remedy as the page writes it: a value's name in capitals."""
    return re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), text)


def test_the_page_has_every_error_code_with_the_same_advice() -> None:
    rows = cells("| code | meaning | what to do |")

    assert sorted(row[0] for row in rows) == sorted(CODES)
    for code, meaning, remedy in rows:
        assert meaning == CODES[code].meaning
        if (known := CODES[code].remedy) is not None:
            assert remedy == written(known)
        else:
            assert remedy in ("nothing", "`aos gateway resume KEY`")


def test_the_page_has_every_code_of_a_held_effect_with_the_same_advice() -> None:
    assert dict(cells("| code | what to do |")) == {
        code: written(remedy) for code, remedy in HELD.items()
    }


def test_the_page_lists_the_files_of_its_folder() -> None:
    rows = cells("| file | contents |")

    assert len(rows) > 5
    for file, _ in rows:
        assert (GATEWAY / file.strip("`")).exists(), file
