"""The wheel suffices for projects, worlds and the demo; no checkout is needed (AU-22, C-53)."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path

import pytest

from aos.author.new import new_project
from aos.author.project import LANGUAGES, RUST
from tests.author.fakes import ROOT
from tests.author.real import LIFETIMES, check_tools, others_day
from tests.author.test_new import tree
from tests.gateway.real_chain import require_anvil
from tests.tools import long_form, missing


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    [made] = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The wheel, unpacked as an installer does it."""
    folder = wheel.parent / "site"
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def alone(wheel: Path) -> Path:
    """A virtual environment with the wheel, and the dependencies of the tests' environment."""
    folder = wheel.parent / "alone"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin/python"
    # A folder that a .pth file adds is not searched for .pth files, such as that of the checkout.
    [site] = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command: list[str | Path] = [sys.executable, "-m", "pip", "--python", python]
    offline = [
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--ignore-installed",
        "--disable-pip-version-check",
    ]
    subprocess.run([*command, *offline, wheel], check=True, stdin=subprocess.DEVNULL)
    return folder


def aos(
    alone: Path, *words: str | Path, cwd: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the installed ``aos`` with an environment that names no checkout."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AOS"))
    }
    environment["AOS_CACHE_DIR"] = os.environ["AOS_CACHE_DIR"]  # else it builds Rust's library
    return subprocess.run(
        [alone / "bin/aos", *words],
        cwd=cwd,
        env={**environment, "NO_COLOR": "1", **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(("lang", "is_flow"), [*((lang, None) for lang in LANGUAGES), (RUST, True)])
def test_an_installed_aos_makes_the_same_project_as_a_checkout(
    installed: Path, tmp_path: Path, lang: str, *, is_flow: bool | None
) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(installed)!r})
from pathlib import Path
import aos.author.new
assert aos.author.new.__file__.startswith({str(installed)!r})
aos.author.new.new_project(Path("shop"), lang={lang!r}, is_flow={is_flow})
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    (tmp_path / "checkout").mkdir()
    new_project(tmp_path / "checkout" / "shop", lang=lang, is_flow=is_flow)

    assert tree(tmp_path / "shop") == tree(tmp_path / "checkout" / "shop")


def test_nothing_that_was_built_in_a_checkout_is_installed(installed: Path) -> None:
    names = [each.relative_to(installed).as_posix() for each in installed.rglob("*")]

    assert not [name for name in names if "node_modules" in name or "/target" in name]
    assert (installed / "aos/author/templates/common/gitignore").is_file()


def test_the_second_core_is_installed_built(installed: Path) -> None:
    core = (installed / "aos/fastcore/core.wasm").read_bytes()

    assert core == (ROOT / "kernel/aos/fastcore/core.wasm").read_bytes()
    assert not [name for name in installed.rglob("*") if "rust-core" in name.parts]


def test_the_interpreter_is_installed_with_its_licence(installed: Path) -> None:
    """AU-67"""
    folder = installed / "aos/author/pyflow"
    [metadata] = installed.glob("*.dist-info/licenses")

    committed = (ROOT / "modules/pyflow/pyflow.wasm").read_bytes()
    assert (folder / "pyflow.wasm").read_bytes() == committed
    licence = (folder / "LICENSE-monty.txt").read_text()
    assert "MIT License\n\nCopyright (c) Pydantic Services Inc." in licence
    lock = (ROOT / "modules/pyflow/crates.lock").read_text()
    [version] = re.findall(r'name = "monty"\nversion = "(.*)"', lock)
    assert f'"monty" {version} ' in licence
    assert [file.read_text() for file in metadata.rglob("LICENSE-monty.txt")] == [licence]


def test_a_project_in_python_is_built_with_the_wheel_alone(alone: Path, tmp_path: Path) -> None:
    """AU-63: there is no compiler on the PATH, and no checkout."""
    made = aos(alone, "new", "tea-shop", "--lang", "python", cwd=tmp_path, PATH="")
    built = aos(alone, "build", "tea-shop", cwd=tmp_path, PATH="")

    assert (made.returncode, built.returncode) == (0, 0), built.stderr
    assert "build/tea-shop.wasm" in built.stdout


def test_the_demo_runs_from_the_wheel(alone: Path, tmp_path: Path) -> None:
    """C-53"""
    ran = aos(alone, "demo", "--orders", "20", cwd=tmp_path)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "checks hold" in ran.stdout
    assert str(ROOT) not in ran.stdout + ran.stderr
    assert f"aos apply {alone}/lib/python" in ran.stdout


def test_the_gateway_demo_has_its_files_in_the_wheel(alone: Path, tmp_path: Path) -> None:
    """C-126"""
    [folder] = alone.glob("lib/python*/site-packages/aos_gateway/shipped/manifests/gateway")
    asked = aos(alone, "gateway", "demo", cwd=tmp_path, AOS_ANVIL=str(tmp_path / "none"))
    world = aos(alone, "init", "w", cwd=tmp_path)
    applied = aos(alone, "apply", folder, "--world", "w", cwd=tmp_path)

    assert asked.returncode == 4
    assert "the demo needs anvil" in asked.stderr
    assert (world.returncode, applied.returncode) == (0, 0), applied.stderr
    for name in ("chain", "mischief", "arweave_stub", "make_requests", "check"):
        command = [str(alone / "bin/python"), str(folder / f"{name}.py"), "--help"]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0, name


