"""aos build of AssemblyScript, with a compiler that is not there (AU-60 to AU-62)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aos.author.asc import install
from aos.author.build import build, check
from aos.author.errors import BuildFailed, ToolMissing
from aos.author.project import Project
from aos.author.toolchain import Console
from aos.host.apply.manifest_files import load_manifest_files
from aos.manifest.load import ManifestProblems
from tests.author import fakes
from tests.host import puppet


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PATH", str(fakes.node(tmp_path / "node")))
    return fakes.script_project(tmp_path / "shop")


def installs(project: Project) -> int:
    file = project.folder / "npm-calls"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_a_build_makes_classes_module_and_manifest(script: Project, console: Console) -> None:
    """AU-1, AU-60"""
    built = build(script, console=console)

    assert load_manifest_files(script.folder).effective.hash == built.loaded.effective.hash
    assert (script.folder / "build/shop.wasm").read_bytes() == puppet.WASM.read_bytes()
    code = (script.folder / "assembly/generated.ts").read_text()
    assert "export class Do " in code
    [manifest] = json.loads((script.folder / "air/generated.air.json").read_bytes())
    assert manifest["workflows"] == [{"name": fakes.PUPPET}]
    assert manifest["routing"]["subscriptions"][0]["workflow"] == fakes.PUPPET


def test_the_compiler_is_the_projects_own_with_its_own_options(
    script: Project, console: Console
) -> None:
    """AU-62"""
    build(script, console=console)

    [words] = [
        json.loads(line) for line in (script.folder / "asc-calls.jsonl").read_text().splitlines()
    ]
    assert words[:4] == [
        "node_modules/assemblyscript/bin/asc.js", "assembly/index.ts", "--config", "asconfig.json",
    ]  # fmt: skip


def test_packages_are_installed_once_and_again_when_the_lock_changes(
    script: Project, console: Console, said: list[str]
) -> None:
    """AU-61"""
    for _ in range(2):
        build(script, console=console)
    assert installs(script) == 1
    assert said == ["npm ci: installing the packages of package-lock.json"]

    (script.folder / "package-lock.json").write_text('{"other": 1}\n')
    assert install(script, console=console)
    assert not install(script, console=console)

    assert installs(script) == 2


def test_an_installed_compiler_needs_no_npm(
    script: Project, console: Console, tmp_path: Path
) -> None:
    """AU-61"""
    build(script, console=console)
    (tmp_path / "node/npm").unlink()

    build(script, console=console)


@pytest.mark.parametrize("gone", ["npm", "node"])
def test_a_missing_program_is_named_with_what_to_install(
    script: Project, console: Console, tmp_path: Path, gone: str
) -> None:
    """AU-3"""
    (tmp_path / "node" / gone).unlink()

    with pytest.raises(ToolMissing) as missing:
        build(script, console=console)

    assert str(missing.value).startswith(
        f"{gone} was not found on the PATH: expected Node.js 18 or newer, with npm (install it: "
    )
    assert missing.value.exit_code == 4


def test_packages_that_cannot_be_installed_are_tried_again_next_time(
    script: Project, console: Console, capfd: pytest.CaptureFixture[str]
) -> None:
    lock = script.folder / "package-lock.json"
    lock.write_text('"broken"\n')
    for _ in range(2):
        with pytest.raises(BuildFailed, match=r"npm ci failed \(exit code 1\); see above"):
            build(script, console=console)
    assert "npm error: no such package" in capfd.readouterr().err
    assert installs(script) == 2

    lock.write_text("{}\n")
    build(script, console=console)


def test_a_project_without_a_compiler_among_its_packages_is_told(
    script: Project, console: Console
) -> None:
    (script.folder / "package.json").write_text("{}\n")

    with pytest.raises(BuildFailed, match="npm ci has not installed AssemblyScript"):
        build(script, console=console)


@pytest.mark.parametrize("name", ["package.json", "package-lock.json"])
def test_a_project_without_its_lock_is_told(script: Project, console: Console, name: str) -> None:
    (script.folder / name).unlink()

    with pytest.raises(BuildFailed, match=f"{name}: the file cannot be read"):
        build(script, console=console)


def test_errors_of_the_compiler_are_shown(
    script: Project, console: Console, capfd: pytest.CaptureFixture[str]
) -> None:
    (script.folder / "assembly/index.ts").write_text("not typescript")

    with pytest.raises(BuildFailed, match="the AssemblyScript compiler failed"):
        build(script, console=console)

    assert capfd.readouterr().err == "ERROR TS1003: Identifier expected.\n"
    assert not (script.folder / "build").exists()


def test_an_entry_file_that_is_not_there_is_named(script: Project, console: Console) -> None:
    (script.folder / "assembly/index.ts").unlink()

    with pytest.raises(BuildFailed, match=r"no such file: assembly/index.ts"):
        build(script, console=console)


def test_a_forgotten_export_comes_with_the_line_to_write(script: Project, console: Console) -> None:
    """AU-55"""
    air = script.folder / "air/shop.air.json"
    air.write_text(air.read_text().replace('"entrypoint": "step"', '"entrypoint": "order"'))

    with pytest.raises(ManifestProblems) as refused:
        build(script, console=console)

    assert str(refused.value).endswith(
        "found no such export (write in the module's entry file: "
        "export function order(pointer: i32, length: i32): u64 { … })"
    )


def test_a_forgotten_migration_comes_with_its_line_and_the_class_to_extend(
    script: Project, console: Console
) -> None:
    """AU-55"""
    air = script.folder / "air/shop.air.json"
    nodes = json.loads(air.read_bytes())
    nodes.append({"$kind": "defschema", "name": "host/Before@1", "type": {"nat": {}}})
    [flow] = [each for each in nodes if each["$kind"] == "defworkflow"]
    flow["migrate"] = {"from": "host/Before@1", "entrypoint": "renew"}
    air.write_text(json.dumps(nodes))

    with pytest.raises(ManifestProblems) as refused:
        build(script, console=console)

    assert str(refused.value).endswith(
        "found no such export (write in the module's entry file: "
        "export function renew(pointer: i32, length: i32): u64 "
        "{ return migrate<…>(pointer, length); } with migrate from aos-sdk, "
        "where … is your class that extends PuppetMigration)"
    )
    code = (script.folder / "assembly/generated.ts").read_text("utf-8")
    assert "export abstract class PuppetMigration extends aos.Migration {" in code


def test_of_a_file_that_is_no_json_only_that_is_told(script: Project, console: Console) -> None:
    """AU-2a"""
    nodes = json.loads((script.folder / "air/shop.air.json").read_bytes())
    schemas = [each for each in nodes if each["$kind"] == "defschema"]
    others = [each for each in nodes if each["$kind"] != "defschema"]
    (script.folder / "air/shop.air.json").write_text(json.dumps(others))
    (script.folder / "air/schemas.air.json").write_text(json.dumps(schemas)[:-1])

    with pytest.raises(ManifestProblems) as refused:
        build(script, console=console)

    [said] = str(refused.value).splitlines()
    assert said.startswith("air/schemas.air.json: the file is not JSON: ")


def test_classes_are_made_of_definitions_that_are_right_only(
    script: Project, console: Console
) -> None:
    """AU-60"""
    build(script, console=console)
    before = (script.folder / "assembly/generated.ts").read_bytes()
    (script.folder / "air/more.air.json").write_text(
        '{"$kind": "defschema", "name": "host/New@1", "type": {"ref": "host/Nowhere@1"}}'
    )

    with pytest.raises(ManifestProblems, match="host/Nowhere@1"):
        build(script, console=console)

    assert (script.folder / "assembly/generated.ts").read_bytes() == before
    assert len((script.folder / "asc-calls.jsonl").read_text().splitlines()) == 1


def test_a_check_ends_where_the_classes_are_old(script: Project, console: Console) -> None:
    """AU-7"""
    build(script, console=console)
    fine = check(script, console=console)
    (script.folder / "air/more.air.json").write_text(
        '{"$kind": "defschema", "name": "host/New@1", "type": {"record": {"a": {"nat": {}}}}}'
    )
    calls = (script.folder / "asc-calls.jsonl").stat().st_size

    found = check(script, console=console)

    [differs] = found.differing
    assert fine.differing == ()
    assert found.built is None
    assert differs.file == "assembly/generated.ts"
    assert "+export class New extends aos.Schema {" in differs.lines
    assert (script.folder / "asc-calls.jsonl").stat().st_size == calls, "nothing was compiled"
    assert "New" not in (script.folder / "assembly/generated.ts").read_text()
