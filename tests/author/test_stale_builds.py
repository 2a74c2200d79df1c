"""Commands never use a build that does not belong to its sources (AU-9, AU-9a, C-46a)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from aos.author import build as builds
from aos.author.build import build
from aos.author.build_record import SourcesOfBuild, project_built_at, stale_because
from aos.author.plugin import CURRENT, pytest_aos_source
from aos.author.project import Project, read_project
from aos.author.toolchain import Console
from tests.author import fakes
from tests.author.fakes import program
from tests.cli.shell import Aos, run
from tests.testing.test_plugin import PLUGIN, pytest_of

STALE = "aos: the build of shop is stale: src/lib.rs changed since the last build"

SCENARIO = f"""about = "a word is counted"

[[step]]
send = "{fakes.DO}"
value = {{ key = "a" }}

[[step]]
expect = "cell"
workflow = "puppet"
key = "a"
status = "running"
"""


@pytest.fixture(scope="module")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built project with a scenario. Its bytes do not depend on its path (AU-6)."""
    folder = tmp_path_factory.mktemp("built")
    project = fakes.project(folder / "shop")
    (project.folder / "tests").mkdir()
    (project.folder / "tests/one.scenario.toml").write_text(SCENARIO)
    (project.folder / "src/sums.rs").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(fakes.toolchain(folder / "rust")))
        build(project, console=Console(report=lambda _: None))
    return project.folder


@pytest.fixture
def built(built_once: Path, tmp_path: Path, rust: Path) -> Project:
    assert rust.is_dir()  # it is on the PATH
    shutil.copytree(built_once, tmp_path / "shop")
    return read_project(tmp_path / "shop")


def edit(project: Project) -> None:
    """Change a source: the manifest that is built from it is another one."""
    (project.folder / "src/lib.rs").write_text(fakes.source(fakes.nodes(version=2)))


def old_record(folder: Path) -> None:
    """The record that a release without sources wrote."""
    file = folder / "build/compiler.json"
    found = json.loads(file.read_text())
    file.write_text(json.dumps({k: v for k, v in found.items() if isinstance(v, str)}))


