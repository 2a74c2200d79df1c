"""``aos test``: run scenario files and the project's Python tests (spec/cli.md, C-46)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer

from aos.audit.lens.words import count
from aos.authoring.live import shown
from aos.errors import BadUsage, Refused
from aos.testing.play import Played, ScenarioFailure, play, project_of
from aos.testing.scenario import SUFFIX, Scenario, read_scenario
from aos_cli.options import Json
from aos_cli.output import finish, line, note, print_json

PASSED_OVER: Final = frozenset({"node_modules", "target", "build", "__pycache__"})
"""Folders that the search skips, like hidden ones."""

PYTEST_NOTHING: Final = 5
PLUGIN: Final = "aos.testing.plugin"


@dataclass(slots=True)
class _Found:
    scenarios: list[Path] = field(default_factory=list)
    python: list[Path] = field(default_factory=list)


def run_tests(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...",
            help="Scenario files, pytest files or folders (default: the project of the current "
            "folder).",
        ),
    ] = None,
    *,
    no_pytest: Annotated[
        bool, typer.Option("--no-pytest", help="Run scenarios only, and no tests in Python.")
    ] = False,
    json: Json = False,
) -> int:
    found = _found(paths or [project_of(Path()) or Path()])
    if no_pytest:
        found.python = []
    if not found.scenarios and not found.python:
        raise BadUsage(
            f"there is nothing to test: expected NAME{SUFFIX}, or tests/test_NAME.py, in "
            + ", ".join(map(str, paths or [Path()]))
        )
    if not json:
        found = _Found(
            scenarios=[Path(shown(each)) for each in found.scenarios],
            python=[Path(shown(each)) for each in found.python],
        )
    # All files are read first, so that an invalid one is reported before anything runs.
    played = [_played(each, json=json) for each in _read(found.scenarios)]
    code = _pytest(found.python, json=json) if found.python else None
    has_failed = any(each.failure for each in played) or code not in (None, 0)
    if json:
        print_json(_document(played, code, ok=not has_failed))
    elif played:
        _show_total(played)
    return Refused.exit_code if has_failed else 0


def _found(paths: Sequence[Path]) -> _Found:
    found = _Found()
    for path in paths:
        if path.name.endswith(SUFFIX) and path.is_file():
            found.scenarios.append(path)
        elif path.suffix == ".py" and path.is_file():
            found.python.append(path)
        elif path.is_dir():
            found.scenarios.extend(_scenarios(path))
            found.python.extend(_python(path))
        elif path.exists():
            raise BadUsage(f"{path}: expected a folder, NAME{SUFFIX} or a pytest file")
        else:
            raise BadUsage(f"{path}: there is no such file or folder")
    return found


def _scenarios(folder: Path) -> Iterator[Path]:
    for here, below, names in os.walk(folder):
        below[:] = sorted(
            each for each in below if not each.startswith(".") and each not in PASSED_OVER
        )
        yield from (Path(here, each) for each in sorted(names) if each.endswith(SUFFIX))


def _python(folder: Path) -> Iterator[Path]:
    """The folder whose tests are run: ``tests`` in ``folder``, or ``folder`` itself."""
    for place in (folder / "tests", folder):
        if any(place.glob("test_*.py")) or any(place.glob("*_test.py")):
            yield place
            return


def _read(paths: Sequence[Path]) -> list[Scenario]:
    problems: list[str] = []
    scenarios: list[Scenario] = []
    for path in paths:
        try:
            scenarios.append(read_scenario(path))
        except BadUsage as problem:
            problems.append(str(problem))
    if problems:
        raise BadUsage("\n".join(problems))
    return scenarios


def _played(scenario: Scenario, *, json: bool) -> Played:
    played = play(scenario)
    if not json:
        _show(played)
    return played


def _show(played: Played) -> None:
    scenario, failure = played.scenario, played.failure
    about = f"  {scenario.about}" if scenario.about else ""
    if failure is None:
        took = f"{count(len(scenario.steps), 'step')}, {played.seconds * 1000:.0f} ms"
        line(f"✓ {scenario.path}  {took}{about}", style="green")
        return
    line(f"✗ {scenario.path}{about}", style="red")
    name = "" if failure.step is None else f"{failure.step.name}: "
    for index, text in enumerate(failure.message.splitlines()):
        line(f"  {played.where}: {name}{text}" if index == 0 else f"  {text}")
    _show_places(failure)
    if failure.trace:
        line("  the world's journal:")
        for text in failure.trace.splitlines():
            line(f"    {text}")


def _show_places(failure: ScenarioFailure) -> None:
    for place in failure.places:
        line(f"    {place.path}")
        line(f"      expected  {place.expected}")
        line(f"      found     {place.found}")


def _show_total(played: Sequence[Played]) -> None:
    failed = sum(each.failure is not None for each in played)
    said = f"{count(len(played), 'scenario')}, {failed} failed" if failed else (
        f"{count(len(played), 'scenario')} passed"
    )  # fmt: skip
    line(said, style="bold red" if failed else "bold green")


def _pytest(places: Sequence[Path], *, json: bool) -> int | None:
    """The exit code of pytest, also 0 if it found no tests; None if it is not installed."""
    if importlib.util.find_spec("pytest") is None:
        names = ", ".join(map(str, places))
        note(f"pytest is not installed: the tests in {names} were not run", style="yellow")
        return None
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-q", *map(str, places)]
    finish()  # our output so far comes before that of pytest
    # The output of pytest is not part of a JSON document.
    ran = subprocess.run(  # noqa: S603  # our own interpreter, and paths that the caller named
        command, stdout=sys.stderr.fileno() if json else None, check=False
    )
    return 0 if ran.returncode == PYTEST_NOTHING else ran.returncode


def _document(played: Sequence[Played], code: int | None, *, ok: bool) -> dict[str, object]:
    return {
        "ok": ok,
        "scenarios": [each.to_document() for each in played],
        "pytest": None if code is None else {"exit_code": code},
    }
