"""The command line, run in this process, and worlds to run it on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aos.host.door.writer import open_writer
from aos.host.folder.folder import STORE
from aos.host.folder.making import init_world
from aos.host.folder.reader import open_reader
from aos_cli.main import run_command
from tests.cli.shell import Aos, Result, in_silence
from tests.copies import copied
from tests.host import puppet


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No world by chance, and no colours."""
    for name in ("AOS_WORLD", "FORCE_COLOR", "COLUMNS", "SHOP_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def aos(capsys: pytest.CaptureFixture[str]) -> Aos:
    """``aos("inspect", "cells", world=path)``: its exit code, and what it wrote."""

    def run(*words: str | Path, world: Path | None = None) -> Result:
        where = [] if world is None else ["--world", str(world)]
        capsys.readouterr()
        code = run_command([*map(str, words), *where])
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return run


@pytest.fixture(scope="session")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the puppet's manifest: its cells do what their events say."""
    folder = tmp_path_factory.mktemp("manifest")
    for name, data in puppet.files().items():
        (folder / name).write_bytes(data)
    return folder


class SharedWorlds:
    """The worlds that all tests of a process share, each with the record that it ends with."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[int, int]] = {}

    def add(self, path: Path) -> Path:
        self._known[path] = (_written_ns(path), _last_record(path))
        return path

    def changed(self) -> list[str]:
        """A sentence for each world that has other records than it had; told once."""
        found = []
        for path, (written_ns, last) in self._known.items():
            now_ns = _written_ns(path)
            if now_ns == written_ns:
                continue
            now = _last_record(path)
            self._known[path] = (now_ns, now)
            if now != last:
                found.append(f"{path}: expected {last} records, found {now}")
        return found


def _written_ns(path: Path) -> int:
    return (path / STORE / "data.mdb").stat().st_mtime_ns


def _last_record(path: Path) -> int:
    with open_reader(path) as reader:
        return reader.seq


@pytest.fixture(scope="session")
def shared_worlds() -> SharedWorlds:
    return SharedWorlds()


@pytest.fixture(autouse=True)
def unchanged(shared_worlds: SharedWorlds) -> Iterator[None]:
    """A test that writes to a world which others share fails itself, and not one of the others,
    which depends on the order in which the workers of xdist run them."""
    yield
    changed = shared_worlds.changed()
    assert not changed, f"{changed[0]}: other tests share this world, so write to a copy of it"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory, shared_worlds: SharedWorlds) -> Path:
    path = tmp_path_factory.mktemp("template") / "world"
    init_world(path)
    with open_writer(path) as writer:
        writer.apply(puppet.manifest())
    return shared_worlds.add(path)


@pytest.fixture
def world(template: Path, tmp_path: Path) -> Path:
    """A world with the puppet's manifest in force."""
    path = tmp_path / "world"
    return copied(template, path)


@pytest.fixture(scope="session")
def lived_in(
    template: Path, tmp_path_factory: pytest.TempPathFactory, shared_worlds: SharedWorlds
) -> Path:
    """A world to look at: two cells have counted, one waits for an effect, one has failed."""
    path = tmp_path_factory.mktemp("lived-in") / "world"
    copied(template, path)
    events = [
        puppet.do("ada", submission_id="first"),
        puppet.do("bob"),
        puppet.do("ada"),
        puppet.do("wait", puppet.asks("hello")),
        puppet.do("bad", b"\xff"),
    ]
    with open_writer(path) as writer:
        list(writer.send(events))
    assert in_silence("run", "--until-idle", "--world", path) == 0
    return shared_worlds.add(path)


EFFECTS = """
from aos.worker import Executors, effect

@effect("host/echo@1")
def echo(params, ctx):
    print("echoing", params["word"])
    return params

echoes = Executors("echoes", [echo])
"""


@pytest.fixture(scope="session")
def echoes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The value of ``--executors`` that loads an executor for the puppet's effect."""
    file = tmp_path_factory.mktemp("effects") / "effects.py"
    file.write_text(EFFECTS)
    return f"{file}:echoes"


@pytest.fixture(scope="session")
def settled(
    lived_in: Path,
    echoes: str,
    tmp_path_factory: pytest.TempPathFactory,
    shared_worlds: SharedWorlds,
) -> Path:
    """The same world after its effect was carried out."""
    path = tmp_path_factory.mktemp("settled") / "world"
    copied(lived_in, path)
    assert in_silence("run", "--until-idle", "--executors", echoes, "--world", path) == 0
    return shared_worlds.add(path)
