"""The compiled SDK, which the projects of a user share (AU-36, AU-37)."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from aos.author import compiled_sdk as module
from aos.author.compiled_sdk import FILES, KEPT_MAX, CompiledSdk, compiled_sdk
from aos.author.new import new_project
from aos.author.project import RUST, read_project
from aos.author.toolchain import TARGET, find_toolchain

FLAGS = ("-Cone",)
WASM = Path(TARGET, "release")
OUTPUT = {
    "release/deps/aos_sdk_macros-0123456789abcdef.d": b"macros: lib.rs",
    "release/deps/libaos_sdk_macros-0123456789abcdef.so": b"a program",
    "release/.fingerprint/aos-sdk-macros-0123456789abcdef/lib-aos_sdk_macros": b"1",
    f"{WASM}/deps/libaos_sdk-fedcba9876543210.rlib": b"a library",
    f"{WASM}/deps/libaos_sdk-fedcba9876543210.rmeta": b"its types",
    f"{WASM}/.fingerprint/aos-sdk-fedcba9876543210/lib-aos_sdk": b"2",
}
OTHERS = {
    f"{WASM}/deps/libshop-0000000000000000.rlib": b"the project's own",
    f"{WASM}/.fingerprint/shop-0000000000000000/lib-shop": b"3",
    "release/deps/aos_sdk_macros_of_mine-0000000000000000.d": b"another crate",
}

Make = Callable[[str], CompiledSdk]


@pytest.fixture
def make(tmp_path: Path, rust: Path, said: list[str]) -> Make:
    """The compiled SDK of the project with this name, which is created if necessary."""

    def make(name: str) -> CompiledSdk:
        folder = tmp_path / name
        if not folder.exists():
            new_project(folder, lang=RUST)
        found = compiled_sdk(
            read_project(folder),
            find_toolchain(),
            flags=FLAGS,
            cache=tmp_path / "cache/rust-sdk",
            target=folder / "target",
            report=said.append,
        )
        assert found is not None
        return found

    return make


def compiles(sdk: CompiledSdk) -> None:
    """Leave the output of cargo."""
    for name, data in {**OUTPUT, **OTHERS}.items():
        file = sdk.target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def output(sdk: CompiledSdk) -> dict[str, bytes]:
    files = (file for file in sdk.target.rglob("*") if file.is_file())
    return {file.relative_to(sdk.target).as_posix(): file.read_bytes() for file in files}


def keeps(sdk: CompiledSdk) -> Path:
    """Compile in this project, and return the folder in the cache."""
    assert sdk.restore()
    compiles(sdk)
    sdk.keep()
    return sdk.cache / sdk.key


def test_the_second_project_of_a_user_gets_the_sdk_of_the_first(make: Make) -> None:
    """AU-36"""
    kept = keeps(make("shop"))

    second = make("tea-shop")
    is_first = second.restore()

    assert not is_first
    assert output(second) == OUTPUT, "and nothing of the project"
    assert kept.stat().st_uid == os.geteuid()
    assert make("shop").cache.stat().st_mode & 0o777 == 0o700


def test_a_source_that_changes_after_it_was_read_is_newer_than_the_output(make: Make) -> None:
    keeps(make("shop"))
    second = make("tea-shop")
    source = second.project.folder / "sdk/src/lib.rs"
    source.write_text(source.read_text() + "// changed after the key was made\n")

    second.restore()

    times = {(second.target / name).stat().st_mtime_ns for name in output(second)}
    assert times == {second.read_ns}
    assert source.stat().st_mtime_ns > second.read_ns


def test_another_sdk_compiler_profile_or_flag_has_output_of_its_own(make: Make, rust: Path) -> None:
    keys = {make("shop").key, make("shop").key, make("tea-shop").key}
    assert len(keys) == 1

    source = make("one").project.folder / "sdk/macros/src/lib.rs"
    source.write_text(source.read_text() + "// edited\n")
    for name, old, new in (
        ("two", "codegen-units = 1", "codegen-units = 2"),
        ("three", ', features = ["log"]', ""),
    ):
        manifest = make(name).project.folder / "Cargo.toml"
        assert old in manifest.read_text()
        manifest.write_text(manifest.read_text().replace(old, new))
    keys |= {make(name).key for name in ("one", "two", "three")}
    (rust / "rustc").write_text((rust / "rustc").read_text().replace("1.99", "2.00"))
    keys.add(make("shop").key)

    assert len(keys) == 5


def test_output_that_is_there_stays_because_cargo_knows_it(make: Make) -> None:
    keeps(make("shop"))
    second = make("tea-shop")
    own = second.target / WASM / ".fingerprint/aos-sdk-ffffffffffffffff/lib-aos_sdk"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"own")

    is_first = second.restore()

    assert not is_first
    assert list(output(second).values()) == [b"own"]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": lambda file: file.write_bytes(bytes([file.read_bytes()[0] ^ 1])),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-2]),
    "missing": Path.unlink,
    "empty": lambda file: file.write_bytes(b""),
    "of another form": lambda file: file.write_text("[1]"),
    "without files": lambda file: file.write_text("{}"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_output_is_compiled_again(make: Make, said: list[str], damage: str) -> None:
    """AU-37"""
    kept = keeps(make("shop"))
    second = make("tea-shop")

    for name in (*OUTPUT, FILES):
        said.clear()
        DAMAGES[damage](kept / name)

        is_first = second.restore()

        assert is_first, name
        assert output(second) == {}
        why = f"{second.key} is damaged and was removed"
        assert said == [f"{second.cache}: the compiled SDK is not shared: {why}"]
        assert not kept.exists()
        compiles(second)
        second.keep()
        shutil.rmtree(second.target)
    assert not second.restore()
    assert output(second) == OUTPUT


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_to_is_not_used(
    make: Make, said: list[str], mode: int
) -> None:
    keeps(make("shop")).parent.chmod(mode)
    second = make("tea-shop")

    assert second.restore()
    compiles(second)
    second.keep()

    assert output(second) == {**OUTPUT, **OTHERS}
    why = f"others may write to the folder: expected 0700, found {mode:04o}"
    assert said == 2 * [f"{second.cache}: the compiled SDK is not shared: {why}"]


def test_a_folder_of_another_user_is_not_used(
    make: Make, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeps(make("shop"))
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    second = make("tea-shop")

    is_first = second.restore()

    assert is_first
    assert output(second) == {}
    assert said == [
        f"{second.cache}: the compiled SDK is not shared: the folder belongs to user {owner}"
    ]


def test_a_link_in_place_of_the_folder_is_not_followed(
    make: Make, said: list[str], tmp_path: Path
) -> None:
    cache = keeps(make("shop")).parent
    cache.rename(tmp_path / "elsewhere")
    cache.symlink_to(tmp_path / "elsewhere")
    second = make("tea-shop")

    assert second.restore()

    assert output(second) == {}
    assert "expected a folder, found a link" in said[0]


def test_a_cache_that_cannot_be_written_is_reported_and_fails_no_build(
    make: Make, said: list[str], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file in place of the folder")
    sdk = make("shop")

    assert sdk.restore()
    compiles(sdk)
    sdk.keep()

    [line] = set(said)
    assert line.startswith(f"{sdk.cache}: the compiled SDK is not shared: ")


def test_a_full_disk_leaves_nothing_that_looks_like_output(
    make: Make, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sdk = make("shop")
    sdk.restore()
    compiles(sdk)
    write = Path.write_bytes

    def fail(file: Path, data: bytes) -> int:
        if file.suffix == ".rlib":
            raise OSError(28, "No space left on device")
        return write(file, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fail)
        sdk.keep()

    assert list(sdk.cache.iterdir()) == []
    assert said == [f"{sdk.cache}: the compiled SDK is not shared: No space left on device"]


def test_sources_that_change_during_a_build_are_not_kept(make: Make) -> None:
    sdk = make("shop")
    sdk.restore()
    compiles(sdk)
    source = sdk.project.folder / "sdk/src/lib.rs"
    source.write_text(source.read_text() + "// changed\n")

    sdk.keep()

    assert list(sdk.cache.iterdir()) == []


def test_builds_at_the_same_time_share_one_output(make: Make) -> None:
    names = [f"shop-{letter}" for letter in "abcd"]
    all_of_them = [make(name) for name in names]
    for each in all_of_them:
        assert each.restore()
        compiles(each)
    start = threading.Barrier(len(names))

    def keep(sdk: CompiledSdk) -> None:
        start.wait()
        sdk.keep()

    threads = [threading.Thread(target=keep, args=(each,)) for each in all_of_them]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [each.name for each in all_of_them[0].cache.iterdir()] == [all_of_them[0].key]
    last = make("last")
    assert not last.restore()
    assert output(last) == OUTPUT


def test_the_least_recently_used_output_makes_room(make: Make) -> None:
    sdk = make("shop")
    kept = keeps(sdk)
    for number in range(KEPT_MAX + 2):
        shutil.copytree(kept, kept.with_name(f"old-{number}"))
        os.utime(kept.with_name(f"old-{number}"), (number, number))
    for name, age_s in (("young", 0.0), ("old", 2 * module.ABANDONED_S)):
        unfinished = kept.with_name(f".unfinished-{name}")
        unfinished.mkdir()
        time = unfinished.stat().st_mtime - age_s
        os.utime(unfinished, (time, time))

    other = replace(sdk, flags=("-Ctwo",))
    replace(other, key=module._cache_key(other.project, other.toolchain, other.flags)).keep()

    left = {each.name for each in kept.parent.iterdir()}
    assert {kept.name, ".unfinished-young", "old-9", "old-4"} < left
    assert not {".unfinished-old", "old-3", "old-0"} & left
    assert len(left) == KEPT_MAX + 1


def test_a_project_without_an_sdk_of_its_own_shares_nothing(make: Make, tmp_path: Path) -> None:
    sdk = make("shop")
    (sdk.project.folder / "sdk").rename(tmp_path / "sdk")

    def found() -> CompiledSdk | None:
        return compiled_sdk(
            sdk.project, sdk.toolchain, flags=FLAGS, cache=sdk.cache, target=sdk.target,
            report=lambda _: None,
        )  # fmt: skip

    assert found() is None
    (sdk.project.folder / "sdk").symlink_to(tmp_path / "sdk")
    assert found() is None


def test_the_record_has_the_hash_of_each_file(make: Make) -> None:
    kept = keeps(make("shop"))

    recorded = json.loads((kept / FILES).read_text())

    assert sorted(recorded) == sorted(OUTPUT)
    assert all(len(each) == 64 for each in recorded.values())
