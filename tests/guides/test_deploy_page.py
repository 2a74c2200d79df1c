"""spec/guides/deploy.md is true as far as no machine has to be set up for it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tracemalloc
from configparser import RawConfigParser
from pathlib import Path
from typing import Final

import pytest

from aos.core.state.submissions import Submission, Submissions
from aos.values.digests import Hash, content_hash
from tests.cli.shell import here
from tests.cookbook.worlds import ROOT

PAGE: Final = ROOT / "spec" / "guides" / "deploy.md"
PIP: Final = re.compile(r"pip install (.*?)(?: \\)?$", re.MULTILINE)


def fenced(language: str) -> str:
    found = re.search(
        rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return found[1]


def unit() -> RawConfigParser:
    parser = RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(fenced("ini"))
    return parser


def container() -> list[str]:
    return fenced("dockerfile").replace("\\\n", "").splitlines()


def known_options(command: list[str]) -> bool:
    """Whether ``aos run`` takes these options: it gets as far as the folder of the world."""
    assert command[1] == "run"
    words = [each.replace("%i", "trips") for each in command[1:]]
    result = here(*words, env={"AOS_WORLD": "/nowhere/at-all"})
    return result.code == 2 and "there is no such folder" in result.err


def test_the_unit_runs_a_world_with_options_that_exist() -> None:
    service = unit()["Service"]

    assert known_options(shlex.split(service["ExecStart"]))
    assert not known_options(["aos", "run", "--executor", "x"]), "the check can fail"


def test_the_unit_starts_again_after_the_exit_codes_that_the_monitor_page_says() -> None:
    rows = re.findall(
        r"^\| (\d+) \| .* \| (.*) \|$",
        (PAGE.parent / "monitor.md").read_text("utf-8"),
        re.MULTILINE,
    )
    needs_a_person = {code for code, again in rows if again.startswith(("no", "after"))}

    assert set(unit()["Service"]["RestartPreventExitStatus"].split()) == needs_a_person


def test_the_unit_is_one_that_systemd_accepts(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    text = fenced("ini").replace("/opt/aos/bin/aos", sys.executable).replace("%i", "trips")
    file = tmp_path / "aos-trips.service"
    file.write_text(text)

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert [line for line in done.stderr.splitlines() if file.name in line] == []


def test_the_container_file_copies_what_is_there_and_runs_options_that_exist() -> None:
    for line in container():
        words = line.split()
        if words[:1] == ["COPY"] and not words[1].startswith("--from"):
            assert all((ROOT / each).exists() for each in words[1:-1]), line
    [command] = [line.removeprefix("CMD ") for line in container() if line.startswith("CMD ")]

    assert known_options(re.findall(r'"([^"]*)"', command))


def test_the_page_installs_as_the_checkout_itself_does() -> None:
    """``make`` runs the same two commands, so every run of the tests proves that they work."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    ours = "pip install --quiet --disable-pip-version-check "

    found = PIP.findall(PAGE.read_text("utf-8"))

    assert len(found) == 4, "by hand and in the container"
    for each in found:
        options = each.removesuffix(" .").removesuffix(" /src").replace("/src/", "")
        assert ours + options in makefile, each


def test_a_submission_id_in_memory_takes_what_the_page_says() -> None:
    """SN-22: since the last snapshot; a rebase leaves none in memory."""
    least, most = map(float, re.findall(r"takes (\d\.\d+) to (\d\.\d+) kB", PAGE.read_text())[0])
    number, window = 20_000, Submissions()
    tracemalloc.start()
    try:
        for each in range(number):
            event = Submission(
                seq=each + 1_000, payload=content_hash(b"%d" % each), at_ns=each << 30
            )
            window.remember(f"order-{each:024}", event, oldest_ns=0, count_max=number)
        held = tracemalloc.get_traced_memory()[0]
        blobs: dict[Hash, bytes] = {}

        def put(data: bytes) -> Hash:
            blobs[content_hash(data)] = data
            return content_hash(data)

        window.rebase(window.chunks(put), at=number + 1_000)
        rest = tracemalloc.get_traced_memory()[0] - sum(map(len, blobs.values()))
    finally:
        tracemalloc.stop()
    assert 0.9 * least <= held / number / 1000 <= 1.1 * most, held / number
    assert rest / number < 40
    assert len(window) == number
