"""tests/transcripts/stranger.txt is true: its commands, typed in order, print what it shows."""

from __future__ import annotations

import os
import runpy
import shutil
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest

from tests.author.real import NEWCOMERS, others_day
from tests.cookbook.test_tutorials import need_tools
from tests.cookbook.typed import bin_
from tests.cookbook.worlds import ROOT, recipe
from tests.run_core import run_core
from tests.transcripts.transcript import Typed, matches, read, run

__all__ = ["bin_"]

PORT: Final = "17471"
"""Of the bank, in the transcript and in the sources that it copies."""

CORES: Final = "core python, written by python"
"""The kernels that the transcript was made with; the test has those of its run."""


@pytest.fixture
def port() -> Iterator[str]:
    """The port on which the bank of the billing world answers."""
    bank = runpy.run_path(str(recipe("billing") / "bank.py"))["Bank"]
    with ThreadingHTTPServer(("127.0.0.1", 0), bank) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield str(server.server_port)
        server.shutdown()
        thread.join()


@pytest.mark.long
@others_day("stranger", NEWCOMERS)
def test_a_stranger_gets_through_the_first_day_with_the_commands_of_the_transcript(
    bin_: Path, port: str
) -> None:
    need_tools("rust")
    for folder in ("manifests", "modules"):
        shutil.copytree(
            ROOT / folder / "cookbook" / "billing", Path(folder) / "cookbook" / "billing"
        )
    config = Path("modules/cookbook/billing/src/config.rs")
    config.write_text(config.read_text().replace(PORT, port))
    typed = read(Path(__file__).with_name("stranger.txt"))

    found = run(
        [Typed(each.line, each.command.replace(PORT, port)) for each in typed],
        environment={
            **os.environ,
            "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{os.environ['PYTHONPATH']}{os.pathsep}{ROOT}",
        },
    )

    core = run_core().value
    assert len(found) == len(typed)
    for each, lines in zip(typed, found, strict=True):
        printed = [line.replace(port, PORT) for line in lines]
        wanted = [line.replace(CORES, f"core {core}, written by {core}") for line in each.expected]
        expected, shown = "\n".join(wanted), "\n".join(printed)
        assert matches(wanted, printed), (
            f"stranger.txt:{each.line}: $ {each.command}\nexpected:\n{expected}\nfound:\n{shown}"
        )


def test_a_transcript_that_says_something_else_is_found() -> None:
    printed = ["one", "two 2026-11-22T23:12:03.401Z", "three"]

    assert matches(["one", "two 2000-01-01T00:00:00.000Z", "three"], printed)
    assert matches(["one", "…"], printed)
    assert matches(["o…e", "…", "three"], printed)
    for wrong in (["one"], ["one", "three"], ["one", "…", "four"], [], ["…", "two"]):
        assert not matches(wrong, printed), wrong


def test_an_exit_code_is_a_part_of_what_a_command_prints() -> None:
    typed = [Typed(1, "echo a"), Typed(2, "echo b >&2; false"), Typed(3, "cd /; export X=1"),
             Typed(4, "echo $PWD $X")]  # fmt: skip

    found = run(typed, environment=os.environ)

    assert found == [["a"], ["b", "exit 1"], [], ["/ 1"]]
