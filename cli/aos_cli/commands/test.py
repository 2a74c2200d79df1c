"""``aos test``: build what is stale, then run scenarios, pytest and cargo test (C-46, C-46a)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from aos.author.build import build
from aos.author.build_record import project_built_at, refuse_stale_build, stale_because
from aos.author.project import PROJECT_FILE, Project, read_project, short_path
from aos.author.rust import CargoTests, cargo_tests
from aos.errors import AosError, BadUsage, Refused, Unavailable
from aos.read.lens.words import count
from aos.testing.play import Played, ScenarioFailure, manifest_of, play, project_of
from aos.testing.scenario import SUFFIX, Scenario, read_scenario
from aos_cli.commands.build import stopping, tell_outdated
from aos_cli.options import Json, argument, flag
from aos_cli.output import finish, line, note, print_json

PASSED_OVER: Final = frozenset({"node_modules", "target", "build", "__pycache__"})
"""Folders that the search skips, like hidden ones."""

PYTEST_NOTHING: Final = 5
PLUGIN: Final = "aos.testing.plugin"


@dataclass(slots=True)
class _TestPaths:
    """Scenario files, files and folders for pytest, and folders of projects."""

    scenarios: list[Path] = field(default_factory=list)
    python: list[Path] = field(default_factory=list)
    projects: list[Path] = field(default_factory=list)


@dataclass(slots=True)
class _Ran:
    """The result of pytest, or of cargo for all packages. ``code`` is None if it did not run;
    ``unable`` says why tests could not run."""

    code: int | None = None
    is_empty: bool = True
    unable: AosError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Results:
    """The results of the scenarios, of pytest and of cargo."""

    played: Sequence[Played]
    pytest: _Ran
    cargo: _Ran

    @property
    def has_failed(self) -> bool:
        has_failure = any(result.failure for result in self.played)
        return has_failure or bool(self.pytest.code or self.cargo.code)

    @property
    def unable(self) -> list[AosError]:
        return [ran.unable for ran in (self.pytest, self.cargo) if ran.unable is not None]

    @property
    def is_empty(self) -> bool:
        return not self.played and self.pytest.is_empty and self.cargo.is_empty

    def to_document(self, built: list[str]) -> dict[str, object]:
        return {
            "ok": not self.has_failed and not self.unable,
            "built": built,
            "scenarios": [result.to_document() for result in self.played],
            "pytest": _exit(self.pytest.code),
            "cargo": _exit(self.cargo.code),
            "not_run": [str(error) for error in self.unable],
        }


def run_tests(
    paths: Annotated[
        list[Path] | None,
        argument(
            "[PATH]...",
            "Scenario files, pytest files or folders (default: the project that contains the "
            "current folder).",
        ),
    ] = None,
    *,
    no_pytest: Annotated[bool, flag("--no-pytest", "Run no tests in Python (pytest).")] = False,
    no_cargo: Annotated[bool, flag("--no-cargo", "Run no tests in Rust (cargo test).")] = False,
    no_build: Annotated[
        bool, flag("--no-build", "Refuse to test a stale build (default: build it first).")
    ] = False,
    json: Json = False,
) -> int:
    tests = _find_tests(paths or [_own_project()])
    if no_pytest:
        tests.python = []
    packages = [] if no_cargo else _cargo_tests(tests.projects)
    if not tests.scenarios and not tests.python and not packages:
        raise _nothing(paths)
    if not json:
        tests.scenarios = [Path(short_path(path)) for path in tests.scenarios]
        tests.python = [Path(short_path(path)) for path in tests.python]
    # All files are read first, so that an invalid one is reported before anything runs.
    scenarios = _read(tests.scenarios)
    built = _build_stale(_projects(scenarios, tests.python), refuse=no_build)
    results = _Results(
        played=[_played(scenario, json=json) for scenario in scenarios],
        pytest=_pytest(tests.python, json=json),
        cargo=_cargo(packages, json=json),
    )
    if json:
        print_json(results.to_document(built))
    elif results.played:
        _show_total(results.played)
    for error in results.unable:
        note(f"aos: {error}", style="red")
    if results.has_failed:
        return Refused.exit_code
    if results.unable:
        return Unavailable.exit_code
    if results.is_empty:
        raise _nothing(paths)
    return 0


def _own_project() -> Path:
    """The folder of the project that contains the current folder. Without a project, the command
    would run everything below this folder, whatever that is: only a PATH asks for it.

    Raises:
        BadUsage: There is none.
    """
    folder = project_of(Path())
    if folder is None:
        raise BadUsage(
            f"there is no {PROJECT_FILE} in this folder or one above it",
            location=str(Path.cwd()),
            expected="the folder of a project, or a PATH",
            hint="aos test . runs every scenario below this folder, and its tests in Python",
        )
    return folder


def _nothing(paths: Sequence[Path] | None) -> BadUsage:
    return BadUsage(
        f"there is nothing to test: expected NAME{SUFFIX}, tests/test_NAME.py with a test, or a "
        "#[test] in Rust, in " + ", ".join(map(str, paths or [Path()]))
    )


def _projects(scenarios: Sequence[Scenario], python: Sequence[Path]) -> list[Project]:
    """The projects whose builds the tests use, each once. Tests in Rust use only the sources."""
    folders = {project_of(path) for path in python}
    projects = {folder: read_project(folder) for folder in folders if folder is not None}
    for scenario in scenarios:
        project = project_built_at(manifest_of(scenario))
        if project is not None:
            projects[project.folder] = project
    return [projects[folder] for folder in sorted(projects)]


def _build_stale(projects: Sequence[Project], *, refuse: bool) -> list[str]:
    """Build the projects whose build is stale; return their folders.

    Raises:
        Refused: With ``refuse``, if there is one.
        AosError: It cannot be built.
    """
    if refuse:
        for checked_project in projects:
            refuse_stale_build(checked_project)
        return []
    built = []
    for project in projects:
        because = stale_because(project)
        if because is None:
            continue
        note(f"building {project.name}: {because}")
        tell_outdated(project)
        with stopping() as console:
            build(project, console=console)
        built.append(str(project.folder))
    return built


def _find_tests(paths: Sequence[Path]) -> _TestPaths:
    tests = _TestPaths()
    for path in paths:
        if path.name.endswith(SUFFIX) and path.is_file():
            tests.scenarios.append(path)
        elif path.suffix == ".py" and path.is_file():
            tests.python.append(path)
        elif path.is_dir():
            tests.scenarios.extend(_scenarios(path))
            tests.python.extend(_python(path))
            if (path / PROJECT_FILE).is_file():
                tests.projects.append(path)
        elif path.exists():
            raise BadUsage(f"{path}: expected a folder, NAME{SUFFIX} or a pytest file")
        else:
            raise BadUsage(f"{path}: there is no such file or folder")
    return tests


def _scenarios(folder: Path) -> Iterator[Path]:
    for directory, below, names in os.walk(folder):
        below[:] = sorted(
            name for name in below if not name.startswith(".") and name not in PASSED_OVER
        )
        yield from (Path(directory, name) for name in sorted(names) if name.endswith(SUFFIX))


def _python(folder: Path) -> Iterator[Path]:
    """The folder whose tests are run: ``tests`` in ``folder``, or ``folder`` itself."""
    for candidate in (folder / "tests", folder):
        if any(candidate.glob("test_*.py")) or any(candidate.glob("*_test.py")):
            yield candidate
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
    description = f"  {scenario.about}" if scenario.about else ""
    if failure is None:
        figures = f"{count(len(scenario.steps), 'step')}, {played.seconds * 1000:.0f} ms"
        line(f"✓ {scenario.path}  {figures}{description}", style="green")
        return
    line(f"✗ {scenario.path}{description}", style="red")
    name = "" if failure.step is None else f"{failure.step.name}: "
    for index, text in enumerate(failure.message.splitlines()):
        line(f"  {played.location}: {name}{text}" if index == 0 else f"  {text}")
    _show_places(failure)
    if failure.trace:
        line("  the world's journal:")
        for text in failure.trace.splitlines():
            line(f"    {text}")


def _show_places(failure: ScenarioFailure) -> None:
    for difference in failure.mismatches:
        line(f"    {difference.path}")
        line(f"      expected  {difference.expected}")
        line(f"      found     {difference.actual}")


def _show_total(played: Sequence[Played]) -> None:
    failed = sum(result.failure is not None for result in played)
    summary = f"{count(len(played), 'scenario')}, {failed} failed" if failed else (
        f"{count(len(played), 'scenario')} passed"
    )  # fmt: skip
    line(summary, style="bold red" if failed else "bold green")


def _cargo_tests(folders: Sequence[Path]) -> list[CargoTests]:
    return [package for folder in folders for package in cargo_tests(read_project(folder))]


def _pytest(paths: Sequence[Path], *, json: bool) -> _Ran:
    """Run pytest on these files and folders, if there are any."""
    if not paths:
        return _Ran()
    if importlib.util.find_spec("pytest") is None:
        names = ", ".join(map(str, paths))
        missing = Unavailable(
            f"pytest is not installed, so the tests in {names} were not run "
            "(pip install pytest, or run aos test --no-pytest)"
        )
        return _Ran(unable=missing)
    code = _run([sys.executable, "-m", "pytest", "-p", PLUGIN, "-q", *map(str, paths)], json=json)
    return _Ran(code=0 if code == PYTEST_NOTHING else code, is_empty=code == PYTEST_NOTHING)


def _cargo(packages: Sequence[CargoTests], *, json: bool) -> _Ran:
    """Run the tests in Rust of every package; the first exit code that is not 0 counts."""
    ran = _Ran()
    for package in packages:
        try:
            code = _run(package.command(), json=json)
        except Unavailable as problem:
            ran.unable = problem
            continue
        ran.is_empty, ran.code = False, ran.code or code
    return ran


def _run(command: Sequence[str], *, json: bool) -> int:
    finish()  # our output so far comes before that of the program
    # The output of a program is not part of a JSON document.
    return subprocess.run(  # noqa: S603  # pytest or cargo, and paths that the caller named
        command, stdout=sys.stderr.fileno() if json else None, check=False
    ).returncode


def _exit(code: int | None) -> dict[str, int] | None:
    return None if code is None else {"exit_code": code}