def add(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("other")


CHANGES: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "nothing": (lambda _: None, None),
    "an edit": (
        lambda f: (f / "src/lib.rs").write_text("other"),
        "src/lib.rs changed since the last build",
    ),
    "a new file and an edit": (
        lambda f: add(f, "src/tests/a.rs", "Cargo.toml"),
        "Cargo.toml and 1 more changed since the last build",
    ),
    "a removed file": (
        lambda f: (f / "src/lib.rs").unlink(),
        "src/lib.rs changed since the last build",
    ),
    "other packages": (
        lambda f: (f / "Cargo.lock").write_text("other"),
        "Cargo.lock changed since the last build",
    ),
    "a definition by hand": (
        lambda f: (f / "air/own.air.json").write_text("[]"),
        "air/own.air.json changed since the last build",
    ),
    "another module": (
        lambda f: (f / "build/shop.wasm").write_bytes(b"other"),
        "the last build did not make build/shop.wasm as found on disk",
    ),
    "a removed module": (
        lambda f: (f / "build/shop.wasm").unlink(),
        "the last build did not make build/shop.wasm as found on disk",
    ),
    "an edit of what was generated": (
        lambda f: (f / "air/generated.air.json").write_text("[]"),
        "the last build did not make air/generated.air.json as found on disk",
    ),
    "no record": (lambda f: (f / "build/compiler.json").unlink(), "it has not been built yet"),
    "an old record": (
        old_record,
        "build/compiler.json does not name the sources of the last build",
    ),
    "a damaged record": (
        lambda f: (f / "build/compiler.json").write_text("{"),
        "build/compiler.json does not name the sources of the last build",
    ),
    "files that no build reads": (
        lambda f: add(
            f, "README.md", "effects.py", "tests/a.toml", "target/a.rs", "world/world.json",
            "world/a.json", ".git/a.toml",
        ),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_what_a_build_read_or_made_is_noticed(built: Project, change: str) -> None:
    """AU-9"""
    make, because = CHANGES[change]

    make(built.folder)

    assert stale_because(built) == because


def test_a_source_that_changes_while_the_compiler_runs_makes_the_build_stale(
    project: Project,
) -> None:
    """AU-9"""
    (project.folder / "src/more.rs").write_text("before")
    sources = SourcesOfBuild(project)

    (project.folder / "src/more.rs").write_text("after")
    (project.folder / "Cargo.lock").write_text("cargo wrote it")
    as_read = sources.digests()

    now = SourcesOfBuild(project).digests()
    assert [name for name in now if now[name] != as_read.get(name)] == ["src/more.rs"]


def test_after_a_crash_at_any_file_the_build_is_stale(
    built: Project, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AU-9"""
    before = (built.folder / "src/lib.rs").read_text()
    put = builds._put
    edit(built)
    number = len(builds.check(built, console=console).differing)

    for crash_at in range(number):
        written = 0

        def crashing(file: Path, data: bytes | None, most: int = crash_at) -> None:
            nonlocal written
            if data is not None and file.is_file() and file.read_bytes() == data:
                return
            if written == most:
                raise KeyboardInterrupt
            written += 1
            put(file, data)

        monkeypatch.setattr(builds, "_put", crashing)
        with pytest.raises(KeyboardInterrupt):
            build(built, console=console)
        assert stale_because(built) is not None
        monkeypatch.setattr(builds, "_put", put)
        (built.folder / "src/lib.rs").write_text(before)
        assert (stale_because(built) is None) == (crash_at == 0)
        build(built, console=console)
        edit(built)

    assert number == 2


def test_apply_and_replay_refuse_a_stale_build_with_the_command(
    aos: Aos, built: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AU-9a, C-21, C-40b"""
    world = tmp_path / "w"
    aos("init", world)
    edit(built)
    there = aos("apply", built.folder, world=world)
    below = aos("apply", built.folder / "air/generated.air.json", world=world)
    against = aos("replay", "--against", built.folder / "build/shop.wasm", world=world)
    monkeypatch.chdir(built.folder)
    here = aos("apply", ".", "--dry-run", world=world)
    aos("build")
    after = aos("apply", ".", world=world)

    assert there == (1, "", f"{STALE} (run aos build {built.folder})\n")
    assert below == against == there
    assert here == (1, "", f"{STALE} (run aos build)\n")
    assert after.code == 0


WORDS = """
def test_the_project(world):
    raise AssertionError("unreachable")

def test_a_manifest_elsewhere(aos_world):
    aos_world("../other")
"""


def test_plain_pytest_refuses_a_stale_build_with_the_command(
    built: Project, tmp_path: Path
) -> None:
    """AU-9a, T-50a, T-54"""
    for part in ("air", "build"):
        shutil.copytree(built.folder / part, tmp_path / "other" / part)
    (built.folder / "tests/test_words.py").write_text(WORDS)
    edit(built)

    code, said = pytest_of(built.folder, "-p", PLUGIN)

    assert (code, "1 passed, 1 error" in said) == (1, True), said
    assert f"{STALE.removeprefix('aos: ')} (run aos build)" in said
    assert "refuse_stale_build" not in said


def test_a_build_that_was_current_is_not_compared_again_in_the_same_run(
    built: Project, pytestconfig: pytest.Config
) -> None:
    """T-50a"""
    assert pytest_aos_source(built.folder, pytestconfig) is None
    edit(built)
    assert pytest_aos_source(built.folder, pytestconfig) is None
    pytestconfig.stash[CURRENT].remove(built.folder)
    assert f"aos: {pytest_aos_source(built.folder, pytestconfig)}".startswith(STALE)


def test_a_manifest_that_is_only_stored_in_a_project_is_not_part_of_its_build(
    built: Project,
) -> None:
    assert project_built_at(built.folder / "examples/other") is None
    assert project_built_at(built.folder / "air") == built


def test_aos_test_builds_first_if_something_changed_and_only_then(
    aos: Aos, built: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-46a"""
    monkeypatch.chdir(built.folder)

    fresh = aos("test")
    edit(built)
    refused = aos("test", "--no-build")
    stale = aos("test")
    again = aos("test", "--no-build", "--json")
    edit_back = (built.folder / "src/lib.rs").write_text(fakes.source(fakes.nodes()))
    document = aos("test", "--json").json

    assert edit_back
    assert (fresh.code, fresh.err) == (0, "")
    assert refused == (
        1,
        "",
        f"{STALE} (run aos build)\n",
    )
    assert (stale.code, stale.err) == (
        0,
        "building shop: src/lib.rs changed since the last build\n",
    )
    assert (again.code, again.json["built"]) == (0, [])
    assert (document["ok"], document["built"]) == (True, [str(built.folder)])
    assert stale_because(built) is None


def test_aos_test_of_a_project_that_does_not_build_tests_nothing(
    aos: Aos, built: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """C-46a"""
    edit(built)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    no_compiler = aos("test", built.folder)
    assert (no_compiler.code, no_compiler.out) == (4, "")
    assert "no Rust compiler that can build WASM was found" in no_compiler.err


RUST_TEST = "\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {}\n}\n"


def with_rust_tests(project: Project, rust: Path, *, code: int = 0) -> Path:
    """A package with a test next to its source, and a cargo that only runs tests; return the log
    of its calls."""
    (project.folder / "src/sums.rs").write_text(RUST_TEST)
    log = project.folder / "cargo-tests"
    program(rust / "cargo", f'#!/bin/sh\necho "$@" >> {log}\nexit {code}\n')
    return log


@pytest.mark.parametrize("code", [0, 101])
def test_tests_in_rust_are_run_and_their_failure_counts(
    aos: Aos, built: Project, console: Console, rust: Path, code: int
) -> None:
    """C-46"""
    (built.folder / "src/sums.rs").write_text(RUST_TEST)
    build(built, console=console)
    log = with_rust_tests(built, rust, code=code)

    ran = aos("test", built.folder)
    document = json.loads(run("test", built.folder, "--json").out)
    without = aos("test", built.folder, "--no-cargo")
    one = aos("test", built.folder / "tests/one.scenario.toml")

    assert ran.code == (1 if code else 0)
    assert (document["ok"], document["cargo"]) == (code == 0, {"exit_code": code})
    assert (without.code, one.code) == (0, 0)
    assert log.read_text() == f"test --quiet --manifest-path {built.folder}/Cargo.toml\n" * 2


def test_outside_of_a_project_only_a_path_says_what_to_test(
    aos: Aos, built: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-46"""
    monkeypatch.chdir(built.folder.parent)
    refused = aos("test")
    asked = aos("test", built.folder.name, "--no-pytest")
    below = built.folder / "tests"
    monkeypatch.chdir(below)
    inside = aos("test", "--no-pytest")

    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        f"aos: {built.folder.parent}: there is no aos.toml in this folder or one above it: "
        "expected the folder of a project, or a PATH (aos test . runs every scenario below this "
        "folder, and its tests in Python)\n"
    )
    for each in (asked, inside):
        assert each.code == 0
        assert "1 scenario passed" in each.out


def test_tests_in_rust_that_cannot_run_are_exit_4(
    aos: Aos, built: Project, console: Console, rust: Path
) -> None:
    """C-46"""
    (built.folder / "src/sums.rs").write_text(RUST_TEST)
    cargo = built.folder / "Cargo.toml"
    cargo.write_text(cargo.read_text() + "test = false\n")
    build(built, console=console)

    passed_over = aos("test", built.folder)
    cargo.write_text(cargo.read_text().replace("test = false", ""))
    build(built, console=console)
    (rust / "cargo").unlink()
    missing = aos("test", built.folder)

    assert (passed_over.code, missing.code) == (4, 4)
    assert "1 scenario passed" in passed_over.out
    assert passed_over.err == (
        f"aos: {cargo}: the tests in {built.folder}/src/sums.rs were not run, because [lib] has "
        "test = false (remove that line, or run aos test --no-cargo)\n"
    )
    assert missing.err == (
        f"aos: cargo was not found on the PATH, so the tests in {built.folder}/src/sums.rs were "
        "not run (install Rust, or run aos test --no-cargo)\n"
    )
