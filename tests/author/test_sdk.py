"""A project's copy of the SDK, and its renewal (AU-22a, AU-24 to AU-27, C-63)."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from aos import __version__
from aos.author import sdk
from aos.author.new import new_project
from aos.author.project import Project, read_project
from aos.author.sdk import (
    BEFORE,
    NO_FILE,
    RECORD,
    Release,
    Updated,
    hashes,
    outdated,
    recorded,
    release,
    update_sdk,
)
from aos.errors import Refused, Unavailable
from tests.author.test_new import tree
from tests.cli.shell import Aos

OLD, NEW = "0.0.9", __version__


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The SDK of this aos, of three files."""
    folder = tmp_path / "sdk-rust"
    for name in ("Cargo.toml", "src/lib.rs", "src/old.rs", "target/x", "tests/x.rs"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name} of {OLD}\n")
    monkeypatch.setattr("aos.author.sdk.sdk_folder", lambda _lang: folder)
    return folder


@pytest.fixture
def shop(tmp_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project of an earlier release; in this one a file is new, one gone and one other."""
    monkeypatch.setattr("aos.author.sdk.__version__", OLD)
    new_project(tmp_path / "shop", lang="rust")
    monkeypatch.undo()
    monkeypatch.setattr("aos.author.sdk.sdk_folder", lambda _lang: installed)
    (installed / "src/lib.rs").write_text("new\n")
    (installed / "src/new.rs").write_text("new\n")
    (installed / "src/old.rs").unlink()
    return read_project(tmp_path / "shop")


def is_new(project: Project) -> bool:
    copy = project.folder / "sdk"
    return hashes(copy) == release("rust").files and recorded(copy) == release("rust")


def no_scraps(project: Project) -> bool:
    return not [each.name for each in project.folder.iterdir() if each.name.startswith(".sdk")]


def test_a_copy_has_a_record_of_its_release_and_its_files(shop: Project) -> None:
    """AU-22a"""
    copy = shop.folder / "sdk"

    found = json.loads((copy / RECORD).read_bytes())

    assert found["aos"] == OLD
    assert list(found["files"]) == ["Cargo.toml", "src/lib.rs", "src/old.rs"]
    assert found["files"] == hashes(copy)


def test_a_renewed_copy_is_that_of_this_aos_and_says_what_changed(shop: Project) -> None:
    """AU-24"""
    (shop.folder / "sdk/target").mkdir()
    (shop.folder / "sdk/target/built").touch()

    updated = update_sdk(shop)

    assert updated == Updated(
        previous_release=OLD,
        added=("src/new.rs",),
        changed=("src/lib.rs",),
        removed=("src/old.rs",),
    )
    assert is_new(shop)
    assert no_scraps(shop)
    assert (shop.folder / "sdk").stat().st_mode & 0o777 == 0o755
    before = tree(shop.folder)
    assert update_sdk(shop) == Updated(
        previous_release=NEW, added=(), changed=(), removed=(), is_same=True
    )
    assert tree(shop.folder) == before


def test_edited_files_are_not_lost(shop: Project) -> None:
    """AU-25"""
    (shop.folder / "sdk/src/lib.rs").write_text("mine")
    (shop.folder / "sdk/mine.rs").write_text("mine")
    (shop.folder / "sdk/link").symlink_to("src")
    before = tree(shop.folder)

    with pytest.raises(Refused) as refused:
        update_sdk(shop)

    assert str(refused.value) == (
        f"{shop.folder}/sdk: edits would be lost: link was added, mine.rs was "
        "added, src/lib.rs was changed (save your changes elsewhere, then replace the folder with "
        "--force)"
    )
    assert tree(shop.folder) == before
    assert no_scraps(shop)

    forced = update_sdk(shop, force=True)

    assert forced.changed == ("src/lib.rs",)
    assert forced.removed == ("link", "mine.rs", "src/old.rs")
    assert is_new(shop)


def test_of_many_edited_files_some_are_named(shop: Project) -> None:
    for number in range(7):
        (shop.folder / f"sdk/{number}.rs").touch()

    with pytest.raises(Refused, match=r"0\.rs was added, .* 4\.rs was added and 2 more \("):
        update_sdk(shop)


def test_a_deleted_file_and_one_that_is_already_up_to_date_are_no_edits(shop: Project) -> None:
    """AU-25"""
    (shop.folder / "sdk/Cargo.toml").unlink()
    (shop.folder / "sdk/src/lib.rs").write_text("new\n")

    assert update_sdk(shop).added == ("Cargo.toml", "src/new.rs")
    assert is_new(shop)


@pytest.mark.parametrize(
    "record", [None, b"{", b"[]", b'{"aos": 1}', b'{"aos": "1", "files": {"a": 1}}']
)
def test_without_a_record_only_what_is_the_same_is_replaced(
    shop: Project, record: bytes | None
) -> None:
    """AU-25"""
    file = shop.folder / "sdk" / RECORD
    file.unlink()
    if record is not None:
        file.write_bytes(record)
    before = tree(shop.folder)

    with pytest.raises(Refused, match=r"its files may have been edited: the"):
        update_sdk(shop)
    assert tree(shop.folder) == before

    assert update_sdk(shop, force=True).previous_release is None
    assert is_new(shop)
    file.unlink()
    assert update_sdk(shop) == Updated(previous_release=None, added=(), changed=(), removed=())
    assert is_new(shop)


def test_a_project_without_a_copy_or_with_a_link_is_left_as_it_is(
    shop: Project, tmp_path: Path
) -> None:
    """AU-24"""
    (shop.folder / "sdk").rename(tmp_path / "elsewhere")
    with pytest.raises(Refused, match=r"sdk: there is no such folder: expected a project's own"):
        update_sdk(shop, force=True)
    (shop.folder / "sdk").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match=r"this is a link, which is not changed.*that it points to"):
        update_sdk(shop, force=True)

    assert recorded(tmp_path / "elsewhere") != release("rust")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_copy_leaves_the_old_copy_unchanged(
    shop: Project, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """AU-26"""
    before = tree(shop.folder)

    def fails(_lang: str, folder: Path) -> None:
        (folder / "src").mkdir(parents=True)
        raise error

    monkeypatch.setattr(sdk, "copy_sdk", fails)

    with pytest.raises((Unavailable, KeyboardInterrupt)) as failed:
        update_sdk(shop)

    if isinstance(error, OSError):
        assert "cannot be updated, and is unchanged: No space left on device" in str(failed.value)
    assert tree(shop.folder) == before
    assert no_scraps(shop)


def test_a_new_copy_that_cannot_take_its_place_leaves_the_old_one_in_it(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AU-26"""
    before = tree(shop.folder)
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if sdk.UNFINISHED in str(self):
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)

    with pytest.raises(Unavailable, match="is unchanged: Input/output error"):
        update_sdk(shop)

    assert tree(shop.folder) == before
    assert no_scraps(shop)


