"""Reading a manifest's files: their places, and the files that are not read."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from aos.errors import BadUsage
from aos.host.apply import manifest_files
from aos.host.apply.manifest_files import load_manifest_files, read_manifest_files
from aos.manifest.load import ManifestProblems

PUPPET = Path(__file__).parents[3] / "modules" / "puppet" / "puppet.wasm"


def nodes(artifact: dict[str, str]) -> list[dict[str, object]]:
    return [
        {"$kind": "defschema", "name": "h/E@1", "type": {"record": {"key": {"text": {}}}}},
        {"$kind": "defschema", "name": "h/S@1", "type": {"nat": {}}},
        {
            "$kind": "defmodule",
            "name": "h/puppet@1",
            "runtime": {"kind": "wasm", "artifact": {"kind": "wasm_module", **artifact}},
        },
        {
            "$kind": "defworkflow",
            "name": "h/w@1",
            "state": "h/S@1",
            "event": "h/E@1",
            "effects_emitted": [],
            "impl": {"module": "h/puppet@1", "entrypoint": "step"},
        },
        {
            "$kind": "manifest",
            "air_version": "2",
            "schemas": [{"name": "h/E@1"}, {"name": "h/S@1"}],
            "modules": [{"name": "h/puppet@1"}],
            "workflows": [{"name": "h/w@1"}],
            "effects": [],
            "routing": {"subscriptions": [{"event": "h/E@1", "workflow": "h/w@1"}]},
        },
    ]


def write(folder: Path, name: str, value: object) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))
    return file


def problems(path: Path) -> str:
    with pytest.raises(ManifestProblems) as raised:
        load_manifest_files(path)
    return str(raised.value)


def test_a_folders_air_files_are_read_with_the_module_under_modules(tmp_path: Path) -> None:
    """H-60, H-61"""
    for index, node in enumerate(nodes({})):
        write(tmp_path, f"air/deep/{index}.air.json", node)
    write(tmp_path, "not-read.air.json", {"$kind": "nonsense"})
    write(tmp_path, "air/not-read.json", {"$kind": "nonsense"})
    write(tmp_path, "air/.hidden/x.air.json", {"$kind": "nonsense"})
    (tmp_path / "modules").mkdir()
    shutil.copy(PUPPET, tmp_path / "modules" / "puppet.wasm")

    loaded = load_manifest_files(tmp_path)

    assert list(loaded.effective.workflows) == ["h/w@1"]
    assert list(loaded.modules.values()) == [PUPPET.read_bytes()]


def test_without_a_folder_air_the_folder_itself_is_searched(tmp_path: Path) -> None:  # H-60
    write(tmp_path, "deep/all.air.json", nodes({"path": "p.wasm"}))
    shutil.copy(PUPPET, tmp_path / "deep" / "p.wasm")
    assert list(load_manifest_files(tmp_path).effective.workflows) == ["h/w@1"]


def test_one_file_is_a_manifest_and_a_module_may_lie_outside_the_folder(tmp_path: Path) -> None:
    """H-60, H-61"""
    file = write(tmp_path, "m/all.json", nodes({"path": "../p.wasm"}))
    shutil.copy(PUPPET, tmp_path / "p.wasm")
    assert list(load_manifest_files(file).effective.workflows) == ["h/w@1"]


def test_there_must_be_something(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="there is no such file or folder"):
        load_manifest_files(tmp_path / "none")
    assert "there is no AIR file" in problems(tmp_path)


def test_a_module_that_cannot_run_is_a_problem_of_the_manifest(tmp_path: Path) -> None:  # H-66
    write(tmp_path, "all.air.json", nodes({"path": "p.wasm"}))
    (tmp_path / "p.wasm").write_bytes(b"\0asm\1\0\0\0")
    assert 'p.wasm: export "memory"' in problems(tmp_path)


def test_a_missing_module_is_reported_with_the_node_that_needs_it(tmp_path: Path) -> None:
    write(tmp_path, "all.air.json", nodes({"path": "p.wasm"}))
    assert "the artifact of h/puppet@1 is missing: expected p.wasm" in problems(tmp_path)


def test_files_are_bounded_in_size_and_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-62"""
    monkeypatch.setattr(manifest_files, "JSON_BYTES_MAX", 20)
    write(tmp_path, "a.air.json", [1] * 6)
    write(tmp_path, "b.air.json", [1] * 7)
    files, found = read_manifest_files(tmp_path)
    assert list(files) == ["a.air.json"]
    assert [str(each) for each in found] == [
        "b.air.json: the file is too large: expected at most 20 bytes"
    ]
    monkeypatch.setattr(manifest_files, "FILES_MAX", 1)
    _, found = read_manifest_files(tmp_path)
    assert [str(each) for each in found] == ["b.air.json: expected at most 1 AIR files"]
    monkeypatch.setattr(manifest_files, "FILES_MAX", 9)
    monkeypatch.setattr(manifest_files, "FOLDERS_MAX", 1)
    (tmp_path / "deep").mkdir()
    _, found = read_manifest_files(tmp_path)
    assert any("expected at most 1 folders" in each.message for each in found)


def test_a_module_is_bounded_in_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H-62"""
    monkeypatch.setattr(manifest_files, "FILE_BYTES_MAX", 100)
    write(tmp_path, "all.air.json", nodes({"path": "p.wasm"}))
    shutil.copy(PUPPET, tmp_path / "p.wasm")
    assert "p.wasm: the file is too large: expected at most 100 bytes" in problems(tmp_path)


def test_a_link_is_followed_inside_the_folder_only(tmp_path: Path) -> None:  # H-63
    inside = tmp_path / "m"
    real = write(inside, "real/all.json", nodes({"path": "p.wasm"}))
    (inside / "air").mkdir()
    (inside / "air" / "p.wasm").symlink_to(PUPPET)
    (inside / "air" / "all.air.json").symlink_to(real)
    assert list(load_manifest_files(inside).effective.workflows) == ["h/w@1"]

    outside = write(tmp_path, "outside.json", {"$kind": "nonsense"})
    (inside / "air" / "out.air.json").symlink_to(outside)
    (inside / "air" / "folder").symlink_to(tmp_path)
    text = problems(inside)
    assert "air/out.air.json: a link out of the manifest's folder is not followed" in text
    assert "air/folder: a link to a folder is not followed" in text
    assert "nonsense" not in text


def test_a_read_of_a_special_file_does_not_block(tmp_path: Path) -> None:  # H-64
    os.mkfifo(tmp_path / "pipe.air.json")
    (tmp_path / "gone.air.json").symlink_to("nowhere")
    (tmp_path / "folder.air.json").mkdir()
    text = problems(tmp_path)
    assert "pipe.air.json: expected a regular file" in text
    assert "gone.air.json: the file cannot be read: No such file" in text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_a_problem(tmp_path: Path) -> None:  # H-64
    write(tmp_path, "a.air.json", {}).chmod(0)
    assert "a.air.json: the file cannot be read: Permission denied" in problems(tmp_path)


def test_a_module_path_from_the_root_is_not_read(tmp_path: Path) -> None:  # H-61
    write(tmp_path, "all.air.json", nodes({"path": str(PUPPET)}))
    assert "path" in problems(tmp_path)
