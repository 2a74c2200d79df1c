"""Keep the compiled Rust SDK for the next project, in the cache that all projects of a user share
(spec/authoring.md, AU-34 to AU-36, AU-37).

    CACHE/<key>/files.json              SHA-256 of each other file
    CACHE/<key>/release/...             cargo's output for the macros of the SDK
    CACHE/<key>/wasm32-.../release/...  cargo's output for the SDK

A new project has an empty target folder, so cargo would compile its copy of the SDK, which takes
most of the build's time. ``restore`` copies the output of an earlier build into that folder.

Rule 1: the key is a digest of everything that the output depends on, so equal keys mean equal
output. Cargo then compares the times of files: ``restore`` sets the time of the output to one
before it read the sources, so cargo compiles a source that changes later.

Rule 2: the macros are a program that the compiler runs. So the output is read only from a folder
that this user owns and no one else may write to. The hashes detect damage.

Rule 3: the cache only saves time. A problem with it is reported, and cargo compiles the SDK.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.author.project import Project
from aos.author.sdk import SDK, hashes
from aos.author.toolchain import TARGET, Report, Toolchain

RECIPE: Final = 1
"""Part of the key. Increase it whenever the kept files or the build change."""

KEPT_MAX: Final = 8
"""Maximum number of compiled SDKs in the cache. The least recently used ones are removed."""

ABANDONED_S: Final = 3600.0
"""Age at which an unfinished folder is removed."""

FILES: Final = "files.json"

_UNFINISHED: Final = ".unfinished-"
_FINGERPRINTS: Final = ".fingerprint"
_CRATES: Final = {"aos-sdk-macros": Path("release"), "aos-sdk": Path(TARGET, "release")}
"""Where cargo puts the output for each crate of the SDK, below the target folder."""

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class UnusableCache(Exception):  # internal: the build reports it and continues without the cache
    """The reason why a cache folder cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledSdk:
    """The compiled SDK of one project. ``key`` is from the sources at ``read_ns``."""

    project: Project
    toolchain: Toolchain
    flags: Sequence[str]
    cache: Path
    target: Path
    key: str
    read_ns: int
    report: Report

    def restore(self) -> bool:
        """Copy the kept output into the target folder if cargo has not compiled the SDK there.

        Returns:
            Whether the next build is the first to compile this SDK, so that ``keep`` is of use.
        """
        if any(_cargo_outputs(self.target, crate) for crate in _CRATES):
            return False  # cargo knows what it has to compile
        content = None
        with self._reporting():
            require_own_folder(self.cache)
            content = self._cached_content()
            if content is not None:
                _write_outputs(self.target, content, self.read_ns)
        return content is None

    def keep(self) -> None:
        """Copy the output of a build that has just compiled the SDK into the cache."""
        with self._reporting():
            outputs = [_cargo_outputs(self.target, crate) for crate in _CRATES]
            is_same = self.key == _cache_key(self.project, self.toolchain, self.flags)
            if not is_same or any(len(crate_outputs) != 1 for crate_outputs in outputs):
                return  # the sources have changed during the build, or are used in two ways
            content = {
                name: (self.target / name).read_bytes() for [output] in outputs for name in output
            }
            require_own_folder(self.cache)
            _store_entry(self.cache, self.key, content)
            _make_room(self.cache)

    def _cached_content(self) -> Mapping[str, bytes] | None:
        entry = self.cache / self.key
        if not entry.is_dir():
            return None
        try:
            recorded: dict[str, str] = json.loads((entry / FILES).read_bytes())
            content = {name: (entry / name).read_bytes() for name in recorded}
            is_intact = bool(content) and recorded == _content_hashes(content)
        except (FileNotFoundError, ValueError, AttributeError, TypeError):
            is_intact = False
        if not is_intact:
            shutil.rmtree(entry)
            raise UnusableCache(f"{self.key} is damaged and was removed")
        os.utime(entry)  # it is in use
        return content

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except (OSError, UnusableCache) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else problem
            self.report(f"{self.cache}: the compiled SDK is not shared: {reason}")


def compiled_sdk(
    project: Project,
    toolchain: Toolchain,
    *,
    flags: Sequence[str],
    cache: Path | None,
    target: Path,
    report: Report,
) -> CompiledSdk | None:
    """The compiled SDK of this project; None without a cache or without a ``sdk/`` of its own.

    Args:
        flags: The compiler's flags, without those that depend on the project's place.
        cache: The folder that all projects share.
        target: Cargo's target folder for this project.
    """
    read_ns = time.time_ns()
    folder = project.folder / SDK
    if cache is None or folder.is_symlink() or not (folder / "Cargo.toml").is_file():
        return None
    try:
        key = _cache_key(project, toolchain, flags)
    except OSError:
        return None  # cargo reports it
    return CompiledSdk(
        project=project,
        toolchain=toolchain,
        flags=flags,
        cache=cache,
        target=target,
        key=key,
        read_ns=read_ns,
        report=report,
    )


