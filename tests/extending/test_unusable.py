"""``aos`` works without an extension that it cannot use, and says so once (EP-4 to EP-8)."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import aos
from aos.host.executors.python import path_flags
from tests.cli.shell import Result
from tests.cli.test_start_up import imported
from tests.extending.packages import aos_with, describe
from tests.run_seed import in_turns

COMMANDS: Final = "aos.commands"
EXECUTORS: Final = "aos.executors"
OURS: Final = f"aos-kernel {aos.__version__}"

GOOD: Final = """
from aos_cli.extension import Command
from aos.worker import Executors, effect
COMMANDS = (Command("good", "Greet.", (), "good:run"),)
ALSO = (Command("bad", "Greet.", (), "good:run"),)
GROUP = (Command("bad", "Greet."), Command("bad twice", "Greet.", (), "nowhere:run"))
LOOSE = (Command("bad", "Greet.", (), "good:run"), Command("other", "Greet.", (), "good:run"))
EMPTY = (Command("bad", "Greet."),)
RAISING = (Command("bad", "Greet.", (), "good:crash"),)

@effect("good/run@1")
async def go(params, ctx):
    return params

good = Executors("good", [go])
number = 7

def run():
    print("good")

def crash():
    raise LookupError("lost")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The object that the package ``bad`` registers as ``bad``, and the error for it."""

    object: str
    problem: str
    requires: tuple[str, ...] = ()
    group: str = COMMANDS


REMOVE: Final = "(install it again, or remove it: pip uninstall bad)"
OTHER: Final = "(install another release of it, or remove it: pip uninstall bad)"
CASES: Final = {
    "missing module": Case(
        object="nowhere:COMMANDS",
        problem="importing it failed at {python}: ModuleNotFoundError: No module named 'nowhere' "
        f"{REMOVE}",
    ),
    "raising module": Case(
        object="raises:COMMANDS",
        problem="importing it failed at {site}/raises.py:2: ZeroDivisionError: division by zero "
        f"{REMOVE}",
    ),
    "missing object": Case(
        object="good:NOTHING",
        problem="importing it failed at {python}: AttributeError: module 'good' has no attribute "
        f"'NOTHING' {REMOVE}",
    ),
    "no commands": Case(
        object="good:number",
        problem="its object good:number is malformed: expected a tuple of "
        f"aos_cli.extension.Command, found int {OTHER}",
    ),
    "another path": Case(
        object="good:COMMANDS",
        problem="its object good:COMMANDS is malformed: expected a first command with the path "
        f"'bad', found 'good' {OTHER}",
    ),
    "path without its group": Case(
        object="good:LOOSE",
        problem="its object good:LOOSE is malformed: expected each path once, below another "
        f"command, found 'other' {OTHER}",
    ),
    "no function": Case(
        object="good:EMPTY",
        problem="its object good:EMPTY is malformed: expected a function of 'bad' as module:name, "
        f"found '' {OTHER}",
    ),
    "newer aos": Case(
        object="good:ALSO",
        requires=("httpx", "AOS_kernel[gateway] >= 99, < 100"),
        problem=f"it needs aos-kernel<100,>=99, and this is {OURS} (install a release of it for "
        "this aos: pip install --upgrade bad)",
    ),
    "unreadable requirement": Case(
        object="good:ALSO",
        requires=("aos-kernel is good",),
        problem=f"it needs 'aos-kernel is good', and this is {OURS} (install a release of it for "
        "this aos: pip install --upgrade bad)",
    ),
    "no executors": Case(
        group=EXECUTORS,
        object="good:number",
        problem="expected an Executors, a list of effects or one effect, found int",
    ),
    "executors for a newer aos": Case(
        group=EXECUTORS,
        object="good:good",
        requires=("aos-kernel>=99",),
        problem=f"it needs aos-kernel>=99, and this is {OURS} (install a release of it for this "
        "aos: pip install --upgrade bad)",
    ),
    "executors that do not import": Case(
        group=EXECUTORS,
        object="raises:good",
        problem="importing it failed at {site}/raises.py:2: ZeroDivisionError: division by zero "
        f"{REMOVE}",
    ),
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages, with a good one."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "good.py").write_text(GOOD)
    (folder / "raises.py").write_text("\n1 / 0\n")
    points = {COMMANDS: {"good": "good:COMMANDS"}, EXECUTORS: {"good": "good:good"}}
    describe(folder, "good", entry_points=points, requires=("aos-kernel>=0.1", "broken ]["))
    return folder


@pytest.mark.long
@pytest.mark.parametrize("name", in_turns(3, CASES))
def test_a_broken_extension_is_one_sentence_and_all_else_works(
    site: Path, tmp_path: Path, name: str
) -> None:
    """EP-6 to EP-8"""
    case = CASES[name]
    describe(site, "bad", requires=case.requires, entry_points={case.group: {"bad": case.object}})

    if case.group == COMMANDS:
        refused = aos_with(site, "bad", cwd=tmp_path)
        listed = aos_with(site, "--help", cwd=tmp_path)
        subject = "the command 'bad' of the package bad 1.0"
        assert (listed.code, listed.err) == (0, refused.err)
        assert "│ good " in listed.out
        assert "│ bad " not in listed.out
    else:
        refused = aos_with(site, "worker", "bad", "--node", "http://127.0.0.1:1", cwd=tmp_path)
        subject = "executors 'bad' of the package bad 1.0"
    assert (refused.code, refused.out) == (2, "")
    places = {"python": "PYTHON", "site": str(site)}
    text = refused.err.splitlines()[-1]
    if "{python}" in case.problem:
        head, _, rest = text.partition(" failed at ")
        text = f"{head} failed at PYTHON: {rest.partition(': ')[2]}"
    assert text == f"aos: {subject}: {case.problem.format(**places)}"


def test_the_others_of_its_kind_still_run(site: Path, tmp_path: Path) -> None:
    """EP-7"""
    describe(site, "bad", entry_points={COMMANDS: {"bad": "nowhere:COMMANDS"}})

    assert aos_with(site, "good", cwd=tmp_path) == Result(0, "good\n", "")
    assert aos_with(site, "version", cwd=tmp_path).err == ""


def test_of_two_packages_with_one_name_neither_is_used(site: Path, tmp_path: Path) -> None:
    """EP-7"""
    describe(site, "twin", entry_points={COMMANDS: {"good": "good:COMMANDS"}})
    sentence = (
        "aos: the command 'good': registered more than once, by the packages good 1.0 and twin 1.0 "
        "(remove one of them: pip uninstall "
    )

    refused = aos_with(site, "good", cwd=tmp_path)
    listed = aos_with(site, "--help", cwd=tmp_path)

    assert (refused.code, listed.code, listed.err) == (2, 0, refused.err)
    assert refused.err.startswith(sentence)
    assert "│ good " not in listed.out


@pytest.mark.parametrize("word", ["version", "gateway"])
def test_a_name_of_aos_itself_stays_its_own(site: Path, tmp_path: Path, word: str) -> None:
    """EP-5: of a command that is built in, and of one that aos registers as an extension."""
    describe(site, "thief", entry_points={COMMANDS: {word: "raises:COMMANDS"}})

    used = aos_with(site, word, "--help", cwd=tmp_path)
    listed = aos_with(site, "--help", cwd=tmp_path)

    assert (used.code, used.err) == (0, "")
    assert listed.err == (
        f"aos: the command {word!r} of the package thief 1.0: aos has a command of this name, so "
        "this one is not used (remove the package: pip uninstall thief)\n"
    )
    assert f"│ {word} " in listed.out


def test_executors_of_aos_itself_stay_its_own(site: Path, tmp_path: Path) -> None:
    """EP-5"""
    describe(site, "thief", entry_points={EXECUTORS: {"vault": "raises:vault"}})

    result = aos_with(site, "worker", "vault", "--node", "ftp://none", cwd=tmp_path)

    assert result.code != 0
    assert "ZeroDivisionError" not in result.err
    assert "executors" not in result.err


def test_a_function_that_does_not_import_names_its_package(site: Path, tmp_path: Path) -> None:
    """EP-8"""
    describe(site, "bad", entry_points={COMMANDS: {"bad": "good:GROUP"}})

    refused = aos_with(site, "bad", "twice", cwd=tmp_path)
    group = aos_with(site, "bad", "--help", cwd=tmp_path)

    assert refused.code == 2
    assert refused.err.startswith("aos: bad twice: a command of the package bad 1.0: importing it ")
    assert "No module named 'nowhere'" in refused.err
    assert (group.code, group.err) == (0, "")
    assert "│ twice " in group.out


def test_an_exception_is_a_bug_of_the_package(site: Path, tmp_path: Path) -> None:
    """EP-13"""
    describe(site, "bad", entry_points={COMMANDS: {"bad": "good:RAISING"}})

    crashed = aos_with(site, "bad", cwd=tmp_path)

    assert crashed.code == 70
    assert 'in crash\n    raise LookupError("lost")\n' in crashed.err
    assert crashed.err.endswith(
        "aos: this is a bug in the package bad 1.0; please report it to its authors, with the text "
        "above.\n"
    )


def test_a_command_of_aos_reads_no_entry_points() -> None:
    """EP-2"""
    for words in (["version"], ["inspect", "--help"], ["verify-proof", "--help"]):
        assert {"aos.extensions", "aos_cli.extension_commands"} & imported(*words) == set()
    assert "aos_gateway.commands.records" not in imported("gateway", "--help")


def test_a_process_that_loads_a_name_does_not_look_into_its_folder() -> None:
    """EP-4"""
    assert path_flags("llm") == ("-P",)
    assert path_flags("effects.py:shop") == path_flags("shop.effects:shop") == ()
    assert sys.version_info >= (3, 11), "-P"
