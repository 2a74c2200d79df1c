"""aos.toml (AU-10 to AU-13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos.author.project import PROJECT_FILE_BYTES_MAX, find_project, read_project
from aos.errors import BadUsage

HEAD = '[project]\nname = "shop"\nlang = "rust"\n'


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "aos.toml").write_text(text)
    return folder


def test_the_least_that_a_project_says_has_defaults(tmp_path: Path) -> None:
    found = read_project(written(tmp_path, HEAD))

    assert [(each.name, each.source, each.artifact) for each in found.modules] == [
        ("shop", ".", "build/shop.wasm")
    ]
    assert (found.executors, found.world, dict(found.manifest)) == ((), ".aos/dev", {})


def test_modules_and_manifest_are_as_written(tmp_path: Path) -> None:
    text = HEAD + (
        'executors = ["effects.py:shop"]\nworld = "./scratch/"\n'
        '[modules.a]\nsource = "crates/a"\n[modules.b]\nsource = "crates/b"\n'
        "[manifest.limits.world]\nevent_bytes = 1000\n"
    )

    found = read_project(written(tmp_path, text))

    assert [each.source for each in found.modules] == ["crates/a", "crates/b"]
    assert found.manifest == {"limits": {"world": {"event_bytes": 1000}}}
    assert (found.world, found.executors) == ("scratch", ("effects.py:shop",))


def test_assemblyscript_begins_in_its_own_file(tmp_path: Path) -> None:
    found = read_project(written(tmp_path, HEAD.replace("rust", "assemblyscript")))

    assert found.modules[0].source == "assembly/index.ts"


def test_python_begins_in_its_own_file(tmp_path: Path) -> None:
    project = read_project(written(tmp_path, '[project]\nname = "shop"\nlang = "python"\n'))

    assert [each.source for each in project.modules] == ["flow.py"]


def test_a_project_is_found_from_any_folder_in_it(tmp_path: Path) -> None:
    written(tmp_path / "shop", HEAD)
    inside = tmp_path / "shop/src/deep"
    inside.mkdir(parents=True)
    (inside / "x.rs").touch()

    assert find_project(inside).folder == tmp_path / "shop"
    assert find_project(inside / "x.rs").folder == tmp_path / "shop"
    with pytest.raises(BadUsage, match=r"there is no aos.toml in this folder or one above it"):
        find_project(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "project: expected a table [project]"),
        ("[project", "the file is not TOML"),
        ('[project]\nlang = "rust"\n', "project.name: expected text, found nothing"),
        ('[project]\nname = "S"\nlang = "rust"\n', "project.name: expected a name"),
        (
            '[project]\nname = "shop"\nlang = "go"\n',
            "expected 'rust', 'assemblyscript' or 'python', found 'go'",
        ),
        (HEAD + "world = 7\n", "project.world: expected a path below the project's folder"),
        (HEAD + 'world = "../x"\n', "project.world: expected a path below"),
        (HEAD + 'world = "/x"\n', "project.world: expected a path below"),
        (HEAD + 'abi = "aos/2"\n', "project.abi: expected 'aos/1' or 'agentos', found 'aos/2'"),
        (HEAD + "executors = 1\n", "project.executors: expected a list such as"),
        (HEAD + "nmae = 1\n", "found 'nmae' (did you mean name?)"),
        (HEAD + "[module.a]\n", "found 'module' (did you mean modules?)"),
        (HEAD + "[modules.A]\n", "modules.A: expected a name"),
        (HEAD + '[modules.a]\nsrc = "x"\n', "modules.a.src: expected one of source"),
        (HEAD + "[modules]\na = 1\n", "modules.a: expected a table [modules.a], found 1"),
        (
            HEAD.replace("rust", "python") + '[modules.a]\nsource = "src"\n',
            "modules.a.source: expected a file of Python, such as 'flow.py', found 'src'",
        ),
        (HEAD + "[modules]\n", "modules: expected one table [modules.NAME] or more"),
        (HEAD + "[[manifest.schemas]]\n", "manifest.schemas is filled in by aos build"),
        (HEAD + '[manifest]\nair_version = "2"\n', "manifest.air_version is filled in"),
    ],
)
def test_an_invalid_field_is_reported_with_its_place(
    tmp_path: Path, text: str, message: str
) -> None:
    written(tmp_path, text)

    with pytest.raises(BadUsage) as refused:
        read_project(tmp_path)

    assert message in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path}/aos.toml: ")


def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "aos.toml").write_bytes(b"\xff")
    with pytest.raises(BadUsage, match="the file is not TOML"):
        read_project(tmp_path)

    (tmp_path / "aos.toml").write_bytes(b"#" * (PROJECT_FILE_BYTES_MAX + 1))
    with pytest.raises(BadUsage, match="expected at most"):
        read_project(tmp_path)