@pytest.mark.long
@pytest.mark.skipif(not long_form(), reason="tests/gateway/test_demo.py runs the demo: 20 s")
def test_the_gateway_demo_runs_from_the_wheel(alone: Path, tmp_path: Path) -> None:
    """C-126"""
    anvil = require_anvil()

    ran = aos(
        alone, "gateway", "demo", "--works", "4", "--scores", "2", cwd=tmp_path,
        AOS_ANVIL=str(anvil),
    )  # fmt: skip

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "checks hold" in ran.stdout
    assert str(ROOT / "manifests") not in ran.stdout + ran.stderr
    assert f"aos apply {alone}/lib/python" in ran.stdout


def test_a_project_and_a_world_need_the_wheel_alone(alone: Path, tmp_path: Path) -> None:
    made = aos(alone, "new", "tea-shop", "--lang", "rust", cwd=tmp_path)
    stale = aos(alone, "apply", "tea-shop", cwd=tmp_path)
    [orders] = alone.glob("lib/python*/site-packages/aos_cli/demo/shipped/manifests/orders")
    world = aos(alone, "init", "w", cwd=tmp_path)
    applied = aos(alone, "apply", orders, "--world", "w", cwd=tmp_path)

    assert (made.returncode, world.returncode, applied.returncode) == (0, 0, 0), applied.stderr
    assert stale.returncode == 1
    assert "tea-shop is stale: it has not been built yet (run aos build " in stale.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    "lang",
    [pytest.param(lang, marks=others_day(("wheel", lang), LIFETIMES)) for lang in LANGUAGES],
)
def test_a_template_is_built_tested_and_applied_with_the_wheel_alone(
    alone: Path, tmp_path: Path, lang: str
) -> None:
    check_tools(lang)
    folder = tmp_path / "tea-shop"
    assert aos(alone, "new", "tea-shop", "--lang", lang, cwd=tmp_path).returncode == 0
    tested = aos(alone, "test", cwd=folder)
    if "npm ci failed" in tested.stderr:
        missing(f"npm cannot install AssemblyScript here: {tested.stderr}")

    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert aos(alone, "init", "world", cwd=folder).returncode == 0
    applied = aos(alone, "apply", ".", "--world", "world", cwd=folder)
    assert applied.returncode == 0, applied.stderr


EFFECTS = """
from aos.worker import EffectContext, Executors, effect
from aos_cli.extension import Command


@effect("shop/charge@1")
async def charge(params: dict[str, str], ctx: EffectContext) -> dict[str, str]:
    return {"key": ctx.idempotency_key}


shop: Executors = Executors("shop", [charge])
command = Command("shop", "Sell.")
"""


def test_a_type_checker_finds_a_misspelled_name_in_code_of_a_user(
    alone: Path, installed: Path, tmp_path: Path
) -> None:
    """The packages have their types."""
    assert all((installed / name / "py.typed").is_file() for name in ("aos_cli", "aos_gateway"))
    (tmp_path / "good.py").write_text(EFFECTS)
    (tmp_path / "bad.py").write_text(EFFECTS.replace("ctx.idempotency_key", "ctx.idempotency_kye"))

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache",
         "--python-executable", alone / "bin/python", "good.py", "bad.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert checked.stdout == (
        'bad.py:8: error: "EffectContext" has no attribute "idempotency_kye"; maybe '
        '"idempotency_key"?  [attr-defined]\n'
        "Found 1 error in 1 file (checked 2 source files)\n"
    )


def test_the_metadata_name_licence_and_description(installed: Path) -> None:
    [file] = installed.glob("*.dist-info/METADATA")
    found = message_from_string(file.read_text())

    assert found["License-Expression"] == "Apache-2.0"
    assert found["License-File"] == "LICENSE"
    assert (file.parent / "licenses/LICENSE").is_file()
    assert found["Summary"]
    assert str(found.get_payload()).startswith("# ")
    assert found.get_all("Project-URL") is found["Home-page"] is None
    assert found.get_all("Provides-Extra") == ["cluster", "evm", "gateway", "otel", "timestamp"]


PAGE = re.compile(r"(?<!/v1/)\b(spec|manifests|modules|kernel|benchmarks)/\w|\w+\.md\b")
"""A path in the repository, or a page."""


def texts(file: Path) -> Iterator[str]:
    """The texts of a Python file except for docstrings."""
    tree = ast.parse(file.read_text())
    statements = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for each in ast.walk(tree):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value if id(each) not in statements else ""


def test_no_help_message_or_template_names_a_page_that_is_not_installed(installed: Path) -> None:
    of_packages = {
        file: "\n".join(texts(file))
        for package in ("aos", "aos_cli", "aos_gateway")
        for file in (installed / package).rglob("*.py")
        if "shipped" not in file.parts
    }
    templates = {
        file: file.read_text() for file in (installed / "aos/author/templates").rglob("*.toml")
    }
    found = {
        f"{file.relative_to(installed)}: {match[0]}"
        for file, text in {**of_packages, **templates}.items()
        for match in PAGE.finditer(text)
        if match[0] != "README.md"  # of a project
    }

    assert len(of_packages) > 200
    assert found == set()
