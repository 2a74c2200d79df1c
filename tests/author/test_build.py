"""aos build, with a compiler that is not there (AU-1 to AU-8, AU-31 to AU-33, AU-54, C-61)."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from aos.author.build import Built, build, check
from aos.author.errors import BuildFailed, ToolMissing
from aos.author.project import Project, read_project
from aos.author.toolchain import Console, Stopped
from aos.host.apply.manifest_files import load_manifest_files
from aos.manifest.load import ManifestProblems
from tests.author import fakes
from tests.author.fakes import program
from tests.cli.shell import Aos, start
from tests.host import puppet
from tests.running_process import is_running

WAIT_S = 90.0

SIZE = puppet.WASM.stat().st_size
OURS = ("air/generated.air.json", "build/shop.wasm")


def on_disk(project: Project) -> dict[str, bytes]:
    return {name: (project.folder / name).read_bytes() for name in OURS}


def sources(project: Project, nodes: list[dict[str, Any]]) -> None:
    (project.folder / "src/lib.rs").write_text(fakes.source(nodes))


def test_a_build_makes_the_module_and_the_air_that_apply_takes(
    project: Project, console: Console
) -> None:
    """AU-1, AU-2, AU-40"""
    built = build(project, console=console)

    loaded = load_manifest_files(project.folder)
    assert loaded.effective.hash == built.loaded.effective.hash
    assert (project.folder / "build/shop.wasm").read_bytes() == puppet.WASM.read_bytes()
    [module] = [n for n in json.loads(on_disk(project)[OURS[0]]) if n["$kind"] == "defmodule"]
    assert module["runtime"]["artifact"]["path"] == "../build/shop.wasm"


def test_a_workflow_that_no_event_reaches_is_told_of(project: Project) -> None:
    """AU-8a"""
    told: list[str] = []
    routed = Console(report=told.append)
    build(project, console=routed)
    assert not [each for each in told if "no event reaches it" in each]

    sources(project, [each for each in fakes.nodes() if each["$kind"] != "subscription"])
    build(project, console=routed)

    [line] = [each for each in told if "no event reaches it" in each]
    assert line.startswith(f"{fakes.PUPPET}: no event reaches it, because no subscription names it")


def test_an_unchanged_output_is_not_written(project: Project, console: Console) -> None:
    """AU-5"""
    build(project, console=console)
    before = {name: (project.folder / name).stat().st_mtime_ns for name in OURS}

    build(project, console=console)

    assert {name: (project.folder / name).stat().st_mtime_ns for name in OURS} == before


def test_the_same_sources_make_the_same_bytes_in_another_place(
    project: Project, tmp_path: Path, console: Console
) -> None:
    """AU-6"""
    build(project, console=console)
    other = fakes.project(tmp_path / "a second place" / "with a longer name")

    build(other, console=console)

    assert on_disk(other) == on_disk(project)


def test_a_check_of_what_was_built_finds_nothing_and_writes_nothing(
    project: Project, console: Console
) -> None:
    """AU-7"""
    build(project, console=console)
    before = on_disk(project)

    found = check(project, console=console)

    assert isinstance(found.built, Built)
    assert (found.differing, found.by_another) == ((), False)
    assert on_disk(project) == before
    assert "--locked" not in fakes.calls(project.folder)[0]["words"]
    assert "--locked" in fakes.calls(project.folder)[1]["words"]


def test_a_check_tells_how_the_definitions_have_drifted(project: Project, console: Console) -> None:
    build(project, console=console)
    before = on_disk(project)
    sources(project, fakes.nodes(version=2))

    differs, record = check(project, console=console).differing

    assert (differs.file, record.file) == ("air/generated.air.json", "build/compiler.json")
    assert differs.lines[0] == "--- air/generated.air.json (on disk)"
    assert '-    "limits": {"effects": 63}' in differs.lines
    assert '+    "limits": {"effects": 62}' in differs.lines
    assert on_disk(project) == before


def test_a_check_tells_of_a_module_that_is_old_and_of_files_that_are_missing(
    project: Project, console: Console
) -> None:
    build(project, console=console)
    (project.folder / "build/shop.wasm").write_bytes(b"\0asm\1\0\0\0")
    (project.folder / "air/generated.air.json").unlink()

    air, module = check(project, console=console).differing

    assert air.lines == ("air/generated.air.json is missing",)
    assert module.lines[0].startswith("- 8 bytes, ")
    assert module.lines[1].startswith(f"+ {SIZE:,} bytes, ")


def test_modules_of_another_compiler_are_not_compared_and_everything_else_is(
    aos: Aos, project: Project, rust: Path
) -> None:
    """AU-7"""
    aos("build", project.folder)
    program(rust / "rustc", (rust / "rustc").read_text().replace("1.99", "2.00"))
    (project.folder / "build/shop.wasm").write_bytes(b"other bytes")

    other = aos("build", project.folder, "--check")
    sources(project, fakes.nodes(version=2))
    drifted = aos("build", project.folder, "--check", "--json")

    assert other.code == 4
    assert "build/compiler.json: the modules on disk were made by another compiler" in other.err
    assert drifted.code == 1
    assert drifted.json["differ"] == ["air/generated.air.json"]
    assert drifted.json["by_another_compiler"]


def test_a_generated_file_that_has_nothing_to_hold_any_more_goes(
    project: Project, console: Console
) -> None:
    build(project, console=console)
    nodes = json.loads((project.folder / "air/generated.air.json").read_bytes())
    (project.folder / "air/own.air.json").write_text(json.dumps(nodes))
    sources(project, [])

    differs, _record = check(project, console=console).differing
    build(project, console=console)

    assert differs.lines == ("air/generated.air.json should not exist",)
    assert not (project.folder / "air/generated.air.json").exists()
    assert load_manifest_files(project.folder).effective.workflows


def test_errors_of_a_compiler_are_shown_and_change_nothing(
    project: Project, console: Console, capfd: pytest.CaptureFixture[str]
) -> None:
    """AU-2, AU-3, AU-4"""
    build(project, console=console)
    before = on_disk(project)
    (project.folder / "src/lib.rs").write_text("not rust")

    with pytest.raises(BuildFailed, match=r"the Rust compiler failed \(exit code 101\)"):
        build(project, console=console)

    assert capfd.readouterr().err == "error: expected item, found `not`\n --> src/lib.rs:1:1\n"
    assert on_disk(project) == before


def test_a_manifest_that_could_not_be_applied_is_an_error_with_every_problem(
    project: Project, console: Console
) -> None:
    """AU-2"""
    build(project, console=console)
    before = on_disk(project)
    nodes = fakes.nodes()
    for node in nodes:
        if node["$kind"] == "defworkflow":
            node["state"] = "host/Nowhere@1"
            node["impl"]["entrypoint"] = "nowhere"
    sources(project, nodes)

    with pytest.raises(ManifestProblems) as refused:
        build(project, console=console)

    said = str(refused.value)
    assert "host/Nowhere@1" in said
    assert 'build/shop.wasm: export "nowhere": expected a function' in said
    assert on_disk(project) == before


def test_of_a_file_that_is_no_json_only_that_is_told_and_before_anything_is_compiled(
    project: Project, console: Console
) -> None:
    """AU-2a"""
    (project.folder / "air").mkdir()
    (project.folder / "air/schemas.air.json").write_text(
        '[{"$kind": "defschema", "name": "host/Word@1", "type": {"text": {}}},]'
    )
    (project.folder / "air/workflows.air.json").write_text(
        '{"$kind": "defschema", "name": "host/Words@1", "type": {"list": {"ref": "host/Word@1"}}}'
    )
    (project.folder / "air/other.air.json").write_bytes(b"\xff")

    with pytest.raises(ManifestProblems) as refused:
        build(project, console=console)

    other, schemas = str(refused.value).splitlines()
    assert other.startswith("air/other.air.json: the file is not UTF-8: byte 0")
    assert schemas.startswith("air/schemas.air.json: the file is not JSON: ")
    assert not (project.folder / "cargo-calls.jsonl").exists()


def test_a_module_with_imports_is_no_module(project: Project, console: Console) -> None:
    """AU-2"""
    wasm = wasmtime.wat2wasm('(module (import "env" "abort" (func)))')
    (project.folder / "own.wasm").write_bytes(wasm)

    with pytest.raises(ManifestProblems) as refused:
        build(project, console=console)

    assert 'the module imports the function "abort" from "env"' in str(refused.value)
    assert not (project.folder / "build").exists()


def test_a_module_without_a_definition_is_an_error(project: Project, console: Console) -> None:
    """AU-54"""
    build(project, console=console)
    nodes = json.loads((project.folder / "air/generated.air.json").read_bytes())
    for node in nodes:
        if node["$kind"] == "defmodule":
            node["runtime"]["artifact"]["path"] = "../other.wasm"
    (project.folder / "other.wasm").write_bytes(puppet.WASM.read_bytes())
    (project.folder / "air/own.air.json").write_text(json.dumps(nodes))
    sources(project, [])

    with pytest.raises(BuildFailed, match=r"no module of the manifest has its bytes in build/shop"):
        build(project, console=console)


def test_definitions_that_collide_with_those_by_hand_name_both_places(
    project: Project, console: Console
) -> None:
    """AU-51"""
    (project.folder / "air").mkdir()
    other = {"$kind": "defschema", "name": "host/Count@1", "type": {"int": {}}}
    (project.folder / "air/own.air.json").write_text(json.dumps(other))

    with pytest.raises(
        BuildFailed, match=r"the definition of host/Count@1 in air/own.air.json differs"
    ):
        build(project, console=console)


def test_several_modules_are_built_together(tmp_path: Path, rust: Path, console: Console) -> None:
    """AU-33"""
    assert rust.is_dir()
    folder = tmp_path / "shop"
    more = '[modules.one]\nsource = "one"\n[modules.two]\nsource = "two"\n'
    fakes.project(folder, more=more)
    (folder / "Cargo.toml").write_text('[workspace]\nmembers = ["one", "two"]\n')
    nodes = fakes.nodes()
    fakes.crate(folder / "one", "shop-one", fakes.source(nodes))
    shared = [each for each in nodes if each["$kind"] == "defschema"]
    second = {**next(each for each in nodes if each["$kind"] == "defmodule"), "name": "host/two@1"}
    fakes.crate(folder / "two", "shop-two", fakes.source([*shared, second]))

    built = build(read_project(folder), console=console)

    assert [each.artifact for each in built.modules] == ["build/one.wasm", "build/two.wasm"]
    assert len(fakes.calls(folder)) == 1
    [manifest] = [n for n in json.loads(on_disk_air(folder)) if n["$kind"] == "manifest"]
    assert manifest["modules"] == [{"name": "host/puppet.module@1"}, {"name": "host/two@1"}]


def on_disk_air(folder: Path) -> bytes:
    return (folder / "air/generated.air.json").read_bytes()


@pytest.mark.parametrize(
    ("cargo", "message"),
    [
        (None, "expected the folder of a Rust package"),
        ("[", "the file is not TOML"),
        ("[workspace]\n", r"expected a \[package\] with a name"),
        (
            '[package]\nname = "shop"\n',
            r"does not build a WASM module: expected crate-type = \[\"cdylib\"\]",
        ),
    ],
)
def test_a_package_that_cannot_be_a_module_is_said_to_be(
    project: Project, console: Console, cargo: str | None, message: str
) -> None:
    file = project.folder / "Cargo.toml"
    file.unlink() if cargo is None else file.write_text(cargo)

    with pytest.raises(BuildFailed, match=message):
        build(project, console=console)


def test_without_a_compiler_it_is_exit_4(
    project: Project, console: Console, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))

    with pytest.raises(ToolMissing, match="Install one: ") as missing:
        build(project, console=console)

    assert missing.value.exit_code == 4


def compiling(project: Project) -> int:
    """The pid of the compiler, once it is at work."""
    file, deadline = project.folder / "compiling", time.monotonic() + WAIT_S
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(file.read_text())


def ends(pid: int) -> bool:
    """Whether a compiler ends, long before it would by itself."""
    deadline = time.monotonic() + WAIT_S
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_running(pid)


def test_a_build_that_is_given_up_ends_its_compiler(project: Project, console: Console) -> None:
    """AU-4"""
    (project.folder / "src/lib.rs").write_text("takes for ever")
    raised: list[BaseException] = []

    def run() -> None:
        try:
            build(project, console=console)
        except Stopped as stopped:
            raised.append(stopped)

    thread = threading.Thread(target=run)
    thread.start()
    pid = compiling(project)
    console.given_up.set()
    thread.join(WAIT_S)

    assert len(raised) == 1
    assert ends(pid)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 1), (signal.SIGINT, 130)])
def test_a_signal_ends_the_command_and_its_compiler(
    project: Project, number: signal.Signals, code: int
) -> None:
    """AU-4, C-1"""
    (project.folder / "src/lib.rs").write_text("takes for ever")
    process = start("build", project.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        pid = compiling(project)
        process.send_signal(number)
        process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()

    assert process.returncode == code
    assert ends(pid)


def test_the_command_tells_size_hash_and_time(aos: Aos, project: Project) -> None:
    """AU-8, C-61"""
    inside = project.folder / "src"

    built = aos("build", inside)
    as_json = aos("build", project.folder, "--json")

    assert built.code == 0
    assert built.out.startswith(f"build/shop.wasm  {SIZE:,} bytes  blake3:")
    document = as_json.json
    assert document["modules"][0]["bytes"] == SIZE
    assert document["modules"][0]["hash"] in built.out
    assert document["manifest"] in built.out
    assert document["differ"] == []


def test_the_command_checks(aos: Aos, project: Project) -> None:
    """AU-7, C-61"""
    before = aos("build", project.folder, "--check")
    aos("build", project.folder)
    fine = aos("build", project.folder, "--check")
    sources(project, fakes.nodes(version=2))
    old = aos("build", project.folder, "--check")
    as_json = aos("build", project.folder, "--check", "--json")

    assert (before.code, fine.code, old.code, as_json.code) == (1, 0, 1, 1)
    assert "air/generated.air.json is missing" in before.out
    assert '-    "limits": {"effects": 63}' in old.out
    assert "aos build writes it" in old.err
    assert as_json.json["differ"] == ["air/generated.air.json", "build/compiler.json"]


def test_the_command_says_how_many_problems_there_are(aos: Aos, project: Project) -> None:
    (project.folder / "air").mkdir()
    (project.folder / "air/own.air.json").write_text("{")

    refused = aos("build", project.folder)

    assert refused.code == 1
    assert "aos: the manifest of shop has 1 problem\n" in refused.err
    assert "air/own.air.json" in refused.err


def test_outside_of_a_project_it_says_how_to_begin(aos: Aos, tmp_path: Path) -> None:
    refused = aos("build", tmp_path)

    assert refused.code == 2
    assert "aos new NAME --lang rust creates one" in refused.err