def test_an_update_that_was_killed_between_its_renames_is_put_back(shop: Project) -> None:
    """AU-26"""
    (shop.folder / "sdk").rename(shop.folder / BEFORE)

    assert outdated(shop) == "sdk/: its update was interrupted (aos sdk update)"
    assert update_sdk(shop).previous_release == OLD
    assert is_new(shop)
    assert no_scraps(shop)


def test_an_update_that_was_killed_behind_its_renames_is_tidied(shop: Project) -> None:
    """AU-26"""
    shutil.copytree(shop.folder / "sdk", shop.folder / BEFORE)

    update_sdk(shop)

    assert is_new(shop)
    assert no_scraps(shop)


def test_a_copy_of_another_release_is_told(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """AU-27"""
    assert outdated(shop) == (
        f"sdk/ is of aos {OLD}, and this is aos {NEW} (aos sdk update updates it)"
    )
    old = recorded(shop.folder / "sdk")
    assert old is not None
    same_name = Release(aos=NEW, files=old.files)
    (shop.folder / "sdk" / RECORD).write_bytes(same_name.to_bytes())
    assert str(outdated(shop)).startswith(f"sdk/ is of another aos {NEW}, and this is")
    (shop.folder / "sdk" / RECORD).unlink()
    assert outdated(shop) == (
        f"sdk/ is not that of this aos {NEW}, and sdk/{RECORD} is missing or invalid "
        "(aos sdk update --force replaces it)"
    )

    update_sdk(shop, force=True)
    assert outdated(shop) is None
    (shop.folder / "sdk/src/lib.rs").write_text("edited")
    assert outdated(shop) is None
    (shop.folder / "sdk" / RECORD).unlink()
    shutil.rmtree(shop.folder / "sdk")
    assert outdated(shop) is None

    def none(_lang: str) -> Path:
        raise Unavailable("there is none")

    (shop.folder / "sdk").mkdir()
    monkeypatch.setattr("aos.author.sdk.sdk_folder", none)
    assert outdated(shop) is None


def test_a_file_that_is_not_regular_has_no_hash(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "c").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "d")

    found = hashes(tmp_path)

    assert found.pop("a").startswith("blake3:")
    assert found == dict.fromkeys("bcd", NO_FILE)


def test_the_command_says_what_changed(aos: Aos, shop: Project) -> None:
    """C-63"""
    first = aos("sdk", "update", shop.folder / "src")
    again = aos("sdk", "update", shop.folder)
    document = aos("sdk", "update", shop.folder, "--json").json

    assert (first.code, again.code) == (0, 0)
    assert first.out == (
        f"sdk/ is of aos {NEW} now, and was of aos {OLD}\n"
        "1 file added\n  + src/new.rs\n"
        "1 file changed\n  ~ src/lib.rs\n"
        "1 file removed\n  - src/old.rs\n"
    )
    assert first.err == "next: aos build\n"
    assert again.out == f"sdk/ is already the one of aos {NEW}\n"
    assert document == {
        "project": "shop", "before": NEW, "aos": NEW, "added": [], "changed": [], "removed": [],
    }  # fmt: skip


def test_where_npm_has_a_lock_of_the_sdk_it_is_to_be_renewed(
    aos: Aos, shop: Project, installed: Path
) -> None:
    """C-63"""
    (shop.folder / "sdk/package.json").write_text("old")
    (installed / "package.json").write_text("new")

    told = aos("sdk", "update", shop.folder, "--force")

    assert told.err == (
        "run npm install: sdk/package.json has changed, and package-lock.json must follow\n"
        "next: aos build\n"
    )


def test_the_command_refuses_what_would_be_lost_and_can_be_forced(aos: Aos, shop: Project) -> None:
    """C-63"""
    (shop.folder / "sdk/mine.rs").touch()

    refused = aos("sdk", "update", shop.folder)
    forced = aos("sdk", "update", shop.folder, "--force", "--json")

    assert (refused.code, forced.code) == (1, 0)
    assert "mine.rs was added" in refused.err
    assert forced.json["removed"] == ["mine.rs", "src/old.rs"]
    assert aos("sdk", "update", shop.folder.parent).code == 2


def test_a_build_tells_it_in_one_line(
    aos: Aos, shop: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """AU-27"""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    told = f"sdk/ is of aos {OLD}, and this is aos {NEW} (aos sdk update updates it)\n"

    assert aos("build", shop.folder).err.startswith(told)
    aos("sdk", "update", shop.folder)
    assert "sdk/" not in aos("build", shop.folder).err
