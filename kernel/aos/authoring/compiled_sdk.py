"""Keep the compiled Rust SDK for the next project (spec/authoring.md, AU-36, AU-37).

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
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.authoring.project import Project
from aos.authoring.running import Report
from aos.authoring.sdk import SDK, hashes
from aos.authoring.toolchain import TARGET, Toolchain
from aos.authoring.user_cache import UnusableCache, require_own_folder

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
        if any(_outputs(self.target, crate) for crate in _CRATES):
            return False  # cargo knows what it has to compile
        content = None
        with self._reporting():
            require_own_folder(self.cache)
            content = self._kept()
            if content is not None:
                _write(self.target, content, self.read_ns)
        return content is None

    def keep(self) -> None:
        """Copy the output of a build that has just compiled the SDK into the cache."""
        with self._reporting():
            found = [_outputs(self.target, crate) for crate in _CRATES]
            is_same = self.key == _key(self.project, self.toolchain, self.flags)
            if not is_same or any(len(each) != 1 for each in found):
                return  # the sources have changed during the build, or are used in two ways
            content = {
                name: (self.target / name).read_bytes() for [output] in found for name in output
            }
            require_own_folder(self.cache)
            _store(self.cache, self.key, content)
            _make_room(self.cache)

    def _kept(self) -> Mapping[str, bytes] | None:
        place = self.cache / self.key
        if not place.is_dir():
            return None
        try:
            recorded: dict[str, str] = json.loads((place / FILES).read_bytes())
            content = {name: (place / name).read_bytes() for name in recorded}
            is_intact = bool(content) and recorded == _hashes(content)
        except (FileNotFoundError, ValueError, AttributeError, TypeError):
            is_intact = False
        if not is_intact:
            shutil.rmtree(place)
            raise UnusableCache(f"{self.key} is damaged and was removed")
        os.utime(place)  # it is in use
        return content

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except (OSError, UnusableCache) as problem:
            why = problem.strerror if isinstance(problem, OSError) else problem
            self.report(f"{self.cache}: the compiled SDK is not shared: {why}")


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
        key = _key(project, toolchain, flags)
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


def _key(project: Project, toolchain: Toolchain, flags: Sequence[str]) -> str:
    """The compiler's time of modification distinguishes two packages of the same version."""
    made = toolchain.rustc.resolve().stat()
    manifests = {Path("Cargo.toml"), *(Path(each.source, "Cargo.toml") for each in project.modules)}
    seen = [
        RECIPE,
        toolchain.identity(),
        [str(toolchain.rustc), made.st_size, made.st_mtime_ns],
        list(flags),
        dict(sorted(hashes(project.folder / SDK).items())),
        [_uses(project.folder / each) for each in sorted(manifests)],
    ]
    return hashlib.sha256(json.dumps(seen, default=str).encode()).hexdigest()[:32]


def _uses(manifest: Path) -> Any:
    """What a Cargo.toml says about the compilation of the SDK: profiles, and features of it."""
    try:
        found = tomllib.loads(manifest.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None  # cargo reports it
    dependencies = found.get("dependencies")
    own = dependencies.get("aos-sdk") if isinstance(dependencies, dict) else None
    return [found.get("profile"), own]


def _outputs(target: Path, crate: str) -> list[list[str]]:
    """The names of cargo's files for this crate, one list for each way in which it was compiled."""
    place = target / _CRATES[crate]
    found = []
    for fingerprint in sorted((place / _FINGERPRINTS).glob(f"{crate}-" + "[0-9a-f]" * 16)):
        made = f"{crate.replace('-', '_')}-{fingerprint.name[-16:]}.*"
        files = [
            *(place / "deps").glob(made),
            *(place / "deps").glob(f"lib{made}"),
            *fingerprint.iterdir(),
        ]
        found.append(sorted(file.relative_to(target).as_posix() for file in files))
    return found


def _write(target: Path, content: Mapping[str, bytes], time_ns: int) -> None:
    """Fingerprints make cargo trust the other files, so they are written last."""
    for name in sorted(content, key=lambda each: (_FINGERPRINTS in each, each)):
        file = target / name
        file.parent.mkdir(parents=True, exist_ok=True)
        # Under its name a file is always complete: another build may run in this folder.
        handle, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=target)
        with os.fdopen(handle, "wb") as opened:
            opened.write(content[name])
        Path(unfinished).chmod(0o755 if file.suffix == ".so" else 0o644)
        os.utime(unfinished, ns=(time_ns, time_ns))
        Path(unfinished).replace(file)


def _store(cache: Path, key: str, content: Mapping[str, bytes]) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=cache))
    try:
        for name, data in content.items():
            file = scratch / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        (scratch / FILES).write_text(json.dumps(_hashes(content), indent=2) + "\n")
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            scratch.rename(cache / key)
    except OSError:
        if not (cache / key).is_dir():  # else another build was first
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _make_room(cache: Path) -> None:
    kept = []
    for place in cache.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another build removes folders too
            used = place.stat().st_mtime
            if not place.name.startswith(_UNFINISHED):
                kept.append((used, place))
            elif time.time() - used > ABANDONED_S:
                shutil.rmtree(place, ignore_errors=True)
    for _, place in sorted(kept, reverse=True)[KEPT_MAX:]:
        shutil.rmtree(place, ignore_errors=True)


def _hashes(content: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(content.items())}
