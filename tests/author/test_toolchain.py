"""The choice of the compiler, its command line, and the messages without one (AU-30 to AU-34)."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aos.author import asc, toolchain
from aos.author.compiled_sdk import cache_folder
from aos.author.errors import BuildFailed, ToolMissing
from aos.author.rust import built_std, compile_rust
from aos.author.toolchain import Console, Stopped, find_toolchain
from aos.errors import Unavailable
from tests.author import fakes
from tests.author.fakes import ROOT, path, program

DEBIAN = 'ID=debian\nVERSION_ID="12"\n'
UBUNTU = "ID=ubuntu\nID_LIKE=debian\n"
ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\n'


def release(folder: Path, text: str) -> Path:
    file = folder / "os-release"
    file.write_text(text)
    return file


def test_a_toolchain_with_the_target_needs_nothing_built(rust: Path) -> None:
    found = find_toolchain()

    assert (found.rustc, found.cargo) == (rust / "rustc", rust / "cargo")
    assert (found.sources, found.linker) == (None, None)
    assert found.identity()["std"] == "installed"


def test_rustup_without_the_target_is_passed_over_for_debians_toolchain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rustup = fakes.toolchain(tmp_path / "rustup", has_target=False)
    program(rustup / "rustup", "#!/bin/sh\n")
    debian = fakes.toolchain(tmp_path / "debian", has_target=False, has_sources=True)
    monkeypatch.setenv("PATH", path(rustup, debian))

    found = find_toolchain()

    assert found.rustc == debian / "rustc"
    assert found.sources == tmp_path / "debian/sysroot/lib/rustlib/src/rust/library"
    assert found.linker == debian / "wasm-ld"


def test_when_there_is_none_it_says_what_each_lacks_and_what_to_install_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fakes.toolchain(tmp_path / "first", has_target=False)
    second = fakes.toolchain(tmp_path / "second", has_target=False, has_sources=True)
    (second / "wasm-ld").unlink()
    broken = program(tmp_path / "broken/rustc", "#!/bin/sh\nexit 1\n").parent
    monkeypatch.setenv("PATH", path(first, second, broken))

    with pytest.raises(ToolMissing) as missing:
        find_toolchain()

    said = str(missing.value)
    assert f"{first}/rustc: neither the target wasm32-unknown-unknown nor the sources" in said
    assert f"{second}/rustc: no WASM linker (rust-lld or wasm-ld)" in said
    assert f"{broken}/rustc: it does not run" in said
    assert "Install one: `rustup target add wasm32-unknown-unknown`" in said
    assert missing.value.exit_code == 4


def test_on_an_empty_path_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ToolMissing, match=r"on the PATH\.\nInstall one: `rustup target add"):
        find_toolchain()


@pytest.mark.parametrize(
    ("text", "rust", "node"),
    [
        (
            DEBIAN,
            "apt-get install rustc-web cargo-web rust-web-src lld",
            "apt-get install nodejs npm",
        ),
        (UBUNTU, "apt-get install rustc-web", "apt-get install nodejs npm"),
        (ROCKY, "dnf install rust cargo rust-std-static-wasm32", "dnf install nodejs npm"),
        ("ID=arch\n", "pacman -S rust rust-wasm lld", "pacman -S nodejs npm"),
        ("ID=alpine\n", "apk add rust cargo rust-wasm lld", "apk add nodejs npm"),
        ("", "once rustup is installed", "nodejs and npm, as this system packages them"),
    ],
)
def test_the_advice_is_for_this_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, rust: str, node: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    file = release(tmp_path, text)

    assert rust in toolchain.advice(file)
    assert node in asc.advice(file)


def test_with_rustup_its_own_command_is_the_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "rustup", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert toolchain.advice(release(tmp_path, "")) == "`rustup target add wasm32-unknown-unknown`"


def test_variables_that_would_change_the_bytes_are_not_passed_to_the_compiler(
    tmp_path: Path, rust: Path, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    """AU-6"""
    project = fakes.project(tmp_path / "shop")
    for name in ("RUSTFLAGS", "CARGO_PROFILE_RELEASE_LTO", "CARGO_BUILD_TARGET", "RUSTC_WRAPPER"):
        monkeypatch.setenv(name, "evil")

    compile_rust(project, locked=False, console=console)

    [call] = fakes.calls(project.folder)
    assert call["rustc"] == str(rust / "rustc")
    assert call["bootstrap"] is None
    assert call["foreign"] == []
    assert "-Clink-arg=-zstack-size=65536" in call["flags"]
    assert f"--remap-path-prefix={project.folder}=/project" in call["remapping"]
    assert call["wrapper"] == str(project.folder / "target/aos-rustc")


def test_places_in_the_library_are_the_same_with_its_sources_and_without(tmp_path: Path) -> None:
    """AU-32"""
    commit = "0123456789abcdef" * 2 + "01234567"
    installed = toolchain.Toolchain(
        rustc=tmp_path / "bin/rustc",
        cargo=tmp_path / "bin/cargo",
        version=f"rustc 1.85.0\ncommit-hash: {commit}\nrelease: 1.85.0",
        sysroot=tmp_path / "sysroot",
        sources=None,
        linker=None,
    )
    built = replace(installed, sources=tmp_path / "sysroot/lib/rustlib/src/rust/library")
    unknown = replace(installed, version="rustc 1.85.0\ncommit-hash: unknown")

    def remapped(found: toolchain.Toolchain) -> list[str]:
        call = toolchain.cargo_build(
            found, remap={tmp_path: "/project"}, target=tmp_path, arguments=[]
        )
        flags = call.environment["CARGO_ENCODED_RUSTFLAGS"].split("\x1f")
        return [each.removeprefix("--remap-path-prefix=") for each in flags if "remap" in each]

    common = [f"{tmp_path}=/project", f"{tmp_path}/sysroot=/rust"]
    assert remapped(built) == common
    assert remapped(unknown) == common
    # The longest last: rustc takes the last that fits.
    assert remapped(installed) == [
        *common,
        f"{tmp_path}/sysroot/lib/rustlib/src/rust=/rustc/{commit}",
    ]


def test_a_crate_that_needs_the_whole_library_is_built_as_one_kind_of_file(
    tmp_path: Path,
) -> None:
    from_sources = toolchain.Toolchain(
        rustc=tmp_path / "bin/rustc",
        cargo=tmp_path / "bin/cargo",
        version="rustc 1.85.0",
        sysroot=tmp_path / "sysroot",
        sources=tmp_path / "library",
        linker=None,
    )

    guest = toolchain.cargo_build(from_sources, remap={}, target=tmp_path, arguments=[])
    core = toolchain.cargo_build(
        from_sources,
        remap={},
        target=tmp_path,
        arguments=[],
        crate_type="cdylib",
        std_crates="std,panic_abort",
    )

    assert guest.command[1:3] == ("build", "--release")
    assert "-Zbuild-std=core,alloc" in guest.command
    assert core.command[1:5] == ("rustc", "--crate-type", "cdylib", "--release")
    assert "-Zbuild-std=std,panic_abort" in core.command


def test_a_folder_of_crates_replaces_the_registry_with_and_without_built_library(
    tmp_path: Path,
) -> None:
    crates = tmp_path / "crates"
    crates.mkdir()
    for sources in (None, tmp_path / "library"):
        found = toolchain.Toolchain(
            rustc=tmp_path / "bin/rustc",
            cargo=tmp_path / "bin/cargo",
            version="rustc 1.96.0",
            sysroot=tmp_path / "sysroot",
            sources=sources,
            linker=None,
        )
        call = toolchain.cargo_build(found, remap={}, target=tmp_path, arguments=[], crates=crates)
        assert call.command[-3:] == (
            'source.crates-io.replace-with="shipped"',
            "--config",
            f'source.shipped.directory="{crates}"',
        )


def test_flags_name_no_folder_of_the_project_so_that_projects_can_share_output(
    tmp_path: Path, rust: Path, console: Console
) -> None:
    """AU-36"""
    projects = [fakes.project(tmp_path / name) for name in ("one", "another one")]
    for project in projects:
        compile_rust(project, locked=False, console=console)

    [[one], [other]] = [fakes.calls(project.folder) for project in projects]

    assert one["flags"] == other["flags"]
    assert one["remapping"] != other["remapping"]


def test_the_compiler_gets_the_flags_of_the_wrapper_as_they_are(tmp_path: Path) -> None:
    wrapper = program(tmp_path / "a wrapper", toolchain.WRAPPER)
    flags = ["--remap-path-prefix=/a b*=/project", "--remap-path-prefix=$HOME 'x'=/y"]

    ran = subprocess.run(
        [wrapper, sys.executable, "-ISc", "import sys; print(sys.argv[1:])", "an argument"],
        env={toolchain.REMAPPING: "\x1f".join(flags), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout == f"{['an argument', *flags]}\n"


@pytest.mark.parametrize("spoiled", ["other text", "no program"])
def test_a_wrapper_that_was_changed_is_written_again(
    tmp_path: Path, rust: Path, console: Console, spoiled: str
) -> None:
    project = fakes.project(tmp_path / "shop")
    compile_rust(project, locked=False, console=console)
    wrapper = project.folder / "target/aos-rustc"
    if spoiled == "no program":
        wrapper.chmod(0o644)
    else:
        wrapper.write_text("#!/bin/sh\n")

    compile_rust(project, locked=False, console=console)

    assert wrapper.read_text() == toolchain.WRAPPER
    assert wrapper.stat().st_mode & 0o777 == 0o755
    assert [each.name for each in wrapper.parent.iterdir() if "tmp" in each.name] == []


def test_a_target_folder_that_cannot_be_written_is_an_error(
    tmp_path: Path, rust: Path, console: Console
) -> None:
    project = fakes.project(tmp_path / "shop")
    (project.folder / "target").write_text("")

    with pytest.raises(Unavailable, match="target/aos-rustc: the file cannot be written: "):
        compile_rust(project, locked=False, console=console)


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = fakes.toolchain(tmp_path / "debian", has_target=False, has_sources=True)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("AOS_CACHE_DIR", str(tmp_path / "cache"))
    return folder.parent


def test_a_standard_library_is_built_once_for_all_projects(
    tmp_path: Path, debian: Path, console: Console, said: list[str]
) -> None:
    """AU-34"""
    (tmp_path / "cache/rust-std/.unfinished-1").mkdir(parents=True)  # of a build that was killed
    one, two = fakes.project(tmp_path / "one"), fakes.project(tmp_path / "two")

    for each in (one, two):
        compile_rust(each, locked=False, console=console)

    assert (debian / "std-builds").read_text() == "1\n"
    assert len(said) == 1
    assert "half a minute, once" in said[0]
    [call] = fakes.calls(two.folder)
    [sysroot] = [flag for flag in call["flags"] if flag.startswith("--sysroot=")]
    library = Path(sysroot.partition("=")[2]) / "lib/rustlib/wasm32-unknown-unknown/lib"
    assert library.is_relative_to(tmp_path / "cache/rust-std")
    assert sorted(each.name for each in library.iterdir()) == [
        "liballoc-1.rlib", "libcompiler_builtins-1.rlib", "libcore-1.rlib",
    ]  # fmt: skip
    assert not (tmp_path / "cache/rust-std/.unfinished-1").exists()
    assert call["bootstrap"] is None, "a project is built with a compiler that is stable"


def test_another_compiler_gets_a_library_of_its_own(
    tmp_path: Path, debian: Path, console: Console
) -> None:
    project = fakes.project(tmp_path / "shop")
    compile_rust(project, locked=False, console=console)

    program(debian / "bin/rustc", (debian / "bin/rustc").read_text().replace("1.99", "2.00"))
    compile_rust(project, locked=False, console=console)

    assert len((debian / "std-builds").read_text().split()) == 2


def test_a_library_that_cannot_be_built_leaves_nothing_that_looks_like_one(
    tmp_path: Path, debian: Path, console: Console
) -> None:
    (debian / "std-is-broken").touch()
    project = fakes.project(tmp_path / "shop")

    with pytest.raises(BuildFailed, match=r"at its own standard library, failed \(exit code 7\)"):
        compile_rust(project, locked=False, console=console)

    assert [each.name for each in (tmp_path / "cache/rust-std").iterdir()] == ["lock"]


def test_of_two_builds_that_need_the_library_one_makes_it(
    tmp_path: Path, debian: Path, console: Console
) -> None:
    found, cache = find_toolchain(), tmp_path / "cache/rust-std"
    made: list[Path] = []
    threads = [
        threading.Thread(target=lambda: made.append(built_std(found, cache, console=console)))
        for _ in range(4)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(made)) == 1
    assert len(made) == 4
    assert (debian / "std-builds").read_text() == "1\n"


def test_waiting_for_the_library_can_be_interrupted(
    tmp_path: Path, debian: Path, console: Console
) -> None:
    found, cache = find_toolchain(), tmp_path / "cache/rust-std"
    cache.mkdir(parents=True)
    console.given_up.set()

    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Stopped):
            built_std(found, cache, console=console)

    assert not (debian / "std-builds").exists()


def test_an_interrupt_while_a_compiler_is_started_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    really = subprocess.Popen.__init__

    def start(self: subprocess.Popen[bytes], *arguments: Any, **options: Any) -> None:
        really(self, *arguments, **options)
        started.append(self)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess.Popen, "__init__", start)
    with pytest.raises(KeyboardInterrupt):
        toolchain.run(
            ["sleep", "600"], cwd=tmp_path, program="sleep", console=Console(report=print)
        )
    [compiler] = started
    assert compiler.poll() is not None


def test_caches_are_where_other_programs_have_them() -> None:
    assert cache_folder("x", {"AOS_CACHE_DIR": "/c"}) == Path("/c/x")
    assert cache_folder("x", {"AOS_CACHE_DIR": "", "HOME": "/h"}) is None
    assert cache_folder("x", {"XDG_CACHE_HOME": "/x", "HOME": "/h"}) == Path("/x/aos/x")
    assert cache_folder("x", {"XDG_CACHE_HOME": "x", "HOME": "/h"}) == Path("/h/.cache/aos/x")
    assert cache_folder("x", {}) is None


def test_modules_build_finds_its_compiler_without_anything_installed(tmp_path: Path) -> None:
    """On a bare checkout: no site-packages, no environment."""
    ran = subprocess.run(
        [sys.executable, "-I", "-S", ROOT / "modules/build", "--check"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 3, ran.stderr
    assert ran.stderr.startswith("modules/build: no Rust compiler that can build WASM was found")
