"""A small package that is compiled behaves as it does interpreted (spec/compiled.md)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from compiling import building
from compiling.building import ROOT, Unbuildable, build, compile_in, missing

THING = """
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    KIND: ClassVar = "thing"
    name: str
    parts: tuple[int, ...] = ()

    def bits(self) -> Iterator[int]:
        for part in self.parts:
            yield part + 1


class Schema:
    def twice(self) -> int:
        return self.one() * 2

    def one(self) -> int:
        return 1
"""

TRIAL = """
import copy, dataclasses, pickle, sys
sys.modules["mypy_extensions"] = None
from aos.core import thing
from aos.values.compiled import IS_COMPILED

one = thing.Thing(name="a", parts=(1, 2))
print(IS_COMPILED, thing.__file__.endswith(".py"))
print(one, one == thing.Thing(name="a", parts=(1, 2)), hash(one) == hash(copy.deepcopy(one)))
print(dataclasses.replace(one, name="b"), pickle.loads(pickle.dumps(one)) == one)
seven = type("Seven", (thing.Schema,), {"one": lambda _: 7})()
print(thing.Thing.KIND, list(one.bits()), seven.twice())
try:
    one.name = "c"
except dataclasses.FrozenInstanceError as error:
    print(error)
try:
    thing.Thing(parts=())
except TypeError:
    print("a name is missing")
"""


@pytest.fixture
def tools() -> None:
    if lacking := missing():
        pytest.skip("; ".join(lacking))


def package(folder: Path, thing: str = THING) -> Path:
    for name in ("", "core", "values"):
        (folder / "aos" / name).mkdir(parents=True, exist_ok=True)
        (folder / "aos" / name / "__init__.py").touch()
    shutil.copy(ROOT / "kernel" / "aos" / "values" / "compiled.py", folder / "aos" / "values")
    (folder / "aos" / "core" / "thing.py").write_text(thing, encoding="utf-8")
    return folder


def tried(folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", TRIAL],
        cwd=folder,
        env={},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


@pytest.mark.usefixtures("tools")
def test_compiled_classes_behave_as_their_sources_do(tmp_path: Path) -> None:
    interpreted = tried(package(tmp_path / "plain"))
    compile_in(package(tmp_path / "quick"))
    compiled = tried(tmp_path / "quick")
    source = tmp_path / "quick" / "aos" / "core" / "thing.py"
    assert source.read_text(encoding="utf-8") == THING
    assert interpreted[0] == "False True"
    assert compiled[0] == "True False"
    assert interpreted[1:] == compiled[1:]
    assert len(compiled) == 6
    assert "[2, 3] 14" in compiled[3]


@pytest.mark.usefixtures("tools")
def test_a_generator_that_would_be_read_at_once_is_refused(tmp_path: Path) -> None:
    lazy = THING + "\n\ndef lazily(n: int) -> Iterator[int]:\n    return (i for i in range(n))\n"
    with pytest.raises(Unbuildable, match=r"aos/core/thing.py:\d+: warning: .* as list"):
        compile_in(package(tmp_path, lazy))


@pytest.mark.usefixtures("tools")
def test_code_with_a_type_error_is_not_compiled(tmp_path: Path) -> None:
    with pytest.raises(Unbuildable, match=r"thing.py:\d+: error"):
        compile_in(package(tmp_path, THING + "\nNUMBER: int = 'text'\n"))


def test_missing_tools_are_named_and_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "/no/compiler -m64")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    monkeypatch.setattr(building, "_has", lambda _: False)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(Unbuildable) as problem:
        build(out)
    words = str(problem.value)
    assert "no C compiler /no/compiler (Debian: apt-get install gcc libc6-dev)" in words
    assert "Python.h" in words
    assert "no mypyc (pip install -r kernel/compiling/requirements.txt)" in words
    assert list(tmp_path.iterdir()) == [out]
