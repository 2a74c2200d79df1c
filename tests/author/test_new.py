"""aos new: a whole project, or nothing (AU-20 to AU-23, C-60)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from aos.author import new as making
from aos.author.new import HIDDEN, IN_CODE, IN_TEXT, new_project, templates
from aos.author.project import LANGUAGES, read_project
from aos.author.sdk import LEFT_OUT, RECORD, SDK_FOLDERS, release, sdk_folder
from aos.errors import BadUsage, Refused, Unavailable
from aos.worker.load_executors import load
from tests.cli.shell import Aos


def tree(folder: Path) -> dict[str, bytes]:
    files = (each for each in folder.rglob("*") if each.is_file())
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in files}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_project_is_its_template_under_its_own_name_with_a_copy_of_the_sdk(
    tmp_path: Path, lang: str
) -> None:
    made = new_project(tmp_path / "tea-shop", lang=lang)

    found = tree(tmp_path / "tea-shop")
    own = {name: data for name, data in found.items() if not name.startswith("sdk/")}
    assert sorted(found) == list(made.files)
    assert made.workflow in found
    assert {"aos.toml", "effects.py", "README.md", ".gitignore"} <= set(own)
    assert {"tests/test_tea_shop.py", "tests/order.scenario.toml"} <= set(own)
    for name, data in own.items():
        for word in (IN_TEXT, IN_CODE):
            assert word not in name
            assert word.encode() not in data, name
    project = read_project(tmp_path / "tea-shop")
    assert (project.name, project.lang) == ("tea-shop", lang)
    assert [each.artifact for each in project.modules] == ["build/tea-shop.wasm"]


@pytest.mark.parametrize("lang", SDK_FOLDERS)
def test_the_sdk_in_a_project_is_the_one_of_this_checkout(tmp_path: Path, lang: str) -> None:
    new_project(tmp_path / "shop", lang=lang)

    source = sdk_folder(lang)
    found = tree(tmp_path / "shop" / "sdk")
    assert found.pop(RECORD) == release(lang).to_bytes()
    for name, data in found.items():
        assert (source / name).read_bytes() == data
    assert {"rust": "Cargo.toml", "assemblyscript": "package.json"}[lang] in tree(
        tmp_path / "shop" / "sdk"
    )


def test_build_outputs_in_the_sdk_of_a_checkout_are_not_copied_into_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk = tmp_path / "sdk-rust"
    for name in ("src/lib.rs", "target/debug/x", "node_modules/x", ".git/x", "a.wasm"):
        (sdk / name).parent.mkdir(parents=True, exist_ok=True)
        (sdk / name).touch()
    monkeypatch.setattr("aos.author.sdk.sdk_folder", lambda _lang: sdk)

    new_project(tmp_path / "shop", lang="rust")

    assert set(tree(tmp_path / "shop" / "sdk")) == {"src/lib.rs", RECORD}
    assert "target" in LEFT_OUT


def test_executors_of_a_new_project_can_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_project(tmp_path / "tea-shop", lang="rust")
    monkeypatch.chdir(tmp_path / "tea-shop")

    [spec] = read_project(tmp_path / "tea-shop").executors
    executors = load(spec)

    assert executors.name == "tea-shop"
    assert list(executors.effects) == ["tea-shop/charge@1"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Shop", "shop would do"),
        ("tea_shop", "tea-shop would do"),
        ("tea--shop", "tea-shop would do"),
        ("9lives", "lives would do"),
        ("tea shop", "tea-shop would do"),
        ("-", None),
        ("é", None),
        ("a" * 41, "would do"),
        ("shop.", "shop would do"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, name: str, hint: str | None) -> None:
    with pytest.raises(BadUsage) as refused:
        new_project(tmp_path / name, lang="rust")

    assert "the name of a project: expected lower-case letters and digits" in str(refused.value)
    assert (hint or "") in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["sys", "aos-sdk", "core", "match", "class", "test", "effects"])
def test_a_word_that_means_something_already_is_no_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadUsage, match=f"'{name}' is already in use for something else"):
        new_project(tmp_path / name, lang="rust")

    assert list(tmp_path.iterdir()) == []


def test_a_language_that_there_is_no_sdk_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="expected rust, assemblyscript or python, found 'go'"):
        new_project(tmp_path / "shop", lang="go")

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/notes.txt").write_text("mine")

    with pytest.raises(Refused, match=r"shop: the folder is not empty: .* found notes.txt in it"):
        new_project(tmp_path / "shop", lang="rust")

    assert tree(tmp_path) == {"shop/notes.txt": b"mine"}


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()

    new_project(tmp_path / "shop", lang="rust")

    assert (tmp_path / "shop/aos.toml").is_file()


def test_a_file_and_a_link_in_its_place_are_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")

    for name in ("file", "link"):
        with pytest.raises(Refused, match="found something else"):
            new_project(tmp_path / name, lang="rust")

    assert (tmp_path / "file").read_text() == "mine"
    assert (tmp_path / "link").is_symlink()
    assert list((tmp_path / "empty").iterdir()) == []


def test_the_current_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")

    with pytest.raises(Refused, match=r"cd \.\., then aos new shop"):
        new_project(Path(), lang="rust")

    assert list(Path.cwd().iterdir()) == []


def test_a_folder_above_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="no such folder, so shop cannot be created in it"):
        new_project(tmp_path / "nowhere" / "shop", lang="rust")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_creation_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fails(_lang: str, _folder: Path) -> None:
        raise error

    monkeypatch.setattr(making, "copy_sdk", fails)

    with pytest.raises((Unavailable, KeyboardInterrupt)):
        new_project(tmp_path / "shop", lang="rust")

    assert list(tmp_path.iterdir()) == []


def test_files_that_appear_meanwhile_are_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(_lang: str, _folder: Path) -> None:
        (tmp_path / "shop").mkdir()
        (tmp_path / "shop/theirs").write_text("theirs")

    monkeypatch.setattr(making, "copy_sdk", meanwhile)

    with pytest.raises(Refused, match="the folder is not empty"):
        new_project(tmp_path / "shop", lang="rust")

    assert tree(tmp_path) == {"shop/theirs": b"theirs"}


def test_a_project_is_readable_to_whom_other_files_are(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        new_project(tmp_path / "shop", lang="rust")
    finally:
        os.umask(before)

    assert (tmp_path / "shop").stat().st_mode & 0o777 == 0o755


def test_templates_hold_no_file_that_would_mean_something_to_our_own_tools() -> None:
    names = {each.name for each in templates().rglob("*")}

    assert not {name for name in names if name.startswith(".") and name != ".pytest_cache"}
    assert set(HIDDEN) <= names


def test_the_command_says_what_to_type_next(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-60"""
    monkeypatch.chdir(tmp_path)

    made = aos("new", "shop", "--lang", "assemblyscript")

    assert made.code == 0
    assert [line.split("  ")[1] for line in made.out.splitlines()[1:-1]] == [
        "cd shop",
        "aos build",
        "aos test",
        "aos dev",
        "",
    ]
    assert 'shop/Placed@1 {"order_id": "o-1", "cents": 1250}' in made.out


def test_the_command_has_a_document_and_exit_codes(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-60, AU-3"""
    monkeypatch.chdir(tmp_path)

    made = aos("new", "shop", "--lang", "rust", "--json")
    again = aos("new", "shop", "--lang", "rust")
    without = aos("new", "other")
    bad = aos("new", "Bad", "--lang", "rust")

    assert json.loads(made.out)["name"] == "shop"
    assert "src/lib.rs" in made.json["files"]
    assert (again.code, without.code, bad.code) == (1, 2, 2)
    assert again.err.startswith("aos: ")