def _cache_key(project: Project, toolchain: Toolchain, flags: Sequence[str]) -> str:
    """The compiler's time of modification distinguishes two packages of the same version."""
    status = toolchain.rustc.resolve().stat()
    manifests = {
        Path("Cargo.toml"),
        *(Path(module.source, "Cargo.toml") for module in project.modules),
    }
    facts = [
        RECIPE,
        toolchain.identity(),
        [str(toolchain.rustc), status.st_size, status.st_mtime_ns],
        list(flags),
        dict(sorted(hashes(project.folder / SDK).items())),
        [_sdk_settings(project.folder / manifest) for manifest in sorted(manifests)],
    ]
    return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()[:32]


def _sdk_settings(manifest: Path) -> Any:
    """What a Cargo.toml says about the compilation of the SDK: profiles, and features of it."""
    try:
        document = tomllib.loads(manifest.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None  # cargo reports it
    dependencies = document.get("dependencies")
    sdk_dependency = dependencies.get("aos-sdk") if isinstance(dependencies, dict) else None
    return [document.get("profile"), sdk_dependency]


def _cargo_outputs(target: Path, crate: str) -> list[list[str]]:
    """The names of cargo's files for this crate, one list for each way in which it was compiled."""
    folder = target / _CRATES[crate]
    outputs = []
    for fingerprint in sorted((folder / _FINGERPRINTS).glob(f"{crate}-" + "[0-9a-f]" * 16)):
        pattern = f"{crate.replace('-', '_')}-{fingerprint.name[-16:]}.*"
        files = [
            *(folder / "deps").glob(pattern),
            *(folder / "deps").glob(f"lib{pattern}"),
            *fingerprint.iterdir(),
        ]
        outputs.append(sorted(file.relative_to(target).as_posix() for file in files))
    return outputs


def _write_outputs(target: Path, content: Mapping[str, bytes], time_ns: int) -> None:
    """Fingerprints make cargo trust the other files, so they are written last."""
    for name in sorted(content, key=lambda file_name: (_FINGERPRINTS in file_name, file_name)):
        file = target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        # Under its name a file is always complete: another build may run in this folder.
        handle, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=target)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content[name])
        Path(unfinished).chmod(0o755 if file.suffix == ".so" else 0o644)
        os.utime(unfinished, ns=(time_ns, time_ns))
        Path(unfinished).replace(file)


def _store_entry(cache: Path, key: str, content: Mapping[str, bytes]) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=cache))
    try:
        for name, data in content.items():
            file = scratch / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        (scratch / FILES).write_text(json.dumps(_content_hashes(content), indent=2) + "\n")
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            scratch.rename(cache / key)
    except OSError:
        if not (cache / key).is_dir():  # else another build was first
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _make_room(cache: Path) -> None:
    folders_by_use = []
    for folder in cache.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another build removes folders too
            used_at = folder.stat().st_mtime
            if not folder.name.startswith(_UNFINISHED):
                folders_by_use.append((used_at, folder))
            elif time.time() - used_at > ABANDONED_S:
                shutil.rmtree(folder, ignore_errors=True)
    for _, folder in sorted(folders_by_use, reverse=True)[KEPT_MAX:]:
        shutil.rmtree(folder, ignore_errors=True)


def _content_hashes(content: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(content.items())}


def cache_folder(kind: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder in which builds keep content of this kind, which all projects of a user share
    (AU-34, AU-36): ``kind`` in ``AOS_CACHE_DIR``, else ``aos/kind`` in
    ``XDG_CACHE_HOME`` or ``~/.cache``. None if the environment names none."""
    cache_dir = environment.get("AOS_CACHE_DIR")
    if cache_dir is not None:
        return Path(cache_dir) / kind if cache_dir else None
    shared, home = Path(environment.get("XDG_CACHE_HOME", "")), Path(environment.get("HOME", ""))
    if not shared.is_absolute():  # the XDG specification: ignore it
        shared = home / ".cache"
    return shared / "aos" / kind if shared.is_absolute() else None


def require_own_folder(folder: Path) -> None:
    """Create the folder if it is missing.

    Raises:
        UnusableCache: Another user owns it or may write to it, or it is a link: its content may be
            someone else's program.
        OSError: It cannot be created or read.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise UnusableCache("expected a folder, found a link")
    if status.st_uid != os.geteuid():
        raise UnusableCache(f"the folder belongs to user {status.st_uid}")
    if status.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(status.st_mode)
        raise UnusableCache(f"others may write to the folder: expected 0700, found {mode:04o}")
