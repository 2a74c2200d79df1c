"""A shell completes commands, options and values of ``aos`` (C-14)."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from aos.errors import BadUsage
from aos_cli import registry
from aos_cli.completion import ROOT_OPTIONS, Candidate, candidates
from aos_cli.completion_scripts import SCRIPTS, current_shell, install_completion
from aos_cli.entry import COMPLETE
from aos_cli.main import root
from tests.cli.all_commands import ALL_COMMANDS
from tests.cli.shell import AOS, Result, environment, here
from tests.cli.test_start_up import imported, reported


def words_for(line: str) -> list[str]:
    """The words that complete a command line, whose last word is incomplete."""
    return [candidate.word for candidate in candidates(line.split(" "))]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ins", ["inspect"]),
        ("re", ["replay", "rebuild"]),
        ("gat", ["gateway"]),
        ("nonsense", []),
        ("nonsense x", []),
        ("inspect ce", ["cells", "cell"]),
        ("inspect cells extra", []),
        ("gateway cr", ["create-work", "create-score"]),
        ("checkpoint s", ["status"]),
        ("inspect cells --st", ["--status", "--state"]),
        ("checkpoint status --js", ["--json"]),
        ("gateway park --w", ["--why", "--world"]),
        ("gateway park --ti", ["--timeout"]),
        ("apply . --mode ", ["strict", "pin", "migrate"]),
        ("apply . --mode p", ["pin"]),
        ("apply . --world ", []),
        ("apply ", []),
        ("--ve", ["--version"]),
        ("inspect -", ["--help"]),
        ("version --h", ["--help"]),
    ],
)
def test_a_word_is_completed(line: str, words: list[str]) -> None:
    assert words_for(line) == words


def test_the_first_word_is_any_command_with_its_help_and_those_of_packages() -> None:
    words = list(candidates([""]))

    assert Candidate("version", "Print the version.") in words
    assert {candidate.word for candidate in words} == {
        command.path for command in registry.below("", ALL_COMMANDS)
    }


def test_the_options_of_aos_itself_are_those_of_its_parser() -> None:
    names = {name.replace("_", "-") for name in signature(root).parameters}
    assert {option.word for option in ROOT_OPTIONS} == {f"--{name}" for name in (*names, "help")}


@pytest.mark.parametrize(
    ("shell", "text"),
    [
        ("bash", "world\n"),
        ("zsh", "world:Show the world at a glance: journal, manifest, cells and effects.\n"),
        ("fish", "world\tShow the world at a glance: journal, manifest, cells and effects.\n"),
    ],
)
def test_a_candidate_is_printed_as_its_shell_reads_it(shell: str, text: str) -> None:
    assert completed(shell, "inspect", "wo") == Result(0, text, "")


def test_an_error_completes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "broken-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[aos.commands]\nbroken = no_such_module:COMMANDS\n")

    assert completed("bash", "broken", "x", cwd=tmp_path) == Result(0, "", "")


def completed(*words: str, cwd: Path | None = None) -> Result:
    done = subprocess.run(
        [*AOS, COMPLETE, *words], env=environment(), capture_output=True, text=True, cwd=cwd,
        check=False, timeout=240,
    )  # fmt: skip
    return Result(done.returncode, done.stdout, done.stderr)


def test_a_command_is_completed_without_the_parser() -> None:
    """C-12: a user waits for it."""
    report = reported(COMPLETE, "bash", "inspect", "ce")

    assert not {"typer", "rich", "aos.extensions", "aos_cli.main"} & report.modules
    assert len(report.modules) <= 96
    assert report.collections == 0
    assert not [name for name in imported(COMPLETE, "bash", "ins") if "importlib.metadata" in name]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    result = here("--show-completion", env={"SHELL": f"/usr/bin/{shell}"})

    assert result == Result(0, SCRIPTS[shell], "")
    assert f"aos {COMPLETE} {shell} " in SCRIPTS[shell]


def test_another_shell_is_refused() -> None:
    result = here("--install-completion", env={"SHELL": "/bin/tcsh"})

    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "aos: SHELL: expected the path of bash, fish or zsh, found '/bin/tcsh' (SHELL=/bin/bash "
        "aos --show-completion prints the script for bash)\n"
    )


def test_without_a_shell_completion_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHELL", raising=False)

    with pytest.raises(BadUsage, match="found ''"):
        current_shell()


def test_bash_completes_by_the_script(tmp_path: Path) -> None:
    program = tmp_path / "aos"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m aos_cli.entry "$@"\n')
    program.chmod(0o755)
    (tmp_path / "script").write_text(SCRIPTS["bash"])
    test = """
source script
complete -p aos
complete_words() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _aos_completion
    echo "${COMPREPLY[@]}"
}
complete_words aos ins
complete_words aos inspect cells --st
complete_words aos apply ''
"""

    done = subprocess.run(
        ["bash", "--norc", "-c", test], cwd=tmp_path, capture_output=True, text=True, check=True,
        env=environment(PATH=f"{tmp_path}:/usr/bin:/bin"),
    )  # fmt: skip

    assert done.stdout.splitlines() == [
        "complete -o default -F _aos_completion aos",
        "inspect",
        "--status --state",
        "",
    ]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("shell", "start", "script"),
    [
        ("bash", ".bashrc", ".local/share/aos/completion.bash"),
        ("zsh", "zsh/.zshrc", ".local/share/aos/completion.zsh"),
        ("fish", None, ".config/fish/completions/aos.fish"),
    ],
)
def test_completion_is_installed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, start: str | None, script: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ZDOTDIR", str(tmp_path / "zsh"))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    if start is not None:
        (tmp_path / start).parent.mkdir(exist_ok=True)
        (tmp_path / start).write_text("export A=1")

    texts = [install_completion(shell) for _ in range(2)]

    assert (tmp_path / script).read_text() == SCRIPTS[shell]
    assert texts[0] == texts[1]
    assert str(tmp_path / script) in texts[0]
    if start is not None:
        assert (tmp_path / start).read_text() == f"export A=1\nsource {tmp_path / script}\n"
