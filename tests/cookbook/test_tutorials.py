"""The tutorials are true word for word: the test types their commands in an empty folder, and finds
their quotations in the project that results."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from tests.author import real
from tests.author.real import NEWCOMERS, TUTORIALS, check_tools, others_day
from tests.cookbook.typed import bin_, blocks, follow
from tests.cookbook.worlds import ROOT
from tests.free_ports import free_ports
from tests.tools import long_form, missing

__all__ = ["bin_"]

PAGES: Final = {
    "rust": ROOT / "modules" / "sdk-rust" / "TUTORIAL.md",
    "assemblyscript": ROOT / "modules" / "sdk-assemblyscript" / "TUTORIAL.md",
}
QUOTED: Final = {
    "rust": {"rust": "src/lib.rs", "python": "effects.py"},
    "assemblyscript": {"json": "air/*.air.json", "ts": "assembly/index.ts", "python": "effects.py"},
}
SHOWN: Final = (
    r"build/shop\.wasm  ",
    r"1 scenario passed",
    r"shop/order@1\to-1\tcompleted",
    r"shop/order@1\tslow-2\tcompleted",
    r"emits shop/Paid@1 [^\n]*slow-2",
    r"byte-identical",
    r"2 of 8 steps come out otherwise",
    r"not the same",
    r"emits shop/Delayed@1 [^\n]*slow-3",
)
README: Final = ROOT / "README.md"
FIRST_WORKFLOW: Final = re.compile(r"^## A first workflow\n(.*?)^## ", re.MULTILINE | re.DOTALL)
FIRST_FLOW: Final = re.compile(r"^## A first flow\n(.*?)^## ", re.MULTILINE | re.DOTALL)
INDENTED: Final = re.compile(r"(?:^    \S.*\n)+", re.MULTILINE)


FLOW: Final = ROOT / "modules" / "sdk-rust" / "FLOW.md"
SHOWN_OF_FLOWS: Final = (
    r"ship-or-cancel/ship/ship\tstep\tpending\t1\t",
    r"waits at ship-or-cancel/cancel/asked for parcels/Cancel@1",
    r"charge\tparcels/refund@1\tregistered",
    r"rollback canceled: too late",
    r"charge\tparcels/refund@1\tdone",
    r"asks parcels/refund@1 at charge/~undo",
    r"applied as record \d+\n.*\nrefused\n.*applied as record \d+\n",
    r"1 flow in progress",
    r"parcels/order@1\tlate-2\tfailed",
    r"parcels/order@1\to-3\tsleeping",
    r"with-grace\tversion\tcompleted",
    r"\ngrace\tsleep\trunning",
    r"\ngrace\tsleep\tcompleted",
    r"\nmonth\tsleep\trunning",
)


PYTHON_FLOW: Final = ROOT / "modules" / "pyflow" / "TUTORIAL.md"
SHOWN_OF_PYTHON_FLOWS: Final = (
    r"build/parcels\.wasm  .*1 scenario passed",
    *SHOWN_OF_FLOWS,
    r"byte-identical",
    r"gift resumes with the entry that failed .*\nflow\tparcels/order@1 gift\nstatus\tsleeping",
)
RECORD: Final = re.compile(r"record \d+")


def need_tools(lang: str) -> None:
    if shutil.which("patch") is None:
        missing("there is no patch, so the tutorials cannot be followed")
    check_tools(lang)


@pytest.mark.long
@pytest.mark.parametrize(
    "lang", [pytest.param(lang, marks=others_day(lang, TUTORIALS)) for lang in PAGES]
)
def test_a_tutorial_is_true_word_for_word(
    lang: str, bin_: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And the built project is as every other should be."""
    need_tools(lang)
    page, empty = PAGES[lang], Path.cwd()

    found = "".join(follow(block, bin_=bin_) for block in blocks(page))

    for each in SHOWN:
        assert re.search(each, found), f"{each}\n{found}"
    passed = re.findall(r"(\d+) passed in", capfd.readouterr().out)
    assert passed == ["6", "7"], "the reader's own test is there the second time"
    for kind, name in QUOTED[lang].items():
        files = sorted((empty / "shop").glob(name))
        there = [_lines("\n".join(file.read_text() for file in files))]
        quotes = re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        assert quotes
        for quote in quotes:
            assert any(_lines(quote) in text for text in there), f"{name} has no\n{quote}"
    real.is_small_and_names_no_path(empty / "shop/build/shop.wasm")
    real.is_up_to_date(empty / "shop")
    real.makes_the_same_bytes_in_another_place(empty / "shop", tmp_path / "quite another place")
    real.shows_what_the_compiler_says(empty / "shop", lang)


