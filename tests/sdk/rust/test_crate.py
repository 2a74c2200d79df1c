"""The crate as its authors meet it: its own tests, and what the compiler says (SR-30 to SR-32)."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from aos.author.errors import ToolMissing
from aos.author.toolchain import FOREIGN, Toolchain, find_toolchain
from tests.modules.guests import CRATES_WITH_TESTS, ROOT
from tests.run_seed import rotated
from tests.tools import missing

pytestmark = pytest.mark.rotated(3)

HERE: Final = Path(__file__).parent
MODULES: Final = ROOT / "modules"
TARGET: Final = MODULES / "target/host"
EXPECT: Final = "// expect: "
"""Words of the compiler's that a program must be refused with."""
FIRST: Final = "// first: "
"""Words with which the compiler must begin: the remedy comes before every explanation."""
ONLY: Final = "// only"
"""The program has no other error."""
PLACE: Final = "// here"
"""The line that it must point to."""

REFUSED: Final = sorted(path.stem for path in (HERE / "refused").glob("*.rs"))
ACCEPTED: Final = sorted(path.stem for path in (HERE / "accepted").glob("*.rs"))
EDITIONS: Final = ("2021", "2024")


@dataclass(frozen=True)
class Compiler:
    """The SDK, compiled for this machine, and the compiler for programs that use it."""

    rustc: Path
    library: Path

    def check(self, program: Path, into: Path, edition: str = "2021") -> tuple[int, str]:
        ran = subprocess.run(
            [
                self.rustc, program, "--edition", edition, "--crate-type", "lib",
                "--emit", "metadata", "--out-dir", into, "--color", "never",
                "--extern", f"aos_sdk={self.library}",
                "-L", f"dependency={self.library.parent / 'deps'}",
            ],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "CARGO_PKG_NAME": "program"},
        )  # fmt: skip
        return ran.returncode, ran.stderr


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    try:
        return find_toolchain()
    except ToolMissing as problem:
        missing(str(problem))


def cargo(toolchain: Toolchain, *arguments: str) -> str:
    """Run cargo, which must succeed, and return its output."""
    environment = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
    rustdoc = toolchain.rustc.with_name("rustdoc")
    environment |= {"RUSTC": str(toolchain.rustc), "RUSTDOC": str(rustdoc)}
    options = ["--package", "aos-sdk", "--locked", "--offline", "--quiet"]
    ran = subprocess.run(
        [str(toolchain.cargo), *arguments, *options, "--target-dir", str(TARGET)],
        cwd=MODULES,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said: str = ran.stdout
    return said


@pytest.fixture(scope="module")
def compiler(toolchain: Toolchain) -> Compiler:
    said = cargo(toolchain, "build", "--message-format=json-render-diagnostics")
    for line in said.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["target"]["name"] == "aos_sdk":
            [library] = [Path(file) for file in message["filenames"] if file.endswith(".rlib")]
            return Compiler(toolchain.rustc, library)
    raise AssertionError(said)


@pytest.mark.long
@pytest.mark.skipif("aos-sdk" not in rotated(CRATES_WITH_TESTS), reason="the day of the codec")
def test_its_own_tests_and_the_examples_of_its_manual_pass(toolchain: Toolchain) -> None:
    has_rustdoc = toolchain.rustc.with_name("rustdoc").exists()

    said = cargo(
        toolchain, "test", "--features", "untyped", *([] if has_rustdoc else ["--lib", "--tests"])
    )

    assert said.count("test result: ok") >= (3 if has_rustdoc else 2), said


@pytest.mark.parametrize("name", REFUSED)
def test_a_program_that_must_not_compile_says_why(
    name: str, compiler: Compiler, tmp_path: Path
) -> None:
    program = HERE / f"refused/{name}.rs"
    lines = program.read_text().splitlines()
    expected = [line.removeprefix(EXPECT) for line in lines if line.startswith(EXPECT)]
    first = [line.removeprefix(FIRST) for line in lines if line.startswith(FIRST)]
    places = [number for number, line in enumerate(lines, 1) if PLACE in line]

    code, said = compiler.check(program, tmp_path)

    assert code != 0
    assert expected or first
    for words in expected:
        assert words in said, said
    if first:
        headline, arrow, *_ = said.splitlines()
        assert re.fullmatch(f"error.*: {re.escape(first[0])}", headline), said
        assert f"{name}.rs:{places[0]}:" in arrow, said
    if ONLY in lines:
        assert "aborting due to 1 previous error" in said, said
    for place in places:
        assert f"{name}.rs:{place}:" in said, said


@pytest.mark.parametrize("edition", EDITIONS)
@pytest.mark.parametrize("name", ACCEPTED)
def test_a_program_that_must_compile_does_without_a_warning(
    name: str, edition: str, compiler: Compiler, tmp_path: Path
) -> None:
    code, said = compiler.check(HERE / f"accepted/{name}.rs", tmp_path, edition)

    assert (code, said) == (0, "")