@pytest.mark.long
@others_day("flow", TUTORIALS)
def test_the_tutorial_of_flows_is_true_word_for_word(bin_: Path) -> None:
    need_tools("rust")
    project = Path.cwd() / "parcels"

    first, *others = blocks(FLOW)
    found = follow(first, bin_=bin_)
    code = _lines((project / "src/lib.rs").read_text())
    found += "".join(follow(block, bin_=bin_) for block in others)

    for each in SHOWN_OF_FLOWS:
        assert re.search(each, found, re.DOTALL), f"{each}\n{found}"
    quotes = re.findall(r"^```rust\n(.*?)^```$", FLOW.read_text(), re.MULTILINE | re.DOTALL)
    assert len(quotes) == 2
    for quote in quotes:
        assert _lines(quote) in code, f"src/lib.rs has no\n{quote}"


@pytest.mark.long
@others_day("python flow", TUTORIALS)
def test_the_tutorial_of_flows_in_python_is_true_word_for_word(
    bin_: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    need_tools("python")
    project, page = Path.cwd() / "parcels", PYTHON_FLOW.read_text()

    first, *others = blocks(PYTHON_FLOW)
    output = follow(first, bin_=bin_)
    code = _lines((project / "flow.py").read_text())
    output += "".join(follow(block, bin_=bin_, with_messages=True) for block in others)

    assert re.findall(r"(\d+) passed in", capfd.readouterr().out) == ["10"]
    for pattern in SHOWN_OF_PYTHON_FLOWS:
        assert re.search(pattern, output, re.DOTALL), f"{pattern}\n{output}"
    shown = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(shown) == 3
    for text in shown:
        assert _words(text) in _words(output), f"{text}\n{output}"
    quotes = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(quotes) == 3
    for quote in quotes:
        assert _lines(quote) in code, f"flow.py has no\n{quote}"


def _words(text: str) -> str:
    """The text without its line ends and its numbers of records, which depend on the timers."""
    return " ".join(RECORD.sub("record N", text).split())


def _lines(text: str) -> str:
    """Remove the space at both ends of each line, and empty lines."""
    return "\n" + "\n".join(line.strip() for line in text.splitlines() if line.strip()) + "\n"


@pytest.mark.long
@others_day("workflow", NEWCOMERS)
@pytest.mark.parametrize("lang", PAGES if long_form() else ["rust"])
def test_a_newcomer_gets_to_a_running_workflow_with_the_commands_of_the_readme(
    lang: str, bin_: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    need_tools(lang)
    section = FIRST_WORKFLOW.search(README.read_text())
    assert section is not None
    plain = re.sub(r"^```.*?^```", "", section[1], flags=re.MULTILINE | re.DOTALL)
    typed = [_unindented(block) for block in INDENTED.findall(plain)]
    new, dev, world = (block.replace("--lang rust", f"--lang {lang}") for block in typed)

    follow(new, bin_=bin_)
    assert "6 passed" in capfd.readouterr().out
    # A reader ends it with Ctrl-C.
    command, _, events = dev.partition("\n")
    traces = follow(f"{command} --until-idle <<'EOF'\n{events}EOF\n", bin_=bin_)
    found = follow(world, bin_=bin_)

    assert re.search(r"attempt 2 of 4: bank_closed", traces)
    assert len(re.findall(r"emits parcels/Paid@1", traces)) == 2
    assert re.search(r"emits parcels/Paid@1 [^\n]*o-1", found)
    assert "byte-identical" in found


@pytest.mark.long
@others_day("flow", NEWCOMERS)
def test_a_newcomer_gets_to_a_flow_that_sleeps_with_the_commands_of_the_readme(bin_: Path) -> None:
    need_tools("rust")
    section = FIRST_FLOW.search(README.read_text())
    assert section is not None
    [typed] = INDENTED.findall(section[1])

    output = follow(_unindented(typed), bin_=bin_)

    assert re.search(r"month\tsleep\trunning", output)
    assert re.search(r"charge\tstep\tcompleted", output)


BLOCK: Final = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
FIRST_WORLD: Final = re.compile(r"^## Install\n(.*?)^## A first workflow", re.MULTILINE | re.DOTALL)
CURL: Final = """\
import sys, time
import httpx

url, *data = [each for each in sys.argv[1:] if each != "-d"]
while True:
    try:
        # As curl, it waits for the answer.
        method, content = ("POST", data[0]) if data else ("GET", None)
        answer = httpx.request(method, url, content=content, timeout=120)
    except httpx.ConnectError:  # a reader sees that the node serves before typing on
        time.sleep(0.1)
    else:
        print(answer.status_code, answer.text)
        break
"""


def test_a_first_world_is_as_the_readme_says(bin_: Path) -> None:
    section = FIRST_WORLD.search(README.read_text())
    assert section is not None
    (setup, path, *typed) = [dedent(block) for block in BLOCK.findall(section[1])]
    makefile = (ROOT / "Makefile").read_text()
    for line in setup.splitlines():
        assert f"\n{line.split()[1]}:" in makefile
    assert path == 'export PATH="$PWD/.venv/bin:$PATH"\n'
    for name in ("manifests", "modules"):
        Path(name).symlink_to(ROOT / name)
    _venv(bin_)
    _program("curl", sys.executable, "-c", CURL)
    service, node, page = map(str, free_ports(3))  # other tests run at the same time
    script = "\n".join((path, *typed)).replace("7461", service).replace("7460", node)
    script = script.replace("aos node", f"aos node --listen 127.0.0.1:{node}")
    # A reader ends the page with Ctrl-C; here it ends with the node, and curl is the browser.
    opened = (
        f"aos page shop --no-token --listen 127.0.0.1:{page} &\ncurl http://127.0.0.1:{page}/\n"
    )
    script = script.replace("aos page shop --open\n", opened)
    assert opened in script

    # One script: the service of the fourth block works for all that come after it.
    found = follow(script, bin_=bin_)

    before, after = found.split("idle at record 6: 2 steps, 0 receipts, 2 effects open\n")
    assert "3  → shop/order@1 o-1\n" in before
    assert after.startswith("  1 waits for shop/stock.reserve@1, which no executor here runs")
    assert "  1 timer not due yet (the next is due at " in after
    waiting, settled = after.split("idle at record ", 1)
    assert re.search(r"shop/order@1\to-1\twaiting", waiting)
    assert re.search(r"waits for shop/stock.reserve@1", waiting)
    assert settled.splitlines()[0].endswith(", 0 effects open")
    assert "emits shop/OrderClosed@1" in settled
    assert "byte-identical" in settled
    html, sent, cell = re.findall(r"^200 (.*)", settled, re.MULTILINE)
    assert html == "<!DOCTYPE html>"
    assert '"key":"o-2","ran":true,"status":"completed"' in sent
    assert cell.startswith('{"workflow":"shop/order@1","key":"o-2"')


def _venv(bin_: Path) -> None:
    """Create the commands in ``.venv/bin``, as the first lines of the page do."""
    venv = Path(".venv/bin")
    venv.mkdir(parents=True)
    (venv / "aos").symlink_to(bin_ / "aos")
    _program("python", sys.executable)


def _program(name: str, *command: str) -> None:
    """Create a command in ``.venv/bin`` that runs another one."""
    path = Path(".venv/bin", name)
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)


def _unindented(block: str) -> str:
    return "".join(f"{line.strip()}\n" for line in block.splitlines())
